//! `GET` and `POST P/evaluators/{evaluator}/delete`

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::problem::Problem;
use perpend_views::{DeleteEvaluatorPage, ResourceLink, Section, Text, encode, evaluator_href};
use serde_json::json;

use super::EvaluatorPath;
use super::one::rules_of;
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
    Path(path): Path<EvaluatorPath>,
) -> Result<Response, Problem> {
    let evaluator = path.find(&app, &viewer).await?;
    let rules = rules_of(&app, &viewer, &evaluator).await?;
    let (mut remaining, mut disabled) = (Vec::new(), Vec::new());
    for (rule, _) in rules {
        let link = ResourceLink::new(&rule.name, rule.id.as_str());
        let mut assignments = rule.assignments.iter();
        match assignments.any(|each| each.evaluator_id != evaluator.id) {
            true => remaining.push(link),
            false => disabled.push(link),
        }
    }
    let view = DeleteEvaluatorPage {
        shell: viewer.shell(Section::Evaluators),
        name: Text::from(evaluator.name.as_str()),
        href: evaluator_href(&viewer.base(), evaluator.id.as_str()),
        remaining,
        disabled,
    };
    page(StatusCode::OK, &view)
}

/// Deletes the evaluator.
pub(crate) async fn delete_evaluator(
    State(app): State<App>,
    Path(path): Path<EvaluatorPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let evaluator = path.find(&app, viewer).await?;
        let operation = format!("/api/public/v2/evaluators/{}", encode(evaluator.id.as_str()));
        call(&app, viewer, (Method::DELETE, &operation), &json!({})).await?;
        let words = format!("Evaluator {} deleted.", evaluator.name);
        Ok(SubmissionOutcome::new(words).at(format!("{}/evaluators", viewer.base())))
    };
    Box::pin(form.run_once(&app, act)).await
}
