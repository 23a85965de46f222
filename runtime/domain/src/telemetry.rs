//! Queries of stored telemetry and their results.

use std::sync::Arc;

use serde_json::Value;

use crate::batch::Media;
use crate::cost::CostSum;
use crate::evaluation::Fingerprint;
use crate::filter::{Filter, Order, TextOp};
use crate::ids::{ExecutionId, ObservationId, ProjectId, ScoreId, SessionId, TraceId};
use crate::list::ListPosition;
use crate::observation::{ExperimentLink, Level, Observation, ObservationKind};
use crate::patch::Patch;
use crate::pricing::AppliedPrices;
use crate::score::{NewScore, ScoreDataType, ScoreSource};
use crate::time::Timestamp;
use crate::trace::Trace;

/// A stored observation.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObservation {
    /// As received; `content` only if requested.
    pub observation: Observation,
    /// Time of the first receipt.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Attributes of its trace: the fallback for user, session and tags.
    pub trace_attributes: Arc<TraceAttributes>,
}

impl StoredObservation {
    /// The user of the observation, or else of its trace.
    #[must_use]
    pub fn user_id(&self) -> Option<&str> {
        own_or(self.observation.user_id.as_deref(), self.trace_attributes.user_id.as_deref())
    }

    /// The session of the observation, or else of its trace.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        own_or(self.observation.session_id.as_deref(), self.trace_attributes.session_id.as_deref())
    }

    /// The release of the observation, or else of its trace.
    #[must_use]
    pub fn release(&self) -> Option<&str> {
        own_or(self.observation.release.as_deref(), self.trace_attributes.release.as_deref())
    }
}

/// The value of an observation, or else that of its trace.
fn own_or<'v>(own: Option<&'v str>, of_trace: Option<&'v str>) -> Option<&'v str> {
    own.filter(|own| !own.is_empty()).or(of_trace)
}

/// Referenced data that an observation contains only by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResolvedRefs<'a> {
    /// The id of its prompt version.
    pub prompt_id: Option<&'a str>,
    /// The prices that its cost was computed with.
    pub prices: Option<AppliedPrices<'a>>,
}

/// Attributes of a trace that its observations inherit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceAttributes {
    /// Name of the trace.
    pub name: Option<String>,
    /// Its user.
    pub user_id: Option<String>,
    /// Its session.
    pub session_id: Option<String>,
    /// Its release.
    pub release: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Visible without a key.
    pub public: bool,
}

/// A stored trace.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredTrace {
    /// As computed; with the content of the root only if requested.
    pub trace: Trace,
    /// Time of the first receipt.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Its observations by start, if requested.
    pub observation_ids: Vec<ObservationId>,
    /// Cost of its input and of its output, if a filter needs them.
    pub part_costs: [Option<f64>; 2],
    /// The state that determines completeness.
    pub activity: Activity,
}

/// The activity of a trace in receive times (evaluation.md 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// Time at which the first observation was received.
    pub first_seen: Timestamp,
    /// Time of the last received change.
    pub last_seen: Timestamp,
    /// When an ended root was first received.
    pub root_ended_at: Option<Timestamp>,
    /// Observations without an end.
    pub n_open: u32,
    /// A span marked the trace as complete.
    pub has_marker: bool,
}

/// A query of observations, ordered by start descending, then by trace and id.
#[derive(Clone, Debug)]
pub struct ObservationQuery {
    /// Conditions on the columns of `crate::filter::OBSERVATIONS`.
    pub filter: Filter,
    /// After this one in the order of reading.
    pub after: Option<ObservationCursor>,
    /// Read in reverse order; the results are in this order too.
    pub is_backwards: bool,
    /// Maximum number of results.
    pub limit: u32,
    /// Number of results to skip.
    pub offset: u64,
    /// Load the content.
    pub with_content: bool,
    /// Exclude the records of traces.
    pub without_records: bool,
    /// Count all that match.
    pub with_total: bool,
    /// Most rows that are tested in memory, for conditions that no database can test.
    pub max_tested: u64,
    /// Most rows that the database tests for conditions without an index. If set, a total is counted only if that is cheap.
    pub max_scanned: Option<u64>,
    /// Most bytes of content of a page, as JSON. The page ends before the observation that exceeds it, and has at least one.
    pub max_bytes: usize,
}

