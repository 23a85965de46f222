//! Complete lists, from which numbered pages are cut.

use perpend_domain::evaluation::{Evaluator, Rule};
use perpend_domain::ids::ProjectId;
use perpend_domain::list::{NumberedPage, Paging};
use perpend_http_kit::problem::Problem;

use crate::state::App;

/// Rows per query. The lists are short.
pub(super) const CHUNK: u32 = 100;

/// Every evaluator of a project, newest first.
pub(super) async fn all_evaluators(
    app: &App,
    project: &ProjectId,
) -> Result<Vec<Evaluator>, Problem> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = app.store.catalog.evaluators(project, after.as_ref(), CHUNK).await?;
        all.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// Every rule of a project, newest first.
pub(super) async fn all_rules(app: &App, project: &ProjectId) -> Result<Vec<Rule>, Problem> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = app.store.catalog.rules(project, after.as_ref(), CHUNK).await?;
        all.extend(page.items);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}

/// One page of a complete list.
pub(super) fn cut<T>(all: Vec<T>, paging: Paging) -> NumberedPage<T> {
    let n_total = all.len() as u64;
    let skip = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let items = all.into_iter().skip(skip).take(paging.limit as usize);
    NumberedPage { items: items.collect(), n_total }
}
