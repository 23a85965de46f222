//! Observations and traces as rows.

use std::str::FromStr;
use std::sync::Arc;

use perpend_domain::cost::cost_total;
use perpend_domain::ids::{InvalidId, ObservationId, TraceId, fits};
use perpend_domain::observation::{
    Content, Cost, ExperimentLink, Level, Observation, PromptLink, TraceFacts, Usage,
};
use perpend_domain::payload::Payload;
use perpend_domain::quantity::Quantity;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::{ObservationNames, Trace};
use perpend_domain::usage::{Side, side_of};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use perpend_db::{Arg, Error};
use perpend_domain::telemetry::{Activity, StoredObservation, StoredTrace, TraceAttributes};

/// The stored data cannot have been written by this code.
pub fn wrong(what: &'static str, detail: impl ToString) -> Error {
    Error::Inconsistent { what, detail: detail.to_string() }
}

/// Fields that no query compares, as one JSON text next to the columns. Absent and empty fields are left out.
#[derive(Debug, Serialize)]
struct DetailRef<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    tags: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    parameters: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Usage::is_empty")]
    usage: &'a Usage,
    #[serde(skip_serializing_if = "Cost::is_empty")]
    cost: &'a Cost,
    #[serde(skip_serializing_if = "Cost::is_empty")]
    computed_cost: &'a Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    price_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Usage::is_empty")]
    aggregate_usage: &'a Usage,
    #[serde(skip_serializing_if = "Cost::is_empty")]
    aggregate_cost: &'a Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregate_model: Option<&'a str>,
    #[serde(skip_serializing_if = "Cost::is_empty")]
    aggregate_computed_cost: &'a Cost,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_id: Option<&'a str>,
    scope: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    is_app_root: bool,
    #[serde(skip_serializing_if = "is_false")]
    as_root: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    called_tools: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<&'a TraceFacts>,
    #[serde(skip_serializing_if = "is_false")]
    marker: bool,
    #[serde(skip_serializing_if = "is_false")]
    in_parts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    experiment: Option<&'a ExperimentLink>,
    n_attributes: u32,
    #[serde(skip_serializing_if = "is_false")]
    has_content: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// The parsed form of [`DetailRef`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    tags: Vec<String>,
    provider: Option<String>,
    parameters: Map<String, Value>,
    usage: Usage,
    cost: Cost,
    computed_cost: Cost,
    price_id: Option<String>,
    aggregate_usage: Usage,
    aggregate_cost: Cost,
    aggregate_model: Option<String>,
    aggregate_computed_cost: Cost,
    response_id: Option<String>,
    scope: String,
    is_app_root: bool,
    as_root: bool,
    called_tools: Vec<String>,
    trace: Option<Box<TraceFacts>>,
    marker: bool,
    in_parts: bool,
    experiment: Option<Box<ExperimentLink>>,
    n_attributes: u32,
    has_content: bool,
}

/// The detail text of an observation.
pub fn detail(observation: &Observation) -> Result<String, Error> {
    serde_json::to_string(&DetailRef {
        tags: &observation.tags,
        provider: observation.provider.as_deref(),
        parameters: &observation.model_parameters,
        usage: &observation.usage,
        cost: &observation.cost,
        computed_cost: &observation.computed_cost,
        price_id: observation.price_id.as_deref(),
        aggregate_usage: &observation.aggregate_usage,
        aggregate_cost: &observation.aggregate_cost,
        aggregate_model: observation.aggregate_model.as_deref(),
        aggregate_computed_cost: &observation.aggregate_computed_cost,
        response_id: observation.response_id.as_deref(),
        scope: &observation.scope_name,
        is_app_root: observation.is_app_root,
        as_root: observation.as_root,
        called_tools: &observation.called_tools,
        trace: observation.trace.as_deref(),
        marker: observation.is_complete_marker,
        in_parts: observation.is_in_parts,
        experiment: observation.experiment.as_deref(),
        n_attributes: observation.attribute_count,
        has_content: observation.has_content,
    })
    .map_err(|error| wrong("observation", error))
}

