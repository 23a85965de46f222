//! Failed attempts per key: too many within a minute, and the key is blocked for a minute.

use std::hash::Hash;

use perpend_domain::time::Timestamp;

use super::per_key::PerKey;

/// The time in which failures are counted, and for which a key is blocked.
const MINUTE_MICROS: i64 = 60_000_000;

#[derive(Debug, Default)]
struct Record {
    /// Failures of the last minute while the key is not blocked, oldest first.
    failed_at: Vec<Timestamp>,
    blocked_at: Option<Timestamp>,
}

/// Whether less than a minute has passed. A clock that was set back ends the minute: no key is blocked until
/// it has caught up.
fn is_within_a_minute(since: Timestamp, now: Timestamp) -> bool {
    (0..MINUTE_MICROS).contains(&now.micros_since(since))
}

impl Record {
    fn expire(&mut self, now: Timestamp) {
        self.failed_at.retain(|at| is_within_a_minute(*at, now));
        self.blocked_at = self.blocked_at.filter(|at| is_within_a_minute(*at, now));
    }

    fn is_needed(&mut self, now: Timestamp) -> bool {
        self.expire(now);
        self.blocked_at.is_some() || !self.failed_at.is_empty()
    }
}

/// The failures of all keys.
#[derive(Debug)]
pub struct Failures<K>(PerKey<K, Record>);

impl<K> Default for Failures<K> {
    fn default() -> Self {
        Self(PerKey::default())
    }
}

impl<K: Eq + Hash> Failures<K> {
    /// Seconds for which a key is still blocked.
    pub fn blocked_for(&self, key: &K, now: Timestamp) -> Option<u64> {
        let blocked_at = self.0.look(key, |record| record.blocked_at)??;
        let left = is_within_a_minute(blocked_at, now)
            .then(|| MINUTE_MICROS - now.micros_since(blocked_at))?;
        Some(left.unsigned_abs().div_ceil(1_000_000))
    }

    /// Counts a failure. `true` when it is the one that blocks the key.
    pub fn count(&self, key: K, limit: usize, now: Timestamp) -> bool {
        let is_needed = |_: &K, record: &mut Record| record.is_needed(now);
        self.0.with(key, Record::default, is_needed, |record| {
            record.expire(now);
            record.failed_at.push(now);
            let is_blocked = limit <= record.failed_at.len();
            if is_blocked {
                *record = Record { blocked_at: Some(now), ..Record::default() };
            }
            is_blocked
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::per_key::MAX_KEYS;
    use super::*;

    const LIMIT: usize = 3;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn failures_up_to_the_limit_in_any_minute_block_this_key_for_a_minute() {
        let failures = Failures::default();
        let count = |millis| failures.count(1, LIMIT, at(millis));
        // Also when they are spread over two calendar minutes.
        assert_eq!([0, 50_000, 60_000].map(count), [false; 3]);
        assert_eq!(failures.blocked_for(&1, at(60_000)), None);
        assert!(count(109_999));
        assert_eq!(failures.blocked_for(&1, at(109_999)), Some(60));
        assert_eq!(failures.blocked_for(&1, at(169_998)), Some(1));
        assert_eq!(failures.blocked_for(&1, at(169_999)), None);
        assert_eq!(failures.blocked_for(&2, at(109_999)), None);
        assert_eq!([170_000, 170_001].map(count), [false; 2], "the whole limit is available again");
        assert!(count(170_002));
    }

    #[test]
    fn a_clock_that_is_set_back_blocks_no_key() {
        let failures = Failures::default();
        for _ in 0..LIMIT {
            failures.count(1, LIMIT, at(3_600_000));
        }
        assert_eq!(failures.blocked_for(&1, at(3_600_000)), Some(60));
        assert_eq!(failures.blocked_for(&1, at(0)), None);
        assert!(!failures.count(1, LIMIT, at(0)));
    }

    #[test]
    fn the_number_of_records_is_bounded_and_recent_failures_are_kept() {
        let failures = Failures::default();
        for key in 1..MAX_KEYS {
            failures.count(key, LIMIT, at(0));
        }
        for _ in 0..LIMIT {
            failures.count(0, LIMIT, at(60_000));
        }
        failures.count(MAX_KEYS, LIMIT, at(60_001));
        assert_eq!(failures.0.len(), 2, "expired records are removed");
        assert_eq!(failures.blocked_for(&0, at(60_001)), Some(60));
        for key in 0..3 * MAX_KEYS {
            failures.count(key, LIMIT, at(60_002));
        }
        assert!(failures.0.len() <= MAX_KEYS);
    }
}
