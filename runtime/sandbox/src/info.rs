//! Validation of the description of a plug-in. All problems are reported.

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

/// Adds facts from the imports and exports of the component: its capabilities, and whether it checks configurations.
pub(crate) fn add_capabilities(info: &mut PluginInfo, component: &Component, engine: &Engine) {
    let component_type = component.component_type();
    for (name, _) in component_type.imports(engine) {
        let interface = name.split_once('@').map_or(name, |(path, _)| path);
        match interface {
            "perpend:evaluator/model" => info.capabilities.model = true,
            "perpend:evaluator/trace-reader"
            | "perpend:evaluator/session-reader"
            | "perpend:evaluator/run-reader" => info.capabilities.trace_reader = true,
            _ => {}
        }
    }
    info.checks_config = component_type
        .exports(engine)
        .any(|(name, _)| name.starts_with("perpend:evaluator/config-check@"));
}

/// All problems of `info`.
pub(crate) fn find_problems(info: &PluginInfo) -> Vec<ComponentProblem> {
    let mut problems = Vec::new();
    let size = postcard::experimental::serialized_size(info).unwrap_or(usize::MAX);
    if MAX_BYTES < size {
        problems
            .push(ComponentProblem::new("describe", format!("{size} bytes; the limit is 1 MiB")));
        return problems;
    }
    let named =
        info.name.split_once('/').is_some_and(|(vendor, name)| is_name(vendor) && is_name(name));
    if !named {
        problems.push(ComponentProblem::new(
            "name",
            format!("{:?} is not vendor/name, each {NAME}", info.name),
        ));
    }
    if let Err(error) = semver::Version::parse(&info.version) {
        let message = format!("{:?} is not a semantic version: {error}", info.version);
        problems.push(ComponentProblem::new("version", message));
    }
    if info.evaluators.is_empty() || MAX_EVALUATORS < info.evaluators.len() {
        let message = format!(
            "{} evaluators; a plug-in must have 1 to {MAX_EVALUATORS}",
            info.evaluators.len()
        );
        problems.push(ComponentProblem::new("evaluators", message));
    }
    let mut ids = HashSet::new();
    for evaluator in &info.evaluators {
        let at = format!("evaluators[{:?}]", evaluator.id);
        if !is_name(&evaluator.id) || !evaluator.id.starts_with(|c: char| c.is_ascii_lowercase()) {
            problems.push(ComponentProblem::new(
                format!("{at}.id"),
                format!("not {NAME}, starting with a letter"),
            ));
        }
        if !ids.insert(&evaluator.id) {
            problems.push(ComponentProblem::new(format!("{at}.id"), "duplicate identifier"));
        }
        check_evaluator(evaluator, &at, &mut problems);
    }
    problems
}

fn check_evaluator(evaluator: &EvaluatorInfo, at: &str, problems: &mut Vec<ComponentProblem>) {
    if let Err(message) = check_schema(&evaluator.config_schema) {
        problems.push(ComponentProblem::new(format!("{at}.config-schema"), message));
    }
    let mut names = HashSet::new();
    for ModelSlot { name, .. } in &evaluator.slots {
        if !is_name(name) {
            problems.push(ComponentProblem::new(
                format!("{at}.slots[{name:?}]"),
                format!("not {NAME}"),
            ));
        }
        if !names.insert(name) {
            problems.push(ComponentProblem::new(format!("{at}.slots[{name:?}]"), "duplicate slot"));
        }
    }
    if evaluator.scores.is_empty() && !evaluator.dynamic_scores {
        let message = "no score is declared and dynamic-scores is not set";
        problems.push(ComponentProblem::new(format!("{at}.scores"), message));
    }
    let mut names = HashSet::new();
    for spec in &evaluator.scores {
        let at = format!("{at}.scores[{:?}]", spec.name);
        if !names.insert(&spec.name) {
            problems.push(ComponentProblem::new(&at, "duplicate score"));
        }
        problems.extend(check_score(spec).map(|message| ComponentProblem::new(&at, message)));
    }
}

fn check_score(spec: &ScoreSpec) -> impl Iterator<Item = String> {
    let mut problems = Vec::new();
    if spec.name.trim().is_empty()
        || MAX_NAME_BYTES < spec.name.len()
        || spec.name.chars().any(char::is_control)
    {
        problems.push(format!(
            "a name must have 1 to {MAX_NAME_BYTES} bytes and no control characters"
        ));
    }
    match &spec.domain {
        ScoreDomain::Numeric { min, max, .. } => {
            if [min, max].into_iter().flatten().any(|end| !end.is_finite()) {
                problems.push("both ends of the range must be finite".into());
            } else if let (Some(min), Some(max)) = (min, max)
                && max < min
            {
                problems.push(format!("the range {min} to {max} is empty"));
            }
        }
        ScoreDomain::Boolean => {}
        ScoreDomain::Categorical(values) => {
            let mut seen = HashSet::new();
            for value in values {
                if value.is_empty() || MAX_NAME_BYTES < value.len() {
                    problems.push(format!("a category has 1 to {MAX_NAME_BYTES} bytes"));
                }
                if !seen.insert(value) {
                    problems.push(format!("duplicate category {value:?}"));
                }
            }
        }
    }
    problems.into_iter()
}

fn check_schema(text: &str) -> Result<(), String> {
    let schema: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err("a configuration is an object: \"type\" must be \"object\"".into());
    }
    match perpend_json_schema::Schema::of_2020_12(&schema) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