/// Columns that are written, in the order of [`push_args`].
pub const COLUMNS: &str = "seq, tenant, trace, payload, place, created_at, updated_at, detail, \
    id, parent_id, kind, name, started_at, ended_at, first_token_at, level, status_message, \
    environment, release, version, user_id, session_id, model, is_root, prompt_name, prompt_version, \
    input_tokens, output_tokens, total_tokens, input_cost, output_cost, total_cost, experiment_id";
pub const N_COLUMNS: usize = 33;

/// Trace of a row and position of its content.
#[derive(Clone, Copy, Debug)]
pub struct RowLocation {
    pub seq: i64,
    pub tenant: i64,
    pub trace: i64,
    pub payload: Option<i64>,
    pub place: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

pub fn tokens(usage: &Usage, prefix: &str) -> Option<i64> {
    let belongs = |bucket: &str| match side_of(bucket) {
        Some(Side::Input) => prefix == "input",
        Some(Side::Output) => prefix == "output",
        None => bucket == prefix,
    };
    let mut found =
        usage.iter().filter(|(bucket, _)| belongs(bucket)).map(|(_, tokens)| *tokens).peekable();
    found.peek()?;
    let sum = found.sum::<Quantity>().to_u64();
    Some(i64::try_from(sum).unwrap_or(i64::MAX))
}

pub fn dollars(cost: &Cost, prefix: &str) -> Option<f64> {
    let mut found = cost
        .iter()
        .filter(|(bucket, _)| bucket.starts_with(prefix))
        .map(|(_, dollars)| *dollars)
        .peekable();
    found.peek()?;
    Some(found.sum())
}

pub fn total(cost: &Cost) -> Option<f64> {
    if cost.is_empty() {
        return None;
    }
    match cost.get("total") {
        Some(total) => Some(*total),
        None => cost_total(cost).to_string().parse().ok(),
    }
}

/// Appends the values of one row.
pub fn push_args<'a>(
    args: &mut Vec<Arg<'a>>,
    place: RowLocation,
    observation: &'a Observation,
    detail: &'a str,
) {
    let cost = observation.effective_cost();
    let usage = &observation.usage;
    args.extend([
        place.seq.into(),
        place.tenant.into(),
        place.trace.into(),
        place.payload.into(),
        place.place.into(),
        place.created_at.as_micros().into(),
        place.updated_at.as_micros().into(),
        detail.into(),
        observation.id.as_str().into(),
        observation.parent_id.as_ref().map(ObservationId::as_str).into(),
        observation.kind.as_str().into(),
        observation.name.as_str().into(),
        observation.start.as_micros().into(),
        observation.end.map(Timestamp::as_micros).into(),
        observation.completion_start.map(Timestamp::as_micros).into(),
        observation.level.as_str().into(),
        observation.status_message.as_deref().into(),
        observation.environment.as_str().into(),
        observation.release.as_deref().into(),
        observation.version.as_deref().into(),
        observation.user_id.as_deref().into(),
        observation.session_id.as_deref().into(),
        observation.model.as_deref().into(),
        observation.is_root().into(),
        observation.prompt.as_ref().map(|p| p.name.as_str()).into(),
        observation.prompt.as_ref().and_then(|p| p.version).into(),
        tokens(usage, "input").into(),
        tokens(usage, "output").into(),
        tokens(usage, "total").into(),
        dollars(cost, "input").into(),
        dollars(cost, "output").into(),
        total(cost).into(),
        experiment_of_item(observation).into(),
    ]);
}

/// The experiment of an observation that represents one of its items.
fn experiment_of_item(observation: &Observation) -> Option<&str> {
    let id = observation.experiment.as_ref()?.id.as_deref()?;
    (observation.is_experiment_item() && !id.is_empty() && fits(id)).then_some(id)
}

/// Columns that are read from `observations o`, in the order of [`OwnRow`].
macro_rules! own_columns {
    () => {
        "o.seq, o.trace, o.payload, o.place, o.created_at, o.updated_at, o.detail, o.id, o.parent_id, \
         o.kind, o.name, o.started_at, o.ended_at, o.first_token_at, o.level, o.status_message, \
         o.environment, o.release, o.version, o.user_id, o.session_id, o.model, o.prompt_name, \
         o.prompt_version"
    };
}
pub const READ_OWN: &str = own_columns!();

