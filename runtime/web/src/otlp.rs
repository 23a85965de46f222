//! Answers in the encoding of the request (otlp.md 1.4).

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use perpend_otlp::{Encoding, respond};

use super::headers;
use crate::problem::{Code, Problem};

/// How one request is answered.
pub(super) struct Reply {
    encoding: Encoding,
    media_type: HeaderValue,
}

impl Reply {
    pub(super) fn new(encoding: Encoding, headers: &HeaderMap) -> Self {
        // Both spellings of protobuf are in use, and exporters expect theirs back.
        let media_type = match encoding {
            Encoding::Json => HeaderValue::from_static("application/json"),
            Encoding::Protobuf => match headers::media_type(headers).as_deref() {
                Some("application/protobuf") => HeaderValue::from_static("application/protobuf"),
                _ => HeaderValue::from_static("application/x-protobuf"),
            },
        };
        Self {
            encoding,
            media_type,
        }
    }

    fn respond(&self, status: StatusCode, bytes: Vec<u8>) -> Response {
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.media_type.clone());
        response
    }

    pub(super) fn success(&self, bytes: Vec<u8>) -> Response {
        self.respond(StatusCode::OK, bytes)
    }

    pub(super) fn problem(&self, problem: &Problem) -> Response {
        let code = match problem.code() {
            Code::AuthenticationFailed => respond::UNAUTHENTICATED,
            Code::AccessDenied => respond::PERMISSION_DENIED,
            Code::TooLarge | Code::RateLimited | Code::TooManyAttempts => {
                respond::RESOURCE_EXHAUSTED
            }
            Code::Unavailable | Code::BodyTooSlow => respond::UNAVAILABLE,
            Code::Internal => 13,
            _ => respond::INVALID_ARGUMENT,
        };
        // 415 is always JSON: the media type is what was not understood.
        if problem.code() == Code::UnsupportedMediaType {
            let json = Self {
                encoding: Encoding::Json,
                media_type: HeaderValue::from_static("application/json"),
            };
            let bytes = respond::status(code, problem.message(), Encoding::Json);
            let mut response = json.respond(problem.code().status(), bytes);
            let accepted = HeaderValue::from_static("gzip, deflate, zstd, identity");
            response.headers_mut().insert(ACCEPT_ENCODING, accepted);
            return response;
        }
        let status = match problem.code() {
            // OTLP clients drop a batch that was answered with 408; a slow network is no reason to lose it.
            Code::BodyTooSlow => StatusCode::SERVICE_UNAVAILABLE,
            code => code.status(),
        };
        let bytes = respond::status(code, problem.message(), self.encoding);
        let mut response = self.respond(status, bytes);
        problem.set_headers(&mut response);
        response
    }
}

pub(crate) async fn method_not_allowed(request: Request) -> Response {
    let message = format!(
        "{} is not allowed here: OTLP is sent with POST",
        request.method()
    );
    let mut response = Problem::new(Code::MethodNotAllowed, message).into_response();
    let allow = HeaderValue::from_static("POST, OPTIONS");
    response.headers_mut().insert(ALLOW, allow);
    response
}
