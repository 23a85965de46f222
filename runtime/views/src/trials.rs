//! Trials of evaluators: the fields of a form that choose targets, and the results.

#[cfg(test)]
mod tests;

use askama::Template;

use crate::{LogEntry, RejectedForm, ScoreView, Shell, Text};

/// A trial in a form: `trial_fields.html` inside the form, and `trial_results.html` outside.
#[derive(Clone, Debug, Default)]
pub struct TrialView {
    /// Values and problems of the fields.
    pub form: RejectedForm,
    /// Columns of the filter for the selected kind of target.
    pub columns: Vec<&'static str>,
    /// The expected calls and cost, if they were requested.
    pub estimate: Option<Text>,
    /// The results, if the evaluator was run.
    pub results: Option<TrialResultsView>,
}

impl TrialView {
    /// Kinds of targets with their labels.
    pub(crate) const TARGETS: [(&'static str, &'static str); 4] = [
        ("observation", "observations"),
        ("trace", "traces"),
        ("session", "sessions"),
        ("experiment", "items of experiments"),
    ];

    pub(crate) fn has_value(&self, field: &str, value: &str) -> bool {
        self.form.value(field) == value
    }
}

/// The results of a trial.
#[derive(Clone, Debug, Default)]
pub struct TrialResultsView {
    /// Labels and values: the scores by name, agreement, failures, cost.
    pub summary: Vec<(Text, Text)>,
    /// Results in the order of the targets.
    pub rows: Vec<TrialRow>,
}

/// The result for one target.
#[derive(Clone, Debug)]
pub struct TrialRow {
    /// Kind of the target; `item` for a written one.
    pub kind: &'static str,
    /// Id of the target.
    pub id: Text,
    /// URL of the target; absent for a written item.
    pub href: Option<String>,
    /// The scores of the trial.
    pub scores: Vec<ScoreView>,
    /// Failure class, message and line of the source.
    pub error: Option<(Text, Text, Option<String>)>,
    /// The stored scores of the evaluator on the target, and whether its newest version gave them.
    pub current: Vec<(ScoreView, bool)>,
    /// Scores of the same names that people gave to the target.
    pub people: Vec<ScoreView>,
    /// Log lines of the evaluator.
    pub log: Vec<LogEntry>,
    /// The input of the evaluator as JSON.
    pub item: Option<Text>,
    /// Duration of the call.
    pub duration: String,
    /// CPU time.
    pub cpu: String,
    /// Cost of the model calls; empty without calls.
    pub cost: String,
    /// Input and output tokens, or the origin of the replies; empty without calls.
    pub tokens: String,
}

/// The page that tries a stored evaluator.
#[derive(Clone, Debug, Template)]
#[template(path = "evaluator_try.html")]
pub struct EvaluatorTryPage {
    /// Page frame.
    pub shell: Shell,
    /// Name of the evaluator.
    pub name: Text,
    /// Number of its newest version.
    pub version: u32,
    /// URL of the page of the evaluator.
    pub href: String,
    /// The trial.
    pub trial: TrialView,
}
