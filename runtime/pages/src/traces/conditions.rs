//! The conditions of a list of traces: its filter, its focus and the default exclusion of internal environments.

use perpend_domain::filter::{Condition, Filter, TRACES, Test};
use perpend_domain::query::{Parsed, parse};
use perpend_domain::time::Timestamp;
use perpend_views::TracesQuery;

use crate::read;

/// Conditions of a list.
#[derive(Debug)]
pub(crate) struct Conditions {
    /// The parsed filter.
    pub(crate) parsed: Parsed,
    /// Conditions of the focus and, if `hides_own`, the exclusion of internal environments.
    pub(crate) others: Vec<Condition>,
    /// Whether internal environments are excluded.
    pub(crate) hides_own: bool,
}

impl Conditions {
    pub(crate) fn new(query: &TracesQuery, now: Timestamp) -> Self {
        let parsed = parse(&query.q, TRACES);
        let mut others = query.focus.conditions(TRACES, now);
        // A condition that selects environments includes internal ones.
        let selects_environments = |condition: &Condition| {
            let is_environment = condition.column.is_some_and(|own| own.id == "environment");
            is_environment && !matches!(condition.test, Test::NoneOf(_))
        };
        let hides_own = !parsed.filter.conditions.iter().chain(&others).any(selects_environments);
        if hides_own {
            others.push(read::exclude_internal(TRACES));
        }
        Self { parsed, others, hides_own }
    }

    /// All conditions.
    pub(crate) fn filter(&self) -> Filter {
        let all = self.parsed.filter.conditions.iter().chain(&self.others);
        Filter { conditions: all.cloned().collect() }
    }
}
