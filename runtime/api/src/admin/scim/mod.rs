//! `/api/public/scim`: identity providers create and remove the users of an organization
//! (RFC 7643 and 7644, as far as providers use it: users, with equality filters and PATCH).

mod discovery;
mod filter;
mod format;
mod page;
mod patch;
mod person;

use axum::extract::{Path, State};
use perpend_catalog::User;
use perpend_domain::access::Permission::OrgScim;
use perpend_domain::ids::UserId;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::OrganizationAct;
use perpend_http_kit::extract::{Body, Param, Params, param};
use perpend_http_kit::problem::{Code, Problem};
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::memberships::change_problem as refused;
use crate::admin::scim::page::{MAX_COUNT, ScimPage};
use crate::admin::state::{App, Routes};
use filter::UserFilter;
use patch::PatchRequest;
use person::{Person, PersonInput, ScimUser, view};

pub use format::as_scim;

const USERS: &str = "/api/public/scim/Users";
const USER: &str = "/api/public/scim/Users/{userId}";
const DEFAULT_COUNT: i64 = 100;

const LIST: &[Param] = &[
    param("filter", "string", "Such as userName eq \"ada@example.com\"."),
    param("startIndex", "integer", "Position of the first user, starting at 1."),
    param("count", "integer", "Users per response, at most 1000; 100 when absent."),
];

pub(super) fn routes(routes: &mut Routes) {
    discovery::routes(routes);
    let list = Operation::get(
        "listScimUsers",
        USERS,
        "List the users of the organization, oldest first",
        OrgScim,
    );
    routes.add(list.query(LIST), list_users);
    let create =
        Operation::post("createScimUser", USERS, "Create a user of the organization", OrgScim);
    let create = create.body::<PersonInput>();
    routes.add(create, create_user);
    let get = Operation::get("getScimUser", USER, "Get a user", OrgScim);
    routes.add(get, get_user);
    let put = Operation::put("putScimUser", USER, "Replace a user", OrgScim);
    let put = put.body::<PersonInput>();
    routes.add(put, put_user);
    let patch = Operation::patch("patchScimUser", USER, "Update a user", OrgScim);
    let patch = patch.body::<PatchRequest>();
    routes.add(patch, patch_user);
    let delete =
        Operation::delete("deleteScimUser", USER, "Remove a user from the organization", OrgScim);
    routes.add(delete, delete_user);
}

/// A list of users.
#[derive(Debug, Serialize, ToSchema)]
struct ScimUsers {
    #[serde(flatten)]
    page: ScimPage,
    #[serde(rename = "Resources")]
    resources: Vec<ScimUser>,
}

/// A user was removed from the organization.
#[derive(Debug, Serialize, ToSchema)]
struct DeletedScimUser {}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, "no such user in this organization")
}

async fn find(app: &App, caller: &OrganizationAct, id: &str) -> Result<User, Problem> {
    let user = match UserId::new(id) {
        Ok(id) => app.store.catalog.user(&caller.organization, &id).await?,
        Err(_) => None,
    };
    user.ok_or_else(not_found)
}

async fn list_users(
    State(app): State<App>,
    caller: OrganizationAct,
    params: Params,
) -> Result<Answer<ScimUsers>, Problem> {
    // A number below the minimum means the minimum (RFC 7644, 3.4.2.4).
    let start = params.parsed::<i64>("startIndex")?.unwrap_or(1).max(1);
    let count = params.parsed::<i64>("count")?.unwrap_or(DEFAULT_COUNT);
    let count = count.clamp(0, MAX_COUNT);
    let offset = u32::try_from(start - 1).unwrap_or(u32::MAX);
    let limit = u32::try_from(count).unwrap_or(0);
    let (users, n_total) = match params.text("filter") {
        None => {
            let found = app.store.catalog.users(&caller.organization, offset, limit).await?;
            (found.items, found.n_total)
        }
        Some(text) => {
            let user_filter =
                UserFilter::parse(text).map_err(|error| Problem::query("filter", error))?;
            let found = match &user_filter {
                UserFilter::UserName(name) => {
                    app.store.catalog.user_by_name(&caller.organization, name).await?
                }
                UserFilter::Id(id) => find(&app, &caller, id).await.ok(),
            };
            let n_total = u64::from(found.is_some());
            let shown = found.filter(|_| offset == 0 && 0 < limit);
            (shown.into_iter().collect(), n_total)
        }
    };
    Ok(Answer(ScimUsers {
        page: ScimPage::new(n_total, start, users.len()),
        resources: users.iter().map(view).collect(),
    }))
}

async fn create_user(
    State(app): State<App>,
    caller: OrganizationAct,
    Body(input): Body<PersonInput>,
) -> Result<Answer<ScimUser, 201>, Problem> {
    let person = input.read(None)?;
    let id = app.web.ids.uuid().to_string();
    let id = UserId::new(&id).map_err(|_| Problem::internal())?;
    let user = person.into_user(id)?;
    let now = app.web.clock.now();
    let made = app.store.catalog.create_user(&caller.organization, &user, now);
    Ok(Answer(view(&made.await?)))
}

async fn get_user(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
) -> Result<Answer<ScimUser>, Problem> {
    Ok(Answer(view(&find(&app, &caller, &id).await?)))
}

async fn put_user(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
    Body(input): Body<PersonInput>,
) -> Result<Answer<ScimUser>, Problem> {
    let known = find(&app, &caller, &id).await?;
    let person = input.read(Some(known.made.role))?;
    store(&app, &caller, known, person).await
}

async fn patch_user(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
    Body(input): Body<PatchRequest>,
) -> Result<Answer<ScimUser>, Problem> {
    let known = find(&app, &caller, &id).await?;
    let mut person = Person::from(&known);
    input.apply(&mut person)?;
    store(&app, &caller, known, person).await
}

async fn store(
    app: &App,
    caller: &OrganizationAct,
    known: User,
    person: Person,
) -> Result<Answer<ScimUser>, Problem> {
    let user = person.into_user(known.made.id)?;
    let now = app.web.clock.now();
    let changed = app.store.catalog.update_user(&caller.organization, &user, now);
    Ok(Answer(view(&changed.await.map_err(refused)?)))
}

async fn delete_user(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
) -> Result<Answer<DeletedScimUser>, Problem> {
    let known = find(&app, &caller, &id).await?;
    let now = app.web.clock.now();
    app.store
        .catalog
        .remove_member(&caller.organization, &known.made.id, now)
        .await
        .map_err(refused)?;
    // Clients of this contract expect a body.
    Ok(Answer(DeletedScimUser {}))
}
