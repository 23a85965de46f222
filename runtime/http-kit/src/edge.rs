//! Layers of all requests: request id, CORS, unknown paths and methods, one log line.

use std::net::SocketAddr;
use std::sync::Once;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ORIGIN,
    VARY,
};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::client_address::ClientAddress;
use crate::problem::{self, Code, Problem};
use crate::request_id::{REQUEST_ID, sent_id};
use crate::{Web, otlp};

/// Response headers that scripts of other origins may read, in addition to the safelisted ones.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "etag, retry-after, x-request-id, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset",
);

/// CORS for the paths of the API, without credentials mode: scripts send a key.
pub async fn cors(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_otlp = otlp::is_otlp(path);
    if !is_otlp && !path.starts_with("/api/") {
        return next.run(request).await;
    }
    let origin = request.headers().get(ORIGIN).cloned();
    let requested = request.headers().get(ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = if request.method() == Method::OPTIONS {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let methods = if is_otlp { "POST" } else { "GET,HEAD,PUT,PATCH,POST,DELETE" };
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(methods));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
        if let Some(requested) = requested {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, requested);
        }
        response
    } else {
        let mut response = next.run(request).await;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        response
    };
    let any = HeaderValue::from_static("*");
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.unwrap_or(any));
    let depends_on = "origin, access-control-request-headers";
    headers.append(VARY, HeaderValue::from_static(depends_on));
    response
}

/// Puts the [`ClientAddress`] into the extensions of each request.
pub async fn note_client(
    State(web): State<Web>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let trusted = &web.config.trusted_proxies;
    let headers = request.headers();
    let address = ClientAddress::resolve(peer.ip(), headers, trusted);
    if ClientAddress::is_claimed(peer.ip(), headers, trusted) {
        // Behind a proxy that is not configured all clients share one address, and therefore one limit.
        static WARNED: Once = Once::new();
        WARNED.call_once(|| {
            tracing::warn!(
                client.address = %address,
                "a forwarding header was ignored: its sender is not in server.trusted_proxies (logged once)"
            );
        });
    }
    request.extensions_mut().insert(address);
    next.run(request).await
}

/// A known path with another method.
pub async fn method_not_allowed(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let message = format!("{path} does not accept {method}");
    problem::respond_for_path(path, Problem::new(Code::MethodNotAllowed, message))
}

/// Starts of the paths that end with the token of a one-time link.
const ONE_TIME_LINKS: [&str; 3] = ["/setup/", "/invite/", "/reset/"];

/// The path without the token of a one-time link.
fn logged_path(path: &str) -> String {
    match ONE_TIME_LINKS.iter().find(|start| path.starts_with(**start)) {
        Some(start) => format!("{start}{{token}}"),
        None => path.to_owned(),
    }
}

/// Gives each request an id, which the response repeats, and writes one log line.
pub async fn log(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), logged_path(request.uri().path()));
    let client = ClientAddress::in_request(request.extensions());
    let id = sent_id(&request).or_else(|| HeaderValue::try_from(web.ids.uuid().to_string()).ok());
    request.headers_mut().remove(REQUEST_ID);
    if let Some(id) = &id {
        request.headers_mut().insert(REQUEST_ID, id.clone());
    }
    let mut response = next.run(request).await;
    let request_id = id.as_ref().and_then(|id| id.to_str().ok());
    let status = response.status().as_u16();
    if response.status().is_server_error() {
        tracing::warn!(%method, path, status, request_id, client.address = %client, "request failed");
    } else {
        tracing::debug!(%method, path, status, request_id, client.address = %client, "request");
    }
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_token_of_a_one_time_link() {
        for path in ["/setup/canary", "/invite/canary", "/reset/canary/more"] {
            assert!(!logged_path(path).contains("canary"), "{path}");
        }
        assert_eq!(logged_path("/project/p/setup/x"), "/project/p/setup/x");
    }
}
