//! `POST P/experiments/direction`: sets the better direction of a score, as `PUT /api/v1/score-directions/{scoreName}` does.

use axum::extract::State;
use axum::http::Method;
use axum::response::Response;
use percent_encoding::percent_decode_str;
use perpend_http_kit::problem::Problem;
use perpend_views::{Undo, encode};
use serde_json::json;

use crate::request::forms::SubmittedForm;
use crate::request::operations::call;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

/// The values of the field `direction` with those of the API and the words of the message.
const DIRECTIONS: [(&str, Option<&str>, &str); 3] = [
    ("higher", Some("higher_is_better"), "higher values are better"),
    ("lower", Some("lower_is_better"), "lower values are better"),
    ("unknown", None, "the better direction is unknown"),
];

/// `score` is the percent-encoded name, `direction` one of `higher`, `lower`, `unknown`, `type` the type of the scores.
pub(crate) async fn set_direction(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let score = form.fields.text("score").unwrap_or_default();
    let name = percent_decode_str(score).decode_utf8_lossy().into_owned();
    let value = form.fields.text("direction").unwrap_or_default();
    let Some((_, direction, words)) = DIRECTIONS.iter().find(|(known, ..)| *known == value) else {
        let message = format!("must be one of `higher`, `lower`, `unknown`; got `{value}`");
        return Err(Problem::body("direction", message));
    };
    let act = async {
        let path = format!("/api/v1/score-directions/{}", encode(&name));
        let body = json!({ "direction": direction, "dataType": form.fields.text("type") });
        call(&app, viewer, (Method::PUT, &path), &body).await?;
        let undo = direction.is_some().then(|| Undo {
            action: format!("{}/experiments/direction", viewer.base()),
            fields: vec![("score", encode(&name)), ("direction", "unknown".to_owned())],
        });
        Ok(SubmissionOutcome { undo, ..SubmissionOutcome::new(format!("{name}: {words}.")) })
    };
    Box::pin(form.run_once(&app, act)).await
}
