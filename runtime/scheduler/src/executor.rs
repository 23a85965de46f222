//! From executions to scores: load, call, write.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::{BoxStream, Fuse};
use perpend_domain::evaluation::{
    AttemptFailure, Execution, ExecutionClass, NewExecution, NoCallReason, OnMissing, Target,
};
use perpend_domain::ids::{EvaluatorId, RuleId};
use perpend_domain::plugin::{
    AttemptRef, CallResult, EvaluationCall, FailureClass, Item, LogLine, ReplyPolicy, ReplyReuse,
    ResultPermit,
};
use perpend_domain::time::Timestamp;
use perpend_executions::{
    EndReport, ExecutionEnd, ExecutionQueue, Lease, LeaseEnd, Outcome, QueueShare, Release,
};
use tracing::Instrument as _;

use crate::breaker::probe_of;
use crate::call::{LoadResult, Loaded, NoCall, call_of, item_of, no_score_failure};
use crate::catalog::{Catalog, PreparedAssignment, PreparedRule, pause_of};
use crate::deps::{Breakpoint, Error, Inner, NEVER};
use crate::failures::as_noted;
use crate::fair_queue::Seats;
use crate::holder::Holder;
use crate::memory::{BatchPart, held_by_works};
use crate::own_traces::{EvaluatedExecution, root};
use crate::reasons::{assignment_removed, paused, rule_deleted, uses, workers_lost};
use crate::retry::{self, AttemptState, RetryDecision};
use crate::scores::scores;
use crate::targets::Targets;
use crate::work::{Batch, Work, seqs};

/// Number of lost leases after which an execution is given up.
const MAX_LOST: u32 = 10;

/// Time that a result waits for others to be written with it.
const SOON: Duration = Duration::from_millis(10);

/// An execution with its call.
struct PreparedCall<'c> {
    execution: &'c Execution,
    assignment: &'c PreparedAssignment,
    environment: String,
    call: EvaluationCall,
}

impl PreparedCall<'_> {
    /// The call with its item, which is not kept here.
    fn take_call(&mut self) -> EvaluationCall {
        let item = mem::take(&mut self.call.item);
        EvaluationCall { item, ..self.call.clone() }
    }
}

/// Results of the checks before any call: calls to make, and executions that end without one.
struct SortedBatch<'c> {
    prepared: Vec<PreparedCall<'c>>,
    finished: Vec<ExecutionEnd<'c>>,
    /// Held executions by the reason for users.
    held: BTreeMap<String, Vec<i64>>,
    /// The prepared executions that are probes of a paused rule.
    probing: Vec<i64>,
}

impl SortedBatch<'_> {
    /// The items of its calls.
    fn items(&self) -> Vec<Arc<Item>> {
        self.prepared.iter().map(|each| Arc::clone(&each.call.item)).collect()
    }
}

/// Groups executions by target, in the order of the first execution of each target.
fn sort_by_target(leased: &mut [Execution]) {
    let mut places: HashMap<Target, usize> = HashMap::new();
    for each in leased.iter() {
        let place = places.len();
        places.entry(each.made.target.clone()).or_insert(place);
    }
    leased.sort_by_key(|each| places.get(&each.made.target).copied());
}

fn batch_of(
    by_evaluator: BTreeMap<EvaluatorId, Vec<Execution>>,
    lease: Lease,
    seats: &mut Seats,
) -> Batch {
    let works = by_evaluator.into_values().map(|leased| {
        let seats = seats.split(leased.len());
        Work { lease, leased, seats, revision: NEVER }
    });
    Batch { lease, works: works.collect() }
}

