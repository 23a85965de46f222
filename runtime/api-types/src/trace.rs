//! Traces: alone, in lists, and with all their observations and scores.

use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::StoredTrace;
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::any_json::AnyJson;
use crate::observation::{FullObservation, as_json};
use crate::score::ScoreV2;

/// The traces to delete.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TraceDeletion)]
pub struct Deletion {
    /// 1 to 1000 ids.
    pub trace_ids: Vec<String>,
}

/// A change of a trace. Absent members are unchanged.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[schema(as = TraceMarks)]
pub struct Marks {
    /// Sets or clears the bookmark.
    pub bookmarked: Option<bool>,
    /// At most 100 tags of at most 200 characters.
    pub add_tags: Vec<String>,
    /// At most 100 tags; unknown tags are ignored.
    pub remove_tags: Vec<String>,
}

/// The optional members of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFields {
    /// Input, output and metadata.
    pub content: bool,
    /// Latency and cost.
    pub metrics: bool,
}

impl TraceFields {
    /// All of them.
    pub const ALL: Self = Self { content: true, metrics: true };
}

/// A trace without its observations and scores.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    id: TraceId,
    timestamp: Timestamp,
    name: Option<String>,
    /// JSON, or text.
    #[serde(serialize_with = "as_json")]
    #[schema(value_type = AnyJson)]
    input: Option<Payload>,
    /// JSON, or text.
    #[serde(serialize_with = "as_json")]
    #[schema(value_type = AnyJson)]
    output: Option<Payload>,
    session_id: Option<String>,
    release: Option<String>,
    version: Option<String>,
    user_id: Option<String>,
    #[schema(value_type = Option<BTreeMap<String, AnyJson>>)]
    metadata: Option<Map<String, Value>>,
    tags: Vec<String>,
    public: bool,
    environment: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    project_id: ProjectId,
    /// Always `null`.
    external_id: Option<String>,
    bookmarked: bool,
    /// The page of the trace.
    html_path: String,
    /// Seconds; -1 if not requested.
    latency: f64,
    /// US dollars; -1 if not requested.
    total_cost: f64,
}

impl Trace {
    /// From a stored trace, with the requested members.
    #[must_use]
    pub fn new(project: &ProjectId, stored: StoredTrace, shown: TraceFields) -> Self {
        let trace = stored.trace;
        let metric = |value: f64| if shown.metrics { value } else { -1.0 };
        Self {
            html_path: format!("/project/{project}/traces/{}", trace.id),
            id: trace.id,
            timestamp: trace.timestamp,
            name: trace.name,
            input: trace.input.filter(|_| shown.content),
            output: trace.output.filter(|_| shown.content),
            session_id: trace.session_id,
            release: trace.release,
            version: trace.version,
            user_id: trace.user_id,
            metadata: shown.content.then_some(trace.metadata),
            tags: trace.tags,
            public: trace.public,
            environment: trace.environment,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            project_id: project.clone(),
            external_id: None,
            bookmarked: trace.bookmarked,
            latency: metric(trace.latency_us as f64 / 1e6),
            total_cost: metric(trace.total_cost),
        }
    }
}

/// A trace with the ids of its observations and scores.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceInList {
    /// The trace.
    #[serde(flatten)]
    pub trace: Trace,
    /// Its observations.
    pub observations: Vec<ObservationId>,
    /// Its scores.
    pub scores: Vec<String>,
}

/// A trace with its observations and scores. It is written in parts and never held in memory as a whole.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TraceWithAll {
    /// The trace.
    #[serde(flatten)]
    pub trace: Trace,
    /// Its observations.
    pub observations: Vec<FullObservation>,
    /// Its scores.
    pub scores: Vec<ScoreV2>,
}
