//! Pages of backtests: the list with the form that starts one, and one with its progress and results.

#[cfg(test)]
mod tests;

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::{JobEstimateView, RejectedForm, Shell, Text};

/// The backtests of a project.
#[derive(Clone, Debug, Template)]
#[template(path = "backtests.html")]
pub struct BacktestsPage {
    /// Page frame.
    pub shell: Shell,
    /// Newest first.
    pub backtests: Vec<BacktestLine>,
    /// Whether the project has more than listed.
    pub has_more: bool,
    /// Ids and names of evaluators, and whether each is selected.
    pub evaluators: Vec<(String, Text, bool)>,
    /// Ids and names of rules, and whether each is selected.
    pub rules: Vec<(String, Text, bool)>,
    /// Whether the viewer may start a backtest.
    pub may_write: bool,
    /// The sent values and their validation errors.
    pub rejected_form: RejectedForm,
    /// The estimate of the sent values.
    pub estimate: Option<JobEstimateView>,
}

impl BacktestsPage {
    /// Backtests on the page.
    pub const LIMIT: u32 = 50;
    /// Evaluators and rules of the form.
    pub const MAX_OPTIONS: u32 = 200;

    /// The sent value of a field, or its default.
    fn value<'v>(&'v self, field: &str, default: &'v str) -> &'v str {
        match self.rejected_form.values.is_empty() {
            true => default,
            false => self.rejected_form.value(field),
        }
    }
}

/// A backtest in the list.
#[derive(Clone, Debug)]
pub struct BacktestLine {
    /// URL of its page.
    pub href: String,
    /// Name of the evaluator.
    pub evaluator: Text,
    /// Such as `version 2` or `draft`.
    pub tested: String,
    /// The state.
    pub state: &'static str,
    /// Class of the state: `good`, `bad`, `waiting` or empty.
    pub tone: &'static str,
    /// Why it ended early.
    pub reason: Option<&'static str>,
    /// Start of the range.
    pub from: Timestamp,
    /// End of the range.
    pub to: Timestamp,
    /// Examined part of the range, such as `40 %`.
    pub examined: String,
    /// Evaluated targets.
    pub items: String,
    /// Failed targets, such as `2 failed`; absent if none failed.
    pub failed: Option<String>,
    /// Cost.
    pub cost: String,
    /// When it was created.
    pub created_at: Timestamp,
}

/// One backtest.
#[derive(Clone, Debug, Template)]
#[template(path = "backtest.html")]
pub struct BacktestPage {
    /// Page frame.
    pub shell: Shell,
    /// The row of the list.
    pub line: BacktestLine,
    /// URL of the evaluator.
    pub evaluator_href: String,
    /// URL of the rule whose scores are compared.
    pub rule_href: Option<String>,
    /// Configuration and models of the tested version.
    pub tested: Vec<(&'static str, Text)>,
    /// Labels and counts.
    pub counts: Vec<(&'static str, String)>,
    /// Limits in words.
    pub limits: Vec<String>,
    /// Conditions in words.
    pub conditions: Vec<Text>,
    /// Completed percentage, if it runs.
    pub percent: Option<u32>,
    /// Such as `120 of 400 targets examined`.
    pub progress: String,
    /// URL of the progress alone.
    pub progress_href: String,
    /// URL of the page.
    pub href: String,
    /// Changes that the viewer may make: value and label.
    pub changes: Vec<(&'static str, &'static str)>,
    /// Whether the viewer may adopt the version.
    pub may_adopt: bool,
    /// Number of the version that was made current.
    pub adopted: Option<u32>,
    /// Count, class and first message of failures.
    pub failures: Vec<(String, String, Text)>,
    /// Results by name of the score.
    pub scores: Vec<BacktestScoreView>,
    /// Label, live value and tested value of cost and time.
    pub calls: Vec<(&'static str, String, String)>,
    /// A page of flips.
    pub flips: Vec<FlipLine>,
    /// URL of the next page of flips.
    pub next_flips: Option<String>,
    /// Whether the viewer may add targets of flips to a dataset.
    pub may_add_to_dataset: bool,
    /// Ids and names of the annotation queues to which the viewer may add targets of flips.
    pub queues: Vec<(String, Text)>,
}

/// The result for one score name.
#[derive(Clone, Debug)]
pub struct BacktestScoreView {
    /// The name.
    pub name: Text,
    /// The result in words.
    pub sentence: String,
    /// Labels and figures.
    pub figures: Vec<(&'static str, String)>,
    /// Labels of the columns of the matrix.
    pub labels: Vec<Text>,
    /// Label and counts of each row of the matrix.
    pub matrix: Vec<(Text, Vec<String>)>,
    /// Results by segment.
    pub segments: Vec<BacktestSegmentLine>,
}

/// The result in a segment.
#[derive(Clone, Debug)]
pub struct BacktestSegmentLine {
    /// Such as `Model`.
    pub by: &'static str,
    /// The value of the segment.
    pub value: Text,
    /// Compared pairs.
    pub pairs: String,
    /// Pairs with different values.
    pub flips: String,
    /// Agreement with its interval.
    pub agreement: String,
}

impl BacktestPage {
    fn has_choice(&self) -> bool {
        !self.flips.is_empty() && (self.may_add_to_dataset || !self.queues.is_empty())
    }
}

/// A live score and a result with different values.
#[derive(Clone, Debug)]
pub struct FlipLine {
    /// Name and value of the field that selects the target.
    pub choice: (&'static str, String),
    /// URL of the target.
    pub href: String,
    /// Id of the target.
    pub target: Text,
    /// Name of the score.
    pub name: Text,
    /// The live score.
    pub live: Text,
    /// The comment of the live score.
    pub live_comment: Option<Text>,
    /// The result of the tested version.
    pub tested: Text,
    /// The comment of the result.
    pub tested_comment: Option<Text>,
}
