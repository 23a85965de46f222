//! Trials: results of an evaluator for some targets, with nothing stored (evaluation.md 1.7).
//!
//! A trial loads, maps, calls and names like an execution. It has no attempt: its model calls are kept with
//! the call and count in no budget, and nothing is retried.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use perpend_domain::evaluation::{
    AttemptFailure, Evaluator, Mapping, NoCallReason, OnMissing, Target, TargetKind,
};
use perpend_domain::ids::ProjectId;
use perpend_domain::mapping::{ManualItem, MappingPlan};
use perpend_domain::model_call::ModelCall;
use perpend_domain::plugin::{
    CallOrigin, CallResult, EvaluationCall, Failure, FailureClass, Item, LogLine, ReplyReuse,
    ResultPermit,
};
use perpend_domain::time::Timestamp;
use perpend_executions::log_excerpt;
use perpend_memory::Reservation;
use tokio::time::Instant;

use crate::Scheduler;
use crate::call::{LoadResult, NoCall, call_of, item_of, no_score_failure};
use crate::catalog::{PreparedEvaluator, plan_of, prepare_evaluator};
use crate::deps::Inner;
use crate::failures::as_noted;
use crate::holder::Holder;
use crate::memory::{held_by, max_held};
use crate::pointers::refusal;
use crate::scores::{TrialScore, trial_scores};

/// Maximum time that the model calls of a trial may wait for slots of their connection.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// Interval at which a trial over its limit checks whether a model call still waits.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Maximum size of the texts of all items of a trial, or of the examples of a preview.
pub(crate) const MAX_ITEMS_BYTES: usize = 16 << 20;

/// Larger results are charged to the memory of evaluations.
const SMALL_RESULT_BYTES: usize = 64 << 10;

/// Prepares a result to be kept until the trial ends; it becomes a failure if its memory is not free.
fn keep(result: &mut CallResult, memory: &mut Reservation<Holder>) {
    // With the permit of a result to be written, the result would keep the last results of the trial from
    // being read.
    result.permit = ResultPermit::default();
    result.log = log_excerpt(&result.log);
    let n_bytes = result.n_bytes();
    if SMALL_RESULT_BYTES < n_bytes && memory.try_grow(n_bytes).is_err() {
        let message = format!(
            "the result has {} KiB, more than the memory for evaluations has left for this project: repeat the trial \
             later, or on fewer targets",
            n_bytes >> 10
        );
        result.outcome = Err(Failure { class: FailureClass::OutputLimit, message });
        result.log = Vec::new();
    }
}

/// The failure of an item that is left out of a trial or a preview.
pub(crate) fn items_too_large() -> AttemptFailure {
    let message = format!(
        "the items have more than {} MiB together: choose fewer targets",
        MAX_ITEMS_BYTES >> 20
    );
    AttemptFailure::new(FailureClass::InvalidInput, &message)
}

/// Input of a trial.
#[derive(Clone, Debug, PartialEq)]
pub enum TrialSubject {
    /// A target.
    Target(Target),
    /// A hand-written item; no mapping is applied.
    Written(Box<ManualItem>),
}

/// A trial of an evaluator.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The evaluator, saved or not.
    pub evaluator: Evaluator,
    /// Replaces the mapping of the evaluator.
    pub mapping: Option<Vec<Mapping>>,
    /// The action for targets without a mapped part.
    pub on_missing: OnMissing,
    /// The inputs, in the order of the results.
    pub on: Vec<TrialSubject>,
    /// Stored replies that may be used instead of model calls.
    pub reuse: ReplyReuse,
    /// Time limit of each input. Time in which its model calls wait to be sent does not count, up to
    /// `MAX_WAIT`.
    pub limit: Duration,
}

