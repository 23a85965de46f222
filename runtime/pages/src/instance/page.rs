//! `GET /instance`: the parts of the server, its queues and jobs, for its operator.
//!
//! Invariant: **no content of a tenant.** Figures are of the whole server; problems and refusals are of the project of the
//! session.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::EvaluatorRead;
use perpend_domain::evaluation::QueueKind;
use perpend_domain::list::ListPosition;
use perpend_domain::time::Timestamp;
use perpend_executions::StateCount;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    InstanceJobLine, InstancePage, InstancePart, InstanceProblemLine, InstanceProgressLine,
    InstanceQueueLine, RefusedLine, Section, Text, clock, count, duration, encode, percent, plural,
    rule_href, size,
};
use serde::Deserialize;
use serde_json::Value;

use super::state::{InstanceCheck, MAX_STEP, WorkerFigures};
use crate::request::operations::{call, parsed};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Share of free space below which the disk is reported as nearly full.
const LOW_SPACE: f64 = 0.1;
/// Delay of an execution after which its queue is reported as late, in microseconds.
const LATE_MICROS: i64 = 60_000_000;
/// Executions that are counted at most.
const MAX_COUNTED: u32 = 100_000;

/// Newest backfills and backtests of the project that are searched for open ones.
const MAX_LISTED: u32 = 50;

/// The list of jobs.
#[derive(Debug, Deserialize)]
struct JobList {
    data: Vec<Job>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    name: String,
    interval_seconds: u64,
    is_running: bool,
    runs: u64,
    failures: u64,
    last_succeeded_at: Option<Timestamp>,
    last_item_count: u64,
    last_error: Option<JobError>,
}

#[derive(Debug, Deserialize)]
struct JobError {
    at: Timestamp,
    message: String,
}

/// The health of evaluation in a project.
#[derive(Debug, Deserialize)]
struct EvaluationHealth {
    problems: Vec<EvaluationProblem>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EvaluationProblem {
    evaluation_rule_id: String,
    evaluation_rule_name: String,
    providers: Vec<String>,
    message: String,
    since: Timestamp,
    until: Option<Timestamp>,
    waiting: u64,
}

/// `GET /instance`. Only for sessions of the operator. The others see the alarms alone.
pub(crate) async fn instance_page(
    State(app): State<App>,
    viewer: Viewer,
) -> Result<Response, Problem> {
    if !viewer.is_operator {
        let message = "this page is for the operator: log in with the first account; without accounts, with the address \
             that the server prints at its start, or with a key pair of the project of the configured key pair";
        return Err(Problem::new(Code::AccessDenied, message));
    }
    let now = app.web.clock.now();
    let check = app.instance.last();
    let refused = app.web.refusals.counts(&viewer.project);
    let view = InstancePage {
        shell: viewer.shell(Section::Other),
        checked: check.as_ref().map(|check| clock(check.at)),
        parts: parts(check.as_ref(), app.store.database_bytes().await?),
        open: open_counts(&app).await?,
        queues: queues(&app, now).await?,
        jobs: jobs(&app, &viewer).await?,
        progress: progress(&app, &viewer).await?,
        problems: problems(&app, &viewer).await?,
        refused: refused
            .into_iter()
            .map(|refused| RefusedLine {
                reason: refused.last.reason,
                status: refused.last.status.as_u16(),
                n: count(refused.n),
                last: clock(refused.last.at),
            })
            .collect(),
    };
    page(StatusCode::OK, &view)
}

fn parts(check: Option<&InstanceCheck>, database_bytes: u64) -> Vec<InstancePart> {
    let Some(check) = check else {
        return Vec::new();
    };
    let database = match check.accepts_writes {
        true => InstancePart::good("Database", "accepts writes"),
        false => InstancePart::bad("Database", "refuses writes"),
    };
    let mut parts = vec![
        database.with_detail(size(database_bytes)),
        workers_part(check.workers.as_ref()),
        scheduler_part(check.since_step),
    ];
    if let Some(disk) = check.disk {
        let share = disk.free_share();
        let part = match share < LOW_SPACE {
            true => InstancePart::waiting("Disk of the data directory", "nearly full"),
            false => InstancePart::good("Disk of the data directory", "enough space"),
        };
        let (free, all) = (size(disk.free), size(disk.all));
        parts.push(part.with_detail(format!("{free} of {all} free ({})", percent(share))));
    }
    parts
}

fn workers_part(workers: Option<&WorkerFigures>) -> InstancePart {
    const NAME: &str = "Workers";
    let Some(workers) = workers else {
        let detail = "evaluators run in the process of the server (evaluation.isolation)";
        return InstancePart::good(NAME, "none").with_detail(detail.to_owned());
    };
    let pids: Vec<String> = workers.pids.iter().map(u32::to_string).collect();
    let (n, all) = (workers.pids.len(), plural(workers.n_workers as u64, "worker"));
    let part = match (workers.has_stopped, workers.cannot_start) {
        (true, _) => InstancePart::bad(NAME, "stopped"),
        (false, true) => InstancePart::bad(NAME, "cannot start"),
        (false, false) if pids.is_empty() => InstancePart::good(NAME, "idle"),
        (false, false) => InstancePart::good(NAME, "running"),
    };
    part.with_detail(match pids.is_empty() {
        true => format!("none of at most {all} running; they start with the first calls"),
        false => format!("{n} of at most {all} running, process ids {}", pids.join(", ")),
    })
}

fn scheduler_part(since_step: Option<Duration>) -> InstancePart {
    const NAME: &str = "Scheduler";
    let Some(elapsed) = since_step else {
        return InstancePart::waiting(NAME, "not started");
    };
    let part = match MAX_STEP < elapsed {
        true => InstancePart::bad(NAME, "stuck"),
        false => InstancePart::good(NAME, "running"),
    };
    part.with_detail(format!("last step {} before the check", micros_text(elapsed)))
}

fn micros_text(elapsed: Duration) -> String {
    duration(i64::try_from(elapsed.as_micros()).unwrap_or(i64::MAX))
}

/// States of open executions and their numbers.
async fn open_counts(app: &App) -> Result<Vec<(&'static str, String)>, Problem> {
    let counts = app.store.ledger.open_counts(MAX_COUNTED).await?;
    let line = |of: &StateCount| {
        let is_limit = u64::from(MAX_COUNTED) <= of.n;
        (of.state.as_str(), format!("{}{}", count(of.n), if is_limit { "+" } else { "" }))
    };
    Ok(counts.iter().filter(|of| 0 < of.n).map(line).collect())
}

/// The queues of all projects by lane and class, the latest first.
async fn queues(app: &App, now: Timestamp) -> Result<Vec<InstanceQueueLine>, Problem> {
    let mut kinds: BTreeMap<QueueKind, (u64, Timestamp)> = BTreeMap::new();
    for queue in app.store.ledger.execution_queues().await? {
        let entry = kinds.entry(queue.kind).or_insert((0_u64, queue.due_at));
        *entry = (entry.0 + 1, entry.1.min(queue.due_at));
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (_, due_at))| *due_at);
    let line = |(kind, (n, due_at)): (QueueKind, (u64, Timestamp))| {
        let late = now.micros_since(due_at);
        InstanceQueueLine {
            lane: kind.lane.as_str(),
            class: kind.class.as_str(),
            n: count(n),
            delay: match late {
                ..=0 => "not due yet".to_owned(),
                late => format!("due for {}", duration(late)),
            },
            is_late: LATE_MICROS < late,
        }
    };
    Ok(kinds.into_iter().map(line).collect())
}

