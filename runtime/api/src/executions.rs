//! Executions of a trace, counters of a rule, and the explanation of the score of one
//! target.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::extract::{Path, State};
use perpend_api_types::execution::{
    self as contract, AssignmentFacts, Counters, ExecutionWithAttempts, ExplanationDetails,
    HourlyCount, LostTargets,
};
use perpend_api_types::list::{CompleteList, CursorList};
use perpend_api_types::score::{ScoreGroups, ScoreV3, SupersededScore};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Execution, Rule, Target, TargetKind};
use perpend_domain::ids::{ExecutionId, ObservationId, ProjectId, SessionId, TraceId};
use perpend_domain::time::Timestamp;
use perpend_executions::{RuleCount, rule_funnel};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use perpend_scheduler::{Explanation, ExplanationStep, Refusal};

use super::evaluators::PAGE;
use super::{model_calls, rules};
use crate::state::{App, Routes};

const HOUR_MS: i64 = 3_600_000;

/// The stored end of an omission without end: a total budget is never renewed.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

const TARGET: &[Param] = &[
    param("traceId", "string", "Id of the trace; required except for rules of sessions."),
    param(
        "observationId",
        "string",
        "Id of the observation; required for rules of observations, and for rules of experiments unless a run links an \
         item to the trace.",
    ),
    param("sessionId", "string", "Id of the session; required for rules of sessions."),
    param("runId", "string", "Id of the run; required for rules of runs."),
];
const OVER: &[Param] = &[
    param("traceId", "string", "Id of the trace; this, `sessionId` or `runId` is required."),
    param("sessionId", "string", "Id of the session."),
    param("runId", "string", "Id of the run of an experiment."),
];
const ONE: &str = "/api/v1/executions/{executionId}";
const COUNTERS: &[Param] =
    &[param("hours", "integer", "Length of the period in hours, 1 to 720; 24 when absent.")];

pub(super) fn routes(routes: &mut Routes) {
    let explain = Operation::get(
        "explainTarget",
        "/api/v1/evaluation-rules/{ruleId}/explain",
        "Explain why a target has a score of a rule, or none",
        EvaluatorRead,
    );
    routes.add(explain.query(TARGET), explain_target);
    let counters = Operation::get(
        "getRuleCounters",
        "/api/v1/evaluation-rules/{ruleId}/counters",
        "Count the targets of a rule by hour and outcome",
        EvaluatorRead,
    );
    routes.add(counters.query(COUNTERS), list_counters);
    let executions = Operation::get(
        "listExecutions",
        "/api/v1/executions",
        "List the executions of a trace and its observations, or of a session",
        EvaluatorRead,
    );
    routes.add(executions.query(OVER), list_executions);
    let failed = Operation::get(
        "listFailedExecutions",
        "/api/v1/failed-executions",
        "List failed executions, latest first",
        EvaluatorRead,
    );
    routes.add(failed.query(PAGE), list_failed_executions);
    let one = Operation::get(
        "getExecution",
        ONE,
        "Get an execution with its failed attempts and superseded scores",
        EvaluatorRead,
    );
    routes.add(one, get_execution);
    let requeue = Operation::post(
        "requeueExecution",
        "/api/v1/executions/{executionId}/requeue",
        "Requeue a failed execution with a new count of attempts",
        EvaluatorWrite,
    );
    routes.add(requeue, requeue_execution);
}

fn trace_id(params: &Params) -> Result<TraceId, Problem> {
    let text = params.text("traceId").ok_or_else(|| {
        Problem::query("traceId", "one of traceId, sessionId and runId is required")
    })?;
    TraceId::new(text).map_err(|error| Problem::query("traceId", error.to_string()))
}

fn session_id(params: &Params) -> Result<SessionId, Problem> {
    let text = params
        .text("sessionId")
        .ok_or_else(|| Problem::query("sessionId", "is required: the rule scores sessions"))?;
    SessionId::new(text).map_err(|error| Problem::query("sessionId", error.to_string()))
}

