//! Runs of experiments that the server executes: the dataset and the task that answers its items.

mod fill;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::identity::hex_digits;
use crate::ids::{ExecutionId, TraceId};
use crate::named::named_enum;
use crate::observation::PromptLink;
use crate::slots::ModelChoice;

pub use fill::{FillError, filled, variables};

/// The environment of the traces of runs.
pub const RUN_ENVIRONMENT: &str = "perpend-prompt-experiment";
/// Most calls in flight of one run.
pub const MAX_CONCURRENCY: u32 = 200;
/// Most repetitions of an item.
pub const MAX_REPETITIONS: u32 = 100;
/// Most runs of one request.
pub const MAX_RUNS: usize = 64;
/// Most calls of one request: runs, items and repetitions multiplied.
pub const MAX_CALLS: u64 = 200_000;

named_enum!(
    /// The state of a run.
    RunState {
        /// Its items are answered now.
        Running = "running",
        /// It starts no calls until it is resumed.
        Paused = "paused",
        /// Each item has an answer or an error.
        Completed = "completed",
        /// A user cancelled it; the remaining items have no result.
        Cancelled = "cancelled",
    }
);

/// The reason of a pause by a user.
pub const PAUSED_BY_USER: &str = "PAUSED_BY_USER";
/// The reason of a pause because the next call could exceed the limit of the experiment.
pub const MAX_USD_REACHED: &str = "MAX_USD_REACHED";
/// The reason of a pause because a budget of the project is exhausted.
pub const BUDGET_REACHED: &str = "BUDGET_REACHED";

/// The version of a prompt, with its included prompts inserted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunPrompt {
    /// Its name.
    pub name: String,
    /// Number of the version.
    pub version: i64,
    /// A text or a list of messages.
    pub body: Value,
}

/// A tool that is offered to the model.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunTool {
    /// Its name.
    pub name: String,
    /// When the model should call it.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub parameters: Value,
}

/// A prompt that a model completes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelTask {
    /// Filled with the input of the item.
    pub prompt: RunPrompt,
    /// The connection, the model and its parameters.
    pub model: ModelChoice,
    /// Tools that the model may call. Calls are part of the output; they are not executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<RunTool>,
    /// JSON Schema of the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Limit of one call, milliseconds.
    pub timeout_ms: u32,
}

/// An endpoint of the user's application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointTask {
    /// Items are posted to this address.
    pub url: String,
    /// Limit of one call, milliseconds.
    pub timeout_ms: u32,
    /// Whether requests are signed with the stored secret of the experiment.
    pub is_signed: bool,
}

/// What answers the items of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunTask {
    /// A prompt and a model.
    Model(Box<ModelTask>),
    /// An endpoint of the user's application.
    Endpoint(EndpointTask),
}

impl RunTask {
    /// The prompt version, for links from observations.
    #[must_use]
    pub fn prompt_link(&self) -> Option<PromptLink> {
        match self {
            Self::Model(task) => Some(PromptLink {
                name: task.prompt.name.clone(),
                version: Some(task.prompt.version),
            }),
            Self::Endpoint(_) => None,
        }
    }

    /// The description in the metadata of the run. The address has no query string, which may have a credential.
    #[must_use]
    pub fn to_metadata(&self) -> Value {
        match self {
            Self::Model(task) => json!({
                "prompt": { "name": task.prompt.name, "version": task.prompt.version },
                "provider": task.model.provider,
                "model": task.model.model,
                "params": task.model.params,
            }),
            Self::Endpoint(task) => {
                let end = task.url.find(['?', '#']).unwrap_or(task.url.len());
                json!({ "endpoint": task.url[..end] })
            }
        }
    }
}

/// An answer of the task for an item, stored before its trace is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunAnswer {
    /// The output.
    pub output: Value,
    /// Start of the call, microseconds since 1970.
    pub started_at: i64,
    /// Duration of the call, milliseconds.
    pub latency_ms: u64,
    /// The trace that the application recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Tokens by bucket, as reported by the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<crate::observation::Usage>,
    /// US dollars, as reported by the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The id of the trace of an item: clients derive the same one.
#[must_use]
pub fn run_trace_id(run: &str, item: &str, repetition: u32, attempt: u32) -> TraceId {
    let key = json!(["run/1", run, item, repetition, attempt]).to_string();
    let hex = hex_digits(key.as_bytes(), 16);
    TraceId::new(&hex).unwrap_or_else(|_| unreachable!("hex digits are a valid id"))
}

/// The trace of an item as the id of an execution, under which the answers of its model calls are kept.
#[must_use]
pub fn call_id(trace: &TraceId) -> ExecutionId {
    ExecutionId::new(trace.as_str()).unwrap_or_else(|_| unreachable!("a trace id is a valid id"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metadata_of_a_run_have_no_query_string_of_the_endpoint() {
        let url = "https://app.example.com/answer?key=s3cr3t#a".to_owned();
        let task = RunTask::Endpoint(EndpointTask { url, timeout_ms: 1_000, is_signed: false });
        assert_eq!(task.to_metadata(), json!({ "endpoint": "https://app.example.com/answer" }));
    }

    #[test]
    fn each_repetition_and_attempt_has_a_trace_of_its_own() {
        let first = run_trace_id("r", "i", 0, 0);
        assert_eq!(first.as_str().len(), 32);
        assert_eq!(first, run_trace_id("r", "i", 0, 0));
        assert_ne!(first, run_trace_id("r", "i", 1, 0));
        assert_ne!(first, run_trace_id("r", "i", 0, 1));
        assert_eq!(call_id(&first).as_str(), first.as_str());
    }
}
