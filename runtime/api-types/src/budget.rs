//! Budgets and costs of model calls.

use perpend_domain::budget::{Budget, BudgetScope, BudgetWindow, OnReached};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The new budgets of an evaluator or of the project.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBudgets {
    /// At most one for each window; an empty list removes all limits.
    pub budget: Vec<Budget>,
}

/// A budget with the amount spent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetState {
    /// The kind of `id`.
    pub scope: BudgetScope,
    /// The id of the rule, evaluator or project.
    pub id: String,
    /// The period after which it is renewed.
    pub window: BudgetWindow,
    /// The limit, in US dollars.
    pub usd: f64,
    /// The action for executions whose next call would exceed it.
    pub on_reached: OnReached,
    /// Spent in the current window, in US dollars.
    pub spent_usd: f64,
    /// Estimated cost of running calls, in US dollars.
    pub reserved_usd: f64,
    /// Start of the window; `null` for `total`.
    pub window_start: Option<Timestamp>,
    /// End of the window; `null` for `total`.
    pub window_end: Option<Timestamp>,
}

/// The cost of model calls. Members that the response is not grouped by are absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCost {
    /// Start of the UTC day.
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
    /// The requested model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Requests, including failed ones.
    pub calls: u64,
    /// Requests without a usable reply.
    pub failed_calls: u64,
    /// Successful requests with unknown price, which are not in `costUsd`.
    pub unpriced_calls: u64,
    /// Tokens of the prompts.
    pub input_tokens: u64,
    /// Tokens of the replies.
    pub output_tokens: u64,
    /// US dollars.
    pub cost_usd: f64,
    /// Requests answered from the cache; not in `calls` and tokens.
    #[serde(default)]
    pub cached_calls: u64,
    /// Cost saved by cached replies, in US dollars, as far as prices are known.
    #[serde(default)]
    pub saved_usd: f64,
}

/// Costs of a time range with their sum.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelCosts {
    /// Grouped as requested, the last day first.
    pub data: Vec<ModelCost>,
    /// The sum of all groups.
    pub total: ModelCost,
    /// Calls of trials, checks and preflights. They belong to no rule, count against no budget, and are not in `data` and
    /// `total`.
    #[serde(default)]
    pub trials: ModelCost,
}
