//! `P/settings/members`: members of the organization of the project, their roles, and links for them.
//!
//! Invariants:
//! - **No member acts above their own role.** Members are changed by operations of the API, which check it; invitations and
//!   resets are checked here.
//! - **A link is shown once**: in the response to the form that created it.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use perpend_catalog::{LinkPurpose, NewLink, User};
use perpend_domain::access::Permission::{OrgMemberRead, OrgMemberWrite};
use perpend_domain::access::Role;
use perpend_domain::ids::UserId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::{Member, canonical_email, is_email, new_link_token};
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::{
    InvitationLine, MemberLine, MembersPage, OneTimeLinkPage, RejectedForm, Section, Text,
};
use serde_json::json;

use crate::request::forms::SubmittedForm;
use crate::request::operations::{call, field_problems, is_about_input, sent_values};
use crate::request::reply::page;
use crate::request::submissions::SubmissionOutcome;
use crate::request::viewer::Viewer;
use crate::state::App;

const OF_ORGANIZATION: &str = "/api/public/organizations/memberships";
/// Validity of an invitation.
const INVITATION_MS: i64 = 7 * 24 * 3_600 * 1_000;
/// Validity of a link that sets a password.
const RESET_MS: i64 = 30 * 60 * 1_000;
/// Members of problems and their fields.
const FIELDS: [(&str, &str); 3] = [("email", "email"), ("role", "role"), ("member", "member")];
const SHOWN_ONCE: &str = "The form was already submitted. A link is shown only once.";

/// The viewer as a member of the organization. Only accounts have the permission for these pages.
fn own(viewer: &Viewer) -> Result<&Member, Problem> {
    viewer.member().ok_or_else(|| {
        tracing::error!("a page of members was opened without an account");
        Problem::internal()
    })
}

fn denied(message: &str) -> Problem {
    Problem::new(Code::AccessDenied, message)
}

/// The member, if the role in the organization allows changes of members.
fn manager(viewer: &Viewer) -> Result<&Member, Problem> {
    let own = own(viewer)?;
    match own.role.holds(OrgMemberWrite) {
        true => Ok(own),
        false => Err(denied("requires the permission `org.member.write`")),
    }
}

fn list_href(viewer: &Viewer) -> String {
    format!("{}/settings/members", viewer.base())
}

fn link_url(viewer: &Viewer, path: &str, token: &str) -> Text {
    Text::from(format!("{}/{path}/{token}", viewer.origin.trim_end_matches('/')))
}

async fn view(
    app: &App,
    viewer: &Viewer,
    rejected_form: RejectedForm,
) -> Result<MembersPage, Problem> {
    let own = own(viewer)?;
    let (catalog, now) = (&app.store.catalog, app.web.clock.now());
    let project = catalog.project(&viewer.project).await?.ok_or_else(Problem::internal)?;
    let accounts = catalog.member_accounts(&own.organization).await?;
    let in_project = catalog.project_members(&own.organization, &viewer.project).await?;
    let may_write = own.role.holds(OrgMemberWrite);
    // A role in the project alone does not show the rest of the organization.
    let sees_all = own.role.holds(OrgMemberRead);
    let has_role = |user: &User| in_project.iter().any(|one| one.made.id == user.made.id);
    let members = catalog.members(&own.organization).await?.into_iter();
    let members = members.filter(|user| sees_all || has_role(user)).map(|user| {
        let id = user.made.id.to_string();
        let has_account = accounts.iter().any(|(member, _)| *member == id);
        let is_changeable = may_write && own.role.is_at_least(user.made.role);
        let project_role = in_project.iter().find(|one| one.made.id == user.made.id);
        MemberLine {
            name: Text::from(user.made.name),
            email: Text::from(user.made.email),
            role: user.made.role.as_str(),
            project_role: project_role.map(|one| one.made.role.as_str()),
            has_account,
            is_changeable,
            is_resettable: own.role == Role::Owner && has_account && user.made.id != own.id,
            id,
        }
    });
    let invitations = match may_write {
        true => catalog.invitations(&own.organization, now).await?,
        false => Vec::new(),
    };
    let invitations = invitations.into_iter().filter_map(|link| match link.made.purpose {
        LinkPurpose::Invitation { role, .. } => Some(InvitationLine {
            id: link.made.id,
            email: Text::from(link.made.email),
            role: role.as_str(),
            expires_at: link.made.expires_at,
        }),
        LinkPurpose::Reset { .. } => None,
    });
    let roles = Role::ALL.iter().filter(|role| may_write && own.role.is_at_least(**role));
    Ok(MembersPage {
        shell: viewer.shell(Section::Members),
        organization: Text::from(project.organization.name),
        members: members.collect(),
        invitations: invitations.collect(),
        roles: roles.map(|role| role.as_str()).collect(),
        rejected_form,
    })
}

