//! `/invite/{token}` and `/reset/{token}`: an invitation is accepted, a password is set.
//!
//! Invariants:
//! - **GET uses nothing.** Only the form does, once.
//! - **An invitation is for its e-mail address**: it creates the account of this address, or the account of this address
//!   signed in. An existing account never gets a password by it.

use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use perpend_catalog::{AcceptingAccount, AccountLink, EMAIL_TAKEN, Error, LinkPurpose, NewAccount};
use perpend_domain::access::Role;
use perpend_domain::ids::{OrganizationId, UserId};
use perpend_http_kit::auth::{SignedIn, link_digest, signed_in};
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{LinkKind, LinkPage, RejectedForm, Section, Text, encode};

use super::{checked_name, redirect_signed_in};
use crate::request::forms::read_public_form;
use crate::request::operations::{field_problems, is_about_input, sent_values};
use crate::request::reply::page;
use crate::request::viewer::shell;
use crate::state::App;

/// Largest form of an unauthenticated sender, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;
/// Members of problems and their fields.
const FIELDS: [(&str, &str); 2] = [("name", "name"), ("password", "password")];

fn gone() -> Problem {
    let message = "this link is unknown, used, revoked or expired; ask for a new one";
    Problem::new(Code::LinkGone, message)
}

async fn link(app: &App, token: &str) -> Result<AccountLink, Problem> {
    let found = app.store.catalog.account_link(&link_digest(token), app.web.clock.now()).await?;
    found.ok_or_else(gone)
}

/// An open invitation.
struct Invitation {
    link: AccountLink,
    organization: OrganizationId,
    role: Role,
    /// Whether an account has the e-mail address.
    has_account: bool,
    /// The account of the e-mail address, if it is signed in.
    signed_in: Option<SignedIn>,
}

impl Invitation {
    async fn open(app: &App, headers: &HeaderMap, token: &str) -> Result<Self, Problem> {
        let link = link(app, token).await?;
        let LinkPurpose::Invitation { organization, role } = link.made.purpose.clone() else {
            return Err(gone());
        };
        let account = app.store.catalog.account_by_email(&link.made.email).await?;
        let signed_in = signed_in(&app.web, headers).await?;
        let is_own = |one: &SignedIn| one.account.email == link.made.email;
        let signed_in = signed_in.filter(is_own);
        Ok(Self { organization, role, has_account: account.is_some(), signed_in, link })
    }

    async fn kind(&self, app: &App) -> Result<LinkKind, Problem> {
        let organization = app.store.catalog.organization_name(&self.organization).await?;
        let name = Text::from(organization.ok_or_else(gone)?);
        let role = self.role.as_str();
        Ok(match (&self.signed_in, self.has_account) {
            (Some(_), _) => LinkKind::Join(name, role),
            (None, true) => LinkKind::LogIn(name),
            (None, false) => LinkKind::NewAccount(name, role),
        })
    }
}

async fn link_page(
    app: &App,
    (headers, address): (&HeaderMap, &Uri),
    (link, kind): (&AccountLink, LinkKind),
    rejected_form: RejectedForm,
) -> Result<Response, Problem> {
    let status = match rejected_form.problems.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let view = LinkPage {
        shell: shell(app, headers, (address, Section::Other)).await?,
        action: address.path().to_owned(),
        email: Text::from(link.made.email.as_str()),
        kind,
        rejected_form,
    };
    page(status, &view)
}

fn rejected(fields: &Params, problem: &Problem) -> RejectedForm {
    RejectedForm {
        values: sent_values(fields, ["name"]),
        problems: field_problems(problem, &FIELDS, "password"),
    }
}