impl Default for ObservationQuery {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            after: None,
            is_backwards: false,
            limit: 50,
            offset: 0,
            with_content: false,
            without_records: false,
            with_total: false,
            max_tested: u64::MAX,
            max_scanned: None,
            max_bytes: usize::MAX,
        }
    }
}

/// The last observation of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservationCursor {
    /// Its start.
    pub start: Timestamp,
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub id: ObservationId,
}

/// A page of matching observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservationPage {
    /// In the order of the query.
    pub items: Vec<StoredObservation>,
    /// Number of all matches; 0 if not requested.
    pub n_total: u64,
    /// There are, or may be, more matches than `n_total`.
    pub is_total_cut: bool,
    /// There are, or may be, more results.
    pub has_more: bool,
    /// Set if the search ended at `max_tested` or `max_scanned`: where to continue.
    pub scan_limit: Option<ScanLimit>,
}

/// The end of a search that reached its limit of rows tested in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    /// The last row that was tested.
    pub after: ObservationCursor,
    /// The columns that no database can test.
    pub columns: Vec<&'static str>,
}

/// The progress of a trace, which determines its completeness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Time at which the first observation was received.
    pub first_seen: Timestamp,
    /// Time of the last received change.
    pub last_seen: Timestamp,
    /// A root was seen.
    pub has_root: bool,
    /// When an ended root was first received.
    pub root_ended_at: Option<Timestamp>,
    /// Observations without an end.
    pub n_open: u32,
    /// A span marked the trace as complete.
    pub has_marker: bool,
    /// Observations, without the record of the trace.
    pub n_observations: u32,
}

/// A query of a plug-in for the observations of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWalkQuery {
    /// Direct children of this observation only.
    pub parent: Option<String>,
    /// Of these kinds; empty for all.
    pub kinds: Vec<ObservationKind>,
    /// Of this name.
    pub name: Option<String>,
    /// After this position: start and id.
    pub after: Option<(Timestamp, ObservationId)>,
    /// Maximum number of results.
    pub limit: u32,
}

/// An observation without its content, for the outline of its trace.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservationSummary {
    /// Its id.
    pub id: String,
    /// As sent; the parent may not exist.
    pub parent_id: Option<String>,
    /// Its kind.
    pub kind: ObservationKind,
    /// Empty when it has none.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Option<Timestamp>,
    /// Time of the first token of its output.
    pub first_token: Option<Timestamp>,
    /// Its model.
    pub model: Option<String>,
    /// Total tokens: the sent total, else input plus output. `None` without usage.
    pub tokens: Option<u64>,
    /// US dollars, as sent, else computed. `None` if unknown.
    pub cost: Option<f64>,
}

/// The version of the stored observations of a trace; every change gives another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceVersion {
    /// The number of the trace in its database; a trace that is deleted and sent again gets another one.
    pub number: i64,
    /// Number of changes.
    pub revision: i64,
}

/// Time range and users of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSpan {
    /// Number of traces.
    pub n_traces: u64,
    /// Start of the first.
    pub start: Timestamp,
    /// Start of the last.
    pub end: Timestamp,
    /// Users of its traces, sorted and limited.
    pub user_ids: Vec<String>,
}

