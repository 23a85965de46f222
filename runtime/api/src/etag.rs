//! Conditional requests. The `ETag` of a response is the digest of its body.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::{Code, Problem};
use serde_json::Value;

/// The `ETag` of a body.
fn tag(body: &str) -> String {
    let digest = Digest::of(body.as_bytes()).to_string();
    format!("\"{}\"", &digest[..32])
}

/// Whether a list of tags contains this one; `None` without the header. Tags are compared weakly: compressing proxies make them weak.
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

/// 200 with the body and its tag, or 304 for `If-None-Match` with this tag.
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
    // May be stored, and must be revalidated before each use.
    let policy = HeaderValue::from_static("private, no-cache");
    response.headers_mut().insert(CACHE_CONTROL, policy);
    response
}

/// Refuses a change when `If-Match` is not the tag of `body`.
///
/// # Errors
/// 412.
pub(super) fn check_unchanged(headers: &HeaderMap, body: &Value) -> Result<(), Problem> {
    match names(headers, &IF_MATCH, &tag(&body.to_string())) {
        Some(false) => Err(Problem::new(
            Code::PreconditionFailed,
            "the resource does not match If-Match: read it again",
        )),
        _ => Ok(()),
    }
}

/// Whether the request has `If-Match`.
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
    fn an_unchanged_body_is_not_sent_again() {
        let body = json!({ "a": 1 });
        let first = answer(&HeaderMap::new(), &body);
        assert_eq!(first.status(), 200);
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        for sent in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            assert_eq!(answer(&with(IF_NONE_MATCH, &sent), &body).status(), 304, "{sent}");
        }
        assert_eq!(answer(&with(IF_NONE_MATCH, &tag), &json!({ "a": 2 })).status(), 200);
    }

    #[test]
    fn a_change_of_another_state_is_refused() {
        let body = json!({ "a": 1 });
        assert!(check_unchanged(&HeaderMap::new(), &body).is_ok());
        let seen = tag(&body.to_string());
        assert!(check_unchanged(&with(IF_MATCH, &seen), &body).is_ok());
        let changed = check_unchanged(&with(IF_MATCH, &seen), &json!({ "a": 2 }));
        assert_eq!(changed.unwrap_err().code().status(), 412);
    }
}
