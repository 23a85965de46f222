//! The estimate of a job over stored targets.

/// Targets, cost and time of a job before it starts.
#[derive(Clone, Debug)]
pub struct JobEstimateView {
    /// Whether the numbers are extrapolated.
    pub is_rough: bool,
    /// Targets to evaluate, such as `120 targets`.
    pub items: String,
    /// Targets that are not evaluated, such as `30 targets with a result`.
    pub left_out: String,
    /// Such as `240 executions`; absent if each target is evaluated once.
    pub executions: Option<String>,
    /// Cost, or `unknown`.
    pub cost: String,
    /// Duration, or `unknown`.
    pub duration: String,
}
