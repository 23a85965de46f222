//! Backtests: a version of an evaluator over stored targets, compared with their live scores.

use perpend_domain::backfill::BackfillState;
use perpend_domain::backtest::{BacktestReason, BacktestScore, CallTotals, TestedVersion};
use perpend_domain::evaluation::{Mapping, TargetKind};
use perpend_domain::ids::{EvaluatorId, ObservationId, RuleId, SessionId, TraceId};
use perpend_domain::slots::ModelChoice;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::filter::Conditions;
use crate::preview::EstimateBasis;
use crate::score::AnyValue;

/// A new backtest. It tests the version `version`, with another `config` or `model` if they are present, or a `definition`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewBacktest {
    /// The evaluator whose live scores are the baseline.
    pub evaluator_id: String,
    /// The number of the version; the newest when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// Replaces the configuration of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
    /// Replaces the models of the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelChoice>,
    /// An unsaved version: a body of `PATCH /api/public/v2/evaluators/{evaluatorId}` with `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub definition: Option<Map<String, Value>>,
    /// A rule that uses the evaluator. It supplies kind and filter of the targets, mapping and action on missing parts, and
    /// only its scores are the baseline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<String>,
    /// The kind of the targets: `observation`, `experiment`, `trace` or `session`; `observation` when absent. Must be absent
    /// with `ruleId`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Required. Targets that started at or after this time. For sessions the start of the newest trace counts.
    pub from: Option<Timestamp>,
    /// Targets that started before this time; now when absent, and not later than now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Conditions on the columns of a rule, in addition to those of `ruleId`.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub filter: Conditions,
    /// Replaces the mapping of the version. Must be absent if the rule has a mapping of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable_mapping: Option<Vec<Mapping>>,
    /// The action when a mapped part is absent: `fail`, `skip` or `empty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_missing: Option<String>,
    /// Call models again instead of using cached replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<bool>,
    /// Most targets to evaluate, the newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// Most cost of model calls, US dollars. Required if the version may call models and the project or the evaluator has a
    /// budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
}

/// An estimate of a backtest, from its newest targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BacktestEstimate {
    /// Targets in the range, whether they match or not; `null` if they are not counted.
    pub target_count: Option<u64>,
    /// Examined targets.
    pub examined_count: u64,
    /// Whether all targets of the range were examined. Otherwise the other numbers are extrapolated.
    pub is_whole: bool,
    /// Targets that would be evaluated, at most `maxItems`.
    pub item_count: u64,
    /// Targets without a live score.
    pub unscored_count: u64,
    /// Targets that the filter does not take.
    pub refused_count: u64,
    /// Basis of cost and time.
    pub basis: EstimateBasis,
    /// Mean cost of a target, US dollars; `null` if unknown, as for a version with other models than the newest one.
    pub cost_per_target_usd: Option<f64>,
    /// Cost, US dollars; `null` if unknown. `maxUsd` may end the backtest before.
    pub cost_usd: Option<f64>,
    /// Seconds at the limits of the connection, or at 2,000 executions per second without model calls; `null` if unknown.
    pub seconds: Option<f64>,
}

/// Model calls of one side of a backtest, over the targets that the version evaluated with scores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BacktestCalls {
    /// Requests that were sent. Cached replies do not count.
    pub call_count: u64,
    /// Mean time of such a request, milliseconds; `null` without requests.
    pub mean_latency_ms: Option<f64>,
    /// Cost, including what cached replies had cost, US dollars.
    pub cost_usd: f64,
    /// The same for each target; `null` without targets.
    pub cost_per_target_usd: Option<f64>,
    /// Answered requests whose price is unknown. Their cost is left out.
    pub unpriced_count: u64,
}

impl BacktestCalls {
    /// From totals over some targets.
    #[must_use]
    pub fn new(totals: CallTotals, n_targets: u64) -> Self {
        let mean = |sum: f64, n: u64| (0 < n).then(|| sum / n as f64);
        Self {
            call_count: totals.n_calls,
            mean_latency_ms: mean(totals.latency_ms as f64, totals.n_calls),
            cost_usd: totals.cost_usd,
            cost_per_target_usd: mean(totals.cost_usd, n_targets),
            unpriced_count: totals.n_unpriced,
        }
    }
}

/// Failures of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BacktestFailure {
    /// The class, such as `missing_variable`.
    pub class: String,
    /// Number of targets.
    pub count: u64,
    /// The first message.
    pub message: String,
}

