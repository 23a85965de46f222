//! The result of a command: as text, as JSON, and whether it succeeded.

use perpend_domain::plugin::{CallResult, LogLine, PluginScore, PluginScoreValue};
use serde_json::{Value, json};

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The text output.
    pub text: String,
    /// The output for `--json`.
    pub json: Value,
    /// Whether the command succeeded.
    pub is_ok: bool,
}

/// A score's value as JSON.
pub(crate) fn value(score: &PluginScore) -> Value {
    match &score.value {
        PluginScoreValue::Numeric(number) => json!(number),
        PluginScoreValue::Boolean(value) => json!(value),
        PluginScoreValue::Categorical(text) => json!(text),
    }
}

/// The value of a score as text, without quotes.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn score(score: &PluginScore) -> Value {
    let metadata = score.metadata.as_deref();
    json!({
        "name": score.name,
        "value": value(score),
        "comment": score.comment,
        "observationId": score.observation_id,
        "metadata": metadata.and_then(|text| serde_json::from_str::<Value>(text).ok()),
    })
}

fn log_line(line: &LogLine) -> Value {
    let fields = line.fields.as_deref();
    json!({
        "level": line.level,
        "message": line.message,
        "fields": fields.and_then(|text| serde_json::from_str::<Value>(text).ok()),
    })
}

/// A result with the members of an execution in the REST API.
pub(crate) fn result(id: &str, result: &CallResult) -> Value {
    let log: Vec<Value> = result.log.iter().map(log_line).collect();
    let mut shown = json!({ "item": id, "cpuUs": result.cpu_us, "log": log });
    match &result.outcome {
        Ok(scores) => {
            let scores: Vec<Value> = scores.iter().map(score).collect();
            shown["scores"] = scores.into();
        }
        Err(failure) => {
            shown["error"] = json!({ "class": failure.class, "message": failure.message });
        }
    }
    shown
}
