//! The bytes of media: those stored by themselves, and those that stand inside a recorded value.
//!
//! Invariants:
//! - **Nothing that was recorded runs here.** Only types that a browser draws or plays leave under their
//!   own name; everything else, SVG and HTML above all, is a file to download.
//! - **Found as the page found it.** The number of a medium inside a value is the one that
//!   `perpend_ui` counted when it made the page.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use perpend_domain::payload::Payload;
use perpend_ui::{InlineMedium, inline_type, of_segment};
use perpend_web::problem::Problem;

use crate::query::Query;
use crate::raw::{self, OfValue};
use crate::state::App;
use crate::viewer::Viewer;

/// Stored media never change under their id. Kept for an hour, so that each step of an agent does not
/// load the pictures of its conversation again.
const KEPT: &str = "private, max-age=3600";

fn unknown() -> Problem {
    Problem::not_found("medium")
}

/// `GET P/media/{media}`
pub(super) async fn stored(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let telemetry = &app.store.telemetry;
    let id = of_segment(&id);
    let medium = telemetry.medium(&viewer.project, id).await?;
    let content_type = medium.ok_or_else(unknown)?.content_type;
    let bytes = telemetry.media_bytes(&viewer.project, id).await?;
    let mut response = answer(&content_type, bytes.ok_or_else(unknown)?);
    let kept = HeaderValue::from_static(KEPT);
    response.headers_mut().insert(CACHE_CONTROL, kept);
    Ok(response)
}

/// `GET P/traces/{trace}/raw/{part}/media/{number}`
pub(super) async fn of_trace(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, part, number)): Path<(String, String, String, String)>,
    Query(of): Query<OfValue>,
) -> Result<Response, Problem> {
    let content = raw::content_of_trace(&app, &viewer, &trace).await?;
    inside(raw::value(content, &part), &of, &number)
}

/// `GET P/traces/{trace}/observations/{observation}/raw/{part}/media/{number}`
pub(super) async fn of_observation(
    State(app): State<App>,
    viewer: Viewer,
    Path((_, trace, observation, part, number)): Path<(String, String, String, String, String)>,
    Query(of): Query<OfValue>,
) -> Result<Response, Problem> {
    let content = raw::content_of_observation(&app, &viewer, &trace, &observation).await?;
    inside(raw::value(content, &part), &of, &number)
}

fn inside(value: Option<Payload>, of: &OfValue, number: &str) -> Result<Response, Problem> {
    let value = of.node(value.ok_or_else(unknown)?)?;
    let number = number.parse().map_err(|_| unknown())?;
    let medium = InlineMedium::of(&value, number).ok_or_else(unknown)?;
    Ok(answer(&medium.content_type, medium.bytes))
}

fn answer(content_type: &str, bytes: Vec<u8>) -> Response {
    let (content_type, disposition) = match inline_type(content_type) {
        Some(shown) => (shown, "inline"),
        None => ("application/octet-stream", "attachment"),
    };
    let headers: [(HeaderName, &'static str); 4] = [
        (CONTENT_TYPE, content_type),
        (CONTENT_DISPOSITION, disposition),
        (CONTENT_SECURITY_POLICY, "sandbox"),
        // No page of another origin may embed it.
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    (headers, Body::from(bytes)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_run_is_a_file() {
        for (recorded, sent, disposition) in [
            ("image/png", "image/png", "inline"),
            ("audio/mp3", "audio/mpeg", "inline"),
            ("image/svg+xml", "application/octet-stream", "attachment"),
            ("text/html", "application/octet-stream", "attachment"),
            ("application/pdf", "application/octet-stream", "attachment"),
            (
                "image/png\r\nx: y",
                "application/octet-stream",
                "attachment",
            ),
        ] {
            let response = answer(recorded, vec![1]);
            let headers = response.headers();
            assert_eq!(headers[CONTENT_TYPE], sent);
            assert_eq!(headers[CONTENT_DISPOSITION], disposition);
            assert_eq!(headers[CONTENT_SECURITY_POLICY], "sandbox");
        }
    }
}
