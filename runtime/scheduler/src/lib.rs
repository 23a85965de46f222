//! From changes of telemetry to scores: completeness, rules, sampling, executions, retries.
//!
//! Invariants:
//! - **A lost wake-up is harmless.** [`Scheduler::wake`] is a hint. Every step also runs by a poll, has no
//!   input and finds its work in the store.
//! - **One decision.** [`decide`] is the only function that decides whether a rule takes a target;
//!   [`Scheduler::explain`] calls it too.
//! - **The catalog is at least as new as the targets.** A pass reads the change log first and the catalog
//!   after it, and commits only if that is the current revision. So a target meets each rule that existed
//!   when it arrived.
//! - **Executed at least once, scored exactly once,** whenever a process is killed: ids are derived, change
//!   rows are deleted with the insertion of their executions, and scores are written with the state that
//!   completes them.
//! - **Waiting calls stop with their rule.** A call that has not started is withdrawn when its rule or
//!   evaluator is disabled, paused or deleted.
//! - **No evaluation of evaluations.** The environment of a target is checked when it is matched and again
//!   before its call. In doubt there is no call.
//! - **History behind the present.** Backfills queue a limited number of executions, with the lowest priority.
//! - **At a firing.** Executions of a rule with a schedule are created with those of other rules, and become due at the
//!   next firing. So a failure at the time of the firing neither loses nor repeats them.
//! - **Deterministic.** Time, jitter and fences come from [`Deps`]. Only waiting uses real timers.

mod backfill;
mod breaker;
mod call;
mod catalog;
mod completeness;
mod decide;
mod deps;
mod executor;
mod explain;
mod failures;
mod fair_queue;
mod held_executions;
mod holder;
mod linked_items;
mod matcher;
mod memory;
mod missing_items;
mod open_calls;
mod own_traces;
mod pointers;
mod preview;
mod reasons;
mod recent_outcomes;
mod retry;
mod rule_dependencies;
mod runs;
mod schedules;
mod score_triggers;
mod scores;
mod target;
mod targets;
mod trial;
mod whole_targets;
mod withdraw;
mod work;

use std::sync::atomic::{AtomicI64, AtomicU32};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perpend_executions::Release;
use perpend_memory::MemoryBudget;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use catalog::CatalogCache;
use deps::{Inner, NEVER};
use fair_queue::FairQueue;
use open_calls::OpenCalls;
use work::Batch;

pub use backfill::{
    BACKFILL_JOB, BACKTEST_JOB, BackfillAdvance, BackfillEstimate, BacktestAdvance,
    BacktestEstimate, ChosenTargets,
};
pub use catalog::PreparedRule;
pub use completeness::{Completion, completion};
pub use decide::{AssignmentVerdict, CompleteTarget, Decision, Refusal, Verdict, decide};
pub use explain::{AssignmentExplanation, Explanation, ExplanationStep};
pub use preview::{Matches, MissingVariable, Preview, PreviewExample};
pub use schedules::SCHEDULE_JOB;
pub use scores::TrialScore;
pub use trial::{Trial, TrialResult, TrialSubject};

pub use deps::{Breakpoint, Breakpoints, Deps, Error, Evaluate, Options};

/// Turns incoming telemetry into scores. Cheap to clone: all clones are one scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    inner: Arc<Inner>,
}

impl Scheduler {
    /// A scheduler that does nothing until [`Scheduler::run`].
    #[must_use]
    pub fn new(deps: Deps) -> Self {
        Self {
            inner: Arc::new(Inner {
                turns: FairQueue::new(deps.options.n_places),
                memory: MemoryBudget::new(
                    deps.options.max_memory_bytes,
                    deps.options.max_memory_bytes / 2,
                ),
                deps,
                woken: Notify::new(),
                catalog: CatalogCache::default(),
                leases: Mutex::default(),
                resumed_at: AtomicI64::new(NEVER),
                held_checked_at: AtomicI64::new(NEVER),
                recent: Mutex::default(),
                open_calls: OpenCalls::default(),
                n_outdated: AtomicU32::new(0),
                stepped_at: Mutex::default(),
            }),
        }
    }

    /// Time since the last step of [`Scheduler::run`] ended; absent before the first.
    #[must_use]
    pub fn since_step(&self) -> Option<Duration> {
        self.inner.stepped().map(|at| at.elapsed())
    }

    /// Wakes the scheduler. A hint: the poll would find the work too.
    pub fn wake(&self) {
        self.inner.woken.notify_one();
    }

    /// Runs until `shutdown`, then lets running batches finish and releases the executions of the others.
    pub async fn run(&self, shutdown: CancellationToken) {
        let mut batches = JoinSet::new();
        while !shutdown.is_cancelled() {
            let step = self.step(&mut batches).await;
            *self.inner.stepped() = Some(Instant::now());
            let worked = match step {
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
            if let Err(error) = store.ledger.release_executions(fence, &seqs, release, now).await {
                // Harmless: the lease ends.
                tracing::warn!(error = &error as &dyn std::error::Error, "lease not released");
            }
        }
    }

    /// Runs until nothing is due at the time of the clock. For tests and for `demo --once`.
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

    /// Starts due executions and matches once. Waiting executions come first, because matched targets take
    /// slots without a turn and would leave none. `false` if there was nothing to do.
    async fn step(&self, batches: &mut JoinSet<Result<(), Error>>) -> Result<bool, Error> {
        while let Some(ended) = batches.try_join_next() {
            ended.map_err(|error| Error::Panicked(error.to_string()))??;
        }
        let inner = &self.inner;
        let catalog = inner.catalog.current(&inner.deps.store).await?;
        inner.stop_waiting(&catalog).await?;
        let claimed = inner.claim(&catalog).await?;
        let has_claimed = !claimed.is_empty();
        for batch in claimed {
            self.start(batches, batch);
        }
        let (has_matched, matched) = inner.match_once().await?;
        for batch in matched {
            self.start(batches, batch);
        }
        Ok(has_claimed || has_matched)
    }

    fn start(&self, batches: &mut JoinSet<Result<(), Error>>, batch: Batch) {
        let inner = Arc::clone(&self.inner);
        batches.spawn(async move {
            let (fence, seqs) = (batch.lease.fence, batch.seqs());
            let ended = inner.execute(batch).await;
            inner.forget_lease(fence, &seqs);
            inner.wake_if_short();
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
    tracing::error!(error = &error as &dyn std::error::Error, "batch of evaluations failed");
}
