//! Pages of backfills: the list with the form that starts one, and one with its progress.

#[cfg(test)]
mod tests;

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{JobEstimateView, RejectedForm, Shell, Text};

/// The backfills of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "backfills.html")]
pub struct BackfillsPage {
    /// Page frame.
    pub shell: Shell,
    /// Newest first.
    pub backfills: Vec<BackfillLine>,
    /// Whether the project has more than listed.
    pub has_more: bool,
    /// Ids and names of the enabled rules, and whether each is selected.
    pub rules: Vec<(String, Text, bool)>,
    /// Whether the viewer may start a backfill.
    pub may_write: bool,
    /// The sent values and their validation errors.
    pub rejected_form: RejectedForm,
    /// The estimate of the sent values.
    pub estimate: Option<JobEstimateView>,
}

impl BackfillsPage {
    /// Backfills on the page.
    pub const LIMIT: u32 = 50;

    /// The sent value of a field, or its default.
    fn value<'v>(&'v self, field: &str, default: &'v str) -> &'v str {
        match self.rejected_form.values.is_empty() {
            true => default,
            false => self.rejected_form.value(field),
        }
    }
}

/// A backfill in the list.
#[derive(Clone, Debug)]
pub struct BackfillLine {
    /// URL of its page.
    pub href: String,
    /// Name of the rule.
    pub rule: Text,
    /// `fill` or `rescore`.
    pub mode: &'static str,
    /// The state.
    pub state: &'static str,
    /// Class of the state: `good`, `bad`, `waiting` or empty.
    pub tone: &'static str,
    /// Why it waits, or ended early.
    pub reason: Option<&'static str>,
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// Examined part of the range, such as `40 %`.
    pub examined: String,
    /// Evaluated targets.
    pub items: String,
    /// Failed executions, such as `2 failed`; absent if none failed.
    pub failed: Option<String>,
    /// Cost.
    pub cost: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// One backfill.
#[derive(Clone, Debug, Template)]
#[template(path = "backfill.html")]
pub struct BackfillPage {
    /// Page frame.
    pub shell: Shell,
    /// The row of the list.
    pub line: BackfillLine,
    /// URL of the rule.
    pub rule_href: String,
    /// Labels and counts.
    pub counts: Vec<(&'static str, String)>,
    /// Limits in words.
    pub limits: Vec<String>,
    /// Conditions in addition to those of the rule, in words.
    pub conditions: Vec<Text>,
    /// Completed percentage, if it runs.
    pub percent: Option<u32>,
    /// Such as `120 of 400 examined, 20 open`.
    pub progress: String,
    /// URL of the progress alone.
    pub progress_href: String,
    /// URL of the page.
    pub href: String,
    /// Changes that the viewer may make: value and label.
    pub changes: Vec<(&'static str, &'static str)>,
    /// URL of the failed executions of the rule, if executions failed.
    pub failed_href: Option<String>,
}
