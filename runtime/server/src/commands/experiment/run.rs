//! `perpend experiment run` and `retry`: start runs that the server executes, or the failed items of one, and wait for them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use perpend_api_types::server_run::{RunStatus, StartedExperiment};
use perpend_domain::server_run::{BUDGET_REACHED, MAX_USD_REACHED, RunState};
use perpend_experiments::report::encoded;
use perpend_plugin_cli::Remote as _;
use serde_json::json;

use super::super::common::printable;
use super::super::experiments_remote::{project, run_id, succeeded};
use super::super::plugin_remote::{Access, ServerRemote};
use super::super::wait::wait_for;
use super::config;

/// Timeout of a request: the estimate reads all items.
const TIMEOUT: Duration = Duration::from_secs(180);
/// Exit status of a run that ended without all of its results.
const FAILED: u8 = 1;
/// Exit status for a configuration or a connection that cannot be used.
const UNUSABLE: u8 = 3;
/// Exit status of a run that reached its limit or a budget.
const OVER_BUDGET: u8 = 4;

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    perpend experiment run --config evals/support.toml\n\n\
    Exit status: 0 all results are there (results may be errors), 1 cancelled, 3 configuration or connection, 4 limit or budget")]
pub(super) struct RunArgs {
    /// A TOML file with `dataset`, and `prompts` and `models` or `task = "http:URL"`
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check and estimate only
    #[arg(long)]
    dry_run: bool,
    /// Do not wait for the results
    #[arg(long, conflicts_with = "dry_run")]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
    perpend experiment retry \"support answers\"\n\n\
    Exit status: as of `perpend experiment run`")]
