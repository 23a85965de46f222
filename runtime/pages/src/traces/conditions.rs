//! The filter of a list of traces, with what is left out unless it is asked about.

use perpend_domain::filter::{Condition, Filter, TRACES, Test};
use perpend_domain::query::{Parsed, parse};
use perpend_domain::time::Timestamp;
use perpend_views::TracesQuery;

use crate::read;

/// A filter as it was read.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// What was written.
    pub(crate) parsed: Parsed,
    /// What holds beside it: the focus, and that the environments of evaluations and experiments are left out.
    pub(crate) others: Vec<Condition>,
    /// The last of these leaves them out.
    pub(crate) hides_own: bool,
}

impl Conditions {
    pub(crate) fn new(query: &TracesQuery, now: Timestamp) -> Self {
        let parsed = parse(&query.q, TRACES);
        let mut others = query.focus.conditions(TRACES, now);
        // A condition on environments shows all that fit it, unless it only excludes some.
        let asks = |condition: &Condition| {
            let is_of = condition.column.is_some_and(|own| own.id == "environment");
            is_of && !matches!(condition.test, Test::NoneOf(_))
        };
        let hides_own = !parsed.filter.conditions.iter().chain(&others).any(asks);
        if hides_own {
            others.push(read::exclude_internal(TRACES));
        }
        Self { parsed, others, hides_own }
    }

    /// All of them.
    pub(crate) fn filter(&self) -> Filter {
        let all = self.parsed.filter.conditions.iter().chain(&self.others);
        Filter { conditions: all.cloned().collect() }
    }
}
