//! `perpend plugin check`: the checks of a registration, and determinism.

use std::fmt::Write as _;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    CONTRACT_VERSION, CallResult, FailureClass, Grants, Item, PluginScoreValue,
};
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::items;
use crate::report::Report;
use crate::shape::Shape;
use crate::text;
use crate::workbench::{CheckedConfig, Component, Selection, Workbench, parse_config};

/// The maximum number of items for the test of determinism.
const MAX_ITEMS: usize = 20;
/// Larger components are accepted, but slow to compile and to transfer.
const LARGE_BYTES: usize = 32 << 20;

/// The outcome of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Pass,
    /// A remark that does not fail the check.
    Note,
    Failure,
}

#[derive(Debug)]
struct Finding {
    what: &'static str,
    found: Outcome,
    text: String,
}

impl Finding {
    fn new(what: &'static str, found: Outcome, text: impl Into<String>) -> Self {
        Self { what, found, text: text.into() }
    }
}

impl Workbench<'_> {
    /// Runs the checks of a registration, then scores items twice and compares the results.
    ///
    /// # Errors
    /// When the component cannot be registered, with all reasons.
    pub fn check(&self, selection: &Selection) -> Result<Report, Error> {
        let component = self.open(&selection.component())?;
        let mut findings = describe(&component);
        self.sandbox.script().begin(None);
        let items = match selection.items() {
            file if selection.items.is_some() || file.is_file() => items::items(&file)?,
            _ => samples(),
        };
        let selected = selection.evaluator.as_deref();
        if selected.is_some() {
            component.evaluator(selected)?;
        }
        for evaluator in &component.info.evaluators {
            if selected.is_some_and(|id| id != evaluator.id) {
                continue;
            }
            let needs = component.info.required(evaluator);
            if needs != Grants::NONE {
                let text = format!(
                    "{}: skipped, it requires the capability {}",
                    evaluator.id,
                    needs.names().join(" and ")
                );
                findings.push(Finding::new("determinism", Outcome::Note, text));
                continue;
            }
            let (config, place) = parse_config(selection.config.as_deref())?;
            match self.configure(&component, evaluator, config, &place) {
                Ok(configured) => {
                    findings.push(self.check_determinism(&component, &configured, &items))
                }
                // An explicit selection must be valid; otherwise there is no configuration to run it with.
                Err(error) if selection.config.is_some() && selected.is_some() => {
                    return Err(error);
                }
                Err(_) => {
                    let id = &evaluator.id;
                    let text = format!(
                        "{id}: skipped, it has no default configuration: `perpend plugin check \
                         --evaluator {id} --config JSON`"
                    );
                    findings.push(Finding::new("determinism", Outcome::Note, text));
                }
            }
        }
        Ok(render(&component, &findings))
    }

    /// Scores the items twice, with the same seeds and time.
    fn check_determinism(
        &self,
        component: &Component,
        configured: &CheckedConfig<'_>,
        items: &[Item],
    ) -> Finding {
        const WHAT: &str = "determinism";
        let items = &items[..items.len().min(MAX_ITEMS)];
        let id = &configured.evaluator.id;
        let first = self.score(component, configured, items);
        let broken = items.iter().zip(&first).find_map(|(item, result)| match &result.outcome {
            Err(failure) if blames_plugin(failure.class) => Some((item, failure)),
            _ => None,
        });
        if let Some((item, failure)) = broken {
            let (class, message) = (failure.class, text::inert(&failure.message));
            let item = text::inert(&item.id);
            let text = format!("{id}: item {item} fails with {class}: {message}");
            return Finding::new("calls", Outcome::Failure, text);
        }
        let second = self.score(component, configured, items);
        let mut pairs = first.iter().zip(&second).zip(items);
        let changed = pairs.find(|((one, other), _)| bytes(one) != bytes(other));
        let n = text::pluralized(items.len(), "item");
        match (changed, configured.evaluator.deterministic) {
            (None, true) => {
                Finding::new(WHAT, Outcome::Pass, format!("{id}: {n} scored twice, equal"))
            }
            (None, false) => {
                let text = format!(
                    "{id}: {n} scored twice, equal; it is declared as not deterministic, so results are \
                     never reused"
                );
                Finding::new(WHAT, Outcome::Note, text)
            }
            (Some((_, item)), false) => {
                let item = text::inert(&item.id);
                let text = format!("{id}: item {item} differs, as declared");
                Finding::new(WHAT, Outcome::Note, text)
            }
            (Some(((one, other), item)), true) => {
                let item = text::inert(&item.id);
                let text = format!(
                    "{id}: item {item} has different results of equal calls: {} and {}. Seed random generators \
                     from the context, or declare deterministic: false",
                    bytes(one),
                    bytes(other)
                );
                Finding::new(WHAT, Outcome::Failure, text)
            }
        }
    }
}