/// Columns that are read from `observations o JOIN traces t`, in the order of [`ObservationRow`].
pub const READ: &str = concat!(
    own_columns!(),
    ", t.trace_id, t.name AS trace_name, t.user_id AS trace_user, t.session_id AS trace_session, \
     t.release AS trace_release, t.is_public AS trace_public, t.detail AS trace_detail"
);

perpend_db::record! {
    /// An observation without columns of its trace.
    // Also read from JSON, as an array in this order.
    #[derive(Debug, Deserialize)]
    pub struct OwnRow {
        pub seq: i64,
        pub trace: i64,
        pub payload: Option<i64>,
        pub place: i64,
        pub created_at: i64,
        pub updated_at: i64,
        pub detail: String,
        id: String,
        parent_id: Option<String>,
        kind: String,
        name: String,
        started_at: i64,
        ended_at: Option<i64>,
        first_token_at: Option<i64>,
        level: String,
        status_message: Option<String>,
        environment: String,
        release: Option<String>,
        version: Option<String>,
        user_id: Option<String>,
        session_id: Option<String>,
        model: Option<String>,
        prompt_name: Option<String>,
        prompt_version: Option<i64>,
    }
}

perpend_db::record! {
    /// An observation with columns of its trace.
    #[derive(Debug)]
    pub struct ObservationRow {
        pub own: OwnRow,
        trace_id: String,
        trace_name: Option<String>,
        trace_user: Option<String>,
        trace_session: Option<String>,
        trace_release: Option<String>,
        trace_public: i16,
        trace_detail: String,
    }
}

impl std::ops::Deref for ObservationRow {
    type Target = OwnRow;

    fn deref(&self) -> &OwnRow {
        &self.own
    }
}

fn id<T: FromStr<Err = InvalidId>>(what: &'static str, raw: &str) -> Result<T, Error> {
    raw.parse().map_err(|error| wrong(what, error))
}

impl OwnRow {
    /// The observation of this trace, without content.
    pub fn observation(&self, trace_id: TraceId) -> Result<Observation, Error> {
        const WHAT: &str = "observation";
        let detail: Detail =
            serde_json::from_str(&self.detail).map_err(|error| wrong(WHAT, error))?;
        let parent_id = self.parent_id.as_deref().map(|raw| id(WHAT, raw));
        Ok(Observation {
            trace_id,
            id: id(WHAT, &self.id)?,
            parent_id: parent_id.transpose()?,
            kind: self.kind.parse().map_err(|error| wrong(WHAT, error))?,
            name: self.name.clone(),
            start: Timestamp::from_micros(self.started_at),
            end: self.ended_at.map(Timestamp::from_micros),
            completion_start: self.first_token_at.map(Timestamp::from_micros),
            level: self.level.parse().map_err(|error| wrong(WHAT, error))?,
            status_message: self.status_message.clone(),
            environment: self.environment.clone(),
            release: self.release.clone(),
            version: self.version.clone(),
            user_id: self.user_id.clone(),
            session_id: self.session_id.clone(),
            tags: detail.tags,
            model: self.model.clone(),
            provider: detail.provider,
            model_parameters: detail.parameters,
            prompt: self
                .prompt_name
                .clone()
                .map(|name| PromptLink { name, version: self.prompt_version }),
            usage: detail.usage,
            cost: detail.cost,
            computed_cost: detail.computed_cost,
            price_id: detail.price_id,
            aggregate_usage: detail.aggregate_usage,
            aggregate_cost: detail.aggregate_cost,
            aggregate_model: detail.aggregate_model,
            aggregate_computed_cost: detail.aggregate_computed_cost,
            response_id: detail.response_id,
            scope_name: detail.scope,
            is_app_root: detail.is_app_root,
            as_root: detail.as_root,
            called_tools: detail.called_tools,
            trace: detail.trace,
            is_complete_marker: detail.marker,
            is_in_parts: detail.in_parts,
            experiment: detail.experiment,
            attribute_count: detail.n_attributes,
            has_content: detail.has_content,
            content: Content::default(),
        })
    }

