//! Why is there a score, or none: executions of a trace, counters of a rule, and the explanation of one
//! target.

use axum::Json;
use axum::extract::{Path, State};
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{EndReason, ExecutionState, Rule, Target, TargetKind};
use perpend_domain::ids::{ExecutionId, ObservationId, ProjectId, TraceId};
use perpend_ledger::LedgerEntry;
use perpend_scheduler::{Explanation, Refusal, Step};
use serde_json::{Map, Value, json};

use super::evaluators::PAGE;
use super::scores::view::{Fields, v3 as view_of_score};
use super::{cursor, rules};
use crate::App;
use crate::auth::Act;
use crate::extract::{Param, Params, param};
use crate::problem::{Code, Problem};
use crate::routes::{Operation, Routes};

const HOUR_MS: i64 = 3_600_000;

const TARGET: &[Param] = &[
    param("traceId", "string", "The trace.").needed(),
    param(
        "observationId",
        "string",
        "The observation, for rules whose target is one.",
    ),
];
const TRACE: &[Param] = &[param("traceId", "string", "The trace.").needed()];
const ONE: &str = "/api/v1/executions/{executionId}";
const COUNTERS: &[Param] = &[param(
    "hours",
    "integer",
    "How far back, 1 to 720, 24 when absent.",
)];

pub(super) fn routes(routes: &mut Routes) {
    let explain = Operation::get(
        "explainTarget",
        "/api/v1/evaluation-rules/{ruleId}/explain",
        "Why a target has a score of this rule, or none",
        EvaluatorRead,
    );
    routes.add(explain.query(TARGET), explain_target);
    let counters = Operation::get(
        "getRuleCounters",
        "/api/v1/evaluation-rules/{ruleId}/counters",
        "What happened to the targets of a rule, by hour and reason",
        EvaluatorRead,
    );
    routes.add(counters.query(COUNTERS), list_counters);
    let executions = Operation::get(
        "listExecutions",
        "/api/v1/executions",
        "Executions over a trace and what is in it",
        EvaluatorRead,
    );
    routes.add(executions.query(TRACE), list_executions);
    let failed = Operation::get(
        "listFailedExecutions",
        "/api/v1/failed-executions",
        "Executions that failed for good, the last first",
        EvaluatorRead,
    );
    routes.add(failed.query(PAGE), list_failed_executions);
    let one = Operation::get(
        "getExecution",
        ONE,
        "One execution, with the attempts that gave no score and the scores that a later one took the place of",
        EvaluatorRead,
    );
    routes.add(one, get_execution);
    let requeue = Operation::post(
        "requeueExecution",
        "/api/v1/executions/{executionId}/requeue",
        "Put a failed execution back into the queue, its attempts counted anew",
        EvaluatorWrite,
    );
    routes.add(requeue, requeue_execution);
}

fn trace_id(params: &Params) -> Result<TraceId, Problem> {
    let text = params
        .text("traceId")
        .ok_or_else(|| Problem::query("traceId", "needed"))?;
    TraceId::new(text).map_err(|error| Problem::query("traceId", error.to_string()))
}

/// The word of the compat API for a state.
const fn public_status(state: ExecutionState) -> &'static str {
    match state {
        ExecutionState::Pending | ExecutionState::Running => "PENDING",
        ExecutionState::Delayed | ExecutionState::Held => "DELAYED",
        ExecutionState::Completed | ExecutionState::Skipped => "COMPLETED",
        ExecutionState::Failed => "ERROR",
        ExecutionState::Cancelled => "CANCELLED",
    }
}

fn view(row: &LedgerEntry) -> Value {
    let execution = &row.execution;
    let made = &execution.made;
    json!({
        "id": made.id,
        "evaluationRuleId": made.rule_id,
        "assignmentId": made.assignment_id,
        "evaluatorId": made.evaluator_id,
        "evaluatorVersionId": execution.evaluator_version_id,
        "traceId": made.target.trace_id,
        "observationId": made.target.observation_id,
        "generation": made.generation,
        "state": execution.state.as_str(),
        "status": public_status(execution.state),
        "attempts": execution.attempts,
        "errorClass": execution.error_class.map(EndReason::as_str),
        "errorMessage": execution.error_message,
        "inclusionProbability": made.inclusion_probability,
        "completionReason": made.completion.as_str(),
        "observationCount": made.n_observations,
        "lateObservationCount": row.n_late,
        "createdAt": execution.created_at,
        "dueAt": (!execution.state.is_final()).then_some(execution.due_at),
        "firstAttemptAt": execution.first_attempt_at,
        "finishedAt": execution.finished_at,
    })
}

async fn list_executions(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let id = trace_id(&params)?;
    let rows = app
        .store
        .ledger
        .trace_executions(&caller.project, &id)
        .await?;
    let data: Vec<Value> = rows.iter().map(view).collect();
    Ok(Json(json!({ "data": data })))
}

async fn list_failed_executions(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let limit = params.int("limit", 1, 100, 50)?;
    let after = match cursor::place(&params)? {
        None => None,
        Some(place) => {
            let id: Result<ExecutionId, _> = place.id.parse();
            Some((place.at, id.map_err(|_| cursor::broken())?))
        }
    };
    let after = after.as_ref().map(|(at, id)| (*at, id));
    let failed = app
        .store
        .ledger
        .failed_executions(&caller.project, after, limit);
    let page = failed.await?;
    let data: Vec<Value> = page.items.iter().map(view).collect();
    let meta = cursor::meta(page.next.as_ref());
    Ok(Json(json!({ "data": data, "meta": meta })))
}

