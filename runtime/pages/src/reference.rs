//! `GET /api/reference`: the API's own description, as a page. Anybody may read it, like the document.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_ui::{ReferencePage, Section};
use perpend_web::problem::Problem;

use crate::answer::page;
use crate::sent;
use crate::state::App;
use crate::viewer::somebody;

pub(super) async fn show(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let viewer = somebody(&app, &headers).await?;
    let shell = match viewer {
        Some(viewer) => viewer.shell(Section::Reference),
        None => sent::shell(&headers),
    };
    let view = ReferencePage {
        shell,
        reference: app.reference(),
    };
    page(StatusCode::OK, &view)
}
