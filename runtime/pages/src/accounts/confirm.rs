//! `GET` and `POST /account/confirm`: the password is entered again before a dangerous change.
//!
//! Invariant: **the session gets a new reference**, so that one copied before does not count as fresh.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_http_kit::auth::verify_password;
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::problem::Problem;
use perpend_views::{ConfirmPage, Section, Text, encode};
use serde::Deserialize;

use super::own::own;
use super::redirect_signed_in;
use crate::request::forms::SubmittedForm;
use crate::request::origin::local;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;

const WRONG: &str = "This is not the password of the account.";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ConfirmParams {
    next: String,
}

/// The URL of the page that returns to `wanted` afterwards.
pub(crate) fn address(wanted: &str) -> String {
    format!("/account/confirm?next={}", encode(wanted))
}

fn view(
    viewer: &Viewer,
    next: &str,
    problem: Option<&'static str>,
) -> Result<ConfirmPage, Problem> {
    Ok(ConfirmPage {
        shell: viewer.shell(Section::Other),
        email: Text::from(own(viewer)?.account.email.as_str()),
        next: local(next).unwrap_or_default().to_owned(),
        problem,
    })
}

/// `GET /account/confirm`
pub(crate) async fn confirm_page(
    viewer: Viewer,
    Query(query): Query<ConfirmParams>,
) -> Result<Response, Problem> {
    page(StatusCode::OK, &view(&viewer, &query.next, None)?)
}

/// `POST /account/confirm`
pub(crate) async fn confirm(
    State(app): State<App>,
    client: ClientAddress,
    headers: HeaderMap,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let account = &own(&form.viewer)?.account;
    let field = |name: &str| form.fields.raw(name).unwrap_or_default();
    let sender = (client, &headers);
    let password = field("password");
    if verify_password(&app.web, sender, (&account.email, password)).await?.is_none() {
        let view = view(&form.viewer, field("next"), Some(WRONG))?;
        return page(StatusCode::UNAUTHORIZED, &view);
    }
    let next = local(field("next")).map_or_else(|| form.viewer.base(), str::to_owned);
    redirect_signed_in(&app, sender, account, &next).await
}
