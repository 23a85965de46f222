//! The filter of a list of traces, with what is left out unless it is asked about.

use perpend_domain::filter::{Condition, TRACES, Test};
use perpend_query::{Parsed, parse};

use crate::read;

/// A filter as it was read.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) parsed: Parsed,
    /// The last condition excludes the environments of evaluations and experiments.
    pub(super) hides_own: bool,
}

impl Conditions {
    pub(super) fn new(q: &str) -> Self {
        let mut parsed = parse(q, TRACES);
        // A condition on environments shows all that fit it, unless it only excludes some.
        let asks = |condition: &Condition| {
            let is_of = condition.column.is_some_and(|own| own.id == "environment");
            is_of && !matches!(condition.test, Test::NoneOf(_))
        };
        let hides_own = !parsed.filter.conditions.iter().any(asks);
        if hides_own {
            parsed.filter.conditions.push(read::without_own(TRACES));
        }
        Self { parsed, hides_own }
    }
}
