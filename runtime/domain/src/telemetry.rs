//! What the rooms ask of stored telemetry, and what they get.

use std::sync::Arc;

use serde_json::Value;

use crate::batch::Media;
use crate::cost::CostSum;
use crate::evaluation::Fingerprint;
use crate::filter::{Filter, Order, TextOp};
use crate::ids::{ExecutionId, ObservationId, ProjectId, ScoreId, SessionId, TraceId};
use crate::list::Cursor;
use crate::observation::{ExperimentLink, Level, Observation, ObservationKind};
use crate::patch::Patch;
use crate::pricing::AppliedPrices;
use crate::score::{NewScore, ScoreDataType, ScoreSource};
use crate::time::Timestamp;
use crate::trace::Trace;

/// A stored observation.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredObservation {
    /// As received, with `content` only when it was asked for.
    pub observation: Observation,
    /// First received.
    pub created_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// What its trace says: readers fall back on it for user, session and tags.
    pub of_trace: Arc<TraceAttributes>,
}

/// What an observation names that stands elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResolvedRefs<'a> {
    /// The id of the version of its prompt.
    pub prompt_id: Option<&'a str>,
    /// The prices that its cost was computed with.
    pub prices: Option<AppliedPrices<'a>>,
}

/// What an observation shows of its trace.
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
    /// As computed, completed with the content of the root only when it was asked for.
    pub trace: Trace,
    /// First received.
    pub created_at: Timestamp,
    /// Last changed.
    pub updated_at: Timestamp,
    /// Its observations by start, when they were asked for.
    pub observation_ids: Vec<ObservationId>,
    /// Cost of its input and of its output, where a filter looks at them.
    pub part_costs: [Option<f64>; 2],
    /// What completeness is judged by.
    pub activity: Activity,
}

/// How far a trace has come, in receive times (evaluation.md 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// First observation received.
    pub first_seen: Timestamp,
    /// Last change received.
    pub last_seen: Timestamp,
    /// When an ended root was first received.
    pub root_ended_at: Option<Timestamp>,
    /// Observations without an end.
    pub n_open: u32,
    /// A span said that nothing more comes.
    pub has_marker: bool,
}

/// Which observations: newest start first, equal ones by trace and id.
#[derive(Clone, Debug)]
pub struct ObservationQuery {
    /// Conditions on the columns of `crate::filter::OBSERVATIONS`.
    pub filter: Filter,
    /// After this one in the order.
    pub after: Option<ObservationCursor>,
    /// At most so many.
    pub limit: u32,
    /// Leave out so many first.
    pub offset: u64,
    /// Load the content.
    pub with_content: bool,
    /// Leave out the records of traces, which are no steps.
    pub without_records: bool,
    /// Count all that match.
    pub with_total: bool,
    /// Of the rows that only memory can test against the filter, look at so many at most.
    pub max_tested: u64,
    /// Contents of a page together, as JSON. The page ends before the observation that exceeds it, and has at least one.
    pub max_bytes: usize,
}

impl Default for ObservationQuery {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            after: None,
            limit: 50,
            offset: 0,
            with_content: false,
            without_records: false,
            with_total: false,
            max_tested: u64::MAX,
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

/// Some of the matching observations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservationPage {
    /// In the order asked for.
    pub items: Vec<StoredObservation>,
    /// All that match; 0 when it was not asked for.
    pub n_total: u64,
    /// There are more after these, or there may be.
    pub has_more: bool,
    /// As many rows were tested as may be: up to here, which is where to go on.
    pub scan_limit: Option<ScanLimit>,
}

/// Where a search ended that tests rows in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanLimit {
    /// The last row that was tested.
    pub after: ObservationCursor,
    /// The columns that no database tests.
    pub columns: Vec<&'static str>,
}

/// How far a trace has come, for its completeness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// First observation received.
    pub first_seen: Timestamp,
    /// Last change received.
    pub last_seen: Timestamp,
    /// A root was seen.
    pub has_root: bool,
    /// When an ended root was first received.
    pub root_ended_at: Option<Timestamp>,
    /// Observations without an end.
    pub n_open: u32,
    /// A span said that nothing more comes.
    pub has_marker: bool,
    /// Observations, without the record of the trace.
    pub n_observations: u32,
}

