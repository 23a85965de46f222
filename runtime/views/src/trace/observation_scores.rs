//! Scores of the observations of a trace.

use std::cmp::Ordering;

use perpend_domain::score::ScoreValue;

use crate::Text;
use crate::format::count;
use crate::scores::score::{Tone, shown};

/// Maximum characters of a value.
const VALUE: usize = 40;

/// A score of an observation, with a link to it.
#[derive(Clone, Debug)]
pub struct ObservationScore {
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) tone: Tone,
    pub(crate) observation: Text,
    pub(crate) href: String,
}

impl ObservationScore {
    /// Name and value of the score, name of the observation and URL of the score.
    #[must_use]
    pub fn new(name: &str, value: &ScoreValue, observation: &str, href: String) -> Self {
        let (value, tone) = shown(value, VALUE);
        Self { name: Text::from(name), value, tone, observation: Text::from(observation), href }
    }

    /// Compares the names of the scores.
    #[must_use]
    pub fn cmp_name(&self, other: &Self) -> Ordering {
        self.name.cmp(&other.name)
    }
}

/// Scores of the observations of a trace, in the order of the observations.
#[derive(Clone, Debug, Default)]
pub struct ObservationScores {
    /// The listed scores.
    pub scores: Vec<ObservationScore>,
    /// URL of the list of all scores, if `scores` is incomplete.
    pub all: Option<String>,
}

impl ObservationScores {
    /// `8`, or `50+` if the list is incomplete; absent without scores.
    pub(crate) fn count_text(&self) -> Option<String> {
        let n = count(self.scores.len() as u64);
        let more = if self.all.is_some() { "+" } else { "" };
        (!self.scores.is_empty()).then(|| format!("{n}{more}"))
    }
}
