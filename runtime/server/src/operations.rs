//! Routes of the API with authentication, for HTTP requests and for pages that call operations in this process.

use axum::Router;

#[expect(
    clippy::disallowed_methods,
    reason = "each module registered its routes with authentication"
)]
pub(crate) fn router(
    admin: &perpend_api::admin::App,
    records: &perpend_api::records::App,
    api: &perpend_api::App,
) -> Router {
    let (of_admin, _) = perpend_api::admin::routes();
    let (of_records, _) = perpend_api::records::routes();
    let (of_api, _) = perpend_api::routes();
    of_admin
        .with_state(admin.clone())
        .merge(of_records.with_state(records.clone()))
        .merge(of_api.with_state(api.clone()))
}
