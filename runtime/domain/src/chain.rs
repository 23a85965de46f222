//! Rule dependencies (evaluation.md 3.11): which rule may run after which.

use std::collections::HashMap;

use crate::evaluation::{Rule, TargetKind};
use crate::ids::RuleId;

/// Most rules in `after` of one rule.
pub const MAX_AFTER: usize = 20;
/// Longest chain of rules before a rule.
pub const MAX_DEPTH: usize = 3;
/// Default share of targets that conditions on scores reject and that are scored nevertheless.
pub const AUDIT: f64 = 0.02;

/// The part of a rule that determines the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainRule {
    /// The rule.
    pub id: RuleId,
    /// Its name, for messages.
    pub name: String,
    /// The kind of its targets.
    pub target: TargetKind,
    /// The rules it depends on.
    pub after: Vec<RuleId>,
}

impl From<&Rule> for ChainRule {
    fn from(rule: &Rule) -> Self {
        Self {
            id: rule.id.clone(),
            name: rule.name.clone(),
            target: rule.target,
            after: rule.after.clone(),
        }
    }
}

/// An invalid dependency of a rule. Numbers are indexes into `after`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// More than [`MAX_AFTER`] dependencies.
    #[error("a rule must depend on at most {MAX_AFTER} others")]
    TooMany,
    /// The rule depends on itself.
    #[error("a rule cannot depend on itself")]
    Itself(usize),
    /// The same rule twice.
    #[error("duplicate rule")]
    Twice(usize),
    /// The project has no such rule.
    #[error("unknown rule {1:?}")]
    Unknown(usize, String),
    /// Its targets contain the targets of this rule, and so complete later.
    #[error("the targets of {1:?} contain the targets of this rule and complete after them")]
    Larger(usize, String),
    /// It depends on this rule.
    #[error("circular rule dependency: {1:?} depends on this rule, directly or through others")]
    Circle(usize, String),
    /// A chain longer than [`MAX_DEPTH`].
    #[error("a chain of dependencies must have at most {MAX_DEPTH} rules before the last one")]
    TooDeep,
    /// A rule with smaller targets depends on this one.
    #[error("{0:?} depends on this rule, and the new targets would contain the targets of {0:?}")]
    AwaitedBy(String),
}

impl ChainFault {
    /// The invalid member of the rule.
    #[must_use]
    pub fn field(&self) -> String {
        match self {
            Self::Itself(at)
            | Self::Twice(at)
            | Self::Unknown(at, _)
            | Self::Larger(at, _)
            | Self::Circle(at, _) => format!("after[{at}]"),
            Self::TooMany | Self::TooDeep => "after".to_owned(),
            Self::AwaitedBy(_) => "target".to_owned(),
        }
    }
}

/// Checks a rule before it is saved against the rules of its project.
///
/// # Errors
/// The first fault.
pub fn check(rule: &ChainRule, all: &[ChainRule]) -> Result<(), ChainFault> {
    if MAX_AFTER < rule.after.len() {
        return Err(ChainFault::TooMany);
    }
    let rows = RuleChains::of(all);
    for (at, id) in rule.after.iter().enumerate() {
        if *id == rule.id {
            return Err(ChainFault::Itself(at));
        }
        if rule.after[..at].contains(id) {
            return Err(ChainFault::Twice(at));
        }
        let other = rows.by_id.get(id);
        let other = other.ok_or_else(|| ChainFault::Unknown(at, id.to_string()))?;
        if rule.target.size() < other.target.size() {
            return Err(ChainFault::Larger(at, other.name.clone()));
        }
        if rows.waits_for(other, &rule.id, MAX_DEPTH) {
            return Err(ChainFault::Circle(at, other.name.clone()));
        }
    }
    let mut behind = rows.behind(&rule.id);
    if let Some(other) = behind.find(|each| each.target.size() < rule.target.size()) {
        return Err(ChainFault::AwaitedBy(other.name.clone()));
    }
    let n = rows.n_before(&rule.after, MAX_DEPTH + 1) + rows.n_behind(&rule.id, MAX_DEPTH + 1);
    if !rule.after.is_empty() && MAX_DEPTH < n {
        return Err(ChainFault::TooDeep);
    }
    Ok(())
}

/// Rules by their dependencies. Every walk is bounded, because saved chains are short.
#[derive(Debug)]
pub struct RuleChains<'l> {
    by_id: HashMap<&'l RuleId, &'l ChainRule>,
    behind: HashMap<&'l RuleId, Vec<&'l ChainRule>>,
}

