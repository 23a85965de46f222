//! `GET` and `POST P/settings/keys/{key}/revoke`

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{RevokeKeyPage, Section};
use serde_json::json;

use super::stored::{KeyPath, list_href};
use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// The confirmation.
pub(crate) async fn confirmation_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<KeyPath>,
) -> Result<Response, Problem> {
    let key = path.key(&app, &viewer).await?;
    let key = key.line(&viewer, app.web.clock.now());
    page(StatusCode::OK, &RevokeKeyPage { shell: viewer.shell(Section::Keys), key })
}

/// Deletes the key pair.
pub(crate) async fn revoke_key(
    State(app): State<App>,
    Path(path): Path<KeyPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let key = path.key(&app, viewer).await?;
        call(&app, viewer, (Method::DELETE, &path.deletion(viewer)), &json!({})).await?;
        let words = format!("Key pair {} revoked.", key.public_key);
        Ok(SubmissionOutcome::new(words).at(list_href(viewer)))
    };
    Box::pin(form.run_once(&app, act)).await
}
