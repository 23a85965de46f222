//! The call that scores a target: the same for an execution and for a trial.

use std::sync::Arc;

use perpend_domain::evaluation::{AttemptFailure, NoCallReason, OnMissing, Target};
use perpend_domain::experiment::ExperimentRun;
use perpend_domain::identity;
use perpend_domain::ids::{ObservationId, ProjectId, SessionId, TraceId};
use perpend_domain::mapping::{Conversation, ItemError, MappingPlan, MappingSubject};
use perpend_domain::observation::Observation;
use perpend_domain::payload::Payload;
use perpend_domain::plugin::{
    AttemptRef, CallOrigin, EvaluationCall, FailureClass, Item, Limits, Purpose, ReplyReuse,
};
use perpend_domain::session::Session;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::catalog::PreparedEvaluator;
use crate::decide::{RUN_ENVIRONMENT, is_reserved};
use crate::deps::Inner;

/// Maximum size of the content of a trace that is read for one item.
const MAX_TRACE_BYTES: usize = 64 << 20;

/// Above this size, mapping takes milliseconds.
const LONG_BYTES: usize = 256 << 10;

/// The content of a target.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    observation: Option<Observation>,
    trace: Option<Trace>,
    observations: Vec<Observation>,
    session: Option<(Session, Conversation)>,
    /// A run with its results.
    run: Option<(ExperimentRun, Payload)>,
}

/// Result of loading a target.
#[derive(Debug)]
pub(crate) enum LoadResult {
    /// The target was deleted or has not arrived.
    Missing,
    /// The target exceeds the size limit of an item.
    TooLarge(AttemptFailure),
    /// The target was loaded.
    Loaded(Box<Loaded>),
}

impl From<Option<Loaded>> for LoadResult {
    fn from(loaded: Option<Loaded>) -> Self {
        loaded.map_or(Self::Missing, |loaded| Self::Loaded(Box::new(loaded)))
    }
}

impl Loaded {
    /// An observation alone.
    pub(crate) fn of_observation(own: Observation) -> Self {
        Self { observation: Some(own), ..Self::default() }
    }

    /// A run with its results as the input of the item.
    pub(crate) fn of_run(run: ExperimentRun, results: Payload) -> Self {
        Self { run: Some((run, results)), ..Self::default() }
    }

    /// Size of inputs and outputs in bytes.
    fn n_bytes(&self) -> usize {
        let parts = self.observation.iter().chain(&self.observations);
        let parts = parts.flat_map(|own| [&own.content.input, &own.content.output]);
        parts.flatten().map(|part| part.as_str().len()).sum()
    }

    fn subject(&self) -> MappingSubject<'_> {
        MappingSubject {
            observation: self.observation.as_ref(),
            trace: self.trace.as_ref(),
            observations: &self.observations,
            session: self.session.as_ref().map(|(session, conversation)| (session, conversation)),
            run: self.run.as_ref().map(|(run, results)| (run, results)),
        }
    }

    pub(crate) fn environment(&self) -> &str {
        let of_trace = self.trace.as_ref().map(|trace| trace.environment.as_str());
        let own = self.observation.as_ref().map(|own| own.environment.as_str());
        let session = self.session.as_ref();
        let of_session = session.map(|(session, _)| session.environment.as_str());
        let of_run = self.run.as_ref().map(|_| RUN_ENVIRONMENT);
        of_session.or(of_run).or(of_trace).or(own).unwrap_or_default()
    }
}

/// Reason for not evaluating a loaded target.
#[derive(Clone, Debug)]
pub(crate) enum NoCall {
    /// The target belongs to the server itself.
    LoopGuard(AttemptFailure),
    /// The mapping is invalid.
    InvalidConfig(AttemptFailure),
    /// The target lacks a mapped part.
    Missing(AttemptFailure),
    /// The mapping exceeds a limit for this target.
    TooLarge(AttemptFailure),
}

impl NoCall {
    /// The reason that is stored or shown.
    pub(crate) fn why(self) -> AttemptFailure {
        match self {
            Self::LoopGuard(why)
            | Self::InvalidConfig(why)
            | Self::Missing(why)
            | Self::TooLarge(why) => why,
        }
    }
}

