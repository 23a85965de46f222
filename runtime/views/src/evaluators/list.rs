//! The list of evaluators.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::{ResourceLink, Shell, Text};

/// The evaluators of a project.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "evaluators.html")]
pub struct EvaluatorsPage {
    /// Page frame.
    pub shell: Shell,
    /// Evaluators, newest first.
    pub evaluators: Vec<EvaluatorLine>,
    /// Whether there are more than listed.
    pub has_more: bool,
    /// Values for example commands, if there are no evaluators.
    pub setup: Option<Setup>,
    /// Whether the viewer may change evaluators.
    pub may_write: bool,
}

impl EvaluatorsPage {
    /// Maximum number of evaluators on the page.
    pub const LIMIT: u32 = 200;
}

/// An evaluator.
#[derive(Clone, Debug)]
pub struct EvaluatorLine {
    /// Name.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// `plug-in`, `code` or `judge`.
    pub kind: &'static str,
    /// `vendor/name version · function`, or the language of the source.
    pub implementation: Text,
    /// Number of the newest version.
    pub version: u32,
    /// Its pause.
    pub pause: Option<EvaluatorPauseSummary>,
    /// The rules that use it, and whether each is enabled.
    pub rules: Vec<(ResourceLink, bool)>,
    /// Number of scores of the last seven days.
    pub scores: String,
    /// Their means or shares of true values.
    pub means: Vec<Text>,
    /// URL of the scores of the newest version.
    pub scores_href: String,
    /// Number of executions that failed in the last seven days; absent if none did.
    pub failed: Option<String>,
    /// URL of its failed executions.
    pub failed_href: String,
    /// Cost of the model calls of the last seven days.
    pub cost: String,
}

/// The pause of an evaluator.
#[derive(Clone, Debug)]
pub struct EvaluatorPauseSummary {
    /// A code such as `PLUGIN_FAILING`.
    pub reason: Text,
    /// A sentence.
    pub message: Text,
    /// Start of the pause.
    pub since: Timestamp,
    /// The event that ends the pause.
    pub end_condition: &'static str,
    /// URL of the LLM connections, if one of them causes the pause.
    pub connections_href: Option<String>,
}