/// The properties of the file and its description.
fn describe(component: &Component) -> Vec<Finding> {
    let mut findings = Vec::new();
    let size = text::size(component.bytes.len() as u64);
    let is_large = LARGE_BYTES < component.bytes.len();
    let found = if is_large { Outcome::Note } else { Outcome::Pass };
    let more = if is_large { ", which takes long to compile" } else { "" };
    findings.push(Finding::new("size", found, format!("{size} of at most 64 MiB{more}")));
    let shape = Shape::of(&component.bytes);
    let world = format!("{} of contract {CONTRACT_VERSION}", shape.world());
    findings.push(Finding::new("world", Outcome::Pass, world));
    findings.push(Finding::new("imports", Outcome::Pass, shape.imports()));
    let capabilities = component.info.capabilities.names();
    if !capabilities.is_empty() {
        let granted: Vec<String> = capabilities.iter().map(|name| format!("{name:?}")).collect();
        let text = format!(
            "requires {}; grant them to an evaluator with \"grants\": [{}]",
            capabilities.join(" and "),
            granted.join(", ")
        );
        findings.push(Finding::new("capabilities", Outcome::Note, text));
    }
    let name = component.shown_name();
    findings.push(Finding::new("metadata", Outcome::Pass, name));
    for evaluator in &component.info.evaluators {
        let scores: Vec<&str> = evaluator.scores.iter().map(|score| score.name.as_str()).collect();
        let keys = config_keys(&evaluator.config_schema);
        let config = if keys.is_empty() { "none".to_owned() } else { keys.join(", ") };
        let scores = match (scores.is_empty(), evaluator.dynamic_scores) {
            (true, _) => "named by its configuration".to_owned(),
            (false, true) => format!("{} and others", scores.join(", ")),
            (false, false) => scores.join(", "),
        };
        let text = format!("{}: scores {scores}; configuration: {config}", evaluator.id);
        findings.push(Finding::new("schema", Outcome::Pass, text));
    }
    findings
}

fn config_keys(schema: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let keys = schema["properties"].as_object().map(Map::keys);
    keys.into_iter().flatten().cloned().collect()
}

/// Whether a failure is caused by the plug-in itself.
fn blames_plugin(class: FailureClass) -> bool {
    use FailureClass as Class;
    !matches!(
        class,
        Class::InvalidConfig
            | Class::InvalidInput
            | Class::NotApplicable
            | Class::UpstreamUnavailable
    )
}

/// The outcome as text, with the exact bits of numbers.
fn bytes(result: &CallResult) -> String {
    match &result.outcome {
        Ok(scores) => {
            let scores: Vec<Value> = scores
                .iter()
                .map(|score| {
                    let bits = match score.value {
                        PluginScoreValue::Numeric(number) => Some(number.to_bits()),
                        _ => None,
                    };
                    let mut shown = json!(score);
                    if let Some(bits) = bits {
                        shown["bits"] = format!("{bits:x}").into();
                    }
                    shown
                })
                .collect();
            Value::from(scores).to_string()
        }
        Err(failure) => json!(failure).to_string(),
    }
}

/// The items for a project without items: a text, a document, and an empty item.
fn samples() -> Vec<Item> {
    let text = |text: &str| Some(Payload::Text(text.to_owned()));
    let json = |value: Value| Some(Payload::Json(value.to_string()));
    vec![
        Item {
            id: "sample-text".to_owned(),
            input: text("What is the capital of France?"),
            output: text("Paris is the capital of France."),
            expected_output: text("Paris"),
            metadata: Some("{\"source\":\"sample\"}".to_owned()),
            ..Item::default()
        },
        Item {
            id: "sample-json".to_owned(),
            input: json(json!({ "question": "2 + 2", "history": [] })),
            output: json(json!({ "answer": 4, "steps": ["2", "2"] })),
            expected_output: json(json!({ "answer": 4 })),
            ..Item::default()
        },
        Item { id: "sample-empty".to_owned(), ..Item::default() },
    ]
}

fn render(component: &Component, findings: &[Finding]) -> Report {
    let file = &component.file;
    let mut text = format!("{file}  sha256:{}\n", component.digest);
    let mut all = Vec::new();
    for finding in findings {
        let word = match finding.found {
            Outcome::Pass => "ok",
            Outcome::Note => "note",
            Outcome::Failure => "FAILED",
        };
        let shown = text::inert(&finding.text);
        let _ = writeln!(text, "{word:<7} {:<13} {shown}", finding.what);
        let word = word.to_lowercase();
        all.push(json!({ "what": finding.what, "outcome": word, "text": finding.text }));
    }
    let n_wrong = findings.iter().filter(|finding| finding.found == Outcome::Failure).count();
    let verdict = match n_wrong {
        0 => "a server accepts it".to_owned(),
        n => format!("{} to fix", text::pluralized(n, "problem")),
    };
    let _ = writeln!(text, "\n{}: {verdict}", component.shown_name());
    Report {
        text,
        json: json!({
            "file": file, "digest": component.digest, "sizeBytes": component.bytes.len(),
            "plugin": component.info, "contract": CONTRACT_VERSION, "findings": all,
        }),
        is_ok: n_wrong == 0,
    }
}
