//! `GET` and `POST P/plugins/new`: uploads a component and shows the report of its check.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::Problem;
use perpend_views::{
    ComponentReport, ComponentStep, PluginUploadPage, Section, Text, Tone, plural,
};
use serde_json::Value;

use super::list::plugin_href;
use crate::request::forms::check_token;
use crate::request::operations::{is_about_input, json_of, send};
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::request::{multipart, origin};
use crate::state::App;

const OPERATION: &str = "/api/v1/plugins";
/// As the page names the limit of the operation.
const MAX_SIZE: &str = "64 MiB";

/// `GET P/plugins/new`
pub(crate) async fn upload_page(viewer: Viewer) -> Result<Response, Problem> {
    page(StatusCode::OK, &view(&viewer, None))
}

fn view(viewer: &Viewer, report: Option<ComponentReport>) -> PluginUploadPage {
    PluginUploadPage {
        shell: viewer.shell(Section::Plugins),
        origin: viewer.origin.clone(),
        max_size: MAX_SIZE.to_owned(),
        report,
    }
}

/// `POST P/plugins/new`: a form with the token and a file. A component that is registered is not registered again, so the
/// form can be repeated.
pub(crate) async fn upload_plugin(
    State(app): State<App>,
    viewer: Viewer,
    request: Request,
) -> Result<Response, Problem> {
    origin::same_site(&app, request.headers())?;
    let (parts, body) = request.into_parts();
    let form = multipart::read(&parts.headers, body).await?;
    check_token(&viewer, &form.fields)?;
    let component = ("application/wasm", form.content);
    let response = send(&app, &viewer, (Method::POST, OPERATION), component).await?;
    match json_of(response).await {
        Ok(plugin) => {
            let digest = plugin["digest"].as_str().unwrap_or_default();
            let digest: Digest = digest.parse().map_err(|_| Problem::internal())?;
            Ok(Redirect::to(&plugin_href(&viewer, &digest)).into_response())
        }
        Err(problem) if is_about_input(&problem) => {
            let report = report(&problem, &form.file_name);
            page(StatusCode::UNPROCESSABLE_ENTITY, &view(&viewer, Some(report)))
        }
        Err(problem) => Err(problem),
    }
}

fn report(problem: &Problem, file_name: &str) -> ComponentReport {
    let body = problem.rfc9457_body();
    let steps = body["steps"].as_array().map_or(&[][..], Vec::as_slice);
    ComponentReport {
        file_name: Text::from(if file_name.is_empty() { "no file" } else { file_name }),
        message: Text::from(problem.message()),
        steps: steps.iter().map(step).collect(),
    }
}

fn step(step: &Value) -> ComponentStep {
    let text = |value: &Value| Text::from(value.as_str().unwrap_or_default());
    let (status, tone) = match step["status"].as_str() {
        Some("passed") => ("passed", Tone::Good),
        Some("failed") => ("failed", Tone::Bad),
        _ => ("not reached", Tone::Plain),
    };
    let problems = step["problems"].as_array().map_or(&[][..], Vec::as_slice).iter();
    let n_omitted = step["problemsOmitted"].as_u64().unwrap_or_default();
    ComponentStep {
        label: match step["step"].as_str().unwrap_or_default() {
            "file" => "File: size and format",
            "compile" => "Compilation",
            "imports" => "Imports: what it requests of the server",
            "exports" => "Exports: the functions of an evaluator",
            "describe" => "Description: name, version, evaluators, schemas, scores",
            "registration" => "Registration: name and version are free",
            _ => "Other",
        },
        status,
        tone,
        problems: problems
            .map(|problem| (text(&problem["at"]), text(&problem["message"])))
            .collect(),
        omitted: (0 < n_omitted).then(|| plural(n_omitted, "more problem")),
    }
}
