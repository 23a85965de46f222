//! Login with an account, or before the first account with the printed one-time token or with a key pair, and logout.

use axum::extract::{Request, State};
use axum::http::header::AUTHORIZATION;
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
use perpend_http_kit::cookies::append_cookie;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{LoginPage, LogoutPage, Section, Shell};
use serde::Deserialize;

use crate::accounts::redirect_signed_in;
use crate::request;
use crate::request::forms;
use crate::request::fragment;
use crate::request::frame::Frame;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::session_viewer;
use crate::state::App;

const START: &str = "/";
/// Largest form of an unauthenticated sender, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;
const WRONG_TOKEN: &str = "This login token is invalid, used or expired. A token can be used once, within an hour after the server started. Log in with a key pair, or restart the server to get a new token.";
const WRONG_PAIR: &str = "Unknown key pair.";
const EXPIRED_PAIR: &str = "This key pair or its secret has expired.";
const TOO_MANY: &str = "Too many failed login attempts.";
const WRONG_PASSWORD: &str = "Unknown e-mail address or wrong password.";
const NO_KEYS: &str = "This installation has accounts, so key pairs and login tokens no longer open pages. Log in with e-mail and password; an owner or admin of the organization invites you.";
const NO_PROJECT: &str =
    "Your account has no role in a project. Ask an owner or admin of the organization for one.";
const OTHER_PAIR: &str =
    "This key pair cannot read traces. Use a key pair of a project with read permission.";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoginParams {
    token: String,
    next: String,
    /// Set to add another project to an existing session.
    more: String,
}

#[derive(Default)]
struct LoginForm {
    token: String,
    public_key: String,
    secret_key: String,
    email: String,
    password: String,
    next: String,
    more: String,
}

impl LoginForm {
    fn parse(body: &[u8]) -> Self {
        let params = Params::parse(&String::from_utf8_lossy(body));
        let field = |name| params.text(name).unwrap_or_default().to_owned();
        // Spaces belong to a password.
        let password = params.raw("password").unwrap_or_default().to_owned();
        Self {
            token: field("token"),
            public_key: field("public_key"),
            secret_key: field("secret_key"),
            email: field("email"),
            password,
            next: field("next"),
            more: field("more"),
        }
    }
}

/// The URL of the login page that returns to `wanted` afterwards.
pub(crate) fn address(wanted: &str) -> String {
    let wanted = fragment::page_of(wanted).unwrap_or_else(|| wanted.to_owned());
    if wanted == START || wanted.is_empty() {
        return "/login".to_owned();
    }
    format!("/login?next={}", utf8_percent_encode(&wanted, NON_ALPHANUMERIC))
}

/// The path to redirect to after the login: a path of this server other than the login and logout pages.
fn destination(next: &str) -> &str {
    let path = next.split(['?', '#']).next().unwrap_or_default();
    let is_login_or_logout = matches!(path.trim_end_matches('/'), "/login" | "/logout");
    request::origin::local(next).filter(|_| !is_login_or_logout).unwrap_or(START)
}

