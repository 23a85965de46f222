//! The deadline of a request body.

use std::time::Duration;

use perpend_config::Ingest;
use tokio::time::Instant;

/// When the next bytes of a body are due. A sender may fall behind the minimum rate by one pause; later bytes
/// catch up. A pause or a trickle ends a body equally soon, and a burst at the start allows no longer pause
/// afterwards.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: u32,
    pause: Duration,
    due: Instant,
    end: Instant,
}

impl Pace {
    pub(super) fn new(limits: &Ingest, now: Instant) -> Self {
        Self {
            bytes_per_second: limits.min_body_bytes_per_second,
            pause: limits.read_timeout,
            due: now + limits.read_timeout,
            end: now + limits.body_deadline,
        }
    }

    /// As [`Pace::new`], for bodies whose size allows no common deadline.
    pub(super) fn without_deadline(limits: &Ingest, now: Instant) -> Self {
        /// Longer than any body at the minimum rate.
        const LONG: Duration = Duration::from_secs(30 * 24 * 3_600);
        Self { end: now + LONG, ..Self::new(limits, now) }
    }

    /// When reading ends unless further bytes arrive.
    pub(super) fn next(&self) -> Instant {
        self.due.min(self.end)
    }

    /// Whether the deadline of the whole body is the next one.
    pub(super) fn is_over(&self) -> bool {
        self.end <= self.due
    }

    pub(super) fn record(&mut self, n_bytes: usize, now: Instant) {
        let earned = n_bytes as f64 / f64::from(self.bytes_per_second);
        // No body is ever behind by more than one pause.
        let earned = earned.min(self.pause.as_secs_f64());
        self.due = (self.due + Duration::from_secs_f64(earned)).min(now + self.pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    fn pace(start: Instant) -> Pace {
        Pace { bytes_per_second: 1_000, pause: PAUSE, due: start + PAUSE, end: start + 20 * PAUSE }
    }

    /// How long a body with `first` bytes at once and `n_bytes` every `step` is read.
    fn read_time(first: usize, n_bytes: usize, step: Duration) -> Duration {
        let start = Instant::now();
        let mut pace = pace(start);
        pace.record(first, start);
        let mut now = start;
        while now + step < pace.next() {
            now += step;
            pace.record(n_bytes, now);
        }
        pace.next() - start
    }

    #[test]
    fn a_trickle_lasts_little_longer_than_silence() {
        assert_eq!(read_time(0, 0, SECOND), PAUSE);
        assert_eq!(read_time(0, 1, 6 * SECOND), PAUSE + Duration::from_millis(5));
        assert_eq!(read_time(0, 500, SECOND), 59 * SECOND);
    }

    #[test]
    fn a_burst_allows_no_trickle_after_it() {
        assert_eq!(read_time(100_000_000, 1, 6 * SECOND), read_time(0, 1, 6 * SECOND));
    }

    #[test]
    fn a_body_at_the_minimum_rate_has_until_the_deadline_with_pauses_in_it() {
        assert_eq!(read_time(0, 1_000, SECOND), 20 * PAUSE);
        assert_eq!(read_time(0, 29_000, 29 * SECOND), 20 * PAUSE);
        assert!(read_time(0, usize::MAX, 31 * SECOND) < 20 * PAUSE);
    }
}
