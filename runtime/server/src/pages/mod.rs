//! The pages: what the store knows, as HTML for people.
//!
//! Invariants:
//! - **The same authorization as the API.** A page shows the project of its session; what belongs to
//!   another one is not found. Only `Viewer`'s extractor makes the proof.
//! - **Nothing runs that we did not ship.** Every answer carries the content security policy; raw values
//!   leave as plain text that the browser may not interpret.
//! - **A page never waits for an evaluator** and writes nothing but its cookie.

mod explain;
mod filter;
mod list;
mod login;
mod raw;
mod read;
mod reference;
mod rules;
mod session;
mod trace;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, OriginalUri, Request};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_ui::{ErrorPage, Section, Shell, Text, assets};
use tokio::sync::OnceCell;

use crate::edge::REQUEST_ID;
use crate::problem::{Code, Problem};
use crate::{App, compression};

pub(crate) use session::SESSION_KEY;
use session::Sessions;

/// What the handlers of pages share.
#[derive(Clone)]
pub(super) struct Pages {
    app: App,
    sessions: Arc<OnceCell<Sessions>>,
}

/// The address to print at start: opening it logs in.
#[must_use]
pub fn login_url(app: &App, origin: &str) -> String {
    format!(
        "{}/?token={}",
        origin.trim_end_matches('/'),
        app.login_token
    )
}

/// All pages.
pub fn router<S>(app: App) -> Router<S> {
    Router::new()
        .route("/", get(login::home))
        .route("/login", get(login::form).post(login::submit))
        .route("/logout", post(login::logout))
        .route_layer(middleware::map_response(compression::keep_secret))
        .route("/traces", get(list::show))
        .route("/traces/{trace}", get(trace::show))
        .route("/traces/{trace}/detail", get(trace::detail))
        .route("/traces/{trace}/raw/{part}", get(raw::of_trace))
        .route(
            "/traces/{trace}/observations/{observation}/raw/{part}",
            get(raw::of_observation),
        )
        .route("/project/{project}/traces/{trace}", get(trace::by_project))
        .route("/trace/{trace}", get(trace::by_client))
        .route("/rules", get(rules::show))
        .route("/api/reference", get(reference::show))
        .route("/assets/{file}", get(asset))
        .layer(middleware::from_fn(as_page))
        .with_state(Pages {
            app,
            sessions: Arc::default(),
        })
}

/// The right to look at one project: a session, read from its cookie. Without one the visitor is sent
/// to the login form.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    project: ProjectId,
    name: String,
}

impl Viewer {
    fn shell(&self, section: Section) -> Shell {
        Shell {
            project: Some(Text::from(self.name.as_str())),
            section,
        }
    }
}

impl Pages {
    /// The signing key is read when the first visitor comes: a server without visitors needs none.
    async fn sessions(&self) -> Result<&Sessions, Problem> {
        let app = &self.app;
        let is_secure = app
            .config
            .public_url
            .as_deref()
            .is_some_and(|url| url.starts_with("https:"));
        let open = || Sessions::open(&app.store, app.ids.as_ref(), is_secure);
        Ok(self.sessions.get_or_try_init(open).await?)
    }

    /// The project of the session in these headers, while it exists.
    async fn viewer(&self, headers: &HeaderMap, now: Timestamp) -> Result<Option<Viewer>, Problem> {
        let sessions = self.sessions().await?;
        let cookies = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let session = cookies
            .filter_map(|header| sessions.project(header, now))
            .next();
        let Some(project) = session else {
            return Ok(None);
        };
        let found = self.app.store.project(&project).await?;
        Ok(found.map(|found| Viewer {
            project,
            name: found.name,
        }))
    }
}

impl FromRequestParts<Pages> for Viewer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, pages: &Pages) -> Result<Self, Response> {
        let viewer = pages.viewer(&parts.headers, pages.app.clock.now()).await;
        let address = parts
            .extensions
            .get::<OriginalUri>()
            .map_or(&parts.uri, |uri| &uri.0);
        match viewer {
            Ok(Some(viewer)) => Ok(viewer),
            Ok(None) => Err(Redirect::to(&login::address(address)).into_response()),
            Err(problem) => Err(problem.into_response()),
        }
    }
}

/// A page as an answer.
fn page(status: StatusCode, view: &impl perpend_ui::Template) -> Result<Response, Problem> {
    let html = perpend_ui::render(view).map_err(|error| unrendered(&error))?;
    Ok((status, Html(html)).into_response())
}

/// Rendering fails only on a fault in a template.
fn unrendered(error: &perpend_ui::Error) -> Problem {
    let error: &dyn std::error::Error = error;
    tracing::error!(error, "page not rendered");
    Problem::internal()
}

async fn asset(OriginalUri(address): OriginalUri) -> Result<Response, Problem> {
    let asset = assets::find(address.path()).ok_or_else(|| Problem::not_found("file"))?;
    let headers = [
        (CONTENT_TYPE, asset.content_type),
        // The name changes with the bytes.
        (CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    Ok((headers, asset.bytes).into_response())
}

/// Whether the sender of these headers is a browser that opens a page.
pub fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Layer: gives a [`Problem`] the form of a page, and every answer the headers that keep it inert.
pub async fn as_page(request: Request, next: Next) -> Response {
    let id = request.headers().get(REQUEST_ID).cloned();
    let mut response = next.run(request).await;
    if let Some(problem) = response.extensions().get::<Problem>().cloned() {
        response = error_page(&problem, id.as_ref());
    }
    keep_inert(response)
}

/// Puts in the headers that keep a page from running or loading what is not ours.
fn keep_inert(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 4] = [
        (CONTENT_SECURITY_POLICY, assets::CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Addresses of this server, the one with the token above all, are nobody else's business.
        (REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
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

/// The page for an address that there is none at.
#[must_use]
pub fn not_found(request_id: Option<&HeaderValue>) -> Response {
    keep_inert(error_page(&Problem::not_found("page"), request_id))
}

fn error_page(problem: &Problem, request_id: Option<&HeaderValue>) -> Response {
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
        shell: Shell::default(),
        status: status.as_u16(),
        title,
        message: Text::from(message),
        request_id: id.filter(|_| status.is_server_error()),
    };
    let html = perpend_ui::render(&view).unwrap_or_else(|_| title.to_owned());
    let mut response = (status, Html(html)).into_response();
    problem.set_headers(&mut response);
    // A challenge would make browsers ask for a password in a window of their own.
    response
        .headers_mut()
        .remove(axum::http::header::WWW_AUTHENTICATE);
    response
}

/// A body that is shown as text, whatever it holds.
fn plain(text: String) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, "sandbox"),
    ];
    (headers, Body::from(text)).into_response()
}
