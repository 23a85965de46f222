//! Values of versions of items as plain text, and the media embedded in them.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use perpend_domain::observation::Content;
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use serde_json::Value;

use super::item::ItemHistory;
use crate::request::query::Query;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::trace::media::embedded_medium;
use crate::trace::raw::{self, RawParams};

/// The path of a value: `part` is `input`, `output` (the expected output) or `metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct RawPath {
    dataset: String,
    item: String,
    version: String,
    part: String,
}

/// The path of a medium in a value.
#[derive(Debug, Deserialize)]
pub(crate) struct MediumPath {
    number: String,
}

async fn content(app: &App, viewer: Viewer, path: &RawPath) -> Result<Content, Problem> {
    let history = ItemHistory::of_path(app, viewer, (&path.dataset, &path.item)).await?;
    let at = Timestamp::parse(&path.version).map_err(|_| raw::unknown())?;
    let item = history.version(app, at).await?.ok_or_else(raw::unknown)?.item;
    let payload = |value: Value| (!value.is_null()).then(|| Payload::from_value(value));
    Ok(match path.part.as_str() {
        // Any JSON value, whereas the metadata of traces are objects.
        "metadata" => Content { input: payload(item.metadata), ..Content::default() },
        _ => Content {
            input: payload(item.input),
            output: payload(item.expected_output),
            ..Content::default()
        },
    })
}

/// The name of the value in [`Content`].
fn part_of(path: &RawPath) -> &str {
    match path.part.as_str() {
        "metadata" => "input",
        part => part,
    }
}

/// `GET P/datasets/{dataset}/items/{item}/versions/{version}/raw/{part}`
pub(crate) async fn item_value(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RawPath>,
    Query(params): Query<RawParams>,
) -> Result<Response, Problem> {
    raw::text(content(&app, viewer, &path).await?, part_of(&path), params)
}

/// `GET P/datasets/{dataset}/items/{item}/versions/{version}/raw/{part}/media/{number}`
pub(crate) async fn item_medium(
    State(app): State<App>,
    viewer: Viewer,
    headers: HeaderMap,
    Path(path): Path<RawPath>,
    Path(MediumPath { number }): Path<MediumPath>,
    Query(params): Query<RawParams>,
) -> Result<Response, Problem> {
    let value = raw::value(content(&app, viewer, &path).await?, part_of(&path));
    embedded_medium(value, &params, (&path.part, &number), &headers)
}
