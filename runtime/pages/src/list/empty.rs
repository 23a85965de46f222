//! Why a list is empty: the number of matches of each condition alone.

use perpend_domain::filter::{Filter, Test};
use perpend_domain::list::ListPosition;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{EmptyListCounts, TermChip};

use crate::list::params::ListRequest;
use crate::list::source::{ListBounds, ListConditions, ListSource};

/// Terms whose matches are counted individually.
const MAX_COUNTED_TERMS: usize = 10;
/// Bounds of such a count.
const COUNT_BOUNDS: ListBounds = ListBounds { limit: 100, max_tested: 2_000 };

async fn count_matches<L: ListSource>(
    source: &L,
    conditions: &ListConditions,
) -> Result<BoundedCount, Problem> {
    let page = source.read(conditions, &ListPosition::default(), COUNT_BOUNDS).await?;
    let is_more = page.older.is_some() || page.stopped.is_some();
    Ok(BoundedCount { n: page.items.len() as u64, is_more })
}

/// Times of the first and the last match outside of the selected time range.
async fn elsewhere<L: ListSource>(
    request: &ListRequest<L>,
) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
    let conditions = ListConditions { range: (None, None), ..request.conditions.clone() };
    let bounds = ListBounds { limit: 1, max_tested: L::MAX_TESTED };
    let mut ends = [None, None];
    for (end, position) in ends.iter_mut().zip([ListPosition::end(), ListPosition::default()]) {
        let page = request.source.read(&conditions, &position, bounds).await?;
        *end = page.items.first().map(L::time_of);
    }
    let [first, last] = ends;
    Ok(first.zip(last))
}

/// Counts the matches of each of the first terms, of the time range and of the environments individually. A term is counted for
/// all times and environments.
pub(crate) async fn empty_list_counts<L: ListSource>(
    request: &ListRequest<L>,
    chips: &mut [TermChip],
) -> Result<EmptyListCounts, Problem> {
    let source = &request.source;
    let mut counts = EmptyListCounts::default();
    for (chip, term) in chips.iter_mut().zip(&request.parsed.terms).take(MAX_COUNTED_TERMS) {
        if let Ok(conditions) = &term.outcome {
            let filter = Filter { conditions: conditions.clone() };
            let alone = ListConditions { filter, ..ListConditions::default() };
            chip.alone = Some(count_matches(source, &alone).await?);
        }
    }
    let ListConditions { filter, range, environments, .. } = request.conditions.clone();
    let in_time = ListConditions { range, ..ListConditions::default() };
    let in_environments = ListConditions { environments, ..ListConditions::default() };
    let focus = &request.viewer.focus;
    let parts = [(focus.has_time(), in_time), (!focus.environments.is_empty(), in_environments)];
    for (alone, (is_chosen, conditions)) in counts.by_focus.iter_mut().zip(parts) {
        if is_chosen {
            *alone = Some(count_matches(source, &conditions).await?);
        }
    }
    let has_own_time =
        filter.conditions.iter().any(|condition| matches!(condition.test, Test::Time(..)));
    if focus.has_time() && !has_own_time {
        counts.other_times = elsewhere(request).await?;
    }
    Ok(counts)
}
