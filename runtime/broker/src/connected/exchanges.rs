//! The exchanges of one call of a guest: each is held against the budgets before it is sent, and priced, noted and kept
//! before its answer is used.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use perpend_domain::batch::Batch;
use perpend_domain::budget::{ExhaustedBudget, ScopedBudget};
use perpend_domain::identity::call_span_id;
use perpend_domain::model_call::ModelCall;
use perpend_domain::observation::Usage as Buckets;
use perpend_domain::plugin::CallOrigin;
use perpend_domain::slots::ModelFailure;
use perpend_domain::time::Timestamp;
use perpend_executions::{
    AskingAttempt, CallKey, Exchanged, KeptAnswer, NoRoom, Reservation, Spending,
};
use perpend_llm::{
    Admission, CallObserver, ErrorClass, Estimate, Failure, Priority, ProviderAnswer, ProviderCall,
    QueueKey, StructureMethod, Usage,
};

use super::asked::{Asked, ConnectedModels, failed, missing_connection, unstored};
use super::budget_queue::{self, FirstPlace};
use super::generation::{Said, generation};
use super::reuse::Reusable;

/// The longest reply that is reckoned with where neither the evaluator nor the request sets a limit, in tokens.
const USUAL_REPLY: u32 = 4_096;
/// How soon a call that waits for others looks without being told; they may be those of another server.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How much longer than its time limit a call is reckoned to be under way.
const GRACE_MS: i64 = 60_000;

/// What an earlier attempt was answered, and what is noted of this one.
pub(super) struct Exchanges {
    models: ConnectedModels,
    origin: Arc<CallOrigin>,
    asked: Arc<Asked>,
    key: CallKey,
    reusable: Option<Reusable>,
    kept: Vec<KeptAnswer>,
    /// The usable answer that came last.
    last: Mutex<Option<ProviderAnswer>>,
    asking: Option<AskingAttempt>,
    budgets: Vec<ScopedBudget>,
    /// Usable answers so far, the kept ones included.
    n_answers: AtomicU32,
    /// Requests that were announced so far.
    n_announced: AtomicU32,
    /// Of the exchange under way in its attempt.
    number: AtomicU32,
    reserved: Mutex<Option<String>>,
    /// What the exchange under way may cost, where its slot has a limit.
    most: Mutex<Option<f64>>,
    spent: Mutex<Option<ExhaustedBudget>>,
    /// What the exchange waits for: a budget without room, and what is needed of it.
    lacking: Mutex<Option<(ScopedBudget, Reservation)>>,
    /// Held from the head of a line until the reservation is made or refused.
    first_place: Mutex<Option<FirstPlace>>,
}

fn take<T>(slot: &Mutex<Option<T>>) -> Option<T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn put<T>(slot: &Mutex<Option<T>>, value: T) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
}

impl Exchanges {
    /// Reads what an earlier attempt was answered, and the budgets.
    pub(super) async fn begin(
        models: &ConnectedModels,
        origin: &Arc<CallOrigin>,
        asked: &Arc<Asked>,
        (key, reusable): (CallKey, Option<Reusable>),
    ) -> Result<Self, perpend_db::Error> {
        let maker = &origin.maker;
        let (mut kept, mut budgets) = (Vec::new(), Vec::new());
        let asking = origin.attempt.as_ref().map(|attempt| AskingAttempt {
            project: maker.project.clone(),
            execution: attempt.execution.clone(),
            rule: attempt.rule.clone(),
            evaluator: maker.evaluator.clone(),
            attempt: attempt.attempt,
            fence: attempt.fence,
        });
        if let Some(asking) = &asking {
            let store = &models.store;
            kept = store.ledger.kept_answers(&asking.execution, &key).await?;
            if !origin.notes.is_counted() {
                let n_before = store.ledger.n_exchanges(asking).await?;
                origin.notes.count_from(n_before);
            }
            let of_call =
                store.catalog.budgets_of_call(&maker.project, &asking.rule, &maker.evaluator);
            budgets = of_call.await?;
        }
        let n_kept = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        Ok(Self {
            models: models.clone(),
            origin: Arc::clone(origin),
            asked: Arc::clone(asked),
            key,
            reusable,
            kept,
            last: Mutex::default(),
            asking,
            budgets,
            n_answers: AtomicU32::new(n_kept),
            n_announced: AtomicU32::new(0),
            number: AtomicU32::new(0),
            reserved: Mutex::default(),
            most: Mutex::default(),
            spent: Mutex::default(),
            lacking: Mutex::default(),
            first_place: Mutex::default(),
        })
    }

