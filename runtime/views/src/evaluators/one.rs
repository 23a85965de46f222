//! The page of an evaluator, and the confirmation of its deletion.

use askama::Template;

use crate::evaluators::definition::EvaluatorDefinition;
use crate::evaluators::figures::EvaluatorFiguresView;
use crate::evaluators::list::EvaluatorPauseSummary;
use crate::evaluators::versions::{EvaluatorVersionLine, VersionComparison};
use crate::{ExecutionLine, FailureLine, Html, ResourceLink, ScoreView, Shell, Text};

/// An evaluator with its definition, versions, rules and failures.
#[derive(Clone, Debug, Template)]
#[template(path = "evaluator.html")]
pub struct EvaluatorPage {
    /// Page frame.
    pub shell: Shell,
    /// Name.
    pub name: Text,
    /// URL of the page.
    pub href: String,
    /// Description.
    pub description: Option<Text>,
    /// Its pause.
    pub pause: Option<EvaluatorPauseSummary>,
    /// Number of its executions that are held.
    pub held: String,
    /// Labels and values.
    pub facts: Vec<(&'static str, Html)>,
    /// Time, cost, scores by version and agreement with people.
    pub figures: EvaluatorFiguresView,
    /// Whether a rule that uses it is enabled, and whether one is disabled.
    pub switches: [bool; 2],
    /// The shown definition.
    pub definition: EvaluatorDefinition,
    /// Versions, newest first.
    pub versions: Vec<EvaluatorVersionLine>,
    /// Whether there are older versions than listed.
    pub has_more_versions: bool,
    /// The selected comparison.
    pub comparison: Option<VersionComparison>,
    /// The rules that use it.
    pub uses: Vec<EvaluatorUseLine>,
    /// URL of the scores of the newest version.
    pub scores_href: String,
    /// The latest executions with scores.
    pub scored: Vec<(ExecutionLine, Vec<ScoreView>)>,
    /// Failed executions of the last seven days by class.
    pub failures: Vec<FailureLine>,
    /// The latest failed executions.
    pub failed: Vec<ExecutionLine>,
    /// URL of its failed executions.
    pub failed_href: String,
    /// Whether the viewer may change evaluators.
    pub may_write: bool,
}

impl EvaluatorPage {
    /// URL of the form of a rule that uses the evaluator.
    pub(crate) fn new_rule_href(&self) -> String {
        format!("{}/rules/new?evaluator={}", self.shell.base(), self.encoded_id())
    }

    /// URL of the form of a backtest of the evaluator.
    pub(crate) fn backtest_href(&self) -> String {
        format!("{}/backtests?evaluator={}#new", self.shell.base(), self.encoded_id())
    }

    fn encoded_id(&self) -> &str {
        self.href.rsplit('/').next().unwrap_or_default()
    }

    /// Number of the version on side `a` of the form that compares versions.
    pub(crate) fn is_compared(&self, number: &u32, is_a: bool) -> bool {
        let newest = || {
            let mut numbers = self.versions.iter().map(|line| line.number);
            if is_a { numbers.nth(1) } else { numbers.next() }
        };
        let compared = self.comparison.as_ref();
        let selected = compared.map(|both| if is_a { both.a } else { both.b });
        selected.or_else(newest) == Some(*number)
    }
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

/// The confirmation of the deletion of an evaluator.
#[derive(Clone, Debug, Template)]
#[template(path = "evaluator_delete.html")]
pub struct DeleteEvaluatorPage {
    /// Page frame.
    pub shell: Shell,
    /// Name.
    pub name: Text,
    /// URL of the page of the evaluator.
    pub href: String,
    /// Rules that keep other evaluators.
    pub remaining: Vec<ResourceLink>,
    /// Rules without another evaluator, which are switched off.
    pub disabled: Vec<ResourceLink>,
}
