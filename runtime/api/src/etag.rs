//! Conditional requests. The `ETag` of a response is the digest of its body.

use std::marker::PhantomData;

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::answer::{Answer, DescribedAnswer, ResponseSpec};
use perpend_http_kit::parts;
use perpend_http_kit::problem::{Code, Problem};
use serde::Serialize;
use utoipa::ToSchema;

/// A response with a JSON body of the schema `T` and its `ETag`, or 304 without a body.
#[derive(Debug)]
pub(super) struct Tagged<T>(Response, PhantomData<fn() -> T>);

impl<T> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<T: ToSchema> DescribedAnswer for Tagged<T> {
    fn response_specs() -> Vec<ResponseSpec> {
        Answer::<T>::response_specs()
    }
}

/// The `ETag` of a body.
fn tag(body: &[u8]) -> String {
    let digest = Digest::of(body).to_string();
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

fn serialize(body: &impl Serialize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    parts::json(&mut bytes, body)?;
    Ok(bytes)
}

/// 200 with the body and its tag, or 304 for `If-None-Match` with this tag.
///
/// # Errors
/// 500 when the body cannot be serialized, which is logged.
pub(super) fn answer<T: Serialize>(headers: &HeaderMap, body: &T) -> Result<Tagged<T>, Problem> {
    let body = serialize(body)?;
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
    Ok(Tagged(response, PhantomData))
}

/// Refuses a change when `If-Match` is not the tag of `body`.
///
/// # Errors
/// 412.
pub(super) fn check_unchanged(headers: &HeaderMap, body: &impl Serialize) -> Result<(), Problem> {
    match names(headers, &IF_MATCH, &tag(&serialize(body)?)) {
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
    use serde_json::{Value, json};

    use super::*;

    fn with(header: HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header, HeaderValue::try_from(value).unwrap())])
    }

    fn sent(headers: &HeaderMap, body: &Value) -> Response {
        answer(headers, body).unwrap().into_response()
    }

    #[test]
    fn an_unchanged_body_is_not_sent_again() {
        let body = json!({ "a": 1 });
        let first = sent(&HeaderMap::new(), &body);
        assert_eq!(first.status(), 200);
        let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
        for tags in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".to_owned()] {
            assert_eq!(sent(&with(IF_NONE_MATCH, &tags), &body).status(), 304, "{tags}");
        }
        assert_eq!(sent(&with(IF_NONE_MATCH, &tag), &json!({ "a": 2 })).status(), 200);
    }

    #[test]
    fn a_change_of_another_state_is_refused() {
        let body = json!({ "a": 1 });
        assert!(check_unchanged(&HeaderMap::new(), &body).is_ok());
        let seen = tag(body.to_string().as_bytes());
        assert!(check_unchanged(&with(IF_MATCH, &seen), &body).is_ok());
        let changed = check_unchanged(&with(IF_MATCH, &seen), &json!({ "a": 2 }));
        assert_eq!(changed.unwrap_err().code().status(), 412);
    }
}