/// `GET /`, with or without the one-time token.
pub(crate) async fn home(
    State(app): State<App>,
    Query(query): Query<LoginParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if query.token.is_empty() {
        let start = match session_viewer(&app, &headers).await? {
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
        let viewer = session_viewer(&app, &headers).await?;
        // An account has all its projects in one session.
        if viewer.is_some_and(|viewer| query.more.is_empty() || viewer.account.is_some()) {
            return Ok(Redirect::to(destination(&query.next)).into_response());
        }
        // A page that was not found may belong to a project that is not part of the session yet.
        let here = match query.next.is_empty() {
            true => request::origin::referring_page(&headers).unwrap_or_default(),
            false => &query.next,
        };
        let is_signed_in = auth::signed_in(&app.web, &headers).await?.is_some();
        let view = LoginPage {
            shell: request::origin::shell(&headers),
            problem: is_signed_in.then_some(NO_PROJECT),
            is_additional: !query.more.is_empty(),
            next: here.to_owned(),
            has_accounts: app.store.catalog.has_accounts().await?,
            ..LoginPage::default()
        };
        return page(StatusCode::OK, &view);
    }
    // GET does not consume the token: link previews and scanners open URLs. The form on this page does.
    let viewer = session_viewer(&app, &headers).await?;
    if viewer.is_some_and(|viewer| viewer.project == app.home_project) {
        return Ok(Redirect::to(destination(&query.next)).into_response());
    }
    let view = LoginPage {
        shell: request::origin::shell(&headers),
        token: query.token,
        next: query.next,
        has_accounts: app.store.catalog.has_accounts().await?,
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
    if app.store.catalog.has_accounts().await? {
        return sign_in(&app, (client, &headers), form).await;
    }
    if !form.token.is_empty() {
        let sender = (client, &headers);
        return match auth::log_in_with_token(&app.web, sender, &form.token, &app.home_project).await
        {
            Ok(Some(cookie)) => Ok(with_cookie(Redirect::to(destination(&form.next)), &cookie)),
            Ok(None) => refuse(&headers, WRONG_TOKEN, (form, false)),
            Err(problem) => too_many(&headers, problem, (form, false)),
        };
    }
    match project_of_key_pair(&app, client, &form).await {
        Ok(project) => {
            let origin = SessionOrigin::KeyPair(form.public_key.trim().to_owned());
            let cookie = auth::create_session(&app.web, &headers, &project, origin).await?;
            Ok(with_cookie(Redirect::to(destination(&form.next)), &cookie))
        }
        Err(problem) if problem.code() == Code::AuthenticationFailed => {
            refuse(&headers, WRONG_PAIR, (form, false))
        }
        Err(problem) if problem.code() == Code::KeyExpired => {
            refuse(&headers, EXPIRED_PAIR, (form, false))
        }
        Err(problem) if problem.code().status() == StatusCode::FORBIDDEN => {
            refuse(&headers, OTHER_PAIR, (form, false))
        }
        Err(problem) => too_many(&headers, problem, (form, false)),
    }
}

/// Signs in with an account. An unknown address, a wrong password and a disabled account have the same response.
async fn sign_in(
    app: &App,
    (client, headers): (ClientAddress, &HeaderMap),
    form: LoginForm,
) -> Result<Response, Problem> {
    if form.email.is_empty() && !(form.token.is_empty() && form.public_key.is_empty()) {
        return refuse(headers, NO_KEYS, (form, true));
    }
    let sender = (client, headers);
    match auth::verify_password(&app.web, sender, (&form.email, &form.password)).await {
        Ok(Some(account)) => {
            redirect_signed_in(app, sender, &account, destination(&form.next)).await
        }
        Ok(None) => refuse(headers, WRONG_PASSWORD, (form, true)),
        Err(problem) => too_many(headers, problem, (form, true)),
    }
}

/// `GET /logout`: a page with the logout form.
pub(crate) async fn logout_page(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match session_viewer(&app, &headers).await? {
        Some(viewer) => {
            let shell = Shell { url: "/logout".to_owned(), ..viewer.shell(Section::Other) };
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
    // Makes the browser delete cached pages of the session.
    response.headers_mut().insert(
        HeaderName::from_static("clear-site-data"),
        HeaderValue::from_static("\"cache\", \"storage\""),
    );
    Ok(response)
}

/// Authenticates a key pair with the same code as the API.
async fn project_of_key_pair(
    app: &App,
    client: ClientAddress,
    form: &LoginForm,
) -> Result<ProjectId, Problem> {
    let pair = STANDARD.encode(format!("{}:{}", form.public_key.trim(), form.secret_key.trim()));
    let value = HeaderValue::try_from(format!("Basic {pair}")).map_err(|_| Problem::internal())?;
    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
    Ok(auth::act_of(&app.web, client, &headers, TraceRead).await?.project)
}

fn with_cookie(redirect: Redirect, cookie: &str) -> Response {
    let mut response = redirect.into_response();
    append_cookie(&mut response, cookie);
    response
}

/// The login form with the sent values, without secrets.
fn form_with_problem(
    headers: &HeaderMap,
    problem: &'static str,
    (form, has_accounts): (LoginForm, bool),
) -> LoginPage {
    LoginPage {
        shell: request::origin::shell(headers),
        problem: Some(problem),
        retry_after_s: None,
        is_additional: !form.more.is_empty(),
        token: String::new(),
        next: form.next,
        public_key: form.public_key,
        has_accounts,
        email: form.email,
    }
}

fn refuse(
    headers: &HeaderMap,
    problem: &'static str,
    form: (LoginForm, bool),
) -> Result<Response, Problem> {
    page(StatusCode::UNAUTHORIZED, &form_with_problem(headers, problem, form))
}

/// The form with a delay, if the network has exceeded its login attempts; otherwise the problem.
fn too_many(
    headers: &HeaderMap,
    problem: Problem,
    form: (LoginForm, bool),
) -> Result<Response, Problem> {
    if problem.code() != Code::TooManyAttempts {
        return Err(problem);
    }
    let view = LoginPage {
        retry_after_s: problem.retry_after(),
        ..form_with_problem(headers, TOO_MANY, form)
    };
    let mut response = page(StatusCode::TOO_MANY_REQUESTS, &view)?;
    problem.set_headers(&mut response);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_never_redirects_to_itself_or_to_logout() {
        for path in ["/login", "/logout", "/login/", "/logout?next=%2F", "//x"] {
            assert_eq!(destination(path), START, "{path}");
        }
        assert_eq!(destination("/logins?a=/login"), "/logins?a=/login");
    }

    #[test]
    fn the_login_url_contains_the_requested_page() {
        assert_eq!(address("/"), "/login");
        assert_eq!(address("/traces?name=a%26"), "/login?next=%2Ftraces%3Fname%3Da%2526");
        assert_eq!(
            address("/project/p/_/traces/t/detail?observation=o"),
            "/login?next=%2Fproject%2Fp%2Ftraces%2Ft%3Fobservation%3Do"
        );
    }
}
