//! The exchanges of one model call of a guest. Each is checked against the budgets before it is sent, and priced and
//! recorded before its answer is used.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::batch::Batch;
use perpend_domain::budget::{
    Budget, BudgetScope, BudgetWindow, ExhaustedBudget, OnReached, ScopedBudget,
};
use perpend_domain::identity::call_span_id;
use perpend_domain::model_call::ModelCall;
use perpend_domain::observation::Usage as Buckets;
use perpend_domain::plugin::{CallOrigin, RunCall};
use perpend_domain::slots::ModelFailure;
use perpend_domain::time::Timestamp;
use perpend_executions::{
    AttemptKey, CallKey, CostReservation, InsufficientBudget, KeptResponse, NewExchange, RunLease,
    Spending,
};
use perpend_llm::{
    Admission, CallObserver, ErrorClass, Estimate, Failure, Priority, ProviderAnswer, ProviderCall,
    QueueKey, StructureMethod, Usage,
};

use super::budget_queue::{self, FirstPlace};
use super::generation::{ExchangeContent, generation};
use super::reuse::ReplyCacheKey;
use super::target::{
    ConnectedModels, ModelTarget, database_failure, missing_connection, model_failure,
};

/// Length of a reply that is assumed when neither the evaluator nor the request sets a limit, in tokens.
const DEFAULT_OUTPUT_TOKENS: u32 = 4_096;
/// A call that waits for budget checks at this interval, because calls of other servers do not notify it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A reservation expires this long after the time limit of its call.
const GRACE_MS: i64 = 60_000;

/// State of the exchanges of one model call.
pub(super) struct Exchanges {
    models: ConnectedModels,
    origin: Arc<CallOrigin>,
    target: Arc<ModelTarget>,
    key: CallKey,
    cache_key: Option<ReplyCacheKey>,
    /// Usable answers of an earlier attempt.
    recorded: Vec<KeptResponse>,
    /// The last usable answer.
    last: Mutex<Option<ProviderAnswer>>,
    attempt_key: Option<AttemptKey>,
    budgets: Vec<ScopedBudget>,
    /// Usable answers so far, including recorded ones.
    n_answers: AtomicU32,
    /// Reservations so far.
    n_announced: AtomicU32,
    /// Number of the current exchange in its attempt.
    number: AtomicU32,
    reserved: Mutex<Option<String>>,
    /// Maximum cost of the current exchange in US dollars, when its slot has a limit.
    max_cost: Mutex<Option<f64>>,
    spent: Mutex<Option<ExhaustedBudget>>,
    /// The exhausted budget that the exchange waits for, and the reservation to make.
    blocked_by: Mutex<Option<(ScopedBudget, CostReservation)>>,
    /// Set from the time when the call is the first of a queue until its reservation is made or refused.
    first_place: Mutex<Option<FirstPlace>>,
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put<T>(slot: &Mutex<Option<T>>, value: T) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}

impl Exchanges {
    /// Reads the answers of an earlier attempt and the budgets.
    pub(super) async fn begin(
        models: &ConnectedModels,
        origin: &Arc<CallOrigin>,
        target: &Arc<ModelTarget>,
        (key, cache_key): (CallKey, Option<ReplyCacheKey>),
    ) -> Result<Self, perpend_db::Error> {
        let context = &origin.context;
        let (mut recorded, mut budgets) = (Vec::new(), Vec::new());
        let attempt_key = origin.attempt.as_ref().map(|attempt| AttemptKey {
            project: context.project.clone(),
            execution: attempt.execution.clone(),
            rule: attempt.rule.clone(),
            evaluator: context.evaluator.clone(),
            attempt: attempt.attempt,
            fence: attempt.fence,
        });
        if let Some(attempt_key) = &attempt_key {
            let store = &models.store;
            recorded = store.ledger.kept_responses(&attempt_key.execution, &key).await?;
            if !origin.notes.is_counted() {
                let n_before = store.ledger.n_exchanges(attempt_key).await?;
                origin.notes.count_from(n_before);
            }
            let of_call = store.catalog.budgets_of_call(
                &context.project,
                &attempt_key.rule,
                &context.evaluator,
            );
            budgets = of_call.await?;
            let run = origin.attempt.as_ref().and_then(|attempt| attempt.run.as_ref());
            budgets.extend(run.and_then(|run| limit_of_experiment(run, attempt_key)));
        }
        let n_recorded = u32::try_from(recorded.len()).unwrap_or(u32::MAX);
        Ok(Self {
            models: models.clone(),
            origin: Arc::clone(origin),
            target: Arc::clone(target),
            key,
            cache_key,
            recorded,
            last: Mutex::default(),
            attempt_key,
            budgets,
            n_answers: AtomicU32::new(n_recorded),
            n_announced: AtomicU32::new(0),
            number: AtomicU32::new(0),
            reserved: Mutex::default(),
            max_cost: Mutex::default(),
            spent: Mutex::default(),
            blocked_by: Mutex::default(),
            first_place: Mutex::default(),
        })
    }