impl<'l> RuleChains<'l> {
    /// Indexes the rules.
    #[must_use]
    pub fn of(all: &'l [ChainRule]) -> Self {
        let mut behind: HashMap<&RuleId, Vec<&ChainRule>> = HashMap::new();
        for link in all {
            for id in &link.after {
                behind.entry(id).or_default().push(link);
            }
        }
        Self { by_id: all.iter().map(|link| (&link.id, link)).collect(), behind }
    }

    /// Length of the longest chain before a rule, at most [`MAX_DEPTH`].
    #[must_use]
    pub fn depth(&self, rule: &ChainRule) -> usize {
        self.n_before(&rule.after, MAX_DEPTH)
    }

    fn behind(&self, id: &RuleId) -> impl Iterator<Item = &'l ChainRule> {
        self.behind.get(id).into_iter().flatten().copied()
    }

    fn waits_for(&self, rule: &ChainRule, id: &RuleId, n_steps: usize) -> bool {
        let mut before = rule.after.iter().filter_map(|each| self.by_id.get(each));
        rule.after.contains(id)
            || 0 < n_steps && before.any(|each| self.waits_for(each, id, n_steps - 1))
    }

    fn n_before(&self, ids: &[RuleId], limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let named = ids.iter().filter_map(|id| self.by_id.get(id));
        let depths = named.map(|each| 1 + self.n_before(&each.after, limit - 1));
        depths.max().unwrap_or(0)
    }

    fn n_behind(&self, id: &RuleId, limit: usize) -> usize {
        if limit == 0 {
            return 0;
        }
        let depths = self.behind(id).map(|each| 1 + self.n_behind(&each.id, limit - 1));
        depths.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(id: &str, target: TargetKind, after: &[&str]) -> ChainRule {
        ChainRule {
            id: RuleId::new(id).unwrap(),
            name: id.to_owned(),
            target,
            after: after.iter().map(|id| RuleId::new(id).unwrap()).collect(),
        }
    }

    #[test]
    fn a_rule_depends_on_rules_of_its_targets_or_of_parts_of_them() {
        use TargetKind::{Experiment, Observation, Session, Trace};
        let all = [
            link("observations", Observation, &[]),
            link("items", Experiment, &[]),
            link("traces", Trace, &[]),
            link("sessions", Session, &[]),
        ];
        for (target, after, want) in [
            (Trace, "observations", Ok(())),
            (Trace, "traces", Ok(())),
            (Observation, "items", Ok(())),
            (Observation, "traces", Err("after[0]")),
            (Experiment, "traces", Err("after[0]")),
            (Session, "observations", Ok(())),
            (Session, "traces", Ok(())),
            (Session, "sessions", Ok(())),
            (Trace, "sessions", Err("after[0]")),
            (Trace, "gone", Err("after[0]")),
            (Trace, "own", Err("after[0]")),
        ] {
            let own = link("own", target, &[after]);
            let fault = check(&own, &all).map_err(|fault| fault.field());
            assert_eq!(fault, want.map_err(str::to_owned), "{target} after {after}");
        }
        let twice = link("own", Trace, &["items", "items"]);
        assert_eq!(check(&twice, &all), Err(ChainFault::Twice(1)));
    }

    #[test]
    fn a_circle_is_found_from_any_of_its_rules_and_a_chain_ends_at_three() {
        let kind = TargetKind::Trace;
        let row = [
            link("a", kind, &[]),
            link("b", kind, &["a"]),
            link("c", kind, &["b"]),
            link("d", kind, &["c"]),
        ];
        for (n, each) in row.iter().enumerate() {
            assert_eq!(check(each, &row), Ok(()), "{n}");
            assert_eq!(RuleChains::of(&row).depth(each), n);
        }
        assert_eq!(
            check(&link("a", kind, &["d"]), &row),
            Err(ChainFault::Circle(0, "d".to_owned()))
        );
        assert_eq!(check(&link("e", kind, &["d"]), &row), Err(ChainFault::TooDeep));
        let other = link("z", kind, &[]);
        let all = [&row[..], &[other]].concat();
        assert_eq!(
            check(&link("a", kind, &["z"]), &all),
            Err(ChainFault::TooDeep),
            "rules that depend on it count too"
        );
        let observations =
            [link("a", TargetKind::Observation, &[]), link("b", TargetKind::Observation, &["a"])];
        let larger = link("a", kind, &[]);
        assert_eq!(check(&larger, &observations), Err(ChainFault::AwaitedBy("b".to_owned())));
    }
}
