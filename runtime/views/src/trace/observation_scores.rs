//! The scores of the steps of a trace, a line each.

use std::cmp::Ordering;

use perpend_domain::score::ScoreValue;

use crate::Text;
use crate::format::count;
use crate::scores::score::{Tone, shown};

/// Characters of a value.
const VALUE: usize = 40;

/// A score of a step, which its line leads to.
#[derive(Clone, Debug)]
pub struct ObservationScore {
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) tone: Tone,
    pub(crate) step: Text,
    pub(crate) href: String,
}

impl ObservationScore {
    /// The name and the value of the score, the name of its step and where both are shown.
    #[must_use]
    pub fn new(name: &str, value: &ScoreValue, step: &str, href: String) -> Self {
        let (value, tone) = shown(value, VALUE);
        Self { name: Text::from(name), value, tone, step: Text::from(step), href }
    }

    /// By the name of the score.
    #[must_use]
    pub fn cmp_name(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

/// Scores of the steps of a trace, in their order.
#[derive(Clone, Debug, Default)]
pub struct ObservationScores {
    /// Those that are shown: some of them where there are many.
    pub scores: Vec<ObservationScore>,
    /// The list of all scores of the trace, where these are not all.
    pub all: Option<String>,
}

impl ObservationScores {
    /// How many there are; nothing where there are none.
    pub(crate) fn said(&self) -> Option<String> {
        let n = count(self.scores.len() as u64);
        let more = if self.all.is_some() { "+" } else { "" };
        (!self.scores.is_empty()).then(|| format!("{n}{more}"))
    }
}
