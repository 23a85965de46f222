//! Middleware of all pages: error pages, security headers and caching.
//!
//! Browsers cache a page and revalidate it on each request, so that an unchanged page is not sent again. Secrets, errors and
//! responses other than HTML are not cached unless the handler sets a policy.

use std::sync::{Arc, OnceLock};

use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    RANGE, REFERRER_POLICY, VARY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Redirect, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::cookies::append_cookie;
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::request_id::REQUEST_ID;
use perpend_views::layout::assets;
use perpend_views::{ErrorPage, FormContext, Shell, Text, without_volatile_parts};

use crate::request;
use crate::request::fragment;
use crate::request::viewer;
use crate::state::App;

/// Data for the response that an authenticator or a handler sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    /// Navigation and header, also used by an error page.
    pub(crate) shell: Arc<OnceLock<Shell>>,
    /// `Set-Cookie` value that records the last used project.
    pub(crate) cookie: Arc<OnceLock<String>>,
}

/// Middleware that renders a [`Problem`] as a page and adds security headers to every response.
pub async fn as_page(mut request: Request, next: Next) -> Response {
    if let Some(page) = page_of_opened_fragment(&request) {
        return with_security_headers(Redirect::to(&page).into_response());
    }
    let id = request.headers().get(REQUEST_ID).cloned();
    let client_tags = request.headers().get_all(IF_NONE_MATCH).iter().cloned();
    let client_tags: Vec<HeaderValue> = client_tags.collect();
    let frame = Frame::default();
    let default_shell = request::origin::shell(request.headers());
    request.extensions_mut().insert(frame.clone());
    if *request.method() == Method::HEAD {
        // The headers must equal those of GET, so the page is rendered; the server drops the body.
        *request.method_mut() = Method::GET;
        // Range applies to GET only.
        request.headers_mut().remove(RANGE);
    }
    let is_read = *request.method() == Method::GET;
    let is_page = is_read || request::origin::wants_page(request.headers());
    let mut response = next.run(request).await;
    if let Some(problem) = problem_of(&response, is_page) {
        let shell = frame.shell.get().cloned().unwrap_or(default_shell);
        response = error_page(&problem, shell, (id.as_ref(), is_read));
    } else if is_cacheable(&response) {
        response = with_etag(response, &client_tags).await;
        if let Some(cookie) = frame.cookie.get() {
            append_cookie(&mut response, cookie);
        }
    }
    with_security_headers(response)
}

/// The problem to render as a page. A program that uses a wrong method gets the error body of the API instead.
fn problem_of(response: &Response, is_page: bool) -> Option<Problem> {
    let problem = response.extensions().get::<Problem>().cloned();
    match (response.status(), problem) {
        (StatusCode::METHOD_NOT_ALLOWED, Some(_)) if !is_page => None,
        // A path segment is not UTF-8, so no page has this path.
        (StatusCode::BAD_REQUEST, None) if !is_html(response) => Some(Problem::not_found("page")),
        (_, problem) => problem,
    }
}

/// Fallback for a page that does not support the method of the request.
pub(crate) async fn method_not_allowed(State(app): State<App>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let address = parts.extensions.get::<OriginalUri>();
    let address = address.map_or(&parts.uri, |address| &address.0);
    if let Some(frame) = parts.extensions.get::<Frame>() {
        let shell = viewer::shell_without_page(&app, &parts.headers, address).await;
        let _ = frame.shell.set(shell);
    }
    let message = format!("{} does not support the method {}", address.path(), parts.method);
    Problem::new(Code::MethodNotAllowed, message).into_response()
}

/// A redirect that removes slashes at the end of the path; absent if there is none to remove.
#[must_use]
pub fn without_slash(method: &Method, headers: &HeaderMap, address: &Uri) -> Option<Response> {
    let path = address.path().strip_suffix('/')?.trim_end_matches('/');
    let is_of_api = path.starts_with("/api/") && !path.starts_with("/api/reference");
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    if path.is_empty() || is_of_api || !is_read || !request::origin::wants_page(headers) {
        return None;
    }
    // The start page redirects to the last used project.
    let path = if path == "/project" { "/" } else { path };
    let query = address.query().map(|query| format!("?{query}"));
    let there = format!("{path}{}", query.unwrap_or_default());
    request::origin::local(&there)
        .map(|there| with_security_headers(Redirect::permanent(there).into_response()))
}

