//! Runs of experiments: the results of an application for the items of a dataset, or of a client's own items.
//!
//! A run whose items are spans and a run whose items are linked by `POST /api/public/dataset-run-items` have
//! the same shape.

mod account;
mod address;

pub use account::{EvaluatorCount, ExpectedScores, RunAccount, ScoreCount};
pub use address::{escaped_run_id, unescaped_run_id};

use crate::dataset::DatasetItem;
use crate::identity::canonical;
use crate::ids::{ObservationId, TraceId};
use crate::list::Cursor;
use crate::observation::{ExperimentLink, Observation};
use crate::payload::Payload;
use crate::plugin::Digest;
use crate::score::{ScoreOrigin, ScoreValue};
use crate::time::Timestamp;
use serde_json::Value;

/// A run of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentRun {
    /// The id of the run or of the experiment attributes of its spans.
    pub id: String,
    /// Its name; the id if it has none.
    pub name: String,
    /// Description.
    pub description: Option<String>,
    /// Any JSON value; null if absent.
    pub metadata: Value,
    /// The dataset; absent if the items are the client's own.
    pub dataset_id: Option<String>,
    /// The name of the dataset now; absent if the dataset is deleted.
    pub dataset_name: Option<String>,
    /// The creation of the run, or the start of its first item.
    pub created_at: Timestamp,
    /// The last change of the run, link, or end of an item.
    pub updated_at: Timestamp,
}

/// One result of the application for an item. A run with repetitions has several results with the same item.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemResult {
    /// The item of the dataset, or the client's id of its own item.
    pub item_id: String,
    /// The version of the item, or the version of the dataset that the run used.
    pub item_version: Option<Timestamp>,
    /// Digest of the expected output that the run used.
    pub expected_output: Option<Digest>,
    /// Its trace.
    pub trace_id: TraceId,
    /// The observation of the item; absent if the item is linked to the trace.
    pub observation_id: Option<ObservationId>,
    /// Start of the trace or of the observation; the time of the link while nothing has arrived.
    pub start: Timestamp,
    /// Whether the trace has arrived.
    pub has_arrived: bool,
    /// Whether the trace or the observation of the item has level `ERROR`.
    pub is_error: bool,
    /// Duration of the observation, or else of the trace; absent while it is open.
    pub latency_ms: Option<f64>,
    /// Cost of the trace in US dollars; absent if no cost is known. Results that share a trace share its cost
    /// in equal parts, so that the sum over the results is the cost of the run.
    pub cost_usd: Option<f64>,
    /// Tokens of the trace, shared like the cost; absent if no usage is known.
    pub n_tokens: Option<u64>,
    /// Scores of the trace without an observation, and of the observation of the item or else of the root of the
    /// trace; oldest first, without corrections.
    pub scores: Vec<ItemScore>,
}

/// A score of an item of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ItemScore {
    /// The name of the score.
    pub name: String,
    /// The value.
    pub value: ScoreValue,
    /// Comment.
    pub comment: Option<String>,
    /// The evaluator that made it; absent for scores of clients and people.
    pub origin: Option<ScoreOrigin>,
}

/// The scores of a run as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct RunScore {
    /// The name of the score.
    pub name: String,
    /// The value.
    pub value: ScoreValue,
    /// Comment.
    pub comment: Option<String>,
}

/// A run with the results of its items and the items of its dataset that it was expected to have.
#[derive(Clone, Debug, PartialEq)]
pub struct RunResults {
    /// The run.
    pub run: ExperimentRun,
    /// The active items of the dataset in the version that the run used, or those that the server was started for;
    /// absent if the items are the client's own or the dataset is deleted.
    pub expected_items: Option<Vec<String>>,
    /// The results, by start.
    pub items: Vec<ItemResult>,
    /// The scores of the run as a whole.
    pub scores: Vec<RunScore>,
}

