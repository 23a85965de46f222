//! The operations of the API behind their guards: for whoever sends requests, and for pages that ask in this process.

use axum::Router;

#[expect(
    clippy::disallowed_methods,
    reason = "the rooms collected their routes behind their guards"
)]
pub(crate) fn of(
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
