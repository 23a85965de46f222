//! Forms of pages: where they were sent from, read, acted on once, and answered with the page that they were sent from.
//!
//! Invariants:
//! - **Only a page of the session sends its forms.** A handler gets the fields from [`Sent`] alone, which asks for the
//!   origin and for the token in the form.
//! - **Twice is once.** What a handler does goes through [`Sent::once`].

use axum::extract::{FromRequest, OriginalUri, Request};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::admission;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::Section;

use crate::request;
use crate::request::frame::Frame;
use crate::request::submissions::{NOTICE_COOKIE, SubmissionKey, SubmissionOutcome, UNDO_SECONDS};
use crate::request::viewer::{Viewer, of_session};
use crate::state::App;

/// Largest form accepted from a signed-in user.
const MAX_BYTES: usize = 64 << 10;

/// A form that a page of the viewer's session sent.
#[derive(Debug)]
pub(crate) struct SubmittedForm {
    pub(crate) viewer: Viewer,
    pub(crate) fields: Params,
    key: SubmissionKey,
}

impl FromRequest<App> for SubmittedForm {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Some(viewer) = request.extensions().get::<Viewer>().cloned() else {
            tracing::error!("a form without a guard asks who sent it");
            return Err(Problem::internal());
        };
        request::origin::same_site(app, request.headers())?;
        let path = path(&request);
        let body = admission::read(&app.web, request, MAX_BYTES).await?.bytes;
        let fields = Params::parse(&String::from_utf8_lossy(&body));
        token(&viewer, &fields)?;
        let key = SubmissionKey {
            project: viewer.project.clone(),
            token: viewer.token,
            digest: Digest::of(&[path.as_bytes(), b"\n", &body].concat()),
        };
        Ok(Self { viewer, fields, key })
    }
}

impl SubmittedForm {
    /// Where the sender goes on.
    pub(crate) fn return_path(&self) -> String {
        let return_path = self.fields.text("back").and_then(request::origin::local);
        return_path.map_or_else(|| self.viewer.base(), str::to_owned)
    }

    /// Acts, unless this very form was acted on a moment ago, and leads the sender on to where that is told.
    pub(crate) async fn run_once(
        &self,
        app: &App,
        act: impl Future<Output = Result<SubmissionOutcome, Problem>>,
    ) -> Result<Response, Problem> {
        let slot = app.submissions().slot(&self.key, app.web.clock.now());
        slot.get_or_try_init(|| act).await?;
        let mut response = Redirect::to(&self.return_path()).into_response();
        let id = self.key.id();
        let cookie =
            format!("{TOLD_COOKIE}={id}; Path=/; Max-Age={UNDO_SECONDS}; HttpOnly; SameSite=Lax");
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().insert(SET_COOKIE, cookie);
        }
        Ok(response)
    }
}

fn path(request: &Request) -> String {
    let address = request.extensions().get::<OriginalUri>();
    address.map_or(request.uri(), |address| &address.0).path().to_owned()
}

/// The token of the viewer's session is in the form.
fn token(viewer: &Viewer, fields: &Params) -> Result<(), Problem> {
    let shown = fields.text("form").unwrap_or_default();
    match viewer.token.is_in(shown.split('.').next().unwrap_or_default()) {
        true => Ok(()),
        false => Err(Problem::new(
            Code::AccessDenied,
            "this form does not belong to your session: open the page again, then send it",
        )),
    }
}

/// Reads the session, and puts its frame around later errors.
pub(crate) async fn session_viewer_in_frame(
    app: &App,
    headers: &HeaderMap,
    frame: Option<&Frame>,
) -> Result<Option<Viewer>, Problem> {
    let viewer = of_session(app, headers).await?;
    if let (Some(viewer), Some(frame)) = (&viewer, frame) {
        let _ = frame.shell.set(viewer.shell(Section::Other));
    }
    Ok(viewer)
}

/// The fields of a form that needs no session. Where there is one the form has to be of it.
pub(crate) async fn read_public_form(
    app: &App,
    request: Request,
    max_bytes: usize,
) -> Result<Params, Problem> {
    request::origin::same_site(app, request.headers())?;
    let frame = request.extensions().get::<Frame>().cloned();
    let viewer = session_viewer_in_frame(app, request.headers(), frame.as_ref()).await?;
    let body = admission::read(&app.web, request, max_bytes).await?.bytes;
    let fields = Params::parse(&String::from_utf8_lossy(&body));
    if let Some(viewer) = viewer {
        token(&viewer, &fields)?;
    }
    Ok(fields)
}
