//! The state of a trace: open, settling or complete.

use perpend_domain::evaluation::CompletionReason;
use perpend_domain::telemetry::Progress;
use perpend_domain::time::Timestamp;

use crate::format::{duration, plural, short_time};

/// Milliseconds after the last change during which a complete trace is still considered live.
const FRESH_MS: i64 = 60_000;
/// Microseconds after the end of the root observation after which a change counts as late.
const LATE_US: i64 = 10_000_000;

/// The state of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceState {
    /// Progress, in receive times.
    pub progress: Progress,
    /// When and why the trace completes if nothing more arrives, without rule-specific settings.
    pub complete: (Timestamp, CompletionReason),
    /// When the state was read.
    pub now: Timestamp,
}

impl TraceState {
    /// Whether the trace may still change, so that pages poll it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let fresh_until = self.progress.last_seen.plus_millis(FRESH_MS);
        self.now < self.complete.0.max(fresh_until)
    }

    /// The state as one word, and details.
    #[must_use]
    pub fn label(&self) -> (&'static str, String) {
        let progress = &self.progress;
        let (at, reason) = self.complete;
        let open = (0 < progress.n_open)
            .then(|| format!("{} not ended", plural(progress.n_open.into(), "observation")));
        if self.now < at {
            return match open {
                Some(open) => ("open", open),
                None if !progress.has_root => ("open", "root observation not received".to_owned()),
                None => {
                    let until = short_time(at, self.now);
                    ("settling", format!("until {until} UTC unless more data arrives"))
                }
            };
        }
        let why = match reason {
            // The default reasons need no explanation.
            CompletionReason::Ended | CompletionReason::RootEnded => "",
            CompletionReason::Marker => "marked as complete",
            CompletionReason::AllItems => "all items have a result",
            CompletionReason::Quiet => "no root observation, and no more data",
            CompletionReason::MaxWait => "maximum wait reached",
        };
        let late = progress.root_ended_at.and_then(|ended| {
            let late = progress.last_seen.micros_since(ended);
            (LATE_US < late)
                .then(|| format!("last change {} after the root observation ended", duration(late)))
        });
        let why = (!why.is_empty()).then(|| why.to_owned());
        let all = [why, open, late];
        let all: Vec<String> = all.into_iter().flatten().collect();
        ("complete", all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(now_ms: i64, reason: CompletionReason, change: fn(&mut Progress)) -> TraceState {
        let mut progress = Progress {
            first_seen: Timestamp::from_millis(0),
            last_seen: Timestamp::from_millis(20_000),
            has_root: true,
            root_ended_at: Some(Timestamp::from_millis(20_000)),
            n_open: 0,
            has_marker: false,
            n_observations: 3,
        };
        change(&mut progress);
        TraceState {
            progress,
            complete: (Timestamp::from_millis(30_000), reason),
            now: Timestamp::from_millis(now_ms),
        }
    }

    #[test]
    fn trace_is_open_then_settling_then_complete_with_a_reason() {
        fn label(now_ms: i64, reason: CompletionReason, change: fn(&mut Progress)) -> String {
            let (word, more) = state(now_ms, reason, change).label();
            format!("{word}: {more}")
        }
        let root_ended = CompletionReason::RootEnded;
        let open = |progress: &mut Progress| progress.n_open = 2;
        assert_eq!(
            label(25_000, CompletionReason::MaxWait, open),
            "open: 2 observations not ended"
        );
        let without_root = |progress: &mut Progress| {
            progress.has_root = false;
            progress.root_ended_at = None;
        };
        assert_eq!(
            label(25_000, CompletionReason::Quiet, without_root),
            "open: root observation not received"
        );
        assert_eq!(
            label(25_000, root_ended, |_| ()),
            "settling: until 00:00:30 UTC unless more data arrives"
        );
        assert_eq!(label(30_000, root_ended, |_| ()), "complete: ");
        // Details are added to the reason.
        assert_eq!(
            label(40_000, CompletionReason::MaxWait, open),
            "complete: maximum wait reached, 2 observations not ended"
        );
        let late = |progress: &mut Progress| progress.root_ended_at = Some(progress.first_seen);
        assert_eq!(
            label(40_000, root_ended, late),
            "complete: last change 20.0 s after the root observation ended"
        );
    }

    #[test]
    fn trace_is_live_until_a_minute_after_the_last_change() {
        let is_live = |now_ms| state(now_ms, CompletionReason::RootEnded, |_| ()).is_live();
        assert!(is_live(25_000) && is_live(79_999) && !is_live(80_000));
    }
}
