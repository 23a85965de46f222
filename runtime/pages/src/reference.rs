//! `GET /api/reference`: the API's own description, as a page. Anybody may read it, like the document.

use std::sync::LazyLock;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_ui::{Reference, ReferencePage, Section, Shell};

use super::{page, somebody};
use crate::App;
use crate::problem::Problem;

static REFERENCE: LazyLock<Reference> = LazyLock::new(|| {
    let document = serde_json::to_value(crate::api::openapi());
    Reference::of(&document.unwrap_or_default())
});

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let viewer = somebody(&app, &headers).await?;
    let shell = match viewer {
        Some(viewer) => viewer.shell(Section::Reference),
        None => Shell::default(),
    };
    let view = ReferencePage {
        shell,
        reference: &REFERENCE,
    };
    page(StatusCode::OK, &view)
}
