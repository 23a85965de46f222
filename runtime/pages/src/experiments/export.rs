//! `GET P/export/experiments`: the list of runs as a file. The parameters are those of the list.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use perpend_domain::experiment::RunSummary;
use perpend_domain::list::Cursor;
use perpend_http_kit::problem::Problem;
use serde_json::{Map, Value, json};

use crate::experiments::list::{ExperimentListParams, figures, runs};
use crate::experiments::report::RunReport;
use crate::export::{ExportColumn, ExportFormat, ExportedList, ExportedPage, respond};
use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Runs that are read at a time, with their results.
const PAGE: u32 = 20;

struct ExportedRun {
    summary: RunSummary,
    report: Option<RunReport>,
}

pub(crate) async fn export_experiments(
    State(app): State<App>,
    viewer: Viewer,
    RawQuery(raw): RawQuery,
    Query(params): Query<ExperimentListParams>,
) -> Result<Response, Problem> {
    let format = ExportFormat::from_query(raw.as_deref())?;
    let list = RunExport { app: app.clone(), viewer, params, after: None };
    respond(&app, ("experiments", format), list, columns()).await
}

struct RunExport {
    app: App,
    viewer: Viewer,
    params: ExperimentListParams,
    after: Option<Cursor>,
}

impl ExportedList for RunExport {
    type Row = ExportedRun;

    async fn next_page(&mut self) -> Result<ExportedPage<ExportedRun>, Problem> {
        let position = (self.after.take(), PAGE);
        let found = runs(&self.app, &self.viewer, &self.params, position).await?;
        self.after = found.next;
        let mut rows = Vec::with_capacity(found.items.len());
        for summary in found.items {
            let (store, project) = (&self.app.store, &self.viewer.project);
            let report = match store.run_results(project, &summary.run.id).await? {
                Some(results) => Some(RunReport::of(&self.app, project, &results).await?),
                None => None,
            };
            rows.push(ExportedRun { summary, report });
        }
        Ok(ExportedPage { rows, is_last: self.after.is_none() })
    }
}

fn columns() -> Vec<ExportColumn<ExportedRun>> {
    let account = |row: &ExportedRun, of: fn(&RunReport) -> Value| {
        row.report.as_ref().map_or(Value::Null, of)
    };
    vec![
        ExportColumn::new("id", "Id", |row: &ExportedRun| json!(row.summary.run.id)),
        ExportColumn::new("name", "Run", |row: &ExportedRun| json!(row.summary.run.name)),
        ExportColumn::new("dataset", "Dataset", |row: &ExportedRun| {
            json!(row.summary.run.dataset_name)
        }),
        ExportColumn::new("createdAt", "Created", |row: &ExportedRun| {
            json!(row.summary.run.created_at.to_string())
        }),
        ExportColumn::new("expected", "Expected items", move |row: &ExportedRun| {
            account(row, |report| json!(report.account.n_expected))
        }),
        ExportColumn::new("seen", "Items seen", move |row: &ExportedRun| {
            account(row, |report| json!(report.account.n_seen))
        }),
        ExportColumn::new("failed", "Failed items", move |row: &ExportedRun| {
            account(row, |report| json!(report.account.n_failed))
        }),
        ExportColumn::new("missing", "Missing items", move |row: &ExportedRun| {
            account(row, |report| json!(report.account.n_missing))
        }),
        ExportColumn::new("costUsd", "Cost (USD)", |row: &ExportedRun| {
            json!(figures(&row.summary, row.report.as_ref()).0)
        }),
        ExportColumn::new("latencyMs", "Mean latency (ms)", |row: &ExportedRun| {
            json!(figures(&row.summary, row.report.as_ref()).1)
        }),
        ExportColumn::new("scores", "Mean scores", move |row: &ExportedRun| {
            account(row, |report| Value::Object(means(report)))
        }),
    ]
}

/// The means of the scores by name.
fn means(report: &RunReport) -> Map<String, Value> {
    let means = report
        .scores
        .iter()
        .filter_map(|scores| Some((scores.name.clone(), json!(scores.values.mean?))));
    means.collect()
}