impl Inner {
    /// Batches of one rule each, with the executions of one target next to each other. Each evaluator has its
    /// own works, so that a slow one does not delay results of another. There is a seat per execution, and
    /// possibly unused ones.
    pub(crate) fn split(
        &self,
        leased: Vec<Execution>,
        lease: Lease,
        mut seats: Seats,
    ) -> Vec<Batch> {
        let seqs = leased.iter().map(|each| each.seq);
        self.lock_leases().entry(lease.fence).or_default().extend(seqs);
        let mut by_rule: BTreeMap<RuleId, Vec<Execution>> = BTreeMap::new();
        for each in leased {
            by_rule.entry(each.made.rule_id.clone()).or_default().push(each);
        }
        let n_most = self.deps.options.batch as usize;
        let mut batches = Vec::new();
        for mut leased in by_rule.into_values() {
            sort_by_target(&mut leased);
            let mut by_evaluator: BTreeMap<EvaluatorId, Vec<Execution>> = BTreeMap::new();
            for each in leased {
                let known = by_evaluator.get(&each.made.evaluator_id);
                if known.is_some_and(|known| n_most <= known.len()) {
                    let full = mem::take(&mut by_evaluator);
                    batches.push(batch_of(full, lease, &mut seats));
                }
                by_evaluator.entry(each.made.evaluator_id.clone()).or_default().push(each);
            }
            batches.push(batch_of(by_evaluator, lease, &mut seats));
        }
        batches
    }

    /// Claims due executions, with fair turns.
    pub(crate) async fn claim(&self, catalog: &Catalog) -> Result<Vec<Batch>, Error> {
        let now = self.deps.clock.now();
        let store = &self.deps.store;
        if catalog.next_end().is_some_and(|at| at <= now) {
            // The next step sees the catalog without these pauses.
            self.deps.store.catalog.end_pauses(now).await?;
        }
        self.resume_held(catalog, now).await?;
        if self.is_held_check_due(now) {
            if catalog.has_probes(now) {
                self.resume_probes(catalog, now).await?;
            }
            // A read is cheap; a write waits for other writers.
            let first = store.ledger.first_held().await?;
            if first.is_some_and(|due| due <= now) {
                store.ledger.give_up_held(now).await?;
            }
        }
        let mut due = store.ledger.execution_queues().await?;
        due.retain(|queue| queue.due_at <= now);
        let dealt = self.turns.deal(due, self.deps.options.batch as usize);
        if dealt.is_empty() {
            return Ok(Vec::new());
        }
        let share = |(queue, seats): &(ExecutionQueue, Seats)| QueueShare {
            queue: queue.id,
            n: u32::try_from(seats.n()).unwrap_or(u32::MAX),
        };
        let shares: Vec<QueueShare> = dealt.iter().map(share).collect();
        let lease = self.new_lease(now);
        let claimed = store.ledger.claim_executions(&shares, lease, now).await?;
        self.reach(Breakpoint::Claimed).await?;
        let works = dealt.into_iter().zip(claimed);
        let works = works.map(|((_, seats), leased)| self.split(leased, lease, seats));
        Ok(works.flatten().collect())
    }

    /// Evaluates a batch, one part at a time as memory becomes free.
    pub(crate) async fn execute(&self, batch: Batch) -> Result<(), Error> {
        let started_at = self.deps.clock.now();
        if batch.lease.until <= started_at {
            // Another process may have claimed them already, and their model calls would be paid twice.
            // Executions that no process claimed have used no attempt.
            let (fence, seqs) = (batch.lease.fence, batch.seqs());
            let ledger = &self.deps.store.ledger;
            ledger.release_executions(fence, &seqs, Release::GivenBack, started_at).await?;
            return Ok(());
        }
        let catalog = self.catalog.current(&self.deps.store).await?;
        let parts = self.parts_of(batch, &catalog).await?;
        drop(catalog);
        let running = parts.into_iter().map(|part| self.execute_part(part));
        let ended = join_all(running).await;
        ended.into_iter().collect()
    }

