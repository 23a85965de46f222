//! `GET` and `POST P/experiments/{experiment}/gate`: requirements on a run as TOML, the outcome, and earlier outcomes.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::access::Permission::ExperimentWrite;
use perpend_domain::experiment::{GateRecord, RunResults};
use perpend_experiments::CheckStatus;
use perpend_experiments::gate::{GateCheck, GateOutcome as Outcome, GateReport, GateRuns, gate};
use perpend_experiments::gate_config::GateConfig;
use perpend_experiments::names::metric_of_score;
use perpend_experiments::report::{Links, gate_markdown};
use perpend_experiments::run_summary::score_summaries;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::reading::{self, apart};
use perpend_storage::ComparisonQuery;
use perpend_views::{
    GateOutcome, GatePage, GateRecordLine, GateRequirementLine, RunsQuery, Section, Text, Tone,
    encode, run_href,
};
use serde::Deserialize;
use serde_json::Value;

use crate::experiments::comparison::baseline_of_run;
use crate::experiments::run::{RunPath, others};
use crate::request::forms::SubmittedForm;
use crate::request::query::Query;
use crate::request::reply::{on_blocking_thread, page};
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Earlier outcomes shown.
const MAX_RECORDS: u32 = 20;
/// Requirements of the configuration that the page proposes.
const MAX_PROPOSED: usize = 5;
/// The member of a stored report with the configuration.
const CONFIG: &str = "config";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GateParams {
    id: String,
}

/// The fields of the form: configuration and id of the baseline.
#[derive(Debug, Default)]
struct GateInput {
    config: String,
    baseline: Option<String>,
}

/// `GET P/experiments/{experiment}/gate?id=`: an outcome, or the newest one.
pub(crate) async fn gate_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RunPath>,
    Query(params): Query<GateParams>,
) -> Result<Response, Problem> {
    let results = path.results(&app, &viewer).await?;
    let records = records(&app, &viewer, &results.run.id).await?;
    let mut notices = Vec::new();
    let shown = match params.id.as_str() {
        "" => records.first(),
        id => {
            let found = records.iter().find(|record| record.id == id);
            if found.is_none() {
                notices.push(Text::from("`id` must be one of the newest outcomes of this run."));
            }
            found
        }
    };
    let report = shown.and_then(report_of);
    let config = shown.and_then(|record| Some(record.report.get(CONFIG)?.as_str()?.to_owned()));
    let baseline = baseline_of_run(&app, &viewer, &results.run).await?;
    let input = GateInput {
        config: config.unwrap_or_else(|| proposed(&results)),
        baseline: match &report {
            Some(report) => report.baseline.as_ref().map(|baseline| baseline.id.clone()),
            None => baseline,
        },
    };
    let view = view(&app, &viewer, &results, (input, report, notices), &records).await?;
    page(StatusCode::OK, &view)
}

/// `POST P/experiments/{experiment}/gate`: evaluates and stores the outcome.
pub(crate) async fn evaluate_gate(
    State(app): State<App>,
    Path(path): Path<RunPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let read = path.results(&app, viewer);
    let results = reading::limited(&app.web, &viewer.project, read).await?;
    let baseline = RunsQuery::parse_runs(form.fields.text("baseline").unwrap_or_default());
    let input = GateInput {
        // Browsers send line breaks as CR LF.
        config: form.fields.raw("config").unwrap_or_default().replace("\r\n", "\n"),
        baseline: baseline.into_iter().next(),
    };
    let run_id = results.run.id.clone();
    let evaluated = evaluated(&app, viewer, &results, &input);
    let report = match reading::limited(&app.web, &viewer.project, evaluated).await? {
        Ok(report) => report,
        Err(message) => {
            let records = records(&app, viewer, &run_id).await?;
            let state = (input, None, vec![message]);
            let view = view(&app, viewer, &results, state, &records).await?;
            return page(StatusCode::UNPROCESSABLE_ENTITY, &view);
        }
    };
    let act = async {
        let record = record(&app, &run_id, &report, &input.config)?;
        app.store.telemetry.write_gate(&viewer.project, &record).await?;
        let location = format!("{}/gate?id={}", run_href(&viewer.base(), &run_id), record.id);
        let words = format!("Gate {}.", word(report.outcome));
        Ok(SubmissionOutcome::new(words).at(location))
    };
    Box::pin(form.run_once(&app, act)).await
}

/// The report of a gate; the inner error is a message about the configuration or the runs.
async fn evaluated(
    app: &App,
    viewer: &Viewer,
    results: &RunResults,
    input: &GateInput,
) -> Result<Result<GateReport, Text>, Problem> {
    let config = match GateConfig::from_toml(&input.config) {
        Ok(config) => config,
        Err(error) => return Ok(Err(Text::lines(error.to_string()))),
    };
    let baseline = match &input.baseline {
        None => None,
        Some(id) => match apart(app.store.run_results(&viewer.project, id)).await? {
            Some(baseline) => Some(baseline),
            None => return Ok(Err(Text::from(format!("unknown run `{id}`")))),
        },
    };
    let run = results.clone();
    let compared: Vec<RunResults> = baseline.iter().cloned().chain([run.clone()]).collect();
    let cluster_by = Some(&config.stats.cluster_by).filter(|key| *key != "item");
    let query = ComparisonQuery { cluster_by: cluster_by.cloned(), ..ComparisonQuery::default() };
    let options = app.store.compare_options(&viewer.project, &compared, &query).await?;
    let options = options.map_err(|_| Problem::not_found("experiment"))?;
    let checked = move || gate(&config, GateRuns { run, baseline }, &options);
    let report = on_blocking_thread(checked).await?;
    Ok(report.map_err(|error| Text::from(error.to_string())))
}

