//! The form that applies a rule to selected rows of a list.

use askama::Template;

use crate::{RejectedForm, Shell, Text};

/// The form that applies a rule to selected traces, observations or sessions.
#[derive(Clone, Debug, Template)]
#[template(path = "rule_run.html")]
pub struct RuleRunPage {
    /// Page frame.
    pub shell: Shell,
    /// Action of the form.
    pub action: String,
    /// Such as `3 traces`.
    pub selected: String,
    /// Whether no row is selected.
    pub is_empty: bool,
    /// Title and URL of the list.
    pub list: (&'static str, String),
    /// Kind of the targets, for a new rule.
    pub target: &'static str,
    /// Fields with the selected rows.
    pub fields: Vec<(&'static str, String)>,
    /// Ids and names of the enabled rules of such targets, and whether each is selected.
    pub rules: Vec<(String, Text, bool)>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
}
