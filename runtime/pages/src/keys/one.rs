//! `GET P/settings/keys/{key}`: one key pair, and the forms that change, rotate and end a secret of it.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_domain::access::Permission::KeyWrite;
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_views::{KeyPage, KeySecretPage, RejectedForm, Section, Text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::create::SHOWN_ONCE;
use super::stored::{KeyPath, StoredKey, start_of_day};
use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input, parsed};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Members of the bodies and their fields.
const FIELDS: [(&str, &str); 3] =
    [("name", "name"), ("expiresAt", "expires"), ("overlapHours", "overlap")];
/// Characters of a date.
const DATE_CHARS: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RotatedKey {
    secret_key: String,
    api_key: RotatedPair,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RotatedPair {
    public_key: String,
    rotation: RotatedSecret,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RotatedSecret {
    previous_secret_expires_at: Timestamp,
}

/// `GET P/settings/keys/{key}`
pub(crate) async fn key_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<KeyPath>,
) -> Result<Response, Problem> {
    let key = path.key(&app, &viewer).await?;
    page(StatusCode::OK, &view(&app, &viewer, &key))
}

/// `POST P/settings/keys/{key}`: fields `name`, `expires` and `public_scores`.
pub(crate) async fn change_key(
    State(app): State<App>,
    Path(path): Path<KeyPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let key = path.key(&app, viewer).await?;
    let act = async {
        let operation = path.operation(viewer, "");
        call(&app, viewer, (Method::PATCH, &operation), &changes(&form.fields, &key)).await?;
        Ok(SubmissionOutcome::new("Key pair saved.").at(path.href(viewer)))
    };
    match Box::pin(form.run_once(&app, act)).await {
        Err(problem) if is_about_input(&problem) => {
            let text = |name: &str| form.fields.raw(name).unwrap_or_default().to_owned();
            let view = view(&app, viewer, &key);
            let sent = KeyPage {
                name_field: text("name"),
                expires_field: text("expires"),
                public_scores_field: key
                    .public_scores()
                    .map(|_| form.fields.raw("public_scores").is_some()),
                rejected_form: rejected(&problem),
                ..view
            };
            page(StatusCode::UNPROCESSABLE_ENTITY, &sent)
        }
        outcome => outcome,
    }
}

/// `POST P/settings/keys/{key}/rotate`: field `overlap` in hours.
pub(crate) async fn rotate_key(
    State(app): State<App>,
    Path(path): Path<KeyPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let overlap = form.fields.raw("overlap").unwrap_or_default().trim();
    let hours = overlap.parse::<i64>().map_or_else(|_| json!(overlap), |hours| json!(hours));
    let act = async {
        let operation = path.operation(viewer, "/rotate");
        let body = json!({ "overlapHours": hours });
        parsed::<RotatedKey>(call(&app, viewer, (Method::POST, &operation), &body).await?)
    };
    let outcome = SubmissionOutcome::new(SHOWN_ONCE).at(path.href(viewer));
    match Box::pin(form.run_once_for_secret(&app, outcome, act)).await {
        Ok(Ok(rotated)) => {
            let view = KeySecretPage {
                shell: viewer.shell(Section::Keys),
                href: path.href(viewer),
                public_key: Text::from(rotated.api_key.public_key),
                secret_key: Text::from(rotated.secret_key),
                previous_expires_at: Some(rotated.api_key.rotation.previous_secret_expires_at),
            };
            page(StatusCode::OK, &view)
        }
        Ok(Err(repeated)) => Ok(repeated),
        Err(problem) if is_about_input(&problem) => {
            let key = path.key(&app, viewer).await?;
            let view = view(&app, viewer, &key);
            page(
                StatusCode::UNPROCESSABLE_ENTITY,
                &KeyPage { rejected_form: rejected(&problem), ..view },
            )
        }
        Err(problem) => Err(problem),
    }
}

/// `POST P/settings/keys/{key}/end-previous-secret`
pub(crate) async fn end_previous_secret(
    State(app): State<App>,
    Path(path): Path<KeyPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let act = async {
        let operation = path.operation(viewer, "/end-previous-secret");
        call(&app, viewer, (Method::POST, &operation), &json!({})).await?;
        Ok(SubmissionOutcome::new("Previous secret ended.").at(path.href(viewer)))
    };
    Box::pin(form.run_once(&app, act)).await
}

fn rejected(problem: &Problem) -> RejectedForm {
    RejectedForm { values: Vec::new(), problems: field_problems(problem, &FIELDS, "overlap") }
}

fn view(app: &App, viewer: &Viewer, key: &StoredKey) -> KeyPage {
    KeyPage {
        shell: viewer.shell(Section::Keys),
        key: key.line(viewer, app.web.clock.now()),
        name_field: key.name.clone().unwrap_or_default(),
        expires_field: date(key.expires_at),
        public_scores_field: key.public_scores(),
        rejected_form: RejectedForm::default(),
        may_write: viewer.may(KeyWrite),
    }
}

/// The date of a time in UTC; empty without a time.
fn date(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string().chars().take(DATE_CHARS).collect()).unwrap_or_default()
}

/// The changed members. An unchanged date keeps its time of day.
fn changes(fields: &Params, key: &StoredKey) -> Value {
    let text = |name: &str| fields.raw(name).unwrap_or_default().trim();
    let name = Some(text("name")).filter(|name| !name.is_empty());
    let mut changes = json!({ "name": name });
    if key.public_scores().is_some() {
        changes["publicScores"] = json!(fields.raw("public_scores").is_some());
    }
    if text("expires") != date(key.expires_at) {
        changes["expiresAt"] = json!(start_of_day(text("expires")));
    }
    changes
}