/// The outcome as it is stored: the report with the configuration.
fn record(
    app: &App,
    run_id: &str,
    report: &GateReport,
    config: &str,
) -> Result<GateRecord, Problem> {
    let mut json = serde_json::to_value(report).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a report of a gate is not JSON");
        Problem::internal()
    })?;
    if let Some(members) = json.as_object_mut() {
        members.insert(CONFIG.to_owned(), Value::from(config));
    }
    Ok(GateRecord {
        id: app.web.ids.uuid().to_string(),
        run_id: run_id.to_owned(),
        outcome: report.outcome.as_str().to_owned(),
        report: json,
        created_at: app.web.clock.now(),
    })
}

async fn records(app: &App, viewer: &Viewer, run: &str) -> Result<Vec<GateRecord>, Problem> {
    let found = app.store.telemetry.gates(&viewer.project, run, None, MAX_RECORDS).await?;
    Ok(found.items)
}

fn report_of(record: &GateRecord) -> Option<GateReport> {
    serde_json::from_value(record.report.clone()).ok()
}

/// A configuration for the numeric scores of the run.
fn proposed(results: &RunResults) -> String {
    let scores = score_summaries(results);
    let names = scores.iter().filter(|scores| scores.values.mean.is_some()).take(MAX_PROPOSED);
    let mut text = String::from("# Each requirement must hold. Units are those of the metric.\n");
    let mut is_empty = true;
    for scores in names {
        is_empty = false;
        let name = Value::from(metric_of_score(&scores.name).as_ref());
        text.push_str(&format!("\n[[require]]\nmetric = {name}\nnot_worse_than_baseline = 0.02\n"));
    }
    if is_empty {
        text.push_str("\n[[require]]\nmetric = \"latency_ms\"\np95_at_most = 10000\n");
    }
    text.push_str("\n[limits]\nmin_items = 10\nmax_failed_items = 0\n");
    text
}

async fn view(
    app: &App,
    viewer: &Viewer,
    results: &RunResults,
    (input, report, notices): (GateInput, Option<GateReport>, Vec<Text>),
    records: &[GateRecord],
) -> Result<GatePage, Problem> {
    let run = &results.run;
    let links = links(viewer);
    let baselines = others(app, viewer, results).await?;
    let selected = input.baseline.as_deref().map(encode);
    let selected = selected.or_else(|| Some(baselines.first()?.1.clone()));
    let baselines = baselines.into_iter().map(|(name, id)| {
        let is_selected = selected.as_ref() == Some(&id);
        (name, id, is_selected)
    });
    let baseline = selected.as_deref().map(|id| format!(" --baseline {id}"));
    Ok(GatePage {
        shell: viewer.shell(Section::Experiments),
        notices,
        name: Text::from(run.name.as_str()),
        href: run_href(&viewer.base(), &run.id),
        config: input.config,
        baselines: baselines.collect(),
        outcome: report.map(|report| outcome(&report, &links)),
        command: format!(
            "perpend gate --run {}{} --config gate.toml",
            run.id,
            baseline.unwrap_or_default()
        ),
        history: records.iter().map(record_line).collect(),
        may_evaluate: viewer.may(ExperimentWrite),
    })
}

/// Addresses of the pages of the project as the browser reaches them.
pub(super) fn links(viewer: &Viewer) -> Links {
    Links { project: format!("{}{}", viewer.origin, viewer.base()) }
}

fn outcome(report: &GateReport, links: &Links) -> GateOutcome {
    GateOutcome {
        word: word(report.outcome),
        tone: tone(report.outcome),
        exit_code: report.outcome.exit_code(),
        requirements: report.checks.iter().map(requirement).collect(),
        markdown: Text::lines(gate_markdown(report, Some(links))),
    }
}

fn requirement(check: &GateCheck) -> GateRequirementLine {
    let metric = check.metric.as_deref().unwrap_or("run");
    let (word, tone) = match check.status {
        CheckStatus::Passed => ("passed", Tone::Good),
        CheckStatus::Failed => ("failed", Tone::Bad),
        CheckStatus::Undecided => ("not decided", Tone::Waiting),
        CheckStatus::OverBudget => ("over budget", Tone::Bad),
    };
    GateRequirementLine {
        name: Text::from(format!("{metric} {} {}", check.rule, check.threshold)),
        word,
        tone,
        detail: Text::from(check.message.as_str()),
    }
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "failed",
        Outcome::Undecided => "not decided",
        Outcome::OverBudget => "over budget",
    }
}

const fn tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Passed => Tone::Good,
        Outcome::Failed | Outcome::OverBudget => Tone::Bad,
        Outcome::Undecided => Tone::Waiting,
    }
}

fn record_line(record: &GateRecord) -> GateRecordLine {
    let report = report_of(record);
    let known = report.as_ref().map(|report| report.outcome);
    let baseline = report.as_ref().and_then(|report| report.baseline.as_ref());
    GateRecordLine {
        at: record.created_at,
        word: Text::from(match known {
            Some(outcome) => word(outcome),
            None => record.outcome.as_str(),
        }),
        tone: known.map_or(Tone::Plain, tone),
        exit_code: known.map_or(3, Outcome::exit_code),
        baseline: Text::from(baseline.map_or("", |run| run.name.as_str())),
        href: format!("?id={}", encode(&record.id)),
    }
}
