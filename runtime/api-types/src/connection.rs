//! Connections to model providers, and the default evaluation model.

use std::collections::BTreeMap;

use perpend_domain::ids::EvaluatorId;
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::any_json::AnyJson;
use crate::execution::ModelCall;
use crate::nullable::present;

/// A connection to a model provider. The key and the values of the extra headers are never returned.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnection {
    /// Stays the same when the connection of the provider is replaced.
    pub id: String,
    /// Unique within the project.
    pub provider: String,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    pub adapter: String,
    /// Three dots and the last four characters of the key; for keys of up to eight characters only the dots. Empty without a
    /// key.
    pub display_secret_key: String,
    /// `null` for the default address of the provider.
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Models in addition to those of the adapter.
    pub custom_models: Vec<String>,
    /// Whether the models of the adapter are offered.
    pub with_default_models: bool,
    /// Names of the extra headers.
    pub extra_header_keys: Vec<String>,
    /// Settings of the adapter, such as a region.
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    pub config: Option<Value>,
    /// Creation time of the first connection of the provider.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A connection with members that the compatible API does not have.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnectionWithOptions {
    /// As in the compatible API.
    #[serde(flatten)]
    pub connection: LlmConnection,
    /// Most concurrent requests, until the provider limits them.
    pub max_in_flight: u32,
    /// Whether an `openai` endpoint is called with the Responses API instead of chat completions.
    pub use_responses_api: bool,
}

/// A change of a connection; absent members are unchanged. A change of the adapter or the address removes the key and the
/// values of the extra headers unless they are sent again.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LlmConnectionOptions {
    /// `updatedAt` of the connection that was read. If it has changed since, the response is 409.
    #[serde(default)]
    pub if_updated_at: Option<Timestamp>,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    #[serde(default)]
    pub adapter: Option<String>,
    /// Never returned.
    #[serde(default)]
    pub secret_key: Option<String>,
    /// `null` for the default address of the adapter.
    #[serde(default, rename = "baseURL", deserialize_with = "present")]
    #[schema(rename = "baseURL", value_type = Option<String>)]
    pub base_url: Option<Option<String>>,
    /// Models in addition to those of the adapter.
    #[serde(default)]
    pub custom_models: Option<Vec<String>>,
    /// Whether the models of the adapter are offered.
    #[serde(default)]
    pub with_default_models: Option<bool>,
    /// All extra headers. `null` keeps the stored value of a header. Values are never returned.
    #[serde(default)]
    pub extra_headers: Option<BTreeMap<String, Option<String>>>,
    /// Settings of the adapter, such as a region; `null` for none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    pub config: Option<Option<Map<String, Value>>>,
    /// Most concurrent requests: 1 to 10,000.
    #[serde(default)]
    pub max_in_flight: Option<u32>,
    /// Use the Responses API; only for the adapter `openai`.
    #[serde(default)]
    pub use_responses_api: Option<bool>,
}

/// A new connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewLlmConnection {
    /// The name of the connection, by which models refer to it.
    pub provider: String,
    /// `anthropic`, `openai`, `azure`, `bedrock`, `google-vertex-ai`, `google-ai-studio` or `mock`.
    pub adapter: String,
    /// Never returned.
    pub secret_key: String,
    /// The address of the provider; the default of the adapter when absent.
    #[serde(rename = "baseURL")]
    #[schema(rename = "baseURL")]
    pub base_url: Option<String>,
    /// Models in addition to those of the adapter.
    pub custom_models: Option<Vec<String>>,
    /// Whether the models of the adapter are offered; `true` when absent.
    pub with_default_models: Option<bool>,
    /// Values are never returned.
    pub extra_headers: Option<BTreeMap<String, String>>,
    /// Settings of the adapter, such as a region.
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    pub config: Option<serde_json::Map<String, Value>>,
}

