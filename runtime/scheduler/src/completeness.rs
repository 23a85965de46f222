//! When a target is complete (evaluation.md 1.4). All times are the server's receive times.

use perpend_domain::evaluation::{CompletionReason, TargetKind, Timing};
use perpend_domain::experiment::MissingItem;
use perpend_domain::observation::Observation;
use perpend_domain::telemetry::Progress;
use perpend_domain::time::Timestamp;

/// Also the wait of a run whose items all have a result.
pub(crate) const SETTLE_MS: i64 = 10_000;
const MARKER_MS: i64 = 1_000;
const QUIET_MS: i64 = 180_000;
const SESSION_QUIET_MS: i64 = 1_800_000;
const RUN_QUIET_MS: i64 = 60_000;
const MAX_WAIT_MS: i64 = 3_600_000;

/// When and why a target is complete, unless more data arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Start of completeness.
    pub at: Timestamp,
    /// The reason.
    pub reason: CompletionReason,
}

/// When a trace or session, with a wait that started at `began_at`, is complete for a rule with this timing:
/// the earliest of all conditions. A conversation may last for days, so a session is complete when it is
/// quiet, and after the maximum wait only if the rule sets one; so is a run, unless its items all have a
/// result.
#[must_use]
pub fn completion(
    kind: TargetKind,
    progress: &Progress,
    timing: &Timing,
    began_at: Timestamp,
) -> Completion {
    let way =
        |from: Timestamp, ms: i64, reason| Completion { at: from.plus_millis(ms.max(0)), reason };
    let last = progress.last_seen;
    if matches!(kind, TargetKind::Session | TargetKind::Run) {
        let settle = timing.settle_ms.unwrap_or(SETTLE_MS);
        let quiet = match kind {
            TargetKind::Run if progress.has_marker => way(last, settle, CompletionReason::AllItems),
            TargetKind::Run => {
                way(last, timing.quiet_ms.unwrap_or(RUN_QUIET_MS), CompletionReason::Quiet)
            }
            _ => way(last, timing.quiet_ms.unwrap_or(SESSION_QUIET_MS), CompletionReason::Quiet),
        };
        let longest = timing.max_wait_ms;
        let longest = longest.map(|ms| way(began_at, ms, CompletionReason::MaxWait));
        return longest.filter(|longest| longest.at < quiet.at).unwrap_or(quiet);
    }
    let max_wait = timing.max_wait_ms.unwrap_or(MAX_WAIT_MS);
    let mut ways = vec![way(began_at, max_wait, CompletionReason::MaxWait)];
    if progress.has_marker {
        ways.push(way(last, MARKER_MS, CompletionReason::Marker));
    }
    if progress.root_ended_at.is_some() && progress.n_open == 0 {
        let settle = timing.settle_ms.unwrap_or(SETTLE_MS);
        ways.push(way(last, settle, CompletionReason::RootEnded));
    }
    if !progress.has_root {
        let quiet = timing.quiet_ms.unwrap_or(QUIET_MS);
        ways.push(way(last, quiet, CompletionReason::Quiet));
    }
    // For equal times the later entry has the better reason.
    ways.into_iter()
        .rev()
        .min_by_key(|way| way.at)
        .unwrap_or_else(|| way(last, max_wait, CompletionReason::MaxWait))
}

/// When an ended observation is complete for a rule with this timing. OTLP spans arrive ended, so by default
/// at once; an observation received in parts may change after its end. A rule whose filter reads values of
/// the trace passes its `trace`: it waits for the root, which has most of these values and is often sent
/// last.
#[must_use]
pub(crate) fn observation_completion(
    own: &Observation,
    changed_at: Timestamp,
    timing: &Timing,
    trace: Option<&Progress>,
) -> Completion {
    let settle = if own.is_in_parts { SETTLE_MS } else { 0 };
    let settled = changed_at.plus_millis(timing.settle_ms.unwrap_or(settle).max(0));
    let known = trace.map(|trace| {
        // A trace may last long before its root arrives.
        let quiet = timing.quiet_ms.unwrap_or(QUIET_MS);
        let max_wait = timing.max_wait_ms.unwrap_or(MAX_WAIT_MS);
        let never = (trace.last_seen.plus_millis(quiet)).min(changed_at.plus_millis(max_wait));
        trace.root_ended_at.unwrap_or(never)
    });
    Completion {
        at: known.map_or(settled, |known| known.max(settled)),
        reason: CompletionReason::Ended,
    }
}

/// When a rule with this timing no longer waits for the observation of an item: when the trace is quiet, as for a trace without
/// a root, or after the longest wait.
#[must_use]
pub(crate) fn missing_until(
    link: &MissingItem,
    last_seen: Option<Timestamp>,
    timing: &Timing,
) -> Timestamp {
    let last = last_seen.map_or(link.linked_at, |seen| seen.max(link.linked_at));
    let quiet = last.plus_millis(timing.quiet_ms.unwrap_or(QUIET_MS).max(0));
    let longest = link.linked_at.plus_millis(timing.max_wait_ms.unwrap_or(MAX_WAIT_MS).max(0));
    quiet.min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress {
            first_seen: Timestamp::from_millis(0),
            last_seen: Timestamp::from_millis(300_000),
            has_root: true,
            root_ended_at: Some(Timestamp::from_millis(300_000)),
            n_open: 0,
            has_marker: false,
            n_observations: 3,
        }
    }

    fn at(progress: &Progress) -> (i64, CompletionReason) {
        at_for(TargetKind::Trace, progress, &Timing::default())
    }

    fn at_for(kind: TargetKind, progress: &Progress, timing: &Timing) -> (i64, CompletionReason) {
        let completion = completion(kind, progress, timing, progress.first_seen);
        (completion.at.as_millis(), completion.reason)
    }

    #[test]
    fn a_session_is_complete_when_it_is_quiet_or_after_the_wait_of_its_rule() {
        let of_session = |timing| at_for(TargetKind::Session, &progress(), &timing);
        let quiet = of_session(Timing::default());
        assert_eq!(quiet, (2_100_000, CompletionReason::Quiet));
        let bounded = of_session(Timing { max_wait_ms: Some(600_000), ..Timing::default() });
        assert_eq!(bounded, (600_000, CompletionReason::MaxWait));
    }

    #[test]
    fn a_trace_is_complete_when_its_root_has_ended_and_settled() {
        assert_eq!(at(&progress()), (310_000, CompletionReason::RootEnded));
    }

    #[test]
    fn a_marker_shortens_the_wait_and_an_open_child_prolongs_it() {
        let marked = Progress { has_marker: true, ..progress() };
        assert_eq!(at(&marked), (301_000, CompletionReason::Marker));
        let open = Progress { n_open: 1, ..progress() };
        assert_eq!(at(&open), (3_600_000, CompletionReason::MaxWait));
    }

    #[test]
    fn a_trace_without_root_is_complete_when_it_is_quiet() {
        let rootless = Progress { has_root: false, root_ended_at: None, ..progress() };
        assert_eq!(at(&rootless), (480_000, CompletionReason::Quiet));
    }
}