    /// With the columns of its trace, which many rows share.
    pub fn stored(
        &self,
        trace_id: TraceId,
        trace_attributes: Arc<TraceAttributes>,
    ) -> Result<StoredObservation, Error> {
        Ok(StoredObservation {
            observation: self.observation(trace_id)?,
            created_at: Timestamp::from_micros(self.created_at),
            updated_at: Timestamp::from_micros(self.updated_at),
            trace_attributes,
        })
    }
}

impl ObservationRow {
    pub fn trace_id(&self) -> Result<TraceId, Error> {
        id("observation", &self.trace_id)
    }

    /// The observation without content.
    pub fn observation(&self) -> Result<Observation, Error> {
        self.own.observation(self.trace_id()?)
    }

    pub fn of_trace(&self) -> Result<TraceAttributes, Error> {
        Ok(TraceAttributes {
            name: self.trace_name.clone(),
            user_id: self.trace_user.clone(),
            session_id: self.trace_session.clone(),
            release: self.trace_release.clone(),
            tags: from_detail(&self.trace_detail)?.tags,
            public: self.trace_public != 0,
        })
    }
}

/// Fields of a trace that no query compares.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct TraceDetail {
    /// The first member if present: the filter on bookmarks compares the prefix of the text.
    #[serde(skip_serializing_if = "is_false")]
    bookmarked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Payload>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    /// As marks, which triggers copy to a separate table.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    root: Option<ObservationId>,
    #[serde(skip_serializing_if = "is_false")]
    provisional: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    duplicates: Vec<(ObservationId, ObservationId)>,
    #[serde(skip_serializing_if = "Usage::is_empty")]
    usage: Usage,
    first_start: i64,
    last_end: i64,
}

/// Prefixes of the marks of observation types, of models, and of prompt names.
pub const OBSERVATION_MARKS: [char; 3] = ['k', 'o', 'p'];

fn observation_marks(names: &ObservationNames) -> Vec<String> {
    let lists = [&names.kinds, &names.models, &names.prompts];
    let marks = OBSERVATION_MARKS.into_iter().zip(lists);
    let marks = marks.flat_map(|(of, names)| names.iter().map(move |name| format!("{of}{name}")));
    marks.collect()
}

fn names_of_marks(marks: &[String]) -> ObservationNames {
    let [kinds, models, prompts] = OBSERVATION_MARKS.map(|of| {
        let names = marks.iter().filter_map(|mark| mark.strip_prefix(of));
        names.map(str::to_owned).collect()
    });
    ObservationNames { kinds, models, prompts }
}

fn from_detail(text: &str) -> Result<TraceDetail, Error> {
    serde_json::from_str(text).map_err(|error| wrong("trace", error))
}

/// The detail text of a trace.
pub fn trace_detail(trace: &Trace) -> Result<String, Error> {
    serde_json::to_string(&TraceDetail {
        bookmarked: trace.bookmarked,
        input: trace.input.clone(),
        output: trace.output.clone(),
        tags: trace.tags.clone(),
        metadata: trace.metadata.clone(),
        steps: observation_marks(&trace.observation_names),
        root: trace.root.clone(),
        provisional: trace.root_is_provisional,
        duplicates: trace.duplicates.clone(),
        usage: trace.usage.clone(),
        first_start: trace.first_start.as_micros(),
        last_end: trace.last_end.as_micros(),
    })
    .map_err(|error| wrong("trace", error))
}

/// Computed columns of a trace, in the order of [`push_trace_args`].
pub const TRACE_COMPUTED: [&str; 21] = [
    "name",
    "started_at",
    "user_id",
    "session_id",
    "release",
    "version",
    "environment",
    "is_public",
    "level",
    "n_observations",
    "n_debug",
    "n_default",
    "n_warning",
    "n_error",
    "latency_us",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "total_cost",
    "n_priced",
    "n_unpriced",
];