    /// Completes the call. Deletes its recorded answers when none matched the schema, so that the next attempt calls the
    /// provider again. Stores the last answer of a successful call for equal requests.
    pub(super) async fn end<T>(&self, result: Result<T, Failure>) -> Result<T, ModelFailure> {
        if let (Ok(_), Some(cache_key), Some(last)) = (&result, &self.cache_key, take(&self.last))
            && !last.is_from_cache
        {
            let at = (&cache_key.key, self.target.endpoint.connection_id.as_str());
            self.models.store_reply(&self.origin, at, &last).await;
        }
        if let (Err(failure), Some(attempt_key)) = (&result, &self.attempt_key)
            && failure.class == ErrorClass::MalformedOutput
        {
            let ledger = &self.models.store.ledger;
            let deleted = ledger.delete_call_responses(&attempt_key.execution, &self.key).await;
            deleted.map_err(|error| model_failure(database_failure(&error)))?;
        }
        result
            .map_err(|failure| ModelFailure { spent: take(&self.spent), ..model_failure(failure) })
    }

    /// The cost in US dollars; `None` when the model has no price.
    async fn cost(
        &self,
        model: &str,
        usage: &Buckets,
        at: Timestamp,
    ) -> Result<Option<f64>, perpend_db::Error> {
        let ConnectedModels { prices, store, clock, .. } = &self.models;
        let project = &self.origin.context.project;
        let table = prices.of(&store.catalog, project, clock.now()).await?;
        Ok(table.cost_of_call(model, usage, at))
    }

    /// Reserves the maximum cost of the request. Returns false when it must wait for budget.
    async fn reserve(&self, estimate: &Estimate) -> Result<bool, Failure> {
        let attempt_key = self.attempt_key.as_ref().filter(|_| !self.budgets.is_empty());
        let limit = self.target.slot.limits.max_usd;
        if attempt_key.is_none() && limit.is_none() {
            return Ok(true);
        }
        let max_cost = self.max_cost_of(estimate).await?;
        if let Some(limit) = limit {
            self.charge_slot(max_cost, limit)?;
        }
        let Some(attempt_key) = attempt_key else {
            return Ok(true);
        };
        let reserved = self.reserve_in_budgets(attempt_key, estimate, max_cost).await;
        if !matches!(reserved, Ok(true)) {
            self.settle(Some(0.0));
        }
        reserved
    }

    /// The item of a run for which the call is made.
    fn run(&self) -> Option<&RunCall> {
        self.origin.attempt.as_ref()?.run.as_ref()
    }

    /// Verifies that the run is running under the same lease.
    async fn check_run(&self, run: &RunCall, attempt_key: &AttemptKey) -> Result<(), Failure> {
        let ConnectedModels { store, clock, .. } = &self.models;
        let lease =
            RunLease { project: &attempt_key.project, run: &run.run, fence: attempt_key.fence };
        let holds = store.ledger.holds_run(lease, clock.now()).await;
        match !self.origin.withdrawal.is_withdrawn()
            && holds.map_err(|error| database_failure(&error))?
        {
            true => Ok(()),
            false => {
                let message = "the run was paused, cancelled or taken over before the call started";
                Err(Failure::new(ErrorClass::Cancelled, message))
            }
        }
    }

