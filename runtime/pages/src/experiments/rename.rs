//! `GET` and `POST P/experiments/{experiment}/rename`: the name of a run.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::experiment::{ExperimentRun, escaped_run_id};
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{RenameExperimentPage, Section, Text, run_href, segment};
use serde_json::json;

use crate::experiments::run::RunPath;
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// `GET P/experiments/{experiment}/rename`
pub(crate) async fn rename_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RunPath>,
) -> Result<Response, Problem> {
    let run = run(&app, &viewer, &path).await?;
    page(StatusCode::OK, &view(&viewer, &run, &run.name, None))
}

/// `POST P/experiments/{experiment}/rename`: field `name`.
pub(crate) async fn rename_run(
    State(app): State<App>,
    Path(path): Path<RunPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let run = run(&app, viewer, &path).await?;
    let name = form.fields.raw("name").unwrap_or_default().trim();
    let act = async {
        let operation = format!("/api/v1/experiments/{}", segment(&escaped_run_id(&run.id)));
        call(&app, viewer, (Method::PATCH, &operation), &json!({ "name": name })).await?;
        Ok::<_, Problem>(SubmissionOutcome::new("Run renamed."))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let message = match problem.code() {
                Code::NameConflict => {
                    Some(Text::from("must be unused; another run over the dataset has this name"))
                }
                _ => field_problems(&problem, &[("name", "name")], "name")
                    .pop()
                    .map(|(_, text)| text),
            };
            page(StatusCode::UNPROCESSABLE_ENTITY, &view(viewer, &run, name, message))
        }
        outcome => outcome,
    }
}

async fn run(app: &App, viewer: &Viewer, path: &RunPath) -> Result<ExperimentRun, Problem> {
    let found = app.store.telemetry.experiment_run(&viewer.project, path.id()).await?;
    found.ok_or_else(|| Problem::not_found("run"))
}

fn view(
    viewer: &Viewer,
    run: &ExperimentRun,
    entered: &str,
    problem: Option<Text>,
) -> RenameExperimentPage {
    RenameExperimentPage {
        shell: viewer.shell(Section::Experiments),
        href: run_href(&viewer.base(), &run.id),
        name: Text::from(run.name.as_str()),
        entered: entered.to_owned(),
        problem,
    }
}