async fn jobs(app: &App, viewer: &Viewer) -> Result<Vec<InstanceJobLine>, Problem> {
    let jobs = call(app, viewer, (Method::GET, "/api/v1/jobs"), &Value::Null).await?;
    let jobs: JobList = parsed(jobs)?;
    let line = |job: Job| InstanceJobLine {
        name: Text::from(job.name.as_str()),
        interval: micros_text(Duration::from_secs(job.interval_seconds)),
        is_running: job.is_running,
        runs: count(job.runs),
        failures: (0 < job.failures).then(|| count(job.failures)),
        succeeded_at: job.last_succeeded_at.map(clock),
        n_items: count(job.last_item_count),
        error: job.last_error.map(|error| (clock(error.at), Text::from(error.message.as_str()))),
    };
    Ok(jobs.data.into_iter().map(line).collect())
}

/// Backfills and backtests of the project that have not ended, among the newest ones.
async fn progress(app: &App, viewer: &Viewer) -> Result<Vec<InstanceProgressLine>, Problem> {
    if !viewer.may(EvaluatorRead) {
        return Ok(Vec::new());
    }
    let (ledger, project, base) = (&app.store.ledger, &viewer.project, viewer.base());
    let first = ListPosition::default();
    let examined = |share: Option<f64>| share.map_or_else(String::new, percent);
    let backfills = ledger.backfills(project, &first, MAX_LISTED).await?.items.into_iter();
    let backfills = backfills.filter(|each| !each.state.is_final());
    let backfills = backfills.map(|each| InstanceProgressLine {
        kind: "Backfill",
        examined: examined(each.examined_share()),
        name: Text::from(each.plan.rule_name),
        href: format!("{base}/backfills/{}", encode(&each.id)),
        state: each.state.as_str(),
    });
    let backtests = ledger.backtests(project, &first, MAX_LISTED).await?.items.into_iter();
    let backtests = backtests.filter(|each| !each.state.is_final());
    let backtests = backtests.map(|each| InstanceProgressLine {
        kind: "Backtest",
        examined: examined(each.examined_share()),
        name: Text::from(each.plan.evaluator_name),
        href: format!("{base}/backtests/{}", encode(&each.id)),
        state: each.state.as_str(),
    });
    Ok(backfills.chain(backtests).collect())
}

/// Problems that prevent rules of the project from scoring.
async fn problems(app: &App, viewer: &Viewer) -> Result<Vec<InstanceProblemLine>, Problem> {
    if !viewer.may(EvaluatorRead) {
        return Ok(Vec::new());
    }
    let health = (Method::GET, "/api/v1/evaluation-health");
    let health: EvaluationHealth = parsed(call(app, viewer, health, &Value::Null).await?)?;
    let line = |problem: EvaluationProblem| InstanceProblemLine {
        rule: Text::from(problem.evaluation_rule_name.as_str()),
        href: rule_href(&viewer.base(), &problem.evaluation_rule_id),
        connections: Text::from(problem.providers.join(", ")),
        message: Text::from(problem.message.as_str()),
        since: clock(problem.since),
        until: problem.until.map(clock),
        waiting: count(problem.waiting),
    };
    Ok(health.problems.into_iter().map(line).collect())
}
