//! The filter of a list of traces, with what is left out unless it is asked about.

use perpend_domain::filter::{Condition, TRACES};
use perpend_query::{Parsed, parse};

use crate::read;

/// A filter as it was read.
#[derive(Debug)]
pub(super) struct Conditions {
    pub(super) parsed: Parsed,
    /// The last condition leaves out what evaluations and experiments record of themselves: nobody asked for it.
    pub(super) hides_own: bool,
}

impl Conditions {
    pub(super) fn new(q: &str) -> Self {
        let mut parsed = parse(q, TRACES);
        // Whoever asks about environments sees all that there are.
        let is_of =
            |condition: &Condition| condition.column.is_some_and(|own| own.id == "environment");
        let hides_own = !parsed.filter.conditions.iter().any(is_of);
        if hides_own {
            parsed.filter.conditions.push(read::without_own(TRACES));
        }
        Self { parsed, hides_own }
    }
}
