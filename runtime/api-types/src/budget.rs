//! Budgets of model calls, and what the calls cost.

use perpend_domain::budget::{Budget, BudgetScope, BudgetWindow, OnReached};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The budgets of an evaluator or of the project, as they shall be from now on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBudgets {
    /// At most one for each window; none lifts all limits.
    pub budget: Vec<Budget>,
}

/// A budget and how it stands.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetState {
    /// What `id` names.
    pub scope: BudgetScope,
    /// The rule, the evaluator or the project.
    pub id: String,
    /// After which it is renewed.
    pub window: BudgetWindow,
    /// The limit, in US dollars.
    pub usd: f64,
    /// What happens to executions whose next call would go over it.
    pub on_reached: OnReached,
    /// Spent since the window began, in US dollars.
    pub spent_usd: f64,
    /// What calls that are under way may cost on top, in US dollars.
    pub reserved_usd: f64,
    /// When the window began; `null` for `total`.
    pub window_start: Option<Timestamp>,
    /// When it is renewed; `null` for `total`.
    pub window_end: Option<Timestamp>,
}

/// What model calls cost. Members that the answer is not grouped by are absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCost {
    /// When the UTC day began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub day: Option<Timestamp>,
    /// The rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub evaluation_rule_id: Option<String>,
    /// The evaluator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub evaluator_id: Option<String>,
    /// The name of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub provider: Option<String>,
    /// The model that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Requests, failed ones too.
    pub calls: u64,
    /// Requests without a usable answer.
    pub failed_calls: u64,
    /// Answered requests whose price is not known: `costUsd` leaves them out.
    pub unpriced_calls: u64,
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// Requests that stored replies answered; `calls` and tokens leave them out.
    #[serde(default)]
    pub cached_calls: u64,
    /// What these would have cost, in US dollars, as far as the prices are known.
    #[serde(default)]
    pub saved_usd: f64,
}

/// Costs of a time range, and their sum.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelCosts {
    /// By the members that were asked for, the last day first.
    pub data: Vec<ModelCost>,
    /// Of all of them.
    pub total: ModelCost,
    /// Calls of trials, checks and preflights. They belong to no rule and count against no budget; `data` and `total` leave
    /// them out.
    #[serde(default)]
    pub trials: ModelCost,
}