/// `GET P/settings/members`
pub(crate) async fn members_page(
    State(app): State<App>,
    viewer: Viewer,
) -> Result<Response, Problem> {
    page(StatusCode::OK, &view(&app, &viewer, RejectedForm::default()).await?)
}

/// The page with the problem of a rejected form, or another problem.
async fn rejected(app: &App, form: &SubmittedForm, problem: Problem) -> Result<Response, Problem> {
    if !is_about_input(&problem) {
        return Err(problem);
    }
    let rejected = RejectedForm {
        values: sent_values(&form.fields, ["email"]),
        problems: field_problems(&problem, &FIELDS, "member"),
    };
    page(StatusCode::UNPROCESSABLE_ENTITY, &view(app, &form.viewer, rejected).await?)
}

/// Calls an operation on members, and shows its outcome on the list.
async fn change(
    app: &App,
    form: &SubmittedForm,
    (method, path): (Method, &str),
    words: &str,
) -> Result<Response, Problem> {
    let field = |name: &str| form.fields.raw(name).unwrap_or_default();
    let act = async {
        let body = json!({ "userId": field("member"), "role": field("role") });
        call(app, &form.viewer, (method, path), &body).await?;
        Ok::<_, Problem>(SubmissionOutcome::new(words).at(list_href(&form.viewer)))
    };
    let changed = Box::pin(form.run_once(app, act)).await;
    match changed {
        Err(problem) => rejected(app, form, problem).await,
        done => done,
    }
}

/// `POST P/settings/members/role`
pub(crate) async fn set_role(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    change(&app, &form, (Method::PUT, OF_ORGANIZATION), "Role changed").await
}

/// `POST P/settings/members/remove`
pub(crate) async fn remove(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    change(&app, &form, (Method::DELETE, OF_ORGANIZATION), "Member removed").await
}

/// `POST P/settings/members/project-role`: a role of its own, or none.
pub(crate) async fn set_project_role(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let path = format!("/api/public/projects/{}/memberships", form.viewer.project);
    let is_set = form.fields.raw("role").is_some_and(|role| !role.is_empty());
    let method = if is_set { Method::PUT } else { Method::DELETE };
    change(&app, &form, (method, &path), "Role in this project changed").await
}

/// Creates a link and returns its token.
async fn create_link(
    app: &App,
    (email, purpose): (String, LinkPurpose),
    (own, expires_at): (&Member, Timestamp),
) -> Result<String, Problem> {
    let (token, digest) = new_link_token(&*app.web.ids);
    let link = NewLink {
        digest,
        id: app.web.ids.uuid().to_string(),
        purpose,
        email,
        created_by: own.id.to_string(),
        expires_at,
    };
    app.store.catalog.create_link(&link, app.web.clock.now()).await?;
    Ok(token)
}

