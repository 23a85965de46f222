//! Trials: an evaluator runs on a few targets, or on a given item, and nothing is stored.

use std::time::Duration;

use axum::extract::State;
use perpend_api_types::trial::{
    self as contract, RecentTargets, TrialInput, TrialItem, TrialTarget,
};
use perpend_catalog::NewVersion;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_domain::evaluation::{
    Evaluator, EvaluatorVersion, Mapping, OnMissing, Rule, Target, TargetKind,
};
use perpend_domain::ids::{ObservationId, ProjectId, SessionId, TraceId};
use perpend_domain::mapping::{ManualItem, VARIABLES};
use perpend_domain::plugin::{Item, ReplyPolicy, ReplyReuse};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Body, from_value, must_be_one_of};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading;
use perpend_http_kit::routes::Operation;
use perpend_scheduler::{Trial, TrialResult, TrialScore, TrialSubject};
use serde_json::{Map, Value};

use super::definition::check_mapping_for;
use super::find::{checked_name, find, parse_id};
use super::input;
use crate::model_calls;
use crate::selections::selection;
use crate::state::{App, Routes};

const TRIAL: &str = "/api/v1/evaluations/trial";
const MAX_TARGETS: usize = 50;
/// Recent targets of a trial without a limit.
const DEFAULT_RECENT: usize = 10;
/// Kinds of recent targets.
const RECENT_KINDS: [TargetKind; 4] =
    [TargetKind::Observation, TargetKind::Experiment, TargetKind::Trace, TargetKind::Session];
/// Time limit of a trial, and of the trials for a rule that is enabled.
pub(crate) const LIMIT: Duration = Duration::from_secs(95);

pub(super) fn routes(routes: &mut Routes) {
    let trial = Operation::post(
        "tryEvaluator",
        TRIAL,
        "Run an evaluator on some targets or an item without storing the result",
        EvaluatorWrite,
    );
    routes.add(trial.body::<TrialInput>().unrecorded(), try_evaluator);
}

async fn try_evaluator(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<TrialInput>,
) -> Result<Answer<contract::Trial>, Problem> {
    let project = &caller.project;
    let CheckedTrial { evaluator, subjects, on_missing } =
        checked_trial(&app, project, &input).await?;
    let _turn = app.trials.wait(project).await?;
    let on = subjects.resolve(&app, project).await?;
    let trial = Trial {
        evaluator,
        mapping: input.variable_mapping,
        on_missing,
        on: on.clone(),
        reuse: reuse(input.fresh, 0),
        limit: LIMIT,
    };
    let results = app.scheduler.trial(project, trial).await?;
    let data = on.iter().zip(results).map(|(on, result)| trial_result(on, result));
    Ok(Answer(contract::Trial { data: data.collect() }))
}

/// The parts of a request for a trial.
pub(super) struct CheckedTrial {
    pub(super) evaluator: Evaluator,
    pub(super) subjects: Subjects,
    pub(super) on_missing: OnMissing,
}

/// Validates a request for a trial.
///
/// # Errors
/// Every invalid member, with its field.
pub(super) async fn checked_trial(
    app: &App,
    project: &ProjectId,
    input: &TrialInput,
) -> Result<CheckedTrial, Problem> {
    let evaluator = evaluator_of(app, project, input).await;
    let (evaluator, subjects) = match (evaluator, subjects(app, project, input).await) {
        (Ok(evaluator), Ok(subjects)) => (evaluator, subjects),
        (evaluator, subjects) => {
            let problems = evaluator.err().into_iter().chain(subjects.err());
            return Err(Problem::all(problems.collect()).unwrap_or_else(Problem::internal));
        }
    };
    let on_missing = match input.on_missing.as_deref() {
        None => OnMissing::Fail,
        Some(raw) => raw.parse().map_err(|_| {
            Problem::body("onMissing", must_be_one_of(&["fail", "skip", "empty"], raw))
        })?,
    };
    check_plan(&evaluator, input.variable_mapping.as_deref(), subjects.kinds())?;
    Ok(CheckedTrial { evaluator, subjects, on_missing })
}

/// Cached replies are used unless the request is `fresh`.
pub(super) fn reuse(is_fresh: Option<bool>, run: u32) -> ReplyReuse {
    let replies = match is_fresh {
        Some(true) => ReplyPolicy::Refresh,
        _ => ReplyPolicy::Any,
    };
    ReplyReuse { replies, run }
}

/// The inputs of a trial.
pub(super) enum Subjects {
    Given(Vec<TrialSubject>),
    /// The newest targets that an unsaved rule selects, at most this number.
    Recent(Box<Rule>, usize),
}

impl Subjects {
    fn kinds(&self) -> Vec<TargetKind> {
        match self {
            Self::Given(given) => kinds(given).collect(),
            Self::Recent(rule, _) => vec![rule.target],
        }
    }

    pub(super) async fn resolve(
        self,
        app: &App,
        project: &ProjectId,
    ) -> Result<Vec<TrialSubject>, Problem> {
        match self {
            Self::Given(given) => Ok(given),
            Self::Recent(rule, max) => {
                let newest = app.scheduler.newest_matches(project, *rule, max);
                let newest = reading::limited(&app.web, project, newest).await?;
                Ok(newest.into_iter().map(TrialSubject::Target).collect())
            }
        }
    }
}

