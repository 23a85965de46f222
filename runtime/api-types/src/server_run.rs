//! Experiments that the server executes.

use perpend_domain::server_run::{RunState, RunTool};
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::filter::Conditions;

/// A version of a prompt: `version`, or the version with `label`; without both, the one with the label `production`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptSelection {
    /// Name of the prompt.
    pub name: String,
    /// Number of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// A label of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// An endpoint of an application, which answers an item that is posted to it.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRunEndpoint {
    /// `http` or `https`. Private addresses must be allowed in the settings.
    pub url: String,
    /// Signs requests: `x-perpend-signature` is the HMAC-SHA256 of time and body. 16 to 512 characters. Never returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

// Without the secret.
impl std::fmt::Debug for NewRunEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewRunEndpoint").field("url", &self.url).finish_non_exhaustive()
    }
}

/// An experiment. Each prompt with each model is a run over the items of the dataset; an endpoint is one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewExperiment {
    /// Name of the dataset.
    pub dataset: String,
    /// The time as of which the dataset is read; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_version: Option<Timestamp>,
    /// Ids of items; all active items when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_ids: Option<Vec<String>>,
    /// Conditions on `id` and `metadata` of the items.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub item_filter: Conditions,
    /// The prompts. Variables are filled from the members of the input of an item.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<PromptSelection>,
    /// The models.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<ModelChoice>,
    /// An endpoint of an application, instead of `prompts` and `models`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<NewRunEndpoint>,
    /// Parameters of all models that do not set them.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub params: Map<String, Value>,
    /// Tools that the models may call. Calls are part of the output; they are not executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<RunTool>,
    /// JSON Schema of the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Value>,
    /// Results per item, 1 to 100; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repetitions: Option<u32>,
    /// Most calls in flight per run, 1 to 200; 8 when absent. The limit of the connection applies too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Limit of the cost of all runs together, US dollars. The runs are paused before a call that could exceed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
    /// Limit of one call, milliseconds, 1,000 to 600,000; 120,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Ids or names of at most 20 evaluators, which score the results. A rule of the target `experiment` is created for the runs;
    /// it is disabled ten minutes after their end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evaluators: Vec<String>,
    /// Id or name of a run over the dataset with which comparisons of these runs start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// Name of the run. With several runs, prompt and model are appended. Prompt, model and time when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_name: Option<String>,
    /// Description of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Members of the metadata of the runs.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
    /// Check and estimate only; nothing is started.
    #[serde(default)]
    pub dry_run: bool,
}

/// An item whose input does not fill the prompt of a run. It gets an error instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnfilledItem {
    /// The item.
    pub item_id: String,
    /// The variables without a value.
    pub message: String,
}

/// A run of an experiment before or at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedRun {
    /// The run, as in `experimentId` of its items.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Prompt and version; `null` for an endpoint.
    pub prompt: Option<String>,
    /// The connection; `null` for an endpoint.
    pub provider: Option<String>,
    /// The model; `null` for an endpoint.
    pub model: Option<String>,
    /// Calls of models or of the endpoint, without items that do not fill the prompt.
    pub call_count: u64,
    /// Estimated from the length of the prompts and expected outputs, US dollars; `null` if the price is unknown.
    pub estimated_cost_usd: Option<f64>,
    /// Number of items that do not fill the prompt.
    pub unfilled_count: u64,
    /// The first of them.
    pub unfilled_items: Vec<UnfilledItem>,
}

/// The start of an experiment, or its estimate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedExperiment {
    /// The id of the experiment; `null` for an estimate.
    pub experiment_id: Option<String>,
    /// The time as of which the dataset is read.
    pub dataset_version: Timestamp,
    /// Number of items.
    pub item_count: u64,
    /// Calls of all runs.
    pub call_count: u64,
    /// Estimated cost of all runs, US dollars; `null` if a price is unknown.
    pub estimated_cost_usd: Option<f64>,
    /// The rule of the `evaluators`; `null` for an estimate or without evaluators.
    pub rule_id: Option<String>,
    /// The run that comparisons start with.
    pub baseline_id: Option<String>,
    /// One for each prompt and model.
    pub runs: Vec<StartedRun>,
}

/// A failed result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedRunItem {
    /// The item.
    pub item_id: String,
    /// From 0.
    pub repetition: u32,
    /// The class of the failure, such as `invalid_input` or `upstream_timeout`.
    pub error_class: String,
    /// The message.
    pub error_message: String,
}

/// The progress of a run that the server executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The run.
    pub id: String,
    /// Shared by the runs that one request started.
    pub experiment_id: String,
    /// Its name.
    pub name: String,
    /// The dataset.
    pub dataset_id: String,
    /// The time as of which the dataset is read.
    pub dataset_version: Timestamp,
    /// `running`, `paused`, `completed` or `cancelled`.
    pub state: RunState,
    /// Whether the run is running and waits: at most 8 runs of a project are executed at a time, oldest first.
    pub is_waiting: bool,
    /// The reason of a pause, such as `MAX_USD_REACHED`.
    pub paused_reason: Option<String>,
    /// The reason of a pause in words.
    pub paused_message: Option<String>,
    /// Most calls in flight.
    pub concurrency: u32,
    /// Limit of the cost of the experiment, US dollars.
    pub max_usd: Option<f64>,
    /// Results: items multiplied by repetitions.
    pub result_count: u64,
    /// Results that wait for their call.
    pub pending_count: u64,
    /// Results whose call is under way.
    pub in_flight_count: u64,
    /// Results with an answer.
    pub completed_count: u64,
    /// Results with an error.
    pub failed_count: u64,
    /// Calls that may have been made again because the server ended while they were under way.
    pub repeated_call_count: u64,
    /// Cost so far, US dollars, without calls whose cost is unknown.
    pub cost_usd: f64,
    /// Creation time.
    pub created_at: Timestamp,
    /// End of a completed or cancelled run.
    pub ended_at: Option<Timestamp>,
    /// The rule that scores the results with the `evaluators` of the experiment.
    pub rule_id: Option<String>,
    /// The run that comparisons start with.
    pub baseline_id: Option<String>,
    /// The first results with an error, in the order of the calls.
    pub failed_items: Vec<FailedRunItem>,
}
