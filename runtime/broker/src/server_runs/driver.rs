//! Drives one run under its lease: starts calls, writes the traces of their results and ends the items.

use std::sync::Arc;
use std::time::Duration;

use perpend_catalog::sealed::SealedAt;
use perpend_db::Error;
use perpend_domain::batch::Batch;
use perpend_domain::dataset::DatasetItem;
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, RuleId};
use perpend_domain::observation::Observation;
use perpend_domain::plugin::{EvaluatorContext, Grants};
use perpend_domain::prompt::PromptBody;
use perpend_domain::server_run::{MAX_USD_REACHED, RunTask};
use perpend_domain::slots::{ModelLimits, Slot};
use perpend_domain::time::Timestamp;
use perpend_executions::{AnsweredItem, ClaimedItem, ItemEnd, RunChange, ServerRun};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::engine::{LEASE_MS, POLL, RunEngine};
use super::memory::CallMemory;

/// Interval of renewals of the lease.
const RENEW: Duration = Duration::from_secs(15);
/// After a call ended, others that end in this time are written together with it.
const GATHER: Duration = Duration::from_millis(10);
/// Time for calls in flight at shutdown. Later ones are repeated after the restart.
const GRACE: Duration = Duration::from_secs(5);
/// Most stored answers whose traces are written together.
const PER_WRITE: u32 = 50;
/// Most bytes of these answers, unless it is a single one.
const WRITE_BYTES: usize = 1 << 20;
/// Name of the only slot.
const SLOT: &str = "model";

/// A run that this process drives.
pub(super) struct Driver {
    pub(super) engine: RunEngine,
    pub(super) run: ServerRun,
    /// The caller of model calls; absent for endpoints.
    pub(super) context: Option<Arc<EvaluatorContext>>,
    /// The experiment as the rule of its costs.
    pub(super) rule: Option<RuleId>,
    /// The prompt; absent for endpoints.
    pub(super) prompt: Option<PromptBody>,
    /// Signs requests to the endpoint.
    pub(super) secret: Option<String>,
}

/// The result of a call.
#[derive(Debug)]
pub(super) enum CallEnd {
    /// The item has a result: its end and the observations of its trace that are not written yet.
    Finished(Box<ItemEnd>, Vec<Observation>),
    /// The item is called again at the time. The flag counts the failed call.
    Retry { place: i64, at: Timestamp, is_counted: bool, class: String, message: String },
    /// The run is paused, and the item is called again when it is resumed.
    Pause { place: i64, started_at: Timestamp, reason: String, message: String },
}

/// A result of a call with the memory of the call, which is returned when the result is written.
#[derive(Debug)]
pub(super) struct EndedCall {
    pub(super) end: CallEnd,
    pub(super) memory: CallMemory,
}

/// Number of answers to write together, at least one, and their bytes.
fn first_answers(answered: &[AnsweredItem]) -> (usize, usize) {
    let (mut n, mut n_bytes) = (0, 0);
    for item in answered {
        if 0 < n && WRITE_BYTES < n_bytes + item.n_bytes {
            break;
        }
        n += 1;
        n_bytes += item.n_bytes;
    }
    (n, n_bytes)
}

impl Driver {
    pub(super) async fn new(engine: RunEngine, run: ServerRun) -> Result<Self, Error> {
        let mut driver =
            Self { engine, run, context: None, rule: None, prompt: None, secret: None };
        let inconsistent =
            |detail: &str| Error::Inconsistent { what: "server run", detail: detail.to_owned() };
        let run = &driver.run;
        match &run.task {
            RunTask::Model(task) => {
                let body = PromptBody::from_stored(task.prompt.body.clone());
                driver.prompt = Some(body.ok_or_else(|| inconsistent("its prompt"))?);
                let (evaluator, version) =
                    (EvaluatorId::new(&run.id), EvaluatorVersionId::new(&run.id));
                let (Ok(evaluator), Ok(version)) = (evaluator, version) else {
                    return Err(inconsistent("its id"));
                };
                driver.rule = RuleId::new(&run.experiment_id).ok();
                let limits = ModelLimits { timeout_ms: task.timeout_ms, ..ModelLimits::default() };
                let slot = Slot { name: SLOT.to_owned(), model: Some(task.model.clone()), limits };
                driver.context = Some(Arc::new(EvaluatorContext {
                    project: run.project.clone(),
                    evaluator,
                    version,
                    grants: Grants { model: true, trace_reader: false },
                    slots: vec![slot],
                }));
            }
            RunTask::Endpoint(task) if task.is_signed => {
                let id = &run.experiment_id;
                let sealed = driver.engine.store.catalog.endpoint_secret(&run.project, id).await?;
                let sealed = sealed.ok_or_else(|| inconsistent("its secret is missing"))?;
                let owner = SealedAt::Endpoint(id.clone()).owner(&run.project);
                let secret = driver.engine.vault.unseal(&owner, &sealed);
                driver.secret = Some(secret.map_err(|error| inconsistent(&error.to_string()))?);
            }
            RunTask::Endpoint(_) => {}
        }
        Ok(driver)
    }

