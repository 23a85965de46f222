//! `/preferences`: display preferences, stored in a cookie.

use axum::extract::{OriginalUri, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_http_kit::cookies::{append_cookie, set_cookie};
use perpend_http_kit::problem::Problem;
use perpend_views::{Preferences, PreferencesPage, RejectedForm, Section, Text};
use serde::Deserialize;

use crate::request;
use crate::request::forms;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer;
use crate::state::App;

/// Largest form, in bytes; it requires no session.
const MAX_FORM_BYTES: usize = 1 << 10;
/// The longest lifetime of a cookie that browsers accept.
const MAX_AGE_SECONDS: i64 = 400 * 24 * 3_600;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PreferencesParams {
    saved: String,
}

/// `GET /preferences`
pub(crate) async fn preferences_page(
    State(app): State<App>,
    headers: HeaderMap,
    OriginalUri(address): OriginalUri,
    Query(params): Query<PreferencesParams>,
) -> Result<Response, Problem> {
    let view = PreferencesPage {
        shell: viewer::shell(&app, &headers, (&address, Section::Other)).await?,
        is_saved: params.saved == "1",
        rejected_form: RejectedForm::default(),
    };
    page(StatusCode::OK, &view)
}

/// `POST /preferences`
pub(crate) async fn save_preferences(
    State(app): State<App>,
    headers: HeaderMap,
    OriginalUri(address): OriginalUri,
    request: Request,
) -> Result<Response, Problem> {
    let fields = forms::read_public_form(&app, request, MAX_FORM_BYTES).await?;
    let chosen = match Preferences::of_form(|name| fields.text(name)) {
        Ok(chosen) => chosen,
        Err((name, message)) => {
            let problem = Text::from(format!("{name} {message}"));
            let view = PreferencesPage {
                shell: viewer::shell(&app, &headers, (&address, Section::Other)).await?,
                is_saved: false,
                rejected_form: RejectedForm {
                    problems: vec![(name, problem)],
                    ..RejectedForm::default()
                },
            };
            return page(StatusCode::UNPROCESSABLE_ENTITY, &view);
        }
    };
    // The navigation contains this form on every page; the response redirects to that page.
    let elsewhere = fields.text("back").and_then(request::origin::local);
    let elsewhere = elsewhere.filter(|back| !back.starts_with("/preferences"));
    let mut response = Redirect::to(elsewhere.unwrap_or("/preferences?saved=1")).into_response();
    store(&app, &mut response, Preferences::COOKIE, &chosen.cookie());
    Ok(response)
}

/// Stores a preference in a cookie; an empty value deletes the cookie.
pub(crate) fn store(app: &App, response: &mut Response, name: &str, value: &str) {
    let seconds = if value.is_empty() { 0 } else { MAX_AGE_SECONDS };
    append_cookie(response, &set_cookie(&app.web.config, name, value, seconds));
}
