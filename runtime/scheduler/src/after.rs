//! Rules that wait until others have ended with a target (evaluation.md 3.11).

use std::collections::HashSet;

use perpend_domain::evaluation::{Execution, Rule};
use perpend_domain::ids::RuleId;
use perpend_domain::time::Timestamp;

/// A target that waits is looked at when what it waits for ends. It is also looked at now and then, because an execution
/// may end otherwise than under a lease: at the earliest and at the latest after so long, and the later the longer it waits.
const MIN_WAIT_MS: i64 = 5_000;
const MAX_WAIT_MS: i64 = 6 * 3_600_000;

/// Rules that have not ended with a target, of those that were asked so far.
#[derive(Debug, Default)]
pub(crate) struct Open<'r>(HashSet<&'r RuleId>);

impl<'r> Open<'r> {
    /// Notes that the rule has not ended. A disabled one has ended with everything.
    pub(crate) fn note(&mut self, rule: &'r Rule) {
        if rule.enabled {
            self.0.insert(&rule.id);
        }
    }

    /// Whether the rule waits for one of them.
    pub(crate) fn keep_waiting(&self, rule: &Rule) -> bool {
        rule.after.iter().any(|id| self.0.contains(id))
    }
}

/// Whether an execution of a rule over a target has not ended. One in the shadow does not count.
pub(crate) fn is_open(standing: &[&Execution]) -> bool {
    let mut live = standing.iter().filter(|each| each.made.shadow.is_none());
    live.any(|each| !each.state.is_final())
}

/// When a target that waits since then is looked at without a reason.
pub(crate) fn look_again(now: Timestamp, since: Timestamp) -> Timestamp {
    let waited = (now.as_micros() - since.as_micros()) / 1_000;
    now.plus_millis(waited.clamp(MIN_WAIT_MS, MAX_WAIT_MS))
}
