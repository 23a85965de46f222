//! Why a list is empty: the number of matches of each condition alone.

use perpend_domain::filter::Filter;
use perpend_http_kit::problem::Problem;
use perpend_views::{EmptyListCounts, TermChip};

use crate::list::source::{ListConditions, ListRequest, ListSource};

/// Terms whose matches are counted individually.
const MAX_COUNTED_TERMS: usize = 10;

/// Counts the matches of each of the first terms, of the time range and of the environments individually, and finds matches at
/// other times. A term is counted for all times and environments.
pub(crate) async fn empty_list_counts<L: ListSource>(
    request: &ListRequest<L>,
    chips: &mut [TermChip],
) -> Result<EmptyListCounts, Problem> {
    let ListRequest { scope, conditions, params } = request;
    let source = &params.source;
    let mut counts = EmptyListCounts::default();
    for (chip, term) in chips.iter_mut().zip(&params.parsed.terms).take(MAX_COUNTED_TERMS) {
        if let Ok(conditions) = &term.outcome {
            let filter = Filter { conditions: conditions.clone() };
            let alone = ListConditions { filter, ..ListConditions::default() };
            chip.alone = Some(source.count_matches(scope, &alone).await?);
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
            *alone = Some(source.count_matches(scope, &conditions).await?);
        }
    }
    if has_time {
        let anytime = ListConditions { range: (None, None), ..conditions.clone() };
        counts.other_times = source.ends(scope, &anytime).await?;
    }
    Ok(counts)
}
