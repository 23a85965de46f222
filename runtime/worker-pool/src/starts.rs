//! Which lanes could start their processes.

use std::sync::Mutex;

use crate::queue::lock;

/// How often in a row each lane could not start its process. The lane for suspects is the last.
pub(crate) struct Starts(Mutex<Vec<u32>>);

/// Suspects need a process of their own, so they are not for another lane: that one is tried so often.
const MAX_SUSPECT_STARTS: u32 = 3;

impl Starts {
    pub(crate) fn new(n_workers: usize) -> Self {
        Self(Mutex::new(vec![0; n_workers + 1]))
    }

    pub(crate) fn succeeded(&self, lane: usize) {
        lock(&self.0)[lane] = 0;
    }

    /// Whether nobody is left who could make the calls of such a lane.
    pub(crate) fn failed(&self, lane: usize) -> bool {
        let mut n_failures = lock(&self.0);
        n_failures[lane] += 1;
        let (workers, suspects) = n_failures.split_at(n_failures.len() - 1);
        workers.iter().all(|n| 0 < *n) || lane == workers.len() && MAX_SUSPECT_STARTS <= suspects[0]
    }
}