    /// Drives the run until it ends, is paused, or `shutdown`. Returns the number of results.
    pub(super) async fn drive(self: Arc<Self>, shutdown: &CancellationToken) -> u64 {
        let mut n_results = 0;
        if let Err(error) = self.drive_to_end(shutdown, &mut n_results).await {
            let error: &dyn std::error::Error = &error;
            // The lease ends, and the run is taken over again.
            tracing::error!(error, run.id = %self.run.id, "a run was interrupted");
        }
        n_results
    }

    async fn drive_to_end(
        self: &Arc<Self>,
        shutdown: &CancellationToken,
        n_results: &mut u64,
    ) -> Result<(), Error> {
        let (ledger, lease) = (&self.engine.store.ledger, self.run.lease());
        *n_results += self.write_answered().await?;
        let mut calls = JoinSet::new();
        let (mut renewed_at, mut stopping_since) = (Instant::now(), None);
        loop {
            let now = self.engine.clock.now();
            if shutdown.is_cancelled() {
                let since = *stopping_since.get_or_insert_with(Instant::now);
                if GRACE <= since.elapsed() {
                    calls.shutdown().await;
                    return ledger.release_run(lease).await;
                }
            }
            let is_running = !shutdown.is_cancelled() && ledger.holds_run(lease, now).await?;
            if is_running {
                self.start_calls(&mut calls).await?;
            }
            if calls.is_empty() {
                if !is_running {
                    return ledger.release_run(lease).await;
                }
                if ledger.next_run_item(lease).await?.is_none()
                    && ledger.complete_run(lease, now).await?
                {
                    return Ok(());
                }
            }
            let ended = match calls.is_empty() {
                true => {
                    tokio::time::sleep(POLL).await;
                    None
                }
                false => tokio::time::timeout(POLL, calls.join_next()).await.ok().flatten(),
            };
            if ended.is_some() && !calls.is_empty() {
                tokio::time::sleep(GATHER).await;
            }
            let (mut ends, mut held) = (Vec::new(), Vec::new());
            let later = std::iter::from_fn(|| calls.try_join_next());
            for ended in ended.into_iter().chain(later) {
                match ended {
                    Ok(EndedCall { end, memory }) => {
                        ends.push(end);
                        held.push(memory);
                    }
                    // The item stays under way until the lease ends.
                    Err(error) => {
                        tracing::error!(%error, run.id = %self.run.id, "the call of an item failed");
                        return Ok(());
                    }
                }
            }
            *n_results += self.end_calls(ends).await?;
            drop(held);
            if RENEW <= renewed_at.elapsed() {
                renewed_at = Instant::now();
                let until = self.engine.clock.now().plus_millis(LEASE_MS);
                ledger.renew_run(lease, until).await?;
            }
        }
    }

    /// Starts as many calls as the run may have in flight.
    async fn start_calls(self: &Arc<Self>, calls: &mut JoinSet<EndedCall>) -> Result<(), Error> {
        let n_free = (self.run.concurrency as usize).saturating_sub(calls.len());
        let n_free = u32::try_from(n_free).unwrap_or(u32::MAX);
        if n_free == 0 || self.is_over_limit().await? {
            return Ok(());
        }
        let Driver { engine, run, .. } = self.as_ref();
        let ledger = &engine.store.ledger;
        let claimed = ledger.claim_run_items(run.lease(), n_free, engine.clock.now()).await?;
        let versions = claimed.iter().map(|item| (item.item_id.as_str(), item.item_version));
        let lengths = self.item_lengths(&versions.collect::<Vec<_>>()).await?;
        for (item, n_bytes) in claimed.into_iter().zip(lengths) {
            let driver = Arc::clone(self);
            calls.spawn(async move { driver.call_with_memory(item, n_bytes).await });
        }
        Ok(())
    }

