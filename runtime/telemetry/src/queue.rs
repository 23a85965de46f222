//! Group commit: batches that arrive while a transaction commits share the next one.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use perpend_domain::batch::Batch;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::Tenant;
use super::apply::{BatchArrival, apply, lock_tenants};
use super::observation_cache::ObservationCache;
use super::prepare::PreparedBatch;
use super::refresh::Folder;
use super::transaction_state::TransactionState;
use crate::{Error, Telemetry};
use perpend_db::{Pool, despite_collisions, in_transaction};
use perpend_db::{query, query_scalar};

/// Batches that may wait; further ones are refused.
const MAX_BATCHES: usize = 256;
/// KiB of waiting batches, which bounds memory.
const MAX_KIB: u32 = 48 << 10;
/// Batches per transaction; larger groups make the others wait longer.
const GROUP_BATCHES: usize = 32;
const GROUP_BYTES: usize = 8 << 20;
/// Interval at which stale traces are folded during writes.
const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// Interval of checkpoints: a page that several commits change is written once.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(250);

struct WriteJob {
    tenant: Tenant,
    batch: PreparedBatch,
    now: Timestamp,
    reply: oneshot::Sender<Result<(), Error>>,
    _capacity: OwnedSemaphorePermit,
    _reservation: Box<dyn Any + Send + Sync>,
}

/// The queue in front of the database, and its tasks.
#[derive(Debug)]
pub(crate) struct WriteQueue {
    jobs: Mutex<Option<mpsc::Sender<WriteJob>>>,
    capacity: Arc<Semaphore>,
    tenants: Mutex<HashMap<ProjectId, i64>>,
    pub(super) recent: Arc<ObservationCache>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // The guarded value is consistent between any two statements, also after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WriteQueue {
    pub(crate) fn start(pool: &Pool, folder: Folder) -> Arc<Self> {
        let (jobs, queue) = mpsc::channel(MAX_BATCHES);
        let (written, after_write) = watch::channel(());
        let recent = Arc::new(ObservationCache::default());
        let committing = tokio::spawn(commit_groups(pool.clone(), queue, recent.clone(), written));
        let refreshing = tokio::spawn(refresh_stale(folder, after_write.clone()));
        let checkpointing = tokio::spawn(checkpoint(pool.clone(), after_write));
        Arc::new(Self {
            jobs: Mutex::new(Some(jobs)),
            capacity: Arc::new(Semaphore::new(MAX_KIB as usize)),
            tenants: Mutex::default(),
            recent,
            tasks: Mutex::new(vec![committing, refreshing, checkpointing]),
        })
    }

    /// Refuses new batches, writes the queued ones, and ends.
    pub(crate) async fn close(&self) {
        drop(lock(&self.jobs).take());
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(error = %error, "a task of the store failed");
            }
        }
    }
}

/// The next batches, as many as fit into one transaction; `None` if the queue is closed and empty.
async fn next_group(queue: &mut mpsc::Receiver<WriteJob>) -> Option<Vec<WriteJob>> {
    let first = queue.recv().await?;
    let mut n_bytes = first.batch.n_bytes;
    let mut group = vec![first];
    while group.len() < GROUP_BATCHES && n_bytes < GROUP_BYTES {
        match queue.try_recv() {
            Ok(job) => {
                n_bytes += job.batch.n_bytes;
                group.push(job);
            }
            Err(_) => break,
        }
    }
    Some(group)
}

/// Commits batches together. Returns the argument of [`ObservationCache::keep`] if every observation of every batch is
/// new.
async fn commit(
    pool: &Pool,
    recent: &ObservationCache,
    group: &[WriteJob],
) -> Result<Option<u64>, Error> {
    despite_collisions!(commit_once(pool, recent, group).await)
}

