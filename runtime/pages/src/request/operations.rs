//! Calls of API operations within this process, with the viewer's permissions, so that a form has the effect of the API
//! operation.
//!
//! Invariant: **the viewer's permissions.** The authenticator of the operation checks them again.

use axum::body::{Body, to_bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, Request};
use axum::response::Response;
use perpend_http_kit::auth::ViewerAct;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::Text;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower_service::Service as _;

use crate::request::viewer::Viewer;
use crate::state::App;

/// Bytes read of a response.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Sends a request with this body to the API and returns its response, which may be a problem.
pub(crate) async fn send(
    app: &App,
    viewer: &Viewer,
    (method, path): (Method, &str),
    (media_type, body): (&str, Body),
) -> Result<Response, Problem> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, media_type);
    let request = request.extension(ViewerAct(viewer.act())).body(body).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, path, "invalid request");
        Problem::internal()
    })?;
    // A router is always ready and never fails.
    let Ok(response) = app.operations.clone().call(request).await;
    Ok(response)
}

/// Calls an operation with a JSON body and returns its JSON response, or its problem.
pub(crate) async fn call(
    app: &App,
    viewer: &Viewer,
    operation: (Method, &str),
    body: &Value,
) -> Result<Value, Problem> {
    let body = ("application/json", Body::from(body.to_string()));
    json_of(send(app, viewer, operation, body).await?).await
}

/// The JSON of a response, or its problem.
pub(crate) async fn json_of(response: Response) -> Result<Value, Problem> {
    if let Some(problem) = response.extensions().get::<Problem>() {
        return Err(problem.clone());
    }
    let status = response.status();
    let bytes = to_bytes(response.into_body(), MAX_RESPONSE_BYTES).await.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "reading a response failed");
        Problem::internal()
    })?;
    match serde_json::from_slice(&bytes) {
        Ok(json) if status.is_success() => Ok(json),
        _ => {
            tracing::error!(status = status.as_u16(), "unexpected response of an operation");
            Err(Problem::internal())
        }
    }
}

/// A response as a type of the page.
pub(crate) fn parsed<T: DeserializeOwned>(response: Value) -> Result<T, Problem> {
    serde_json::from_value(response).map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "unexpected body of a response");
        Problem::internal()
    })
}

/// Whether a problem is about the submitted values, so that the form is shown again.
pub(crate) fn is_about_input(problem: &Problem) -> bool {
    let status = problem.code().status();
    status.is_client_error()
        && !matches!(
            problem.code(),
            Code::AuthenticationFailed
                | Code::KeyExpired
                | Code::AccessDenied
                | Code::NotFound
                | Code::RateLimited
        )
}

/// Like [`is_about_input`], for a form that refers to other resources: one that does not exist is a wrong value.
pub(crate) fn is_about_input_or_reference(problem: &Problem) -> bool {
    is_about_input(problem) || problem.code() == Code::NotFound
}

/// Whether the server has no capacity for a request now, so that its form is shown again to be sent later.
pub(crate) fn is_busy(problem: &Problem) -> bool {
    matches!(problem.code(), Code::Unavailable | Code::RateLimited)
}

/// The sent values of fields.
pub(crate) fn sent_values(
    sent: &Params,
    fields: impl IntoIterator<Item = &'static str>,
) -> Vec<(&'static str, String)> {
    let value = |field: &'static str| (field, sent.raw(field).unwrap_or_default().to_owned());
    fields.into_iter().map(value).collect()
}

/// The member of the body that a path begins with, and the rest of the path.
fn split_member(path: &str) -> (&str, &str) {
    path.split_at(path.find(['/', '[', '.']).unwrap_or(path.len()))
}

/// The messages of a problem at the fields of a form. `fields` are pairs of a member of the body and the field for it;
/// `other` is the field for other messages, unless the problem names one.
pub(crate) fn field_problems(
    problem: &Problem,
    fields: &[(&str, &'static str)],
    other: &'static str,
) -> Vec<(&'static str, Text)> {
    let body = problem.rfc9457_body();
    let field_of = |path: &str| {
        let (member, _) = split_member(path);
        fields.iter().find(|(name, _)| *name == member).map(|(_, field)| *field)
    };
    let other = body["field"].as_str().and_then(field_of).unwrap_or(other);
    let issues = body["issues"].as_array().filter(|issues| !issues.is_empty());
    let Some(issues) = issues else {
        return vec![(other, Text::from(problem.message()))];
    };
    let listed = issues.iter().map(|issue| {
        let path = issue["path"][0].as_str().unwrap_or_default();
        let message = issue["message"].as_str().unwrap_or_default();
        let (field, (_, rest)) = (field_of(path), split_member(path));
        let text = match field {
            Some(_) if rest.is_empty() => message.to_owned(),
            Some(_) if rest.starts_with('/') => format!("{rest}: {message}"),
            None if path.is_empty() => message.to_owned(),
            _ => format!("{path}: {message}"),
        };
        (field.unwrap_or(other), Text::from(text))
    });
    listed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_at_its_field_with_its_path() {
        let fields = [("input", "input"), ("expectedOutput", "expected")];
        let at = |path: &str| {
            let problem = Problem::body(path, "must be text");
            let (field, text) = field_problems(&problem, &fields, "name").remove(0);
            (field, text.raw().to_owned())
        };
        assert_eq!(at("expectedOutput/a/0"), ("expected", "/a/0: must be text".to_owned()));
        assert_eq!(at("input"), ("input", "must be text".to_owned()));
        assert_eq!(at("input[0].id"), ("input", "input[0].id: must be text".to_owned()));
        assert_eq!(at("status"), ("name", "status: must be text".to_owned()));
        let other = Problem::new(Code::Conflict, "in use");
        assert!(is_about_input(&other) && !is_about_input(&Problem::not_found("dataset")));
        let other = field_problems(&other, &fields, "name").remove(0);
        assert_eq!((other.0, other.1.raw()), ("name", "in use"));
        let unknown = Problem::new(Code::Unprocessable, "unknown").with("field", "input[1]");
        let unknown = field_problems(&unknown, &fields, "name").remove(0);
        assert_eq!((unknown.0, unknown.1.raw()), ("input", "unknown"));
    }
}
