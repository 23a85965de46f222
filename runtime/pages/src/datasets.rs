//! `GET P/datasets`, `GET P/datasets/{dataset}` and `GET P/datasets/{dataset}/runs/{run}`: the URLs that clients print after
//! an experiment.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_catalog::datasets::ItemQuery;
use perpend_domain::list::Paging;
use perpend_http_kit::problem::Problem;
use perpend_views::{DatasetPage, Html, Section, Text, count, encode, utc_time};
use serde::Deserialize;

use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::setup;
use crate::state::App;

/// Runs listed on the page of a dataset.
const MAX_RUNS: u32 = 20;
/// Datasets listed on the page of all datasets.
const MAX_DATASETS: u32 = 100;

#[derive(Debug, Deserialize)]
pub(super) struct DatasetPath {
    dataset: String,
}

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

/// `GET P/datasets`
pub(super) async fn list_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let newest = Paging { page: 1, limit: MAX_DATASETS };
    let found = app.store.catalog.datasets(&viewer.project, newest).await?;
    let base = format!("{}/datasets", viewer.base());
    let inside = found.items.into_iter().map(|found| {
        let href = format!("{base}/{}", encode(&found.dataset.id));
        (Text::from(found.dataset.name), href)
    });
    let origin = setup::origin_of_request(&app, &headers);
    let view = DatasetPage {
        shell: viewer.shell(Section::Other),
        kind: "Datasets",
        name: Text::from("Datasets"),
        description: None,
        facts: vec![("Datasets", Html::text(&count(found.n_total)))],
        inside: inside.collect(),
        requests: vec![
            ("Datasets", curl(&origin, "/api/public/v2/datasets")),
            (
                "Create a dataset",
                format!(
                    "{} -H 'Content-Type: application/json' -d '{{\"name\": \"questions\"}}'",
                    curl(&origin, "/api/public/v2/datasets")
                ),
            ),
        ],
    };
    page(StatusCode::OK, &view)
}

/// `GET P/datasets/{dataset}`
pub(super) async fn dataset_page(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path(DatasetPath { dataset }): Path<DatasetPath>,
) -> Result<Response, Problem> {
    let (store, project) = (&app.store, &viewer.project);
    let found = store.catalog.dataset_by_id(project, &dataset).await?;
    let found = found.ok_or_else(|| Problem::not_found("dataset"))?.dataset;
    let items = ItemQuery { dataset_id: Some(found.id.clone()), ..ItemQuery::default() };
    let one = Paging { page: 1, limit: 1 };
    let n_items = store.catalog.dataset_items(project, &items, one).await?;
    let ids = [found.id.as_str()];
    let names = store.telemetry.dataset_run_names(project, &ids, MAX_RUNS);
    let names = names.await?.remove(&found.id).unwrap_or_default();
    let (origin, name) = (setup::origin_of_request(&app, &headers), encode(&found.name));
    let base = format!("{}/datasets/{}/runs", viewer.base(), encode(&found.id));
    let runs = names.iter().map(|name| {
        let id = perpend_domain::dataset::run_id(project, &found.id, name);
        (Text::from(name.as_str()), format!("{base}/{}", encode(&id)))
    });
    let schema = |schema: &Option<serde_json::Value>| {
        Text::from(if schema.is_some() { "set" } else { "not set" })
    };
    let view = DatasetPage {
        shell: viewer.shell(Section::Other),
        kind: "Dataset",
        description: found.description.as_deref().map(Text::lines),
        facts: vec![
            ("Items", Html::text(&count(n_items.n_total))),
            ("Input schema", schema(&found.input_schema).into()),
            ("Output schema", schema(&found.expected_output_schema).into()),
            created_fact(found.created_at),
        ],
        inside: runs.collect(),
        requests: vec![
            ("Items", curl(&origin, &format!("/api/public/dataset-items?datasetName={name}"))),
            ("Runs", curl(&origin, &format!("/api/public/datasets/{name}/runs"))),
        ],
        name: Text::from(found.name),
    };
    page(StatusCode::OK, &view)
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
        shell: viewer.shell(Section::Other),
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
