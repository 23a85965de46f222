//! Pages of SCIM resources.

use serde::Serialize;
use utoipa::ToSchema;

/// Most users in one response. Discovery reports it.
pub(super) const MAX_COUNT: i64 = 1_000;

/// The position of a page in a SCIM list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScimPage {
    /// Always `urn:ietf:params:scim:api:messages:2.0:ListResponse`.
    schemas: Vec<&'static str>,
    /// Number of resources on all pages.
    total_results: u64,
    /// Position of the first resource, starting at 1.
    start_index: i64,
    /// Number of resources on the page.
    items_per_page: usize,
}

impl ScimPage {
    pub(super) fn new(total_results: u64, start_index: i64, items_per_page: usize) -> Self {
        let schemas = vec!["urn:ietf:params:scim:api:messages:2.0:ListResponse"];
        Self { schemas, total_results, start_index, items_per_page }
    }
}
