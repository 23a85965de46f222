//! Conditional requests: an answer's tag is the digest of its body.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::{Code, Problem};
use serde_json::Value;

/// The tag of a body.
fn tag(body: &str) -> String {
    let digest = Digest::of(body.as_bytes()).to_string();
    format!("\"{}\"", &digest[..32])
}

/// Whether a list of tags names this one. Tags compare weakly: proxies that compress mark them so.
fn names(headers: &HeaderMap, header: &HeaderName, tag: &str) -> Option<bool> {
    let mut lists = headers.get_all(header).iter().peekable();
    lists.peek()?;
    let names = |list: &HeaderValue| {
        let list = list.to_str().unwrap_or_default();
        list.split(',')
            .map(str::trim)
            .any(|member| member == "*" || member.strip_prefix("W/").unwrap_or(member) == tag)
    };
    Some(lists.any(names))
}

/// 200 with the body and its tag, or 304 when the caller has it.
pub(super) fn answer(headers: &HeaderMap, body: &Value) -> Response {
    let body = body.to_string();
    let tag = tag(&body);
    let mut response = match names(headers, &IF_NONE_MATCH, &tag) {
        Some(true) => StatusCode::NOT_MODIFIED.into_response(),
        _ => ([(CONTENT_TYPE, "application/json")], body).into_response(),
    };
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    // To be kept, and asked about before each use.
    let policy = HeaderValue::from_static("private, no-cache");
    response.headers_mut().insert(CACHE_CONTROL, policy);
    response
}

/// Refuses a change when the caller names what it saw and `body` is something else by now.
///
/// # Errors
/// 412.
pub(super) fn check_unchanged(headers: &HeaderMap, body: &Value) -> Result<(), Problem> {
    match names(headers, &IF_MATCH, &tag(&body.to_string())) {
        Some(false) => Err(Problem::new(
            Code::PreconditionFailed,
            "it is not what If-Match names any more: read it again",
        )),
        _ => Ok(()),
    }
}

/// Whether the caller makes its change depend on what it saw.
pub(super) fn is_conditional(headers: &HeaderMap) -> bool {
    headers.contains_key(IF_MATCH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with(header: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header, HeaderValue::try_from(value).unwrap())])
    }

    #[test]
    fn the_same_body_is_not_sent_twice_and_a_changed_one_is() {
        let body = json!({ "a": 1 });
        let first = answer(&HeaderMap::new(), &body);
        assert_eq!(first.status(), 200);
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        for given in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            assert_eq!(answer(&with(IF_NONE_MATCH, &given), &body).status(), 304, "{given}");
        }
        assert_eq!(answer(&with(IF_NONE_MATCH, &tag), &json!({ "a": 2 })).status(), 200);
    }

    #[test]
    fn a_change_of_something_else_than_was_seen_is_refused() {
        let body = json!({ "a": 1 });
        assert!(check_unchanged(&HeaderMap::new(), &body).is_ok());
        let seen = tag(&body.to_string());
        assert!(check_unchanged(&with(IF_MATCH, &seen), &body).is_ok());
        let changed = check_unchanged(&with(IF_MATCH, &seen), &json!({ "a": 2 }));
        assert_eq!(changed.unwrap_err().code().status(), 412);
    }
}
