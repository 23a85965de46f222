//! Pages of rules.

pub(crate) mod chosen;
pub(crate) mod editor;
pub(crate) mod page;
pub(crate) mod schedule;
#[cfg(test)]
mod tests;

use askama::Template;

use crate::layout::setup::Setup;
use crate::scores::score::{ResourceLink, Tone};
use crate::{Shell, Text};

/// The list of rules.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "rules.html")]
pub struct RulesPage {
    /// Page frame.
    pub shell: Shell,
    /// Rules, newest first.
    pub rules: Vec<RuleRow>,
    /// The newest evaluator, for the example of a rule.
    pub newest_evaluator: Option<ExampleEvaluator>,
    /// Whether there are more rules than listed.
    pub has_more: bool,
    /// Whether the viewer may change rules.
    pub may_write: bool,
    /// Number of enabled rules, if all are listed, and the maximum.
    pub enabled: Option<(String, String)>,
    /// Values for an example command, if there are no rules.
    pub setup: Option<Setup>,
}

impl RulesPage {
    /// Maximum number of rules on the page.
    pub const LIMIT: u32 = 200;
}

/// The evaluator of an example.
#[derive(Clone, Debug)]
pub struct ExampleEvaluator {
    /// Id.
    pub id: Text,
    /// Name.
    pub name: Text,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct RuleRow {
    /// Id, also the anchor of its row.
    pub id: Text,
    /// Name.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// `observation`, `experiment`, `trace`, `session` or `run`.
    pub target: &'static str,
    /// `on`, `failing`, `off` or `paused`.
    pub state: &'static str,
    /// Colour of the state.
    pub tone: Tone,
    /// Reason of the pause.
    pub reason: Option<Text>,
    /// The cron expression and its time zone.
    pub schedule: Option<Text>,
    /// The next firing on the clock of the time zone.
    pub next_firing: Option<String>,
    /// Sample rate, such as `10 %`.
    pub sampling: String,
    /// Terms of the filter as text.
    pub conditions: Vec<Text>,
    /// Assigned evaluators.
    pub evaluators: Vec<ResourceLink>,
    /// Labels and numbers of the funnel of the last 24 hours, without the empty ones.
    pub day: Vec<(&'static str, String)>,
    /// Number of failed executions, such as `3 failed executions`; absent if there are none.
    pub failed: Option<String>,
    /// Number of held executions; absent if there are none.
    pub held: Option<String>,
    /// Cost of the model calls of the last seven days.
    pub cost: String,
    /// Whether the user has enabled it.
    pub is_enabled: bool,
}

impl RuleRow {
    /// URL of the page of an evaluator with the same name as the rule.
    pub(crate) fn namesake(&self, named: &ResourceLink, base: &str) -> Option<String> {
        let is_same = named.name.raw() == self.name.raw();
        named.href(base, "evaluator").filter(|_| is_same)
    }
}
