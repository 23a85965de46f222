//! A batch of claimed executions.

use perpend_domain::evaluation::Execution;
use perpend_executions::Lease;

use crate::fair_queue::Seats;

/// Executions of one rule and one of its evaluators, under one lease.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) lease: Lease,
    pub(crate) leased: Vec<Execution>,
    pub(crate) seats: Seats,
    /// Revision of the catalog that is used for the evaluation.
    pub(crate) revision: i64,
}

/// Executions of one rule under one lease, by evaluator. All of them share the reads of a target.
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
