//! Retry policy: the consequence of a failure (evaluation.md 1.8).

use perpend_domain::budget::{ExhaustedBudget, OnReached};
use perpend_domain::plugin::FailureClass;
use perpend_domain::slots::ModelFailure;
use perpend_domain::time::Timestamp;

/// Held executions are given up after this time.
pub(crate) const HELD_MS: i64 = 7 * 24 * 3_600_000;
const MINUTE_MS: i64 = 60_000;
const WINDOW_MS: i64 = 120 * MINUTE_MS;
/// Maximum of the wait that a provider may request.
const MAX_RETRY_AFTER_MS: u64 = 15 * MINUTE_MS.cast_unsigned();
/// Waits for a target that cannot be read yet.
const MISSING_TARGET_MS: [i64; 4] = [30_000, MINUTE_MS, 2 * MINUTE_MS, 4 * MINUTE_MS];

/// Consequence of a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RetryDecision {
    /// Nothing to measure.
    Skip,
    /// Retry at the time.
    Retry(Timestamp),
    /// Retry at the time, without counting this attempt.
    Postpone(Timestamp),
    /// Final failure; `true` if it counts among the consecutive failures that pause the rule.
    Fail(bool),
    /// Wait until an external fault is corrected.
    Hold,
    /// As if it had not been tried.
    GiveBack,
}

/// State of an execution whose attempt has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptState {
    /// Attempts before this one.
    pub(crate) n_before: u32,
    /// Start of the first attempt; retry windows start here.
    pub(crate) first_attempt_at: Timestamp,
    /// The current time.
    pub(crate) now: Timestamp,
    /// In `[0, 1)`: spreads retries.
    pub(crate) jitter: f64,
}

impl AttemptState {
    /// Another attempt after a doubling wait with full jitter, within the limits of attempts and window.
    fn backoff(&self, base_ms: i64, cap_ms: i64, n_max: u32, window_ms: i64) -> Option<Timestamp> {
        let is_late =
            window_ms.saturating_mul(1_000) < self.now.micros_since(self.first_attempt_at);
        if n_max <= self.n_before + 1 || is_late {
            return None;
        }
        let doubled = base_ms.saturating_mul(1_i64 << self.n_before.min(32));
        let wait = (doubled.min(cap_ms) as f64 * self.jitter) as i64;
        Some(self.now.plus_millis(wait))
    }
}