async fn commit_once(
    pool: &Pool,
    recent: &ObservationCache,
    group: &[WriteJob],
) -> Result<Option<u64>, Error> {
    let mut is_all_new = true;
    let n_forgotten = in_transaction!(pool, |tx| {
        let n_forgotten = recent.n_forgotten();
        let writers = group.iter();
        let writers = writers.map(|job| (job.tenant.number, !job.batch.logs.is_empty()));
        lock_tenants(&mut tx, writers).await?;
        let mut gathered = TransactionState::default();
        let batches = group.iter();
        let batches = batches.map(|job| (job.tenant.number, &job.batch, job.now));
        gathered.number(&mut tx, batches).await?;
        tx.reach("ingest: numbered")?;
        for (place, job) in group.iter().enumerate() {
            let arrival = BatchArrival { tenant: &job.tenant, now: job.now, place };
            let applied = apply(&mut tx, arrival, &job.batch, &mut gathered).await?;
            if !applied.is_all_new {
                recent.forget(job.tenant.number, &applied.changed);
                is_all_new = false;
            }
        }
        tx.reach("ingest: applied")?;
        gathered.write(&mut tx).await?;
        tx.reach("ingest: written")?;
        n_forgotten
    });
    Ok(is_all_new.then_some(n_forgotten))
}

impl WriteJob {
    /// Replies to the caller of a committed batch.
    fn committed(self, recent: Option<(&ObservationCache, u64)>) {
        let _ = self.reply.send(Ok(()));
        if let Some((recent, n_forgotten)) = recent {
            recent.keep(self.tenant.number, self.batch, n_forgotten);
        }
    }
}

/// A caller that has gone away changes nothing: its batch is committed with the others, and its retry is a
/// repetition.
async fn commit_groups(
    pool: Pool,
    mut queue: mpsc::Receiver<WriteJob>,
    recent: Arc<ObservationCache>,
    written: watch::Sender<()>,
) {
    let is_only_writer = !pool.is_postgres();
    while let Some(group) = next_group(&mut queue).await {
        let n_batches = group.len();
        let started_at = Instant::now();
        let committed = commit(&pool, &recent, &group).await;
        metrics::histogram!("perpend_commit_seconds").record(started_at.elapsed());
        match committed {
            Ok(n_forgotten) => {
                let n_forgotten = n_forgotten.filter(|_| is_only_writer);
                let recent = n_forgotten.map(|n| (&*recent, n));
                for job in group {
                    job.committed(recent);
                }
            }
            Err(Error::Unavailable(reason)) => {
                tracing::warn!(reason, n_batches, "batches refused");
                for job in group {
                    let _ = job.reply.send(Err(Error::Unavailable(reason.clone())));
                }
            }
            Err(error) if n_batches == 1 => {
                if let Some(job) = group.into_iter().next() {
                    let _ = job.reply.send(Err(error));
                }
            }
            // One batch is at fault; the others must not fail with it.
            Err(_) => {
                for job in group {
                    let alone = std::slice::from_ref(&job);
                    let result = commit(&pool, &recent, alone).await;
                    let _ = job.reply.send(result.map(drop));
                }
            }
        }
        written.send_replace(());
    }
}

/// Waits; `false` when the last store was dropped or closed.
async fn wait_for_next(after_write: &mut watch::Receiver<()>, pause: Duration) -> bool {
    let ended = async { while after_write.changed().await.is_ok() {} };
    tokio::time::timeout(pause, ended).await.is_err()
}

async fn checkpoint(pool: Pool, mut after_write: watch::Receiver<()>) {
    let mut failed = false;
    while after_write.changed().await.is_ok()
        && wait_for_next(&mut after_write, CHECKPOINT_EVERY).await
    {
        let moved = pool.checkpoint().await;
        // A failed checkpoint is repeated later, so it is logged once.
        if let (Err(error), false) = (&moved, failed) {
            tracing::warn!(error = %error, "checkpoint failed; the log of the database grows");
        }
        failed = moved.is_err();
    }
}

