//! In and out: the token of the printed address, or a key pair, for a session cookie.

use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use perpend_catalog::SessionOrigin;
use perpend_domain::access::Permission::TraceRead;
use perpend_domain::ids::ProjectId;
use perpend_http_kit::admission;
use perpend_http_kit::auth;
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{LoginPage, LogoutPage, Section, Shell};
use serde::Deserialize;

use crate::request;
use crate::request::forms;
use crate::request::fragment;
use crate::request::frame::Frame;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::of_session;
use crate::state::App;

const START: &str = "/";
/// Largest form. It is read before anything is known of its sender.
const MAX_FORM_BYTES: usize = 16 << 10;
const WRONG_TOKEN: &str = "This login token is wrong, was used, or has expired: it works once, within an hour of the start. Log in with a key pair, or restart the server, which prints a new one.";
const WRONG_PAIR: &str = "No project has this key pair.";
const TOO_MANY: &str = "Too many wrong credentials came from this network.";
const OTHER_PAIR: &str =
    "This key pair may not read a project: take one of a project, whose keys may read.";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoginParams {
    token: String,
    next: String,
    /// Someone who is logged in asks for one more project.
    more: String,
}

#[derive(Debug, Default)]
struct LoginForm {
    token: String,
    public_key: String,
    secret_key: String,
    next: String,
    more: String,
}

impl LoginForm {
    fn parse(body: &[u8]) -> Self {
        let params = Params::parse(&String::from_utf8_lossy(body));
        let field = |name| params.text(name).unwrap_or_default().to_owned();
        Self {
            token: field("token"),
            public_key: field("public_key"),
            secret_key: field("secret_key"),
            next: field("next"),
            more: field("more"),
        }
    }
}

/// The login form's address for a visitor of `wanted`.
pub(crate) fn address(wanted: &str) -> String {
    let wanted = fragment::page_of(wanted).unwrap_or_else(|| wanted.to_owned());
    if wanted == START || wanted.is_empty() {
        return "/login".to_owned();
    }
    format!("/login?next={}", utf8_percent_encode(&wanted, NON_ALPHANUMERIC))
}

/// Where to go after login: only ever a path on this server, and none that asks to log in or leads out again.
fn destination(next: &str) -> &str {
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let is_door = matches!(path.trim_end_matches('/'), "/login" | "/logout");
    request::origin::local(next).filter(|_| !is_door).unwrap_or(START)
}

/// `GET /`, with the token of the printed address or without.
pub(crate) async fn home(
    State(app): State<App>,
    Query(query): Query<LoginParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if query.token.is_empty() {
        let start = match of_session(&app, &headers).await? {
            Some(viewer) => viewer.base(),
            None => "/login".to_owned(),
        };
        return Ok(Redirect::to(&start).into_response());
    }
    login_page(State(app), Query(query), headers).await
}

/// `GET /login`
pub(crate) async fn login_page(
    State(app): State<App>,
    Query(query): Query<LoginParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if query.token.is_empty() {
        if query.more.is_empty() && of_session(&app, &headers).await?.is_some() {
            return Ok(Redirect::to(destination(&query.next)).into_response());
        }
        // Where nothing is found in the projects that are open, the page was perhaps one of another.
        let here = match query.next.is_empty() {
            true => request::origin::referring_page(&headers).unwrap_or_default(),
            false => &query.next,
        };
        let view = LoginPage {
            shell: request::origin::shell(&headers),
            is_more: !query.more.is_empty(),
            next: here.to_owned(),
            ..LoginPage::default()
        };
        return page(StatusCode::OK, &view);
    }
    // The token is for whoever presses the button: programs that only look at addresses do not use it up.
    let viewer = of_session(&app, &headers).await?;
    if viewer.is_some_and(|viewer| viewer.project == app.home_project) {
        return Ok(Redirect::to(destination(&query.next)).into_response());
    }
    let view = LoginPage {
        shell: request::origin::shell(&headers),
        token: query.token,
        next: query.next,
        ..LoginPage::default()
    };
    page(StatusCode::OK, &view)
}

