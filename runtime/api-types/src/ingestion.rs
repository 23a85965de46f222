//! Create and update events, in batches and one by one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A batch of events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = EventBatch)]
pub struct IngestionBatch {
    /// `{id, type, timestamp, body}` each; `type` is `trace-create`, `span-create`, `span-update`,
    /// `generation-create`, `generation-update`, `event-create`, `score-create` and so on.
    #[schema(value_type = Vec<BTreeMap<String, Value>>)]
    pub batch: Vec<Value>,
}

/// An event that was taken.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AcceptedEvent)]
pub struct AcceptedEvent {
    /// Of the event.
    pub id: String,
    /// 201.
    pub status: u16,
}

/// An event that was not taken.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RejectedEvent)]
pub struct RejectedEvent {
    /// Of the event; empty where it has none.
    pub id: String,
    /// 400, or 401 where the key does not hold what the event needs.
    pub status: u16,
    /// For people.
    pub message: String,
    /// `InvalidRequestError` or `UnauthorizedError`.
    pub error: String,
}

/// What became of the events of a batch.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = IngestionResponse)]
pub struct IngestionResponse {
    /// Those that were taken.
    pub successes: Vec<AcceptedEvent>,
    /// The first of those that were not.
    pub errors: Vec<RejectedEvent>,
    /// How many more were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub errors_omitted: Option<usize>,
}

/// A trace; what is absent stays as it is. Further members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceInput {
    /// A fresh one when absent.
    pub id: Option<String>,
    /// When it began.
    pub timestamp: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// The user of the application.
    pub user_id: Option<String>,
    /// The conversation.
    pub session_id: Option<String>,
    /// Of the application.
    pub release: Option<String>,
    /// Of the application.
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

/// A span or an event; what is absent stays as it is. Further members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpanInput {
    /// A fresh one when absent.
    pub id: Option<String>,
    /// The trace it belongs to.
    pub trace_id: Option<String>,
    /// The step it belongs to.
    pub parent_observation_id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// When it began.
    pub start_time: Option<String>,
    /// When it ended.
    pub end_time: Option<String>,
    /// DEBUG, DEFAULT, WARNING or ERROR.
    pub level: Option<String>,
    /// For people.
    pub status_message: Option<String>,
    /// Of the application.
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
    /// Which one.
    pub span_id: String,
    /// What is absent stays as it is.
    #[serde(flatten)]
    pub change: SpanInput,
}

/// A generation: a span with a model call; what is absent stays as it is. Further members are ignored.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationInput {
    /// What every span has.
    #[serde(flatten)]
    pub span: SpanInput,
    /// The model.
    pub model: Option<String>,
    /// What it was asked with.
    pub model_parameters: Option<BTreeMap<String, Value>>,
    /// When its first token came.
    pub completion_start_time: Option<String>,
    /// Tokens by bucket.
    pub usage_details: Option<BTreeMap<String, u64>>,
    /// US dollars by bucket.
    pub cost_details: Option<BTreeMap<String, f64>>,
    /// The prompt it was made from.
    pub prompt_name: Option<String>,
    /// Which version of it.
    pub prompt_version: Option<i64>,
}

/// A change of a generation.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GenerationPatch {
    /// Which one.
    pub generation_id: String,
    /// What is absent stays as it is.
    #[serde(flatten)]
    pub change: GenerationInput,
}