    /// Evaluates a part of a batch: reads its targets, builds their items and runs each evaluator.
    async fn execute_part(&self, BatchPart { mut works, n_bytes }: BatchPart) -> Result<(), Error> {
        let Some(first) = works.first().and_then(|work| work.leased.first()) else {
            return Ok(());
        };
        let holder =
            Holder { project: first.project.clone(), rule: Some(first.made.rule_id.clone()) };
        let reserving = self.memory.reserve(holder, n_bytes);
        let mut memory = self.alive(&works, reserving).await;
        let started_at = self.deps.clock.now();
        let catalog = self.catalog.current(&self.deps.store).await?;
        let mut seats = Vec::with_capacity(works.len());
        for work in &mut works {
            work.revision = catalog.revision();
            seats.push(work.seats.split(work.seats.n()));
        }
        let sorting = self.sort_all(&works, &catalog, started_at);
        let sorted = self.alive(&works, sorting).await?;
        self.reach(Breakpoint::Sorted).await?;
        let items: Vec<Vec<Arc<Item>>> = sorted.iter().map(SortedBatch::items).collect();
        let (n_held, n_own) = held_by_works(&items);
        drop(items);
        memory.shrink(memory.n_bytes().saturating_sub(n_held));
        let memory = Mutex::new(memory);
        let (catalog, memory) = (&*catalog, &memory);
        let of_works = works.iter().zip(sorted).zip(seats.into_iter().zip(n_own));
        let running = of_works.map(|((work, sorted), (seats, n_own))| async move {
            let running = self.execute_work(work, (sorted, seats), catalog, started_at);
            let span =
                tracing::info_span!("evaluation", perpend.executions = work.leased.len() as i64);
            let ended = Box::pin(running).instrument(span).await;
            // Items that several works share are charged until the last work has ended.
            memory.lock().unwrap_or_else(PoisonError::into_inner).shrink(n_own);
            ended
        });
        let ended = join_all(running).await;
        ended.into_iter().collect()
    }

