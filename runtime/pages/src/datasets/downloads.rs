//! Files that operations of the API write: the items of a dataset, and the rejected rows of an import.

use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::Method;
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{decode_segment, encode};

use super::context::{DatasetContext, DatasetPath};
use super::import::ImportPath;
use crate::request::operations::send;
use crate::request::viewer::Viewer;
use crate::state::App;

/// The response of an operation with the query of the page.
async fn download(
    app: &App,
    viewer: &Viewer,
    operation: &str,
    query: Option<String>,
) -> Result<Response, Problem> {
    let path = match query {
        Some(query) => format!("{operation}?{query}"),
        None => operation.to_owned(),
    };
    let nothing = ("application/json", Body::empty());
    let response = send(app, viewer, (Method::GET, &path), nothing).await?;
    match response.extensions().get::<Problem>() {
        Some(problem) => Err(problem.clone()),
        None => Ok(response),
    }
}

/// `GET P/datasets/{dataset}/export`: the items as a file; parameters of the operation `exportDataset`.
pub(crate) async fn export_items(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<DatasetPath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_path(&app, viewer, &path).await?;
    download(&app, &context.viewer, &context.operation("/export"), query).await
}

/// `GET P/datasets/{dataset}/imports/{import}/rejected`: the rejected rows; parameters of the operation
/// `listRejectedDatasetRows`.
pub(crate) async fn rejected_rows(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<ImportPath>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let context = DatasetContext::of_id(&app, viewer, decode_segment(&path.dataset)).await?;
    let operation = context.operation(&format!("/imports/{}/rejected", encode(&path.import)));
    download(&app, &context.viewer, &operation, query).await
}