async fn list_executions(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CompleteList<contract::Execution>>, Problem> {
    let target = match params.text("sessionId") {
        Some(_) if params.text("traceId").is_some() => {
            let message = "must be absent with traceId";
            return Err(Problem::query("sessionId", message));
        }
        Some(_) => Target::Session(session_id(&params)?),
        None => match params.text("runId") {
            Some(_) if params.text("traceId").is_some() => {
                return Err(Problem::query("runId", "must be absent with traceId"));
            }
            Some(run) => Target::Run(run.to_owned()),
            None => Target::Trace(trace_id(&params)?),
        },
    };
    let ledger = &app.store.ledger;
    let rows = ledger.executions_over(&caller.project, &target).await?;
    Ok(Answer(CompleteList { data: rows.iter().map(Into::into).collect() }))
}

async fn list_failed_executions(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<CursorList<contract::Execution>>, Problem> {
    let limit = params.int("limit", 1, 100, 50)?;
    let after = match cursor::position(&params)? {
        None => None,
        Some(cursor) => {
            let id: Result<ExecutionId, _> = cursor.id.parse();
            Some((cursor.at, id.map_err(|_| cursor::invalid_cursor())?))
        }
    };
    let after = after.as_ref().map(|(at, id)| (*at, id));
    let failed = app.store.ledger.failed_executions(&caller.project, after, limit);
    let page = failed.await?;
    Ok(Answer(CursorList {
        data: page.items.iter().map(Into::into).collect(),
        meta: cursor::meta(page.next.as_ref()),
    }))
}

async fn find(app: &App, project: &ProjectId, id: &str) -> Result<Execution, Problem> {
    let none = || Problem::not_found("execution");
    let id: ExecutionId = id.parse().map_err(|_| none())?;
    app.store.ledger.execution(project, &id).await?.ok_or_else(none)
}

async fn get_execution(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<ExecutionWithAttempts>, Problem> {
    let row = find(&app, &caller.project, &id).await?;
    let id = &row.made.id;
    let attempts = app.store.ledger.attempts(&caller.project, id).await?;
    let target = &row.made.target;
    let superseded = app.store.telemetry.superseded_scores(&caller.project, target, id);
    let superseded = superseded.await?.into_iter();
    let superseded = superseded.map(|(score, by)| SupersededScore {
        score: ScoreV3::new(&caller.project, &score, ScoreGroups::ALL),
        superseded_by: by,
    });
    let calls = app.store.ledger.model_calls(&caller.project, id).await?;
    let log = app.store.ledger.execution_log(&row).await?;
    Ok(Answer(ExecutionWithAttempts {
        cost_usd: model_calls::cost(calls.iter().map(|(_, call)| call)),
        model_calls: calls.into_iter().map(model_calls::view).collect(),
        log: log.into_iter().map(Into::into).collect(),
        execution: (&row).into(),
        failed_attempts: attempts.into_iter().map(Into::into).collect(),
        superseded_scores: superseded.collect(),
    }))
}

async fn requeue_execution(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<contract::Execution>, Problem> {
    let row = find(&app, &caller.project, &id).await?;
    let now = app.web.clock.now();
    let id = &row.made.id;
    match app.store.ledger.requeue_execution(&caller.project, id, now).await {
        Ok(()) => app.scheduler.wake(),
        Err(perpend_db::Error::NotFound) => {
            let state = row.state.as_str();
            let message = format!(
                "only a failed execution can be requeued; the state of this one is {state}"
            );
            return Err(Problem::new(Code::Conflict, message));
        }
        Err(error) => return Err(error.into()),
    }
    let row = find(&app, &caller.project, id.as_str()).await?;
    Ok(Answer((&row).into()))
}

async fn list_counters(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<Counters>, Problem> {
    let rule = rules::find(&app, &caller.project, &id).await?;
    let hours = params.int("hours", 1, 720, 24)?;
    let from = app.web.clock.now().plus_millis(-i64::from(hours) * HOUR_MS);
    let counts = app.store.ledger.rule_counts(&caller.project, &rule.id, from).await?;
    let states = app.store.ledger.rule_states(&caller.project, &rule.id).await?;
    let funnel = rule_funnel(&counts, &states);
    let mut lost: BTreeMap<_, u64> = BTreeMap::new();
    for count in &counts {
        if [RuleCount::BUDGET, RuleCount::SKIPPED_FOR_BUDGET].contains(&count.reason.as_str()) {
            *lost.entry(Reverse(count.hour)).or_default() += count.n;
        }
    }
    let lost = lost.into_iter().map(|(hour, count)| LostTargets { hour: hour.0, count });
    let lost = lost.collect();
    let by_hour = counts.into_iter().map(|count| HourlyCount {
        hour: count.hour,
        reason: count.reason,
        count: count.n,
    });
    let open = states.into_iter();
    Ok(Answer(Counters {
        data: by_hour.collect(),
        states: open.map(|count| (count.state.as_str().to_owned(), count.n)).collect(),
        lost_to_budget: lost,
        funnel,
    }))
}

async fn explain_target(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<contract::Explanation>, Problem> {
    let rule = rules::find(&app, &caller.project, &id).await?;
    let target = match linked_item(&app, &caller.project, &rule, &params).await? {
        Some(linked) => linked,
        None => target(&rule, &params)?,
    };
    let explanation = app.scheduler.explain(&caller.project, &rule, &target).await?;
    Ok(Answer(explanation_view(&rule, target, &explanation)))
}

/// The observation of a trace that a run links as an item, or the trace if it has not arrived; if a rule of experiments is given
/// the trace alone.
async fn linked_item(
    app: &App,
    project: &ProjectId,
    rule: &Rule,
    params: &Params,
) -> Result<Option<Target>, Problem> {
    let others = ["observationId", "sessionId"];
    let is_trace_alone = others.iter().all(|name| params.text(name).is_none());
    if rule.target != TargetKind::Experiment || !is_trace_alone || params.text("traceId").is_none()
    {
        return Ok(None);
    }
    let trace = trace_id(params)?;
    let (telemetry, traces) = (&app.store.telemetry, std::slice::from_ref(&trace));
    if let Some(item) = telemetry.linked_items(project, traces).await?.pop() {
        return Ok(Some(Target::Observation(trace, item.observation_id)));
    }
    let missing = telemetry.missing_items(project, traces).await?;
    Ok((!missing.is_empty()).then_some(Target::Trace(trace)))
}

fn target(rule: &Rule, params: &Params) -> Result<Target, Problem> {
    let observation = params.text("observationId").map(ObservationId::new).transpose();
    let observation_id =
        observation.map_err(|error| Problem::query("observationId", error.to_string()))?;
    match (rule.target, &observation_id) {
        (TargetKind::Observation | TargetKind::Experiment, None) => {
            return Err(Problem::query(
                "observationId",
                "is required: the rule scores observations",
            ));
        }
        (TargetKind::Trace, Some(_)) => {
            return Err(Problem::query("observationId", "must be absent: the rule scores traces"));
        }
        (TargetKind::Run, _) => {
            let others = ["traceId", "observationId", "sessionId"];
            if let Some(other) = others.iter().find(|name| params.text(name).is_some()) {
                return Err(Problem::query(other, "must be absent: the rule scores runs"));
            }
            let run = params.text("runId");
            let run = run.ok_or_else(|| {
                Problem::query("runId", "is required: the rule scores runs of experiments")
            })?;
            return Ok(Target::Run(run.to_owned()));
        }
        (TargetKind::Session, _) => {
            let others = ["traceId", "observationId"];
            if let Some(other) = others.iter().find(|name| params.text(name).is_some()) {
                let message = "must be absent: the rule scores sessions";
                return Err(Problem::query(other, message));
            }
            return Ok(Target::Session(session_id(params)?));
        }
        _ => {}
    }
    if params.text("sessionId").is_some() {
        let message = "must be absent: the rule does not score sessions";
        return Err(Problem::query("sessionId", message));
    }
    Ok(Target::within(trace_id(params)?, observation_id))
}

fn explanation_view(
    rule: &Rule,
    target: Target,
    explanation: &Explanation,
) -> contract::Explanation {
    let step = &explanation.step;
    contract::Explanation {
        evaluation_rule_id: rule.id.clone(),
        trace_id: target.trace().cloned(),
        observation_id: target.observation().cloned(),
        session_id: target.session().cloned(),
        run_id: target.run().map(str::to_owned),
        step: step.name().to_owned(),
        explanation: step.sentence(),
        details: facts(step),
        executions: explanation.executions.iter().map(Into::into).collect(),
    }
}

/// The details of a step.
fn facts(step: &ExplanationStep) -> ExplanationDetails {
    let none = ExplanationDetails::default;
    match step {
        ExplanationStep::NoSuchTarget | ExplanationStep::Due => none(),
        ExplanationStep::NotComplete { complete_at } => {
            ExplanationDetails { complete_at: Some(*complete_at), ..none() }
        }
        ExplanationStep::WaitingForRule { rule, .. } => {
            ExplanationDetails { waiting_for_rule_id: Some(rule.clone()), ..none() }
        }
        ExplanationStep::WaitingForFiring { firing_at } => {
            ExplanationDetails { firing_at: Some(*firing_at), ..none() }
        }
        ExplanationStep::Refused(refusal) => match refusal {
            Refusal::RuleInactive
            | Refusal::RulePaused
            | Refusal::InternalEnvironment
            | Refusal::NotAnItem
            | Refusal::RootMissing => none(),
            Refusal::NotMatched { index, condition, actual } => ExplanationDetails {
                index: Some(*index),
                condition: Some(condition.clone()),
                actual: Some(actual.clone()),
                ..none()
            },
            Refusal::SampledOut { value, rate } => {
                ExplanationDetails { sample: Some(*value), sampling: Some(*rate), ..none() }
            }
        },
        ExplanationStep::OlderThanRule { arrived_at, rule_created_at, .. } => ExplanationDetails {
            arrived_at: Some(*arrived_at),
            rule_created_at: Some(*rule_created_at),
            ..none()
        },
        ExplanationStep::Taken { sample, rate, completion, is_audit, assignments, .. } => {
            let assignments = assignments.iter().map(|assignment| AssignmentFacts {
                assignment_id: assignment.assignment.clone(),
                evaluator_id: assignment.evaluator.clone(),
                shadow_version: assignment.shadow,
                execution_id: assignment.execution.clone(),
                late_observation_count: assignment.n_late,
                skipped_until: assignment.skipped_until.filter(|until| *until < NEVER),
            });
            ExplanationDetails {
                sample: Some(*sample),
                sampling: Some(*rate),
                complete_at: Some(Some(completion.at)),
                completion_reason: Some(completion.reason),
                audit: is_audit.then_some(true),
                assignments: Some(assignments.collect()),
                ..none()
            }
        }
    }
}
