//! What the scheduler works with, and what its parts share.

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

use crate::catalog::Cached;
use crate::holder::Holder;
use crate::open_calls::OpenCalls;
use crate::recent::Recent;
use crate::turns::Turns;

/// Runs evaluators. The server puts the worker processes behind it.
pub trait Evaluate: Send + Sync + fmt::Debug {
    /// One result per call as it comes, with the place of the call. Failures are results; nothing panics.
    fn evaluate(&self, calls: Vec<EvaluationCall>) -> BoxStream<'_, (usize, CallResult)>;

    /// Answers calls that were withdrawn before they began ([`Origin::withdrawal`](perpend_domain::plugin::CallOrigin)).
    fn answer_withdrawn(&self) {}
}

/// Places where a test may kill the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakpoint {
    /// Touched rows and due watches are read; the catalog by which they are decided is not.
    Read,
    /// Decided, nothing written.
    Decided,
    /// Executions made and touched rows gone, no call yet.
    Made,
    /// Claimed by lease, no call yet.
    Claimed,
    /// Decided what is called, what is held and what ends without a call; nothing of it written.
    Sorted,
    /// Called, nothing written.
    Evaluated,
    /// Scores and states written, nothing after that.
    Finished,
}

/// Fault injection.
pub trait Breakpoints: Send + Sync + fmt::Debug {
    /// `true`: the scheduler stops here as if it had been killed.
    fn stops_at(&self, at: Breakpoint) -> bool;

    /// Delays the scheduler here until the future ends.
    fn delay_at(&self, at: Breakpoint) -> BoxFuture<'_, ()> {
        let _ = at;
        Box::pin(std::future::ready(()))
    }
}

/// What the scheduler works with.
#[derive(Clone, Debug)]
pub struct Deps {
    /// The database.
    pub store: Store,
    /// Runs evaluators.
    pub evaluate: Arc<dyn Evaluate>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Fences and jitter.
    pub ids: Arc<dyn IdSource>,
    /// Settings.
    pub options: Options,
    /// Only in tests.
    pub breakpoints: Option<Arc<dyn Breakpoints>>,
}

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How often to look without being woken.
    pub poll: Duration,
    /// Calls in one batch.
    pub batch: u32,
    /// Executions of each lane at a time. One class of one project gets a third of them.
    pub n_places: usize,
    /// How long an execution may go without sign of life.
    pub lease_ms: i64,
    /// How often a sign is given.
    pub renew: Duration,
    /// At shutdown: how long running batches may take before their leases are given back.
    pub grace: Duration,
    /// Failures in a row that pause a rule.
    pub n_failures_to_pause: u32,
    /// Limits of one call.
    pub limits: Limits,
    /// Memory of targets and items of all evaluations at a time; those of one project may take half of it.
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

/// Why a step of the scheduler did not go through. The loop logs it and goes on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] perpend_db::Error),
    /// A breakpoint was reached.
    #[error("stopped at {0:?}")]
    Stopped(Breakpoint),
    /// A batch ended in a panic; its leases run out.
    #[error("a batch of evaluations panicked: {0}")]
    Panicked(String),
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) deps: Deps,
    pub(crate) woken: Notify,
    pub(crate) catalog: Cached,
    pub(crate) turns: Turns,
    /// What evaluations have in memory.
    pub(crate) memory: MemoryBudget<Holder>,
    /// Leases of running batches, to be given back at shutdown.
    pub(crate) leases: Mutex<HashMap<i64, Vec<i64>>>,
    /// The revision of the catalog by which held executions were last let go on.
    pub(crate) let_go_at: AtomicI64,
    /// When held executions were last looked at for those that have waited too long, microseconds.
    pub(crate) looked_at: AtomicI64,
    /// How executions ended lately.
    pub(crate) recent: Mutex<Recent>,
    /// Calls under way.
    pub(crate) open_calls: OpenCalls,
    /// Passes in a row that were discarded because the catalog changed before they were committed.
    pub(crate) n_outdated: AtomicU32,
}

/// No catalog has this revision.
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

    /// Places were given back: who waits for one need not wait for the poll.
    pub(crate) fn wake_who_waits(&self) {
        if self.turns.was_short() {
            self.woken.notify_one();
        }
    }

    /// A lease nobody else has: 63 random bits.
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
