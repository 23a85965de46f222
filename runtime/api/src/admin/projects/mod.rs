//! `/api/public/projects`: the project of a key, and the management of projects by an organization.

pub(super) mod find;
mod key_changes;
mod keys;

use axum::extract::{Path, State};
use perpend_api_types::any_json::AnyJson;
use perpend_catalog::{NewProject, ProjectPatch};
use perpend_domain::access::Permission::{
    OrgProjectCreate, ProjectDelete, ProjectRead, ProjectUpdate,
};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::{Act, OrganizationAct};
use perpend_http_kit::extract::{Body, MISSING};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use perpend_jobs::retention::Retention;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::admin::projects::find::find;
use crate::admin::state::{App, Routes};

pub(super) use keys::{ApiKeys, key_views};

const PROJECTS: &str = "/api/public/projects";
const PROJECT: &str = "/api/public/projects/{projectId}";
/// The list of projects has no pages and contains the metadata of each.
const MAX_METADATA_BYTES: usize = 16 << 10;
const MAX_RETENTION_DAYS: i64 = 36_500;

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get("listProjects", PROJECTS, "Get the project of the key", ProjectRead);
    routes.add(list, get_projects);
    let create = Operation::post(
        "createProject",
        PROJECTS,
        "Create a project in the organization",
        OrgProjectCreate,
    );
    let create = create.body::<ProjectInput>();
    routes.add(create, create_project);
    let update = Operation::put(
        "updateProject",
        PROJECT,
        "Update a project of the organization",
        ProjectUpdate,
    );
    let update = update.body::<ProjectInput>();
    routes.add(update, update_project);
    let delete = Operation::delete(
        "deleteProject",
        PROJECT,
        "Delete a project of the organization",
        ProjectDelete,
    );
    routes.add(delete, delete_project);
    keys::routes(routes);
    key_changes::routes(routes);
}

#[derive(Serialize, ToSchema)]
struct Projects {
    data: [Project; 1],
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Project {
    id: String,
    name: String,
    organization: Organization,
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    metadata: Map<String, Value>,
    /// Retention of traces in days; without limit when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_days: Option<u32>,
}

#[derive(Serialize, ToSchema)]
struct Organization {
    id: String,
    name: String,
}

/// A new project, or changes of a project.
#[derive(Debug, Deserialize, ToSchema)]
struct ProjectInput {
    /// 3 to 60 characters, unique in the organization.
    name: Option<String>,
    /// At most 16 KiB of JSON.
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    metadata: Option<Map<String, Value>>,
    /// Retention of traces in days: 0 for no limit, otherwise at least 3.
    retention: Option<i64>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ProjectDeletion)]
struct Deletion {
    success: bool,
    message: &'static str,
}

impl From<perpend_catalog::Project> for Project {
    fn from(project: perpend_catalog::Project) -> Self {
        Self {
            id: project.id.to_string(),
            name: project.name,
            organization: Organization {
                id: project.organization.id.to_string(),
                name: project.organization.name,
            },
            metadata: project.metadata,
            retention_days: (0 < project.retention_days).then_some(project.retention_days),
        }
    }
}

impl ProjectInput {
    fn check(self) -> Result<ProjectPatch, Problem> {
        if let Some(name) = &self.name {
            let n_chars = name.chars().count();
            if !(3..=60).contains(&n_chars) || name.chars().any(char::is_control) {
                let message = "must have 3 to 60 characters, without control characters";
                return Err(Problem::body("name", message));
            }
        }
        if let Some(metadata) = &self.metadata {
            let n_bytes = serde_json::to_vec(metadata).map_or(usize::MAX, |json| json.len());
            if MAX_METADATA_BYTES < n_bytes {
                return Err(Problem::body("metadata", "must have at most 16 KiB of JSON"));
            }
        }
        let days = |days: i64| match days {
            0 | 3..=MAX_RETENTION_DAYS => Ok(u32::try_from(days).unwrap_or(0)),
            _ => {
                let message =
                    format!("must be 0 for no limit or 3 to {MAX_RETENTION_DAYS} days, got {days}");
                Err(Problem::body("retention", message))
            }
        };
        Ok(ProjectPatch {
            name: self.name,
            metadata: self.metadata,
            retention_days: self.retention.map(days).transpose()?,
        })
    }
}

async fn get_projects(State(app): State<App>, caller: Act) -> Result<Answer<Projects>, Problem> {
    let project = app.store.catalog.project(&caller.project).await?;
    let project = project.ok_or_else(|| Problem::not_found("project"))?;
    let data = [project.into()];
    Ok(Answer(Projects { data }))
}

async fn create_project(
    State(app): State<App>,
    caller: OrganizationAct,
    Body(input): Body<ProjectInput>,
) -> Result<Answer<Project>, Problem> {
    let checked = input.check()?;
    let name = checked.name.ok_or_else(|| Problem::body("name", MISSING))?;
    let id = app.web.ids.uuid().to_string();
    let project = NewProject {
        id: ProjectId::new(&id).map_err(|_| Problem::internal())?,
        name,
        metadata: checked.metadata.unwrap_or_default(),
        retention_days: checked.retention_days.unwrap_or(0),
    };
    let now = app.web.clock.now();
    app.store.catalog.create_project(&caller.organization, &project, now).await?;
    let made = find(&app, &caller.organization, &id).await?;
    Ok(Answer(made.into()))
}

async fn update_project(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
    Body(input): Body<ProjectInput>,
) -> Result<Answer<Project>, Problem> {
    let patch = input.check()?;
    let project = find(&app, &caller.organization, &id).await?;
    let now = app.web.clock.now();
    let changed =
        app.store.catalog.update_project(&caller.organization, &project.id, &patch, now).await?;
    Ok(Answer(changed.into()))
}

async fn delete_project(
    State(app): State<App>,
    caller: OrganizationAct,
    Path(id): Path<String>,
) -> Result<Answer<Deletion, 202>, Problem> {
    let project = find(&app, &caller.organization, &id).await?;
    let now = app.web.clock.now();
    app.store.catalog.delete_project(&caller.organization, &project.id, now).await?;
    app.web.keys.clear();
    app.jobs.wake(Retention::NAME);
    let deletion = Deletion {
        success: true,
        message: "The project and its keys were deleted; its data is being deleted",
    };
    Ok(Answer(deletion))
}
