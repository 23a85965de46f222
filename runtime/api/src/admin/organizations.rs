//! `/api/public/organizations`: projects and keys of the organization of a key.

use axum::extract::State;
use perpend_api_types::any_json::AnyJson;
use perpend_catalog::Project;
use perpend_domain::access::Permission::{OrgKeyRead, OrgRead};
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::OrganizationAct;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

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

/// The projects of an organization.
#[derive(Debug, Serialize, ToSchema)]
struct OrganizationProjects {
    projects: Vec<OrganizationProject>,
}

/// A project in the list of its organization.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct OrganizationProject {
    id: ProjectId,
    name: String,
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    metadata: Map<String, Value>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Project> for OrganizationProject {
    fn from(project: Project) -> Self {
        Self {
            id: project.id,
            name: project.name,
            metadata: project.metadata,
            created_at: project.created_at,
            updated_at: project.updated_at,
        }
    }
}

async fn list_projects(
    State(app): State<App>,
    caller: OrganizationAct,
) -> Result<Answer<OrganizationProjects>, Problem> {
    let projects = app.store.catalog.organization_projects(&caller.organization).await?;
    let projects = projects.into_iter().map(OrganizationProject::from).collect();
    Ok(Answer(OrganizationProjects { projects }))
}

async fn list_keys(
    State(app): State<App>,
    caller: OrganizationAct,
) -> Result<Answer<ApiKeys>, Problem> {
    let keys = app.store.catalog.organization_keys(&caller.organization).await?;
    Ok(key_views(&keys))
}