/// An observation that a run links as the result of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkedItem {
    /// Its trace.
    pub trace_id: TraceId,
    /// The linked observation, or the root of the linked trace.
    pub observation_id: ObservationId,
    /// Whether the trace is linked rather than the observation: input and output are those of the trace.
    pub is_whole: bool,
    /// The run.
    pub run_id: String,
    /// The name of the run.
    pub run_name: String,
    /// The dataset of the run.
    pub dataset_id: String,
    /// The item.
    pub item_id: String,
    /// The version of the dataset that the run used, if it was sent.
    pub dataset_version: Option<Timestamp>,
    /// When the server received the link.
    pub linked_at: Timestamp,
}

/// A link of a run whose observation has not arrived: the linked one, or the root of the linked trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingItem {
    /// The linked trace.
    pub trace_id: TraceId,
    /// The run.
    pub run_id: String,
    /// The dataset of the run.
    pub dataset_id: String,
    /// The item.
    pub item_id: String,
    /// When the server received the link.
    pub linked_at: Timestamp,
}

impl LinkedItem {
    /// The time as of which the item is read.
    #[must_use]
    pub fn version(&self) -> Timestamp {
        self.dataset_version.unwrap_or(self.linked_at)
    }

    /// Gives the observation the experiment attributes that the span of an item has. Attributes of the same
    /// run that it has already are kept.
    pub fn apply(&self, own: &mut Observation) {
        let attributes = own.experiment.take().map(|attributes| *attributes);
        let is_same_run =
            |link: &ExperimentLink| link.id.as_ref().is_none_or(|id| *id == self.run_id);
        let mut link = attributes.filter(is_same_run).unwrap_or_default();
        link.id = Some(self.run_id.clone());
        link.name = Some(self.run_name.clone());
        link.dataset_id = Some(self.dataset_id.clone());
        link.item_id = Some(self.item_id.clone());
        link.item_version = link.item_version.or(self.dataset_version);
        link.item_root_observation_id = Some(own.id.to_string());
        own.experiment = Some(Box::new(link));
    }
}

/// Adds the parts of its dataset item to an observation that has no own ones.
pub fn add_item_content(own: &mut Observation, item: &DatasetItem) {
    let value = |value: &Value| (!value.is_null()).then(|| Payload::from_value(value.clone()));
    if own.content.input.is_none() {
        own.content.input = value(&item.input);
    }
    if let Some(link) = &mut own.experiment {
        if link.item_expected_output.is_none() {
            link.item_expected_output = value(&item.expected_output);
        }
        if link.item_metadata.is_none() && !item.metadata.is_null() {
            link.item_metadata = Some(item.metadata.clone());
        }
    }
}

/// Selection of runs, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Runs over this dataset; all runs if absent.
    pub dataset_id: Option<String>,
    /// The position after the previous page.
    pub after: Option<Cursor>,
    /// Maximum number of runs.
    pub limit: u32,
}

/// Totals of the results of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunTotals {
    /// Number of results, with repetitions.
    pub n_items: u64,
    /// Results with an error.
    pub n_errors: u64,
    /// Mean over the results that have ended without an error; absent if none has.
    pub mean_latency_ms: Option<f64>,
    /// Cost of the traces in US dollars; absent if no cost is known.
    pub cost_usd: Option<f64>,
}

/// A run as a row of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    /// The run.
    pub run: ExperimentRun,
    /// Totals of its results.
    pub totals: RunTotals,
}

/// Digest of an expected output, so that those of a dataset and of the attributes of a span can be compared:
/// JSON sent as text is equal to the same value, whatever the order of its members. Absent for null.
#[must_use]
pub fn expected_output_digest(value: &Value) -> Option<Digest> {
    let parsed = value.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let value = parsed.as_ref().unwrap_or(value);
    (!value.is_null()).then(|| Digest::of(canonical(value).as_bytes()))
}

/// The outcome of a gate of a run, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct GateRecord {
    /// Its id, unique within the run.
    pub id: String,
    /// The run.
    pub run_id: String,
    /// `passed`, `failed` or `undecided`.
    pub outcome: String,
    /// The report as JSON.
    pub report: Value,
    /// The time of the gate.
    pub created_at: Timestamp,
}
