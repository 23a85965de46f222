//! SCIM errors, and the media type of SCIM for clients that accept it.

use axum::extract::Request;
use axum::http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use perpend_http_kit::problem::{Code, Problem};
use serde_json::{Value, json};

const ERROR_SCHEMA: &str = "urn:ietf:params:scim:api:messages:2.0:Error";
const PREFIX: &str = "/api/public/scim/";
const SCIM: &str = "application/scim+json";

fn names_scim(headers: &HeaderMap) -> bool {
    [ACCEPT, CONTENT_TYPE].iter().any(|name| {
        let values = headers.get_all(name).iter();
        let mut values = values.filter_map(|value| value.to_str().ok());
        values.any(|value| value.to_ascii_lowercase().contains(SCIM))
    })
}

/// The error type of RFC 7644, 3.12, if there is one.
fn kind(problem: &Problem) -> Option<&'static str> {
    match problem.code() {
        Code::Conflict | Code::NameConflict => Some("uniqueness"),
        Code::InvalidQuery if problem.message().starts_with("filter") => Some("invalidFilter"),
        Code::InvalidQuery => Some("invalidValue"),
        Code::InvalidBody if problem.message().contains("not JSON") => Some("invalidSyntax"),
        Code::InvalidBody => Some("invalidValue"),
        _ => None,
    }
}

fn error(problem: &Problem) -> Value {
    let mut body = json!({
        "schemas": [ERROR_SCHEMA],
        "status": problem.code().status().as_str(),
        "detail": problem.message(),
    });
    if let Some(kind) = kind(problem) {
        body["scimType"] = kind.into();
    }
    body
}

/// Outermost layer: below the paths of SCIM it converts a [`Problem`] of any layer to a SCIM error
/// and sets the media type of the response.
pub async fn as_scim(request: Request, next: Next) -> Response {
    if !request.uri().path().starts_with(PREFIX) {
        return next.run(request).await;
    }
    let accepts_scim = names_scim(request.headers());
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions().get::<Problem>() {
        let body = error(problem).to_string();
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = body.into();
    }
    if accepts_scim {
        let media_type = HeaderValue::from_static(SCIM);
        response.headers_mut().insert(CONTENT_TYPE, media_type);
    }
    response
}
