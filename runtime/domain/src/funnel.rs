//! What happened to the targets of a rule in a period.

use serde::{Deserialize, Serialize};

/// Targets and executions of a rule in a period. `arrived` is the sum of `ruleInactive`, `rulePaused`,
/// `internalEnvironment`, `notAnItem`, `rootMissing`, `notMatched`, `sampledOut` and `sampled`. `made` and `carriedOver`
/// together are the sum of `pending`, `running`, `delayed`, `held`, `scored`, `skipped`, `failed`, `cancelled` and `missing`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = RuleFunnel))]
pub struct Funnel {
    /// Examined targets. A target is examined again when data arrives after its examination.
    pub arrived: u64,
    /// Targets that arrived while the rule was off.
    pub rule_inactive: u64,
    /// Targets that arrived while the rule was paused and refused targets.
    pub rule_paused: u64,
    /// Targets of the server itself.
    pub internal_environment: u64,
    /// Observations that are no items of experiments, for a rule of experiments.
    pub not_an_item: u64,
    /// Items of runs whose trace or root did not arrive in time, for a rule of experiments.
    pub root_missing: u64,
    /// Targets that the filter refuses.
    pub not_matched: u64,
    /// Targets that pass the filter.
    pub matched: u64,
    /// Of these, targets that are not in the sample.
    pub sampled_out: u64,
    /// Of these, targets in the sample. Each evaluator of the rule makes an execution or counts a target under
    /// `duplicate`, `late` or `budget`.
    pub sampled: u64,
    /// Targets that already had an execution.
    pub duplicate: u64,
    /// Targets that already had an execution and continued afterwards.
    pub late: u64,
    /// Targets left without an execution because a budget was exhausted.
    pub budget: u64,
    /// Executions made in the period.
    pub made: u64,
    /// Executions that were open at the start of the period, or were requeued in it.
    pub carried_over: u64,
    /// Executions that wait for a worker.
    pub pending: u64,
    /// Executions in progress.
    pub running: u64,
    /// Executions that wait for their next attempt.
    pub delayed: u64,
    /// Executions that wait for the end of a pause or for a budget.
    pub held: u64,
    /// Executions that ended with scores in the period.
    pub scored: u64,
    /// Executions that ended with nothing to measure.
    pub skipped: u64,
    /// Executions that failed.
    pub failed: u64,
    /// Executions that were cancelled.
    pub cancelled: u64,
    /// Executions that were deleted with their targets before they ended.
    pub missing: u64,
}

impl Funnel {
    /// Targets refused before or by the filter.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.rule_inactive
            + self.rule_paused
            + self.internal_environment
            + self.not_an_item
            + self.root_missing
            + self.not_matched
    }

    /// Open executions.
    #[must_use]
    pub const fn waiting(&self) -> u64 {
        self.pending + self.running + self.delayed + self.held
    }

    /// Executions that ended.
    #[must_use]
    pub const fn ended(&self) -> u64 {
        self.scored + self.skipped + self.failed + self.cancelled
    }
}
