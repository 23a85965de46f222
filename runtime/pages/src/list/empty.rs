//! Why a list is empty: the number of matches of each condition alone.

use perpend_domain::filter::Filter;
use perpend_domain::list::ListPosition;
use perpend_domain::query::Parsed;
use perpend_domain::text_search::BoundedCount;
use perpend_domain::time::Timestamp;
use perpend_http_kit::problem::Problem;
use perpend_views::{EmptyListCounts, TermChip};

use crate::list::params::ListRequest;
use crate::list::source::{ListConditions, ListQuery, ListSource};

/// Terms whose matches are counted individually.
const MAX_COUNTED_TERMS: usize = 10;
/// Matches that are counted for a condition, and rows that are tested for it.
const MAX_COUNTED: u32 = 100;
const MAX_TESTED: u64 = 2_000;

/// Reads for the counts of an empty list.
pub(crate) trait ConditionCounts {
    /// The number of matches, up to a limit.
    fn count(
        &self,
        conditions: &ListConditions,
    ) -> impl Future<Output = Result<BoundedCount, Problem>> + Send;

    /// Times of the first and the last match.
    fn ends(
        &self,
        conditions: &ListConditions,
    ) -> impl Future<Output = Result<Option<(Timestamp, Timestamp)>, Problem>> + Send;
}

impl<L: ListSource> ConditionCounts for ListRequest<L> {
    async fn count(&self, conditions: &ListConditions) -> Result<BoundedCount, Problem> {
        let position = &ListPosition::default();
        let query = ListQuery { conditions, position, limit: MAX_COUNTED, max_tested: MAX_TESTED };
        let page = self.source.read(&self.scope, query).await?;
        let is_more = page.older.is_some() || page.stopped.is_some();
        Ok(BoundedCount { n: page.items.len() as u64, is_more })
    }

    async fn ends(
        &self,
        conditions: &ListConditions,
    ) -> Result<Option<(Timestamp, Timestamp)>, Problem> {
        let mut ends = [None, None];
        for (end, position) in ends.iter_mut().zip([ListPosition::end(), ListPosition::default()]) {
            let query =
                ListQuery { conditions, position: &position, limit: 1, max_tested: L::MAX_TESTED };
            let page = self.source.read(&self.scope, query).await?;
            *end = page.items.first().map(L::time_of);
        }
        let [first, last] = ends;
        Ok(first.zip(last))
    }
}

/// Counts the matches of each of the first terms, of the time range and of the environments individually, and finds matches at
/// other times. A term is counted for all times and environments.
pub(crate) async fn empty_list_counts<C: ConditionCounts>(
    list: &C,
    (parsed, conditions): (&Parsed, &ListConditions),
    chips: &mut [TermChip],
) -> Result<EmptyListCounts, Problem> {
    let mut counts = EmptyListCounts::default();
    for (chip, term) in chips.iter_mut().zip(&parsed.terms).take(MAX_COUNTED_TERMS) {
        if let Ok(conditions) = &term.outcome {
            let filter = Filter { conditions: conditions.clone() };
            let alone = ListConditions { filter, ..ListConditions::default() };
            chip.alone = Some(list.count(&alone).await?);
        }
    }
    let ListConditions { range, environments, .. } = conditions.clone();
    let has_time = range != (None, None);
    let is_chosen = [has_time, !environments.is_empty()];
    let in_time = ListConditions { range, ..ListConditions::default() };
    let in_environments = ListConditions { environments, ..ListConditions::default() };
    let parts = is_chosen.into_iter().zip([in_time, in_environments]);
    for (alone, (is_chosen, conditions)) in counts.by_focus.iter_mut().zip(parts) {
        if is_chosen {
            *alone = Some(list.count(&conditions).await?);
        }
    }
    if has_time {
        let anytime = ListConditions { range: (None, None), ..conditions.clone() };
        counts.other_times = list.ends(&anytime).await?;
    }
    Ok(counts)
}
