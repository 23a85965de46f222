//! The page of a rule.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::executions::ExecutionLine;
use crate::layout::forms::RejectedForm;
use crate::markup::encode;
use crate::rules::schedule::RuleScheduleView;
use crate::scores::score::{ResourceLink, ScoreView, Tone};
use crate::{Html, Section, Shell, Text};

/// A rule with its funnel, failures, scores and history.
#[derive(Clone, Debug, Template)]
#[template(path = "rule.html")]
pub struct RulePage {
    /// Page frame.
    pub shell: Shell,
    /// Id.
    pub id: Text,
    /// Name.
    pub name: Text,
    /// URL of the page.
    pub href: String,
    /// `on`, `failing`, `off` or `paused`.
    pub state: &'static str,
    /// Colour of the state.
    pub tone: Tone,
    /// Whether the user has enabled it.
    pub is_enabled: bool,
    /// Whether the viewer may change it.
    pub may_write: bool,
    /// The pauses of the rule and of its evaluators.
    pub pauses: Vec<PauseView>,
    /// Labels and values of its definition.
    pub facts: Vec<(&'static str, Html)>,
    /// Terms of the filter as text.
    pub conditions: Vec<Text>,
    /// Its evaluators.
    pub assignments: Vec<AssignmentLine>,
    /// Periods of the funnel: label, URL, and whether it is shown.
    pub periods: Vec<(&'static str, String, bool)>,
    /// The steps of the funnel.
    pub funnel: Vec<FunnelStep>,
    /// URL of the funnel as a fragment.
    pub funnel_href: String,
    /// Its schedule, if it has or had one.
    pub schedule: Option<RuleScheduleView>,
    /// Failed executions by class.
    pub failures: Vec<FailureLine>,
    /// URL of the list of its failed executions.
    pub failed_href: String,
    /// The latest failed executions.
    pub failed: Vec<ExecutionLine>,
    /// The latest executions with scores.
    pub scored: Vec<(ExecutionLine, Vec<ScoreView>)>,
    /// The changes, newest first.
    pub changes: Vec<RuleChangeLine>,
    /// The entered id of a target.
    pub explained_id: String,
    /// Name of the ids that can be entered, such as `Trace or observation id`.
    pub id_label: &'static str,
    /// The decision about the entered target.
    pub explanation: Option<RuleExplanation>,
    /// Why the entered id has no decision.
    pub explain_problem: Option<Text>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
}

/// The funnel of a rule alone.
#[derive(Clone, Debug, Template)]
#[template(path = "rule_funnel.html")]
pub struct RuleFunnelFragment {
    /// The steps.
    pub funnel: Vec<FunnelStep>,
}

impl RulePage {
    fn encoded_id(&self) -> String {
        encode(self.id.raw())
    }

    /// URL of the records of the rule in the audit trail, if the viewer may see them.
    fn audit_href(&self) -> Option<String> {
        let (base, id) = (self.shell.base(), self.encoded_id());
        let is_shown = !self.shell.hidden.contains(&Section::Audit);
        is_shown.then(|| format!("{base}/settings/audit?kind=evaluation-rule&object={id}"))
    }
}

/// A pause of a rule or of one of its evaluators.
#[derive(Clone, Debug)]
pub struct PauseView {
    /// The paused evaluator; absent for a pause of the rule itself.
    pub evaluator: Option<ResourceLink>,
    /// A code such as `PLUGIN_FAILING`.
    pub reason: Text,
    /// A sentence.
    pub message: Text,
    /// Start of the pause.
    pub since: Timestamp,
    /// Automatic end, or time of the next probe.
    pub until: Option<Timestamp>,
    /// Number of held executions.
    pub held: String,
    /// The event that ends the pause.
    pub end_condition: &'static str,
    /// URL of the LLM connections, if one of them causes the pause.
    pub connections_href: Option<String>,
    /// Whether enabling the rule ends the pause.
    pub may_resume: bool,
}

/// An evaluator of a rule.
#[derive(Clone, Debug)]
pub struct AssignmentLine {
    /// The evaluator.
    pub evaluator: ResourceLink,
    /// `latest`, `pinned:N` or `shadow:N`.
    pub version: String,
    /// Lines of the mapping; empty for the mapping of the evaluator.
    pub mapping: Vec<Text>,
}

/// A step of a funnel: the total and its parts.
#[derive(Clone, Debug)]
pub struct FunnelStep {
    /// Such as `Targets`.
    pub title: &'static str,
    /// Label of the total, such as `arrived`.
    pub label: &'static str,
    /// The total.
    pub total: String,
    /// The parts.
    pub parts: Vec<FunnelPart>,
    /// The difference of the total and the sum of the parts; absent if they are equal.
    pub difference: Option<String>,
}

/// A part of a step.
#[derive(Clone, Debug)]
pub struct FunnelPart {
    /// Label.
    pub label: &'static str,
    /// The number.
    pub n: String,
    /// URL of the rows behind it.
    pub href: Option<String>,
    /// Colour.
    pub tone: Tone,
}

/// Failed executions of one class.
#[derive(Clone, Debug)]
pub struct FailureLine {
    /// The class.
    pub class: &'static str,
    /// The number.
    pub n: String,
    /// End of the first one.
    pub first_at: Timestamp,
    /// End of the last one.
    pub last_at: Timestamp,
    /// URL of their list.
    pub href: String,
}

/// A change of a rule.
#[derive(Clone, Debug)]
pub struct RuleChangeLine {
    /// Time of the change.
    pub at: Timestamp,
    /// The author, if known.
    pub author: Option<Text>,
    /// Whether nothing earlier is recorded.
    pub is_oldest: bool,
    /// The changed members.
    pub members: Vec<DefinitionChange>,
}

/// A member that differs between two definitions.
#[derive(Clone, Debug)]
pub struct DefinitionChange {
    /// Name in the API.
    pub member: Text,
    /// The value before.
    pub before: Text,
    /// The value after.
    pub after: Text,
}

/// The decision of a rule about a target.
#[derive(Clone, Debug)]
pub struct RuleExplanation {
    /// The decisive check.
    pub step: Text,
    /// A sentence.
    pub sentence: Text,
    /// Labels and values of the check.
    pub facts: Vec<(&'static str, Text)>,
    /// Kind of the target.
    pub target_kind: &'static str,
    /// Id of the target.
    pub target_id: Text,
    /// URL of the target.
    pub target_href: String,
    /// Ids, states and URLs of the executions over the target.
    pub executions: Vec<(Text, Text, String)>,
}
