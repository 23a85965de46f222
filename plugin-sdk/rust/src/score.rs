//! Scores and their declarations.

use crate::Json;

/// One measurement about one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// One of the names in [`Evaluator::SCORES`](crate::Evaluator::SCORES).
    pub name: String,
    /// The value.
    pub value: ScoreValue,
    /// Attach the score to this observation; `None` attaches it to the subject of the evaluation.
    pub observation_id: Option<String>,
    /// A short explanation for users.
    pub comment: Option<String>,
    /// Further data for programs, in the order of insertion.
    pub metadata: Vec<(String, Json)>,
}

/// The value of a score.
#[derive(Clone, Debug, PartialEq)]
pub enum ScoreValue {
    /// A finite number.
    Numeric(f64),
    /// True or false.
    Boolean(bool),
    /// At most 256 bytes.
    Categorical(String),
}

impl Score {
    /// A numeric score. The number must be finite: the host refuses others.
    pub fn numeric(name: &str, value: f64) -> Self {
        Self::new(name, ScoreValue::Numeric(value))
    }

    /// A share from 0 to 1. Rounding errors beyond the range are clamped.
    pub fn share(name: &str, value: f64) -> Self {
        Self::numeric(name, value.clamp(0.0, 1.0))
    }

    /// A boolean score.
    pub fn boolean(name: &str, value: bool) -> Self {
        Self::new(name, ScoreValue::Boolean(value))
    }

    /// A categorical score.
    pub fn categorical(name: &str, value: impl Into<String>) -> Self {
        Self::new(name, ScoreValue::Categorical(value.into()))
    }

    fn new(name: &str, value: ScoreValue) -> Self {
        let (observation_id, comment, metadata) = (None, None, Vec::new());
        Self { name: name.to_owned(), value, observation_id, comment, metadata }
    }

    /// The same score with a short explanation.
    #[must_use]
    pub fn comment(mut self, text: impl Into<String>) -> Self {
        self.comment = Some(text.into());
        self
    }

    /// Adds a member to the metadata.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.metadata.push((key.to_owned(), value.into()));
        self
    }

    /// The same score, attached to an observation of the item's trace.
    #[must_use]
    pub fn on_observation(mut self, id: impl Into<String>) -> Self {
        self.observation_id = Some(id.into());
        self
    }

    /// The value as a number: booleans are 1 and 0, categories have no number.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self.value {
            ScoreValue::Numeric(number) => Some(number),
            ScoreValue::Boolean(yes) => Some(f64::from(u8::from(yes))),
            ScoreValue::Categorical(_) => None,
        }
    }
}

/// Declares one score of an evaluator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreSpec {
    /// The name of the [`Score`].
    pub name: &'static str,
    /// The description for users.
    pub description: &'static str,
    /// The possible values.
    pub domain: Domain,
}

/// The possible values of a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Domain {
    /// A number; both ends belong to the range.
    Numeric {
        /// The minimum, if any.
        min: Option<f64>,
        /// The maximum, if any.
        max: Option<f64>,
        /// True when a larger number is a better result.
        higher_is_better: bool,
    },
    /// True or false.
    Boolean,
    /// A closed set of categories; an empty set allows any category.
    Categorical(&'static [&'static str]),
}

impl ScoreSpec {
    /// A number from 0 (bad) to 1 (good).
    #[must_use]
    pub const fn share(name: &'static str, description: &'static str) -> Self {
        let domain = Domain::Numeric { min: Some(0.0), max: Some(1.0), higher_is_better: true };
        Self { name, description, domain }
    }

    /// True or false.
    #[must_use]
    pub const fn boolean(name: &'static str, description: &'static str) -> Self {
        Self { name, description, domain: Domain::Boolean }
    }

    /// One of these categories.
    #[must_use]
    pub const fn categorical(
        name: &'static str,
        description: &'static str,
        categories: &'static [&'static str],
    ) -> Self {
        Self { name, description, domain: Domain::Categorical(categories) }
    }
}
