//! Results of a run as JSON: exported by REST and commands, read by a gate without a server.

use std::collections::BTreeMap;

use perpend_domain::experiment::{ExperimentRun, ItemResult, ItemScore, RunResults, RunScore};
use perpend_domain::ids::{
    EvaluatorId, EvaluatorVersionId, ExecutionId, InvalidId, ObservationId, RuleId, TraceId,
};
use perpend_domain::plugin::Digest;
use perpend_domain::score::{ScoreDataType, ScoreOrigin, ScoreValue};
use perpend_domain::score_config::ScoreDirection;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::columns::probability;

/// The only value of [`RunFile::format`].
pub const FORMAT: &str = "perpend-run/1";
/// The prefix of ids of traces that a file does not name.
const NO_TRACE: &str = "item-";

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunFile {
    /// `perpend-run/1`.
    pub format: String,
    /// The id of the run.
    pub id: String,
    /// The name; the id if absent.
    #[serde(default)]
    pub name: Option<String>,
    /// The dataset. Runs of different datasets cannot be compared.
    #[serde(default)]
    pub dataset_id: Option<String>,
    /// The items that the run was expected to have; those of `items` if absent.
    #[serde(default)]
    pub expected_items: Option<Vec<String>>,
    /// The results, in the order of their start. An item with repetitions has several.
    pub items: Vec<RunFileItem>,
    /// Directions of scores.
    #[serde(default)]
    pub directions: BTreeMap<String, ScoreDirection>,
    /// Numbers of the categories of scores.
    #[serde(default)]
    pub categories: BTreeMap<String, BTreeMap<String, f64>>,
}

/// The result of an item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunFileItem {
    /// The item.
    pub item_id: String,
    /// The version of the item.
    #[serde(default)]
    pub item_version: Option<Timestamp>,
    /// SHA-256 of the expected output as 64 hex digits. Items whose digests differ are not compared.
    #[serde(default)]
    pub expected_output: Option<Digest>,
    /// The trace.
    #[serde(default)]
    pub trace_id: Option<String>,
    /// The observation.
    #[serde(default)]
    pub observation_id: Option<String>,
    /// Whether it failed.
    #[serde(default)]
    pub is_error: bool,
    /// The duration in milliseconds.
    #[serde(default)]
    pub latency_ms: Option<f64>,
    /// The cost in US dollars.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// The number of tokens.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// Its scores.
    #[serde(default)]
    pub scores: Vec<RunFileScore>,
}

/// A score of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunFileScore {
    /// The name.
    pub name: String,
    /// A number, a boolean, or a text.
    pub value: RunFileValue,
    /// The type of a text: `CATEGORICAL` if absent, or `TEXT`.
    #[serde(default)]
    pub data_type: Option<ScoreDataType>,
    /// Comment.
    #[serde(default)]
    pub comment: Option<String>,
    /// The version of the evaluator; absent for scores of clients and people.
    #[serde(default)]
    pub evaluator_version_id: Option<String>,
    /// The digest of everything that determines the score.
    #[serde(default)]
    pub fingerprint: Option<Digest>,
    /// The sampling rate, greater than 0 and at most 1; 1 if absent. Read only with `evaluatorVersionId` and `fingerprint`.
    #[serde(default)]
    pub inclusion_probability: Option<f64>,
}

/// The value of a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum RunFileValue {
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// A category or a text.
    Text(String),
}

/// A file that is not the results of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunFileError(String);

impl RunFile {
    /// Reads JSON.
    ///
    /// # Errors
    /// With the member and what is expected.
    pub fn from_json(text: &str) -> Result<Self, RunFileError> {
        let file: Self =
            serde_json::from_str(text).map_err(|error| RunFileError(error.to_string()))?;
        if file.format != FORMAT {
            return Err(RunFileError(format!(
                "`format` must be `{FORMAT}`, got `{}`",
                file.format
            )));
        }
        Ok(file)
    }

    /// The results of a run as a file. A link does not count as a result before its trace has arrived.
    #[must_use]
    pub fn of(results: &RunResults) -> Self {
        let items = results.items.iter().filter(|item| item.has_arrived || item.is_error);
        Self {
            format: FORMAT.to_owned(),
            id: results.run.id.clone(),
            name: Some(results.run.name.clone()),
            dataset_id: results.run.dataset_id.clone(),
            expected_items: results.expected_items.clone(),
            items: items.map(RunFileItem::of).collect(),
            directions: BTreeMap::new(),
            categories: BTreeMap::new(),
        }
    }

    /// The results.
    ///
    /// # Errors
    /// For ids and numbers that are not valid.
    pub fn results(&self) -> Result<RunResults, RunFileError> {
        let items = self.items.iter().enumerate();
        let items: Result<Vec<ItemResult>, RunFileError> = items
            .map(|(at, item)| {
                item.check().map_err(|error| RunFileError(format!("`items[{at}].{error}")))?;
                item.result(at).map_err(|error| RunFileError(format!("`items[{at}]`: {error}")))
            })
            .collect();
        Ok(RunResults {
            run: ExperimentRun {
                id: self.id.clone(),
                name: self.name.clone().unwrap_or_else(|| self.id.clone()),
                description: None,
                metadata: Value::Null,
                dataset_id: self.dataset_id.clone(),
                dataset_name: None,
                created_at: Timestamp::default(),
                updated_at: Timestamp::default(),
            },
            expected_items: self.expected_items.clone(),
            items: items?,
            scores: Vec::<RunScore>::new(),
        })
    }
}

