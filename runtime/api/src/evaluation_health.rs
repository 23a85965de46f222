//! Health of evaluation: problems that keep enabled rules from scoring, and the retry of failed executions.

use std::collections::BTreeSet;

use axum::extract::State;
use perpend_api_types::evaluation_health::{
    EvaluationHealth, EvaluationProblem, EvaluationProblemKind, EvaluationStatus, RequeueInput,
    RequeueResponse,
};
use perpend_broker::ClosedConnection;
use perpend_domain::access::Permission::{EvaluatorRead, EvaluatorWrite};
use perpend_domain::evaluation::{Evaluator, Pause, Rule};
use perpend_domain::ids::ProjectId;
use perpend_domain::slots::ModelChoice;
use perpend_executions::{FailedExecutionFilter, WaitingCount};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use crate::rules;
use crate::state::{App, Routes};

/// Delay of an execution after which it is reported as overdue.
const OVERDUE_MS: i64 = 30_000;
const MAX_REQUEUED: u32 = 10_000;
const USUAL_REQUEUED: u32 = 1_000;

pub(super) fn routes(routes: &mut Routes) {
    let health = Operation::get(
        "getEvaluationHealth",
        "/api/v1/evaluation-health",
        "Get the problems that keep enabled rules from scoring: pauses, closed connections and overdue executions",
        EvaluatorRead,
    );
    routes.add(health, get_health);
    let requeue = Operation::post(
        "requeueFailedExecutions",
        "/api/v1/failed-executions/requeue",
        "Requeue failed executions with a new count of attempts",
        EvaluatorWrite,
    );
    routes.add(requeue.body::<RequeueInput>(), requeue_failed);
}

/// The state of a project that its problems are derived from.
struct HealthFacts {
    default: Option<ModelChoice>,
    held: Vec<WaitingCount>,
    overdue: Vec<WaitingCount>,
    /// By provider.
    closed: Vec<(String, ClosedConnection)>,
}

fn providers(evaluator: &Evaluator, default: Option<&ModelChoice>) -> Vec<String> {
    let slots = evaluator.version.slots.iter();
    let choices = slots.filter_map(|slot| slot.model.as_ref().or(default));
    let named: BTreeSet<String> = choices.map(|choice| choice.provider.clone()).collect();
    named.into_iter().collect()
}

impl HealthFacts {
    fn pause_problem(
        &self,
        rule: &Rule,
        evaluator: Option<&Evaluator>,
        pause: &Pause,
    ) -> EvaluationProblem {
        let held = self.held.iter().filter(|held| held.rule == rule.id);
        let held = held.filter(|held| evaluator.is_none_or(|own| own.id == held.evaluator));
        EvaluationProblem {
            kind: match evaluator {
                None => EvaluationProblemKind::RulePaused,
                Some(_) => EvaluationProblemKind::EvaluatorPaused,
            },
            evaluation_rule_id: rule.id.clone(),
            evaluation_rule_name: rule.name.clone(),
            evaluator_id: evaluator.map(|own| own.id.clone()),
            providers: evaluator.map_or_else(Vec::new, |own| providers(own, self.default.as_ref())),
            reason: Some(pause.reason.clone()),
            message: pause.message.clone(),
            since: pause.at,
            until: pause.until,
            waiting: held.map(|held| held.n).sum(),
        }
    }

    /// The closed connections of an evaluator.
    fn connection_problems(&self, rule: &Rule, evaluator: &Evaluator) -> Vec<EvaluationProblem> {
        let in_use = providers(evaluator, self.default.as_ref());
        let closed = self.closed.iter().filter(|(provider, _)| in_use.contains(provider));
        let problem = |(provider, closed): &(String, ClosedConnection)| EvaluationProblem {
            kind: EvaluationProblemKind::ConnectionClosed,
            evaluation_rule_id: rule.id.clone(),
            evaluation_rule_name: rule.name.clone(),
            evaluator_id: Some(evaluator.id.clone()),
            providers: vec![provider.clone()],
            reason: Some("RETRY_AFTER".to_owned()),
            message: format!(
                "the provider of the connection {provider:?} requested a delay (Retry-After); saving the connection ends the delay at once"
            ),
            since: closed.since,
            until: Some(closed.until),
            waiting: 0,
        };
        closed.map(problem).collect()
    }

