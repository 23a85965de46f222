//! `length` and `readability`: the length of a text and its reading level.

use crate::stats::TextStats;
use perpend_plugin::prelude::*;

/// 1 when the length of the output is within the bounds.
pub struct Length;

/// The lengths that pass.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
// Without a bound every text would pass, and `target` together with another bound has no meaning: the schema
// refuses both, so that the error is reported when the configuration is saved.
#[schemars(extend("anyOf" = [
    {
        "required": ["min"],
        "properties": { "min": { "type": "number" }, "target": { "type": "null" } }
    },
    {
        "required": ["max"],
        "properties": { "max": { "type": "number" }, "target": { "type": "null" } }
    },
    {
        "required": ["target"],
        "properties": {
            "target": { "type": "number" }, "min": { "type": "null" }, "max": { "type": "null" }
        }
    }
]))]
pub struct LengthConfig {
    /// The unit of length.
    pub unit: Unit,
    /// The minimum length that passes.
    #[schemars(range(min = 0.0))]
    pub min: Option<f64>,
    /// The maximum length that passes.
    #[schemars(range(min = 0.0))]
    pub max: Option<f64>,
    /// The only length that passes; excludes `min` and `max`.
    #[schemars(range(min = 0.0))]
    pub target: Option<f64>,
    /// The amount by which the score falls with each unit outside of the bounds. By default the score is 0 there.
    #[schemars(range(min = 0.0))]
    pub slope: Option<f64>,
}

/// A unit of length.
#[derive(Clone, Copy, Debug, Default, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Unicode characters.
    #[default]
    Chars,
    /// Runs of characters other than white space.
    Words,
    /// Bytes of UTF-8.
    Bytes,
    /// Sentences.
    Sentences,
    /// Lines.
    Lines,
}

impl LengthConfig {
    /// The problem that the schema cannot express.
    fn problem(&self) -> Option<ConfigProblem> {
        match (self.min, self.max, self.target) {
            (None, None, None) => {
                Some(ConfigProblem::at("", "at least one of `min`, `max` and `target` is required"))
            }
            (None, None, Some(_)) => None,
            (_, _, Some(_)) => {
                Some(ConfigProblem::at("/target", "`target` excludes `min` and `max`"))
            }
            (min, max, None) => bounds_problem(min, max),
        }
    }

    fn bounds(&self) -> Result<(f64, f64), EvalError> {
        if let Some(problem) = self.problem() {
            return Err(EvalError::invalid_config(problem.message));
        }
        let min = self.target.or(self.min).unwrap_or(0.0);
        let max = self.target.or(self.max).unwrap_or(f64::INFINITY);
        Ok((min, max))
    }
}

/// The problem of a minimum that is larger than the maximum.
pub(crate) fn bounds_problem<T: PartialOrd + std::fmt::Display>(
    min: Option<T>,
    max: Option<T>,
) -> Option<ConfigProblem> {
    let (min, max) = min.zip(max)?;
    let message = || format!("`min` must not be larger than `max`, got {min} and {max}");
    (max < min).then(|| ConfigProblem::at("/min", message()))
}

impl Evaluator for Length {
    const ID: &'static str = "length";
    const TITLE: &'static str = "Length";
    const DESCRIPTION: &'static str = "1 when the length of the output is within the bounds. Outside \
        it is 0, or falls by `slope` with each unit.";
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("length", "1 when the length is within the bounds")];
    type Config = LengthConfig;

    fn evaluate(item: &Item, config: &LengthConfig) -> Result<Vec<Score>, EvalError> {
        let (min, max) = config.bounds()?;
        let stats = TextStats::of(item.output_text()?);
        let (count, unit) = match config.unit {
            Unit::Chars => (stats.chars, "characters"),
            Unit::Words => (stats.words, "words"),
            Unit::Bytes => (stats.bytes, "bytes"),
            Unit::Sentences => (stats.sentences, "sentences"),
            Unit::Lines => (stats.lines, "lines"),
        };
        let length = as_f64(count);
        let outside = (min - length).max(length - max).max(0.0);
        let value = match config.slope {
            _ if outside == 0.0 => 1.0,
            Some(slope) => 1.0 - slope * outside,
            None => 0.0,
        };
        let score = Score::share("length", value).comment(format!("{count} {unit}"));
        Ok(vec![score.with("length", count)])
    }

    fn check_config(config: &LengthConfig) -> Vec<ConfigProblem> {
        config.problem().into_iter().collect()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

/// 1 when the reading level of the output is within the bounds.
pub struct Readability;

/// The grades that pass.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadabilityConfig {
    /// The formula of the grade.
    pub formula: Formula,
    /// The minimum grade that passes.
    #[serde(default)]
    pub min: Option<f64>,
    /// The maximum grade that passes.
    #[serde(default)]
    pub max: Option<f64>,
}

/// A formula of readability, for English.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Formula {
    /// Automated readability index: larger is harder.
    Ari,
    /// Coleman-Liau index: larger is harder.
    ColemanLiau,
    /// Flesch reading ease: larger is easier.
    Flesch,
}

impl Formula {
    /// The grade of a text; `None` when it has no words.
    #[must_use]
    pub fn grade(self, stats: &TextStats) -> Option<f64> {
        if stats.words == 0 {
            return None;
        }
        let (words, sentences) = (as_f64(stats.words), as_f64(stats.sentences));
        let per_word = |count: usize| as_f64(count) / words;
        Some(match self {
            Self::Ari => 4.71 * per_word(stats.alnum) + 0.5 * (words / sentences) - 21.43,
            Self::ColemanLiau => {
                let per_hundred = |count: usize| per_word(count) * 100.0;
                0.0588 * per_hundred(stats.letters) - 0.296 * per_hundred(stats.sentences) - 15.8
            }
            Self::Flesch => {
                206.835 - 1.015 * (words / sentences) - 84.6 * per_word(stats.syllables)
            }
        })
    }
}

impl Evaluator for Readability {
    const ID: &'static str = "readability";
    const TITLE: &'static str = "Readability";
    const DESCRIPTION: &'static str = "1 when the readability grade of an English output is within the \
        bounds, else 0. The grade is in the metadata.";
    const SCORES: &'static [ScoreSpec] =
        &[ScoreSpec::share("readability", "1 when the grade is within the bounds")];
    type Config = ReadabilityConfig;

    fn evaluate(item: &Item, config: &ReadabilityConfig) -> Result<Vec<Score>, EvalError> {
        let stats = TextStats::of(item.output_text()?);
        let grade = config.formula.grade(&stats);
        let grade = grade.ok_or_else(|| EvalError::not_applicable("the output has no words"))?;
        let holds =
            config.min.is_none_or(|min| min <= grade) && config.max.is_none_or(|max| grade <= max);
        let score = crate::verdict::verdict("readability", holds, format!("grade {grade:.1}"));
        Ok(vec![score.with("grade", grade)])
    }

    fn check_config(config: &ReadabilityConfig) -> Vec<ConfigProblem> {
        bounds_problem(config.min, config.max).into_iter().collect()
    }
}
