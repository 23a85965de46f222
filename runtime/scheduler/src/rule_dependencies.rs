//! Rules that wait until other rules have ended with a target (evaluation.md 3.11).

use std::collections::HashSet;

use perpend_domain::evaluation::{Execution, Rule};
use perpend_domain::ids::RuleId;
use perpend_domain::time::Timestamp;

/// A waiting target is examined when the execution that it waits for ends. It is also polled, because an
/// execution may end without a lease. The interval grows with the age of the wait, between the two limits.
const MIN_WAIT_MS: i64 = 5_000;
const MAX_WAIT_MS: i64 = 6 * 3_600_000;

/// The rules, of those decided so far, that have not ended with a target.
#[derive(Debug, Default)]
pub(crate) struct OpenRules<'r>(HashSet<&'r RuleId>);

impl<'r> OpenRules<'r> {
    /// Records that the rule has not ended. A disabled rule has always ended.
    pub(crate) fn note(&mut self, rule: &'r Rule) {
        if rule.enabled {
            self.0.insert(&rule.id);
        }
    }

    /// Whether the rule waits for one of the open rules.
    pub(crate) fn keep_waiting(&self, rule: &Rule) -> bool {
        rule.after.iter().any(|id| self.0.contains(id))
    }
}

/// Whether an execution of a rule over a target has not ended. Executions of shadow versions do not count.
pub(crate) fn is_open(existing: &[&Execution]) -> bool {
    let mut live = existing.iter().filter(|each| each.made.shadow.is_none());
    live.any(|each| !each.state.is_final())
}

/// When to poll a target that has been waiting since `since`.
pub(crate) fn next_poll(now: Timestamp, since: Timestamp) -> Timestamp {
    let waited = (now.as_micros() - since.as_micros()) / 1_000;
    now.plus_millis(waited.clamp(MIN_WAIT_MS, MAX_WAIT_MS))
}
