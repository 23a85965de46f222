//! Look-up of a project in an organization.

use perpend_domain::ids::{OrganizationId, ProjectId};
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
    found.ok_or_else(|| Problem::new(Code::NotFound, "no such project in this organization"))
}
