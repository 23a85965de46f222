//! The result of the last check of the server, and the alarms that every page shows.
//!
//! Invariant: **a page does not wait for a check.** The server checks itself at an interval; pages read the last result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use perpend_domain::time::Timestamp;

/// Age of the last observation after which it is reported as missing.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Time without a step after which the scheduler is reported as stuck.
pub(super) const MAX_STEP: Duration = Duration::from_secs(60);

const REFUSES_WRITES: &str = "The database refuses writes, so nothing is recorded. Free disk space, or restore the connection to the database; \
     the log of the server has the cause.";
const WORKERS_STOPPED: &str =
    "The workers have stopped, so nothing is evaluated. Restart the server; its log has the cause.";
const WORKERS_CANNOT_START: &str = "No worker process can be started, so nothing is evaluated. The log of the server has the cause.";
const SCHEDULER_STUCK: &str = "The scheduler has made no step for a minute, so nothing is evaluated. Check that the database responds, then restart the server.";
const NOT_OBSERVED: &str = "The server has not completed its own check for a minute. Check that the database responds and that the machine is not \
     overloaded.";

/// The worker processes.
#[derive(Clone, Debug, Default)]
pub struct WorkerFigures {
    /// Configured number of processes.
    pub n_workers: usize,
    /// Process ids of the running ones.
    pub pids: Vec<u32>,
    /// Whether none can be started.
    pub cannot_start: bool,
    /// Whether calls are no longer run.
    pub has_stopped: bool,
}

/// The disk of the data directory.
#[derive(Clone, Copy, Debug)]
pub struct DiskFigures {
    /// Bytes that the server can still use.
    pub free: u64,
    /// Bytes of the disk.
    pub all: u64,
}

impl DiskFigures {
    pub(super) fn free_share(self) -> f64 {
        self.free as f64 / (self.all as f64).max(1.0)
    }
}

/// One observation of the server.
#[derive(Clone, Debug)]
pub struct InstanceCheck {
    /// Time of the observation.
    pub at: Timestamp,
    /// Whether the database accepted a write.
    pub accepts_writes: bool,
    /// The worker processes; absent if evaluators run in the server.
    pub workers: Option<WorkerFigures>,
    /// Time since the last step of the scheduler; absent before the first.
    pub since_step: Option<Duration>,
    /// The disk of the data directory, if known.
    pub disk: Option<DiskFigures>,
}

impl InstanceCheck {
    fn alarms(&self) -> Vec<&'static str> {
        let workers = self.workers.as_ref();
        let has_stopped = workers.is_some_and(|workers| workers.has_stopped);
        let cannot_start = workers.is_some_and(|workers| workers.cannot_start);
        let is_stuck = self.since_step.is_some_and(|elapsed| MAX_STEP < elapsed);
        let all = [
            (!self.accepts_writes).then_some(REFUSES_WRITES),
            has_stopped.then_some(WORKERS_STOPPED),
            (cannot_start && !has_stopped).then_some(WORKERS_CANNOT_START),
            is_stuck.then_some(SCHEDULER_STUCK),
        ];
        all.into_iter().flatten().collect()
    }
}

/// The last observation, with the time since when it is known; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct InstanceState(Arc<Mutex<Option<(Instant, InstanceCheck)>>>);

impl InstanceState {
    fn lock(&self) -> MutexGuard<'_, Option<(Instant, InstanceCheck)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the last observation.
    pub fn set(&self, check: InstanceCheck) {
        *self.lock() = Some((Instant::now(), check));
    }

    /// Failures of the server with their remedies; empty before the first check.
    pub(crate) fn alarms(&self) -> Vec<&'static str> {
        match &*self.lock() {
            None => Vec::new(),
            Some((known_at, check)) => alarms_after(known_at.elapsed(), check),
        }
    }

    pub(super) fn last(&self) -> Option<InstanceCheck> {
        self.lock().as_ref().map(|(_, check)| check.clone())
    }
}

/// The alarms of an observation of this age.
fn alarms_after(age: Duration, check: &InstanceCheck) -> Vec<&'static str> {
    match MAX_AGE < age {
        true => vec![NOT_OBSERVED],
        false => check.alarms(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check() -> InstanceCheck {
        InstanceCheck {
            at: Timestamp::from_millis(0),
            accepts_writes: true,
            workers: Some(WorkerFigures { n_workers: 2, ..WorkerFigures::default() }),
            since_step: Some(Duration::from_secs(1)),
            disk: None,
        }
    }

    #[test]
    fn each_failure_raises_its_alarm_and_idle_workers_raise_none() {
        let state = InstanceState::default();
        assert!(state.alarms().is_empty(), "before the first check");
        state.set(check());
        assert!(state.alarms().is_empty());
        let workers = |cannot_start, has_stopped| {
            let figures = WorkerFigures { cannot_start, has_stopped, ..WorkerFigures::default() };
            InstanceCheck { workers: Some(figures), ..check() }
        };
        for (failed, alarm) in [
            (InstanceCheck { accepts_writes: false, ..check() }, REFUSES_WRITES),
            (workers(true, true), WORKERS_STOPPED),
            (workers(true, false), WORKERS_CANNOT_START),
            (
                InstanceCheck { since_step: Some(Duration::from_secs(61)), ..check() },
                SCHEDULER_STUCK,
            ),
        ] {
            state.set(failed);
            assert_eq!(state.alarms(), [alarm]);
        }
    }

    #[test]
    fn an_observation_that_is_not_renewed_raises_an_alarm() {
        assert!(alarms_after(MAX_AGE, &check()).is_empty());
        assert_eq!(alarms_after(MAX_AGE + Duration::from_secs(1), &check()), [NOT_OBSERVED]);
    }
}