/// `POST /login`
pub(crate) async fn log_in(
    State(app): State<App>,
    client: ClientAddress,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    request::origin::same_site(&app, &headers)?;
    let frame = request.extensions().get::<Frame>().cloned();
    forms::session_viewer_in_frame(&app, &headers, frame.as_ref()).await?;
    let body = admission::read(&app.web, request, MAX_FORM_BYTES).await?;
    let form = LoginForm::parse(&body.bytes);
    if !form.token.is_empty() {
        let sender = (client, &headers);
        return match auth::log_in_with_token(&app.web, sender, &form.token, &app.home_project).await
        {
            Ok(Some(cookie)) => Ok(with_cookie(Redirect::to(destination(&form.next)), &cookie)),
            Ok(None) => refuse(&headers, WRONG_TOKEN, form),
            Err(problem) => too_many(&headers, problem, form),
        };
    }
    match by_pair(&app, client, &form).await {
        Ok(project) => {
            let origin = SessionOrigin::KeyPair(form.public_key.trim().to_owned());
            let cookie = auth::begin_session(&app.web, &headers, &project, origin).await?;
            Ok(with_cookie(Redirect::to(destination(&form.next)), &cookie))
        }
        Err(problem) if problem.code() == Code::AuthenticationFailed => {
            refuse(&headers, WRONG_PAIR, form)
        }
        Err(problem) if problem.code().status() == StatusCode::FORBIDDEN => {
            refuse(&headers, OTHER_PAIR, form)
        }
        Err(problem) => too_many(&headers, problem, form),
    }
}

/// `GET /logout`: the form, for pages that have none.
pub(crate) async fn logout_page(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match of_session(&app, &headers).await? {
        Some(viewer) => {
            let shell = Shell { here: "/logout".to_owned(), ..viewer.shell(Section::Other) };
            page(StatusCode::OK, &LogoutPage { shell })
        }
        None => Ok(Redirect::to("/login").into_response()),
    }
}

/// `POST /logout`
pub(crate) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
    request: Request,
) -> Result<Response, Problem> {
    forms::read_public_form(&app, request, MAX_FORM_BYTES).await?;
    let cookie = auth::end_sessions(&app.web, &headers).await?;
    let mut response = with_cookie(Redirect::to("/login"), &cookie);
    // The browser deletes the pages it has cached of this session.
    response.headers_mut().insert(
        HeaderName::from_static("clear-site-data"),
        HeaderValue::from_static("\"cache\", \"storage\""),
    );
    Ok(response)
}

/// A key pair, checked by the very code that checks it for the API.
async fn by_pair(app: &App, client: ClientAddress, form: &LoginForm) -> Result<ProjectId, Problem> {
    let pair = STANDARD.encode(format!("{}:{}", form.public_key.trim(), form.secret_key.trim()));
    let value = HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| Problem::internal())?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    Ok(auth::act_of(&app.web, client, &headers, TraceRead).await?.project)
}

fn with_cookie(redirect: Redirect, cookie: &str) -> Response {
    let mut response = redirect.into_response();
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, value);
    }
    response
}

/// The form as it was filled in, but for what is secret.
fn again(headers: &HeaderMap, problem: &'static str, form: LoginForm) -> LoginPage {
    LoginPage {
        shell: request::origin::shell(headers),
        problem: Some(problem),
        again_after: None,
        is_more: !form.more.is_empty(),
        token: String::new(),
        next: form.next,
        public_key: form.public_key,
    }
}

fn refuse(
    headers: &HeaderMap,
    problem: &'static str,
    form: LoginForm,
) -> Result<Response, Problem> {
    page(StatusCode::UNAUTHORIZED, &again(headers, problem, form))
}

/// The form again where a network has to wait; else the problem.
fn too_many(headers: &HeaderMap, problem: Problem, form: LoginForm) -> Result<Response, Problem> {
    if problem.code() != Code::TooManyAttempts {
        return Err(problem);
    }
    let view = LoginPage { again_after: problem.retry_after(), ..again(headers, TOO_MANY, form) };
    let mut response = page(StatusCode::TOO_MANY_REQUESTS, &view)?;
    problem.set_headers(&mut response);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_never_leads_back_to_itself_or_to_logout() {
        for door in ["/login", "/logout", "/login/", "/logout?next=%2F", "//x"] {
            assert_eq!(destination(door), START, "{door}");
        }
        assert_eq!(destination("/logins?a=/login"), "/logins?a=/login");
    }

    #[test]
    fn the_wanted_address_is_kept() {
        let asked = |path: &str| address(path);
        assert_eq!(asked("/"), "/login");
        assert_eq!(asked("/traces?name=a%26"), "/login?next=%2Ftraces%3Fname%3Da%2526");
        assert_eq!(
            asked("/project/p/_/traces/t/detail?observation=o"),
            "/login?next=%2Fproject%2Fp%2Ftraces%2Ft%3Fobservation%3Do"
        );
    }
}