/// The consequence of a failed call.
pub(crate) fn after_failure(failure: &ModelFailure, state: &AttemptState) -> RetryDecision {
    let class = failure.class;
    let is_skipped = |spent: ExhaustedBudget| spent.on_reached == OnReached::Skip;
    let retry = match class {
        FailureClass::BudgetExhausted if failure.spent.is_some_and(is_skipped) => {
            return RetryDecision::Skip;
        }
        FailureClass::NotApplicable => return RetryDecision::Skip,
        FailureClass::Cancelled => return RetryDecision::GiveBack,
        FailureClass::AuthInvalid
        | FailureClass::BillingExhausted
        | FailureClass::ModelUnavailable
        | FailureClass::ConnectionMissing
        | FailureClass::DefaultModelMissing
        | FailureClass::ModelConfigInvalid
        | FailureClass::EndpointUnreachable
        | FailureClass::AccountNotReady
        | FailureClass::BudgetExhausted => return RetryDecision::Hold,
        FailureClass::RateLimited if failure.is_unsent => {
            let wait_ms = failure.retry_after_ms.unwrap_or_default();
            let wait_ms = wait_ms.clamp(1_000, MAX_RETRY_AFTER_MS).cast_signed();
            return RetryDecision::Postpone(state.now.plus_millis(wait_ms));
        }
        FailureClass::RateLimited => {
            let backoff = state.backoff(5_000, 10 * MINUTE_MS, 8, WINDOW_MS);
            backoff.map(|at| requested_time(failure, state).unwrap_or(at))
        }
        _ if failure.is_final => None,
        FailureClass::UpstreamTimeout => state.backoff(2_000, 10 * MINUTE_MS, 3, WINDOW_MS),
        FailureClass::MalformedOutput => state.backoff(2_000, 10 * MINUTE_MS, 2, WINDOW_MS),
        FailureClass::UpstreamUnavailable => {
            let backoff = state.backoff(2_000, 10 * MINUTE_MS, 6, WINDOW_MS);
            backoff.map(|at| at.max(requested_time(failure, state).unwrap_or(at)))
        }
        FailureClass::Transient | FailureClass::WorkerFull => {
            state.backoff(2_000, 10 * MINUTE_MS, 5, WINDOW_MS)
        }
        FailureClass::WorkerLost | FailureClass::Internal => {
            state.backoff(1_000, 5 * MINUTE_MS, 10, i64::MAX / 1_000)
        }
        FailureClass::WallTimeout => state.backoff(2_000, 10 * MINUTE_MS, 2, WINDOW_MS),
        FailureClass::InvalidConfig
        | FailureClass::InvalidInput
        | FailureClass::Refused
        | FailureClass::ContextTooLong
        | FailureClass::PluginError
        | FailureClass::PluginTrap
        | FailureClass::FuelExhausted
        | FailureClass::MemoryLimit
        | FailureClass::OutputLimit
        | FailureClass::InvalidResult => None,
    };
    let is_ours = matches!(
        class,
        FailureClass::WorkerLost | FailureClass::WorkerFull | FailureClass::Internal
    );
    retry.map_or(RetryDecision::Fail(!is_ours), RetryDecision::Retry)
}

/// The retry time that the provider requested.
fn requested_time(failure: &ModelFailure, state: &AttemptState) -> Option<Timestamp> {
    let wait = failure.retry_after_ms?.min(MAX_RETRY_AFTER_MS);
    Some(state.now.plus_millis(wait.cast_signed()))
}

/// Classes that count for rules that fail more often than they succeed: not those that depend on the target,
/// because other targets may succeed.
pub(crate) const fn counts_against_evaluator(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::PluginError
            | FailureClass::PluginTrap
            | FailureClass::FuelExhausted
            | FailureClass::MemoryLimit
            | FailureClass::OutputLimit
            | FailureClass::InvalidResult
            | FailureClass::WallTimeout
            | FailureClass::Transient
            | FailureClass::UpstreamUnavailable
            | FailureClass::UpstreamTimeout
            | FailureClass::MalformedOutput
    )
}

/// Whether the failure is caused by the provider and not by the plug-in.
pub(crate) const fn is_upstream(class: FailureClass) -> bool {
    matches!(
        class,
        FailureClass::UpstreamUnavailable
            | FailureClass::UpstreamTimeout
            | FailureClass::MalformedOutput
            | FailureClass::RateLimited
            | FailureClass::Refused
            | FailureClass::ContextTooLong
    )
}

