//! Datasets and their items, and runs, whose URLs clients print after an experiment.
//!
//! Invariant: **a form does what the API does.** Every change is a call of an operation (`request::operations`).

pub(super) mod dataset;
mod examples;
pub(super) mod items;
mod links;
pub(super) mod list;
pub(super) mod schemas;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DatasetPage, Html, Section, Text, encode, utc_time};
use serde::Deserialize;

use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;

#[derive(Debug, Deserialize)]
pub(super) struct RunPath {
    dataset: String,
    run: String,
}

fn curl(origin: &str, path: &str) -> String {
    format!("curl -u \"$PUBLIC_KEY:$SECRET_KEY\" \"{origin}{path}\"")
}

fn created_fact(created_at: perpend_domain::time::Timestamp) -> (&'static str, Html) {
    ("Created", utc_time(created_at))
}

/// `GET P/datasets/{dataset}/runs/{run}`
pub(super) async fn run_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path(RunPath { dataset, run }): Path<RunPath>,
) -> Result<Response, Problem> {
    let (store, project) = (&app.store, &viewer.project);
    let found = store.telemetry.dataset_runs_by_id(project, &[&run]).await?;
    let found = found.into_iter().find(|found| found.dataset_id == dataset);
    let found = found.ok_or_else(|| Problem::not_found("run"))?;
    let origin = setup::origin_of_request(&app, &headers);
    let path = format!(
        "/api/public/datasets/{}/runs/{}",
        encode(&found.dataset_name),
        encode(&found.name)
    );
    let view = DatasetPage {
        shell: viewer.shell(Section::Datasets),
        kind: "Run",
        description: found.description.as_deref().map(Text::lines),
        facts: vec![
            ("Dataset", Text::from(found.dataset_name).into()),
            created_fact(found.created_at),
        ],
        inside: Vec::new(),
        requests: vec![("Run with its items", curl(&origin, &path))],
        name: Text::from(found.name),
    };
    page(StatusCode::OK, &view)
}
