//! Backfills: a rule applied to stored targets.

use perpend_domain::backfill::{BackfillMode, BackfillReason, BackfillState};
use perpend_domain::evaluation::TargetKind;
use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::filter::Conditions;
use crate::preview::EstimateBasis;

/// A new backfill.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewBackfill {
    /// The rule. It must be enabled.
    pub rule_id: String,
    /// `fill`: targets without a result of the evaluator version that the rule uses; `rescore`: all targets. `fill` when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Targets that started at or after this time. For sessions the start of the newest trace counts.
    pub from: Timestamp,
    /// Targets that started before this time; now when absent, and not later than now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Conditions in addition to those of the rule, on the same columns.
    #[serde(default, skip_serializing_if = "Conditions::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub filter: Conditions,
    /// Most targets to evaluate, the newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_items: Option<u64>,
    /// Most cost of model calls, US dollars. Executions are queued only while their estimated cost fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_usd: Option<f64>,
}

/// A backfill and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Backfill {
    /// Its id.
    pub id: String,
    /// The rule.
    pub rule_id: RuleId,
    /// Name of the rule when the backfill was created.
    pub rule_name: String,
    /// Kind of the targets.
    pub target: TargetKind,
    /// `fill` or `rescore`.
    pub mode: BackfillMode,
    /// Start of the range, inclusive.
    pub from: Timestamp,
    /// End of the range, exclusive.
    pub to: Timestamp,
    /// Conditions in addition to those of the rule.
    #[schema(value_type = Vec<Object>)]
    pub filter: Conditions,
    /// Most targets to evaluate.
    pub max_items: Option<u64>,
    /// Most cost of model calls, US dollars.
    pub max_usd: Option<f64>,
    /// `running`, `paused`, `completed`, `cancelled` or `failed`.
    pub state: BackfillState,
    /// Why it waits (`rule_disabled`, `rule_paused`), failed (`rule_deleted`, `rule_changed`), or ended before the end of its
    /// range (`max_items`, `max_usd`).
    pub reason: Option<BackfillReason>,
    /// Targets in the range, whether they match or not; `null` if they are not counted.
    pub target_count: Option<u64>,
    /// Examined targets.
    pub examined_count: u64,
    /// Share of the range that is examined, from 0 to 1.
    pub examined_share: Option<f64>,
    /// Start of the last examined target. Targets are examined from the newest to the oldest.
    pub reached_at: Option<Timestamp>,
    /// Targets with a new execution.
    pub item_count: u64,
    /// Targets that have a result, or an execution that has not ended.
    pub present_count: u64,
    /// Targets that the filters do not take, or that are not in the sample of the rule.
    pub refused_count: u64,
    /// Targets that were not complete, or whose budget was exhausted.
    pub left_out_count: u64,
    /// New executions, one for each target and evaluator.
    pub execution_count: u64,
    /// Executions that wait or run.
    pub open_count: u64,
    /// Executions with scores.
    pub completed_count: u64,
    /// Executions without a score because the evaluator does not apply.
    pub skipped_count: u64,
    /// Failed executions.
    pub failed_count: u64,
    /// Cancelled executions.
    pub cancelled_count: u64,
    /// Cost of the model calls of ended executions, US dollars, without calls whose price is unknown.
    pub cost_usd: f64,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// When it was completed, cancelled or failed.
    pub ended_at: Option<Timestamp>,
}

/// What one evaluator would do in a backfill.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackfillEvaluator {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Executions.
    pub execution_count: u64,
    /// Basis of cost and time.
    pub basis: EstimateBasis,
    /// Mean cost of an execution, US dollars; `null` if unknown.
    pub cost_per_execution_usd: Option<f64>,
    /// Cost of all executions, US dollars; `null` if unknown.
    pub cost_usd: Option<f64>,
    /// Seconds for all executions at the limits of the connection, or at 2,000 executions per second without model calls;
    /// `null` if unknown.
    pub seconds: Option<f64>,
}

/// An estimate of a backfill, from its newest targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackfillEstimate {
    /// Targets in the range, whether they match or not; `null` if they are not counted.
    pub target_count: Option<u64>,
    /// Examined targets.
    pub examined_count: u64,
    /// Whether all targets of the range were examined. Otherwise the other numbers are extrapolated.
    pub is_whole: bool,
    /// Targets that would be evaluated, at most `maxItems`.
    pub item_count: u64,
    /// Targets that have a result, or an execution that has not ended.
    pub present_count: u64,
    /// Targets that the filters do not take, or that are not in the sample of the rule.
    pub refused_count: u64,
    /// Executions.
    pub execution_count: u64,
    /// Cost, US dollars; `null` if unknown. `maxUsd` may end the backfill before.
    pub cost_usd: Option<f64>,
    /// Seconds, for the evaluator that takes longest; `null` if unknown.
    pub seconds: Option<f64>,
    /// One for each evaluator of the rule.
    pub evaluators: Vec<BackfillEvaluator>,
}
