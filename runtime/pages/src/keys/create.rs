//! `GET` and `POST P/settings/keys/new`: creates a key pair and shows its secret once.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{KeySecretPage, NewKeyPage, RejectedForm, Section, Text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stored::{key_href, keys_operation, list_href, start_of_day};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input, parsed, sent_values};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Members of the body and their fields.
const FIELDS: [(&str, &str); 3] = [("name", "name"), ("scope", "scope"), ("expiresAt", "expires")];
/// The message of a repeated form.
pub(super) const SHOWN_ONCE: &str = "The form was already submitted. A secret is shown only once.";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CreatedKey {
    id: String,
    public_key: String,
    secret_key: String,
}

/// `GET P/settings/keys/new`
pub(crate) async fn new_page(viewer: Viewer) -> Result<Response, Problem> {
    page(StatusCode::OK, &view(&viewer, RejectedForm::default()))
}

/// `POST P/settings/keys/new`
pub(crate) async fn create_key(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let operation = keys_operation(viewer);
        let created = call(&app, viewer, (Method::POST, &operation), &body(&form.fields)).await?;
        parsed::<CreatedKey>(created)
    };
    let outcome = SubmissionOutcome::new(SHOWN_ONCE).at(list_href(viewer));
    match Box::pin(form.run_once_for_secret(&app, outcome, act)).await {
        Ok(Ok(created)) => {
            let view = KeySecretPage {
                shell: viewer.shell(Section::Keys),
                href: key_href(viewer, &created.id),
                public_key: Text::from(created.public_key),
                secret_key: Text::from(created.secret_key),
                previous_expires_at: None,
            };
            page(StatusCode::OK, &view)
        }
        Ok(Err(repeated)) => Ok(repeated),
        Err(problem) if is_about_input(&problem) => {
            let rejected = RejectedForm {
                values: sent_values(&form.fields, FIELDS.map(|(_, field)| field)),
                problems: field_problems(&problem, &FIELDS, "name"),
            };
            page(StatusCode::UNPROCESSABLE_ENTITY, &view(viewer, rejected))
        }
        Err(problem) => Err(problem),
    }
}

fn view(viewer: &Viewer, rejected_form: RejectedForm) -> NewKeyPage {
    NewKeyPage { shell: viewer.shell(Section::Keys), rejected_form }
}

fn body(fields: &Params) -> Value {
    let text = |name: &str| fields.raw(name).unwrap_or_default().trim();
    let name = Some(text("name")).filter(|name| !name.is_empty());
    let expires_at = start_of_day(text("expires"));
    json!({ "name": name, "scope": text("scope"), "expiresAt": expires_at })
}
