//! Token buckets with exact arithmetic, for many keys in bounded memory.

use std::hash::Hash;

use perpend_domain::time::Timestamp;

use super::per_key::PerKey;

const MINUTE_MICROS: u64 = 60_000_000;

/// The state of the rate limit of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// Requests per minute, also the size of a burst.
    pub limit: u32,
    /// Requests that are accepted now.
    pub remaining: u32,
    /// When the whole limit is available again.
    pub reset_at: Timestamp,
    /// Seconds until the next request is accepted; set when this one exceeds the limit.
    pub retry_after_seconds: Option<u64>,
}

/// Units that a key has used. A request costs [`MINUTE_MICROS`] units, and each microsecond
/// gives `limit` units back: so `limit` requests a minute, without rounding.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    debt: u64,
    at: Timestamp,
}

impl Bucket {
    /// Gives back the units of the time since the last call. A clock that was set back gives none.
    fn refill(&mut self, limit: u32, now: Timestamp) {
        let elapsed = u64::try_from(now.micros_since(self.at)).unwrap_or(0);
        self.debt = self.debt.saturating_sub(elapsed.saturating_mul(limit.into()));
        self.at = now;
    }

    fn take(&mut self, limit: u32, now: Timestamp) -> RateStatus {
        self.refill(limit, now);
        let rate = u64::from(limit.max(1));
        let whole = rate * MINUTE_MICROS;
        let debt = self.debt + MINUTE_MICROS;
        let retry_after_seconds = if debt <= whole {
            self.debt = debt;
            None
        } else {
            Some((debt - whole).div_ceil(rate).div_ceil(1_000_000))
        };
        let micros = i64::try_from(self.debt.div_ceil(rate)).unwrap_or(i64::MAX);
        RateStatus {
            limit,
            remaining: u32::try_from((whole - self.debt) / MINUTE_MICROS).unwrap_or(limit),
            reset_at: Timestamp::from_micros(now.as_micros().saturating_add(micros)),
            retry_after_seconds,
        }
    }
}

/// The buckets of all keys. A full bucket needs no entry.
#[derive(Debug)]
pub struct Buckets<K>(PerKey<K, Bucket>);

impl<K> Default for Buckets<K> {
    fn default() -> Self {
        Self(PerKey::default())
    }
}

impl<K: Eq + Hash> Buckets<K> {
    /// Takes one request of `limit` a minute from the bucket of a key, if one remains.
    pub fn take(
        &self,
        key: K,
        limit: u32,
        now: Timestamp,
        limit_of: impl Fn(&K) -> u32,
    ) -> RateStatus {
        let is_needed = |key: &K, bucket: &mut Bucket| {
            bucket.refill(limit_of(key), now);
            bucket.debt > 0
        };
        let fresh = || Bucket { debt: 0, at: now };
        let take = |bucket: &mut Bucket| bucket.take(limit, now);
        self.0.with(key, fresh, is_needed, take)
    }
}

#[cfg(test)]
mod tests {
    use super::super::per_key::MAX_KEYS;
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    /// Remaining requests, or seconds until the next one.
    fn take(buckets: &Buckets<u32>, key: u32, limit: u32, millis: i64) -> Result<u32, u64> {
        let status = buckets.take(key, limit, at(millis), |_| limit);
        match status.retry_after_seconds {
            None => Ok(status.remaining),
            Some(seconds) => Err(seconds),
        }
    }

    #[test]
    fn a_key_has_its_whole_limit_at_once_and_then_one_request_per_share_of_the_minute() {
        let buckets = Buckets::default();
        let first: Vec<_> = (0..4).map(|_| take(&buckets, 1, 3, 0)).collect();
        assert_eq!(first, [Ok(2), Ok(1), Ok(0), Err(20)]);
        assert_eq!(take(&buckets, 1, 3, 19_999), Err(1), "refusals cost nothing");
        assert_eq!(take(&buckets, 1, 3, 20_000), Ok(0));
        assert_eq!(take(&buckets, 1, 3, 20_000), Err(20));
        assert_eq!(take(&buckets, 1, 3, 10_000_000), Ok(2), "never more than the limit");
        assert_eq!(take(&buckets, 2, 3, 0), Ok(2), "keys are independent");
    }

    #[test]
    fn the_reset_is_when_the_whole_limit_is_available_again() {
        let buckets = Buckets::default();
        let status = |millis| buckets.take(1, 60, at(millis), |_| 60);
        assert_eq!(status(0).reset_at, at(1_000));
        assert_eq!(status(0).reset_at, at(2_000));
        assert_eq!(status(1_500).reset_at, at(3_000));
    }

    #[test]
    fn a_clock_that_is_set_back_neither_refills_nor_locks_out() {
        let buckets = Buckets::default();
        assert_eq!(take(&buckets, 1, 2, 3_600_000), Ok(1));
        assert_eq!(take(&buckets, 1, 2, 0), Ok(0));
        assert_eq!(take(&buckets, 1, 2, 0), Err(30));
        assert_eq!(take(&buckets, 1, 2, 30_000), Ok(0));
    }

    #[test]
    fn the_number_of_buckets_is_bounded_and_those_in_debt_are_kept() {
        let buckets = Buckets::default();
        let n = u32::try_from(MAX_KEYS).unwrap();
        assert_eq!(take(&buckets, u32::MAX, 1, 0), Ok(0));
        for key in 1..n {
            let _ = take(&buckets, key, 1, -60_000);
        }
        assert_eq!(take(&buckets, n, 1, 100), Ok(0));
        assert_eq!(buckets.0.len(), 2, "full ones are forgotten");
        assert_eq!(take(&buckets, u32::MAX, 1, 100), Err(60));
        for key in 0..2 * n {
            let _ = take(&buckets, key, 1, 200);
        }
        assert!(buckets.0.len() <= MAX_KEYS);
    }
}