/// The page that contains a fragment, if a browser opens the fragment as a document.
fn page_of_opened_fragment(request: &Request) -> Option<String> {
    let destination = request.headers().get("sec-fetch-dest")?;
    let address = request.extensions().get::<OriginalUri>();
    let address = address.map_or(request.uri(), |address| &address.0);
    let address = address.path_and_query()?.as_str();
    (destination == "document").then(|| fragment::page_of(address))?
}

fn is_html(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

fn is_cacheable(response: &Response) -> bool {
    response.status() == StatusCode::OK
        && is_html(response)
        && !response.headers().contains_key(CACHE_CONTROL)
}

/// Adds an ETag, or answers 304 if the browser has the page. Form tokens and relative times are not part of the tag.
async fn with_etag(response: Response, client_tags: &[HeaderValue]) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        tracing::error!("reading the body of a page failed");
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let same: Vec<&[u8]> = without_volatile_parts(&bytes).collect();
    let digest = Digest::of(&same.concat()).to_string();
    let tag = format!("\"{}\"", digest.get(..32).unwrap_or(&digest));
    let is_known = matches_etag(client_tags, &tag);
    if let Ok(tag) = HeaderValue::try_from(tag) {
        parts.headers.insert(ETAG, tag);
    }
    let policy = HeaderValue::from_static("private, no-cache");
    parts.headers.insert(CACHE_CONTROL, policy);
    // A cached page is not reused with other cookies, for example after the session ended.
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

/// Whether `If-None-Match` contains the tag. Weak tags match, because compression weakens them.
fn matches_etag(client_tags: &[HeaderValue], tag: &str) -> bool {
    let lists = client_tags.iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// Adds the headers that prevent a page from running or loading foreign content.
fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        (CONTENT_SECURITY_POLICY, assets::CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Other sites do not receive URLs of this server, such as the one with the login token. With `no-referrer` browsers would
        // not send the origin of a form.
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

/// The 404 page.
pub async fn not_found(app: &App, headers: &HeaderMap, address: &Uri) -> Response {
    let shell = viewer::shell_without_page(app, headers, address).await;
    let page = error_page(&Problem::not_found("page"), shell, (headers.get(REQUEST_ID), true));
    with_security_headers(page)
}

fn error_page(
    problem: &Problem,
    shell: Shell,
    (request_id, is_read): (Option<&HeaderValue>, bool),
) -> Response {
    let status = problem.code().status();
    let (title, message) = match problem.code() {
        Code::NotFound => {
            ("Not found", "This page does not exist, or it belongs to another project.".to_owned())
        }
        Code::Internal => (
            "Internal error",
            "The page could not be rendered. No stored data is affected.".to_owned(),
        ),
        code => (code.title(), problem.message().to_owned()),
    };
    let id = request_id.and_then(|id| id.to_str().ok()).map(Text::from);
    let view = ErrorPage {
        // Without forms, so that all pages that are not found are identical.
        shell: Shell { forms: FormContext::default(), url: String::new(), ..shell },
        status: status.as_u16(),
        title,
        message: Text::from(message),
        // A form is not resubmitted automatically.
        retry_after_s: problem.retry_after().filter(|_| is_read),
        request_id: id.filter(|_| status.is_server_error()),
    };
    let html = perpend_views::render(&view).unwrap_or_else(|_| title.to_owned());
    let mut response = (status, Html(html)).into_response();
    problem.set_headers(&mut response);
    // With a challenge, browsers would open their own password dialog.
    response.headers_mut().remove(WWW_AUTHENTICATE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_slash_redirects_to_the_page_and_never_to_another_server() {
        let page = HeaderMap::from_iter([(
            axum::http::header::ACCEPT,
            HeaderValue::from_static("text/html"),
        )]);
        let redirect = |path: &str| {
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
            assert_eq!(redirect(path).as_deref(), there, "{path}");
        }
        let address = Uri::from_static("/project/p/");
        assert!(without_slash(&Method::POST, &page, &address).is_none());
        let program = HeaderMap::new();
        assert!(without_slash(&Method::GET, &program, &address).is_none());
    }

    #[test]
    fn an_etag_is_found_in_lists_and_as_a_weak_tag() {
        let matches =
            |list: &'static str| matches_etag(&[HeaderValue::from_static(list)], "\"ab\"");
        for list in ["\"ab\"", "W/\"ab\"", "\"x\", W/\"ab\" , \"y\"", "*"] {
            assert!(matches(list), "{list}");
        }
        for list in ["\"abc\"", "ab", "", "\"x\""] {
            assert!(!matches(list), "{list}");
        }
    }
}
