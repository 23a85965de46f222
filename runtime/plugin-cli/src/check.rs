//! `perpend plugin check`: everything a server checks when a component is registered, and determinism.

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
use crate::workbench::{Component, Configured, Selection, Workbench, given_config};

/// Items that are tried at most.
const MAX_ITEMS: usize = 20;
/// Larger ones are taken, and take long to compile and to move.
const LARGE_BYTES: usize = 32 << 20;

/// Outcome of one thing that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Fine,
    /// Good to know; does not fail the check.
    Note,
    Wrong,
}

#[derive(Debug)]
struct Finding {
    what: &'static str,
    found: Found,
    text: String,
}

impl Finding {
    fn new(what: &'static str, found: Found, text: impl Into<String>) -> Self {
        Self { what, found, text: text.into() }
    }
}

impl Workbench<'_> {
    /// Checks a component as a server would when it is registered; then scores items twice and compares.
    ///
    /// # Errors
    /// When it cannot be registered, with every reason.
    pub fn check(&self, selection: &Selection) -> Result<Report, Error> {
        let component = self.open(&selection.component())?;
        let mut findings = about(&component);
        self.sandbox.script().begin(None);
        let items = match selection.items() {
            file if selection.items.is_some() || file.is_file() => items::items(&file)?,
            _ => samples(),
        };
        let wanted = selection.evaluator.as_deref();
        if wanted.is_some() {
            component.evaluator(wanted)?;
        }
        for evaluator in &component.info.evaluators {
            if wanted.is_some_and(|id| id != evaluator.id) {
                continue;
            }
            let needs = component.info.required(evaluator);
            if needs != Grants::NONE {
                let text = format!(
                    "{}: not tried, it cannot work without the capability {}",
                    evaluator.id,
                    needs.names().join(" and ")
                );
                findings.push(Finding::new("determinism", Found::Note, text));
                continue;
            }
            let (config, place) = given_config(selection.config.as_deref())?;
            match self.configure(&component, evaluator, config, &place) {
                Ok(configured) => findings.push(self.twice(&component, &configured, &items)),
                // Asked for, so it has to do; else there is no configuration to try it with.
                Err(error) if selection.config.is_some() && wanted.is_some() => return Err(error),
                Err(_) => {
                    let id = &evaluator.id;
                    let text = format!(
                        "{id}: not tried, it has no configuration of its own: `perpend plugin check \
                         --evaluator {id} --config JSON`"
                    );
                    findings.push(Finding::new("determinism", Found::Note, text));
                }
            }
        }
        Ok(told(&component, &findings))
    }

    /// The same items in two passes, with the same seeds and time.
    fn twice(&self, component: &Component, configured: &Configured<'_>, items: &[Item]) -> Finding {
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
            let text = format!("{id}: item {item} ends in {class}: {message}");
            return Finding::new("calls", Found::Wrong, text);
        }
        let second = self.score(component, configured, items);
        let mut pairs = first.iter().zip(&second).zip(items);
        let changed = pairs.find(|((one, other), _)| bytes(one) != bytes(other));
        let n = text::counted(items.len(), "item");
        match (changed, configured.evaluator.deterministic) {
            (None, true) => Finding::new(WHAT, Found::Fine, format!("{id}: {n} twice, byte-equal")),
            (None, false) => {
                let text = format!(
                    "{id}: {n} twice, byte-equal; it says that it is not deterministic, so results are \
                     never reused"
                );
                Finding::new(WHAT, Found::Note, text)
            }
            (Some((_, item)), false) => {
                let item = text::inert(&item.id);
                let text = format!("{id}: item {item} differs, as it says of itself");
                Finding::new(WHAT, Found::Note, text)
            }
            (Some(((one, other), item)), true) => {
                let item = text::inert(&item.id);
                let text = format!(
                    "{id}: item {item} gave two answers to one call: {} and {}. Seed random generators \
                     from the context, or declare deterministic: false",
                    bytes(one),
                    bytes(other)
                );
                Finding::new(WHAT, Found::Wrong, text)
            }
        }
    }
}

/// What the file shows without being run, and what it says about itself.
fn about(component: &Component) -> Vec<Finding> {
    let mut findings = Vec::new();
    let size = text::size(component.bytes.len() as u64);
    let is_large = LARGE_BYTES < component.bytes.len();
    let found = if is_large { Found::Note } else { Found::Fine };
    let more = if is_large { ", which takes long to compile" } else { "" };
    findings.push(Finding::new("size", found, format!("{size} of at most 64 MiB{more}")));
    let shape = Shape::of(&component.bytes);
    let world = format!("{} of contract {CONTRACT_VERSION}", shape.world());
    findings.push(Finding::new("world", Found::Fine, world));
    findings.push(Finding::new("imports", Found::Fine, shape.imports()));
    let capabilities = component.info.capabilities.names();
    if !capabilities.is_empty() {
        let granted: Vec<String> = capabilities.iter().map(|name| format!("{name:?}")).collect();
        let text = format!(
            "asks for {}; an evaluator made from it is granted them with \"grants\": [{}]",
            capabilities.join(" and "),
            granted.join(", ")
        );
        findings.push(Finding::new("capabilities", Found::Note, text));
    }
    let name = component.shown_name();
    findings.push(Finding::new("metadata", Found::Fine, name));
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
        findings.push(Finding::new("schema", Found::Fine, text));
    }
    findings
}

fn config_keys(schema: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema).unwrap_or_default();
    let keys = schema["properties"].as_object().map(Map::keys);
    keys.into_iter().flatten().cloned().collect()
}

/// Whether the end of a call says that the plug-in itself is at fault.
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

/// The outcome as bytes, numbers bit by bit.
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

/// What is tried where a project has no items: a text, a document, and nothing at all.
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

fn told(component: &Component, findings: &[Finding]) -> Report {
    let file = &component.file;
    let mut text = format!("{file}  sha256:{}\n", component.digest);
    let mut all = Vec::new();
    for finding in findings {
        let word = match finding.found {
            Found::Fine => "ok",
            Found::Note => "note",
            Found::Wrong => "FAILED",
        };
        let shown = text::inert(&finding.text);
        let _ = writeln!(text, "{word:<7} {:<13} {shown}", finding.what);
        let word = word.to_lowercase();
        all.push(json!({ "what": finding.what, "outcome": word, "text": finding.text }));
    }
    let n_wrong = findings.iter().filter(|finding| finding.found == Found::Wrong).count();
    let verdict = match n_wrong {
        0 => "a server takes it".to_owned(),
        n => format!("{} to mend", text::counted(n, "thing")),
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
