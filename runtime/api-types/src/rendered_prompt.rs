//! Rendered prompts of judges.

use perpend_domain::ids::{ObservationId, SessionId, TraceId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::evaluator::ModelConfig;
use crate::trial::TrialItem;

/// The prompt of a judge for one target or item, with an estimate of one evaluation.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenderedPrompt {
    /// The trace; `null` for an item written by hand and for a session.
    pub trace_id: Option<TraceId>,
    /// The observation, if it is the target.
    pub observation_id: Option<ObservationId>,
    /// The session, if it is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// The mapped input of the evaluator; `null` if the mapping failed.
    pub item: Option<TrialItem>,
    /// Empty if the mapping failed.
    pub messages: Vec<RenderedMessage>,
    /// Variables of the prompt without a value, which insert an empty text.
    pub missing_variables: Vec<String>,
    /// Whether inserted values are enclosed in marks, which `messages` do not contain.
    pub fence: bool,
    /// The models, in the order of their votes.
    pub models: Vec<ModelConfig>,
    /// Requests of one evaluation without repetitions after malformed replies: models, times votes of each, times orders.
    pub requests: u32,
    /// Tokens of one prompt, marks included: 4 bytes each.
    pub input_tokens: u64,
    /// Tokens of one reply: an assumption, at most the limit of the configuration.
    pub output_tokens: u64,
    /// US dollars of one evaluation; `null` if a price is unknown or the mapping failed.
    pub cost_usd: Option<f64>,
    /// Failure class, such as `missing_variable`; `null` on success.
    pub error_class: Option<String>,
    /// Human-readable.
    pub error_message: Option<String>,
}

/// A message for the model.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RenderedMessage {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// In order; their texts joined are the message.
    pub parts: Vec<RenderedPart>,
}

/// A part of a message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RenderedPart {
    /// The variable whose value this is; `null` for text of the template.
    pub variable: Option<String>,
    /// The text.
    pub text: String,
}