    /// What the call came to. Answers that never fitted their schema are forgotten: the next attempt asks anew. The last one
    /// of a call that came to something is stored for equal requests.
    pub(super) async fn end<T>(&self, result: Result<T, Failure>) -> Result<T, ModelFailure> {
        if let (Ok(_), Some(reusable), Some(last)) = (&result, &self.reusable, take(&self.last))
            && !last.is_from_cache
        {
            let at = (&reusable.key, self.asked.endpoint.connection_id.as_str());
            self.models.store_reply(&self.origin, at, &last).await;
        }
        if let (Err(failure), Some(asking)) = (&result, &self.asking)
            && failure.class == ErrorClass::MalformedOutput
        {
            let ledger = &self.models.store.ledger;
            let forgotten = ledger.forget_call(&asking.execution, &self.key).await;
            forgotten.map_err(|error| failed(unstored(&error)))?;
        }
        result.map_err(|failure| ModelFailure { spent: take(&self.spent), ..failed(failure) })
    }

    /// US dollars; nothing where the model has no price.
    async fn cost(
        &self,
        model: &str,
        usage: &Buckets,
        at: Timestamp,
    ) -> Result<Option<f64>, perpend_db::Error> {
        let ConnectedModels { prices, store, clock, .. } = &self.models;
        let project = &self.origin.maker.project;
        let table = prices.of(&store.catalog, project, clock.now()).await?;
        Ok(table.cost_of_call(model, usage, at))
    }

    /// Reserves what the request may cost; `false` where it has to wait for room.
    async fn reserve(&self, estimate: &Estimate) -> Result<bool, Failure> {
        let asking = self.asking.as_ref().filter(|_| !self.budgets.is_empty());
        let limit = self.asked.slot.limits.max_usd;
        if asking.is_none() && limit.is_none() {
            return Ok(true);
        }
        let most = self.most(estimate).await?;
        if let Some(limit) = limit {
            self.hold(most, limit)?;
        }
        let Some(asking) = asking else {
            return Ok(true);
        };
        let reserved = self.reserve_in_budgets(asking, estimate, most).await;
        if !matches!(reserved, Ok(true)) {
            self.settle(Some(0.0));
        }
        reserved
    }

    /// Whether a request may leave: its lease, rule, evaluator and connection are what they were when the call began to wait.
    async fn check(&self) -> Result<(), Failure> {
        self.check_connection().await?;
        let Some(asking) = &self.asking else {
            return Ok(());
        };
        let ConnectedModels { store, clock, .. } = &self.models;
        let (project, rule) = (&asking.project, &asking.rule);
        let runs = store.catalog.runs(project, rule, &asking.evaluator).await;
        if self.origin.withdrawal.is_withdrawn() || !runs.map_err(|error| unstored(&error))? {
            return Err(withdrawn());
        }
        // Whoever lost the lease asks nothing more: another asks the same, and both would be paid for.
        let holds = store.ledger.holds(asking, clock.now()).await;
        if holds.map_err(|error| unstored(&error))? {
            return Ok(());
        }
        let message = "the lease of this execution has ended";
        Err(Failure::new(ErrorClass::Cancelled, message))
    }

    /// A connection that was deleted, or saved again with another key or address, is not used.
    async fn check_connection(&self) -> Result<(), Failure> {
        let (project, used) = (&self.origin.maker.project, &self.asked.connection);
        let connection = self.models.store.catalog.connection(project, &used.provider);
        let connection = connection.await.map_err(|error| unstored(&error))?;
        let Some(connection) = connection else {
            let message = missing_connection(&used.provider);
            return Err(Failure::new(ErrorClass::ConnectionMissing, message));
        };
        match connection.is_same_account(used) {
            true => Ok(()),
            false => {
                let message = format!(
                    "the LLM connection {:?} was changed while the call waited for it; try again",
                    used.provider
                );
                Err(Failure::new(ErrorClass::Cancelled, message))
            }
        }
    }

    /// Counts what a request may cost against the limit of its slot for one evaluation.
    fn hold(&self, most: f64, limit: f64) -> Result<(), Failure> {
        let spent = self.origin.notes.spend(&self.asked.slot.name, most, limit);
        spent.map_err(|spent| {
            let message = format!(
                "the calls of this evaluation cost {spent:.6} US dollars, and the next may cost {most:.6}: more than the {limit} of \
                 limits.maxUsd"
            );
            Failure::new(ErrorClass::InvalidInput, message)
        })?;
        put(&self.most, most);
        Ok(())
    }

    /// Puts what the exchange cost in the place of what it could have cost; that stays where it is not known.
    fn settle(&self, cost: Option<f64>) {
        if let (Some(most), Some(cost)) = (take(&self.most), cost) {
            let notes = &self.origin.notes;
            notes.settle(&self.asked.slot.name, most, cost);
        }
    }