    /// Verifies that the lease is still held, and that rule, evaluator and connection are unchanged since the call started.
    async fn check(&self) -> Result<(), Failure> {
        self.check_connection().await?;
        let Some(attempt_key) = &self.attempt_key else {
            return Ok(());
        };
        if let Some(run) = self.run() {
            return self.check_run(run, attempt_key).await;
        }
        let ConnectedModels { store, clock, .. } = &self.models;
        let (project, rule) = (&attempt_key.project, &attempt_key.rule);
        let runs = store.catalog.runs(project, rule, &attempt_key.evaluator).await;
        if self.origin.withdrawal.is_withdrawn()
            || !runs.map_err(|error| database_failure(&error))?
        {
            return Err(withdrawn());
        }
        // Another worker with the lease makes the same request: both would be paid for.
        let holds = store.ledger.holds(attempt_key, clock.now()).await;
        if holds.map_err(|error| database_failure(&error))? {
            return Ok(());
        }
        let message = "the lease of this execution has expired";
        Err(Failure::new(ErrorClass::Cancelled, message))
    }

    /// Fails when the connection was deleted, or saved with another key or address.
    async fn check_connection(&self) -> Result<(), Failure> {
        let (project, used) = (&self.origin.context.project, &self.target.connection);
        let connection = self.models.store.catalog.connection(project, &used.provider);
        let connection = connection.await.map_err(|error| database_failure(&error))?;
        let Some(connection) = connection else {
            let message = missing_connection(&used.provider);
            return Err(Failure::new(ErrorClass::ConnectionMissing, message));
        };
        match connection.is_same_account(used) {
            true => Ok(()),
            false => {
                let message = format!(
                    "the LLM connection {:?} was changed while the call waited; try again",
                    used.provider
                );
                Err(Failure::new(ErrorClass::Cancelled, message))
            }
        }
    }

    /// Charges the maximum cost of a request to the limit of its slot.
    fn charge_slot(&self, max_cost: f64, limit: f64) -> Result<(), Failure> {
        let spent = self.origin.notes.spend(&self.target.slot.name, max_cost, limit);
        spent.map_err(|spent| {
            let message = format!(
                "the calls of this evaluation cost {spent:.6} US dollars and the next may cost {max_cost:.6}, which exceeds \
                 limits.maxUsd of {limit}"
            );
            Failure::new(ErrorClass::InvalidInput, message)
        })?;
        put(&self.max_cost, max_cost);
        Ok(())
    }

    /// Replaces the maximum cost of the exchange with its actual cost, when that is known.
    fn settle(&self, cost: Option<f64>) {
        if let (Some(max_cost), Some(cost)) = (take(&self.max_cost), cost) {
            let notes = &self.origin.notes;
            notes.settle(&self.target.slot.name, max_cost, cost);
        }
    }

    /// The maximum cost of a request, in US dollars.
    async fn max_cost_of(&self, estimate: &Estimate) -> Result<f64, Failure> {
        let now = self.models.clock.now();
        let usage = Buckets::from([
            ("input".to_owned(), estimate.input_tokens.into()),
            (
                "output".to_owned(),
                u64::from(estimate.max_output_tokens.unwrap_or(DEFAULT_OUTPUT_TOKENS)).into(),
            ),
        ]);
        let max_cost = self.cost(&estimate.model, &usage, now).await;
        // A failed query must not pause the evaluator as a missing price does.
        let max_cost = max_cost.map_err(|error| database_failure(&error))?;
        max_cost.ok_or_else(|| {
            let message = format!(
                "the model {:?} has no price, which budgets and limits.maxUsd require; add one under models",
                estimate.model
            );
            Failure::new(ErrorClass::ModelConfigInvalid, message)
        })
    }

