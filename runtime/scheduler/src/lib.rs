//! From what ingest touched to scores: completeness, rules, sampling, executions, retries.
//!
//! Invariants:
//! - **A lost wake-up is harmless.** [`Scheduler::wake`] is a hint; every step also runs by a poll, has no
//!   input and finds its work in the store.
//! - **One question, one answer.** [`decide`] is the only place that says whether a rule takes a target;
//!   [`Scheduler::explain`] asks it too.
//! - **Killed anywhere, scored once.** Executing is at least once, the effect exactly once: ids are
//!   derived, touched rows go with the executions they make, scores with the state they complete.
//! - **No evaluation of evaluations.** The environment of a target is looked at when it is matched and
//!   again before its call; in doubt there is no call.
//! - **No clock, no chance.** Time, jitter and fences come from [`Deps`]. Only waiting uses real timers.

mod catalog;
mod completeness;
mod decide;
mod executor;
mod explain;
mod matcher;
mod pointers;
mod retry;
mod scores;
mod target;
mod turns;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use perpend_domain::ids::IdSource;
use perpend_domain::plugin::{Call, CallResult, Limits};
use perpend_domain::time::{Clock, Timestamp};
use perpend_ledger::{Lease, Release};
use perpend_store::Store;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use catalog::PreparedRule;
pub use completeness::{Completion, completion};
pub use decide::{Complete, Decision, Refusal, Standing, Verdict, decide};
pub use explain::{AssignmentExplanation, Explanation, Step};

use catalog::Cached;
use executor::Work;
use turns::Turns;

/// Runs evaluators. The server puts the worker processes behind it.
pub trait Evaluate: Send + Sync + fmt::Debug {
    /// One result per call as it comes, with the place of the call. Failures are results; nothing panics.
    fn evaluate(&self, calls: Vec<Call>) -> BoxStream<'_, (usize, CallResult)>;
}

/// Places where a test may kill the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Breakpoint {
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
        }
    }
}

/// Why a step of the scheduler did not go through. The loop logs it and goes on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] perpend_sql::Error),
    /// A breakpoint was reached.
    #[error("stopped at {0:?}")]
    Stopped(Breakpoint),
    /// A batch ended in a panic; its leases run out.
    #[error("a batch of evaluations panicked: {0}")]
    Panicked(String),
}

/// Turns what arrives into scores. Cheap to clone: all clones are one scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    deps: Deps,
    woken: Notify,
    catalog: Cached,
    turns: Turns,
    /// Leases of running batches, to be given back at shutdown.
    leases: Mutex<HashMap<i64, Vec<i64>>>,
    /// The revision of the catalog by which held executions were last let go on.
    let_go_at: AtomicI64,
}

/// No catalog has this revision.
pub(crate) const NEVER: i64 = i64::MIN;

impl Scheduler {
    /// A scheduler; it does nothing until it is run.
    #[must_use]
    pub fn new(deps: Deps) -> Self {
        Self {
            inner: Arc::new(Inner {
                turns: Turns::new(deps.options.n_places),
                deps,
                woken: Notify::new(),
                catalog: Cached::default(),
                leases: Mutex::default(),
                let_go_at: AtomicI64::new(NEVER),
            }),
        }
    }

    /// Says that there may be work. A hint: the poll would find it too.
    pub fn wake(&self) {
        self.inner.woken.notify_one();
    }