    /// What a request may cost, US dollars.
    async fn most(&self, estimate: &Estimate) -> Result<f64, Failure> {
        let now = self.models.clock.now();
        let most = Buckets::from([
            ("input".to_owned(), estimate.input_tokens.into()),
            (
                "output".to_owned(),
                u64::from(estimate.max_output_tokens.unwrap_or(USUAL_REPLY)).into(),
            ),
        ]);
        let most = self.cost(&estimate.model, &most, now).await;
        // A failed read must not pause the evaluator as if the model had no price.
        let most = most.map_err(|error| unstored(&error))?;
        most.ok_or_else(|| {
            let message = format!(
                "the model {:?} has no price, so that no budget and no limit can be kept: enter one under models",
                estimate.model
            );
            Failure::new(ErrorClass::ModelConfigInvalid, message)
        })
    }

    async fn reserve_in_budgets(
        &self,
        asking: &AskingAttempt,
        estimate: &Estimate,
        most: f64,
    ) -> Result<bool, Failure> {
        let ledger = &self.models.store.ledger;
        let of = (&asking.evaluator, estimate.model.as_str());
        let latest = self.models.recent_costs.p95(ledger, &asking.project, of).await;
        let latest = latest.map_err(|error| unstored(&error))?;
        let n = self.n_announced.fetch_add(1, Ordering::Relaxed);
        let timeout = i64::from(self.asked.slot.limits.timeout_ms);
        let now = self.models.clock.now();
        let reservation = Reservation {
            id: format!(
                "{}/{}/{}/{}/{n}",
                asking.execution, asking.attempt, self.key.call, self.key.request
            ),
            usd: latest.map_or(most, |latest| latest.min(most)),
            is_unknown: latest.is_none(),
            until: now.plus_millis(timeout + GRACE_MS),
        };
        let reserved = ledger.reserve(asking, &self.budgets, &reservation, now);
        let Err(no_room) = reserved.await.map_err(|error| unstored(&error))? else {
            put(&self.reserved, reservation.id);
            return Ok(true);
        };
        let Some(budget) = self.budgets.get(no_room.place) else {
            return Err(Failure::new(ErrorClass::Internal, "a budget is gone"));
        };
        if is_spent(&reservation, no_room.spending, budget.budget.usd) {
            return Err(self.refuse(budget, &no_room, reservation.usd, now));
        }
        // Calls under way may cost less than what is reserved for them.
        put(&self.lacking, (budget.clone(), reservation));
        Ok(false)
    }

    /// Waits until the budget that lacked room may have some. Another call may take it first.
    async fn wait_for_room(&self) -> Result<(), Failure> {
        let Some(asking) = &self.asking else {
            return Ok(());
        };
        let Some((budget, reservation)) = take(&self.lacking) else {
            return Ok(());
        };
        let key = budget_queue::key(&asking.project, &budget);
        let head = take(&self.first_place).filter(|head| head.key == key);
        let head = match head {
            Some(head) => head,
            None => self.models.budget_queues.enter(key).await,
        };
        loop {
            let settled = self.models.settled.notified();
            self.check().await?;
            let now = self.models.clock.now();
            let ledger = &self.models.store.ledger;
            let spending = ledger.spending(&asking.project, &budget, now).await;
            let spending = spending.map_err(|error| unstored(&error))?;
            let limit = budget.budget.usd;
            // Where too much is spent, the next reservation is refused with its reason.
            if is_spent(&reservation, spending, limit)
                || reservation.fits(spending, limit).is_some()
            {
                break;
            }
            let _ = tokio::time::timeout(LOOK_AGAIN, settled).await;
        }
        put(&self.first_place, head);
        Ok(())
    }

    fn refuse(&self, budget: &ScopedBudget, no_room: &NoRoom, usd: f64, now: Timestamp) -> Failure {
        let limit = budget.budget;
        let until = limit.window.end(now);
        put(
            &self.spent,
            ExhaustedBudget { scope: budget.scope, on_reached: limit.on_reached, until },
        );
        let renewed = match until {
            Some(until) => format!("it is renewed at {until}"),
            None => "it is not renewed".to_owned(),
        };
        let message = format!(
            "the budget of the {}, {} US dollars per {}, has no room for a call that may cost {usd:.6}: {:.6} are spent and \
             {:.6} reserved; {renewed}",
            budget.scope,
            limit.usd,
            limit.window,
            no_room.spending.spent,
            no_room.spending.reserved
        );
        Failure::new(ErrorClass::BudgetExhausted, message)
    }

    /// What an exchange cost, and the rest of what the ledger has of it.
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
            provider: self.asked.choice.provider.clone(),
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

    /// Numbers the next exchange and returns its `traceparent`: the execution's trace, and the span of this exchange in it.
    /// A provider or gateway that records traces can then link its own spans to it.
    fn number_exchange(&self) -> Option<String> {
        let asking = self.asking.as_ref()?;
        let number = self.origin.notes.next_exchange();
        self.number.store(number, Ordering::Relaxed);
        let span = call_span_id(&asking.execution, asking.attempt, number);
        Some(format!("00-{}-{span}-01", asking.execution))
    }

