//! A batch of executions that was claimed.

use perpend_domain::evaluation::Execution;
use perpend_executions::Lease;

use crate::turns::Seats;

/// Executions of one rule and one of its evaluators, under one lease.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) lease: Lease,
    pub(crate) leased: Vec<Execution>,
    pub(crate) seats: Seats,
    /// Of the catalog by which it is evaluated.
    pub(crate) revision: i64,
}

/// Executions of one rule under one lease, by evaluator: what is read of a target serves all of them.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) lease: Lease,
    pub(crate) works: Vec<Work>,
}

impl Batch {
    /// All of its executions.
    pub(crate) fn seqs(&self) -> Vec<i64> {
        seqs(&self.works)
    }
}

/// The executions of some works.
pub(crate) fn seqs(works: &[Work]) -> Vec<i64> {
    let leased = works.iter().flat_map(|work| &work.leased);
    leased.map(|each| each.seq).collect()
}