/// The kinds of the targets among the inputs.
pub(super) fn kinds<'t>(
    subjects: impl IntoIterator<Item = &'t TrialSubject>,
) -> impl Iterator<Item = TargetKind> {
    subjects.into_iter().filter_map(|subject| match subject {
        TrialSubject::Target(target) => Some(target.kind()),
        TrialSubject::Written(_) => None,
    })
}

/// The inputs that a request names.
async fn subjects(app: &App, project: &ProjectId, input: &TrialInput) -> Result<Subjects, Problem> {
    match (&input.targets, &input.item, &input.recent) {
        (Some(targets), None, None) if (1..=MAX_TARGETS).contains(&targets.len()) => {
            let targets = targets.iter().enumerate();
            let targets = targets.map(|(at, target)| checked_target(at, target));
            let targets = targets.map(|target| target.map(TrialSubject::Target));
            Ok(Subjects::Given(targets.collect::<Result<_, Problem>>()?))
        }
        (Some(targets), None, None) => {
            let message = format!("must contain 1 to {MAX_TARGETS} targets, got {}", targets.len());
            Err(Problem::body("targets", message))
        }
        (None, Some(item), None) => {
            let item = from_value(&Value::Object(item.clone()));
            let item = item.map_err(|problem| problem.in_member("item"))?;
            Ok(Subjects::Given(vec![TrialSubject::Written(Box::new(manual_item(item)))]))
        }
        (None, None, Some(recent)) => {
            let selected = recent_targets(app, project, recent).await;
            selected.map_err(|problem| problem.in_member("recent"))
        }
        _ => Err(Problem::body("targets", "one of targets, recent and item is required")),
    }
}

async fn recent_targets(
    app: &App,
    project: &ProjectId,
    recent: &RecentTargets,
) -> Result<Subjects, Problem> {
    let target = match recent.target.as_deref() {
        None => TargetKind::Observation,
        Some(raw) => {
            let found = RECENT_KINDS.into_iter().find(|kind| kind.as_str() == raw);
            let names = RECENT_KINDS.map(TargetKind::as_str);
            found.ok_or_else(|| Problem::body("target", must_be_one_of(&names, raw)))?
        }
    };
    let limit = recent.limit.map_or(DEFAULT_RECENT, |limit| limit as usize);
    if !(1..=MAX_TARGETS).contains(&limit) {
        let message = format!("must be from 1 to {MAX_TARGETS}, got {limit}");
        return Err(Problem::body("limit", message));
    }
    let rule = selection(app, project, target, recent.filter.clone()).await?;
    Ok(Subjects::Recent(Box::new(rule), limit))
}

/// A target in a list of targets.
pub(crate) fn checked_target(at: usize, target: &TrialTarget) -> Result<Target, Problem> {
    let wrong =
        |member: &str, message: String| Problem::body(&format!("targets[{at}].{member}"), message);
    let (trace, session) = (target.trace_id.as_deref(), target.session_id.as_deref());
    let observation = target.observation_id.as_deref().map(ObservationId::new);
    let observation = observation.transpose();
    let observation = observation.map_err(|error| wrong("observationId", error.to_string()))?;
    Ok(match (trace, session) {
        (Some(trace), None) => {
            let trace = TraceId::new(trace);
            let trace = trace.map_err(|error| wrong("traceId", error.to_string()))?;
            Target::within(trace, observation)
        }
        (None, Some(_)) if observation.is_some() => {
            let message = "must be absent with sessionId";
            return Err(wrong("observationId", message.to_owned()));
        }
        (None, Some(session)) => {
            let session = SessionId::new(session);
            Target::Session(session.map_err(|error| wrong("sessionId", error.to_string()))?)
        }
        (None, None) => {
            return Err(wrong("traceId", "either traceId or sessionId is required".to_owned()));
        }
        (Some(_), Some(_)) => {
            let message = "must be absent with traceId";
            return Err(wrong("sessionId", message.to_owned()));
        }
    })
}

pub(super) fn manual_item(item: TrialItem) -> ManualItem {
    ManualItem {
        input: item.input,
        output: item.output,
        expected_output: item.expected_output,
        metadata: item.metadata,
        variables: item.variables,
    }
}

/// The evaluator of a trial: a saved one or a draft.
async fn evaluator_of(
    app: &App,
    project: &ProjectId,
    input: &TrialInput,
) -> Result<Evaluator, Problem> {
    match (&input.evaluator_id, &input.evaluator) {
        (Some(id), None) => {
            let mut evaluator = find(app, project, id).await?;
            if let Some(number) = input.version {
                evaluator.version = at_version(app, project, &evaluator, number).await?;
            }
            Ok(evaluator)
        }
        (None, Some(body)) if input.version.is_none() => {
            let made = draft(app, project, body.clone()).await;
            made.map_err(|problem| problem.in_member("evaluator"))
        }
        (None, Some(_)) => Err(Problem::body("version", "must be absent with evaluator")),
        _ => Err(Problem::body("evaluatorId", "either evaluatorId or evaluator is required")),
    }
}

