//! `/api/public/organizations`: projects and keys of the organization of a key.

use axum::Json;
use axum::extract::State;
use perpend_domain::access::Permission::{OrgKeyRead, OrgRead};
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::OrganizationAct;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::{Value, json};

use super::projects::{ApiKeys, key_views};
use crate::admin::state::{App, Routes};

const PROJECTS: &str = "/api/public/organizations/projects";
const KEYS: &str = "/api/public/organizations/apiKeys";

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listOrganizationProjects",
        PROJECTS,
        "List the projects of the organization, oldest first",
        OrgRead,
    );
    routes.add(list, list_projects);
    let list = Operation::get(
        "listOrganizationKeys",
        KEYS,
        "List the keys of the organization, oldest first",
        OrgKeyRead,
    );
    routes.add(list, list_keys);
}

async fn list_projects(
    State(app): State<App>,
    caller: OrganizationAct,
) -> Result<Json<Value>, Problem> {
    let projects = app.store.catalog.organization_projects(&caller.organization).await?;
    let view = |project: &perpend_catalog::Project| {
        json!({
            "id": project.id,
            "name": project.name,
            "metadata": project.metadata,
            "createdAt": project.created_at,
            "updatedAt": project.updated_at,
        })
    };
    let projects: Vec<Value> = projects.iter().map(view).collect();
    Ok(Json(json!({ "projects": projects })))
}

async fn list_keys(
    State(app): State<App>,
    caller: OrganizationAct,
) -> Result<Answer<ApiKeys>, Problem> {
    let keys = app.store.catalog.organization_keys(&caller.organization).await?;
    Ok(key_views(&keys))
}