    /// Makes the calls of an evaluator and writes the results as they arrive.
    async fn execute_work(
        &self,
        work: &Work,
        (sorted, mut seats): (SortedBatch<'_>, Seats),
        catalog: &Catalog,
        started_at: Timestamp,
    ) -> Result<(), Error> {
        let SortedBatch { mut prepared, finished, held, probing } = sorted;
        let ledger = &self.deps.store.ledger;
        let until = started_at.plus_millis(retry::HELD_MS);
        let fence = work.lease.fence;
        for (message, held) in &held {
            let release = Release::Held { until, message };
            ledger.release_executions(fence, held, release, started_at).await?;
        }
        if !held.is_empty() {
            self.recheck_held(catalog).await?;
        }
        // Executions that end without a call are written at once.
        if !finished.is_empty() {
            self.write(work, &finished, &[], started_at).await?;
        }
        let n_released = held.values().map(Vec::len).sum::<usize>();
        seats.release_some(finished.len() + n_released);
        let open = prepared.iter().map(|each| {
            let is_probe = probing.contains(&each.execution.seq);
            (each.execution, &each.call, is_probe)
        });
        let _open = self.open_calls.begin(open, work.revision);
        let calls: Vec<EvaluationCall> = prepared.iter_mut().map(PreparedCall::take_call).collect();
        let mut answers = self.deps.evaluate.evaluate(calls).fuse();
        let mut open: Vec<Option<PreparedCall<'_>>> = prepared.into_iter().map(Some).collect();
        loop {
            let mut answered = Vec::new();
            for (place, result) in self.some(&mut answers, work).await {
                let prepared = open.get_mut(place).and_then(Option::take);
                answered.extend(prepared.map(|prepared| (prepared, result)));
            }
            let is_last = answered.is_empty();
            if is_last {
                let n_calls = open.len();
                let lost = open.drain(..).flatten();
                answered = lost.map(|each| (each, no_result(n_calls))).collect();
            }
            if !answered.is_empty() {
                self.reach(Breakpoint::Evaluated).await?;
                let n_answered = answered.len();
                let permits = take_permits(&mut answered);
                let (ended, released) = self.ended(answered, started_at).await?;
                self.write(work, &ended, &released, started_at).await?;
                drop(permits);
                self.end_probes(&probing, &ended).await?;
                seats.release_some(n_answered);
                self.wake_if_short();
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Writes the ended executions of a batch and releases those to be retried.
    async fn write(
        &self,
        work: &Work,
        finished: &[ExecutionEnd<'_>],
        released: &[(i64, Release<'static>)],
        started_at: Timestamp,
    ) -> Result<(), Error> {
        let now = self.deps.clock.now();
        let fence = work.lease.fence;
        for released in released.chunk_by(|(_, one), (_, other)| one == other) {
            let seqs: Vec<i64> = released.iter().map(|(seq, _)| *seq).collect();
            let ledger = &self.deps.store.ledger;
            if let Some((_, release)) = released.first() {
                ledger.release_executions(fence, &seqs, *release, now).await?;
            }
        }
        if !released.is_empty() {
            self.woken.notify_one();
        }
        if !finished.is_empty() {
            let ended = self.finish(fence, finished, started_at, now).await?;
            self.reach(Breakpoint::Finished).await?;
            self.pause(work.revision, finished, &ended).await?;
        }
        Ok(())
    }

    /// Outcomes of results: executions that end, and executions that are released without an attempt.
    async fn ended<'c>(
        &self,
        answered: Vec<(PreparedCall<'c>, CallResult)>,
        started_at: Timestamp,
    ) -> Result<(Vec<ExecutionEnd<'c>>, Vec<(i64, Release<'static>)>), Error> {
        let (mut ended, mut released) = (Vec::new(), Vec::new());
        let (prepared, mut results): (Vec<_>, Vec<_>) = answered.into_iter().unzip();
        let Some(first) = prepared.first() else {
            return Ok((ended, released));
        };
        let targets = prepared.iter().map(|each| &each.execution.made.target);
        let targets: Vec<&Target> = targets.collect();
        // All executions of a batch belong to one project.
        let project = &first.execution.project;
        self.refuse_foreign_pointers(project, &targets, &mut results).await?;
        let now = self.deps.clock.now();
        // Scores get the name of the evaluator at the time of writing: it may have been renamed during the
        // call.
        let names = self.catalog.current(&self.deps.store).await?;
        let mut roots = Vec::new();
        for (each, result) in prepared.iter().zip(results) {
            let name = evaluator_name(&names, each);
            let finished = match self.outcome(each, name, result, (started_at, now)) {
                Ok(finished) => finished,
                Err(release) => {
                    released.push((each.execution.seq, release));
                    continue;
                }
            };
            let by = EvaluatedExecution { assignment: each.assignment, name, started_at, now };
            roots.extend(root(&finished, &by));
            ended.push(finished);
        }
        self.write_own_traces(project, roots).await;
        Ok((ended, released))
    }

    /// Writes the results of a batch. If the database rejects the batch, one result is at fault, and each
    /// result is written alone. A result that cannot be written stays under its lease, is retried when the
    /// lease ends, and is given up after [`MAX_LOST`] lost leases.
    async fn finish(
        &self,
        fence: i64,
        finished: &[ExecutionEnd<'_>],
        started_at: Timestamp,
        now: Timestamp,
    ) -> Result<EndReport, Error> {
        let store = &self.deps.store;
        let catalog = self.catalog.current(store).await?;
        let awaited = catalog.awaited();
        let ending = LeaseEnd { fence, started_at, now, awaited };
        let together = store.finish_executions(ending, finished).await;
        if finished.iter().any(|each| awaited.contains(&each.execution.made.rule_id)) {
            self.woken.notify_one();
        }
        if finished.len() < 2
            || !matches!(
                together,
                Err(perpend_db::Error::Sql(_) | perpend_db::Error::Inconsistent { .. })
            )
        {
            return Ok(together?);
        }
        let mut all = EndReport::default();
        for each in finished {
            let alone = std::slice::from_ref(each);
            match store.finish_executions(ending, alone).await {
                Ok(ended) => {
                    all.mine.extend(ended.mine);
                    all.failures.extend(ended.failures);
                }
                Err(error) => tracing::error!(
                    error = &error as &dyn std::error::Error,
                    execution.id = %each.execution.made.id,
                    "result of an execution cannot be written"
                ),
            }
        }
        Ok(all)
    }

    /// The next results: the first one, and those that arrive soon after it, because they share its commit.
    /// `None` after the last one. The lease is renewed in the meantime.
    async fn some(
        &self,
        answers: &mut Fuse<BoxStream<'_, (usize, CallResult)>>,
        work: &Work,
    ) -> Vec<(usize, CallResult)> {
        let first = self.alive(std::slice::from_ref(work), answers.next()).await;
        let mut some = Vec::from_iter(first);
        if some.is_empty() {
            return some;
        }
        let soon = tokio::time::sleep(SOON);
        let mut soon = pin!(soon);
        loop {
            tokio::select! {
                biased;
                next = answers.next() => match next {
                    Some(next) => some.push(next),
                    None => return some,
                },
                () = &mut soon => return some,
            }
        }
    }

    async fn renew(&self, works: &[Work]) {
        let Some(first) = works.first() else {
            return;
        };
        let now = self.deps.clock.now();
        let until = now.plus_millis(self.deps.options.lease_ms);
        let renewed = Lease { until, ..first.lease };
        let seqs = seqs(works);
        if let Err(error) = self.deps.store.ledger.renew_lease(renewed, &seqs).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "lease not renewed");
        }
    }

    /// Waits for a long operation and renews the lease in the meantime.
    async fn alive<T>(&self, works: &[Work], awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        loop {
            tokio::select! {
                done = &mut awaited => return done,
                () = tokio::time::sleep(self.deps.options.renew) => self.renew(works).await,
            }
        }
    }

    /// Loads the targets of the works and builds their calls.
    async fn sort_all<'c>(
        &self,
        works: &'c [Work],
        catalog: &'c Catalog,
        now: Timestamp,
    ) -> Result<Vec<SortedBatch<'c>>, Error> {
        let mut targets = self.read_targets(works).await?;
        let mut all = Vec::with_capacity(works.len());
        for work in works {
            all.push(self.sort(work, catalog, &mut targets, now).await?);
        }
        Ok(all)
    }

    /// Builds the calls of some works.
    async fn sort<'c>(
        &self,
        work: &'c Work,
        catalog: &'c Catalog,
        targets: &mut Targets<'c>,
        now: Timestamp,
    ) -> Result<SortedBatch<'c>, Error> {
        let mut sorted = SortedBatch {
            prepared: Vec::with_capacity(work.leased.len()),
            finished: Vec::new(),
            held: BTreeMap::new(),
            probing: Vec::new(),
        };
        // One check per rule: the other executions of the batch would be refused.
        let mut tried = BTreeSet::new();
        for execution in &work.leased {
            let made = &execution.made;
            let mut end = |outcome| sorted.finished.push(ended(execution, None, 0, outcome));
            let held = &mut sorted.held;
            let mut hold = |message| held.entry(message).or_default().push(execution.seq);
            if execution.error_class == Some(FailureClass::WorkerLost.into())
                && MAX_LOST <= execution.attempts
            {
                end(Outcome::Failed(workers_lost(), false));
                continue;
            }
            let rule = catalog.rule(&execution.project, &made.rule_id);
            let Some(rule) = rule else {
                let existing =
                    self.deps.store.catalog.rule(&execution.project, &made.rule_id).await?;
                match existing {
                    Some(rule) if uses(&rule, &made.evaluator_id) => {
                        hold("the rule is disabled".to_owned());
                    }
                    Some(_) => end(Outcome::Cancelled(assignment_removed(made.shadow))),
                    None => end(Outcome::Cancelled(rule_deleted())),
                }
                continue;
            };
            let Some(assignment) = rule.assignment(&made.evaluator_id, made.shadow) else {
                if rule.uses(&made.evaluator_id, made.shadow) {
                    // The version changed after the catalog was read; the next catalog has it.
                    hold("the evaluator is being changed".to_owned());
                    continue;
                }
                end(Outcome::Cancelled(assignment_removed(made.shadow)));
                continue;
            };
            // Results of a shadow version do not count for the rule.
            let probe = probe_of(rule, &made.evaluator_id, now);
            let probe = probe.filter(|_| made.shadow.is_none());
            let pause = pause_of(rule, &made.evaluator_id);
            if let Some(pause) = pause.filter(|_| probe.is_none()) {
                hold(paused(rule, pause));
                continue;
            }
            let loaded = self.loaded(targets, execution, assignment).await?;
            let outcome = match &*loaded {
                LoadResult::Missing => Err(self.target_missing(execution, now)),
                LoadResult::TooLarge(why) => Err(Outcome::Failed(why.clone(), false)),
                LoadResult::Loaded(loaded) => {
                    let by = (&**rule, assignment);
                    self.prepare((execution, work), by, (&**loaded, &mut *targets), now)
                }
            };
            match (outcome, probe) {
                (Ok(_), Some(pause))
                    if !(tried.insert(&made.rule_id)
                        && self.begins_probe(execution, pause).await?) =>
                {
                    hold(paused(rule, pause));
                }
                (Ok(prepared), probe) => {
                    sorted.probing.extend(probe.map(|_| execution.seq));
                    sorted.prepared.push(prepared);
                }
                (Err(outcome), _) => end(outcome),
            }
        }
        Ok(sorted)
    }

    fn prepare<'c>(
        &self,
        (execution, work): (&'c Execution, &Work),
        (rule, assignment): (&PreparedRule, &'c PreparedAssignment),
        (loaded, targets): (&Loaded, &mut Targets<'c>),
        now: Timestamp,
    ) -> Result<PreparedCall<'c>, Outcome> {
        let evaluator = &assignment.evaluator;
        let on_missing = rule.rule.on_missing;
        let build = || item_of(evaluator, &assignment.plan, loaded, on_missing);
        let item = targets.item(&execution.made.target, assignment, build);
        let item = item.map_err(|no_call| match (no_call, on_missing) {
            (NoCall::LoopGuard(why), _) => Outcome::Cancelled(why),
            (NoCall::Missing(why), OnMissing::Skip) => Outcome::Skipped(why),
            (no_call, _) => Outcome::Failed(no_call.why(), false),
        })?;
        let attempt = AttemptRef {
            execution: execution.made.id.clone(),
            rule: execution.made.rule_id.clone(),
            attempt: execution.attempts,
            fence: work.lease.fence,
            is_manual: work.seats.class() == ExecutionClass::Manual,
            is_backfill: work.seats.class() == ExecutionClass::Backfill,
            run: None,
        };
        // The same for every attempt.
        let run_time = execution.created_at.min(now);
        let limits = self.deps.options.limits;
        let reuse = ReplyReuse {
            replies: match execution.made.generation {
                0 => ReplyPolicy::Deterministic,
                // For unchanged content, evaluating again costs nothing.
                _ => ReplyPolicy::Any,
            },
            run: 0,
        };
        Ok(PreparedCall {
            execution,
            assignment,
            environment: loaded.environment().to_owned(),
            call: call_of(evaluator, item, run_time, limits, (Some(attempt), reuse)),
        })
    }

    fn target_missing(&self, execution: &Execution, now: Timestamp) -> Outcome {
        let why = AttemptFailure::new(
            NoCallReason::TargetMissing,
            "the target cannot be read, or was deleted",
        );
        match retry::after_missing_target(&self.tried(execution, now, now)) {
            Some(at) => Outcome::Delayed(why, at),
            None => Outcome::Skipped(why),
        }
    }

    fn tried(&self, execution: &Execution, started_at: Timestamp, now: Timestamp) -> AttemptState {
        let bits = self.deps.ids.uuid().as_u64_pair().1 >> 11;
        AttemptState {
            n_before: execution.attempts,
            first_attempt_at: execution.first_attempt_at.unwrap_or(started_at),
            now,
            jitter: bits as f64 / (1_u64 << 53) as f64,
        }
    }

    /// The outcome of a result, or the release of its execution as if it had not been tried.
    fn outcome<'c>(
        &self,
        prepared: &PreparedCall<'c>,
        evaluator_name: &str,
        result: CallResult,
        (started_at, now): (Timestamp, Timestamp),
    ) -> Result<ExecutionEnd<'c>, Release<'static>> {
        let execution = prepared.execution;
        let evaluator = &prepared.assignment.evaluator;
        log_lines(&execution.made, &result.log);
        let origin = prepared.call.origin.as_deref();
        // A guest may return a score as if the model had answered.
        if origin.is_some_and(|origin| origin.notes.is_cancelled()) {
            return Err(Release::GivenBack);
        }
        let mut spent = None;
        let outcome = match result.outcome {
            Ok(given) if given.is_empty() => Outcome::Skipped(no_score_failure()),
            Ok(given) => {
                let environment = &prepared.environment;
                let scores = scores(execution, evaluator, evaluator_name, environment, given, now);
                Outcome::Completed(scores)
            }
            Err(failure) => {
                let failure = as_noted(failure, origin);
                let why = AttemptFailure::new(failure.class, &failure.message);
                let tried = self.tried(execution, started_at, now);
                spent = failure.spent;
                match retry::after_failure(&failure, &tried) {
                    RetryDecision::Skip => Outcome::Skipped(why),
                    RetryDecision::Retry(at) => Outcome::Delayed(why, at),
                    // Shadow versions pause nothing, and without a pause there is nothing to wait for.
                    RetryDecision::Fail(_) | RetryDecision::Hold
                        if execution.made.shadow.is_some() =>
                    {
                        Outcome::Failed(why, false)
                    }
                    RetryDecision::Fail(against) => Outcome::Failed(why, against),
                    RetryDecision::Hold => Outcome::Held(why, now.plus_millis(retry::HELD_MS)),
                    RetryDecision::GiveBack => return Err(Release::GivenBack),
                    RetryDecision::Postpone(at) => {
                        return Err(Release::Postponed(at, failure.class));
                    }
                }
            }
        };
        let version = Some(&evaluator.evaluator.version.id);
        Ok(ExecutionEnd {
            calls_models: evaluator.context.grants.model,
            spent,
            log: result.log,
            ..ended(prepared.execution, version, result.cpu_us, outcome)
        })
    }
}

/// The name of an evaluator in this catalog, or its name at the time of the call if the rule has left the
/// catalog.
fn evaluator_name<'c>(catalog: &'c Catalog, prepared: &'c PreparedCall<'_>) -> &'c str {
    let execution = prepared.execution;
    let rule = catalog.rule(&execution.project, &execution.made.rule_id);
    let made = &execution.made;
    let found = rule.and_then(|rule| rule.assignment(&made.evaluator_id, made.shadow));
    let assignment = found.unwrap_or(prepared.assignment);
    &assignment.evaluator.evaluator.name
}