/// `GET /invite/{token}`
pub(crate) async fn invitation_page(
    State(app): State<App>,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Result<Response, Problem> {
    let invitation = Invitation::open(&app, &headers, &token).await?;
    let kind = invitation.kind(&app).await?;
    let shown = (&invitation.link, kind);
    link_page(&app, (&headers, &address), shown, RejectedForm::default()).await
}

/// `POST /invite/{token}`
pub(crate) async fn accept_invitation(
    State(app): State<App>,
    client: ClientAddress,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = read_public_form(&app, request, MAX_FORM_BYTES).await?;
    let invitation = Invitation::open(&app, &headers, &token).await?;
    let kind = invitation.kind(&app).await?;
    if matches!(kind, LinkKind::LogIn(_)) {
        return Ok(Redirect::to(&format!("/login?next={}", encode(address.path()))).into_response());
    }
    match accept(&app, &invitation, &fields).await {
        Ok(None) => Ok(Redirect::to("/").into_response()),
        Ok(Some(id)) => {
            let account = app.store.catalog.account(&id).await?.ok_or_else(Problem::internal)?;
            redirect_signed_in(&app, (client, &headers), &account, "/").await
        }
        Err(problem) if is_about_input(&problem) && problem.code() != Code::LinkGone => {
            let shown = (&invitation.link, kind);
            link_page(&app, (&headers, &address), shown, rejected(&fields, &problem)).await
        }
        Err(problem) => Err(problem),
    }
}

/// Uses the invitation. Returns the id of the account that it created.
async fn accept(
    app: &App,
    invitation: &Invitation,
    fields: &Params,
) -> Result<Option<String>, Problem> {
    let (created, account) = match &invitation.signed_in {
        Some(SignedIn { account, .. }) => {
            let existing =
                AcceptingAccount::Existing { id: account.id.clone(), name: account.name.clone() };
            (None, existing)
        }
        None => {
            let new = new_account(app, &invitation.link.made.email, fields).await?;
            (Some(new.id.clone()), AcceptingAccount::New(new))
        }
    };
    let user = app.web.ids.uuid().to_string();
    let user = UserId::new(&user).map_err(|_| Problem::internal())?;
    let now = app.web.clock.now();
    let accepted =
        app.store.catalog.accept_invitation(&invitation.link.made, &account, (&user, now));
    match accepted.await {
        Ok(()) => Ok(created),
        Err(Error::NotFound | Error::Conflict(EMAIL_TAKEN)) => Err(gone()),
        Err(error) => Err(error.into()),
    }
}

async fn new_account(app: &App, email: &str, fields: &Params) -> Result<NewAccount, Problem> {
    let name = checked_name(fields.raw("name").unwrap_or_default())?;
    let password = fields.raw("password").unwrap_or_default();
    let context = [email, name.as_str()];
    let password_hash = app.web.passwords.hash_new(password, &context, &*app.web.ids).await?;
    let (id, email) = (app.web.ids.uuid().to_string(), email.to_owned());
    Ok(NewAccount { id, email, name, password_hash })
}

/// `GET /reset/{token}`
pub(crate) async fn reset_page(
    State(app): State<App>,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Result<Response, Problem> {
    let link = reset_link(&app, &token).await?;
    let shown = (&link, LinkKind::Reset);
    link_page(&app, (&headers, &address), shown, RejectedForm::default()).await
}

async fn reset_link(app: &App, token: &str) -> Result<AccountLink, Problem> {
    let link = link(app, token).await?;
    match link.made.purpose {
        LinkPurpose::Reset { .. } => Ok(link),
        LinkPurpose::Invitation { .. } => Err(gone()),
    }
}

/// `POST /reset/{token}`: sets the password. The person then logs in with it.
pub(crate) async fn reset_password(
    State(app): State<App>,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = read_public_form(&app, request, MAX_FORM_BYTES).await?;
    let link = reset_link(&app, &token).await?;
    let password = fields.raw("password").unwrap_or_default();
    let context = [link.made.email.as_str()];
    let hashed = app.web.passwords.hash_new(password, &context, &*app.web.ids).await;
    let hash = match hashed {
        Ok(hash) => hash,
        Err(problem) if is_about_input(&problem) => {
            let shown = (&link, LinkKind::Reset);
            let rejected = rejected(&fields, &problem);
            return link_page(&app, (&headers, &address), shown, rejected).await;
        }
        Err(problem) => return Err(problem),
    };
    match app.store.catalog.use_reset(&link.made, &hash, app.web.clock.now()).await {
        Ok(()) => Ok(Redirect::to("/login").into_response()),
        Err(Error::NotFound) => Err(gone()),
        Err(error) => Err(error.into()),
    }
}
