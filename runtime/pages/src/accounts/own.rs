//! `GET /account`: profile, password and sessions of the viewer.
//!
//! Invariant: **a password is changed with the current one**, and all other sessions end.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use perpend_domain::access::Role;
use perpend_http_kit::auth::{SignedIn, begin_account_session, verify_password};
use perpend_http_kit::client_address::ClientAddress;
use perpend_http_kit::cookies::append_cookie;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{AccountPage, ProjectLink, RejectedForm, Section, SessionLine, Text};
use serde::Deserialize;

use super::checked_name;
use crate::request::forms::SubmittedForm;
use crate::request::operations::{field_problems, is_about_input};
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Members of problems and their fields.
const FIELDS: [(&str, &str); 3] =
    [("name", "name"), ("current", "current"), ("password", "password")];
const PAGE: &str = "/account";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AccountParams {
    /// Set after a change of the password.
    changed: String,
}

/// The account of the viewer. Only accounts have the permission for this page.
pub(super) fn own(viewer: &Viewer) -> Result<&SignedIn, Problem> {
    viewer.account.as_ref().ok_or_else(|| {
        tracing::error!("a page of accounts was opened without an account");
        Problem::internal()
    })
}

async fn view(
    app: &App,
    viewer: &Viewer,
    (is_password_changed, rejected_form): (bool, RejectedForm),
) -> Result<AccountPage, Problem> {
    let SignedIn { account, session, .. } = own(viewer)?;
    let (catalog, now) = (&app.store.catalog, app.web.clock.now());
    let memberships = catalog.memberships(&account.id).await?;
    let ids: Vec<_> = memberships.iter().map(|one| one.project.clone()).collect();
    let named = catalog.projects_named(&ids).await?;
    let open = memberships.iter().filter(|one| one.role() != Role::None);
    let projects = open.filter_map(|one| {
        let project = named.iter().find(|project| project.id == one.project)?;
        Some((ProjectLink::new(project.id.as_str(), &project.name), one.role().as_str()))
    });
    let sessions = catalog.account_sessions(&account.id, now).await?.into_iter();
    let line = |open: perpend_catalog::AccountSession| SessionLine {
        is_current: open.id == session.id,
        id: open.id,
        agent: Text::from(open.agent),
        address: Text::from(open.address),
        created_at: open.created_at,
        seen_at: open.seen_at,
    };
    Ok(AccountPage {
        shell: viewer.shell(Section::Other),
        email: Text::from(account.email.as_str()),
        name: account.name.clone(),
        projects: projects.collect(),
        sessions: sessions.map(line).collect(),
        is_password_changed,
        rejected_form,
    })
}

/// `GET /account`
pub(crate) async fn account_page(
    State(app): State<App>,
    viewer: Viewer,
    Query(query): Query<AccountParams>,
) -> Result<Response, Problem> {
    let state = (query.changed == "password", RejectedForm::default());
    page(StatusCode::OK, &view(&app, &viewer, state).await?)
}

/// The page with the problems of a rejected form, or another problem.
async fn rejected(app: &App, viewer: &Viewer, problem: Problem) -> Result<Response, Problem> {
    if !is_about_input(&problem) || problem.code() == Code::TooManyAttempts {
        return Err(problem);
    }
    let problems = field_problems(&problem, &FIELDS, "name");
    let state = (false, RejectedForm { values: Vec::new(), problems });
    page(StatusCode::UNPROCESSABLE_ENTITY, &view(app, viewer, state).await?)
}

/// `POST /account/name`
pub(crate) async fn change_name(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let account = &own(&form.viewer)?.account;
    let act = async {
        let name = checked_name(form.fields.raw("name").unwrap_or_default())?;
        app.store.catalog.rename_account(&account.id, &name, app.web.clock.now()).await?;
        Ok::<_, Problem>(SubmissionOutcome::new("Name changed").at(PAGE.to_owned()))
    };
    match form.run_once(&app, act).await {
        Err(problem) => rejected(&app, &form.viewer, problem).await,
        done => done,
    }
}

/// `POST /account/password`
pub(crate) async fn change_password(
    State(app): State<App>,
    client: ClientAddress,
    headers: HeaderMap,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let SignedIn { account, .. } = own(&form.viewer)?;
    let mut cookies = None;
    let act = async {
        let sender = (client, &headers);
        let current = form.fields.raw("current").unwrap_or_default();
        if verify_password(&app.web, sender, (&account.email, current)).await?.is_none() {
            return Err(Problem::body("current", "must be the current password"));
        }
        let password = form.fields.raw("password").unwrap_or_default();
        let context = [account.email.as_str(), account.name.as_str()];
        let hash = app.web.passwords.hash_new(password, &context, &*app.web.ids).await?;
        app.store.catalog.set_password(&account.id, &hash, app.web.clock.now()).await?;
        cookies = Some(begin_account_session(&app.web, sender, account).await?);
        let there = format!("{PAGE}?changed=password");
        Ok::<_, Problem>(SubmissionOutcome::new("Password changed").at(there))
    };
    let changed = Box::pin(form.run_once(&app, act)).await;
    match changed {
        Ok(mut response) => {
            let cookies = cookies.into_iter().flatten();
            cookies.for_each(|cookie| append_cookie(&mut response, &cookie));
            Ok(response)
        }
        Err(problem) => rejected(&app, &form.viewer, problem).await,
    }
}

/// `POST /account/sessions/end`: one session, or all others.
pub(crate) async fn end_sessions(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let SignedIn { account, session, .. } = own(&form.viewer)?;
    let act = async {
        let catalog = &app.store.catalog;
        let words = match form.fields.raw("session") {
            Some(id) => {
                catalog.end_account_session(&account.id, id).await?;
                "Session ended"
            }
            None => {
                catalog.end_other_account_sessions(&account.id, &session.id).await?;
                "All other sessions ended"
            }
        };
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(PAGE.to_owned()))
    };
    form.run_once(&app, act).await
}
