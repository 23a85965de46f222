//! Forms of pages: check of the origin, parsing, execution at most once, and the redirect to the page of the form.
//!
//! Invariants:
//! - **Protected against cross-site requests.** A handler gets the fields only from [`SubmittedForm`], which checks the
//!   origin and the token of the form.
//! - **A repeated submission has no effect.** A handler changes data only in [`SubmittedForm::run_once`].

use axum::extract::{FromRequest, OriginalUri, Request};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use perpend_domain::plugin::Digest;
use perpend_http_kit::admission;
use perpend_http_kit::cookies::{append_cookie, set_cookie};
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::Section;

use crate::request;
use crate::request::frame::Frame;
use crate::request::submissions::{NOTICE_COOKIE, SubmissionKey, SubmissionOutcome, UNDO_SECONDS};
use crate::request::viewer::{Viewer, session_viewer};
use crate::state::App;

/// Largest form accepted from a logged-in user, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Largest form with the contents of an item or the schemas of a dataset, in bytes. Percent-encoding can triple a text.
pub(crate) const MAX_CONTENT_BYTES: usize = 16 << 20;

/// A text as a form submits it: browsers change line breaks.
pub(crate) fn as_submitted(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// A form submitted from a page of the viewer's session, of at most `MAX` bytes.
#[derive(Debug)]
pub(crate) struct SubmittedForm<const MAX: usize = MAX_BYTES> {
    pub(crate) viewer: Viewer,
    pub(crate) fields: Params,
    key: SubmissionKey,
}

/// A form with contents.
pub(crate) type ContentForm = SubmittedForm<MAX_CONTENT_BYTES>;

impl<const MAX: usize> FromRequest<App> for SubmittedForm<MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Some(viewer) = request.extensions().get::<Viewer>().cloned() else {
            tracing::error!("the route of a form has no authenticator");
            return Err(Problem::internal());
        };
        request::origin::same_site(app, request.headers())?;
        let path = path(&request);
        let body = admission::read(&app.web, request, MAX).await?.bytes;
        let fields = Params::parse(&String::from_utf8_lossy(&body));
        check_token(&viewer, &fields)?;
        let key = SubmissionKey {
            project: viewer.project.clone(),
            token: viewer.token,
            digest: Digest::of(&[path.as_bytes(), b"\n", &body].concat()),
        };
        Ok(Self { viewer, fields, key })
    }
}

impl<const MAX: usize> SubmittedForm<MAX> {
    /// The local URL to redirect to after the submission; the overview of the project if the form has none.
    pub(crate) fn return_path(&self) -> String {
        let return_path = self.fields.text("back").and_then(request::origin::local);
        return_path.map_or_else(|| self.viewer.base(), str::to_owned)
    }

    /// Runs the action unless the same form was submitted recently, then redirects to a page that shows the outcome.
    pub(crate) async fn run_once(
        &self,
        app: &App,
        action: impl Future<Output = Result<SubmissionOutcome, Problem>>,
    ) -> Result<Response, Problem> {
        let slot = app.submissions().slot(&self.key, app.web.clock.now());
        let outcome = slot.get_or_try_init(|| action).await?;
        Ok(self.redirect(app, outcome))
    }

    /// Runs an action that makes a secret unless the same form was submitted recently. The secret is not stored: the first
    /// submission returns it, and a repeated one the redirect to a page that shows `repeated`.
    pub(crate) async fn run_once_for_secret<T>(
        &self,
        app: &App,
        repeated: SubmissionOutcome,
        action: impl Future<Output = Result<T, Problem>>,
    ) -> Result<Result<T, Response>, Problem> {
        let slot = app.submissions().slot(&self.key, app.web.clock.now());
        let mut made = None;
        let first = async {
            made = Some(action.await?);
            Ok::<_, Problem>(repeated)
        };
        let outcome = slot.get_or_try_init(|| first).await?;
        let redirect = self.redirect(app, outcome);
        Ok(made.ok_or(redirect))
    }

    fn redirect(&self, app: &App, outcome: &SubmissionOutcome) -> Response {
        let location = outcome.location.clone().unwrap_or_else(|| self.return_path());
        let mut response = Redirect::to(&location).into_response();
        let notice = set_cookie(&app.web.config, NOTICE_COOKIE, &self.key.id(), UNDO_SECONDS);
        append_cookie(&mut response, &notice);
        response
    }
}

fn path(request: &Request) -> String {
    let address = request.extensions().get::<OriginalUri>();
    address.map_or(request.uri(), |address| &address.0).path().to_owned()
}

/// Checks that the form has a token of the viewer's session.
pub(crate) fn check_token(viewer: &Viewer, fields: &Params) -> Result<(), Problem> {
    let sent = fields.text("form").unwrap_or_default();
    match viewer.token.is_in(sent.split('.').next().unwrap_or_default()) {
        true => Ok(()),
        false => Err(Problem::new(
            Code::AccessDenied,
            "this form does not belong to your session; reload the page and submit it again",
        )),
    }
}

/// Reads the session and sets the shell that a later error page uses.
pub(crate) async fn session_viewer_in_frame(
    app: &App,
    headers: &HeaderMap,
    frame: Option<&Frame>,
) -> Result<Option<Viewer>, Problem> {
    let viewer = session_viewer(app, headers).await?;
    if let (Some(viewer), Some(frame)) = (&viewer, frame) {
        let _ = frame.shell.set(viewer.shell(Section::Other));
    }
    Ok(viewer)
}

/// Parses a form that requires no session. If the request has a session, the form must have its token.
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
        check_token(&viewer, &fields)?;
    }
    Ok(fields)
}
