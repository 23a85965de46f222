//! Redirects of URLs without a project to the viewer's project.

use axum::extract::{OriginalUri, RawQuery};
use axum::response::Redirect;
use perpend_views::run_href;

use crate::request::viewer::Viewer;

/// `GET /traces`, `GET /sessions` and so on.
pub(crate) async fn to_project(viewer: Viewer, OriginalUri(address): OriginalUri) -> Redirect {
    let rest = address.path_and_query().map_or("", |rest| rest.as_str());
    Redirect::to(&format!("{}{rest}", viewer.base()))
}

/// `GET /trace/{trace}`: the URL that the npm package `langfuse` 3 builds.
pub(crate) async fn trace_of_client(viewer: Viewer, OriginalUri(address): OriginalUri) -> Redirect {
    let trace = address.path().strip_prefix("/trace/").unwrap_or_default();
    Redirect::to(&format!("{}/traces/{trace}", viewer.base()))
}

/// `GET P/experiments/results?baseline=RUN`: the URL that the Python package `langfuse` 5 prints after an experiment.
pub(crate) async fn experiment_of_client(viewer: Viewer, RawQuery(query): RawQuery) -> Redirect {
    let query = query.unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    Redirect::to(&match pairs.find(|(name, _)| name == "baseline") {
        Some((_, run)) => run_href(&viewer.base(), &run),
        None => format!("{}/experiments", viewer.base()),
    })
}
