//! The scores of one name, held for statistics.

use std::collections::HashMap;
use std::hash::Hash;

use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId};
use perpend_domain::score::{ScoreDataType, ScoreValue};
use perpend_domain::score_analytics::AnalyzedScore;

/// Memory of a distinct value in addition to its text.
const VALUE_BYTES: usize = 96;

/// Distinct values, each with a number.
#[derive(Clone, Debug)]
pub(crate) struct Distinct<K> {
    numbers: HashMap<K, u32>,
    pub(crate) values: Vec<K>,
}

impl<K> Default for Distinct<K> {
    fn default() -> Self {
        Self { numbers: HashMap::new(), values: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash> Distinct<K> {
    /// The number of a value; `true` if it is new.
    pub(crate) fn number(&mut self, value: K) -> (u32, bool) {
        if let Some(number) = self.numbers.get(&value) {
            return (*number, false);
        }
        let number = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        (number, true)
    }
}

/// The type of most scores, by the number of scores of each type.
pub(crate) fn main_type(counts: &[(ScoreDataType, u64)]) -> Option<ScoreDataType> {
    let mut most: Option<(ScoreDataType, u64)> = None;
    for (data_type, n) in counts {
        if 0 < *n && most.is_none_or(|(_, largest)| largest < *n) {
            most = Some((*data_type, *n));
        }
    }
    most.map(|(data_type, _)| data_type)
}

/// The number of a value; a category is numbered.
pub(crate) fn number_of(value: ScoreValue, labels: &mut Distinct<String>) -> (f64, usize) {
    match value {
        ScoreValue::Numeric(number) => (number, 0),
        ScoreValue::Boolean(truth) => (f64::from(u8::from(truth)), 0),
        ScoreValue::Categorical(text) | ScoreValue::Text(text) | ScoreValue::Correction(text) => {
            let n_bytes = 2 * text.len() + VALUE_BYTES;
            let (number, is_new) = labels.number(text);
            (f64::from(number), if is_new { n_bytes } else { 0 })
        }
    }
}

/// A score.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampleRow {
    pub(crate) data_type: ScoreDataType,
    pub(crate) value: f64,
    /// Microseconds.
    pub(crate) at: i64,
    pub(crate) probability: f64,
    pub(crate) environment: u32,
    pub(crate) model: u32,
    pub(crate) prompt: u32,
    pub(crate) release: u32,
    pub(crate) version: u32,
}

/// The evaluator with its version.
pub(crate) type Version = Option<(EvaluatorId, EvaluatorVersionId)>;

/// The value of a property, and the version of a prompt.
pub(crate) type Property = (Option<String>, Option<i64>);

/// The scores of one name with the properties by which they are grouped.
#[derive(Clone, Debug, Default)]
pub struct ScoreSample {
    pub(crate) rows: Vec<SampleRow>,
    pub(crate) labels: Distinct<String>,
    pub(crate) environments: Distinct<Property>,
    pub(crate) models: Distinct<Property>,
    pub(crate) prompts: Distinct<Property>,
    pub(crate) releases: Distinct<Property>,
    pub(crate) versions: Distinct<Version>,
}

impl ScoreSample {
    /// Adds a score and returns the bytes that it takes.
    pub fn add(&mut self, score: AnalyzedScore) -> usize {
        let data_type = score.value.data_type();
        let (value, mut n_bytes) = number_of(score.value, &mut self.labels);
        let (prompt, prompt_version) = score.prompt.unzip();
        let keyed =
            |values: &mut Distinct<Property>, text: Option<String>, version: Option<i64>| {
                let length = text.as_ref().map_or(0, String::len);
                let (number, is_new) = values.number((text, version));
                (number, if is_new { 2 * length + VALUE_BYTES } else { 0 })
            };
        let environment = keyed(&mut self.environments, Some(score.environment), None);
        let model = keyed(&mut self.models, score.model, None);
        let prompt = keyed(&mut self.prompts, prompt, prompt_version.flatten());
        let release = keyed(&mut self.releases, score.release, None);
        let (version, is_new) = self.versions.number(score.version);
        n_bytes += environment.1 + model.1 + prompt.1 + release.1;
        n_bytes += if is_new { 2 * VALUE_BYTES } else { 0 };
        self.rows.push(SampleRow {
            data_type,
            value,
            at: score.timestamp.as_micros(),
            probability: score.probability,
            environment: environment.0,
            model: model.0,
            prompt: prompt.0,
            release: release.0,
            version,
        });
        n_bytes + size_of::<SampleRow>()
    }

    /// Number of scores.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}
