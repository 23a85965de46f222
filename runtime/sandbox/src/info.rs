//! The description a plug-in gives of itself, checked: every problem is reported, not the first.

use std::collections::HashSet;

use perpend_domain::plugin::{EvaluatorInfo, ModelSlot, PluginInfo, ScoreDomain, ScoreSpec};
use perpend_worker_protocol::ComponentProblem;
use serde_json::Value;
use wasmtime::Engine;
use wasmtime::component::Component;

const MAX_EVALUATORS: usize = 64;
const MAX_BYTES: usize = 1 << 20;
const MAX_NAME_BYTES: usize = 256;
const NAME: &str = "1 to 64 of a-z, 0-9 and -";

/// Adds what the component shows of itself without being asked: the capabilities it can ask for, and
/// whether it checks configurations.
pub(crate) fn add_seen(info: &mut PluginInfo, component: &Component, engine: &Engine) {
    let shape = component.component_type();
    for (name, _) in shape.imports(engine) {
        let interface = name.split_once('@').map_or(name, |(path, _)| path);
        match interface {
            "perpend:evaluator/model" => info.capabilities.model = true,
            "perpend:evaluator/trace-reader"
            | "perpend:evaluator/session-reader"
            | "perpend:evaluator/run-reader" => info.capabilities.trace_reader = true,
            _ => {}
        }
    }
    info.checks_config =
        shape.exports(engine).any(|(name, _)| name.starts_with("perpend:evaluator/config-check@"));
}

/// Everything that is wrong with `info`.
pub(crate) fn problems(info: &PluginInfo) -> Vec<ComponentProblem> {
    let mut found = Vec::new();
    let size = postcard::experimental::serialized_size(info).unwrap_or(usize::MAX);
    if MAX_BYTES < size {
        found.push(ComponentProblem::new("describe", format!("{size} bytes, the limit is 1 MiB")));
        return found;
    }
    let named =
        info.name.split_once('/').is_some_and(|(vendor, name)| is_name(vendor) && is_name(name));
    if !named {
        found.push(ComponentProblem::new(
            "name",
            format!("{:?} is not vendor/name, each {NAME}", info.name),
        ));
    }
    if let Err(error) = semver::Version::parse(&info.version) {
        let message = format!("{:?} is not a semantic version: {error}", info.version);
        found.push(ComponentProblem::new("version", message));
    }
    if info.evaluators.is_empty() || MAX_EVALUATORS < info.evaluators.len() {
        let message =
            format!("{} evaluators, 1 to {MAX_EVALUATORS} are possible", info.evaluators.len());
        found.push(ComponentProblem::new("evaluators", message));
    }
    let mut ids = HashSet::new();
    for evaluator in &info.evaluators {
        let at = format!("evaluators[{:?}]", evaluator.id);
        if !is_name(&evaluator.id) || !evaluator.id.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(ComponentProblem::new(
                format!("{at}.id"),
                format!("not {NAME}, a letter first"),
            ));
        }
        if !ids.insert(&evaluator.id) {
            found.push(ComponentProblem::new(format!("{at}.id"), "the same identifier twice"));
        }
        check_evaluator(evaluator, &at, &mut found);
    }
    found
}

fn check_evaluator(evaluator: &EvaluatorInfo, at: &str, found: &mut Vec<ComponentProblem>) {
    if let Err(message) = check_schema(&evaluator.config_schema) {
        found.push(ComponentProblem::new(format!("{at}.config-schema"), message));
    }
    let mut names = HashSet::new();
    for ModelSlot { name, .. } in &evaluator.slots {
        if !is_name(name) {
            found.push(ComponentProblem::new(
                format!("{at}.slots[{name:?}]"),
                format!("not {NAME}"),
            ));
        }
        if !names.insert(name) {
            found.push(ComponentProblem::new(
                format!("{at}.slots[{name:?}]"),
                "the same slot twice",
            ));
        }
    }
    if evaluator.scores.is_empty() && !evaluator.dynamic_scores {
        let message = "no score is declared and dynamic-scores is not set";
        found.push(ComponentProblem::new(format!("{at}.scores"), message));
    }
    let mut names = HashSet::new();
    for spec in &evaluator.scores {
        let at = format!("{at}.scores[{:?}]", spec.name);
        if !names.insert(&spec.name) {
            found.push(ComponentProblem::new(&at, "the same score twice"));
        }
        found.extend(check_score(spec).map(|message| ComponentProblem::new(&at, message)));
    }
}

fn check_score(spec: &ScoreSpec) -> impl Iterator<Item = String> {
    let mut wrong = Vec::new();
    if spec.name.trim().is_empty()
        || MAX_NAME_BYTES < spec.name.len()
        || spec.name.chars().any(char::is_control)
    {
        wrong.push(format!("a name has 1 to {MAX_NAME_BYTES} bytes and no control characters"));
    }
    match &spec.domain {
        ScoreDomain::Numeric { min, max, .. } => {
            if [min, max].into_iter().flatten().any(|end| !end.is_finite()) {
                wrong.push("both ends of the range have to be finite".into());
            } else if let (Some(min), Some(max)) = (min, max)
                && max < min
            {
                wrong.push(format!("the range {min} to {max} is empty"));
            }
        }
        ScoreDomain::Boolean => {}
        ScoreDomain::Categorical(values) => {
            let mut seen = HashSet::new();
            for value in values {
                if value.is_empty() || MAX_NAME_BYTES < value.len() {
                    wrong.push(format!("a category has 1 to {MAX_NAME_BYTES} bytes"));
                }
                if !seen.insert(value) {
                    wrong.push(format!("the category {value:?} twice"));
                }
            }
        }
    }
    wrong.into_iter()
}

fn check_schema(text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("a configuration is an object: \"type\" has to be \"object\"".into());
    }
    match perpend_json_schema::Schema::of_2020_12(&schema) {
        Ok(_) => Ok(()),
        Err(unusable) => Err(unusable.to_string()),
    }
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
