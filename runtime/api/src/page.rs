//! Lists that are read by page number: their parameters and the frame of their answer.

use axum::Json;
use perpend_contract::list::Listed;
use perpend_domain::list::{Numbered, Paging};
use perpend_web::extract::{Param, Params, param};
use perpend_web::problem::Problem;
use serde_json::{Value, json};

/// Parameter `page`.
pub(super) const PAGE: Param = param("page", "integer", "From 1.");
/// Parameter `limit`.
pub(super) const LIMIT: Param = param("limit", "integer", "1 to 100, 50 when absent.");
/// The whole query of a list that has no filter.
pub(super) const PAGED: &[Param] = &[PAGE, LIMIT];

/// Reads `page` and `limit`.
pub(super) fn paging(params: &Params) -> Result<Paging, Problem> {
    Ok(Paging {
        page: params.int("page", 1, u32::MAX, 1)?,
        limit: params.int("limit", 1, 100, 50)?,
    })
}

/// `data` and `meta`, each row as `view` shows it.
pub(super) fn answer<T>(
    paging: Paging,
    found: &Numbered<T>,
    view: impl FnMut(&T) -> Value,
) -> Json<Value> {
    Json(json!(Listed::new(paging, found, view)))
}