    /// Works until `shutdown`, then lets running batches finish and gives back what did not.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut batches = JoinSet::new();
        while !shutdown.is_cancelled() {
            let worked = match self.step(&mut batches).await {
                Ok(worked) => worked,
                Err(error) => {
                    tracing::error!(
                        error = &error as &dyn std::error::Error,
                        "scheduler step failed"
                    );
                    false
                }
            };
            if worked {
                continue;
            }
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = self.inner.woken.notified() => {}
                () = tokio::time::sleep(self.inner.deps.options.poll) => {}
                Some(ended) = batches.join_next() => log_end(ended),
            }
        }
        self.stop(batches).await;
    }

    async fn stop(&self, mut batches: JoinSet<Result<(), Error>>) {
        let finish = async {
            while let Some(ended) = batches.join_next().await {
                log_end(ended);
            }
        };
        let grace = self.inner.deps.options.grace;
        if tokio::time::timeout(grace, finish).await.is_ok() {
            return;
        }
        batches.shutdown().await;
        let left = std::mem::take(&mut *self.inner.lock_leases());
        for (fence, seqs) in left {
            let now = self.inner.deps.clock.now();
            let store = &self.inner.deps.store;
            let release = Release::GivenBack;
            if let Err(error) = store
                .ledger
                .release_executions(fence, &seqs, release, now)
                .await
            {
                // Harmless: the lease runs out.
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "lease not given back"
                );
            }
        }
    }

    /// Works until nothing is due at the clock's time. For tests and for `demo --once`.
    ///
    /// # Errors
    /// The first error of any step or batch.
    pub async fn run_until_idle(&self) -> Result<(), Error> {
        let mut batches = JoinSet::new();
        loop {
            let worked = self.step(&mut batches).await?;
            if let Some(ended) = batches.join_next().await {
                ended.map_err(|error| Error::Panicked(error.to_string()))??;
            } else if !worked {
                return Ok(());
            }
        }
    }

    /// Starts what is due and matches once. What waits comes first: what is matched takes places without a
    /// turn, and would leave it none. `false` when there was nothing to do.
    async fn step(&self, batches: &mut JoinSet<Result<(), Error>>) -> Result<bool, Error> {
        while let Some(ended) = batches.try_join_next() {
            ended.map_err(|error| Error::Panicked(error.to_string()))??;
        }
        let inner = &self.inner;
        let catalog = inner.catalog.current(&inner.deps.store).await?;
        let claimed = inner.claim(&catalog).await?;
        let has_claimed = !claimed.is_empty();
        for work in claimed {
            self.start(batches, work);
        }
        let (has_matched, matched) = inner.match_once(&catalog).await?;
        for work in matched {
            self.start(batches, work);
        }
        Ok(has_claimed || has_matched)
    }

    fn start(&self, batches: &mut JoinSet<Result<(), Error>>, work: Work) {
        let inner = Arc::clone(&self.inner);
        batches.spawn(async move {
            let fence = work.lease.fence;
            let seqs: Vec<i64> = work.leased.iter().map(|each| each.seq).collect();
            let ended = inner.execute(work).await;
            inner.forget_lease(fence, &seqs);
            inner.wake_who_waits();
            ended
        });
    }
}

fn log_end(ended: Result<Result<(), Error>, tokio::task::JoinError>) {
    let error = match ended {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(error) => Error::Panicked(error.to_string()),
    };
    tracing::error!(
        error = &error as &dyn std::error::Error,
        "batch of evaluations failed"
    );
}

impl Inner {
    fn reach(&self, at: Breakpoint) -> Result<(), Error> {
        match &self.deps.breakpoints {
            Some(breakpoints) if breakpoints.stops_at(at) => Err(Error::Stopped(at)),
            _ => Ok(()),
        }
    }

    /// Places were given back: who waits for one need not wait for the poll.
    fn wake_who_waits(&self) {
        if self.turns.was_short() {
            self.woken.notify_one();
        }
    }

    /// A lease nobody else has: 63 random bits.
    fn new_lease(&self, now: Timestamp) -> Lease {
        let (high, low) = self.deps.ids.uuid().as_u64_pair();
        Lease {
            fence: ((high ^ low.rotate_left(32)) >> 1) as i64,
            until: now.plus_millis(self.deps.options.lease_ms),
        }
    }

    /// Several batches may share a fence.
    fn forget_lease(&self, fence: i64, ended: &[i64]) {
        let mut leases = self.lock_leases();
        if let Some(seqs) = leases.get_mut(&fence) {
            seqs.retain(|seq| !ended.contains(seq));
            if seqs.is_empty() {
                leases.remove(&fence);
            }
        }
    }

    fn lock_leases(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Vec<i64>>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
