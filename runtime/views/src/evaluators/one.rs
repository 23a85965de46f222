//! The page of an evaluator.

use askama::Template;

use crate::evaluators::list::EvaluatorPauseSummary;
use crate::{FailureLine, Html, ResourceLink, Shell, Text};

/// An evaluator with its definition, rules and failures.
#[derive(Clone, Debug, Template)]
#[template(path = "evaluator.html")]
pub struct EvaluatorPage {
    /// Page frame.
    pub shell: Shell,
    /// Name.
    pub name: Text,
    /// URL of the page.
    pub href: String,
    /// Number of the newest version.
    pub version: u32,
    /// Description.
    pub description: Option<Text>,
    /// Its pause.
    pub pause: Option<EvaluatorPauseSummary>,
    /// Number of its executions that are held.
    pub held: String,
    /// Labels and values.
    pub facts: Vec<(&'static str, Html)>,
    /// URL of the page of its plug-in, if it exists.
    pub plugin_href: Option<String>,
    /// The rules that use it.
    pub uses: Vec<EvaluatorUseLine>,
    /// URL of the scores of the newest version.
    pub scores_href: String,
    /// Failed executions of the last seven days by class.
    pub failures: Vec<FailureLine>,
    /// URL of its failed executions.
    pub failed_href: String,
    /// Whether the viewer may change evaluators.
    pub may_write: bool,
}

/// A rule that uses an evaluator.
#[derive(Clone, Debug)]
pub struct EvaluatorUseLine {
    /// The rule.
    pub rule: ResourceLink,
    /// `on`, `off` or `paused`.
    pub state: &'static str,
    /// Kind of the targets.
    pub target: &'static str,
    /// `latest`, `pinned:N` or `shadow:N`.
    pub policy: String,
    /// Lines of the mapping of the rule; empty for the mapping of the evaluator.
    pub mapping: Vec<Text>,
}
