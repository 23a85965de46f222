//! `POST P/settings/default-model`: sets or removes the default evaluation model.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::RejectedForm;
use serde_json::{Map, Value, json};

use super::list;
use super::usage::list_href;
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input, sent_values};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

const OPERATION: &str = "/api/v1/llm-connections/default-model";
const FIELDS: [(&str, &str); 3] =
    [("provider", "provider"), ("model", "model"), ("params", "params")];

/// The button `action` is `save` or `remove`.
pub(crate) async fn change_default_model(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let words = match form.fields.text("action") {
            Some("remove") => {
                call(&app, viewer, (Method::DELETE, OPERATION), &json!({})).await?;
                "Default evaluation model removed."
            }
            _ => {
                call(&app, viewer, (Method::PUT, OPERATION), &body(&form.fields)?).await?;
                "Default evaluation model saved."
            }
        };
        Ok(SubmissionOutcome::new(words).at(list_href(viewer)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let rejected = RejectedForm {
                values: sent_values(&form.fields, FIELDS.map(|(_, field)| field)),
                problems: field_problems(&problem, &FIELDS, "model"),
            };
            page(StatusCode::UNPROCESSABLE_ENTITY, &list::view(&app, viewer, rejected).await?)
        }
        outcome => outcome,
    }
}

fn body(fields: &Params) -> Result<Value, Problem> {
    let params = fields.raw("params").unwrap_or_default().trim();
    let params: Map<String, Value> = match params {
        "" => Map::new(),
        text => serde_json::from_str(text)
            .map_err(|error| Problem::body("params", format!("must be a JSON object: {error}")))?,
    };
    let text = |name: &str| fields.raw(name).unwrap_or_default().trim().to_owned();
    Ok(json!({ "provider": text("provider"), "model": text("model"), "params": params }))
}
