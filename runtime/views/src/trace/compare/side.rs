//! What is known of one of two compared traces.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use perpend_domain::ids::ObservationId;
use perpend_domain::outline::{HeapSize, Outline};
use perpend_domain::score::ScoreValue;
use perpend_domain::trace::Trace;

use super::figures::Figure;
use crate::Text;
use crate::scores::score::aggregate;

/// What the contents of a step are told apart by: each number is another one where the content is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentFingerprints {
    /// Of the input.
    pub input: u64,
    /// Of the output.
    pub output: u64,
    /// Of the parameters of the model.
    pub parameters: u64,
    /// Of the prompt with its version.
    pub prompt: u64,
    /// Of the explanation of the level.
    pub status: u64,
}

/// Of the steps of a trace whose contents were read.
#[derive(Clone, Debug, Default)]
pub struct ObservationFingerprints(pub HashMap<ObservationId, ContentFingerprints>);

impl HeapSize for ObservationFingerprints {
    fn n_bytes(&self) -> usize {
        let ids: usize = self.0.keys().map(|id| id.as_str().len()).sum();
        ids + self.0.capacity() * (size_of::<(ObservationId, ContentFingerprints)>() + 1)
    }
}

/// One of the two traces.
#[derive(Clone, Debug)]
pub struct CompareSide {
    /// With its content where no step is selected.
    pub trace: Trace,
    /// Its steps.
    pub outline: Arc<Outline>,
    /// What the contents of its steps are told apart by.
    pub fingerprints: Arc<ObservationFingerprints>,
    /// By the id of the step they are about; by none those about the trace itself.
    pub scores: HashMap<Option<String>, ScoresByName>,
}

/// Scores by name, those of one name together.
#[derive(Clone, Debug, Default)]
pub struct ScoresByName(BTreeMap<String, (Text, Option<f64>)>);

impl ScoresByName {
    /// Of names and values.
    #[must_use]
    pub fn new<'s>(scores: impl Iterator<Item = (&'s str, &'s ScoreValue)>) -> Self {
        let mut by_name: BTreeMap<String, Vec<&ScoreValue>> = BTreeMap::new();
        for (name, value) in scores {
            by_name.entry(name.to_owned()).or_default().push(value);
        }
        let said = by_name.into_iter().filter_map(|(name, values)| {
            let number = match values.as_slice() {
                [ScoreValue::Numeric(number)] => Some(*number),
                _ => None,
            };
            Some((name, (aggregate(&values)?, number)))
        });
        Self(said.collect())
    }

    /// Each name with its values on both sides.
    pub(super) fn beside(sides: [Option<&Self>; 2]) -> Vec<(Text, Figure)> {
        let mut names: Vec<&String> =
            sides.iter().flatten().flat_map(|side| side.0.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let figure = |name: &String| {
            let found = sides.map(|side| side.and_then(|side| side.0.get(name)));
            let numbers = found.map(|found| found.and_then(|(_, number)| *number));
            let texts = found.map(|found| found.map(|(text, _)| text.raw()));
            let figure = match numbers {
                [Some(_), Some(_)] => Figure::number(numbers),
                _ => Figure::words(texts),
            };
            (Text::from(name.as_str()), figure)
        };
        names.into_iter().map(figure).collect()
    }
}
