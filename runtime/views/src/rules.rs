//! The overview of evaluators and rules.

use askama::Template;

use crate::format::many;
use crate::layout::setup::Setup;
use crate::scores::score::{ResourceLink, Tone};
use crate::{Shell, Text};

/// What is scored, by what, and how it goes.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "rules.html")]
pub struct RulesPage {
    /// Around the page.
    pub shell: Shell,
    /// Rules, newest first.
    pub rules: Vec<RuleRow>,
    /// Evaluators, newest first.
    pub evaluators: Vec<EvaluatorRow>,
    /// There are more rules, or more evaluators, than the page shows.
    pub has_more: bool,
    /// This server and its keys, where there are no rules or no evaluators yet.
    pub setup: Option<Setup>,
}

impl RulesPage {
    /// More than a page should hold.
    pub const LIMIT: u32 = 200;
}

/// One rule.
#[derive(Clone, Debug)]
pub struct RuleRow {
    /// Its id: a link may lead to its row.
    pub id: Text,
    /// Its name.
    pub name: Text,
    /// `observation`, `experiment`, `trace` or `session`.
    pub target: &'static str,
    /// `on`, `off` or `paused`.
    pub state: &'static str,
    /// Its colour.
    pub tone: Tone,
    /// Why it is paused.
    pub reason: Option<Text>,
    /// Such as `10 %`.
    pub sampling: String,
    /// Its conditions, one text each.
    pub conditions: Vec<Text>,
    /// Its evaluators.
    pub evaluators: Vec<ResourceLink>,
}

impl RuleRow {
    /// The row of an evaluator that has the name of the rule, which is not said twice.
    pub(crate) fn namesake(&self, named: &ResourceLink, base: &str) -> Option<String> {
        let is_same = named.name.raw() == self.name.raw();
        named.href(base, "evaluator").filter(|_| is_same)
    }
}

impl EvaluatorRow {
    pub(crate) fn n_settings(&self) -> String {
        many(self.settings.len() as u64, "setting")
    }
}

/// One evaluator.
#[derive(Clone, Debug)]
pub struct EvaluatorRow {
    /// Its id: a link may lead to its row.
    pub id: Text,
    /// Its name.
    pub name: Text,
    /// Number of the newest version.
    pub version: u32,
    /// `vendor/name version`.
    pub plugin: Text,
    /// The function in the plug-in.
    pub function: Text,
    /// What it is told, by the names of its settings, and which models it asks.
    pub settings: Vec<(Text, Text)>,
    /// Hex digits.
    pub fingerprint: String,
    /// Why it is paused.
    pub paused: Option<Text>,
}