/// Runs a long computation without blocking other tasks of this thread, if the runtime has several threads.
fn blocking<T>(work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Builds an item by applying a mapping to a target.
pub(crate) fn item_of(
    evaluator: &PreparedEvaluator,
    plan: &Result<MappingPlan, String>,
    loaded: &Loaded,
    on_missing: OnMissing,
) -> Result<Item, NoCall> {
    if is_reserved(loaded.environment()) {
        let message = "the target belongs to the server itself";
        return Err(NoCall::LoopGuard(AttemptFailure::new(NoCallReason::LoopGuard, message)));
    }
    let plan = plan.as_ref().map_err(|error| {
        NoCall::InvalidConfig(AttemptFailure::new(FailureClass::InvalidConfig, error))
    })?;
    let build = || {
        let subject = loaded.subject();
        plan.item(&subject, evaluator.needs, on_missing == OnMissing::Empty)
    };
    let item = match plan.parses() && LONG_BYTES < loaded.n_bytes() {
        true => blocking(build),
        false => build(),
    };
    item.map_err(|no_item| {
        let message = no_item.to_string();
        match no_item {
            ItemError::Missing(_) => {
                NoCall::Missing(AttemptFailure::new(NoCallReason::MissingVariable, &message))
            }
            ItemError::TooLarge { .. } => {
                NoCall::TooLarge(AttemptFailure::new(FailureClass::InvalidInput, &message))
            }
        }
    })
}

/// The variables that are mapped to parts that the target lacks.
pub(crate) fn missing_of(
    evaluator: &PreparedEvaluator,
    plan: &Result<MappingPlan, String>,
    loaded: &Loaded,
) -> Vec<String> {
    // Other errors of the mapping are reported per example.
    let plan = plan.as_ref().ok();
    plan.and_then(|plan| plan.missing(&loaded.subject(), evaluator.needs).ok()).unwrap_or_default()
}

/// The call of an evaluator for an item. Without an attempt it is a trial.
pub(crate) fn call_of(
    evaluator: &PreparedEvaluator,
    item: Arc<Item>,
    run_time: Timestamp,
    limits: Limits,
    (attempt, reuse): (Option<AttemptRef>, ReplyReuse),
) -> EvaluationCall {
    let version = &evaluator.evaluator.version;
    EvaluationCall {
        plugin: version.plugin,
        evaluator_id: Arc::clone(&evaluator.plugin_evaluator),
        config: Arc::clone(&evaluator.config),
        seed: identity::seed(&version.fingerprint, &item),
        item,
        run_time_ms: u64::try_from(run_time.as_millis()).unwrap_or_default(),
        limits,
        purpose: Purpose::Evaluate,
        origin: Some(Arc::new(CallOrigin::new(&evaluator.context, attempt).reusing(reuse))),
    }
}

/// The failure of an evaluator that returned no scores.
pub(crate) fn no_score_failure() -> AttemptFailure {
    AttemptFailure::new(FailureClass::NotApplicable, "the evaluator gave no score")
}

impl Inner {
    /// A target with the parts that its mapping reads.
    pub(crate) async fn load_target(
        &self,
        project: &ProjectId,
        target: &Target,
        plan: &Result<MappingPlan, String>,
    ) -> Result<LoadResult, perpend_db::Error> {
        match target {
            Target::Observation(trace, id) => {
                let own = self.load_one(project, trace, id).await?;
                Ok(own.map(Loaded::of_observation).into())
            }
            Target::Trace(id) => {
                let is_whole = plan.as_ref().is_ok_and(MappingPlan::reads_observations);
                let n_bytes = self.trace_bytes(project, id, is_whole).await?;
                if MAX_TRACE_BYTES < n_bytes {
                    let message = format!(
                        "the observations that the mapping reads have {} MiB of content; at most {} MiB are read",
                        n_bytes >> 20,
                        MAX_TRACE_BYTES >> 20
                    );
                    let class = FailureClass::InvalidInput;
                    return Ok(LoadResult::TooLarge(AttemptFailure::new(class, &message)));
                }
                Ok(self.load_trace(project, id, plan).await?.into())
            }
            Target::Session(id) => self.load_session(project, id, plan).await,
            Target::Run(run) => Ok(self.load_run(project, run).await?.into()),
        }
    }

    /// A session with the parts that its mapping reads.
    async fn load_session(
        &self,
        project: &ProjectId,
        id: &SessionId,
        plan: &Result<MappingPlan, String>,
    ) -> Result<LoadResult, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        let reads = |what: fn(&MappingPlan) -> bool| plan.as_ref().is_ok_and(what);
        let with_metadata = reads(MappingPlan::reads_session_metadata);
        let session = telemetry.target_session(project, id, with_metadata).await?;
        let Some(session) = session else {
            return Ok(LoadResult::Missing);
        };
        let mut conversation = Conversation::default();
        if reads(MappingPlan::reads_conversation) {
            for trace in telemetry.session_trace_ids(project, id).await? {
                let Some(last) = self.turn(project, &trace).await? else {
                    continue;
                };
                if let Err(too_long) = conversation.add(&last) {
                    let class = FailureClass::ContextTooLong;
                    return Ok(LoadResult::TooLarge(AttemptFailure::new(
                        class,
                        &too_long.to_string(),
                    )));
                }
            }
        }
        Ok(LoadResult::Loaded(Box::new(Loaded {
            session: Some((session, conversation)),
            ..Loaded::default()
        })))
    }

    /// The turn of a trace in a conversation: its last generation, or else its root.
    async fn turn(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Option<Observation>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        if let Some(last) = telemetry.last_generation(project, trace).await? {
            return Ok(Some(last));
        }
        let roots = telemetry.trace_roots(project, std::slice::from_ref(trace));
        match roots.await?.get(trace) {
            Some(root) => self.load_one(project, trace, root).await,
            None => Ok(None),
        }
    }

    /// A trace with the parts that its mapping reads.
    async fn load_trace(
        &self,
        project: &ProjectId,
        id: &TraceId,
        plan: &Result<MappingPlan, String>,
    ) -> Result<Option<Loaded>, perpend_db::Error> {
        let telemetry = &self.deps.store.telemetry;
        let Some(trace) = telemetry.target_trace(project, id).await? else {
            return Ok(None);
        };
        let reads_all = plan.as_ref().is_ok_and(MappingPlan::reads_observations);
        let observations = match reads_all {
            true => telemetry.target_trace_observations(project, id).await?,
            false => Vec::new(),
        };
        let observation = match &trace.root {
            Some(root) => self.load_one(project, id, root).await?,
            None => None,
        };
        Ok(Some(Loaded { observation, trace: Some(trace), observations, ..Loaded::default() }))
    }

    /// An observation with its content.
    async fn load_one(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        id: &ObservationId,
    ) -> Result<Option<Observation>, perpend_db::Error> {
        let keys = [(trace.clone(), id.clone())];
        let telemetry = &self.deps.store.telemetry;
        let mut found = telemetry.target_observations(project, &keys, true).await?;
        self.attach_items(project, found.iter_mut().collect()).await?;
        Ok(found.pop())
    }
}
