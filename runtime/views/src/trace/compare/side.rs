//! The data of one of two compared traces.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use perpend_domain::ids::ObservationId;
use perpend_domain::outline::{HeapSize, Outline};
use perpend_domain::score::ScoreValue;
use perpend_domain::trace::Trace;

use super::figures::ComparedFigure;
use crate::Text;
use crate::scores::score::aggregate;

/// Hashes of the contents of an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentFingerprints {
    /// Hash of the input.
    pub input: u64,
    /// Hash of the output.
    pub output: u64,
    /// Hash of the model parameters.
    pub parameters: u64,
    /// Hash of the prompt name and version.
    pub prompt: u64,
    /// Hash of the status message.
    pub status: u64,
}

/// The fingerprints of the observations of a trace whose contents were read.
#[derive(Clone, Debug, Default)]
pub struct ObservationFingerprints(pub HashMap<ObservationId, ContentFingerprints>);

impl HeapSize for ObservationFingerprints {
    fn n_bytes(&self) -> usize {
        let ids: usize = self.0.keys().map(|id| id.as_str().len()).sum();
        ids + self.0.capacity() * (size_of::<(ObservationId, ContentFingerprints)>() + 1)
    }
}

/// One of two compared traces.
#[derive(Clone, Debug)]
pub struct CompareSide {
    /// With content unless a row is selected.
    pub trace: Trace,
    /// The observations of the trace.
    pub outline: Arc<Outline>,
    /// Fingerprints of the observations.
    pub fingerprints: Arc<ObservationFingerprints>,
    /// Scores by observation id; scores of the trace have the key `None`.
    pub scores: HashMap<Option<String>, ScoresByName>,
}

/// Scores grouped by name.
#[derive(Clone, Debug, Default)]
pub struct ScoresByName(BTreeMap<String, (Text, Option<f64>)>);

impl ScoresByName {
    /// Groups names and values of scores.
    #[must_use]
    pub fn new<'s>(scores: impl Iterator<Item = (&'s str, &'s ScoreValue)>) -> Self {
        let mut by_name: BTreeMap<String, Vec<&ScoreValue>> = BTreeMap::new();
        for (name, value) in scores {
            by_name.entry(name.to_owned()).or_default().push(value);
        }
        let grouped = by_name.into_iter().filter_map(|(name, values)| {
            let number = match values.as_slice() {
                [ScoreValue::Numeric(number)] => Some(*number),
                _ => None,
            };
            Some((name, (aggregate(&values)?, number)))
        });
        Self(grouped.collect())
    }

    /// The values of both sides for each name.
    pub(super) fn compare(sides: [Option<&Self>; 2]) -> Vec<(Text, ComparedFigure)> {
        let mut names: Vec<&String> =
            sides.iter().flatten().flat_map(|side| side.0.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let figure = |name: &String| {
            let found = sides.map(|side| side.and_then(|side| side.0.get(name)));
            let numbers = found.map(|found| found.and_then(|(_, number)| *number));
            let texts = found.map(|found| found.map(|(text, _)| text.raw()));
            let figure = match numbers {
                [Some(_), Some(_)] => ComparedFigure::number(numbers),
                _ => ComparedFigure::labels(texts),
            };
            (Text::from(name.as_str()), figure)
        };
        names.into_iter().map(figure).collect()
    }
}
