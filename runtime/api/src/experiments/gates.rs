//! `POST` and `GET /api/v1/experiments/{experimentId}/gates`.

use axum::extract::{Path, State};
use perpend_api_types::list::CursorList;
use perpend_domain::experiment::GateRecord;
use perpend_domain::list::Page;
use perpend_domain::time::Timestamp;
use perpend_experiments::gate::{GateReport, GateRuns, gate, gate_with_items};
use perpend_experiments::gate_config::GateConfig;
use perpend_experiments::options::CompareOptions;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::cursor;
use perpend_http_kit::extract::{Body, Param, Params, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::reading;
use perpend_storage::ComparisonQuery;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::compare::{compared, options, results};
use crate::state::App;

pub(super) const LIST: &[Param] = &[
    param("limit", "integer", "Gates per page, 1 to 100; 20 when absent."),
    param("cursor", "string", "`meta.cursor` of the previous page."),
];

/// The requirements on a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NewGate {
    /// The requirements: the content of a file `gate.toml` as JSON.
    config: GateConfig,
    /// The baseline: the id of a run, the name of a run, or `branch:NAME` for the newest run whose metadata have this
    /// `branch`. Names and branches are searched among the other runs over the dataset. When absent, the baseline with which the
    /// server started the run, if there is one.
    baseline: Option<String>,
    /// Whether the report of the response has `items`: each item with each metric of the requirements. They are not stored.
    #[serde(default)]
    items: bool,
}

/// A gate of a run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ExperimentGate {
    id: String,
    created_at: Timestamp,
    report: GateReport,
}

pub(super) async fn create_gate(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<NewGate>,
) -> Result<Answer<ExperimentGate, 201>, Problem> {
    input.config.check().map_err(|error| Problem::body("config", error.to_string()))?;
    let config = input.config.to_toml().unwrap_or_default();
    let report = reading::limited(&app.web, &caller.project, report(&app, &caller, id, input));
    let mut report = report.await?;
    let items = std::mem::take(&mut report.items);
    let mut stored = serde_json::to_value(&report).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a gate is not JSON");
        Problem::internal()
    })?;
    if let Some(members) = stored.as_object_mut() {
        members.insert("config".to_owned(), config.into());
    }
    let gate = GateRecord {
        id: app.web.ids.uuid().to_string(),
        run_id: report.run.id.clone(),
        outcome: report.outcome.as_str().to_owned(),
        report: stored,
        created_at: app.web.clock.now(),
    };
    app.store.telemetry.write_gate(&caller.project, &gate).await?;
    report.items = items;
    Ok(Answer(ExperimentGate { id: gate.id, created_at: gate.created_at, report }))
}

async fn report(
    app: &App,
    caller: &Act,
    id: String,
    input: NewGate,
) -> Result<GateReport, Problem> {
    let project = &caller.project;
    let found = app.store.run_results(project, &id).await?;
    let run = found.ok_or_else(|| Problem::not_found("experiment"))?;
    let mut runs = Vec::new();
    if input.baseline.is_none()
        && let Some(base) = app.store.ledger.baseline_of_run(project, &run.run.id).await?
    {
        // It may be deleted meanwhile.
        runs.extend(app.store.run_results(project, &base).await?);
    }
    if let Some(reference) = &input.baseline {
        let found = app.store.find_run(project, reference, Some(&run.run)).await?;
        match found {
            Some(base) => runs = results(app, project, &[base], "baseline").await?,
            // The first run of a branch has no baseline: the file of the gate decides.
            None if reference.starts_with("branch:") => {}
            None => {
                let message = format!("`baseline`: unknown run `{reference}`");
                return Err(Problem::new(Code::NotFound, message).with("field", "baseline"));
            }
        }
    }
    let has_baseline = !runs.is_empty();
    runs.push(run);
    let cluster_by = Some(&input.config.stats.cluster_by).filter(|key| *key != "item");
    let query = ComparisonQuery {
        options: CompareOptions::default(),
        cluster_by: cluster_by.cloned(),
        ..ComparisonQuery::default()
    };
    let options = options(app, project, &runs, &query).await?;
    let Some(run) = runs.pop() else { return Err(Problem::internal()) };
    let baseline = runs.pop().filter(|_| has_baseline);
    let NewGate { config, items, .. } = input;
    let runs = GateRuns { run, baseline };
    compared(move || match items {
        true => gate_with_items(&config, runs, &options),
        false => gate(&config, runs, &options),
    })
    .await
}

pub(super) async fn list_gates(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    params: Params,
) -> Result<Answer<CursorList<ExperimentGate>>, Problem> {
    params.only(LIST)?;
    let limit = params.int("limit", 1, 100, 20)?;
    let after = cursor::position(&params)?;
    let found = app.store.telemetry.gates(&caller.project, &id, after.as_ref(), limit).await?;
    let Page { items, next } = found;
    let data: Result<Vec<ExperimentGate>, Problem> = items.into_iter().map(view).collect();
    Ok(Answer(CursorList { data: data?, meta: cursor::meta(next.as_ref()) }))
}

fn view(gate: GateRecord) -> Result<ExperimentGate, Problem> {
    let report = serde_json::from_value(gate.report).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "a stored gate is unreadable");
        Problem::internal()
    })?;
    Ok(ExperimentGate { id: gate.id, created_at: gate.created_at, report })
}