/// Result of a trial for one target.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialResult {
    /// The item of the evaluator; `None` if it was not called.
    pub item: Option<Item>,
    /// The scores, or the failure.
    pub outcome: Result<Vec<TrialScore>, AttemptFailure>,
    /// Exchanges with model providers.
    pub model_calls: Vec<ModelCall>,
    /// Time from the call to its result, milliseconds.
    pub took_ms: u64,
    /// CPU time in the guest, microseconds.
    pub cpu_us: u64,
    /// The last log lines, oldest first.
    pub log: Vec<LogLine>,
}

impl TrialResult {
    fn without_call(why: AttemptFailure) -> Self {
        Self {
            item: None,
            outcome: Err(why),
            model_calls: Vec::new(),
            took_ms: 0,
            cpu_us: 0,
            log: Vec::new(),
        }
    }
}

/// The mapping, compiled for each kind of target.
struct Plans {
    observation: Result<MappingPlan, String>,
    trace: Result<MappingPlan, String>,
    session: Result<MappingPlan, String>,
    run: Result<MappingPlan, String>,
}

impl Plans {
    fn new(mapping: &[Mapping]) -> Self {
        Self {
            observation: plan_of(mapping, TargetKind::Observation),
            trace: plan_of(mapping, TargetKind::Trace),
            session: plan_of(mapping, TargetKind::Session),
            run: plan_of(mapping, TargetKind::Run),
        }
    }

    const fn of(&self, target: &Target) -> &Result<MappingPlan, String> {
        match target {
            Target::Observation(..) => &self.observation,
            Target::Trace(_) => &self.trace,
            Target::Session(_) => &self.session,
            Target::Run(_) => &self.run,
        }
    }
}

/// A call in progress, and the index of its result.
struct OpenTrialCall {
    place: usize,
    target: Option<Target>,
    item: Item,
    origin: Option<Arc<CallOrigin>>,
}

/// The origins of the calls of a trial. Model calls that are not sent when it is dropped are not sent.
struct Origins(Vec<Option<Arc<CallOrigin>>>);

impl Origins {
    /// The latest end of the open calls, if that is not before now.
    fn ends(&self, is_open: impl Fn(usize) -> bool, ends: Instant) -> Option<Instant> {
        let now = Instant::now();
        let open = self.0.iter().enumerate().filter(|(place, _)| is_open(*place));
        let last = open.map(|(_, origin)| match origin {
            Some(origin) if origin.notes.is_waiting() => now + LOOK_AGAIN,
            Some(origin) => ends + Duration::from_millis(origin.notes.waited_ms()),
            None => ends,
        });
        let last = last.max()?.min(ends + MAX_WAIT);
        (now < last).then_some(last)
    }
}

impl Drop for Origins {
    fn drop(&mut self) {
        for origin in self.0.iter().flatten() {
            origin.notes.abandon();
        }
    }
}

