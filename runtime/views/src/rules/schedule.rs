//! The schedule of a rule and its firings.

use perpend_domain::time::Timestamp;

use crate::Text;

/// The schedule of a rule.
#[derive(Clone, Debug)]
pub struct RuleScheduleView {
    /// The cron expression; absent for a rule that had a schedule before.
    pub cron: Option<Text>,
    /// The time zone of the expression.
    pub timezone: Option<Text>,
    /// The next firings on the clock of the time zone; empty while the rule is disabled.
    pub next: Vec<String>,
    /// Number of missed firings of 31 days.
    pub missed: String,
    /// The last firings, newest first.
    pub firings: Vec<FiringLine>,
}

/// A firing.
#[derive(Clone, Debug)]
pub struct FiringLine {
    /// The time by the schedule.
    pub fired_at: Timestamp,
    /// Start of its window.
    pub from: Timestamp,
    /// Delay after which a server noticed it, such as `3 h 00 min`; absent if it was on time.
    pub late: Option<String>,
    /// Number of earlier firings in its window.
    pub missed: String,
    /// Labels and numbers of its executions, without the empty ones.
    pub executions: Vec<(&'static str, String)>,
}
