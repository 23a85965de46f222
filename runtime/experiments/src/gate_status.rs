//! Results of single requirements.

use serde::{Deserialize, Serialize};

/// The result of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum CheckStatus {
    /// It holds.
    Passed,
    /// It does not hold.
    Failed,
    /// It cannot be decided.
    Undecided,
    /// The run cost more than allowed.
    OverBudget,
}

/// Whether a value reaches a threshold, or does not exceed it; sums differ from it by rounding.
pub(crate) fn holds(value: f64, threshold: f64, is_least: bool) -> bool {
    let rounding = 1e-12 * value.abs().max(threshold.abs());
    if is_least { threshold - rounding <= value } else { value <= threshold + rounding }
}