/// Appends the computed columns, followed by the detail.
pub fn push_trace_args<'a>(args: &mut Vec<Arg<'a>>, trace: &'a Trace, detail: &'a str) {
    let [debug, default, warning, error] = trace.n_by_level.map(i64::from);
    let level = match (error, warning, default) {
        (1.., _, _) => Level::Error,
        (_, 1.., _) => Level::Warning,
        (_, _, 1..) => Level::Default,
        _ => Level::Debug,
    };
    args.extend([
        trace.name.as_deref().into(),
        trace.timestamp.as_micros().into(),
        trace.user_id.as_deref().into(),
        trace.session_id.as_deref().into(),
        trace.release.as_deref().into(),
        trace.version.as_deref().into(),
        trace.environment.as_str().into(),
        trace.public.into(),
        level.as_str().into(),
        i64::from(trace.n_observations).into(),
        debug.into(),
        default.into(),
        warning.into(),
        error.into(),
        trace.latency_us.into(),
        tokens(&trace.usage, "input").into(),
        tokens(&trace.usage, "output").into(),
        tokens(&trace.usage, "total").into(),
        trace.total_cost.into(),
        i64::from(trace.n_priced).into(),
        i64::from(trace.n_unpriced).into(),
        detail.into(),
    ]);
}

/// Columns that are read from `traces t`, in the order of [`TraceRow`].
pub const READ_TRACE: &str = "t.number, t.trace_id, t.first_seen, \
    t.last_seen, t.root_ended_at, t.n_open, t.has_marker, t.name, t.started_at, t.user_id, \
    t.session_id, t.release, t.version, t.environment, t.is_public, t.n_observations, t.n_debug, \
    t.n_default, t.n_warning, t.n_error, t.latency_us, t.total_cost, t.n_priced, t.n_unpriced, t.detail";

perpend_db::record! {
    /// A trace.
    #[derive(Debug)]
    pub struct TraceRow {
        pub number: i64,
        pub trace_id: String,
        first_seen: i64,
        last_seen: i64,
        root_ended_at: Option<i64>,
        n_open: i64,
        has_marker: i16,
        name: Option<String>,
        started_at: i64,
        user_id: Option<String>,
        session_id: Option<String>,
        release: Option<String>,
        version: Option<String>,
        environment: String,
        is_public: i16,
        n_observations: i64,
        n_debug: i64,
        n_default: i64,
        n_warning: i64,
        n_error: i64,
        latency_us: i64,
        total_cost: f64,
        n_priced: i64,
        n_unpriced: i64,
        detail: String,
    }
}

fn count(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

impl TraceRow {
    pub fn of_trace(&self) -> Result<TraceAttributes, Error> {
        Ok(TraceAttributes {
            name: self.name.clone(),
            user_id: self.user_id.clone(),
            session_id: self.session_id.clone(),
            release: self.release.clone(),
            tags: from_detail(&self.detail)?.tags,
            public: self.is_public != 0,
        })
    }

    pub fn stored(self) -> Result<StoredTrace, Error> {
        let detail = from_detail(&self.detail)?;
        let id: TraceId = id("trace", &self.trace_id)?;
        let activity = Activity {
            first_seen: Timestamp::from_micros(self.first_seen),
            last_seen: Timestamp::from_micros(self.last_seen),
            root_ended_at: self.root_ended_at.map(Timestamp::from_micros),
            n_open: count(self.n_open),
            has_marker: self.has_marker != 0,
        };
        Ok(StoredTrace {
            trace: Trace {
                id,
                name: self.name,
                input: detail.input,
                output: detail.output,
                timestamp: Timestamp::from_micros(self.started_at),
                user_id: self.user_id,
                session_id: self.session_id,
                release: self.release,
                version: self.version,
                environment: self.environment,
                public: self.is_public != 0,
                bookmarked: detail.bookmarked,
                tags: detail.tags,
                metadata: detail.metadata,
                observation_names: names_of_marks(&detail.steps),
                root: detail.root,
                root_is_provisional: detail.provisional,
                duplicates: detail.duplicates,
                usage: detail.usage,
                total_cost: self.total_cost,
                n_priced: count(self.n_priced),
                n_unpriced: count(self.n_unpriced),
                latency_us: self.latency_us,
                n_observations: count(self.n_observations),
                n_by_level: [
                    count(self.n_debug),
                    count(self.n_default),
                    count(self.n_warning),
                    count(self.n_error),
                ],
                first_start: Timestamp::from_micros(detail.first_start),
                last_end: Timestamp::from_micros(detail.last_end),
            },
            created_at: activity.first_seen,
            updated_at: activity.last_seen,
            observation_ids: Vec::new(),
            part_costs: [None; 2],
            activity,
        })
    }
}
