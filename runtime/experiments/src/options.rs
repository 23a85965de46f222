//! Options and errors of a comparison.

use std::collections::{BTreeMap, HashMap};

use perpend_domain::experiment::RunResults;
use perpend_domain::score_config::ScoreDirection;
use perpend_stats::multiple::Correction;
use perpend_stats::reducers::Reducer;
use serde_json::Value;

use crate::comparison::DirectionSource;

/// The default probability of a false verdict over all metrics and runs of a comparison.
pub const ALPHA: f64 = 0.05;
/// The default margin: absolute for scores within 0 and 1 and for errors, a share of the mean of the baseline for
/// latency, cost and tokens.
pub const MARGIN: f64 = 0.02;
/// The largest number of runs in a comparison.
pub const MAX_RUNS: usize = 6;

/// Options of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// The id of the baseline; the first run if absent.
    pub base: Option<String>,
    /// The probability of a false verdict, 0 to 1, both excluded. Intervals have the level `1 - alpha`.
    pub alpha: f64,
    /// The smallest difference that counts: in the unit of the score, as a share of the items for errors, and as a share of
    /// the mean of the baseline for latency, cost and tokens. If absent, [`MARGIN`], and 0 for scores outside 0 to 1.
    pub margin: Option<f64>,
    /// Margins of single metrics, which replace `margin`.
    pub margins: BTreeMap<String, f64>,
    /// The adjustment of p-values for the number of tests.
    pub correction: Correction,
    /// The reduction of the repetitions of an item to one value.
    pub reducer: Reducer,
    /// The metrics to compare; all if empty. Scores that no run has are ignored.
    pub metrics: Vec<String>,
    /// Items whose results depend on one another.
    pub clusters: Option<ItemGroups>,
    /// Groups of items that are also compared separately.
    pub segments: Option<ItemGroups>,
    /// Definitions of scores by name.
    pub scores: BTreeMap<String, ScoreDefinition>,
    /// Further runs of the baseline: the same application over the same items. They measure the noise floor.
    pub noise_runs: Vec<RunResults>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            base: None,
            alpha: ALPHA,
            margin: None,
            margins: BTreeMap::new(),
            correction: Correction::Holm,
            reducer: Reducer::Mean,
            metrics: Vec::new(),
            clusters: None,
            segments: None,
            scores: BTreeMap::new(),
            noise_runs: Vec::new(),
        }
    }
}

/// Items grouped by a member of their metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemGroups {
    /// The metadata key.
    pub key: String,
    /// The value of each item by item id. Items without the key are absent.
    pub values: HashMap<String, String>,
}

/// The group of a value of a metadata key: a text, a number or a truth value as text.
#[must_use]
pub fn group_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// How the values of a score are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreDefinition {
    /// The better direction, and the source of it; absent if unknown.
    pub direction: Option<(ScoreDirection, DirectionSource)>,
    /// Numbers of categories, from the score config.
    pub categories: BTreeMap<String, f64>,
}

/// The reason why runs cannot be compared at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than 2 or more than [`MAX_RUNS`] runs.
    #[error("`runs` must name 2 to 6 runs, got {n}")]
    NumberOfRuns {
        /// The number of runs.
        n: usize,
    },
    /// A run is named twice.
    #[error("`runs` must name different runs, got `{id}` twice")]
    SameRun {
        /// Its id.
        id: String,
    },
    /// A gate of a run against itself.
    #[error("run `{id}` cannot be its own baseline")]
    OwnBaseline {
        /// Its id.
        id: String,
    },
    /// The baseline is not one of the runs.
    #[error("`base` must be one of the compared runs, got `{id}`")]
    UnknownBase {
        /// Its id.
        id: String,
    },
    /// A run has no results.
    #[error("run `{id}` has no items")]
    EmptyRun {
        /// Its id.
        id: String,
    },
    /// Two runs are over different datasets.
    #[error("runs of different datasets cannot be compared: `{left}` and `{right}`")]
    Datasets {
        /// The id of the baseline.
        left: String,
        /// The id of a run over another dataset.
        right: String,
    },
    /// An option is out of its range.
    #[error("`{option}` {rule}")]
    Option {
        /// The option.
        option: &'static str,
        /// The rule and the value.
        rule: String,
    },
}

/// Reads a reducer: `mean`, `median`, `mode`, `max`, `at_least:K`, `pass_at:K` or `pass_k:K`.
///
/// # Errors
/// A sentence with the allowed values.
pub fn parse_reducer(text: &str) -> Result<Reducer, String> {
    let wrong = || {
        format!(
            "must be one of `mean`, `median`, `mode`, `max`, `at_least:K`, `pass_at:K`, `pass_k:K`; got `{text}`"
        )
    };
    let (name, k) = match text.split_once(':') {
        Some((name, k)) => (name, Some(k)),
        None => (text, None),
    };
    let k = k.map(|k| k.parse::<usize>().ok().filter(|k| 0 < *k).ok_or_else(wrong)).transpose()?;
    // A repetition passes with the value 1.
    let value = 1.0;
    Ok(match (name, k) {
        ("mean", None) => Reducer::Mean,
        ("median", None) => Reducer::Median,
        ("mode", None) => Reducer::Mode,
        ("max", None) => Reducer::Max,
        ("at_least", Some(k)) => Reducer::AtLeast { k, value },
        ("pass_at", Some(k)) => Reducer::PassAt { k, value },
        ("pass_k", Some(k)) => Reducer::PassK { k, value },
        _ => return Err(wrong()),
    })
}

/// Reads an adjustment of p-values: `holm`, `bh` or `bonferroni`.
///
/// # Errors
/// A sentence with the allowed values.
pub fn parse_correction(text: &str) -> Result<Correction, String> {
    match text {
        "holm" => Ok(Correction::Holm),
        "bh" => Ok(Correction::BenjaminiHochberg),
        "bonferroni" => Ok(Correction::Bonferroni),
        _ => Err(format!("must be one of `holm`, `bh`, `bonferroni`; got `{text}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reducers_are_read_by_name_and_number() {
        assert_eq!(parse_reducer("median"), Ok(Reducer::Median));
        assert_eq!(parse_reducer("pass_at:3"), Ok(Reducer::PassAt { k: 3, value: 1.0 }));
        for wrong in ["", "pass_at", "pass_at:0", "mean:2", "other"] {
            assert!(parse_reducer(wrong).is_err(), "{wrong}");
        }
        assert!(parse_correction("none").is_err());
    }
}
