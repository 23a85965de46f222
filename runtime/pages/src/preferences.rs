//! `/preferences`: how the reader wants the pages, kept in a cookie of their browser.

use axum::extract::{Query, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_ui::{Preferences, PreferencesPage, Section};
use perpend_web::admission;
use perpend_web::extract::Params;
use perpend_web::problem::Problem;
use serde::Deserialize;

use crate::answer::page;
use crate::sent;
use crate::state::App;
use crate::viewer;

/// Largest form. It is read before anything is known of its sender.
const MAX_FORM_BYTES: usize = 1 << 10;
/// As long as browsers keep a cookie.
const SECONDS: i64 = 400 * 24 * 3_600;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    saved: String,
}

/// `GET /preferences`
pub(super) async fn show(
    State(app): State<App>,
    headers: HeaderMap,
    Query(asked): Query<Asked>,
) -> Result<Response, Problem> {
    let view = PreferencesPage {
        shell: viewer::shell(&app, &headers, Section::Elsewhere).await?,
        is_saved: asked.saved == "1",
    };
    page(StatusCode::OK, &view)
}

/// `POST /preferences`
pub(super) async fn submit(
    State(app): State<App>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    sent::same_site(&headers)?;
    let body = admission::read(&app.web, request, MAX_FORM_BYTES).await?;
    let params = Params::parse(&String::from_utf8_lossy(&body.bytes));
    let chosen = Preferences::of_form(|name| params.text(name))
        .map_err(|(name, message)| Problem::body(name, message))?;
    let value = chosen.cookie();
    let seconds = if value.is_empty() { 0 } else { SECONDS };
    let cookie = format!(
        "{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax",
        Preferences::COOKIE
    );
    let mut response = Redirect::to("/preferences?saved=1").into_response();
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}