/// A version by number.
pub(super) async fn at_version(
    app: &App,
    project: &ProjectId,
    evaluator: &Evaluator,
    number: u32,
) -> Result<EvaluatorVersion, Problem> {
    let found = app.store.catalog.evaluator_at(project, &evaluator.id, number);
    let none = || Problem::not_found("version of this evaluator");
    Ok(found.await?.ok_or_else(none)?.version)
}

async fn draft(app: &App, project: &ProjectId, body: Value) -> Result<Evaluator, Problem> {
    let input = input::split(body)?;
    let name = checked_name(&input.name)?;
    let version = input.definition.check(app, project).await?;
    unsaved(app, name, &version)
}

/// An unsaved evaluator.
pub(super) fn unsaved(app: &App, name: String, version: &NewVersion) -> Result<Evaluator, Problem> {
    let now = app.web.clock.now();
    Ok(Evaluator {
        id: parse_id(&app.web.ids.uuid().to_string())?,
        name,
        description: None,
        paused: None,
        created_at: now,
        updated_at: now,
        version: first_version(version.clone(), now),
    })
}

pub(super) fn first_version(new: NewVersion, now: Timestamp) -> EvaluatorVersion {
    EvaluatorVersion {
        id: new.id,
        number: 1,
        plugin: new.plugin,
        plugin_name: new.plugin_name,
        plugin_version: new.plugin_version,
        plugin_evaluator: new.plugin_evaluator,
        config: new.config,
        mapping: new.mapping,
        grants: new.grants,
        slots: new.slots,
        fingerprint: new.fingerprint,
        created_at: now,
    }
}

/// Validates the mapping for the targets.
pub(super) fn check_plan(
    evaluator: &Evaluator,
    mapping: Option<&[Mapping]>,
    kinds: impl IntoIterator<Item = TargetKind>,
) -> Result<(), Problem> {
    let version = &evaluator.version;
    let mapping = mapping.unwrap_or(&version.mapping);
    kinds
        .into_iter()
        .try_for_each(|kind| check_mapping_for("variableMapping", version, mapping, kind))
}

fn trial_result(on: &TrialSubject, result: TrialResult) -> contract::TrialResult {
    let target = match on {
        TrialSubject::Target(target) => Some(target),
        TrialSubject::Written(_) => None,
    };
    let (scores, why) = match result.outcome {
        Ok(scores) => (scores, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    let (class, message) = why.map(|why| (why.class.as_str().to_owned(), why.message)).unzip();
    contract::TrialResult {
        trace_id: target.and_then(Target::trace).cloned(),
        observation_id: target.and_then(Target::observation).cloned(),
        session_id: target.and_then(Target::session).cloned(),
        item: result.item.map(trial_item),
        scores: scores.into_iter().map(trial_score).collect(),
        error_class: class,
        error_line: message.as_deref().and_then(line_of),
        error_message: message,
        log: result.log.into_iter().map(Into::into).collect(),
        cost_usd: model_calls::cost(&result.model_calls),
        model_calls: result
            .model_calls
            .into_iter()
            .map(|call| model_calls::view((0, call)))
            .collect(),
        duration_ms: result.took_ms,
        cpu_microseconds: result.cpu_us,
    }
}

/// The line in the message of an error of a code evaluator, such as `ValueError: x (line 3, in evaluate)`.
fn line_of(message: &str) -> Option<u32> {
    let (_, rest) = message.rsplit_once(" (line ")?;
    let end = rest.find([',', ')'])?;
    rest[..end].parse().ok()
}

/// An item with its variables as a separate member.
pub(crate) fn trial_item(item: Item) -> TrialItem {
    let metadata = item.metadata.as_deref().map(serde_json::from_str);
    let mut metadata: Option<Map<String, Value>> = metadata.and_then(Result::ok);
    let variables = metadata.as_mut().and_then(|members| members.shift_remove(VARIABLES));
    TrialItem {
        input: item.input.map(|part| part.to_value()),
        output: item.output.map(|part| part.to_value()),
        expected_output: item.expected_output.map(|part| part.to_value()),
        metadata: metadata.filter(|members| !members.is_empty()),
        variables: match variables {
            Some(Value::Object(variables)) => variables,
            _ => Map::new(),
        },
    }
}

fn trial_score(score: TrialScore) -> contract::TrialScore {
    contract::TrialScore {
        value: (&score.value).into(),
        data_type: score.value.data_type(),
        name: score.name,
        comment: score.comment,
        metadata: score.metadata,
        observation_id: score.observation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_error_of_a_code_evaluator_is_found() {
        assert_eq!(line_of("ValueError: a (line 9) (line 3, in evaluate)"), Some(3));
        assert_eq!(line_of("SyntaxError: unexpected token (line 12, column 4)"), Some(12));
        for message in ["TypeError: x", "x (line )", "x (line 3", "timeout (line three)"] {
            assert_eq!(line_of(message), None, "{message}");
        }
    }
}