/// A backtest and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backtest {
    /// Its id.
    pub id: String,
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Name of the evaluator when the backtest was created.
    pub evaluator_name: String,
    /// The tested version.
    pub tested: TestedVersion,
    /// The rule whose scores are the baseline; `null` for those of all rules.
    pub rule_id: Option<RuleId>,
    /// Kind of the targets.
    pub target: TargetKind,
    /// Start of the range, inclusive.
    pub from: Timestamp,
    /// End of the range, exclusive.
    pub to: Timestamp,
    /// Conditions on the targets, including those of the rule.
    #[schema(value_type = Vec<Object>)]
    pub filter: Conditions,
    /// Most targets to evaluate.
    pub max_items: Option<u64>,
    /// Most cost of model calls, US dollars.
    pub max_usd: Option<f64>,
    /// `running`, `paused`, `completed`, `cancelled` or `failed`.
    pub state: BackfillState,
    /// Why it ended before the end of its range (`max_items`, `max_usd`) or failed (`evaluator_deleted`).
    pub reason: Option<BacktestReason>,
    /// Targets in the range, whether they match or not; `null` if they are not counted.
    pub target_count: Option<u64>,
    /// Examined targets: the sum of `itemCount`, `unscoredCount`, `refusedCount` and `leftOutCount`.
    pub examined_count: u64,
    /// Share of the range that is examined, from 0 to 1.
    pub examined_share: Option<f64>,
    /// Start of the last examined target. Targets are examined from the newest to the oldest.
    pub reached_at: Option<Timestamp>,
    /// Evaluated targets: the sum of `completedCount`, `skippedCount` and `failedCount`.
    pub item_count: u64,
    /// Targets without a live score, which are not evaluated.
    pub unscored_count: u64,
    /// Targets that the filter does not take.
    pub refused_count: u64,
    /// Targets that were not complete.
    pub left_out_count: u64,
    /// Evaluated targets with scores.
    pub completed_count: u64,
    /// Evaluated targets to which the version does not apply.
    pub skipped_count: u64,
    /// Evaluated targets on which the version failed.
    pub failed_count: u64,
    /// Failures by class.
    pub failures: Vec<BacktestFailure>,
    /// Compared pairs of scores.
    pub pair_count: u64,
    /// Scores that only one of both sides has.
    pub unpaired_count: u64,
    /// Spent on model calls, US dollars, without calls whose price is unknown.
    pub cost_usd: f64,
    /// Model calls of the live scores.
    pub before: BacktestCalls,
    /// Model calls of the tested version.
    pub after: BacktestCalls,
    /// The number of the version that was made current by adopting the backtest.
    pub adopted_version: Option<u32>,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// When it was completed, cancelled or failed.
    pub ended_at: Option<Timestamp>,
    /// The results so far, by name of the score. Lists leave them out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scores: Option<Vec<BacktestScore>>,
}

/// One side of a flip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlipSide {
    /// A number, a boolean or a category.
    pub value: AnyValue,
    /// The first 2,000 characters.
    pub comment: Option<String>,
}

/// A live score and a result of the tested version with different values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BacktestFlip {
    /// The trace of the target; `null` for sessions.
    pub trace_id: Option<TraceId>,
    /// The observation, if it is the target.
    pub observation_id: Option<ObservationId>,
    /// The session, if it is the target.
    #[schema(value_type = Option<String>)]
    pub session_id: Option<SessionId>,
    /// The observation of both scores, if it is not the target.
    pub scored_observation_id: Option<ObservationId>,
    /// The name of the score.
    pub name: String,
    /// The live score.
    pub live: FlipSide,
    /// The result of the tested version.
    pub tested: FlipSide,
    /// The distance of two numbers; 1 for labels.
    pub change: f64,
    /// The model of the target.
    pub model: Option<String>,
    /// The environment of the live score.
    pub environment: String,
    /// Name and version of the prompt of the target.
    pub prompt: Option<String>,
}

/// A rule that uses the newest version of the evaluator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FollowingRule {
    /// Its id.
    pub id: RuleId,
    /// Its name.
    pub name: String,
    /// Whether it is enabled.
    pub enabled: bool,
}

/// The result of adopting a backtest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdoptedBacktest {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The number of the version that is current now.
    pub version: u32,
    /// Rules that score with it from now on. Rules that pin another version are left out.
    pub rules: Vec<FollowingRule>,
}
