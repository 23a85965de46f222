//! `POST P/plugins/{digest}/grants`: the capabilities of an evaluator of the project.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{RejectedForm, segment};
use serde_json::json;

use super::list::plugin_href;
use super::one::{PluginForms, PluginPath, view};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

/// Fields `evaluator`, and `grant` for each capability.
pub(crate) async fn change_grants(
    State(app): State<App>,
    Path(path): Path<PluginPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let plugin = path.find(&app, viewer).await?;
    let act = async {
        let id = form.fields.raw("evaluator").unwrap_or_default();
        let operation = format!("/api/v1/evaluators/{}/grants", segment(id));
        let body = json!({ "grants": form.fields.raw_all("grant") });
        let evaluator = call(&app, viewer, (Method::PUT, &operation), &body).await?;
        let name = evaluator["name"].as_str().unwrap_or_default();
        let outcome = SubmissionOutcome::new(format!("Capabilities of {name} saved."));
        Ok(outcome.at(plugin_href(viewer, &plugin.digest)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let problems = field_problems(&problem, &[("grants", "grants")], "grants");
            let rejected = RejectedForm { values: Vec::new(), problems };
            let forms = PluginForms { rejected, ..PluginForms::default() };
            let view = view(&app, viewer, &plugin, forms).await?;
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        outcome => outcome,
    }
}
