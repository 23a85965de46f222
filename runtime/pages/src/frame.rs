//! Around every page: an error in the form of a page, the headers that keep it inert, and what a browser may keep of it.
//!
//! A page is kept by the browser of its reader and asked for again each time: going back is instant, and what did not
//! change is not sent again. What shows a secret, an error, or anything but HTML is not kept, unless its handler says so.

use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use perpend_domain::plugin::Digest;
use perpend_ui::{ErrorPage, FormKit, Shell, Text, assets, without_tokens};
use perpend_web::problem::{Code, Problem};
use perpend_web::request_id::REQUEST_ID;

use crate::state::App;
use crate::{fragment, sent, viewer};

/// What stands around the page, once it is known who looks: an error is shown in it too.
#[derive(Clone, Debug, Default)]
pub(super) struct Frame(pub(super) Arc<OnceLock<Shell>>);

/// Layer: gives a [`Problem`] the form of a page, and every answer the headers that keep it inert.
pub async fn as_page(mut request: Request, next: Next) -> Response {
    if let Some(page) = page_of_fragment(&request) {
        return keep_inert(Redirect::to(&page).into_response());
    }
    let id = request.headers().get(REQUEST_ID).cloned();
    let known = request.headers().get_all(IF_NONE_MATCH).iter().cloned();
    let known: Vec<HeaderValue> = known.collect();
    let frame = Frame::default();
    let of_sender = sent::shell(request.headers());
    request.extensions_mut().insert(frame.clone());
    if *request.method() == Method::HEAD {
        // Its headers are those of the page, so the page is made; the server sends them alone.
        *request.method_mut() = Method::GET;
    }
    let is_read = *request.method() == Method::GET;
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions().get::<Problem>().cloned() {
        let shell = frame.0.get().cloned().unwrap_or(of_sender);
        response = error_page(&problem, shell, (id.as_ref(), is_read));
    } else if is_kept(&response) {
        response = tagged(response, &known).await;
    }
    keep_inert(response)
}

/// The page that a fragment is a part of, for a visitor who opens the fragment itself.
fn page_of_fragment(request: &Request) -> Option<String> {
    let opened = request.headers().get("sec-fetch-dest")?;
    let address = request.extensions().get::<OriginalUri>();
    let address = address.map_or(request.uri(), |address| &address.0);
    let address = address.path_and_query()?.as_str();
    (opened == "document").then(|| fragment::page_of(address))?
}

fn is_kept(response: &Response) -> bool {
    let headers = response.headers();
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    response.status() == StatusCode::OK
        && kind.is_some_and(|kind| kind.starts_with(b"text/html"))
        && !headers.contains_key(CACHE_CONTROL)
}

/// With a tag of its bytes but the tokens of its forms, or without them for a browser that has them already.
async fn tagged(response: Response, known: &[HeaderValue]) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        tracing::error!("the body of a page broke off");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let same: Vec<&[u8]> = without_tokens(&bytes).collect();
    let digest = Digest::of(&same.concat()).to_string();
    let tag = format!("\"{}\"", digest.get(..32).unwrap_or(&digest));
    let is_known = holds(known, &tag);
    if let Ok(tag) = HeaderValue::try_from(tag) {
        parts.headers.insert(ETAG, tag);
    }
    let policy = HeaderValue::from_static("private, no-cache");
    parts.headers.insert(CACHE_CONTROL, policy);
    // What was kept of a session is not shown after it ended: going back asks again when the cookies are others.
    let by_session = HeaderValue::from_static("cookie");
    parts.headers.append(VARY, by_session);
    if !is_known {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.status = StatusCode::NOT_MODIFIED;
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::empty())
}

/// Whether one of these tags names the same bytes. Weak ones do: compression makes them.
fn holds(known: &[HeaderValue], tag: &str) -> bool {
    let lists = known.iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// Puts in the headers that keep a page from running or loading what is not ours.
fn keep_inert(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, assets::CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Addresses of this server, the one with the token above all, are nobody else's business. With `no-referrer` browsers
        // would not say where a form was sent from.
        (REFERRER_POLICY, "same-origin"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("permissions-policy"),
            assets::PERMISSIONS_POLICY,
        ),
    ];
    for (name, value) in fixed {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("private, no-store"));
    response
}

/// The 404 page of an address that has none.
pub async fn not_found(app: &App, headers: &HeaderMap, address: &Uri) -> Response {
    let shell = viewer::around_nothing(app, headers, address).await;
    let page = error_page(
        &Problem::not_found("page"),
        shell,
        (headers.get(REQUEST_ID), true),
    );
    keep_inert(page)
}

fn error_page(
    problem: &Problem,
    shell: Shell,
    (request_id, is_read): (Option<&HeaderValue>, bool),
) -> Response {
    let status = problem.code().status();
    let (title, message) = match problem.code() {
        Code::NotFound => (
            "Not found",
            "There is nothing at this address, or it belongs to another project.".to_owned(),
        ),
        Code::Internal => (
            "Something broke here",
            "The page could not be made. Nothing that was sent to this server is lost.".to_owned(),
        ),
        code => (code.title(), problem.message().to_owned()),
    };
    let id = request_id.and_then(|id| id.to_str().ok()).map(Text::from);
    let view = ErrorPage {
        // Without forms: what is not found has the same bytes whatever it is.
        shell: Shell {
            forms: FormKit::default(),
            here: String::new(),
            ..shell
        },
        status: status.as_u16(),
        title,
        message: Text::from(message),
        // A form is not sent again by itself.
        again_after: problem.retry_after().filter(|_| is_read),
        request_id: id.filter(|_| status.is_server_error()),
    };
    let html = perpend_ui::render(&view).unwrap_or_else(|_| title.to_owned());
    let mut response = (status, Html(html)).into_response();
    problem.set_headers(&mut response);
    // A challenge would make browsers ask for a password in a window of their own.
    response.headers_mut().remove(WWW_AUTHENTICATE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_by_its_bytes_in_any_list() {
        let known = |list: &'static str| holds(&[HeaderValue::from_static(list)], "\"ab\"");
        for list in ["\"ab\"", "W/\"ab\"", "\"x\", W/\"ab\" , \"y\"", "*"] {
            assert!(known(list), "{list}");
        }
        for list in ["\"abc\"", "ab", "", "\"x\""] {
            assert!(!known(list), "{list}");
        }
    }
}
