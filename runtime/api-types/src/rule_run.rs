//! A rule applied to chosen targets.

use perpend_domain::ids::ExecutionId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::trial::TrialTarget;

/// The targets of a run of a rule.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleRunInput {
    /// 1 to 1,000, of the kind that the rule scores. Filter and sampling of the rule do not apply.
    pub targets: Vec<TrialTarget>,
    /// `fill`: targets without a result of the evaluator version that the rule uses; `rescore`: all. `fill` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// A run of a rule over chosen targets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleRun {
    /// The new executions, one for each target and evaluator.
    pub execution_ids: Vec<ExecutionId>,
    /// Targets with a new execution.
    pub item_count: u64,
    /// Targets that have a result, or an execution that has not ended.
    pub present_count: u64,
    /// Targets that no rule scores: those of the server itself, and observations that are no experiment items for a rule of
    /// experiments.
    pub refused_count: u64,
    /// Targets that are not complete, or whose budget is exhausted.
    pub left_out_count: u64,
    /// Targets that do not exist.
    pub missing_count: u64,
}
