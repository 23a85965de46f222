//! Addresses without a project lead to the same page of the viewer's.

use axum::extract::OriginalUri;
use axum::response::Redirect;

use crate::request::viewer::Viewer;

/// `GET /traces` and its like.
pub(crate) async fn to_project(viewer: Viewer, OriginalUri(address): OriginalUri) -> Redirect {
    let rest = address.path_and_query().map_or("", |rest| rest.as_str());
    Redirect::to(&format!("{}{rest}", viewer.base()))
}

/// `GET /trace/{trace}`: the address that npm's `langfuse` 3 makes by itself.
pub(crate) async fn trace_of_client(viewer: Viewer, OriginalUri(address): OriginalUri) -> Redirect {
    let trace = address.path().strip_prefix("/trace/").unwrap_or_default();
    Redirect::to(&format!("{}/traces/{trace}", viewer.base()))
}
