//! Dependencies and shared state of the scheduler.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use perpend_domain::ids::IdSource;
use perpend_domain::plugin::{CallResult, EvaluationCall, Limits};
use perpend_domain::time::{Clock, Timestamp};
use perpend_executions::Lease;
use perpend_memory::MemoryBudget;
use perpend_storage::Store;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::catalog::CatalogCache;
use crate::fair_queue::FairQueue;
use crate::holder::Holder;
use crate::open_calls::OpenCalls;
use crate::recent_outcomes::RecentOutcomes;

/// Runs evaluators. The server implements it with worker processes.
pub trait Evaluate: Send + Sync + fmt::Debug {
    /// One result per call, in order of arrival, with the index of the call. Failures are results; nothing
    /// panics.
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)>;

    /// Answers calls that were withdrawn before they started
    /// ([`Origin::withdrawal`](perpend_domain::plugin::CallOrigin)).
    fn answer_withdrawn(&self) {}
}

/// Points at which a test may kill the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakpoint {
    /// Change rows and due watches are read, the catalog is not.
    Read,
    /// Decided, nothing written.
    Decided,
    /// Executions inserted and change rows deleted, no call yet.
    Made,
    /// Claimed under a lease, no call yet.
    Claimed,
    /// Executions are sorted into called, held and ended ones; nothing is written.
    Sorted,
    /// Called, nothing written.
    Evaluated,
    /// Scores and states written, nothing after that.
    Finished,
}

/// Fault injection.
pub trait Breakpoints: Send + Sync + fmt::Debug {
    /// `true` stops the scheduler here as if it had been killed.
    fn stops_at(&self, at: Breakpoint) -> bool;

    /// Delays the scheduler here until the future ends.
    fn delay_at(&self, at: Breakpoint) -> BoxFuture<'_, ()> {
        let _ = at;
        Box::pin(std::future::ready(()))
    }
}

/// Dependencies of the scheduler.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub evaluate: Arc<dyn Evaluate>,
    /// Source of time.
    pub clock: Arc<dyn Clock>,
    /// Source of fences and jitter.
    pub ids: Arc<dyn IdSource>,
    /// Settings.
    pub options: Options,
    /// Only in tests.
    pub breakpoints: Option<Arc<dyn Breakpoints>>,
}

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Poll interval without a wake-up.
    pub poll: Duration,
    /// Calls in one batch.
    pub batch: u32,
    /// Maximum of concurrent executions per lane. One class of one project gets a third of them.
    pub n_places: usize,
    /// Length of a lease, milliseconds.
    pub lease_ms: i64,
    /// Interval of lease renewals.
    pub renew: Duration,
    /// Time for running batches at shutdown before their leases are released.
    pub grace: Duration,
    /// Consecutive failures that pause a rule.
    pub n_failures_to_pause: u32,
    /// Limits of one call.
    pub limits: Limits,
    /// Memory of targets and items of all concurrent evaluations, bytes. One project may use half of it.
    pub max_memory_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(250),
            batch: 256,
            n_places: 3_072,
            lease_ms: 60_000,
            renew: Duration::from_secs(20),
            grace: Duration::from_secs(5),
            n_failures_to_pause: 20,
            limits: Limits::default(),
            max_memory_bytes: 128 << 20,
        }
    }
}

/// Error of a step of the scheduler. The loop logs it and continues.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] perpend_db::Error),
    /// A breakpoint stopped the scheduler.
    #[error("stopped at {0:?}")]
    Stopped(Breakpoint),
    /// A batch panicked; its leases end.
    #[error("a batch of evaluations panicked: {0}")]
    Panicked(String),
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) deps: Deps,
    pub(crate) woken: Notify,
    pub(crate) catalog: CatalogCache,
    pub(crate) turns: FairQueue,
    /// Memory of evaluations.
    pub(crate) memory: MemoryBudget<Holder>,
    /// Leases of running batches, to be released at shutdown.
    pub(crate) leases: Mutex<HashMap<i64, Vec<i64>>>,
    /// The revision of the catalog under which held executions were last resumed.
    pub(crate) resumed_at: AtomicI64,
    /// When held executions were last checked, microseconds.
    pub(crate) held_checked_at: AtomicI64,
    /// Recent outcomes of executions.
    pub(crate) recent: Mutex<RecentOutcomes>,
    /// Calls in progress.
    pub(crate) open_calls: OpenCalls,
    /// Consecutive passes that were discarded because the catalog changed before their commit.
    pub(crate) n_outdated: AtomicU32,
    /// When the last step of the loop ended.
    pub(crate) stepped_at: Mutex<Option<Instant>>,
}

/// A revision that no catalog has.
pub(crate) const NEVER: i64 = i64::MIN;

impl Inner {
    pub(crate) async fn reach(&self, at: Breakpoint) -> Result<(), Error> {
        let Some(breakpoints) = &self.deps.breakpoints else {
            return Ok(());
        };
        breakpoints.delay_at(at).await;
        match breakpoints.stops_at(at) {
            true => Err(Error::Stopped(at)),
            false => Ok(()),
        }
    }

    pub(crate) fn stepped(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.stepped_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the scheduler if executions wait for the slots that were returned.
    pub(crate) fn wake_if_short(&self) {
        if self.turns.take_shortage() {
            self.woken.notify_one();
        }
    }

    /// A new lease with a unique fence of 63 random bits.
    pub(crate) fn new_lease(&self, now: Timestamp) -> Lease {
        let (high, low) = self.deps.ids.uuid().as_u64_pair();
        Lease {
            fence: ((high ^ low.rotate_left(32)) >> 1) as i64,
            until: now.plus_millis(self.deps.options.lease_ms),
        }
    }

    /// Several batches may share a fence.
    pub(crate) fn forget_lease(&self, fence: i64, ended: &[i64]) {
        let mut leases = self.lock_leases();
        if let Some(seqs) = leases.get_mut(&fence) {
            seqs.retain(|seq| !ended.contains(seq));
            if seqs.is_empty() {
                leases.remove(&fence);
            }
        }
    }

    pub(crate) fn lock_leases(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Vec<i64>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