/// Shows the link that a form made.
async fn show_link(
    app: &App,
    form: &SubmittedForm,
    is_reset: bool,
    act: impl Future<Output = Result<(String, String, Timestamp), Problem>>,
) -> Result<Response, Problem> {
    let viewer = &form.viewer;
    let repeated = SubmissionOutcome::new(SHOWN_ONCE).at(list_href(viewer));
    let made = Box::pin(form.run_once_for_secret(app, repeated, act)).await;
    match made {
        Ok(Ok((email, token, expires_at))) => {
            let view = OneTimeLinkPage {
                shell: viewer.shell(Section::Members),
                is_reset,
                email: Text::from(email),
                url: link_url(viewer, if is_reset { "reset" } else { "invite" }, &token),
                expires_at,
            };
            page(StatusCode::OK, &view)
        }
        Ok(Err(repeated)) => Ok(repeated),
        Err(problem) => rejected(app, form, problem).await,
    }
}

/// `POST P/settings/members/invite`
pub(crate) async fn invite(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let act = async {
        let own = manager(&form.viewer)?;
        let email = canonical_email(form.fields.raw("email").unwrap_or_default());
        if !is_email(&email) {
            return Err(Problem::body("email", "must be an e-mail address"));
        }
        let role = form.fields.raw("role").unwrap_or_default().parse::<Role>();
        let role = role.map_err(|message| Problem::body("role", message))?;
        if !own.role.is_at_least(role) {
            return Err(denied("members cannot give a role above their own"));
        }
        let known = app.store.catalog.user_by_name(&own.organization, &email).await?;
        if let Some(known) = known.filter(|user| user.made.is_active) {
            if !own.role.is_at_least(known.made.role) {
                return Err(denied("members cannot invite a member with a role above their own"));
            }
            let accounts = app.store.catalog.member_accounts(&own.organization).await?;
            if accounts.iter().any(|(user, _)| *user == known.made.id.as_str()) {
                return Err(Problem::body("email", "must not be the address of a member"));
            }
        }
        let expires_at = app.web.clock.now().plus_millis(INVITATION_MS);
        let purpose = LinkPurpose::Invitation { organization: own.organization.clone(), role };
        let token = create_link(&app, (email.clone(), purpose), (own, expires_at)).await?;
        Ok((email, token, expires_at))
    };
    show_link(&app, &form, false, act).await
}

/// `POST P/settings/members/revoke`: revokes an invitation.
pub(crate) async fn revoke(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let act = async {
        let own = manager(&form.viewer)?;
        let id = form.fields.raw("invitation").unwrap_or_default();
        app.store.catalog.revoke_invitation(&own.organization, id).await?;
        Ok::<_, Problem>(SubmissionOutcome::new("Invitation revoked").at(list_href(&form.viewer)))
    };
    form.run_once(&app, act).await
}

/// `POST P/settings/members/reset`: an owner creates a link that sets the password of a member.
///
/// Not for an account that other organizations know, or of an operator: an owner of one organization would get into
/// another one.
pub(crate) async fn reset(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let act = async {
        let own = manager(&form.viewer)?;
        if own.role != Role::Owner {
            return Err(denied("only owners create links for new passwords"));
        }
        let catalog = &app.store.catalog;
        let user = UserId::new(form.fields.raw("member").unwrap_or_default());
        let user = user.map_err(|_| Problem::not_found("member"))?;
        let accounts = catalog.member_accounts(&own.organization).await?;
        let account = accounts.into_iter().find(|(member, _)| *member == user.as_str());
        let (_, account) = account.ok_or_else(|| Problem::not_found("member"))?;
        let account = catalog.account(&account).await?.ok_or_else(Problem::internal)?;
        let is_elsewhere = catalog.is_account_elsewhere(&account.id, &own.organization).await?;
        if is_elsewhere || account.is_operator {
            let message = "the account is one of the operator, or known to another organization: the operator creates the \
                           link with `perpend reset-link`";
            return Err(Problem::body("member", message));
        }
        let expires_at = app.web.clock.now().plus_millis(RESET_MS);
        let email = account.email;
        let purpose = LinkPurpose::Reset { account: account.id };
        let token = create_link(&app, (email.clone(), purpose), (own, expires_at)).await?;
        Ok((email, token, expires_at))
    };
    show_link(&app, &form, true, act).await
}
