//! An observation: one timed operation in a trace.

use std::collections::BTreeMap;

use crate::content::calls::calls_in;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::{ObservationId, TraceId};
use crate::named::named_enum;
use crate::payload::Payload;
use crate::quantity::Quantity;
use crate::time::Timestamp;

named_enum!(
    /// The kind of an observation.
    ObservationKind {
        Span = "SPAN",
        Generation = "GENERATION",
        Event = "EVENT",
        Agent = "AGENT",
        Tool = "TOOL",
        Chain = "CHAIN",
        Retriever = "RETRIEVER",
        Evaluator = "EVALUATOR",
        Embedding = "EMBEDDING",
        Guardrail = "GUARDRAIL",
    }
);

impl Observation {
    /// An ended observation without further attributes.
    #[must_use]
    pub fn ended(
        trace_id: TraceId,
        id: ObservationId,
        kind: ObservationKind,
        (start, end): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            trace_id,
            id,
            parent_id: None,
            kind,
            name: String::new(),
            start,
            end: Some(end.max(start)),
            completion_start: None,
            level: Level::Default,
            status_message: None,
            environment: String::new(),
            release: None,
            version: None,
            user_id: None,
            session_id: None,
            tags: Vec::new(),
            model: None,
            provider: None,
            model_parameters: Map::new(),
            prompt: None,
            usage: Usage::new(),
            cost: Cost::new(),
            computed_cost: Cost::new(),
            price_id: None,
            aggregate_usage: Usage::new(),
            aggregate_cost: Cost::new(),
            aggregate_model: None,
            aggregate_computed_cost: Cost::new(),
            response_id: None,
            scope_name: String::new(),
            is_app_root: false,
            as_root: false,
            called_tools: Vec::new(),
            trace: None,
            is_complete_marker: false,
            is_in_parts: false,
            experiment: None,
            attribute_count: 0,
            has_content: false,
            content: Content::default(),
        }
    }
}

impl ObservationKind {
    /// A model call with usage: generation or embedding.
    #[must_use]
    pub const fn is_generation_like(self) -> bool {
        matches!(self, Self::Generation | Self::Embedding)
    }
}

named_enum!(
    /// Severity, ascending.
    Level {
        Debug = "DEBUG",
        Default = "DEFAULT",
        Warning = "WARNING",
        Error = "ERROR",
    }
);

/// Tokens by bucket; disjoint except for `total` (otlp.md 4.1).
pub type Usage = BTreeMap<String, Quantity>;
/// US dollars by bucket, with `total`.
pub type Cost = BTreeMap<String, f64>;

/// Name and version of a prompt as the sender wrote them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptLink {
    /// The prompt's name.
    pub name: String,
    /// The version's number, when given.
    pub version: Option<i64>,
}

/// One tool call found in an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call.
    pub id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// Parsed when it was JSON text.
    pub arguments: Value,
}

impl ToolCall {
    /// The calls in an output, in order.
    #[must_use]
    pub fn all_in(output: Option<&Payload>) -> Vec<Self> {
        let Some(Payload::Json(json)) = output else {
            return Vec::new();
        };
        let calls = calls_in(json).into_iter();
        let calls =
            calls.map(|call| Self { id: call.id, name: call.name, arguments: call.arguments });
        calls.collect()
    }
}

/// Trace attributes on a span: only explicit, native attributes (otlp.md 3.3), or those of the record of the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TraceFacts {
    /// `trace.name`.
    pub name: Option<String>,
    /// `trace.input`.
    pub input: Option<Payload>,
    /// `trace.output`.
    pub output: Option<Payload>,
    /// `trace.metadata`, merged.
    pub metadata: Map<String, Value>,
    /// `trace.public`.
    pub public: Option<bool>,
    /// Time of the trace, if its record has one.
    #[serde(with = "crate::time::micros::option", skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Environment, if the record of the trace has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Whether a user bookmarked the trace; only in the record of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bookmarked: Option<bool>,
    /// Tags that a user removed from the trace, whichever observation has them; only in the record of the trace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub removed_tags: Vec<String>,
}

/// The experiment attributes of a span (otlp.md 2.4).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExperimentLink {
    /// Experiment id.
    pub id: Option<String>,
    /// Experiment name.
    pub name: Option<String>,
    /// Experiment description.
    pub description: Option<String>,
    /// Experiment metadata.
    pub metadata: Option<Value>,
    /// Dataset id.
    pub dataset_id: Option<String>,
    /// Dataset item id.
    pub item_id: Option<String>,
    /// Dataset item version.
    pub item_version: Option<Timestamp>,
    /// Expected output of the item.
    pub item_expected_output: Option<Payload>,
    /// Metadata of the item.
    pub item_metadata: Option<Value>,
    /// The observation that represents the item.
    pub item_root_observation_id: Option<String>,
    /// Number of the result among those of the item, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repetition: Option<u32>,
    /// Number of the attempt at the result, from 0: the result is that of the highest attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
}

