//! The audit trail of an organization and its projects.

use axum::extract::State;
use axum::response::Response;
use perpend_api_types::audit::AuditRecord;
use perpend_api_types::list::CursorList;
use perpend_catalog::KeyOwner;
use perpend_domain::access::Permission::OrgAuditRead;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::OrganizationAct;
use perpend_http_kit::extract::Params;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;

use crate::admin::state::{App, Routes};
use crate::audit::{EXPORT, LIST, file, page};

pub(super) fn routes(routes: &mut Routes) {
    let list = Operation::get(
        "listOrganizationAuditRecords",
        "/api/v1/organization/audit",
        "List the audit trail of the organization and its projects, newest first",
        OrgAuditRead,
    );
    routes.add(list.query(LIST), list_records);
    let export = Operation::get(
        "exportOrganizationAuditRecords",
        "/api/v1/organization/audit/export",
        "Download the audit trail of the organization, newest first; the download is recorded",
        OrgAuditRead,
    );
    let export = export.query(EXPORT).bytes("*/*").recorded_read();
    routes.add(export, export_records);
}

async fn list_records(
    State(app): State<App>,
    caller: OrganizationAct,
    params: Params,
) -> Result<Answer<CursorList<AuditRecord>>, Problem> {
    let owner = KeyOwner::Organization(caller.organization);
    page(&app.store.catalog, &owner, &params).await.map(Answer)
}

async fn export_records(
    State(app): State<App>,
    caller: OrganizationAct,
    params: Params,
) -> Result<Response, Problem> {
    file(&app.store.catalog, KeyOwner::Organization(caller.organization), &params).await
}
