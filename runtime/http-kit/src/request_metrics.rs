//! Counts and times requests by route.

use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

/// The route of a request whose path is unknown: the path itself would make a label of any text.
pub(crate) const UNMATCHED: &str = "unmatched";

/// Counts a request and measures the time until its response begins.
pub async fn record(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = route.unwrap_or(UNMATCHED).to_owned();
    let method = method_label(request.method());
    let started_at = Instant::now();
    let response = next.run(request).await;
    let status = response.status().as_str().to_owned();
    let time = metrics::histogram!("perpend_http_request_seconds", "route" => route.clone());
    time.record(started_at.elapsed());
    let count = metrics::counter!(
        "perpend_http_requests_total", "route" => route, "method" => method, "status" => status
    );
    count.increment(1);
    response
}

/// The method, or `other` for one that no route accepts.
pub(crate) fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
