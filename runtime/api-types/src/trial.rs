//! Trials of evaluators. Nothing is stored.

use perpend_domain::evaluation::Mapping;
use perpend_domain::ids::{ObservationId, SessionId, TraceId};
use perpend_domain::score::ScoreDataType;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::any_json::AnyJson;
use crate::evaluator::NewEvaluator;
use crate::execution::{LogEntry, ModelCall};
use crate::filter::{Condition, Conditions};
use crate::score::AnyValue;

/// A trial: `evaluatorId` or `evaluator`, and one of `targets`, `recent` and `item`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialInput {
    /// A saved evaluator.
    pub evaluator_id: Option<String>,
    /// A version of it; the newest when absent.
    pub version: Option<u32>,
    /// An unsaved evaluator: a body of `POST /api/public/v2/evaluators`.
    #[schema(value_type = Option<NewEvaluator>)]
    pub evaluator: Option<Value>,
    /// Overrides the mapping of the evaluator.
    pub variable_mapping: Option<Vec<Mapping>>,
    /// The action when a mapped part is absent: `fail`, `skip` or `empty`, as in a rule.
    pub on_missing: Option<String>,
    /// 1 to 50.
    pub targets: Option<Vec<TrialTarget>>,
    /// The newest targets that match a filter.
    pub recent: Option<RecentTargets>,
    /// An item written by hand; no mapping is applied.
    #[schema(value_type = Option<TrialItem>)]
    pub item: Option<Map<String, Value>>,
    /// Call models again instead of using cached replies.
    pub fresh: Option<bool>,
}

/// The newest complete targets of the last seven days that match a filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = TrialRecentTargets)]
pub struct RecentTargets {
    /// `observation`, `experiment`, `trace` or `session`; `observation` when absent.
    pub target: Option<String>,
    /// Conditions of the filter of a rule for such targets, which must all hold.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schema(value_type = Vec<Condition>, required = false)]
    pub filter: Conditions,
    /// 1 to 50; 10 when absent. There are fewer results if fewer match.
    pub limit: Option<u32>,
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

/// The input of an evaluator.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrialItem {
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    pub input: Option<Value>,
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    pub output: Option<Value>,
    /// Any value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AnyJson, required = false)]
    pub expected_output: Option<Value>,
    /// An object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = BTreeMap<String, AnyJson>, required = false)]
    pub metadata: Option<Map<String, Value>>,
    /// Further variables.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = BTreeMap<String, AnyJson>, required = false)]
    pub variables: Map<String, Value>,
}

/// A score of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialScore {
    /// The stored name.
    pub name: String,
    /// A number, a boolean or a category.
    pub value: AnyValue,
    /// Its type.
    pub data_type: ScoreDataType,
    /// Explanation.
    pub comment: Option<String>,
    /// Metadata from the evaluator. Stored scores also contain their rule, execution and evaluator.
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    pub metadata: Map<String, Value>,
    /// The observation of the score, if it is not the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub observation_id: Option<ObservationId>,
}

/// The result for one target or the item.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TrialResult {
    /// The trace; `null` for an item written by hand and for a session.
    pub trace_id: Option<TraceId>,
    /// The observation, if it is the target.
    pub observation_id: Option<ObservationId>,
    /// The session, if it is the target; else absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, nullable = false)]
    pub session_id: Option<SessionId>,
    /// The mapped input of the evaluator; `null` if it was not called.
    pub item: Option<TrialItem>,
    /// As they would be stored; empty after a failure.
    pub scores: Vec<TrialScore>,
    /// Failure class, such as `missing_variable`; `null` on success.
    pub error_class: Option<String>,
    /// Human-readable.
    pub error_message: Option<String>,
    /// The line of the source that failed, of a code evaluator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error_line: Option<u32>,
    /// The last log lines of the evaluator: up to 50, each truncated at 1,000 characters. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub log: Vec<LogEntry>,
    /// Exchanges with model providers.
    pub model_calls: Vec<ModelCall>,
    /// Their cost in US dollars; `null` if a price is unknown.
    pub cost_usd: Option<f64>,
    /// Duration of the evaluator call, milliseconds.
    pub duration_ms: u64,
    /// CPU time of the evaluator.
    pub cpu_microseconds: u64,
}

/// The results of a trial.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Trial {
    /// In the order of the targets.
    pub data: Vec<TrialResult>,
}
