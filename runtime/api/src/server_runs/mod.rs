//! Experiments that the server executes: their start with an estimate, their progress, and pauses.

mod estimate;
mod plan;
mod scoring;

use axum::extract::{Path, State};
use perpend_api_types::server_run::{
    FailedRunItem, NewExperiment, RunStatus, StartedExperiment, StartedRun,
};
use perpend_catalog::audit;
use perpend_catalog::sealed::SealedAt;
use perpend_domain::access::Permission::{ExperimentRead, ExperimentWrite};
use perpend_domain::dataset::{Dataset, DatasetRun, run_id};
use perpend_domain::ids::ProjectId;
use perpend_executions::{NewServerRun, RunChange, RunItem, RunProgress, RunRetry};
use perpend_http_kit::answer::{Answer, Either};
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde_json::{Value, json};

use crate::rules;
use crate::state::{App, Routes};
use estimate::RunEstimate;
use plan::{Plan, PlannedRun};

const ALL: &str = "/api/v1/experiments";
const STATUS: &str = "/api/v1/experiments/{experimentId}/status";
const PAUSE: &str = "/api/v1/experiments/{experimentId}/pause";
const RESUME: &str = "/api/v1/experiments/{experimentId}/resume";
const CANCEL: &str = "/api/v1/experiments/{experimentId}/cancel";
const RETRY: &str = "/api/v1/experiments/{experimentId}/retry";
/// Failed results in a status.
const MAX_FAILED: u32 = 20;

pub(super) fn routes(routes: &mut Routes) {
    let start = Operation::post(
        "startExperiment",
        ALL,
        "Start runs over a dataset that the server executes, or estimate them",
        ExperimentWrite,
    );
    routes.add(start.body::<NewExperiment>(), start_experiment);
    let status = Operation::get(
        "getRunStatus",
        STATUS,
        "Get the progress of a run that the server executes",
        ExperimentRead,
    );
    routes.add(status, get_status);
    let pause = Operation::post(
        "pauseRun",
        PAUSE,
        "Pause a run; calls in flight continue",
        ExperimentWrite,
    );
    routes.add(pause, pause_run);
    let resume = Operation::post("resumeRun", RESUME, "Resume a paused run", ExperimentWrite);
    routes.add(resume, resume_run);
    let cancel =
        Operation::post("cancelRun", CANCEL, "Cancel a run; its results are kept", ExperimentWrite);
    routes.add(cancel, cancel_run);
    let retry = Operation::post(
        "retryRun",
        RETRY,
        "Call the failed items of a completed or paused run again; stored answers are kept",
        ExperimentWrite,
    );
    routes.add(retry, retry_run);
}

type Started = Either<Answer<StartedExperiment>, Answer<StartedExperiment, 201>>;