/// The scope of a lookup.
#[derive(Clone, Copy, Debug)]
pub enum TraceScope<'a> {
    /// In this trace.
    Trace(&'a str),
    /// In a trace of this session.
    Session(&'a str),
    /// In the trace of an item of this run.
    Run(&'a str),
}

/// The changes of one ingest request.
#[derive(Clone, Debug, PartialEq)]
pub struct IngestChange {
    /// Sequence number in the order of arrival.
    pub seq: i64,
    /// The tenant.
    pub project: ProjectId,
    /// Receive time.
    pub received_at: Timestamp,
    /// The observations written, in the order of the request.
    pub observations: Vec<(TraceId, ObservationId)>,
    /// Traces and observations scored by a user or a client.
    pub scored: Vec<(TraceId, Option<ObservationId>)>,
    /// The same for sessions.
    pub scored_sessions: Vec<SessionId>,
    /// Traces to which a run linked an item.
    pub linked: Vec<TraceId>,
}

/// The content of one request of create and update events.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    /// Parts of traces and observations.
    pub patches: Vec<Patch>,
    /// Media extracted from the patches.
    pub media: Vec<Media>,
    /// Scores.
    pub scores: Vec<NewScore>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its id, as in its traces.
    pub id: String,
    /// Time of its first trace.
    pub created_at: Timestamp,
    /// Environment of its traces; the alphabetically first if they differ.
    pub environment: String,
}

/// A query of sessions; absent conditions match everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// Session id.
    pub id: Option<String>,
    /// Started at or after.
    pub from: Option<Timestamp>,
    /// Started before.
    pub to: Option<Timestamp>,
    /// With a trace that started at or after.
    pub active_from: Option<Timestamp>,
    /// With traces in one of these environments; other traces are ignored.
    pub environments: Vec<String>,
}

/// The key by which traces are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The session of the traces.
    Session,
    /// The end user of the traces.
    User,
}

/// The tool calls of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolObservations {
    /// The first ones by start and id. Content above the size limit is absent, although
    /// [`has_content`](Observation::has_content) is set.
    pub observations: Vec<Observation>,
    /// Total number.
    pub n: u64,
}

/// The aggregated traces of one session or one user.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceGroup {
    /// Id of the session or user.
    pub id: String,
    /// Start of the first trace.
    pub first: Timestamp,
    /// Start of the last trace.
    pub last: Timestamp,
    /// The latest end of a trace.
    pub end: Timestamp,
    /// The alphabetically first if they differ.
    pub environment: String,
    /// Number of traces.
    pub n_traces: u64,
    /// Number of users of a session, or of sessions of a user.
    pub n_others: u64,
    /// The alphabetically first of these.
    pub other: Option<String>,
    /// Observations of all traces.
    pub n_observations: u64,
    /// Of these with level error.
    pub n_errors: u64,
    /// Tokens of all traces.
    pub total_tokens: u64,
    /// Their cost.
    pub cost: CostSum,
}

/// A query of sessions or users, ordered by their newest trace, then by id.
#[derive(Clone, Debug)]
pub struct GroupQuery {
    /// Sessions or users.
    pub by: GroupKey,
    /// Sessions of this user, or users of this session; sums are over the traces that have both.
    pub of: Option<String>,
    /// Only traces that started in this half-open range.
    pub started: (Option<Timestamp>, Option<Timestamp>),
    /// Only traces of these environments; of all if empty.
    pub environments: Vec<String>,
    /// Position of the page.
    pub position: ListPosition,
    /// Maximum number of results.
    pub limit: u32,
}

impl GroupQuery {
    /// The first page.
    #[must_use]
    pub const fn new(by: GroupKey, limit: u32) -> Self {
        Self {
            by,
            of: None,
            started: (None, None),
            environments: Vec::new(),
            position: ListPosition { cursor: None, is_backwards: false },
            limit,
        }
    }
}