async fn refresh_stale(folder: Folder, mut after_write: watch::Receiver<()>) {
    let mut before = HashMap::new();
    loop {
        if before.is_empty() && after_write.changed().await.is_err() {
            return;
        }
        if !wait_for_next(&mut after_write, REFRESH_EVERY).await {
            return;
        }
        match folder.fold_quiet(&before).await {
            Ok(now) => before = now,
            Err(error) => {
                tracing::warn!(error = %error, "stale traces not folded");
                before.clear();
            }
        }
    }
}

const FIND_TENANT: &str = "SELECT number FROM tenants WHERE project_id = $1";
const MAKE_TENANT: &str = "
    INSERT INTO tenants (project_id) VALUES ($1) ON CONFLICT (project_id) DO NOTHING";

impl Telemetry {
    /// The number of a project, if it has ever sent data.
    pub(crate) async fn tenant(&self, project: &ProjectId) -> Result<Option<i64>, Error> {
        if let Some(number) = lock(&self.writer.tenants).get(project) {
            return Ok(Some(*number));
        }
        let number: Option<i64> =
            query_scalar(FIND_TENANT).bind(project.as_str()).fetch_optional(&self.pool).await?;
        if let Some(number) = number {
            lock(&self.writer.tenants).insert(project.clone(), number);
        }
        Ok(number)
    }

    pub(super) async fn make_tenant(&self, project: &ProjectId) -> Result<Tenant, Error> {
        let mut number = self.tenant(project).await?;
        if number.is_none() {
            in_transaction!(&self.pool, |tx| {
                query(MAKE_TENANT).bind(project.as_str()).execute(&mut tx).await?;
            });
            number = self.tenant(project).await?;
        }
        Ok(Tenant { project: project.clone(), number: number.ok_or(Error::NotFound)? })
    }

    /// Writes a batch. When this returns `Ok`, it survives power loss. The same batch again changes nothing.
    /// Of two versions of one observation the one with the later end wins, then the one with more attributes,
    /// then the one that arrived later.
    ///
    /// # Errors
    /// [`Error::Unavailable`] at once if too many batches are waiting, and if the disk is full or another
    /// process holds the database; nothing of the batch is written then.
    pub async fn write_batch(
        &self,
        project: &ProjectId,
        batch: Batch,
        now: Timestamp,
    ) -> Result<(), Error> {
        self.write_prepared(project, PreparedBatch::new(batch)?, now, ()).await
    }

    /// As [`Self::write_batch`], for callers that prepare a batch on their own thread. `held`, the memory
    /// reservation of the caller, is dropped with the batch: the batch of a caller that went away still
    /// waits.
    ///
    /// # Errors
    /// As for `write_batch`.
    pub async fn write_prepared(
        &self,
        project: &ProjectId,
        batch: PreparedBatch,
        now: Timestamp,
        held: impl Any + Send + Sync,
    ) -> Result<(), Error> {
        let full = || Error::Unavailable("too many batches are waiting".to_owned());
        let closed = || Error::Unavailable("the store is closing".to_owned());
        let tenant = self.make_tenant(project).await?;
        let n_kib = u32::try_from(batch.n_bytes >> 10).unwrap_or(u32::MAX);
        // A batch above the limit waits alone.
        let n_kib = n_kib.clamp(1, MAX_KIB);
        let capacity = self.writer.capacity.clone();
        let capacity = capacity.try_acquire_many_owned(n_kib).map_err(|_| full())?;
        let jobs = lock(&self.writer.jobs).clone().ok_or_else(closed)?;
        let (reply, committed) = oneshot::channel();
        let job = WriteJob {
            tenant,
            batch,
            now,
            reply,
            _capacity: capacity,
            _reservation: Box::new(held),
        };
        jobs.try_send(job).map_err(|_| full())?;
        // Dropped early: the queue ends when the last sender is dropped.
        drop(jobs);
        committed.await.map_err(|_| closed())?
    }
}
