//! A trial of an evaluator: what it would give, with nothing stored.

use perpend_domain::evaluation::Mapping;
use perpend_domain::ids::{ObservationId, SessionId, TraceId};
use perpend_domain::score::ScoreDataType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::evaluator::NewEvaluator;
use crate::execution::ModelCall;
use crate::score::AnyValue;

/// What is tried, and on what: `evaluatorId` or `evaluator`, and `targets` or `item`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialInput {
    /// A saved evaluator.
    pub evaluator_id: Option<String>,
    /// A version of it; the newest when absent.
    pub version: Option<u32>,
    /// An evaluator that is not saved, as `POST /api/public/v2/evaluators` takes it.
    #[schema(value_type = Option<NewEvaluator>)]
    pub evaluator: Option<Value>,
    /// Instead of the evaluator's own mapping.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// When a target lacks a mapped part: `fail`, `skip` or `empty`, as in a rule.
    pub on_missing: Option<String>,
    /// 1 to 20.
    pub targets: Option<Vec<TrialTarget>>,
    /// Written by hand; no mapping is applied to it.
    #[schema(value_type = Option<TrialItem>)]
    pub item: Option<Map<String, Value>>,
    /// Asks models again, where otherwise replies answer that were stored for equal requests.
    pub fresh: Option<bool>,
}

/// A target of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialTarget {
    /// A trace; or `sessionId`.
    pub trace_id: Option<String>,
    /// An observation of it; the whole trace when absent.
    pub observation_id: Option<String>,
    /// A whole session.
    pub session_id: Option<String>,
}

/// What an evaluator is given.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialItem {
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub input: Option<Value>,
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub output: Option<Value>,
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    pub expected_output: Option<Value>,
    /// An object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    pub metadata: Option<Map<String, Value>>,
    /// Variables that are none of these parts.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    pub variables: Map<String, Value>,
}

/// A score of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialScore {
    /// The name under which it would be stored.
    pub name: String,
    /// A number, a truth value or a category.
    pub value: AnyValue,
    /// Its type.
    pub data_type: ScoreDataType,
    /// For people.
    pub comment: Option<String>,
    /// What the evaluator gave. A stored score also says there which rule, execution and evaluator it comes from.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub metadata: Map<String, Value>,
    /// Another observation of the trace that the score is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub observation_id: Option<ObservationId>,
}

/// What came of one target, or of the item.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialResult {
    /// The trace; `null` for an item that was written by hand, and for a session.
    pub trace_id: Option<TraceId>,
    /// The observation, where it is the target.
    pub observation_id: Option<ObservationId>,
    /// The session, where it is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// What the evaluator was given, as the mapping made it; `null` where it was not asked.
    pub item: Option<TrialItem>,
    /// As they would be stored; none where it failed.
    pub scores: Vec<TrialScore>,
    /// Why there are no scores, such as `missing_variable`; `null` where there are some.
    pub error_class: Option<String>,
    /// The same for people.
    pub error_message: Option<String>,
    /// Exchanges with model providers.
    pub model_calls: Vec<ModelCall>,
    /// What they cost together, in US dollars; `null` where the price of one is not known.
    pub cost_usd: Option<f64>,
    /// From the call of the evaluator to its answer, milliseconds.
    pub duration_ms: u64,
    /// CPU time of the evaluator.
    pub cpu_microseconds: u64,
}

/// What came of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    /// In the order of the targets.
    pub data: Vec<TrialResult>,
}
