//! Counts of consecutive failures to start worker processes.

use std::sync::Mutex;

use crate::queue::lock;

/// Consecutive start failures by slot. The slot for suspects is the last.
pub(crate) struct StartFailures(Mutex<Vec<u32>>);

/// Maximum number of attempts for suspects, which no other slot can run.
const MAX_SUSPECT_STARTS: u32 = 3;

impl StartFailures {
    pub(crate) fn new(n_workers: usize) -> Self {
        Self(Mutex::new(vec![0; n_workers + 1]))
    }

    pub(crate) fn reset(&self, slot: usize) {
        lock(&self.0)[slot] = 0;
    }

    /// Number of slots whose last start failed, without the slot for suspects.
    pub(crate) fn n_failing(&self) -> usize {
        let n_failures = lock(&self.0);
        let workers = n_failures.split_last().map_or(&[][..], |(_, workers)| workers);
        workers.iter().filter(|n| 0 < **n).count()
    }

    /// Records a failure. Returns true when no slot can run the queued calls.
    pub(crate) fn record(&self, slot: usize) -> bool {
        let mut n_failures = lock(&self.0);
        n_failures[slot] += 1;
        let (workers, suspects) = n_failures.split_at(n_failures.len() - 1);
        workers.iter().all(|n| 0 < *n) || slot == workers.len() && MAX_SUSPECT_STARTS <= suspects[0]
    }
}
