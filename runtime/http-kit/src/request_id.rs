//! The name of a request.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue};

/// Names a request in the answer, on error pages and in the log.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A longer id is not a caller's id but a caller's burden on the log.
const MAX_REQUEST_ID: usize = 128;

/// The id that the caller or a proxy gave, where it may stand in a log line.
pub(super) fn given_id(request: &Request) -> Option<HeaderValue> {
    let id = request.headers().get(REQUEST_ID)?;
    let is_plain = id.as_bytes().iter().all(u8::is_ascii_graphic);
    (is_plain && (1..=MAX_REQUEST_ID).contains(&id.len())).then(|| id.clone())
}