/// When to look again for a missing target; `None` after the last wait.
pub(crate) fn after_missing_target(state: &AttemptState) -> Option<Timestamp> {
    let wait = MISSING_TARGET_MS.get(state.n_before as usize)?;
    Some(state.now.plus_millis(*wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(class: FailureClass, state: &AttemptState) -> RetryDecision {
        after_failure(&ModelFailure::new(class, ""), state)
    }

    fn state(n_before: u32, age_ms: i64) -> AttemptState {
        AttemptState {
            n_before,
            first_attempt_at: Timestamp::from_millis(0),
            now: Timestamp::from_millis(age_ms),
            jitter: 0.5,
        }
    }

    #[test]
    fn waits_double_up_to_their_cap_and_end_after_the_last_attempt() {
        let wait = |n_before| match after(FailureClass::Transient, &state(n_before, 0)) {
            RetryDecision::Retry(at) => Some(at.as_millis()),
            _ => None,
        };
        assert_eq!(
            [wait(0), wait(1), wait(3), wait(4)],
            [Some(1_000), Some(2_000), Some(8_000), None]
        );
    }

    #[test]
    fn the_wait_of_an_unavailable_provider_is_kept_and_a_final_failure_is_not_retried() {
        let down = ModelFailure {
            retry_after_ms: Some(600_000),
            ..ModelFailure::new(FailureClass::UpstreamUnavailable, "")
        };
        let next = after_failure(&down, &state(0, 0));
        assert_eq!(next, RetryDecision::Retry(Timestamp::from_millis(600_000)));
        let cut_off =
            ModelFailure { is_final: true, ..ModelFailure::new(FailureClass::MalformedOutput, "") };
        assert_eq!(after_failure(&cut_off, &state(0, 0)), RetryDecision::Fail(true));
        let malformed = after(FailureClass::MalformedOutput, &state(0, 0));
        assert!(matches!(malformed, RetryDecision::Retry(_)));
    }

    #[test]
    fn the_window_counts_from_the_first_attempt() {
        let late = after(FailureClass::UpstreamUnavailable, &state(1, WINDOW_MS + 1));
        assert_eq!(late, RetryDecision::Fail(true));
    }

    #[test]
    fn deterministic_failures_are_final_and_all_but_those_of_the_server_count_towards_a_pause() {
        assert_eq!(after(FailureClass::PluginTrap, &state(0, 0)), RetryDecision::Fail(true));
        assert_eq!(after(FailureClass::InvalidInput, &state(0, 0)), RetryDecision::Fail(true));
        assert_eq!(after(FailureClass::NotApplicable, &state(0, 0)), RetryDecision::Skip);
        assert_eq!(after(FailureClass::Cancelled, &state(0, 0)), RetryDecision::GiveBack);
    }

    #[test]
    fn a_provider_that_names_a_wait_gets_it_up_to_fifteen_minutes() {
        let limited = |delay| ModelFailure {
            retry_after_ms: delay,
            ..ModelFailure::new(FailureClass::RateLimited, "")
        };
        let wait = |delay| match after_failure(&limited(delay), &state(0, 0)) {
            RetryDecision::Retry(at) => at.as_millis(),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(None), 2_500);
        assert_eq!(wait(Some(7_000)), 7_000);
        assert_eq!(wait(Some(86_400_000)), 900_000);
        let eighth = after_failure(&limited(Some(1)), &state(7, 0));
        assert_eq!(eighth, RetryDecision::Fail(true));
    }

    #[test]
    fn a_call_that_was_not_sent_is_tried_when_its_connection_opens_however_often_it_waited() {
        let waiting = ModelFailure {
            retry_after_ms: Some(30_000),
            is_unsent: true,
            ..ModelFailure::new(FailureClass::RateLimited, "")
        };
        for n_before in [0, 7, 99] {
            let state = state(n_before, 9 * WINDOW_MS);
            let next = after_failure(&waiting, &state);
            assert_eq!(next, RetryDecision::Postpone(state.now.plus_millis(30_000)));
        }
    }

    #[test]
    fn an_exhausted_budget_holds_or_skips_as_configured() {
        let spent = |on_reached| ModelFailure {
            spent: Some(ExhaustedBudget {
                scope: perpend_domain::budget::BudgetScope::Rule,
                on_reached,
                until: None,
            }),
            ..ModelFailure::new(FailureClass::BudgetExhausted, "")
        };
        let after = |on_reached| after_failure(&spent(on_reached), &state(0, 0));
        assert_eq!(after(OnReached::Hold), RetryDecision::Hold);
        assert_eq!(after(OnReached::Skip), RetryDecision::Skip);
    }

    #[test]
    fn failures_that_need_a_user_are_held_after_any_number_of_attempts() {
        for class in [FailureClass::AuthInvalid, FailureClass::ConnectionMissing] {
            assert_eq!(after(class, &state(99, 9 * WINDOW_MS)), RetryDecision::Hold);
        }
    }
}