/// A query of scores: every condition must hold, an empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoreQuery {
    /// One of these ids.
    pub ids: Vec<ScoreId>,
    /// One of these names.
    pub names: Vec<String>,
    /// One of these sources.
    pub sources: Vec<ScoreSource>,
    /// One of these types.
    pub data_types: Vec<ScoreDataType>,
    /// One of these environments.
    pub environments: Vec<String>,
    /// None of these environments.
    pub other_than_environments: Vec<String>,
    /// One of these score configs.
    pub config_ids: Vec<String>,
    /// One of these annotation queues.
    pub queue_ids: Vec<String>,
    /// By one of these users.
    pub author_user_ids: Vec<String>,
    /// About one of these traces or something in it.
    pub trace_ids: Vec<TraceId>,
    /// About any trace or observation.
    pub is_in_trace: bool,
    /// About one of these observations; ids of observations are unique within a trace only.
    pub observation_ids: Vec<ObservationId>,
    /// About one of these sessions.
    pub session_ids: Vec<String>,
    /// About one of these experiments.
    pub experiment_ids: Vec<String>,
    /// Made by one of these executions.
    pub execution_ids: Vec<ExecutionId>,
    /// Produced by an evaluator version with this fingerprint.
    pub fingerprint: Option<Fingerprint>,
    /// One of these values.
    pub values: ScoreValues,
    /// Conditions on the number of numeric and boolean scores (false is 0, true is 1).
    pub number: Vec<(Order, f64)>,
    /// Conditions on members of the metadata, by key.
    pub metadata: Vec<(String, MemberTest)>,
    /// About a trace, or something in it, of one of these users.
    pub trace_user_ids: Vec<String>,
    /// About a trace, or something in it, that has all these tags.
    pub trace_tags: Vec<String>,
    /// Further conditions on the columns of `SCORES`.
    pub filter: Filter,
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
}

/// Values of one data type.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ScoreValues {
    /// Any value.
    #[default]
    Any,
    /// One of these numbers.
    Numeric(Vec<f64>),
    /// One of these booleans.
    Boolean(Vec<bool>),
    /// One of these categories.
    Categorical(Vec<String>),
}

/// A test of a metadata member. Text is compared as is, other values as compact JSON; a missing member passes only
/// [`MemberTest::IsNotSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberTest {
    /// The operator holds for its text and this one; case-insensitivity covers ASCII letters.
    Text(TextOp, String),
    /// The member exists.
    IsSet,
    /// The member does not exist.
    IsNotSet,
}

/// Stored bytes of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMedia {
    /// MIME type.
    pub content_type: String,
    /// SHA-256 of the bytes.
    pub sha256: Vec<u8>,
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Time of the first receipt.
    pub created_at: Timestamp,
}

/// A half-open time range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
}

/// A span that represents an item of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSpan {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub id: ObservationId,
    /// Its start.
    pub start: Timestamp,
    /// Its end.
    pub end: Option<Timestamp>,
    /// Its level.
    pub level: Level,
    /// Its environment.
    pub environment: String,
    /// Its experiment attributes.
    pub link: ExperimentLink,
}

/// An experiment, aggregated from its spans.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSummary {
    /// Its id.
    pub id: String,
    /// The experiment attributes of the newest span.
    pub link: ExperimentLink,
    /// The first start.
    pub start: Timestamp,
    /// The last end.
    pub end: Timestamp,
    /// Number of items.
    pub n_items: u64,
}

/// A query of experiment spans.
#[derive(Clone, Debug, Default)]
pub struct SpanQuery {
    /// Started in this period.
    pub period: Period,
    /// Of one of these experiments; of any if empty.
    pub experiment_ids: Vec<String>,
    /// After this position.
    pub after: Option<SpanCursor>,
    /// Maximum number of results.
    pub limit: u32,
}

/// The last span of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanCursor {
    /// Its start.
    pub start: Timestamp,
    /// Its trace.
    pub trace_id: String,
    /// Its id.
    pub id: String,
}

/// A run, aggregated from the links that no span represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLinks {
    /// The run.
    pub id: String,
    /// The first link.
    pub start: Timestamp,
    /// The last one.
    pub end: Timestamp,
    /// Number of traces without such a span.
    pub n_items: u64,
}

/// A new link from an item to a trace; the first one of a run creates the run.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Name of the run.
    pub run_name: String,
    /// Free text; `None` leaves it unchanged.
    pub run_description: Option<String>,
    /// Any JSON value; `None` leaves it unchanged.
    pub metadata: Option<Value>,
    /// The item.
    pub item_id: String,
    /// The version of the dataset that was used.
    pub dataset_version: Option<Timestamp>,
    /// The trace that was recorded.
    pub trace_id: String,
    /// The observation of the trace that represents the item.
    pub observation_id: Option<String>,
    /// Creation time.
    pub created_at: Timestamp,
}
