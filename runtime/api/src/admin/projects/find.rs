//! Look-up of a project in an organization.

use perpend_domain::ids::{OrganizationId, ProjectId};
use perpend_http_kit::auth::ManagerAct;
use perpend_http_kit::problem::{Code, Problem};

use crate::admin::state::App;

/// A project of the organization. One of another organization gives the same response as a missing one.
pub(crate) async fn find(
    app: &App,
    organization: &OrganizationId,
    id: &str,
) -> Result<perpend_catalog::Project, Problem> {
    let found = match ProjectId::new(id) {
        Ok(id) => app.store.catalog.organization_project(organization, &id).await?,
        Err(_) => None,
    };
    found.ok_or_else(not_found)
}

fn not_found() -> Problem {
    Problem::new(Code::NotFound, "no such project in this organization")
}

/// The project of the caller, or a project of the caller's organization. Any other project gives the same response as a
/// missing one.
pub(crate) async fn find_managed(
    app: &App,
    caller: &ManagerAct,
    id: &str,
) -> Result<ProjectId, Problem> {
    match caller {
        ManagerAct::InProject(act) if act.project.as_str() == id => Ok(act.project.clone()),
        ManagerAct::InProject(_) => Err(not_found()),
        ManagerAct::InOrganization(act) => Ok(find(app, &act.organization, id).await?.id),
    }
}
