//! The call for one item: its request, its result, and the consequence of a failure.

use std::sync::Arc;

use perpend_domain::budget::BudgetScope;
use perpend_domain::dataset::DatasetItem;
use perpend_domain::ids::ExecutionId;
use perpend_domain::memory::of_value;
use perpend_domain::plugin::{
    AttemptRef, CallOrigin, FailureClass, ReplyPolicy, ReplyReuse, RunCall,
};
use perpend_domain::prompt::PromptBody;
use perpend_domain::server_run::{
    BUDGET_REACHED, EndpointTask, MAX_USD_REACHED, ModelTask, RunAnswer, RunTask, call_id, filled,
    run_trace_id,
};
use perpend_domain::slots::{ModelFailure, pause_reason};
use perpend_domain::time::Timestamp;
use perpend_executions::{ClaimedItem, ItemEnd};
use tokio::time::Instant;

use super::conversation::{completion_request, output_of};
use super::driver::{CallEnd, Driver, EndedCall};
use super::endpoint::{EndpointFailure, post_item};
use super::engine::POLL;
use super::memory::CallMemory;
use super::trace::{ItemResult, observations};

/// Calls of an item whose failures may be temporary.
const MAX_TRIES: u32 = 6;
const FIRST_WAIT_MS: i64 = 1_000;
const MAX_WAIT_MS: i64 = 60_000;
/// Longest wait that a provider may request.
const MAX_RETRY_AFTER_MS: u64 = 900_000;
/// The class of an item whose input does not fill the prompt.
const INVALID_INPUT: &str = "invalid_input";
/// The class of an item that the dataset does not have any more.
const ITEM_MISSING: &str = "item_missing";

/// The wait before the next call of an item.
fn wait_ms(n_tries: u32, retry_after_ms: Option<u64>) -> i64 {
    let doubled = FIRST_WAIT_MS.saturating_mul(1 << n_tries.min(16)).min(MAX_WAIT_MS);
    let requested = retry_after_ms.map_or(0, |wait| wait.min(MAX_RETRY_AFTER_MS).cast_signed());
    doubled.max(requested)
}