impl Scheduler {
    /// Runs an evaluator. Nothing is stored, and pauses are ignored.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn trial(
        &self,
        project: &ProjectId,
        trial: Trial,
    ) -> Result<Vec<TrialResult>, perpend_db::Error> {
        self.run_trial(project, trial, false).await
    }

    /// As [`Scheduler::trial`]; `is_background` calls come after those of live scoring.
    pub(crate) async fn run_trial(
        &self,
        project: &ProjectId,
        trial: Trial,
        is_background: bool,
    ) -> Result<Vec<TrialResult>, perpend_db::Error> {
        let inner = &self.inner;
        let store = &inner.deps.store;
        let evaluator = prepare_evaluator(store, project, trial.evaluator).await?;
        let default = &evaluator.evaluator.version.mapping;
        let plans = Plans::new(trial.mapping.as_ref().unwrap_or(default));
        let now = inner.deps.clock.now();
        let to_reserve = inner.trial_bytes(project, &trial.on, &plans).await?;
        let mut memory = inner.reserve_to_show(project, to_reserve).await;
        let mut n_bytes = 0;
        let (mut results, mut open, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for (place, on) in trial.on.into_iter().enumerate() {
            if MAX_ITEMS_BYTES < n_bytes {
                results.push(Some(TrialResult::without_call(items_too_large())));
                continue;
            }
            let (target, item) = match on {
                TrialSubject::Written(written) => (None, Ok(written.item(evaluator.needs))),
                TrialSubject::Target(target) => {
                    let item = inner
                        .item_of_target(
                            project,
                            &evaluator,
                            (&target, plans.of(&target)),
                            trial.on_missing,
                        )
                        .await?;
                    (Some(target), item)
                }
            };
            results.push(None);
            let item = item.and_then(|item| {
                n_bytes += item.n_bytes();
                match n_bytes <= MAX_ITEMS_BYTES {
                    true => Ok(item),
                    false => Err(items_too_large()),
                }
            });
            match item {
                Err(why) => results[place] = Some(TrialResult::without_call(why)),
                Ok(item) => {
                    let limits = inner.deps.options.limits;
                    let shared = Arc::new(item.clone());
                    let mut call = call_of(&evaluator, shared, now, limits, (None, trial.reuse));
                    if is_background {
                        let own = call.origin.and_then(Arc::into_inner);
                        call.origin = own.map(|origin| Arc::new(origin.in_background()));
                    }
                    let origin = call.origin.clone();
                    calls.push(call);
                    open.push(OpenTrialCall { place, target, item, origin });
                }
            }
        }
        let n_held = held_by(open.iter().map(|each: &OpenTrialCall| &each.item));
        memory.shrink(memory.n_bytes().saturating_sub(n_held));
        let call_started_at = inner.deps.clock.now();
        let origins: Vec<_> = open.iter().map(|each| each.origin.clone()).collect();
        let origins = Origins(origins);
        let answers =
            inner.answers(calls, call_started_at, (trial.limit, &origins), &mut memory).await;
        for (each, answer) in open.into_iter().zip(answers) {
            let place = each.place;
            results[place] = Some(inner.result(project, &evaluator, each, answer).await?);
        }
        Ok(results.into_iter().flatten().collect())
    }
}

impl Scheduler {
    /// The item that an evaluator would receive, without a call. `mapping` replaces that of the evaluator.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn item(
        &self,
        project: &ProjectId,
        evaluator: Evaluator,
        (subject, mapping): (TrialSubject, Option<&[Mapping]>),
        on_missing: OnMissing,
    ) -> Result<Result<Item, AttemptFailure>, perpend_db::Error> {
        let inner = &self.inner;
        let evaluator = prepare_evaluator(&inner.deps.store, project, evaluator).await?;
        let target = match subject {
            TrialSubject::Written(written) => return Ok(Ok(written.item(evaluator.needs))),
            TrialSubject::Target(target) => target,
        };
        let mapping = mapping.unwrap_or(&evaluator.evaluator.version.mapping);
        let plan = plan_of(mapping, target.kind());
        let n_bytes = inner.target_bytes(project, &target, &plan).await?;
        let _memory = inner.reserve_to_show(project, n_bytes).await;
        inner.item_of_target(project, &evaluator, (&target, &plan), on_missing).await
    }
}

impl Inner {
    /// Memory of a trial, which is reserved before anything is read. Targets are read one at a time; their items are kept until
    /// the end.
    async fn trial_bytes(
        &self,
        project: &ProjectId,
        on: &[TrialSubject],
        plans: &Plans,
    ) -> Result<usize, perpend_db::Error> {
        let (mut sum, mut largest) = (0_usize, 0_usize);
        for subject in on {
            // A written item is in memory already.
            if let TrialSubject::Target(target) = subject {
                let n_bytes = self.target_bytes(project, target, plans.of(target)).await?;
                sum = sum.saturating_add(n_bytes);
                largest = largest.max(n_bytes);
            }
        }
        Ok(sum.min(max_held(on.len(), MAX_ITEMS_BYTES).saturating_add(largest)))
    }

