//! A batch of executions that was claimed.

use perpend_domain::evaluation::Execution;
use perpend_executions::Lease;

use crate::turns::Seats;

/// A batch under one lease.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) lease: Lease,
    pub(crate) leased: Vec<Execution>,
    pub(crate) seats: Seats,
    /// Of the catalog by which it is evaluated.
    pub(crate) revision: i64,
}

impl Work {
    /// Takes out what comes after the first `n`.
    pub(crate) fn split_off(&mut self, n: usize) -> Self {
        let leased = self.leased.split_off(n.min(self.leased.len()));
        Self {
            lease: self.lease,
            seats: self.seats.split(leased.len()),
            leased,
            revision: self.revision,
        }
    }
}
