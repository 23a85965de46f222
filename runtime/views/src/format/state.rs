//! How far a trace has come, in words.

use perpend_domain::evaluation::CompletionReason;
use perpend_domain::telemetry::Progress;
use perpend_domain::time::Timestamp;

use crate::format::{duration, plural, short_time};

/// A trace that changed so lately may change again, although it counts as complete.
const FRESH_MS: i64 = 60_000;
/// What comes so long after the root was late.
const LATE_US: i64 = 10_000_000;

/// How far a trace has come.
#[derive(Clone, Copy, Debug)]
pub struct TraceState {
    /// In receive times.
    pub progress: Progress,
    /// When and why it is complete, if nothing more arrives and no rule says otherwise.
    pub complete: (Timestamp, CompletionReason),
    /// When it was read.
    pub now: Timestamp,
}

impl TraceState {
    /// Whether it is worth asking for it again.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let fresh_until = self.progress.last_seen.plus_millis(FRESH_MS);
        self.now < self.complete.0.max(fresh_until)
    }

    /// One word, and what there is to say of it.
    #[must_use]
    pub fn label(&self) -> (&'static str, String) {
        let progress = &self.progress;
        let (at, reason) = self.complete;
        let open = (0 < progress.n_open)
            .then(|| format!("{} still open", plural(progress.n_open.into(), "step")));
        if self.now < at {
            return match open {
                Some(open) => ("open", open),
                None if !progress.has_root => ("open", "its root has not arrived".to_owned()),
                None => {
                    let until = short_time(at, self.now);
                    ("settling", format!("until {until} UTC unless more arrives"))
                }
            };
        }
        let why = match reason {
            // The usual end needs no word.
            CompletionReason::Ended | CompletionReason::RootEnded => "",
            CompletionReason::Marker => "marked as complete",
            CompletionReason::Quiet => "nothing more arrived, and no root",
            CompletionReason::MaxWait => "the longest wait is over",
        };
        let late = progress.root_ended_at.and_then(|ended| {
            let late = progress.last_seen.micros_since(ended);
            (LATE_US < late).then(|| format!("last change {} after its root", duration(late)))
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
    fn a_trace_is_open_then_settles_and_is_complete_for_a_reason() {
        fn said(now_ms: i64, reason: CompletionReason, change: fn(&mut Progress)) -> String {
            let (word, more) = state(now_ms, reason, change).label();
            format!("{word}: {more}")
        }
        let root_ended = CompletionReason::RootEnded;
        let open = |progress: &mut Progress| progress.n_open = 2;
        assert_eq!(said(25_000, CompletionReason::MaxWait, open), "open: 2 steps still open");
        let without_root = |progress: &mut Progress| {
            progress.has_root = false;
            progress.root_ended_at = None;
        };
        assert_eq!(
            said(25_000, CompletionReason::Quiet, without_root),
            "open: its root has not arrived"
        );
        assert_eq!(
            said(25_000, root_ended, |_| ()),
            "settling: until 00:00:30 UTC unless more arrives"
        );
        assert_eq!(said(30_000, root_ended, |_| ()), "complete: ");
        // What is known beside the reason is said too.
        assert_eq!(
            said(40_000, CompletionReason::MaxWait, open),
            "complete: the longest wait is over, 2 steps still open"
        );
        let late = |progress: &mut Progress| progress.root_ended_at = Some(progress.first_seen);
        assert_eq!(said(40_000, root_ended, late), "complete: last change 20.0 s after its root");
    }

    #[test]
    fn a_trace_is_live_until_it_is_complete_and_has_been_quiet_for_a_minute() {
        let is_live = |now_ms| state(now_ms, CompletionReason::RootEnded, |_| ()).is_live();
        assert!(is_live(25_000) && is_live(79_999) && !is_live(80_000));
    }
}