    async fn reserve_in_budgets(
        &self,
        attempt_key: &AttemptKey,
        estimate: &Estimate,
        max_cost: f64,
    ) -> Result<bool, Failure> {
        let ledger = &self.models.store.ledger;
        let of = (&attempt_key.evaluator, estimate.model.as_str());
        let p95 = self.models.recent_costs.p95(ledger, &attempt_key.project, of).await;
        let p95 = p95.map_err(|error| database_failure(&error))?;
        let n = self.n_announced.fetch_add(1, Ordering::Relaxed);
        let timeout = i64::from(self.target.slot.limits.timeout_ms);
        let now = self.models.clock.now();
        let reservation = CostReservation {
            id: format!(
                "{}/{}/{}/{}/{n}",
                attempt_key.execution, attempt_key.attempt, self.key.call, self.key.request
            ),
            usd: p95.map_or(max_cost, |p95| p95.min(max_cost)),
            is_unknown: p95.is_none(),
            until: now.plus_millis(timeout + GRACE_MS),
        };
        let reserved = ledger.reserve(attempt_key, &self.budgets, &reservation, now);
        let Err(no_room) = reserved.await.map_err(|error| database_failure(&error))? else {
            put(&self.reserved, reservation.id);
            return Ok(true);
        };
        let Some(budget) = self.budgets.get(no_room.place) else {
            return Err(Failure::new(ErrorClass::Internal, "a budget was deleted"));
        };
        if is_spent(&reservation, no_room.spending, budget.budget.usd) {
            return Err(self.refuse(budget, &no_room, reservation.usd, now));
        }
        // Calls in flight may cost less than their reservations.
        put(&self.blocked_by, (budget.clone(), reservation));
        Ok(false)
    }

    /// Waits until the exhausted budget may have enough left. Another call may use it first.
    async fn wait_for_budget(&self) -> Result<(), Failure> {
        let Some(attempt_key) = &self.attempt_key else {
            return Ok(());
        };
        let Some((budget, reservation)) = take(&self.blocked_by) else {
            return Ok(());
        };
        let key = budget_queue::key(&attempt_key.project, &budget);
        let first_place = take(&self.first_place).filter(|first_place| first_place.key == key);
        let first_place = match first_place {
            Some(first_place) => first_place,
            None => self.models.budget_queues.enter(key).await,
        };
        loop {
            let settled = self.models.settled.notified();
            self.check().await?;
            let now = self.models.clock.now();
            let ledger = &self.models.store.ledger;
            let spending = ledger.spending(&attempt_key.project, &budget, now).await;
            let spending = spending.map_err(|error| database_failure(&error))?;
            let limit = budget.budget.usd;
            // When too much is spent, the next reservation fails with the reason.
            if is_spent(&reservation, spending, limit)
                || reservation.fits(spending, limit).is_some()
            {
                break;
            }
            let _ = tokio::time::timeout(POLL_INTERVAL, settled).await;
        }
        put(&self.first_place, first_place);
        Ok(())
    }

    fn refuse(
        &self,
        budget: &ScopedBudget,
        no_room: &InsufficientBudget,
        usd: f64,
        now: Timestamp,
    ) -> Failure {
        let limit = budget.budget;
        let until = limit.window.end(now);
        put(
            &self.spent,
            ExhaustedBudget { scope: budget.scope, on_reached: limit.on_reached, until },
        );
        let reset = match until {
            Some(until) => format!("it resets at {until}"),
            None => "it does not reset".to_owned(),
        };
        let owner = match (self.run(), budget.scope) {
            (Some(_), BudgetScope::Rule) => "experiment",
            (_, scope) => scope.as_str(),
        };
        let message = format!(
            "a call that may cost {usd:.6} US dollars exceeds the budget of the {owner}, {} US dollars per {}: {:.6} are spent and \
             {:.6} reserved; {reset}",
            limit.usd, limit.window, no_room.spending.spent, no_room.spending.reserved
        );
        Failure::new(ErrorClass::BudgetExhausted, message)
    }

