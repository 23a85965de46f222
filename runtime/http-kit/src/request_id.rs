//! The id of a request.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};

/// Header with the id of a request, in the response, on error pages and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is accepted from a caller.
const MAX_REQUEST_ID: usize = 128;

/// The id sent by the caller or a proxy, if it is safe in a log line.
pub(super) fn sent_id(request: &Request) -> Option<HeaderValue> {
    let id = request.headers().get(REQUEST_ID)?;
    let is_plain = id.as_bytes().iter().all(u8::is_ascii_graphic);
    (is_plain && (1..=MAX_REQUEST_ID).contains(&id.len())).then(|| id.clone())
}