async fn existing(app: &App, project: &ProjectId, id: &str) -> Result<LedgerEntry, Problem> {
    let none = || Problem::not_found("execution");
    let id: ExecutionId = id.parse().map_err(|_| none())?;
    app.store
        .ledger
        .execution(project, &id)
        .await?
        .ok_or_else(none)
}

async fn get_execution(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let row = existing(&app, &caller.project, &id).await?;
    let id = &row.execution.made.id;
    let attempts = app.store.ledger.attempts(&caller.project, id).await?;
    let attempts: Vec<Value> = attempts
        .iter()
        .map(|attempt| {
            json!({
                "number": attempt.number,
                "endedAt": attempt.ended_at,
                "errorClass": attempt.class.as_str(),
                "errorMessage": attempt.message,
                "evaluatorVersionId": attempt.version,
                "cpuMicroseconds": attempt.cpu_us,
            })
        })
        .collect();
    let trace = &row.execution.made.target.trace_id;
    let aside = app
        .store
        .telemetry
        .superseded_scores(&caller.project, trace, id);
    let aside = aside.await?;
    let aside = aside.iter().map(|(score, by)| {
        let mut view = view_of_score(&caller.project, score, Fields::ALL);
        view["supersededBy"] = json!(by);
        view
    });
    let mut shown = view(&row);
    shown["failedAttempts"] = attempts.into();
    shown["supersededScores"] = aside.collect();
    Ok(Json(shown))
}

async fn requeue_execution(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let row = existing(&app, &caller.project, &id).await?;
    let now = app.clock.now();
    let id = &row.execution.made.id;
    match app
        .store
        .ledger
        .requeue_execution(&caller.project, id, now)
        .await
    {
        Ok(()) => app.scheduler.wake(),
        Err(perpend_sql::Error::NotFound) => {
            let state = row.execution.state.as_str();
            let said = format!("only a failed execution can be put back; this one is {state}");
            return Err(Problem::new(Code::Conflict, said));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Json(view(
        &existing(&app, &caller.project, id.as_str()).await?,
    )))
}

async fn list_counters(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let rule = rules::existing(&app, &caller.project, &id).await?;
    let hours = params.int("hours", 1, 720, 24)?;
    let from = app.clock.now().plus_millis(-i64::from(hours) * HOUR_MS);
    let counts = app
        .store
        .ledger
        .rule_counts(&caller.project, &rule.id, from)
        .await?;
    let states = app
        .store
        .ledger
        .rule_states(&caller.project, &rule.id)
        .await?;
    let by_hour: Vec<Value> = counts
        .iter()
        .map(|count| json!({ "hour": count.hour, "reason": count.reason, "count": count.n }))
        .collect();
    let open: Map<String, Value> = states
        .iter()
        .map(|count| (count.state.as_str().to_owned(), count.n.into()))
        .collect();
    Ok(Json(json!({ "data": by_hour, "states": open })))
}

async fn explain_target(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let rule = rules::existing(&app, &caller.project, &id).await?;
    let target = target(&rule, &params)?;
    let explanation = app
        .scheduler
        .explain(&caller.project, &rule, &target)
        .await?;
    Ok(Json(explanation_view(&rule, &target, &explanation)))
}

fn target(rule: &Rule, params: &Params) -> Result<Target, Problem> {
    let observation = params
        .text("observationId")
        .map(ObservationId::new)
        .transpose();
    let observation_id =
        observation.map_err(|error| Problem::query("observationId", error.to_string()))?;
    match (rule.target, &observation_id) {
        (TargetKind::Observation, None) => {
            return Err(Problem::query(
                "observationId",
                "needed: the rule scores observations",
            ));
        }
        (TargetKind::Trace, Some(_)) => {
            return Err(Problem::query(
                "observationId",
                "must be absent: the rule scores whole traces",
            ));
        }
        _ => {}
    }
    Ok(Target {
        trace_id: trace_id(params)?,
        observation_id,
    })
}

fn explanation_view(rule: &Rule, target: &Target, explanation: &Explanation) -> Value {
    let step = &explanation.step;
    let executions: Vec<Value> = explanation.executions.iter().map(view).collect();
    json!({
        "evaluationRuleId": rule.id,
        "traceId": target.trace_id,
        "observationId": target.observation_id,
        "step": step.name(),
        "explanation": step.sentence(),
        "details": facts(step),
        "executions": executions,
    })
}

/// The facts behind a step.
fn facts(step: &Step) -> Value {
    match step {
        Step::NoSuchTarget => json!({}),
        Step::NotComplete { complete_at } => json!({ "completeAt": complete_at }),
        Step::Refused(refusal) => match refusal {
            Refusal::RuleInactive | Refusal::RulePaused | Refusal::InternalEnvironment => json!({}),
            Refusal::NotMatched {
                index,
                condition,
                actual,
            } => json!({ "index": index, "condition": condition, "actual": actual }),
            Refusal::SampledOut { value, rate } => json!({ "sample": value, "sampling": rate }),
        },
        Step::OlderThanRule {
            arrived_at,
            rule_created_at,
            ..
        } => json!({ "arrivedAt": arrived_at, "ruleCreatedAt": rule_created_at }),
        Step::Taken {
            sample,
            rate,
            completion,
            assignments,
        } => {
            let assignments: Vec<Value> = assignments
                .iter()
                .map(|assignment| {
                    json!({
                        "assignmentId": assignment.assignment,
                        "evaluatorId": assignment.evaluator,
                        "executionId": assignment.execution,
                        "lateObservationCount": assignment.n_late,
                    })
                })
                .collect();
            json!({
                "sample": sample,
                "sampling": rate,
                "completeAt": completion.at,
                "completionReason": completion.reason.as_str(),
                "assignments": assignments,
            })
        }
    }
}