    /// Pauses the run if the costs that the application reported have reached the limit. Costs of models are reserved before
    /// each call instead.
    async fn is_over_limit(&self) -> Result<bool, Error> {
        let (Some(max_usd), RunTask::Endpoint(_)) = (self.run.max_usd, &self.run.task) else {
            return Ok(false);
        };
        let Self { engine, run, .. } = self;
        let ledger = &engine.store.ledger;
        let (usd, _) = ledger.reported_cost(&run.project, &run.experiment_id).await?;
        if usd < max_usd {
            return Ok(false);
        }
        let message =
            format!("the calls cost {usd:.6} US dollars, which reaches maxUsd of {max_usd}");
        let change = RunChange::PauseFor(MAX_USD_REACHED, &message);
        ledger.change_run(&run.project, &run.id, change, engine.clock.now()).await?;
        Ok(true)
    }

    async fn item_lengths(&self, versions: &[(&str, Timestamp)]) -> Result<Vec<usize>, Error> {
        let catalog = &self.engine.store.catalog;
        catalog.dataset_item_lengths(&self.run.project, versions).await
    }

    /// The versions of the items in the dataset, in the order of `claimed`.
    pub(super) async fn dataset_items(
        &self,
        claimed: &[ClaimedItem],
    ) -> Result<Vec<Option<DatasetItem>>, Error> {
        let versions = claimed.iter().map(|item| (item.item_id.as_str(), item.item_version));
        let versions: Vec<(&str, Timestamp)> = versions.collect();
        let catalog = &self.engine.store.catalog;
        let found = catalog.dataset_item_versions_at(&self.run.project, &versions).await?;
        let of = |item: &ClaimedItem| found.iter().find(|found| found.id == item.item_id).cloned();
        Ok(claimed.iter().map(of).collect())
    }

    /// Writes the traces of the answers that an earlier process stored.
    async fn write_answered(&self) -> Result<u64, Error> {
        let (ledger, lease) = (&self.engine.store.ledger, self.run.lease());
        let mut n_results = 0;
        loop {
            let lengths = ledger.answer_lengths(lease, PER_WRITE).await?;
            if lengths.is_empty() {
                return Ok(n_results);
            }
            let (n, answer_bytes) = first_answers(&lengths);
            let versions =
                lengths[..n].iter().map(|item| (item.item_id.as_str(), item.item_version));
            let item_lengths = self.item_lengths(&versions.collect::<Vec<_>>()).await?;
            let (project, budget) = (&self.run.project, &self.engine.memory);
            let item_bytes: usize = item_lengths.into_iter().sum();
            let mut memory = budget.reserve_calls(project, (n, item_bytes)).await;
            budget.reserve_answer(&mut memory, answer_bytes).await;
            budget.begin_parsing(&mut memory).await;
            let answered =
                ledger.answered_run_items(lease, u32::try_from(n).unwrap_or(PER_WRITE)).await?;
            let items = self.dataset_items(&answered).await?;
            let ends = answered.into_iter().zip(items);
            let ends = ends.map(|(mut item, data)| {
                let answer = item.answer.take().unwrap_or_default();
                self.answered(item, data.as_ref(), &answer)
            });
            let ends: Vec<CallEnd> = ends.collect();
            memory.end_parsing();
            n_results += self.end_calls(ends).await?;
            if !ledger.holds_run(lease, self.engine.clock.now()).await? {
                return Ok(n_results);
            }
        }
    }

    /// Writes traces, then ends their items.
    async fn end_calls(&self, ends: Vec<CallEnd>) -> Result<u64, Error> {
        let Self { engine, run, .. } = self;
        let (store, lease, now) = (&engine.store, run.lease(), engine.clock.now());
        let (mut finished, mut observations) = (Vec::new(), Vec::new());
        for end in ends {
            match end {
                CallEnd::Finished(end, own) => {
                    finished.push(*end);
                    observations.extend(own);
                }
                CallEnd::Retry { place, at, is_counted, class, message } => {
                    let retry = (place, at, is_counted);
                    store.ledger.retry_run_item(lease, retry, (&class, &message)).await?;
                }
                CallEnd::Pause { place, started_at, reason, message } => {
                    let change = RunChange::PauseAfterCall(&reason, &message, started_at);
                    store.ledger.change_run(&run.project, &run.id, change, now).await?;
                    let retry = (place, now, false);
                    store.ledger.retry_run_item(lease, retry, (&reason, &message)).await?;
                }
            }
        }
        if finished.is_empty() {
            return Ok(0);
        }
        let batch = Batch { observations, ..Batch::default() };
        store.telemetry.write_batch(&run.project, batch, now).await?;
        engine.scheduler.wake();
        store.ledger.finish_run_items(lease, &finished).await?;
        Ok(finished.len() as u64)
    }
}