pub(super) struct RetryArgs {
    /// Id or name of the run
    run: String,
    /// Do not wait for the results
    #[arg(long)]
    no_wait: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(args: &RunArgs) -> anyhow::Result<ExitCode> {
    exit(run_experiment(args))
}

pub(super) fn retry(args: &RetryArgs) -> anyhow::Result<ExitCode> {
    exit(retry_failed(args))
}

fn exit(ended: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match ended {
        Ok(code) => Ok(code),
        Err(error) => {
            eprintln!("perpend: {error:#}");
            Ok(ExitCode::from(UNUSABLE))
        }
    }
}

fn run_experiment(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let mut input = config::read(&args.config, |name| std::env::var(name).ok())?;
    input.dry_run = args.dry_run;
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let body = serde_json::to_vec(&input)?;
    let answer = remote.send("POST", "/api/v1/experiments", Some(("application/json", body)));
    let answer = succeeded(answer.map_err(anyhow::Error::msg)?)?;
    let mut out = std::io::stdout().lock();
    if args.dry_run || args.no_wait {
        match args.json {
            true => writeln!(out, "{answer:#}")?,
            false => {
                let text = estimate_text(&serde_json::from_value(answer)?);
                write!(out, "{}", printable(&text))?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let started: StartedExperiment = serde_json::from_value(answer)?;
    let runs: Vec<String> = started.runs.into_iter().map(|run| run.id).collect();
    let statuses = wait(&remote, &runs)?;
    match args.json {
        true => {
            let result = json!({ "experimentId": started.experiment_id, "runs": statuses });
            writeln!(out, "{result:#}")?;
        }
        false => write_texts(&mut out, &remote, &statuses)?,
    }
    Ok(exit_code(&statuses))
}

fn retry_failed(args: &RetryArgs) -> anyhow::Result<ExitCode> {
    let remote = ServerRemote::new(&args.access, TIMEOUT)?;
    let id = run_id(&remote, &args.run)?;
    let path = format!("/api/v1/experiments/{}/retry", encoded(&id));
    let answer = remote.send("POST", &path, None).map_err(anyhow::Error::msg)?;
    let mut statuses: Vec<RunStatus> = vec![serde_json::from_value(succeeded(answer)?)?];
    if !args.no_wait {
        statuses = wait(&remote, &[id])?;
    }
    let mut out = std::io::stdout().lock();
    match args.json {
        true => writeln!(out, "{:#}", json!({ "runs": statuses }))?,
        false => write_texts(&mut out, &remote, &statuses)?,
    }
    match args.no_wait {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(exit_code(&statuses)),
    }
}

fn write_texts(
    out: &mut impl std::io::Write,
    remote: &ServerRemote,
    statuses: &[RunStatus],
) -> anyhow::Result<()> {
    let project = project(remote);
    for status in statuses {
        let text = status_text(status, remote.address(), project.as_deref());
        write!(out, "{}", printable(&text))?;
    }
    Ok(())
}

fn status(remote: &ServerRemote, id: &str) -> anyhow::Result<RunStatus> {
    let path = format!("/api/v1/experiments/{}/status", encoded(id));
    let answer = remote.send("GET", &path, None).map_err(anyhow::Error::msg)?;
    Ok(serde_json::from_value(succeeded(answer)?)?)
}

/// Waits until no run is running.
fn wait(remote: &ServerRemote, runs: &[String]) -> anyhow::Result<Vec<RunStatus>> {
    let read =
        || -> anyhow::Result<Vec<RunStatus>> { runs.iter().map(|id| status(remote, id)).collect() };
    wait_for("{bar:40} {pos}/{len} {msg}", read, |bar, statuses| {
        let sum = |count: fn(&RunStatus) -> u64| statuses.iter().map(count).sum::<u64>();
        let n_failed = sum(|run| run.failed_count);
        bar.set_length(sum(|run| run.result_count));
        bar.set_position(sum(|run| run.completed_count) + n_failed);
        let cost: f64 = statuses.iter().map(|run| run.cost_usd).sum();
        bar.set_message(format!("{n_failed} failed, ${cost:.4}"));
        statuses.iter().all(|run| run.state != RunState::Running)
    })
}

fn estimate_text(estimate: &StartedExperiment) -> String {
    let cost = |usd: Option<f64>| usd.map_or("unknown".to_owned(), |usd| format!("${usd:.4}"));
    let mut text = format!(
        "items: {}, calls: {}, estimated cost: {}\n",
        estimate.item_count,
        estimate.call_count,
        cost(estimate.estimated_cost_usd)
    );
    for run in &estimate.runs {
        let usd = cost(run.estimated_cost_usd);
        text.push_str(&format!("{}  {}: {} calls, {usd}\n", run.id, run.name, run.call_count));
        if 0 < run.unfilled_count {
            text.push_str(&format!(
                "  {} items have no value for a variable of the prompt:\n",
                run.unfilled_count
            ));
        }
        for item in &run.unfilled_items {
            text.push_str(&format!("    {}: {}\n", item.item_id, item.message));
        }
    }
    text
}

fn status_text(status: &RunStatus, address: &str, project: Option<&str>) -> String {
    let mut text = format!(
        "{}: {}, {} of {} results, {} failed, ${:.4}\n",
        status.name,
        status.state,
        status.completed_count + status.failed_count,
        status.result_count,
        status.failed_count,
        status.cost_usd
    );
    if let Some(message) = &status.paused_message {
        text.push_str(&format!("  {message}\n"));
    }
    for item in &status.failed_items {
        text.push_str(&format!("  {}: {}\n", item.item_id, item.error_message));
    }
    if let Some(project) = project {
        let experiments = format!("{address}/project/{project}/experiments");
        text.push_str(&format!("  {experiments}/{}\n", status.id));
        if let Some(baseline) = &status.baseline_id {
            let (baseline, run) = (encoded(baseline), encoded(&status.id));
            text.push_str(&format!("  {experiments}/compare?runs={baseline},{run}\n"));
        }
    }
    text
}

fn exit_code(statuses: &[RunStatus]) -> ExitCode {
    let is_over = |status: &RunStatus| {
        let reason = status.paused_reason.as_deref();
        reason.is_some_and(|reason| [BUDGET_REACHED, MAX_USD_REACHED].contains(&reason))
    };
    if statuses.iter().any(is_over) {
        return ExitCode::from(OVER_BUDGET);
    }
    if statuses.iter().any(|status| status.state == RunState::Paused) {
        return ExitCode::from(UNUSABLE);
    }
    match statuses.iter().all(|status| status.state == RunState::Completed) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(FAILED),
    }
}