    fn overdue_problem(&self, rule: &Rule, evaluator: &Evaluator) -> Option<EvaluationProblem> {
        let mut overdue = self.overdue.iter();
        let overdue =
            overdue.find(|each| each.rule == rule.id && each.evaluator == evaluator.id)?;
        Some(EvaluationProblem {
            kind: EvaluationProblemKind::ExecutionsOverdue,
            evaluation_rule_id: rule.id.clone(),
            evaluation_rule_name: rule.name.clone(),
            evaluator_id: Some(evaluator.id.clone()),
            providers: providers(evaluator, self.default.as_ref()),
            reason: None,
            message: format!(
                "{} executions have been overdue for more than {} s: the workers are busy or stuck",
                overdue.n,
                OVERDUE_MS / 1_000
            ),
            since: overdue.since,
            until: None,
            waiting: overdue.n,
        })
    }
}

async fn get_health(
    State(app): State<App>,
    caller: Act,
) -> Result<Answer<EvaluationHealth>, Problem> {
    let problems = problems(&app, &caller.project).await?;
    Ok(Answer(EvaluationHealth {
        status: match problems.is_empty() {
            true => EvaluationStatus::Ok,
            false => EvaluationStatus::Failing,
        },
        problems,
    }))
}

async fn problems(app: &App, project: &ProjectId) -> Result<Vec<EvaluationProblem>, Problem> {
    let (catalog, ledger) = (&app.store.catalog, &app.store.ledger);
    let before = app.web.clock.now().plus_millis(-OVERDUE_MS);
    let default = catalog.default_model(project).await?;
    let evaluators = catalog.evaluators_in_use(project).await?;
    let in_use = evaluators.iter().flat_map(|own| providers(own, default.as_ref()));
    let in_use = in_use.collect();
    let facts = HealthFacts {
        default,
        held: ledger.held_counts(project).await?,
        overdue: ledger.overdue_counts(project, before).await?,
        closed: closed_connections(app, project, in_use).await?,
    };
    let mut problems = Vec::new();
    for rule in catalog.enabled_rules(project).await? {
        if let Some(pause) = &rule.paused {
            problems.push(facts.pause_problem(&rule, None, pause));
        }
        for assignment in &rule.assignments {
            let mut known = evaluators.iter();
            let Some(own) = known.find(|own| own.id == assignment.evaluator_id) else {
                continue;
            };
            let pause = own.paused.as_ref();
            problems.extend(pause.map(|pause| facts.pause_problem(&rule, Some(own), pause)));
            problems.extend(facts.connection_problems(&rule, own));
            problems.extend(facts.overdue_problem(&rule, own));
        }
    }
    Ok(problems)
}

/// The closed connections among those in use, as known to this server.
async fn closed_connections(
    app: &App,
    project: &ProjectId,
    in_use: BTreeSet<String>,
) -> Result<Vec<(String, ClosedConnection)>, Problem> {
    let mut found = Vec::new();
    for provider in in_use {
        let connection = app.store.catalog.connection(project, &provider).await?;
        let closed = connection.and_then(|connection| app.models.closed_connection(&connection.id));
        found.extend(closed.map(|closed| (provider, closed)));
    }
    Ok(found)
}

async fn requeue_failed(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<RequeueInput>,
) -> Result<Answer<RequeueResponse>, Problem> {
    let class = input.error_class.as_deref().map(|name| {
        let unknown = || {
            Problem::body(
                "errorClass",
                format!("must be an error class of docs/judges.md, got {name:?}"),
            )
        };
        name.parse().map_err(|_| unknown())
    });
    let rule = input.evaluation_rule_id.as_deref().map(rules::parse_id);
    let failed = FailedExecutionFilter { class: class.transpose()?, rule: rule.transpose()? };
    let limit = input.limit.unwrap_or(USUAL_REQUEUED);
    if !(1..=MAX_REQUEUED).contains(&limit) {
        let message = format!("must be from 1 to {MAX_REQUEUED}, got {limit}");
        return Err(Problem::body("limit", message));
    }
    let now = app.web.clock.now();
    let ledger = &app.store.ledger;
    let requeued = ledger.requeue_failed(&caller.project, &failed, limit, now).await?;
    app.scheduler.wake();
    Ok(Answer(RequeueResponse { requeued }))
}
