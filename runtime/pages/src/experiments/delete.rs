//! `GET` and `POST P/experiments/{experiment}/delete`: deletes a run with the function of the API operation.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DeleteExperimentPage, Section, Text, run_href};

use crate::experiments::run::RunPath;
use crate::request::forms::SubmittedForm;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// `GET P/experiments/{experiment}/delete`: the confirmation.
pub(crate) async fn confirmation_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<RunPath>,
) -> Result<Response, Problem> {
    let results = path.results(&app, &viewer).await?;
    let view = DeleteExperimentPage {
        shell: viewer.shell(Section::Experiments),
        href: run_href(&viewer.base(), &results.run.id),
        n_items: results.items.len() as u64,
        name: Text::from(results.run.name),
    };
    page(StatusCode::OK, &view)
}

/// `POST P/experiments/{experiment}/delete`
pub(crate) async fn delete_run(
    State(app): State<App>,
    Path(path): Path<RunPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let run = path.results(&app, viewer).await?.run;
        app.store.delete_run(&viewer.project, &run.id, app.web.clock.now()).await?;
        Ok(SubmissionOutcome::new(format!("Run {} deleted.", run.name)))
    };
    Box::pin(form.run_once(&app, act)).await
}