/// A step through the observations of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWalkQuery {
    /// Direct children of this observation only.
    pub parent: Option<String>,
    /// Of these kinds; none means all.
    pub kinds: Vec<ObservationKind>,
    /// Of this name.
    pub name: Option<String>,
    /// Behind this one: start and id.
    pub after: Option<(Timestamp, ObservationId)>,
    /// At most so many.
    pub limit: u32,
}

/// An observation without anything large, for the outline of its trace.
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
    /// When the first token of its answer arrived.
    pub first_token: Option<Timestamp>,
    /// The model it names.
    pub model: Option<String>,
    /// All its tokens: the given total, else input and output. Unknown when nothing was counted.
    pub tokens: Option<u64>,
    /// US dollars, as sent or else computed. Unknown when neither is there.
    pub cost: Option<f64>,
}

/// Which state of the stored observations of a trace was read: another one whenever any of them changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceVersion {
    /// The number of the trace in its database; a trace that is deleted and sent again has another one.
    pub number: i64,
    /// How often it has changed.
    pub revision: i64,
}

/// When a session was, and whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSpan {
    /// How many traces it has.
    pub n_traces: u64,
    /// Start of the first.
    pub start: Timestamp,
    /// Start of the last.
    pub end: Timestamp,
    /// Users of its traces, sorted, the first of them where there are many.
    pub user_ids: Vec<String>,
}

/// Where something stands.
#[derive(Clone, Copy, Debug)]
pub enum TraceScope<'a> {
    /// In this trace.
    Trace(&'a str),
    /// In a trace of this session.
    Session(&'a str),
    /// In the trace of an item of this run.
    Run(&'a str),
}

/// What one ingest request touched.
#[derive(Clone, Debug, PartialEq)]
pub struct IngestChange {
    /// Its place in the order of arrival.
    pub seq: i64,
    /// The tenant.
    pub project: ProjectId,
    /// When it was received.
    pub received_at: Timestamp,
    /// The observations written, in the order of the request.
    pub observations: Vec<(TraceId, ObservationId)>,
    /// What a person or a client scored: traces, and observations of them.
    pub scored: Vec<(TraceId, Option<ObservationId>)>,
    /// The same for sessions.
    pub scored_sessions: Vec<SessionId>,
}

/// What one request of create and update events says.
#[derive(Clone, Debug, Default)]
pub struct EventBatch {
    /// Parts of traces and observations.
    pub patches: Vec<Patch>,
    /// Media taken out of them.
    pub media: Vec<Media>,
    /// Scores.
    pub scores: Vec<NewScore>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its id, as its traces name it.
    pub id: String,
    /// Time of its first trace.
    pub created_at: Timestamp,
    /// Environment of its traces, the first in the alphabet where they differ.
    pub environment: String,
}

/// Which sessions; absent parts ask nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    /// This one.
    pub id: Option<String>,
    /// Begun at or after.
    pub from: Option<Timestamp>,
    /// Begun before.
    pub to: Option<Timestamp>,
    /// With a trace that began at or after.
    pub active_from: Option<Timestamp>,
    /// With traces in one of these; others are not looked at.
    pub environments: Vec<String>,
}

/// What traces are put together by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKey {
    /// The session that they name.
    Session,
    /// The end user that they name.
    User,
}

/// Calls of tools in a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolObservations {
    /// The first ones by start and id. The content of those that say more than is read at once is absent, though
    /// [`has_content`](Observation::has_content) is set.
    pub steps: Vec<Observation>,
    /// How many there are.
    pub n: u64,
}

/// What the traces of one session, or of one user, say together.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceGroup {
    /// Of the session or user.
    pub id: String,
    /// Start of the first trace.
    pub first: Timestamp,
    /// Start of the last trace.
    pub last: Timestamp,
    /// The latest end of a trace.
    pub end: Timestamp,
    /// The first in the alphabet where they differ.
    pub environment: String,
    /// How many traces.
    pub n_traces: u64,
    /// How many users a session has, and how many sessions a user.
    pub n_others: u64,
    /// The first of these in the alphabet.
    pub other: Option<String>,
    /// Observations of all traces.
    pub n_observations: u64,
    /// Of these with level error.
    pub n_errors: u64,
    /// Tokens of all traces.
    pub total_tokens: u64,
    /// What they cost.
    pub cost: CostSum,
}

