//! The form that creates or changes a rule, with its preview.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::layout::forms::RejectedForm;
use crate::rules::page::DefinitionChange;
use crate::{Shell, Text};

/// The editor of a rule. Without script it is a form whose buttons preview or save.
#[derive(Clone, Debug, Template)]
#[template(path = "rule_editor.html")]
pub struct RuleEditorPage {
    /// Page frame.
    pub shell: Shell,
    /// Name of the stored rule; absent for a new one.
    pub name: Option<Text>,
    /// URL of the page of the stored rule, or of the list of rules.
    pub href: String,
    /// Action of the form.
    pub action: String,
    /// Whether the stored rule is enabled.
    pub is_enabled: bool,
    /// The values of the fields.
    pub fields: RuleFields,
    /// Kinds of targets: value, label, and whether it is selected.
    pub targets: Vec<(&'static str, &'static str, bool)>,
    /// Evaluators of the project, the selected ones first.
    pub evaluators: Vec<EvaluatorChoice>,
    /// Other rules, the selected ones first: id, name, and whether this rule waits for it.
    pub others: Vec<(String, Text, bool)>,
    /// Columns that the filter can use.
    pub columns: Vec<&'static str>,
    /// The next firings of the schedule in the form, on the clock of its time zone.
    pub next_firings: Vec<String>,
    /// Conditions that were not taken over, and other notices.
    pub notices: Vec<Text>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
    /// The stored rule, if it was changed after this form was opened.
    pub conflict: Option<RuleConflict>,
    /// The preview of the sent values.
    pub preview: Option<RulePreviewView>,
}

/// The values of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleFields {
    /// Revision that the form is based on; empty for a new rule.
    pub revision: String,
    /// Name.
    pub name: String,
    /// Filter as text.
    pub q: String,
    /// Conditions without a text, as a JSON array; empty if there are none.
    pub conditions: String,
    /// Share of the targets in percent.
    pub sampling: String,
    /// Whether the sample differs from those of other rules.
    pub is_independent: bool,
    /// Cron expression; empty for a rule that evaluates targets as soon as they are complete.
    pub cron: String,
    /// Time zone of the expression.
    pub timezone: String,
    /// Milliseconds.
    pub settle_ms: String,
    /// Milliseconds.
    pub quiet_ms: String,
    /// Milliseconds.
    pub max_wait_ms: String,
    /// `fail`, `skip` or `empty`.
    pub on_missing: String,
    /// `ignore` or `rescore`.
    pub late: String,
    /// Budgets as lines of window, dollars and action.
    pub budget: String,
    /// Share in percent of rejected targets that are scored nevertheless.
    pub audit: String,
}

/// An evaluator that a rule can use.
#[derive(Clone, Debug)]
pub struct EvaluatorChoice {
    /// Id.
    pub id: String,
    /// Name.
    pub name: Text,
    /// Plug-in and function, or the reason of its pause.
    pub note: Text,
    /// Whether the rule uses it.
    pub is_selected: bool,
    /// Lines of variable, source and path; empty for the mapping of the evaluator.
    pub mapping: String,
    /// `latest`, `pinned:N` or `shadow:N`.
    pub version: String,
}

/// The stored rule differs from the one that the form was opened with.
#[derive(Clone, Debug)]
pub struct RuleConflict {
    /// Time of the last change.
    pub at: Timestamp,
    /// Members that differ: the stored value, and the value of the form.
    pub members: Vec<DefinitionChange>,
}

/// The targets that a rule would score, and their cost.
#[derive(Clone, Debug)]
pub struct RulePreviewView {
    /// Numbers of matching and of sampled targets of the last 24 hours.
    pub last_day: String,
    /// The same for the last seven days.
    pub last_week: String,
    /// The examined period, if it is shorter than seven days.
    pub note: Option<Text>,
    /// Examples.
    pub examples: Vec<RulePreviewExampleView>,
    /// Name of an evaluator, variable, and number of targets without it.
    pub missing: Vec<(Text, Text, String)>,
    /// Number of checked targets.
    pub n_checked: String,
    /// Cost per day of all evaluators.
    pub cost: String,
    /// Name of an evaluator, cost per day, basis of the estimate, and busy time per day.
    pub estimates: Vec<(Text, String, &'static str, String)>,
    /// Names and URLs of enabled rules that use one of the evaluators on targets of this kind.
    pub overlaps: Vec<(Text, String)>,
}

/// A target that the rule would score.
#[derive(Clone, Debug)]
pub struct RulePreviewExampleView {
    /// Name or id.
    pub name: Text,
    /// URL.
    pub href: String,
    /// Start time.
    pub at: Timestamp,
    /// Beginning of the item that the first evaluator would receive.
    pub item: Option<Text>,
    /// Why it would not be called.
    pub problem: Option<Text>,
}

/// Fields of the folded part of the form.
const FOLDED_FIELDS: [&str; 8] =
    ["settle_ms", "quiet_ms", "max_wait_ms", "late", "on_missing", "budget", "after", "audit"];

impl RuleEditorPage {
    fn is_unfolded(&self) -> bool {
        FOLDED_FIELDS.iter().any(|field| self.rejected_form.problem(field).is_some())
    }

    fn has_value(&self, field: &str, value: &str) -> bool {
        let own = match field {
            "on_missing" => &self.fields.on_missing,
            _ => &self.fields.late,
        };
        own == value
    }
}
