//! Around every page: an error in the form of a page, the headers that keep it inert, and what a browser may keep of it.
//!
//! A page is kept by the browser of its reader and asked for again each time: going back is instant, and what did not
//! change is not sent again. What shows a secret, an error, or anything but HTML is not kept, unless its handler says so.

use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    RANGE, REFERRER_POLICY, SET_COOKIE, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::request_id::REQUEST_ID;
use perpend_views::layout::assets;
use perpend_views::{ErrorPage, FormContext, Shell, Text, without_volatile_parts};

use crate::request;
use crate::request::fragment;
use crate::request::viewer;
use crate::state::App;

/// What is known of the page once it is known who looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// What stands around it: an error is shown in it too.
    pub(crate) shell: Arc<OnceLock<Shell>>,
    /// The cookie in which its project is the last used one.
    pub(crate) cookie: Arc<OnceLock<String>>,
}

/// Layer: gives a [`Problem`] the form of a page, and every answer the headers that keep it inert.
pub async fn as_page(mut request: Request, next: Next) -> Response {
    if let Some(page) = page_of_fragment(&request) {
        return keep_inert(Redirect::to(&page).into_response());
    }
    let id = request.headers().get(REQUEST_ID).cloned();
    let known = request.headers().get_all(IF_NONE_MATCH).iter().cloned();
    let known: Vec<HeaderValue> = known.collect();
    let frame = Frame::default();
    let of_sender = request::origin::shell(request.headers());
    request.extensions_mut().insert(frame.clone());
    if *request.method() == Method::HEAD {
        // Its headers are those of the page, so the page is made; the server sends them alone.
        *request.method_mut() = Method::GET;
        // A part of something is only ever asked for by GET.
        request.headers_mut().remove(RANGE);
    }
    let is_read = *request.method() == Method::GET;
    let is_page = is_read || request::origin::wants_page(request.headers());
    let mut response = next.run(request).await;
    if let Some(problem) = problem_of(&response, is_page) {
        let shell = frame.shell.get().cloned().unwrap_or(of_sender);
        response = error_page(&problem, shell, (id.as_ref(), is_read));
    } else if is_kept(&response) {
        response = tagged(response, &known).await;
        let cookie = frame.cookie.get().map(HeaderValue::try_from);
        if let Some(Ok(cookie)) = cookie {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    keep_inert(response)
}

/// What an answer says that is to become a page: to a program that uses another method, the method is named as the API does.
fn problem_of(response: &Response, is_page: bool) -> Option<Problem> {
    let problem = response.extensions().get::<Problem>().cloned();
    match (response.status(), problem) {
        (StatusCode::METHOD_NOT_ALLOWED, Some(_)) if !is_page => None,
        // A part of the path is no text: nothing has such a name.
        (StatusCode::BAD_REQUEST, None) if !is_html(response) => Some(Problem::not_found("page")),
        (_, problem) => problem,
    }
}

/// A page was asked for with a method that it does not take.
pub(crate) async fn method_not_allowed(State(app): State<App>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let address = parts.extensions.get::<OriginalUri>();
    let address = address.map_or(&parts.uri, |address| &address.0);
    if let Some(frame) = parts.extensions.get::<Frame>() {
        let shell = viewer::shell_without_page(&app, &parts.headers, address).await;
        let _ = frame.shell.set(shell);
    }
    let message = format!("{} does not take {}", address.path(), parts.method);
    Problem::new(Code::MethodNotAllowed, message).into_response()
}

/// Where a page is whose address is asked for with a slash at its end.
#[must_use]
pub fn without_slash(method: &Method, headers: &HeaderMap, address: &Uri) -> Option<Response> {
    let path = address.path().strip_suffix('/')?.trim_end_matches('/');
    let is_of_api = path.starts_with("/api/") && !path.starts_with("/api/reference");
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if path.is_empty() || is_of_api || !is_read || !request::origin::wants_page(headers) {
        return None;
    }
    // Below it are projects; which of them is meant the start page knows.
    let path = if path == "/project" { "/" } else { path };
    let query = address.query().map(|query| format!("?{query}"));
    let there = format!("{path}{}", query.unwrap_or_default());
    request::origin::local(&there)
        .map(|there| keep_inert(Redirect::permanent(there).into_response()))
}

/// The page that a fragment is a part of, for a visitor who opens the fragment itself.
fn page_of_fragment(request: &Request) -> Option<String> {
    let opened = request.headers().get("sec-fetch-dest")?;
    let address = request.extensions().get::<OriginalUri>();
    let address = address.map_or(request.uri(), |address| &address.0);
    let address = address.path_and_query()?.as_str();
    (opened == "document").then(|| fragment::page_of(address))?
}

fn is_html(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

fn is_kept(response: &Response) -> bool {
    response.status() == StatusCode::OK
        && is_html(response)
        && !response.headers().contains_key(CACHE_CONTROL)
}

/// With a tag of its bytes but the tokens of its forms and how long ago things were, or without them for a browser that has them already.
async fn tagged(response: Response, known: &[HeaderValue]) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        tracing::error!("the body of a page broke off");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let same: Vec<&[u8]> = without_volatile_parts(&bytes).collect();
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
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), assets::PERMISSIONS_POLICY),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-store"));
    response
}

/// The 404 page of an address that has none.
pub async fn not_found(app: &App, headers: &HeaderMap, address: &Uri) -> Response {
    let shell = viewer::shell_without_page(app, headers, address).await;
    let page = error_page(&Problem::not_found("page"), shell, (headers.get(REQUEST_ID), true));
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
        shell: Shell { forms: FormContext::default(), here: String::new(), ..shell },
        status: status.as_u16(),
        title,
        message: Text::from(message),
        // A form is not sent again by itself.
        again_after: problem.retry_after().filter(|_| is_read),
        request_id: id.filter(|_| status.is_server_error()),
    };
    let html = perpend_views::render(&view).unwrap_or_else(|_| title.to_owned());
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
    fn a_slash_at_the_end_of_a_page_leads_to_the_page_and_to_no_other_server() {
        let page = HeaderMap::from_iter([(
            axum::http::header::ACCEPT,
            HeaderValue::from_static("text/html"),
        )]);
        let leads = |path: &str| {
            let address: Uri = path.parse().unwrap();
            let response = without_slash(&Method::GET, &page, &address)?;
            let there = response.headers().get("location")?.to_str().ok()?;
            Some(there.to_owned())
        };
        for (path, there) in [
            ("/project/p/", Some("/project/p")),
            ("/project/p/traces/?q=a/", Some("/project/p/traces?q=a/")),
            ("/project/", Some("/")),
            ("/api/reference/", Some("/api/reference")),
            ("/api/v1/rules/", None),
            ("//evil.example/", None),
            ("/", None),
            ("/x", None),
        ] {
            assert_eq!(leads(path).as_deref(), there, "{path}");
        }
        let address = Uri::from_static("/project/p/");
        assert!(without_slash(&Method::POST, &page, &address).is_none());
        let program = HeaderMap::new();
        assert!(without_slash(&Method::GET, &program, &address).is_none());
    }

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
