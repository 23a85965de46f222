//! `GET P/datasets/{dataset}`: its tabs.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DatasetRunsPage, DatasetUsePage, RejectedForm, Text, encode, run_href};

use super::context::{DatasetContext, DatasetParams, DatasetPath, fault};
use super::{examples, items, schemas, versions};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Runs listed on the page of a dataset.
const MAX_RUNS: u32 = 100;

/// `GET P/datasets/{dataset}`
pub(crate) async fn dataset_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    Query(params): Query<DatasetParams>,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    match params.tab.as_deref().unwrap_or("items") {
        "schemas" => {
            let view = schemas::view(&app, &context, &params).await?;
            page(StatusCode::OK, &view)
        }
        "versions" => {
            let view = versions::view(&app, &context, &params).await?;
            page(StatusCode::OK, &view)
        }
        "experiments" => {
            let view = runs_view(&app, &context).await?;
            page(StatusCode::OK, &view)
        }
        "use" => {
            let view = DatasetUsePage {
                shell: context.shell(),
                head: context.head("use", Vec::new(), RejectedForm::default()),
                examples: examples::of(context.name(), &context.viewer.origin),
                exports: exports(&context),
            };
            page(StatusCode::OK, &view)
        }
        tab => {
            let mut faults = Vec::new();
            if tab != "items" {
                let tabs = "one of `items`, `schemas`, `versions`, `experiments`, `use`";
                faults.push(fault("tab", tabs, tab));
            }
            let view = Box::pin(items::view(&app, &context, &params, faults)).await?;
            page(StatusCode::OK, &view)
        }
    }
}

/// Labels and URLs of the items as files.
fn exports(context: &DatasetContext) -> Vec<(&'static str, String)> {
    let formats = [("CSV", "csv"), ("TSV", "tsv"), ("JSON Lines", "jsonl"), ("JSON", "json")];
    let links = formats
        .map(|(label, format)| (label, format!("{}/export?format={format}", context.href())));
    links.to_vec()
}

async fn runs_view(app: &App, context: &DatasetContext) -> Result<DatasetRunsPage, Problem> {
    let (project, id) = (&context.viewer.project, context.id());
    let names = app.store.telemetry.dataset_run_names(project, &[id], MAX_RUNS).await?;
    let names = names.into_iter().next().map(|(_, names)| names).unwrap_or_default();
    let base = context.viewer.base();
    let runs = names.iter().map(|name| {
        let run = perpend_domain::dataset::run_id(project, id, name);
        (Text::from(name.as_str()), run_href(&base, &run))
    });
    Ok(DatasetRunsPage {
        shell: context.shell(),
        head: context.head("experiments", Vec::new(), RejectedForm::default()),
        runs: runs.collect(),
        experiments_href: format!("{base}/experiments?dataset={}", encode(id)),
    })
}
