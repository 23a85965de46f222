//! `GET` and `POST P/plugins/{digest}/delete`

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DeletePluginPage, Section, Text};
use serde_json::json;

use super::list::plugin_href;
use super::one::PluginPath;
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
    Path(path): Path<PluginPath>,
) -> Result<Response, Problem> {
    let plugin = path.find(&app, &viewer).await?;
    let view = DeletePluginPage {
        shell: viewer.shell(Section::Plugins),
        name: Text::from(format!("{} {}", plugin.info.name, plugin.info.version)),
        href: plugin_href(&viewer, &plugin.digest),
    };
    page(StatusCode::OK, &view)
}

/// Deletes the version.
pub(crate) async fn delete_plugin(
    State(app): State<App>,
    Path(path): Path<PluginPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let plugin = path.find(&app, viewer).await?;
        let operation = format!("/api/v1/plugins/{}", plugin.digest);
        call(&app, viewer, (Method::DELETE, &operation), &json!({})).await?;
        let words = format!("Plug-in {} {} deleted.", plugin.info.name, plugin.info.version);
        Ok(SubmissionOutcome::new(words).at(format!("{}/plugins", viewer.base())))
    };
    Box::pin(form.run_once(&app, act)).await
}
