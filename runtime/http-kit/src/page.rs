//! Lists with numbered pages: parameters and response.

use perpend_api_types::list::NumberedList;
use perpend_domain::list::{NumberedPage, Paging};

use crate::answer::Answer;
use crate::extract::{Param, Params, param};
use crate::problem::Problem;

/// Parameter `page`.
pub const PAGE: Param = param("page", "integer", "Page number, starting at 1.");
/// Parameter `limit`.
pub const LIMIT: Param = param("limit", "integer", "Rows per page, 1 to 100; 50 when absent.");
/// All parameters of a list without filters.
pub const PAGED: &[Param] = &[PAGE, LIMIT];

/// Reads `page` and `limit`.
///
/// # Errors
/// 400 when one of them is not a number within its bounds.
pub fn paging(params: &Params) -> Result<Paging, Problem> {
    Ok(Paging {
        page: params.int("page", 1, u32::MAX, 1)?,
        limit: params.int("limit", 1, 100, 50)?,
    })
}

/// A page of rows converted by `view`.
pub fn list<T, V>(
    paging: Paging,
    found: &NumberedPage<T>,
    view: impl FnMut(&T) -> V,
) -> Answer<NumberedList<V>> {
    Answer(NumberedList::new(paging, found, view))
}
