//! The conditions of a list of traces.

use perpend_domain::filter::{Filter, TRACES};
use perpend_domain::query::{Parsed, parse};
use perpend_domain::time::Timestamp;
use perpend_views::TracesQuery;

use crate::list::source::ListConditions;

/// The filter column of the time range.
const TIME_COLUMN: &str = "timestamp";

/// The parsed filter, and the conditions with time range and environments.
pub(crate) fn conditions(query: &TracesQuery, now: Timestamp) -> (Parsed, ListConditions) {
    let parsed = parse(&query.q, TRACES);
    let conditions = ListConditions {
        filter: parsed.filter.clone(),
        range: query.focus.range(now),
        environments: query.focus.environments.clone(),
        with_own: true,
    };
    (parsed, conditions)
}

/// All conditions as one filter.
pub(crate) fn whole(conditions: &ListConditions) -> Filter {
    conditions.whole(TRACES, TIME_COLUMN)
}

/// All conditions of a list as one filter.
pub(crate) fn filter_of(query: &TracesQuery, now: Timestamp) -> Filter {
    whole(&conditions(query, now).1)
}
