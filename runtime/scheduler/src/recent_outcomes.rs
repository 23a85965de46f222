//! Recent outcomes of each rule: a rule may fail more often than it succeeds without many consecutive
//! failures.
//!
//! The outcomes are local to this process. Each scheduler sees its own share, and pauses the rule for all of
//! them.

use std::collections::{HashMap, VecDeque};

use perpend_domain::ids::{ProjectId, RuleId};
use perpend_domain::time::Timestamp;

/// Number of examined executions, and the time in which they must have ended (evaluation.md 1.9).
const N: usize = 100;
const WITHIN_MS: i64 = 10 * 60_000;
/// Number of rules above which rules without a recent outcome are dropped.
const MAX_RULES: usize = 10_000;

/// The last outcomes of one rule: the time, and whether it was a failure that counts.
type Outcomes = VecDeque<(Timestamp, bool)>;

/// The last outcomes of all rules.
#[derive(Debug, Default)]
pub(crate) struct RecentOutcomes(HashMap<(ProjectId, RuleId), Outcomes>);

impl RecentOutcomes {
    /// Records an outcome. Returns the number of failures among the last [`N`] if the rule fails more often
    /// than it succeeds; then the outcomes are cleared.
    pub(crate) fn note(
        &mut self,
        (project, rule): (&ProjectId, &RuleId),
        has_failed: bool,
        now: Timestamp,
    ) -> Option<usize> {
        let since = now.plus_millis(-WITHIN_MS);
        if MAX_RULES <= self.0.len() {
            let is_alive = |ends: &Outcomes| ends.back().is_some_and(|(at, _)| since <= *at);
            self.0.retain(|_, ends| is_alive(ends));
        }
        let key = (project.clone(), rule.clone());
        let ends = self.0.entry(key).or_default();
        ends.push_back((now, has_failed));
        while N < ends.len() || ends.front().is_some_and(|(at, _)| *at < since) {
            ends.pop_front();
        }
        let n_failed = ends.iter().filter(|(_, has_failed)| *has_failed).count();
        let is_broken = has_failed && ends.len() == N && N < 2 * n_failed;
        if is_broken {
            ends.clear();
        }
        is_broken.then_some(n_failed)
    }

    /// Clears the outcomes after the rule was paused.
    pub(crate) fn forget(&mut self, project: &ProjectId, rule: &RuleId) {
        self.0.remove(&(project.clone(), rule.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of failures at which the rule is found broken, per outcome; `step_ms` lie between two
    /// outcomes.
    fn found(ends: impl Iterator<Item = bool>, step_ms: i64) -> Vec<usize> {
        let mut recent = RecentOutcomes::default();
        let (project, rule) = ("p".parse().unwrap(), "r".parse().unwrap());
        let mut now = Timestamp::from_millis(0);
        let note = |has_failed| {
            now = now.plus_millis(step_ms);
            recent.note((&project, &rule), has_failed, now)
        };
        ends.filter_map(note).collect()
    }

    #[test]
    fn more_than_half_of_a_hundred_within_ten_minutes_is_too_many() {
        let half = (0..1_000).map(|n| n % 2 == 0);
        assert!(found(half, 1).is_empty());
        let more = (0..100).map(|n| n % 2 == 0 || n == 51 || n == 99);
        assert_eq!(found(more, 1), [52]);
        let fewer = (0..99).map(|_| true);
        assert!(found(fewer, 1).is_empty());
    }

    #[test]
    fn older_outcomes_do_not_count() {
        let all = || (0..100).map(|_| true);
        assert_eq!(found(all(), 6_000), [100]);
        assert!(found(all(), 6_100).is_empty());
    }
}