impl Driver {
    /// Reads an item, whose content has `n_bytes`, and calls the model or the endpoint for it, when there is memory for both.
    pub(super) async fn call_with_memory(&self, item: ClaimedItem, n_bytes: usize) -> EndedCall {
        let Self { engine, run, .. } = self;
        let since = Instant::now();
        let mut memory = engine.memory.reserve_calls(&run.project, (1, n_bytes)).await;
        let place = item.place;
        let again = |class: FailureClass, message: &str| CallEnd::Retry {
            place,
            at: engine.clock.now().plus_millis(FIRST_WAIT_MS),
            is_counted: false,
            class: class.as_str().to_owned(),
            message: message.to_owned(),
        };
        let ledger = &engine.store.ledger;
        // The run may have been paused, or the lease may have ended, during a long wait.
        if POLL <= since.elapsed()
            && !ledger.holds_run(run.lease(), engine.clock.now()).await.unwrap_or(false)
        {
            let end = again(FailureClass::Cancelled, "the run was paused");
            return EndedCall { end, memory };
        }
        let read = self.dataset_items(std::slice::from_ref(&item)).await;
        let end = match read {
            Ok(data) => self.call(item, data.into_iter().next().flatten(), &mut memory).await,
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, run.id = %run.id, "an item cannot be read");
                again(FailureClass::Internal, "the item cannot be read")
            }
        };
        memory.end_parsing();
        EndedCall { end, memory }
    }

    /// Calls the model or the endpoint for an item.
    async fn call(
        &self,
        item: ClaimedItem,
        data: Option<DatasetItem>,
        memory: &mut CallMemory,
    ) -> CallEnd {
        let now = self.engine.clock.now();
        let Some(data) = data else {
            let message = "the dataset does not have this version of the item any more";
            return self.failed(item, None, (ITEM_MISSING, message), now);
        };
        match (&self.run.task, &self.prompt) {
            (RunTask::Model(task), Some(prompt)) => {
                self.call_model((task.as_ref(), prompt), item, &data, memory).await
            }
            (RunTask::Endpoint(task), _) => self.call_endpoint(task, item, &data, memory).await,
            (RunTask::Model(_), None) => {
                self.failed(item, Some(&data), (INVALID_INPUT, "the run has no prompt"), now)
            }
        }
    }

    async fn call_model(
        &self,
        (task, prompt): (&ModelTask, &PromptBody),
        item: ClaimedItem,
        data: &DatasetItem,
        memory: &mut CallMemory,
    ) -> CallEnd {
        let now = self.engine.clock.now();
        let messages = match filled(prompt, &data.input) {
            Ok(messages) => messages,
            Err(error) => {
                return self.failed(item, Some(data), (INVALID_INPUT, &error.to_string()), now);
            }
        };
        let request = match completion_request(task, &messages) {
            Ok(request) => request,
            Err(message) => return self.failed(item, Some(data), (INVALID_INPUT, &message), now),
        };
        let Some(origin) = self.origin(&item) else {
            return self.failed(item, Some(data), (INVALID_INPUT, "the run has no context"), now);
        };
        let completion = self.engine.models.complete(&origin, 0, request).await;
        let end = self.engine.clock.now();
        match completion {
            Ok(completion) => {
                let waited_ms = i64::try_from(origin.notes.waited_ms()).unwrap_or(0);
                let start = now.plus_millis(waited_ms).min(end);
                let answer = RunAnswer {
                    output: output_of(completion),
                    started_at: start.as_micros(),
                    latency_ms: (end.micros_since(start) / 1_000).unsigned_abs(),
                    ..RunAnswer::default()
                };
                let answer = self.with_recorded_time(&item, answer).await;
                let n_bytes = of_value(&answer.output);
                self.engine.memory.reserve_answer(memory, n_bytes).await;
                self.answered(item, Some(data), &answer)
            }
            Err(failure) => self.after_failure(item, data, &failure, now),
        }
    }

    /// The answer with the times of the recorded calls, if an earlier process made them.
    async fn with_recorded_time(&self, item: &ClaimedItem, answer: RunAnswer) -> RunAnswer {
        if item.n_interrupted == 0 {
            return answer;
        }
        let (project, id) = (&self.run.project, self.execution(item));
        let calls = self.engine.store.ledger.model_calls(project, &id).await;
        let calls = calls.unwrap_or_default();
        let (Some((_, first)), Some((_, last))) = (calls.first(), calls.last()) else {
            return answer;
        };
        let end = last.started_at.plus_millis(last.latency_ms.cast_signed());
        RunAnswer {
            started_at: first.started_at.as_micros(),
            latency_ms: (end.micros_since(first.started_at) / 1_000).unsigned_abs(),
            ..answer
        }
    }

    fn execution(&self, item: &ClaimedItem) -> ExecutionId {
        call_id(&run_trace_id(&self.run.id, &item.item_id, item.repetition, item.attempt))
    }

    /// The caller of the model: the item of the run.
    fn origin(&self, item: &ClaimedItem) -> Option<Arc<CallOrigin>> {
        let attempt = AttemptRef {
            execution: self.execution(item),
            rule: self.rule.clone()?,
            attempt: item.attempt,
            fence: self.run.fence,
            is_manual: false,
            is_backfill: false,
            run: Some(RunCall {
                run: self.run.id.clone(),
                max_usd: self.run.max_usd,
                prompt: self.run.task.prompt_link(),
            }),
        };
        // Results of a run must not be those of another call.
        let reuse = ReplyReuse { replies: ReplyPolicy::Isolated, run: item.repetition };
        let origin = CallOrigin::new(self.context.as_ref()?, Some(attempt));
        Some(Arc::new(origin.reusing(reuse)))
    }

    fn after_failure(
        &self,
        item: ClaimedItem,
        data: &DatasetItem,
        failure: &ModelFailure,
        started_at: Timestamp,
    ) -> CallEnd {
        let (class, place) = (failure.class, item.place);
        let message = failure.message.clone();
        if class == FailureClass::BudgetExhausted {
            let scope = failure.spent.map(|spent| spent.scope);
            let reason = match scope {
                Some(BudgetScope::Rule) => MAX_USD_REACHED,
                _ => BUDGET_REACHED,
            };
            return CallEnd::Pause { place, started_at, reason: reason.to_owned(), message };
        }
        if let Some(reason) = pause_reason(class) {
            return CallEnd::Pause { place, started_at, reason: reason.to_owned(), message };
        }
        let is_unsent = failure.is_unsent && class == FailureClass::RateLimited;
        let is_temporary = matches!(
            class,
            FailureClass::RateLimited
                | FailureClass::UpstreamUnavailable
                | FailureClass::UpstreamTimeout
                | FailureClass::Transient
                | FailureClass::Internal
        );
        let is_withdrawn = class == FailureClass::Cancelled;
        let is_retried = is_temporary && !failure.is_final && item.n_tries + 1 < MAX_TRIES;
        if is_withdrawn || is_unsent || is_retried {
            let now = self.engine.clock.now();
            let wait_ms = match is_withdrawn {
                true => 0,
                false => wait_ms(item.n_tries, failure.retry_after_ms),
            };
            return CallEnd::Retry {
                place,
                at: now.plus_millis(wait_ms),
                is_counted: !is_withdrawn && !is_unsent,
                class: class.as_str().to_owned(),
                message,
            };
        }
        self.failed(item, Some(data), (class.as_str(), &message), started_at)
    }

    async fn call_endpoint(
        &self,
        task: &EndpointTask,
        item: ClaimedItem,
        data: &DatasetItem,
        memory: &mut CallMemory,
    ) -> CallEnd {
        let started_at = self.engine.clock.now();
        let answer = match post_item(self, task, (&item, data), memory).await {
            Ok(answer) => answer,
            Err(EndpointFailure::Unreachable(message)) => {
                let reason = "ENDPOINT_UNREACHABLE".to_owned();
                return CallEnd::Pause { place: item.place, started_at, reason, message };
            }
            Err(EndpointFailure::Temporary(class, message, retry_after_ms))
                if item.n_tries + 1 < MAX_TRIES =>
            {
                let wait_ms = wait_ms(item.n_tries, retry_after_ms);
                return CallEnd::Retry {
                    place: item.place,
                    at: self.engine.clock.now().plus_millis(wait_ms),
                    is_counted: true,
                    class: class.as_str().to_owned(),
                    message,
                };
            }
            Err(
                EndpointFailure::Temporary(class, message, _)
                | EndpointFailure::Final(class, message),
            ) => return self.failed(item, Some(data), (class.as_str(), &message), started_at),
        };
        let ledger = &self.engine.store.ledger;
        let stored = ledger.store_run_answer(self.run.lease(), (item.place, &answer)).await;
        match stored {
            Ok(true) => {}
            // Another process drives the run, or the run was deleted: nothing is changed.
            Ok(false) => {
                return CallEnd::Retry {
                    place: item.place,
                    at: self.engine.clock.now(),
                    is_counted: false,
                    class: FailureClass::Cancelled.as_str().to_owned(),
                    message: "the lease of the run has ended".to_owned(),
                };
            }
            // Another call would be paid again: the answer is written with the trace.
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, run.id = %self.run.id, "an answer cannot be stored");
            }
        }
        self.answered(item, Some(data), &answer)
    }

    /// The end of an item with an answer.
    pub(super) fn answered(
        &self,
        item: ClaimedItem,
        data: Option<&DatasetItem>,
        answer: &RunAnswer,
    ) -> CallEnd {
        let own = observations(&self.run, &item, data, &ItemResult::Answer(answer));
        let end = ItemEnd { item, cost: answer.cost_usd, error: None };
        CallEnd::Finished(Box::new(end), own)
    }

    /// The end of an item with an error.
    fn failed(
        &self,
        item: ClaimedItem,
        data: Option<&DatasetItem>,
        (class, message): (&str, &str),
        started_at: Timestamp,
    ) -> CallEnd {
        let times = (started_at, self.engine.clock.now());
        let result = ItemResult::Error { class, message, times };
        let own = observations(&self.run, &item, data, &result);
        let error = Some((class.to_owned(), message.to_owned()));
        CallEnd::Finished(Box::new(ItemEnd { item, cost: None, error }), own)
    }
}