impl RunFileItem {
    fn of(item: &ItemResult) -> Self {
        Self {
            item_id: item.item_id.clone(),
            item_version: item.item_version,
            expected_output: item.expected_output,
            trace_id: Some(item.trace_id.to_string()),
            observation_id: item.observation_id.as_ref().map(ToString::to_string),
            is_error: item.is_error,
            latency_ms: item.latency_ms,
            cost_usd: item.cost_usd,
            tokens: item.n_tokens,
            scores: item.scores.iter().map(RunFileScore::of).collect(),
        }
    }

    /// The rest of a sentence that starts with the path of the item.
    fn check(&self) -> Result<(), String> {
        if let Some(ms) = self.latency_ms.filter(|ms| !(0.0..f64::INFINITY).contains(ms)) {
            return Err(format!("latencyMs` must be at least 0 and finite, got {ms}"));
        }
        if let Some(usd) = self.cost_usd.filter(|usd| !usd.is_finite()) {
            return Err(format!("costUsd` must be finite, got {usd}"));
        }
        for (at, score) in self.scores.iter().enumerate() {
            if let RunFileValue::Number(value) = &score.value
                && !value.is_finite()
            {
                return Err(format!("scores[{at}].value` must be finite, got {value}"));
            }
            let rate = score.inclusion_probability;
            if let Some(rate) = rate.filter(|rate| !(0.0 < *rate && *rate <= 1.0)) {
                let rule = "must be greater than 0 and at most 1";
                return Err(format!("scores[{at}].inclusionProbability` {rule}, got {rate}"));
            }
        }
        Ok(())
    }

    fn result(&self, at: usize) -> Result<ItemResult, InvalidId> {
        let trace_id = match &self.trace_id {
            Some(id) => TraceId::new(id)?,
            None => TraceId::new(&format!("{NO_TRACE}{at}"))?,
        };
        let observation_id = self.observation_id.as_deref().map(ObservationId::new).transpose()?;
        let scores = self.scores.iter().map(RunFileScore::score).collect::<Result<_, _>>()?;
        Ok(ItemResult {
            item_id: self.item_id.clone(),
            item_version: self.item_version,
            expected_output: self.expected_output,
            trace_id,
            observation_id,
            start: Timestamp::default(),
            has_arrived: true,
            is_error: self.is_error,
            latency_ms: self.latency_ms,
            cost_usd: self.cost_usd,
            n_tokens: self.tokens,
            scores,
        })
    }
}

impl RunFileScore {
    fn of(score: &ItemScore) -> Self {
        let data_type = score.value.data_type();
        let origin = score.origin.as_ref();
        Self {
            name: score.name.clone(),
            value: match &score.value {
                ScoreValue::Numeric(value) => RunFileValue::Number(*value),
                ScoreValue::Boolean(value) => RunFileValue::Boolean(*value),
                ScoreValue::Categorical(text)
                | ScoreValue::Text(text)
                | ScoreValue::Correction(text) => RunFileValue::Text(text.clone()),
            },
            data_type: Some(data_type),
            comment: score.comment.clone(),
            evaluator_version_id: origin.map(|origin| origin.evaluator_version_id.to_string()),
            fingerprint: origin.map(|origin| origin.fingerprint),
            inclusion_probability: origin.map(|_| probability(score)),
        }
    }

    fn score(&self) -> Result<ItemScore, InvalidId> {
        let value = match &self.value {
            RunFileValue::Boolean(value) => ScoreValue::Boolean(*value),
            RunFileValue::Number(value) if self.data_type == Some(ScoreDataType::Boolean) => {
                ScoreValue::Boolean(*value != 0.0)
            }
            RunFileValue::Number(value) => ScoreValue::Numeric(*value),
            RunFileValue::Text(text) => match self.data_type {
                Some(ScoreDataType::Text) => ScoreValue::Text(text.clone()),
                Some(ScoreDataType::Correction) => ScoreValue::Correction(text.clone()),
                _ => ScoreValue::Categorical(text.clone()),
            },
        };
        let origin = match (&self.evaluator_version_id, self.fingerprint) {
            (Some(version), Some(fingerprint)) => Some(ScoreOrigin {
                execution_id: ExecutionId::new("file")?,
                evaluator_id: EvaluatorId::new("file")?,
                evaluator_version_id: EvaluatorVersionId::new(version)?,
                rule_id: RuleId::new("file")?,
                fingerprint,
                inclusion_probability: self.inclusion_probability.unwrap_or(1.0),
                score_name: self.name.clone(),
            }),
            _ => None,
        };
        Ok(ItemScore { name: self.name.clone(), value, comment: self.comment.clone(), origin })
    }
}
