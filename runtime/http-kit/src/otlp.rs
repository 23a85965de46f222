//! OTLP/HTTP: paths, the encoding of a request, and responses in it (otlp.md 1.2 to 1.4).

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use perpend_otlp::{Encoding, respond};

use crate::problem::{Code, Problem};

/// The signal of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metrics, which are checked and not stored.
    Metrics,
}

/// Paths and their signals; each is also served with a trailing slash.
pub const PATHS: &[(&str, Signal)] = &[
    ("/api/public/otel/v1/traces", Signal::Traces),
    ("/api/public/otel/v1/logs", Signal::Logs),
    ("/api/public/otel/v1/metrics", Signal::Metrics),
    ("/api/public/otel", Signal::Traces),
    ("/v1/traces", Signal::Traces),
    ("/v1/logs", Signal::Logs),
    ("/v1/metrics", Signal::Metrics),
];

/// Whether a path is an OTLP path.
#[must_use]
pub fn is_otlp(path: &str) -> bool {
    let path = path.strip_suffix('/').unwrap_or(path);
    PATHS.iter().any(|(known, _)| *known == path)
}

/// A refusal before the body is read, in the encoding of the request.
pub fn refuse(headers: &HeaderMap, problem: &Problem) -> Response {
    let encoding = encoding(headers).unwrap_or(Encoding::Json);
    Reply::new(encoding, headers).problem(problem)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    Some(headers.get(name)?.to_str().unwrap_or("").trim())
}

/// The media type without parameters, lower-case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = text(headers, CONTENT_TYPE)?;
    let media_type = value.split(';').next().unwrap_or("").trim();
    Some(media_type.to_ascii_lowercase())
}

pub fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let media_type = media_type(headers).unwrap_or_default();
    let message = match media_type.as_str() {
        "application/x-protobuf" | "application/protobuf" => return Ok(Encoding::Protobuf),
        "application/json" => return Ok(Encoding::Json),
        grpc if grpc.starts_with("application/grpc") => {
            "OTLP/gRPC is not supported: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf".to_owned()
        }
        "" => {
            "Content-Type must be application/x-protobuf or application/json, got none".to_owned()
        }
        other => format!(
            "Content-Type must be application/x-protobuf or application/json, got {other:?}"
        ),
    };
    Err(Problem::new(Code::UnsupportedMediaType, message))
}

/// `x-perpend-NAME`, else `x-langfuse-NAME`, with hyphens or underscores.
pub fn either(headers: &HeaderMap, name: &str) -> Option<String> {
    for vendor in ["perpend", "langfuse"] {
        let hyphens = format!("x-{vendor}-{name}");
        let value = headers.get(&hyphens).or_else(|| headers.get(hyphens.replace('-', "_")));
        if let Some(value) = value {
            return Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned());
        }
    }
    None
}

/// Writes the response to one request.
pub struct Reply {
    encoding: Encoding,
    media_type: HeaderValue,
}

impl Reply {
    pub fn new(encoding: Encoding, headers: &HeaderMap) -> Self {
        // Two media types of protobuf are in use, and exporters expect their own.
        let media_type = match encoding {
            Encoding::Json => HeaderValue::from_static("application/json"),
            Encoding::Protobuf => match media_type(headers).as_deref() {
                Some("application/protobuf") => HeaderValue::from_static("application/protobuf"),
                _ => HeaderValue::from_static("application/x-protobuf"),
            },
        };
        Self { encoding, media_type }
    }

    fn respond(&self, status: StatusCode, bytes: Vec<u8>) -> Response {
        let mut response = Response::new(Body::from(bytes));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, self.media_type.clone());
        response
    }

    pub fn success(&self, bytes: Vec<u8>) -> Response {
        self.respond(StatusCode::OK, bytes)
    }

    pub fn problem(&self, problem: &Problem) -> Response {
        let code = match problem.code() {
            Code::AuthenticationFailed | Code::KeyExpired => respond::UNAUTHENTICATED,
            Code::AccessDenied => respond::PERMISSION_DENIED,
            Code::TooLarge | Code::RateLimited | Code::TooManyAttempts => {
                respond::RESOURCE_EXHAUSTED
            }
            Code::Unavailable | Code::BodyTooSlow => respond::UNAVAILABLE,
            Code::Internal => 13,
            _ => respond::INVALID_ARGUMENT,
        };
        // 415 is always JSON, because the media type of the request is unknown.
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
            // OTLP clients drop a batch after 408; a slow network must not lose it.
            Code::BodyTooSlow => StatusCode::SERVICE_UNAVAILABLE,
            code => code.status(),
        };
        let bytes = respond::status(code, problem.message(), self.encoding);
        let mut response = self.respond(status, bytes);
        problem.set_headers(&mut response);
        response
    }
}

pub async fn method_not_allowed(request: Request) -> Response {
    let message = format!("OTLP paths accept POST, got {}", request.method());
    let mut response = Problem::new(Code::MethodNotAllowed, message).into_response();
    let allow = HeaderValue::from_static("POST, OPTIONS");
    response.headers_mut().insert(ALLOW, allow);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn media_types_are_matched_without_case_and_parameters() {
        for (text, expected) in [
            ("application/x-protobuf", Encoding::Protobuf),
            ("Application/Protobuf", Encoding::Protobuf),
            ("application/json; charset=utf-8", Encoding::Json),
        ] {
            assert_eq!(encoding(&headers(&[("content-type", text)])).unwrap(), expected);
        }
        for text in ["text/plain", "application/grpc+proto"] {
            let problem = encoding(&headers(&[("content-type", text)])).unwrap_err();
            assert_eq!(problem.code(), Code::UnsupportedMediaType);
        }
        let grpc = encoding(&headers(&[("content-type", "application/grpc")])).unwrap_err();
        assert!(grpc.message().contains("http/protobuf"));
    }
}
