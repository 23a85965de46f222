//! Scores as statistics need them.

use std::collections::BTreeMap;

use crate::ids::{EvaluatorId, EvaluatorVersionId};
use crate::score::{ScoreSource, ScoreValue, Subject};
use crate::time::Timestamp;

/// A score with the columns by which statistics group.
#[derive(Clone, Debug, PartialEq)]
pub struct AnalyzedScore {
    /// The value: numeric, boolean or categorical.
    pub value: ScoreValue,
    /// The subject.
    pub subject: Subject,
    /// The time.
    pub timestamp: Timestamp,
    /// The environment.
    pub environment: String,
    /// The evaluator with its version; absent for scores of clients and people.
    pub version: Option<(EvaluatorId, EvaluatorVersionId)>,
    /// The probability with which the subject was selected, greater than 0 and at most 1.
    pub probability: f64,
    /// The model of the observation.
    pub model: Option<String>,
    /// The name of the prompt of the observation, and its version.
    pub prompt: Option<(String, Option<i64>)>,
    /// The release of the trace.
    pub release: Option<String>,
    /// The start of the trace, if it is in the environments of the query.
    pub trace_start: Option<Timestamp>,
}

/// A score with the numbers that thresholds are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredScore {
    /// The value: numeric, boolean or categorical.
    pub value: ScoreValue,
    /// The subject.
    pub subject: Subject,
    /// The time.
    pub timestamp: Timestamp,
    /// The probability of each choice that a judge has stored; empty without one.
    pub distribution: BTreeMap<String, f64>,
}

/// The scores with a name, from any source or from one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScoreSelection {
    /// The name.
    pub name: String,
    /// The source; all if absent.
    pub source: Option<ScoreSource>,
}

impl ScoreSelection {
    /// Whether a score can be in both selections.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let has_same_source = match (self.source, other.source) {
            (Some(own), Some(theirs)) => own == theirs,
            _ => true,
        };
        self.name == other.name && has_same_source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_overlap_unless_names_or_sources_differ() {
        let of = |name: &str, source| ScoreSelection { name: name.to_owned(), source };
        let (people, evaluators) = (Some(ScoreSource::Annotation), Some(ScoreSource::Eval));
        for (a, b, expected) in [
            (of("a", None), of("b", None), false),
            (of("a", people), of("a", evaluators), false),
            (of("a", people), of("a", people), true),
            (of("a", None), of("a", evaluators), true),
            (of("a", people), of("a", None), true),
        ] {
            assert_eq!(a.overlaps(&b), expected, "{a:?} {b:?}");
        }
    }
}
