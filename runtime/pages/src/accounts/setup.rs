//! `GET` and `POST /setup/{token}`: creates the first account.
//!
//! Invariant: **GET uses nothing.** The token of the setup link is valid until the first account exists or it expires.

use axum::extract::{OriginalUri, Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_catalog::{ACCOUNT_EXISTS, Account, Error, NewAccount};
use perpend_domain::ids::{OrganizationId, UserId};
use perpend_http_kit::auth::{canonical_email, is_email};
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{RejectedForm, Section, SetupAccountPage, encode};

use super::{checked_name, redirect_signed_in};
use crate::request::forms::read_public_form;
use crate::request::operations::{field_problems, is_about_input, sent_values};
use crate::request::reply::page;
use crate::request::viewer::shell;
use crate::state::App;

/// Largest form of an unauthenticated sender, in bytes.
const MAX_FORM_BYTES: usize = 16 << 10;
/// Members of problems and their fields.
const FIELDS: [(&str, &str); 3] = [("email", "email"), ("name", "name"), ("password", "password")];

fn gone() -> Problem {
    let message = "this setup link is unknown or expired, or an account exists; without an account, each start of the server \
                   prints a new link";
    Problem::new(Code::LinkGone, message)
}

/// Refuses a token that does not open the page now.
async fn ensure_open(app: &App, token: &str) -> Result<(), Problem> {
    let is_open = app.web.setup_token.opens(token, app.web.clock.now());
    match is_open && !app.store.catalog.has_accounts().await? {
        true => Ok(()),
        false => Err(gone()),
    }
}

/// `GET /setup/{token}`
pub(crate) async fn form_page(
    State(app): State<App>,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    Path(token): Path<String>,
) -> Result<Response, Problem> {
    ensure_open(&app, &token).await?;
    let view = SetupAccountPage {
        shell: shell(&app, &headers, (&address, Section::Other)).await?,
        action: format!("/setup/{}", encode(&token)),
        rejected_form: RejectedForm::default(),
    };
    page(StatusCode::OK, &view)
}

/// `POST /setup/{token}`
pub(crate) async fn create_owner(
    State(app): State<App>,
    client: ClientAddress,
    OriginalUri(address): OriginalUri,
    headers: HeaderMap,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let fields = read_public_form(&app, request, MAX_FORM_BYTES).await?;
    ensure_open(&app, &token).await?;
    match create(&app, &fields).await {
        Ok(account) => redirect_signed_in(&app, (client, &headers), &account, "/").await,
        Err(problem) if is_about_input(&problem) && problem.code() != Code::LinkGone => {
            let view = SetupAccountPage {
                shell: shell(&app, &headers, (&address, Section::Other)).await?,
                action: format!("/setup/{}", encode(&token)),
                rejected_form: RejectedForm {
                    values: sent_values(&fields, ["email", "name"]),
                    problems: field_problems(&problem, &FIELDS, "email"),
                },
            };
            page(StatusCode::UNPROCESSABLE_ENTITY, &view)
        }
        Err(problem) => Err(problem),
    }
}

async fn create(app: &App, fields: &Params) -> Result<Account, Problem> {
    let email = canonical_email(fields.raw("email").unwrap_or_default());
    if !is_email(&email) {
        return Err(Problem::body("email", "must be an e-mail address"));
    }
    let name = checked_name(fields.raw("name").unwrap_or_default())?;
    let password = fields.raw("password").unwrap_or_default();
    let organization = organization(app).await?;
    let context = [email.as_str(), name.as_str()];
    let password_hash = app.web.passwords.hash_new(password, &context, &*app.web.ids).await?;
    let new = NewAccount { id: app.web.ids.uuid().to_string(), email, name, password_hash };
    let user = app.web.ids.uuid().to_string();
    let user = UserId::new(&user).map_err(|_| Problem::internal())?;
    let now = app.web.clock.now();
    match app.store.catalog.create_first_account(&organization, &new, (&user, now)).await {
        Ok(()) => {}
        Err(Error::Conflict(ACCOUNT_EXISTS)) => return Err(gone()),
        Err(error) => return Err(error.into()),
    }
    tracing::info!(account = new.id, "the first account was created");
    let created = app.store.catalog.account(&new.id).await?;
    created.ok_or_else(Problem::internal)
}

/// The organization of the first project of the installation.
async fn organization(app: &App) -> Result<OrganizationId, Problem> {
    let catalog = &app.store.catalog;
    let project = match catalog.project(&app.home_project).await? {
        Some(project) => Some(project),
        None => catalog.first_project().await?,
    };
    let missing = || Problem::new(Code::Conflict, "the installation has no project");
    Ok(project.ok_or_else(missing)?.organization.id)
}