    /// Writes the exchange as a generation of the execution's own trace. The trace is for people: a database that does
    /// not take it stops no judge.
    async fn trace(&self, asking: &AskingAttempt, call: &ModelCall, said: Said) {
        let number = self.number.load(Ordering::Relaxed);
        let now = self.models.clock.now();
        let batch = Batch {
            observations: vec![generation(asking, call, said, number)],
            ..Batch::default()
        };
        let telemetry = &self.models.store.telemetry;
        if let Err(error) = telemetry.write_batch(&asking.project, batch, now).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, execution.id = %asking.execution, "a model call is not in its trace");
        }
    }

    /// Commits an exchange with its answer.
    async fn note(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> Result<(), Failure> {
        let said = Said::of(&call);
        let mut call = self.priced(call).await;
        // A call that failed and says nothing of tokens is not charged.
        self.settle(call.cost.or(call.error.as_ref().map(|_| 0.0)));
        if answer.as_ref().is_some_and(|answer| answer.is_from_cache) {
            call.is_from_cache = true;
            call.saved = call.cost.replace(0.0);
        }
        if self.reusable.is_some() {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = answer.clone();
        }
        if let (None, Some(cost), false) = (&call.error, call.cost, call.is_from_cache) {
            let latest = &self.models.recent_costs;
            latest.note(&self.origin.maker.evaluator, &call.model, cost);
        }
        let Some(asking) = &self.asking else {
            let ledger = &self.models.store.ledger;
            let noted = ledger.note_trial_call(&self.origin.maker.project, &call);
            if let Err(error) = noted.await {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(error, "the cost of a trial was not noted");
            }
            self.origin.notes.called(call);
            return Ok(());
        };
        self.trace(asking, &call, said).await;
        let answer = answer.map(|answer| KeptAnswer {
            method: answer.method.name().to_owned(),
            body: answer.body,
            is_from_cache: answer.is_from_cache,
        });
        let numbered =
            answer.as_ref().map(|answer| (self.n_answers.fetch_add(1, Ordering::Relaxed), answer));
        let reservation = take(&self.reserved);
        let exchanged = Exchanged {
            key: &self.key,
            call: &call,
            answer: numbered,
            reservation: reservation.as_deref(),
        };
        let ledger = &self.models.store.ledger;
        let noted = ledger.note_exchange(asking, &exchanged, self.models.clock.now());
        let noted = noted.await;
        // Also where that failed: who waits looks at once whether there is room.
        self.models.settled.notify_waiters();
        noted.map_err(|error| unstored(&error))
    }
}

/// Whether a budget has no room for a call, whatever the calls under way come to.
fn is_spent(reservation: &Reservation, spending: Spending, limit: f64) -> bool {
    let settled = Spending { reserved: 0.0, ..spending };
    reservation.fits(settled, limit).is_none()
}

/// Its execution goes back to the queue, where the catalog of now says what becomes of it.
fn withdrawn() -> Failure {
    let message = "the rule or its evaluator was disabled, paused or deleted before the call began";
    Failure::new(ErrorClass::Cancelled, message)
}

/// Tokens by the buckets that prices are given for.
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
        let kept = self.kept.get(n as usize)?;
        let answer = ProviderAnswer {
            method: StructureMethod::from_name(&kept.method)?,
            body: kept.body.clone(),
            is_from_cache: kept.is_from_cache,
        };
        if self.reusable.is_some() {
            put(&self.last, answer.clone());
        }
        Some(answer)
    }

    fn cached_reply(&self) -> BoxFuture<'_, Option<ProviderAnswer>> {
        Box::pin(async {
            // What an earlier attempt was answered comes first.
            let reusable = self.reusable.as_ref().filter(|it| it.reads)?;
            match self.kept.is_empty() {
                true => self.models.stored_reply(&self.origin, &reusable.key).await,
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
            self.note(call, Some(answer)).await
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
                group: attempt.rule.to_string(),
            },
            None => QueueKey {
                priority: Priority::Interactive,
                group: self.origin.maker.evaluator.to_string(),
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
                let message = "nobody waits for the answer any more";
                return Err(Failure::new(ErrorClass::Cancelled, message));
            }
            self.check().await?;
            let has_room = self.reserve(estimate).await;
            // Where there is no room, the call stays the first of those that wait for it.
            if !matches!(has_room, Ok(false)) {
                drop(take(&self.first_place));
            }
            Ok(match has_room? {
                true => Admission::Send(self.number_exchange()),
                false => Admission::OverBudget,
            })
        })
    }

    fn budget_available(&self) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.wait_for_room())
    }

    fn after_exchange(
        &self,
        call: ProviderCall,
        answer: Option<ProviderAnswer>,
    ) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.note(call, answer))
    }
}
