//! `POST P/plugins/{digest}/rollback`: moves the evaluators of a plug-in to another version of it.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{PluginMoveLine, RejectedForm, Text, plural};
use serde::Deserialize;
use serde_json::json;

use super::list::plugin_href;
use super::one::{PluginForms, PluginPath, view};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input, parsed};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const OPERATION: &str = "/api/v1/plugins/rollback";

#[derive(Debug, Deserialize)]
struct Moves {
    data: Vec<Move>,
}

#[derive(Debug, Deserialize)]
struct Move {
    name: String,
    before: Origin,
    after: Origin,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Origin {
    plugin_version: String,
}

async fn moves(
    app: &App,
    viewer: &Viewer,
    (name, to): (&str, &str),
    is_dry_run: bool,
) -> Result<Vec<Move>, Problem> {
    let body = json!({ "name": name, "to": to, "dryRun": is_dry_run });
    let moves: Moves = parsed(call(app, viewer, (Method::POST, OPERATION), &body).await?)?;
    Ok(moves.data)
}

/// Field `to`; the button `action` is `preview` or `move`.
pub(crate) async fn roll_back(
    State(app): State<App>,
    Path(path): Path<PluginPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let plugin = path.find(&app, viewer).await?;
    let name = plugin.info.name.as_str();
    let to = form.fields.raw("to").unwrap_or_default();
    let mut forms = PluginForms { to: Some(to.to_owned()), ..PluginForms::default() };
    let result = if form.fields.text("action") == Some("preview") {
        let found = moves(&app, viewer, (name, to), true).await;
        found.map(|found| forms.moves = Some(found.into_iter().map(line).collect()))
    } else {
        let act = async {
            let moved = moves(&app, viewer, (name, to), false).await?;
            let n_moved = plural(moved.len() as u64, "evaluator");
            let outcome = SubmissionOutcome::new(format!("{n_moved} moved to {name} {to}."));
            Ok(outcome.at(plugin_href(viewer, &plugin.digest)))
        };
        match Box::pin(form.run_once(&app, act)).await {
            Ok(response) => return Ok(response),
            Err(problem) => Err(problem),
        }
    };
    let status = match result {
        Ok(()) => StatusCode::OK,
        // A version that does not exist is a wrong value.
        Err(problem) if is_about_input(&problem) || problem.code() == Code::NotFound => {
            let problems = field_problems(&problem, &[("to", "to")], "to");
            forms.rejected = RejectedForm { values: Vec::new(), problems };
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Err(problem) => return Err(problem),
    };
    page(status, &view(&app, viewer, &plugin, forms).await?)
}

fn line(one: Move) -> PluginMoveLine {
    PluginMoveLine {
        name: Text::from(one.name),
        before: Text::from(one.before.plugin_version),
        after: Text::from(one.after.plugin_version),
    }
}