async fn start_experiment(
    State(app): State<App>,
    caller: Act,
    Body(input): Body<NewExperiment>,
) -> Result<Started, Problem> {
    let plan = plan::of(&app, &caller, &input).await?;
    let (items, estimates) = estimate::of(&app, &caller.project, &input, &plan).await?;
    let mut started = view(&caller.project, &plan, (&items, estimates));
    let ids: Vec<String> = started.runs.iter().map(|run| run.id.clone()).collect();
    let name = input.run_name.as_deref().unwrap_or(&started.runs[0].name);
    let rule = scoring::rule(&plan.evaluators, &ids, name);
    if input.dry_run {
        if let Some(rule) = &rule {
            rules::draft(&app, &caller.project, rule).await?;
        }
        return Ok(Either::One(Answer(started)));
    }
    let experiment_id = app.web.ids.uuid().to_string();
    let secret = plan.secret.as_deref();
    let secret = secret.map(|secret| sealed(&app, &caller.project, &experiment_id, secret));
    let secret = secret.transpose()?;
    let runs: Vec<&str> = plan.runs.iter().map(|run| run.name.as_str()).collect();
    let after = json!({ "dataset": plan.dataset.name, "runs": runs });
    audit::note("experiment", &experiment_id, None, Some(after));
    // Before the first result: a rule scores what arrives after its creation.
    let rule = scoring::create(&app, &caller.project, rule.as_ref()).await?;
    let rule = rule.map(|rule| rule.id);
    let now = app.web.clock.now();
    let dataset_run = |run: &PlannedRun| DatasetRun {
        id: run_id(&caller.project, &plan.dataset.id, &run.name),
        name: run.name.clone(),
        description: input.description.clone(),
        metadata: metadata(&input, run),
        dataset_id: plan.dataset.id.clone(),
        dataset_name: plan.dataset.name.clone(),
        created_at: now,
        updated_at: now,
    };
    let runs = plan.runs.iter().map(|run| {
        let dataset_run = dataset_run(run);
        let server_run = NewServerRun {
            id: dataset_run.id.clone(),
            experiment_id: experiment_id.clone(),
            name: run.name.clone(),
            dataset_id: plan.dataset.id.clone(),
            dataset_at: plan.at,
            task: run.task.clone(),
            concurrency: plan.concurrency,
            max_usd: input.max_usd,
            repetitions: plan.repetitions,
            rule_id: rule.as_ref().map(ToString::to_string),
            baseline_id: plan.baseline.clone(),
        };
        (server_run, dataset_run)
    });
    let runs: Vec<(NewServerRun, DatasetRun)> = runs.collect();
    let all = (runs.as_slice(), items.as_slice());
    let stored = app.store.start_server_runs(&caller.project, all, secret.as_deref(), now).await;
    if let Some(rule) = rule.as_ref().filter(|_| !matches!(stored, Ok(None))) {
        scoring::delete(&app, &caller.project, rule).await;
    }
    if let Some(at) = stored? {
        return Err(name_conflict(&plan.dataset, plan.runs.get(at)));
    }
    app.jobs.wake(perpend_broker::server_runs::JOB);
    started.experiment_id = Some(experiment_id);
    started.rule_id = rule.map(|rule| rule.to_string());
    Ok(Either::Other(Answer(started)))
}

fn name_conflict(dataset: &Dataset, run: Option<&PlannedRun>) -> Problem {
    let name = run.map_or("", |run| run.name.as_str());
    let message = format!("the dataset {:?} has a run {name:?}: choose another name", dataset.name);
    Problem::new(Code::NameConflict, message).with("field", "runName")
}

/// The metadata of the dataset run: that of the request, with prompt and model or the endpoint.
fn metadata(input: &NewExperiment, run: &PlannedRun) -> Value {
    let mut members = input.metadata.clone();
    if let Value::Object(task) = run.task.to_metadata() {
        members.extend(task);
    }
    json!(members)
}

fn sealed(
    app: &App,
    project: &ProjectId,
    experiment_id: &str,
    secret: &str,
) -> Result<Vec<u8>, Problem> {
    let owner = SealedAt::Endpoint(experiment_id.to_owned()).owner(project);
    app.vault.seal(&owner, secret, app.web.ids.as_ref()).map_err(|error| {
        let error: &dyn std::error::Error = &error;
        tracing::error!(error, "sealing failed");
        Problem::internal()
    })
}

fn view(
    project: &ProjectId,
    plan: &Plan,
    (items, estimates): (&[RunItem], Vec<RunEstimate>),
) -> StartedExperiment {
    let runs = plan.runs.iter().zip(estimates).map(|(run, estimate)| {
        let model = run.model();
        StartedRun {
            id: run_id(project, &plan.dataset.id, &run.name),
            name: run.name.clone(),
            prompt: run.prompt_name(),
            provider: model.map(|model| model.provider.clone()),
            model: model.map(|model| model.model.clone()),
            call_count: estimate.n_calls,
            estimated_cost_usd: estimate.cost_usd,
            unfilled_count: estimate.n_unfilled,
            unfilled_items: estimate.unfilled,
        }
    });
    let runs: Vec<StartedRun> = runs.collect();
    StartedExperiment {
        experiment_id: None,
        dataset_version: plan.at,
        item_count: items.len() as u64,
        call_count: runs.iter().map(|run| run.call_count).sum(),
        estimated_cost_usd: runs.iter().map(|run| run.estimated_cost_usd).sum(),
        rule_id: None,
        baseline_id: plan.baseline.clone(),
        runs,
    }
}