    async fn item_of_target(
        &self,
        project: &ProjectId,
        evaluator: &PreparedEvaluator,
        (target, plan): (&Target, &Result<MappingPlan, String>),
        on_missing: OnMissing,
    ) -> Result<Result<Item, AttemptFailure>, perpend_db::Error> {
        let missing = || {
            AttemptFailure::new(
                NoCallReason::TargetMissing,
                "the project has no such target; it may not have arrived yet",
            )
        };
        Ok(match self.load_target(project, target, plan).await? {
            LoadResult::Missing => Err(missing()),
            LoadResult::TooLarge(why) => Err(why),
            LoadResult::Loaded(loaded) => {
                item_of(evaluator, plan, &loaded, on_missing).map_err(NoCall::why)
            }
        })
    }

    /// The results of calls, each with the milliseconds until it arrived; `None` for a result that did not
    /// arrive in time.
    async fn answers(
        &self,
        calls: Vec<EvaluationCall>,
        started_at: Timestamp,
        (limit, origins): (Duration, &Origins),
        memory: &mut Reservation<Holder>,
    ) -> Vec<Option<(CallResult, u64)>> {
        let mut answers = vec![None; calls.len()];
        let call_started_at = Instant::now();
        let mut ends = call_started_at + limit;
        let mut coming = self.deps.evaluate.evaluate(calls);
        loop {
            let next = tokio::select! {
                biased;
                next = coming.next() => next,
                () = tokio::time::sleep_until(ends) => {
                    let is_open = |place: usize| answers.get(place).is_some_and(Option::is_none);
                    match origins.ends(is_open, call_started_at + limit) {
                        Some(later) => {
                            ends = later;
                            continue;
                        }
                        None => None,
                    }
                }
            };
            // Results that arrived by then count.
            let Some((place, mut result)) = next else {
                return answers;
            };
            keep(&mut result, memory);
            let took = self.deps.clock.now().as_micros() - started_at.as_micros();
            let took_ms = u64::try_from(took / 1_000).unwrap_or_default();
            if let Some(answer) = answers.get_mut(place) {
                *answer = Some((result, took_ms));
            }
        }
    }

    async fn result(
        &self,
        project: &ProjectId,
        evaluator: &PreparedEvaluator,
        open: OpenTrialCall,
        answer: Option<(CallResult, u64)>,
    ) -> Result<TrialResult, perpend_db::Error> {
        let notes = open.origin.as_ref().map(|origin| origin.notes.calls());
        let model_calls = notes.unwrap_or_default();
        let Some((mut result, took_ms)) = answer else {
            let message = "no answer came in the time that a trial may take";
            return Ok(TrialResult {
                item: Some(open.item),
                model_calls,
                ..TrialResult::without_call(AttemptFailure::new(FailureClass::WallTimeout, message))
            });
        };
        match &open.target {
            Some(target) => {
                let results = std::slice::from_mut(&mut result);
                self.refuse_foreign_pointers(project, &[target], results).await?;
            }
            None => {
                let scores = result.outcome.as_ref().into_iter().flatten();
                let mut pointing = scores.filter(|score| score.observation_id.is_some());
                if let Some(failure) = pointing.next().map(refusal) {
                    drop(pointing);
                    result.outcome = Err(failure);
                }
            }
        }
        let outcome = match result.outcome {
            Ok(given) if given.is_empty() => Err(no_score_failure()),
            Ok(given) => Ok(trial_scores(evaluator, given)),
            Err(failure) => {
                let failure = as_noted(failure, open.origin.as_deref());
                Err(AttemptFailure::new(failure.class, &failure.message))
            }
        };
        Ok(TrialResult {
            item: Some(open.item),
            outcome,
            model_calls,
            took_ms,
            cpu_us: result.cpu_us,
            log: result.log,
        })
    }
}