/// One timed operation in a trace.
///
/// The narrow fields are columns that queries scan; `content` is stored apart, compressed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The trace it belongs to.
    pub trace_id: TraceId,
    /// Unique within the trace.
    pub id: ObservationId,
    /// As sent; the parent may not exist. Never the observation's own id.
    pub parent_id: Option<ObservationId>,
    /// Its kind.
    pub kind: ObservationKind,
    /// Its name, at most 1 024 characters.
    pub name: String,
    /// Start.
    pub start: Timestamp,
    /// End, never before `start`; absent while it is open.
    pub end: Option<Timestamp>,
    /// First token, within start and end.
    pub completion_start: Option<Timestamp>,
    /// Severity.
    pub level: Level,
    /// Explanation of the level.
    pub status_message: Option<String>,
    /// Normalised environment; `default` when none was sent.
    pub environment: String,
    /// Release of the application.
    pub release: Option<String>,
    /// Version of the application or component.
    pub version: Option<String>,
    /// End user, on this very span.
    pub user_id: Option<String>,
    /// Session, on this very span.
    pub session_id: Option<String>,
    /// Tags on this very span: sorted, unique.
    pub tags: Vec<String>,
    /// The model that replied.
    pub model: Option<String>,
    /// Provider, lower-case.
    pub provider: Option<String>,
    /// Model parameters.
    pub model_parameters: Map<String, Value>,
    /// Prompt used.
    pub prompt: Option<PromptLink>,
    /// Own usage.
    pub usage: Usage,
    /// Cost given by the sender.
    pub cost: Cost,
    /// Cost computed by the server from prices, when none was given.
    pub computed_cost: Cost,
    /// The price entry of `computed_cost`.
    pub price_id: Option<String>,
    /// Usage that repeats the usage of descendants (otlp.md 4.4).
    pub aggregate_usage: Usage,
    /// Sent cost that repeats the cost of descendants.
    pub aggregate_cost: Cost,
    /// The model that `aggregate_usage` is about.
    #[serde(default)]
    pub aggregate_model: Option<String>,
    /// Cost of `aggregate_usage` computed by the server from prices, when none was given.
    #[serde(default)]
    pub aggregate_computed_cost: Cost,
    /// The provider's id of the response, to recognise one call in two spans.
    pub response_id: Option<String>,
    /// Instrumentation scope name.
    pub scope_name: String,
    /// The library marked it as the root of the application's part.
    pub is_app_root: bool,
    /// The library marked it to be used as root.
    pub as_root: bool,
    /// Names of the tools called in the output, in order.
    pub called_tools: Vec<String>,
    /// Trace attributes on the span, if it has any.
    pub trace: Option<Box<TraceFacts>>,
    /// `perpend.trace.complete` is set: the client sends nothing more.
    pub is_complete_marker: bool,
    /// It was received as create and update events: more may follow although it has ended.
    #[serde(default)]
    pub is_in_parts: bool,
    /// Experiment attributes.
    pub experiment: Option<Box<ExperimentLink>>,
    /// Number of attributes received: of two versions of one span the richer one stays.
    pub attribute_count: u32,
    /// It has an input or an output, even if `content` is not loaded: of two spans for one call the one with content stays
    /// (otlp.md 4.5).
    #[serde(default)]
    pub has_content: bool,
    /// Input, output and metadata.
    pub content: Content,
}

/// The content of an observation, stored apart from its row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Content {
    /// Input.
    pub input: Option<Payload>,
    /// Output.
    pub output: Option<Payload>,
    /// User keys on the top level, next to `attributes`, `resourceAttributes`, `scope`, `events` and `links`.
    pub metadata: Map<String, Value>,
    /// Tool definitions offered to the model, a JSON array.
    pub tool_definitions: Option<Value>,
    /// Tool calls of the output.
    pub tool_calls: Vec<ToolCall>,
    /// The span's own system instructions, for message lists that arrive later in log records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_instructions: Option<Value>,
    /// Row of the table in otlp.md 2.7 that gave `input`; 0 when none did. GenAI log records that
    /// arrive later replace an input of a later row, see [`crate::join`].
    pub input_row: u8,
    /// The same for `output`.
    pub output_row: u8,
}

impl Observation {
    /// No parent, or marked as the root of the application's part.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.parent_id.is_none() || self.is_app_root
    }

    /// Whether it represents an item of an experiment.
    #[must_use]
    pub fn is_experiment_item(&self) -> bool {
        let link = self.experiment.as_ref();
        let root = link.and_then(|link| link.item_root_observation_id.as_deref());
        root == Some(self.id.as_str())
    }

    /// From start to end, in microseconds; absent before the end.
    #[must_use]
    pub fn latency_us(&self) -> Option<i64> {
        self.end.map(|end| end.micros_since(self.start))
    }

    /// From the start to the first token, in microseconds.
    #[must_use]
    pub fn time_to_first_token_us(&self) -> Option<i64> {
        self.completion_start.map(|at| at.micros_since(self.start))
    }

    /// Given cost, else computed cost.
    #[must_use]
    pub fn effective_cost(&self) -> &Cost {
        if self.cost.is_empty() { &self.computed_cost } else { &self.cost }
    }

    /// The same for costs that repeat descendants.
    #[must_use]
    pub fn effective_aggregate_cost(&self) -> &Cost {
        if self.aggregate_cost.is_empty() {
            &self.aggregate_computed_cost
        } else {
            &self.aggregate_cost
        }
    }
}