/// Which sessions or users: those with the newest traces first, equal ones by id.
#[derive(Clone, Debug)]
pub struct GroupQuery {
    /// Sessions or users.
    pub by: GroupKey,
    /// Sessions of this user, or users of this session; sums are over the traces that have both.
    pub of: Option<String>,
    /// Traces that began in this time alone, its end left out.
    pub started: (Option<Timestamp>, Option<Timestamp>),
    /// Traces of these environments alone; of all when empty.
    pub environments: Vec<String>,
    /// Behind this one, or before it.
    pub after: Option<Cursor>,
    /// Before `after`, the nearest ones; the page is in the same order.
    pub is_backwards: bool,
    /// At most so many.
    pub limit: u32,
}

impl GroupQuery {
    /// The first ones.
    #[must_use]
    pub const fn new(by: GroupKey, limit: u32) -> Self {
        Self {
            by,
            of: None,
            started: (None, None),
            environments: Vec::new(),
            after: None,
            is_backwards: false,
            limit,
        }
    }
}

/// Some sessions or users.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupPage {
    /// In order.
    pub items: Vec<TraceGroup>,
    /// The place of the first.
    pub first: Option<Cursor>,
    /// The place of the last.
    pub last: Option<Cursor>,
    /// There are more in the direction that was asked for.
    pub has_more: bool,
}

/// Which scores: every condition must hold, an empty list asks nothing.
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
    /// One of these people.
    pub author_user_ids: Vec<String>,
    /// About one of these traces or something in it.
    pub trace_ids: Vec<TraceId>,
    /// About a trace or something in it, whichever.
    pub is_in_trace: bool,
    /// About one of these observations; ids of observations are unique within a trace only.
    pub observation_ids: Vec<ObservationId>,
    /// About one of these sessions.
    pub session_ids: Vec<String>,
    /// About one of these experiments.
    pub experiment_ids: Vec<String>,
    /// Made by one of these executions.
    pub execution_ids: Vec<ExecutionId>,
    /// Made by exactly what this is the digest of.
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
    /// What else must hold, over the columns of `SCORES`.
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
    /// One of these truths.
    Boolean(Vec<bool>),
    /// One of these categories.
    Categorical(Vec<String>),
}

/// What a member of the metadata must be. Text as is, anything else in its compact JSON form; a missing
/// member passes [`MemberTest::IsNotSet`] only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberTest {
    /// Its text stands so to this one; "any case" is that of ASCII letters.
    Text(TextOp, String),
    /// It is there.
    IsSet,
    /// It is not.
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
    /// First received.
    pub created_at: Timestamp,
}

/// A time, from its beginning to before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    /// At or after.
    pub from: Option<Timestamp>,
    /// Before.
    pub to: Option<Timestamp>,
}

/// A span that stands for an item of an experiment.
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
    /// What it says about the experiment.
    pub link: ExperimentLink,
}

/// What the spans of an experiment say together.
#[derive(Clone, Debug, PartialEq)]
pub struct ExperimentSummary {
    /// Its id.
    pub id: String,
    /// What the newest span says about it.
    pub link: ExperimentLink,
    /// The first start.
    pub start: Timestamp,
    /// The last end.
    pub end: Timestamp,
    /// How many items.
    pub n_items: u64,
}

/// Which spans.
#[derive(Clone, Debug, Default)]
pub struct SpanQuery {
    /// Started in this time.
    pub period: Period,
    /// Of one of these experiments; of any when there are none.
    pub experiment_ids: Vec<String>,
    /// After this place in the list.
    pub after: Option<SpanCursor>,
    /// At most so many.
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

/// What the links of a run say together, as far as no span says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLinks {
    /// The run.
    pub id: String,
    /// The first link.
    pub start: Timestamp,
    /// The last one.
    pub end: Timestamp,
    /// Traces that no span stands for.
    pub n_items: u64,
}

/// What was recorded for an item of a run; the run is made with its first one.
#[derive(Clone, Debug)]
pub struct NewLink {
    /// Name of the run.
    pub run_name: String,
    /// For people; `None` leaves it.
    pub run_description: Option<String>,
    /// Anything; `None` leaves it.
    pub metadata: Option<Value>,
    /// The item.
    pub item_id: String,
    /// The moment the dataset was read at.
    pub dataset_version: Option<Timestamp>,
    /// The trace that was recorded.
    pub trace_id: String,
    /// The observation in it that stands for the item.
    pub observation_id: Option<String>,
    /// Recorded at.
    pub created_at: Timestamp,
}