    /// The record of an exchange with its cost.
    async fn priced(&self, call: ProviderCall) -> ModelCall {
        let usage = call.usage;
        let mut cost = usage.cost_usd;
        for model in call.response_model.iter().chain([&call.requested_model]) {
            if cost.is_none() {
                let buckets = buckets(&usage);
                let priced = self.cost(model, &buckets, call.started_at);
                cost = priced.await.ok().flatten();
            }
        }
        ModelCall {
            provider: self.target.choice.provider.clone(),
            model: call.requested_model.clone(),
            model_answered: call.response_model.clone(),
            method: call.method.name().to_owned(),
            started_at: call.started_at,
            latency_ms: u64::try_from(call.latency.as_millis()).unwrap_or(u64::MAX),
            input_tokens: usage.input,
            cached_tokens: usage.cached_input,
            output_tokens: usage.output,
            reasoning_tokens: usage.reasoning,
            is_estimated: usage.estimated,
            cost,
            is_from_cache: false,
            saved: None,
            error: call.outcome.err().map(|(class, message)| (class.name().to_owned(), message)),
        }
    }

    /// Assigns the next number and returns the `traceparent` of the exchange: the execution's trace and the span of the
    /// exchange. Providers and gateways that record traces can link their spans to it.
    fn number_exchange(&self) -> Option<String> {
        let attempt_key = self.attempt_key.as_ref()?;
        let number = self.origin.notes.next_exchange();
        self.number.store(number, Ordering::Relaxed);
        let span = call_span_id(&attempt_key.execution, attempt_key.attempt, number);
        Some(format!("00-{}-{span}-01", attempt_key.execution))
    }

    /// Writes the exchange as a generation of the execution's own trace. A failure is only logged: the evaluation does not
    /// depend on the trace.
    async fn trace(&self, attempt_key: &AttemptKey, call: &ModelCall, content: ExchangeContent) {
        let number = self.number.load(Ordering::Relaxed);
        let now = self.models.clock.now();
        let batch = Batch {
            observations: vec![generation((attempt_key, self.run()), call, content, number)],
            ..Batch::default()
        };
        let telemetry = &self.models.store.telemetry;
        if let Err(error) = telemetry.write_batch(&attempt_key.project, batch, now).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, execution.id = %attempt_key.execution, "cannot write a model call to its trace");
        }
    }

    /// Records an exchange with its answer.
    async fn record(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> Result<(), Failure> {
        let content = ExchangeContent::of(&call);
        let mut call = self.priced(call).await;
        // A failed call without a token count is not charged.
        self.settle(call.cost.or(call.error.as_ref().map(|_| 0.0)));
        if answer.as_ref().is_some_and(|answer| answer.is_from_cache) {
            call.is_from_cache = true;
            call.saved = call.cost.replace(0.0);
        }
        if self.cache_key.is_some() {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = answer.clone();
        }
        if let (None, Some(cost), false) = (&call.error, call.cost, call.is_from_cache) {
            let costs = &self.models.recent_costs;
            costs.add(&self.origin.context.evaluator, &call.model, cost);
        }
        let Some(attempt_key) = &self.attempt_key else {
            let ledger = &self.models.store.ledger;
            let noted = ledger.record_trial_call(&self.origin.context.project, &call);
            if let Err(error) = noted.await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "cannot record the cost of a trial");
            }
            self.origin.notes.called(call);
            return Ok(());
        };
        self.trace(attempt_key, &call, content).await;
        let answer = answer.map(|answer| KeptResponse {
            method: answer.method.name().to_owned(),
            body: answer.body,
            is_from_cache: answer.is_from_cache,
        });
        let numbered =
            answer.as_ref().map(|answer| (self.n_answers.fetch_add(1, Ordering::Relaxed), answer));
        let reservation = take(&self.reserved);
        let exchanged = NewExchange {
            key: &self.key,
            call: &call,
            answer: numbered,
            reservation: reservation.as_deref(),
        };
        let ledger = &self.models.store.ledger;
        let noted = ledger.record_exchange(attempt_key, &exchanged, self.models.clock.now());
        let noted = noted.await;
        // Also after a failure, because the reservation may have been released.
        self.models.settled.notify_waiters();
        noted.map_err(|error| database_failure(&error))
    }
}

/// The limit of the cost of an experiment as the budget of its rule: the costs of its runs are recorded under its id.
fn limit_of_experiment(run: &RunCall, attempt_key: &AttemptKey) -> Option<ScopedBudget> {
    let budget =
        Budget { window: BudgetWindow::Total, usd: run.max_usd?, on_reached: OnReached::Hold };
    Some(ScopedBudget { scope: BudgetScope::Rule, id: attempt_key.rule.to_string(), budget })
}

