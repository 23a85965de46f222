//! `/api/public/projects`: the project of the key.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::routes::{Operation, Routes};
use crate::App;
use crate::auth::Reader;
use crate::problem::Problem;

pub(super) fn routes(routes: &mut Routes) {
    let list =
        Operation::get("/api/public/projects", "The project of the key").answers::<Projects>();
    routes.add(list, get_projects);
}

#[derive(Serialize, ToSchema)]
struct Projects {
    data: [Project; 1],
}

#[derive(Serialize, ToSchema)]
struct Project {
    id: String,
    name: String,
    organization: Organization,
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
}

#[derive(Serialize, ToSchema)]
struct Organization {
    id: String,
    name: String,
}

async fn get_projects(State(app): State<App>, caller: Reader) -> Result<Json<Projects>, Problem> {
    let project = app.store.project(&caller.project).await?;
    let project = project.ok_or_else(|| Problem::not_found("project"))?;
    let view = Project {
        id: project.id.to_string(),
        name: project.name,
        organization: Organization {
            id: project.organization.id,
            name: project.organization.name,
        },
        metadata: project.metadata,
    };
    Ok(Json(Projects { data: [view] }))
}
