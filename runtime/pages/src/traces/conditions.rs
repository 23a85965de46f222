//! The conditions of a list of traces.

use perpend_domain::filter::{Filter, TRACES};
use perpend_domain::query::parse;
use perpend_domain::time::Timestamp;
use perpend_views::TracesQuery;

use crate::list::source::{ListConditions, ListSource as _};
use crate::traces::list::Traces;

/// All conditions of a list as one filter.
pub(crate) fn filter_of(query: &TracesQuery, now: Timestamp) -> Filter {
    let conditions = ListConditions {
        filter: parse(&query.q, TRACES).filter,
        range: query.focus.range(now),
        environments: query.focus.environments.clone(),
        with_own: true,
    };
    conditions.whole(TRACES, Traces::TIME_COLUMN)
}