/// Whether a budget is too low for a call even if all calls in flight cost nothing.
fn is_spent(reservation: &CostReservation, spending: Spending, limit: f64) -> bool {
    let settled = Spending { reserved: 0.0, ..spending };
    reservation.fits(settled, limit).is_none()
}

/// The failure of a call whose rule or evaluator changed. Its execution is queued again.
fn withdrawn() -> Failure {
    let message =
        "the rule or its evaluator was disabled, paused or deleted before the call started";
    Failure::new(ErrorClass::Cancelled, message)
}

/// Tokens by price bucket.
fn buckets(usage: &Usage) -> Buckets {
    let plain = usage.input.saturating_sub(usage.cached_input).saturating_sub(usage.cache_creation);
    let all = [
        ("input", plain),
        ("input_cached_tokens", usage.cached_input),
        ("input_cache_creation", usage.cache_creation),
        ("output", usage.output.saturating_sub(usage.reasoning)),
        ("output_reasoning_tokens", usage.reasoning),
    ];
    let used = all.into_iter().filter(|(_, n_tokens)| 0 < *n_tokens);
    used.map(|(bucket, n_tokens)| (bucket.to_owned(), n_tokens.into())).collect()
}

impl CallObserver for Exchanges {
    fn recorded_answer(&self, n: u32) -> Option<ProviderAnswer> {
        let answer = self.recorded.get(n as usize)?;
        let answer = ProviderAnswer {
            method: StructureMethod::from_name(&answer.method)?,
            body: answer.body.clone(),
            is_from_cache: answer.is_from_cache,
        };
        if self.cache_key.is_some() {
            put(&self.last, answer.clone());
        }
        Some(answer)
    }

    fn cached_reply(&self) -> BoxFuture<'_, Option<ProviderAnswer>> {
        Box::pin(async {
            // The answers of an earlier attempt take precedence.
            let cache_key = self.cache_key.as_ref().filter(|it| it.reads)?;
            match self.recorded.is_empty() {
                true => self.models.stored_reply(&self.origin, &cache_key.key).await,
                false => None,
            }
        })
    }

    fn cached_reply_used(
        &self,
        call: ProviderCall,
        answer: ProviderAnswer,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(async {
            self.number_exchange();
            self.record(call, Some(answer)).await
        })
    }

    fn withdrawn(&self) -> BoxFuture<'_, Failure> {
        Box::pin(async {
            self.origin.withdrawal.withdrawn().await;
            withdrawn()
        })
    }

    fn queue_key(&self) -> QueueKey {
        match &self.origin.attempt {
            Some(attempt) => QueueKey {
                priority: match attempt.is_manual {
                    true => Priority::Interactive,
                    false => Priority::Background,
                },
                group: match attempt.is_backfill {
                    true => format!("{}/backfill", attempt.rule),
                    false => attempt.rule.to_string(),
                },
            },
            None => QueueKey {
                priority: match self.origin.is_background {
                    true => Priority::Background,
                    false => Priority::Interactive,
                },
                group: self.origin.context.evaluator.to_string(),
            },
        }
    }

    fn wait_started(&self) {
        self.origin.notes.begin_wait();
    }

    fn wait_ended(&self, waited: Duration) {
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        self.origin.notes.end_wait(waited_ms);
    }

    fn before_send<'a>(
        &'a self,
        estimate: &'a Estimate,
    ) -> BoxFuture<'a, Result<Admission, Failure>> {
        Box::pin(async {
            if self.origin.notes.is_abandoned() {
                let message = "the call was abandoned by its caller";
                return Err(Failure::new(ErrorClass::Cancelled, message));
            }
            self.check().await?;
            let is_reserved = self.reserve(estimate).await;
            // A call without a reservation remains the first of its queue.
            if !matches!(is_reserved, Ok(false)) {
                drop(take(&self.first_place));
            }
            Ok(match is_reserved? {
                true => Admission::Send(self.number_exchange()),
                false => Admission::OverBudget,
            })
        })
    }

    fn budget_available(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.wait_for_budget())
    }

    fn after_exchange(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.record(call, answer))
    }
}