fn no_such_run() -> Problem {
    Problem::not_found("run that the server executes")
}

async fn status(app: &App, project: &ProjectId, id: &str) -> Result<RunStatus, Problem> {
    let ledger = &app.store.ledger;
    let found = ledger.run_progress(project, id).await?;
    let mut found = found.ok_or_else(no_such_run)?;
    // The run may have been renamed.
    if let Some(run) = app.store.telemetry.dataset_run(project, id).await? {
        found.name = run.name;
    }
    let failed = ledger.failed_run_items(project, id, MAX_FAILED).await?;
    let failed = failed.into_iter().map(|item| FailedRunItem {
        item_id: item.item_id,
        repetition: item.repetition,
        error_class: item.class,
        error_message: item.message,
    });
    Ok(status_view(found, failed.collect()))
}

fn status_view(found: RunProgress, failed_items: Vec<FailedRunItem>) -> RunStatus {
    RunStatus {
        result_count: found.n_pending + found.n_in_flight + found.n_completed + found.n_failed,
        id: found.id,
        experiment_id: found.experiment_id,
        name: found.name,
        dataset_id: found.dataset_id,
        dataset_version: found.dataset_at,
        state: found.state,
        is_waiting: found.is_waiting,
        paused_reason: found.reason,
        paused_message: found.message,
        concurrency: found.concurrency,
        max_usd: found.max_usd,
        pending_count: found.n_pending,
        in_flight_count: found.n_in_flight,
        completed_count: found.n_completed,
        failed_count: found.n_failed,
        repeated_call_count: found.n_repeated,
        cost_usd: found.cost_usd,
        created_at: found.created_at,
        ended_at: found.ended_at,
        rule_id: found.rule_id,
        baseline_id: found.baseline_id,
        failed_items,
    }
}

async fn get_status(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RunStatus>, Problem> {
    Ok(Answer(status(&app, &caller.project, &id).await?))
}

/// Changes the state of a run. A change that was made already is repeated without effect.
async fn change(
    app: &App,
    project: &ProjectId,
    id: &str,
    change: RunChange<'_>,
) -> Result<Answer<RunStatus>, Problem> {
    let now = app.web.clock.now();
    app.store.ledger.change_run(project, id, change, now).await?;
    if change == RunChange::Resume {
        app.jobs.wake(perpend_broker::server_runs::JOB);
    }
    let status = status(app, project, id).await?;
    Ok(Answer(status))
}

/// Refuses a change of a run that has ended.
fn refuse_ended(status: &Answer<RunStatus>) -> Result<(), Problem> {
    match status.0.ended_at {
        None => Ok(()),
        Some(_) => {
            let message = format!("the run is {} and cannot be changed", status.0.state);
            Err(Problem::new(Code::Conflict, message))
        }
    }
}

async fn pause_run(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RunStatus>, Problem> {
    let answer = change(&app, &caller.project, &id, RunChange::Pause).await?;
    refuse_ended(&answer)?;
    Ok(answer)
}

async fn resume_run(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RunStatus>, Problem> {
    let answer = change(&app, &caller.project, &id, RunChange::Resume).await?;
    refuse_ended(&answer)?;
    Ok(answer)
}

async fn cancel_run(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RunStatus>, Problem> {
    change(&app, &caller.project, &id, RunChange::Cancel).await
}

async fn retry_run(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
) -> Result<Answer<RunStatus>, Problem> {
    let (project, now) = (&caller.project, app.web.clock.now());
    let run = app.store.ledger.run_progress(project, &id).await?.ok_or_else(no_such_run)?;
    // Before the first result, as at the start.
    scoring::enable(&app, project, &run).await?;
    let retried = app.store.ledger.retry_failed_items(project, &id, now).await?;
    match retried.ok_or_else(no_such_run)? {
        RunRetry::Refused(state) => {
            let message = format!(
                "the run must be completed or paused for a retry of its failed items, and is {state}"
            );
            Err(Problem::new(Code::Conflict, message))
        }
        RunRetry::Pending(_) => {
            app.jobs.wake(perpend_broker::server_runs::JOB);
            Ok(Answer(status(&app, project, &id).await?))
        }
    }
}