/// Writes the log lines of an evaluator to the log of the server, for operators who enable them. At most at
/// level `debug`, and as a quoted field: a line may be long and frequent, and may contain user data.
fn log_lines(made: &NewExecution, lines: &[LogLine]) {
    for line in lines {
        tracing::debug!(
            target: "perpend::plugin",
            { execution.id = %made.id, evaluator.id = %made.evaluator_id, plugin.level = line.level,
              line = line.message, fields = line.fields },
            "log line of an evaluator"
        );
    }
}

fn ended<'e>(
    execution: &'e Execution,
    version: Option<&perpend_domain::ids::EvaluatorVersionId>,
    cpu_us: u64,
    outcome: Outcome,
) -> ExecutionEnd<'e> {
    ExecutionEnd {
        calls_models: false,
        spent: None,
        log: Vec::new(),
        execution,
        version: version.cloned(),
        cpu_us,
        outcome,
    }
}

/// The permits that charge results to the memory of evaluations until they are written.
fn take_permits(answered: &mut [(PreparedCall<'_>, CallResult)]) -> Vec<ResultPermit> {
    let results = answered.iter_mut().map(|(_, result)| result);
    results.map(|result| mem::take(&mut result.permit)).collect()
}

/// For an [`crate::Evaluate`] that returned fewer results than there were calls.
fn no_result(n_calls: usize) -> CallResult {
    CallResult {
        outcome: Err(perpend_domain::plugin::Failure {
            class: FailureClass::Internal,
            message: format!("no result came back for one of {n_calls} calls"),
        }),
        ..CallResult::empty()
    }
}