/// A connection with its costs and the evaluators that use it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LlmConnectionUsage {
    /// The connection.
    pub connection: LlmConnectionWithOptions,
    /// The default evaluation model of the project, if it belongs to this connection.
    pub default_model: Option<ModelChoice>,
    /// Start of the period of the costs: the UTC day 6 days before the current one.
    pub since: Timestamp,
    /// Costs of the calls of evaluators, runs, trials and tests.
    pub costs: ConnectionCosts,
    /// Models with calls in the period, or with known capabilities, by name.
    pub models: Vec<ConnectionModel>,
    /// Evaluators with a version in use that calls a model over the connection, by name.
    pub evaluators: Vec<ConnectionEvaluator>,
    /// Requests of this server without a response.
    pub in_flight: u64,
    /// Requests of this server that wait for a place.
    pub queued: u64,
    /// When the next request may start, if the provider requested a delay.
    pub closed_until: Option<Timestamp>,
    /// Failed calls among the newest 500 calls of the project in the period, at most 10, newest first.
    pub failures: Vec<ConnectionFailure>,
}

/// Costs of model calls.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionCosts {
    /// Requests, including failed ones.
    pub call_count: u64,
    /// Requests without a usable response.
    pub failed_count: u64,
    /// Answered requests without a known price.
    pub unpriced_count: u64,
    /// Requests answered by the reply cache, which the other counts do not include.
    pub cached_count: u64,
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// US dollars, without the calls whose price is unknown.
    pub cost_usd: f64,
}

/// A model of a connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionModel {
    /// As the provider names it.
    pub model: String,
    /// Costs of its calls in the period.
    pub costs: ConnectionCosts,
    /// What calls of this server showed within the last day.
    pub learned: Option<LearnedModel>,
}

/// What calls showed about a model.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LearnedModel {
    /// The method of structured replies that worked: `json_schema`, `tool`, `json_mode` or `prompt`; `null` before the first
    /// structured reply.
    pub method: Option<String>,
    /// Deviations from the protocol: `other_output_limit_name`, `no_seed`, `no_logprobs`.
    pub deviations: Vec<String>,
    /// Time of the last change.
    pub learned_at: Timestamp,
}

/// An evaluator that calls models over a connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionEvaluator {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Its name.
    pub name: String,
    /// Its models at this connection, without repetitions.
    pub models: Vec<String>,
    /// A slot of it uses the default evaluation model.
    pub uses_default: bool,
    /// Its pause.
    pub paused: Option<ConnectionPause>,
    /// Executions that are held until the evaluator or its rule resumes.
    pub waiting: u64,
}

/// The pause of an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionPause {
    /// Such as `LLM_CONNECTION_AUTH_INVALID`.
    pub reason: String,
    /// Human-readable.
    pub message: String,
    /// Start of the pause.
    pub since: Timestamp,
    /// Saving the connection, or a test with `resume`, ends the pause.
    pub is_of_connection: bool,
}

/// A failed call over a connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionFailure {
    /// The requested model.
    pub model: String,
    /// When the request was sent.
    pub at: Timestamp,
    /// Failure class, such as `rate_limited`.
    pub error_class: String,
    /// Human-readable.
    pub error_message: String,
}

/// A test of a connection.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectionTestInput {
    /// The model to call. When absent: the default evaluation model if it belongs to this connection, else the first of
    /// `customModels`.
    #[serde(default)]
    pub model: Option<String>,
    /// After a test that passed, resume the evaluators that were paused because of the connection.
    #[serde(default)]
    pub resume: bool,
}

/// The result of a test of a connection.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionTest {
    /// The model gave a structured reply that matches its schema.
    pub passed: bool,
    /// The model that was called.
    pub model: String,
    /// Failure class, such as `auth_invalid`; `null` if the test passed.
    pub error_class: Option<String>,
    /// Human-readable; `null` if the test passed.
    pub error_message: Option<String>,
    /// The requests of the test.
    pub model_calls: Vec<ModelCall>,
    /// What the calls of this server showed about the model.
    pub learned: Option<LearnedModel>,
    /// Evaluators that were resumed.
    pub resumed_evaluators: Vec<EvaluatorId>,
}
