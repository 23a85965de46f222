//! Create and update events, in batches and one by one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// A batch of events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = EventBatch)]
pub struct IngestionBatch {
    /// `{id, type, timestamp, body}` each; `type` is `trace-create`, `span-create`, `span-update`,
    /// `generation-create`, `generation-update`, `event-create`, `score-create` and so on.
    #[schema(value_type = Vec<BTreeMap<String, AnyJson>>)]
    pub batch: Vec<Value>,
}

/// An accepted event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AcceptedEvent)]
pub struct AcceptedEvent {
    /// Id of the event.
    pub id: String,
    /// 201.
    pub status: u16,
}

/// A rejected event.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RejectedEvent)]
pub struct RejectedEvent {
    /// Id of the event; empty if it has none.
    pub id: String,
    /// 400, or 401 if the key lacks the permission for the event.
    pub status: u16,
    /// Human-readable message.
    pub message: String,
    /// `InvalidRequestError` or `UnauthorizedError`.
    pub error: String,
}

/// The outcome of the events of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = IngestionResponse)]
pub struct IngestionResponse {
    /// The accepted events.
    pub successes: Vec<AcceptedEvent>,
    /// The first rejected events.
    pub errors: Vec<RejectedEvent>,
    /// Number of further rejected events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub errors_omitted: Option<usize>,
}

/// A trace; absent members are unchanged. Further members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceInput {
    /// Generated when absent.
    pub id: Option<String>,
    /// Start time.
    pub timestamp: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The user of the application.
    pub user_id: Option<String>,
    /// The session.
    pub session_id: Option<String>,
    /// Release of the application.
    pub release: Option<String>,
    /// Version of the application.
    pub version: Option<String>,
    /// `default` when absent.
    pub environment: Option<String>,
    /// Any JSON.
    pub input: Option<Value>,
    /// Any JSON.
    pub output: Option<Value>,
    /// Any JSON.
    pub metadata: Option<Value>,
    /// Labels.
    pub tags: Option<Vec<String>>,
    /// Visible without a key.
    pub public: Option<bool>,
}

/// A span or an event; absent members are unchanged. Further members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpanInput {
    /// Generated when absent.
    pub id: Option<String>,
    /// The trace it belongs to.
    pub trace_id: Option<String>,
    /// The parent observation.
    pub parent_observation_id: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// Start time.
    pub start_time: Option<String>,
    /// End time.
    pub end_time: Option<String>,
    /// DEBUG, DEFAULT, WARNING or ERROR.
    pub level: Option<String>,
    /// Explanation of the level.
    pub status_message: Option<String>,
    /// Version of the application.
    pub version: Option<String>,
    /// `default` when absent.
    pub environment: Option<String>,
    /// Any JSON.
    pub input: Option<Value>,
    /// Any JSON.
    pub output: Option<Value>,
    /// Any JSON.
    pub metadata: Option<Value>,
}

/// A change of a span.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpanPatch {
    /// The span.
    pub span_id: String,
    /// Absent members are unchanged.
    #[serde(flatten)]
    pub change: SpanInput,
}

/// A generation: a span with a model call; absent members are unchanged. Further members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationInput {
    /// The members of a span.
    #[serde(flatten)]
    pub span: SpanInput,
    /// The model.
    pub model: Option<String>,
    /// Parameters of the model.
    pub model_parameters: Option<BTreeMap<String, Value>>,
    /// Time of the first token.
    pub completion_start_time: Option<String>,
    /// Tokens by bucket.
    pub usage_details: Option<BTreeMap<String, u64>>,
    /// US dollars by bucket.
    pub cost_details: Option<BTreeMap<String, f64>>,
    /// The prompt used.
    pub prompt_name: Option<String>,
    /// The version of the prompt.
    pub prompt_version: Option<i64>,
}

/// A change of a generation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationPatch {
    /// The generation.
    pub generation_id: String,
    /// Absent members are unchanged.
    #[serde(flatten)]
    pub change: GenerationInput,
}
