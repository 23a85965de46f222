//! `GET` and `POST P/settings/connections/{connection}/delete`

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DeleteConnectionPage, ResourceLink, Section, Text, segment};
use serde_json::json;

use super::usage::{ConnectionPath, connection_href, list_href};
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
    Path(path): Path<ConnectionPath>,
) -> Result<Response, Problem> {
    let usage = path.usage(&app, &viewer).await?;
    let evaluators = usage.evaluators.iter();
    let evaluators = evaluators.map(|each| ResourceLink::new(&each.name, &each.evaluator_id));
    let view = DeleteConnectionPage {
        shell: viewer.shell(Section::Connections),
        name: Text::from(usage.connection.provider.as_str()),
        href: connection_href(&viewer, &usage.connection.id),
        evaluators: evaluators.collect(),
        is_default: usage.default_model.is_some(),
    };
    page(StatusCode::OK, &view)
}

/// Deletes the connection.
pub(crate) async fn delete_connection(
    State(app): State<App>,
    Path(path): Path<ConnectionPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let usage = path.usage(&app, viewer).await?;
        let id = &usage.connection.id;
        let operation = format!("/api/public/llm-connections/{}", segment(id));
        call(&app, viewer, (Method::DELETE, &operation), &json!({})).await?;
        let words = format!("Connection {} deleted.", usage.connection.provider);
        Ok(SubmissionOutcome::new(words).at(list_href(viewer)))
    };
    Box::pin(form.run_once(&app, act)).await
}
