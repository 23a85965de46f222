//! Backfills: a rule applied to stored targets, newest first.

use crate::evaluation::TargetKind;
use crate::filter::WrittenFilter;
use crate::ids::{ProjectId, RuleId};
use crate::named::named_enum;
use crate::time::Timestamp;

named_enum!(
    /// The targets that a backfill evaluates.
    BackfillMode {
        /// Those without a result of the evaluator version that the rule uses.
        Fill = "fill",
        /// All. Scores of earlier executions are superseded.
        Rescore = "rescore",
    }
);

named_enum!(
    /// The state of a backfill.
    BackfillState {
        /// It queues executions, or waits for their end.
        Running = "running",
        /// Its waiting executions are set aside until it is resumed.
        Paused = "paused",
        /// The range, or a limit, is reached and its executions have ended.
        Completed = "completed",
        /// A user ended it. Its waiting executions are cancelled, its scores are kept.
        Cancelled = "cancelled",
        /// It cannot continue, because its rule was deleted or scores another kind of target.
        Failed = "failed",
    }
);

impl BackfillState {
    /// Whether it can no longer be paused, resumed or cancelled.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Failed)
    }
}

named_enum!(
    /// Why a backfill waits, or ended before the end of its range.
    BackfillReason {
        /// The rule is disabled.
        RuleDisabled = "rule_disabled",
        /// The rule, or each of its evaluators, is paused.
        RulePaused = "rule_paused",
        /// The rule was deleted.
        RuleDeleted = "rule_deleted",
        /// The rule scores another kind of target now.
        RuleChanged = "rule_changed",
        /// `maxItems` targets are evaluated.
        MaxItems = "max_items",
        /// The next executions could exceed `maxUsd`.
        MaxUsd = "max_usd",
    }
);

/// What a backfill evaluates.
#[derive(Clone, Debug, PartialEq)]
pub struct BackfillPlan {
    /// The rule.
    pub rule: RuleId,
    /// Its name when the backfill was created.
    pub rule_name: String,
    /// The kind of its targets.
    pub target: TargetKind,
    /// Which targets.
    pub mode: BackfillMode,
    /// Targets that started at or after this time. For sessions the start of the newest trace counts.
    pub from: Timestamp,
    /// Targets that started before this time.
    pub to: Timestamp,
    /// Conditions in addition to those of the rule, on the same columns.
    pub filter: WrittenFilter,
    /// Most targets to evaluate.
    pub max_items: Option<u64>,
    /// Most cost of model calls, US dollars.
    pub max_usd: Option<f64>,
    /// Targets in the range when the backfill was created, whether they match or not; absent if unknown.
    pub n_in_range: Option<u64>,
    /// Estimated cost of an execution, US dollars; absent if unknown.
    pub usd_per_execution: Option<f64>,
}

/// Numbers of targets and executions of a backfill.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BackfillCounts {
    /// Examined targets.
    pub n_examined: u64,
    /// Targets with a new execution.
    pub n_items: u64,
    /// Targets that the mode leaves out: they have a result, or an execution that has not ended.
    pub n_present: u64,
    /// Targets that the rule or the filter of the backfill does not take, or that are not in the sample.
    pub n_refused: u64,
    /// Targets that were not complete when they were examined, or whose budget was exhausted.
    pub n_left_out: u64,
    /// New executions: one for each target and evaluator.
    pub n_executions: u64,
    /// Executions with scores.
    pub n_completed: u64,
    /// Executions without a score because the evaluator does not apply.
    pub n_skipped: u64,
    /// Failed executions.
    pub n_failed: u64,
    /// Cancelled executions.
    pub n_cancelled: u64,
    /// Cost of the model calls of ended executions, US dollars, without calls whose price is unknown.
    pub cost_usd: f64,
}

impl BackfillCounts {
    /// Ended executions.
    #[must_use]
    pub const fn n_ended(&self) -> u64 {
        self.n_completed + self.n_skipped + self.n_failed + self.n_cancelled
    }

    /// Executions that wait or run.
    #[must_use]
    pub const fn n_open(&self) -> u64 {
        self.n_executions.saturating_sub(self.n_ended())
    }

    /// Adds counts.
    pub fn add(&mut self, more: &Self) {
        self.n_examined += more.n_examined;
        self.n_items += more.n_items;
        self.n_present += more.n_present;
        self.n_refused += more.n_refused;
        self.n_left_out += more.n_left_out;
        self.n_executions += more.n_executions;
        self.n_completed += more.n_completed;
        self.n_skipped += more.n_skipped;
        self.n_failed += more.n_failed;
        self.n_cancelled += more.n_cancelled;
        self.cost_usd += more.cost_usd;
    }
}

/// A backfill.
#[derive(Clone, Debug, PartialEq)]
pub struct Backfill {
    /// The tenant.
    pub project: ProjectId,
    /// Its id.
    pub id: String,
    /// What it evaluates.
    pub plan: BackfillPlan,
    /// The state.
    pub state: BackfillState,
    /// Why it waits, or ended before the end of its range.
    pub reason: Option<BackfillReason>,
    /// Raised by each change: a step that was prepared for an older revision is discarded.
    pub revision: i64,
    /// The position after the last examined target; absent before the first one.
    pub cursor: Option<String>,
    /// Start of the last examined target.
    pub reached_at: Option<Timestamp>,
    /// All targets of the range are examined, or a limit is reached.
    pub is_scanned: bool,
    /// The counts.
    pub counts: BackfillCounts,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// When it was completed, cancelled or failed.
    pub ended_at: Option<Timestamp>,
}

impl Backfill {
    /// Share of the range that is examined, from 0 to 1; absent if unknown.
    #[must_use]
    pub fn examined_share(&self) -> Option<f64> {
        if self.is_scanned {
            return Some(1.0);
        }
        let by_count = self.plan.n_in_range.filter(|n| 0 < *n);
        if let Some(n) = by_count {
            return Some((self.counts.n_examined as f64 / n as f64).min(1.0));
        }
        let (from, to) = (self.plan.from.as_micros() as f64, self.plan.to.as_micros() as f64);
        let reached = self.reached_at?.as_micros() as f64;
        (from < to).then(|| ((to - reached) / (to - from)).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_up_and_open_executions_are_those_that_have_not_ended() {
        let mut counts = BackfillCounts { n_executions: 5, n_completed: 1, ..Default::default() };
        counts.add(&BackfillCounts { n_failed: 1, cost_usd: 0.5, ..Default::default() });
        counts.add(&BackfillCounts { n_executions: 2, n_cancelled: 1, ..Default::default() });
        assert_eq!((counts.n_ended(), counts.n_open(), counts.cost_usd), (3, 4, 0.5));
    }
}
