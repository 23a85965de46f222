//! Create and update events of traces and observations, and how several are merged into one.
//!
//! A client that cannot wait for the end of an observation sends it in parts: a create event, then updates. Each part is a
//! [`Patch`]; [`merge`] combines the patches of one subject into an observation. A trace is represented by an observation
//! too, [`Observation::is_trace_record`]: its [`TraceFacts`] take precedence over the attributes of other observations.
//!
//! Invariants:
//! - **The set decides.** [`merge`] orders creates before updates, then by time, so that the result does not
//!   depend on the order in which parts arrive, nor on how they are grouped. Where a sender's clock gave two of
//!   them one time, the one that arrived later is the later one.
//! - **Absent changes nothing.** An absent field of a patch keeps the value of earlier patches, or of the observation that
//!   was received as a whole before them, see [`merge_onto`].

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::accumulated::{limit_metadata, note};
use crate::fold::{MAX_TAGS, merge_deep};
use crate::ids::{ObservationId, TraceId};
use crate::marks::TraceMarks;
use crate::observation::{
    Content, Cost, Level, Observation, ObservationKind, PromptLink, ToolCall, TraceFacts, Usage,
};
use crate::payload::Payload;
use crate::time::{Timestamp, micros};

/// Scope of the observation that represents a trace.
pub const TRACE_RECORD: &str = "perpend.trace";

/// The subject of a patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PatchSubject {
    /// A trace.
    Trace(TraceId),
    /// An observation; ids of observations that come in parts are unique within the project.
    Observation(ObservationId),
}

/// A partial trace or observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Patch {
    /// The source event; a repeated event is the same patch.
    pub event_id: String,
    /// Time of the event, set by the client.
    #[serde(with = "micros")]
    pub at: Timestamp,
    /// An update; creates go first.
    pub is_update: bool,
    /// When it was first received, in microseconds since 1970, and its place in that request: decides between
    /// events of one time.
    #[serde(default)]
    pub arrival: (i64, u32),
    /// The subject.
    pub about: PatchSubject,
    /// The trace of an observation. The first one stays.
    pub trace_id: Option<TraceId>,
    /// The observation above.
    pub parent_id: Option<ObservationId>,
    /// Kind of the observation; creates decide.
    pub kind: ObservationKind,
    /// Name.
    pub name: Option<String>,
    /// Start, or the time of a trace. The first one stays.
    #[serde(with = "micros::option")]
    pub start: Option<Timestamp>,
    /// End.
    #[serde(with = "micros::option")]
    pub end: Option<Timestamp>,
    /// First token.
    #[serde(with = "micros::option")]
    pub completion_start: Option<Timestamp>,
    /// Severity.
    pub level: Option<Level>,
    /// Explanation of the level.
    pub status_message: Option<String>,
    /// Normalised. The first one stays.
    pub environment: Option<String>,
    /// Release of the application.
    pub release: Option<String>,
    /// Version of the application or component.
    pub version: Option<String>,
    /// End user.
    pub user_id: Option<String>,
    /// Session.
    pub session_id: Option<String>,
    /// Tags; those of all patches together, apart from what a later one removes.
    pub tags: Vec<String>,
    /// Tags that go, unless a later patch names them again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_tags: Vec<String>,
    /// Whether the trace is bookmarked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bookmarked: Option<bool>,
    /// Whether the trace can be seen without a key.
    pub public: Option<bool>,
    /// Model.
    pub model: Option<String>,
    /// Parameters of the model.
    pub model_parameters: Option<Map<String, Value>>,
    /// Prompt.
    pub prompt: Option<PromptLink>,
    /// Usage; a later one that is not empty replaces it whole.
    pub usage: Usage,
    /// Cost; likewise.
    pub cost: Cost,
    /// Input.
    pub input: Option<Payload>,
    /// Output.
    pub output: Option<Payload>,
    /// Definitions of the tools that the input offers, a JSON array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_definitions: Option<Value>,
    /// Tool calls of the output.
    pub tool_calls: Vec<ToolCall>,
    /// Merged deeply with that of the others.
    pub metadata: Map<String, Value>,
}

impl Patch {
    /// An empty patch.
    #[must_use]
    pub fn new(event_id: String, at: Timestamp, is_update: bool, about: PatchSubject) -> Self {
        Self {
            event_id,
            at,
            is_update,
            arrival: (0, 0),
            about,
            trace_id: None,
            parent_id: None,
            kind: ObservationKind::Span,
            name: None,
            start: None,
            end: None,
            completion_start: None,
            level: None,
            status_message: None,
            environment: None,
            release: None,
            version: None,
            user_id: None,
            session_id: None,
            tags: Vec::new(),
            removed_tags: Vec::new(),
            bookmarked: None,
            public: None,
            model: None,
            model_parameters: None,
            prompt: None,
            usage: Usage::new(),
            cost: Cost::new(),
            input: None,
            output: None,
            tool_definitions: None,
            tool_calls: Vec::new(),
            metadata: Map::new(),
        }
    }

    /// One patch equivalent to these; `None` if there are none. It has the position of the first of them, so that patches
    /// received later are still ordered correctly around it.
    fn of_all(parts: &Parts<'_>) -> Option<Self> {
        let first = *parts.0.first()?;
        let mut content = parts.content();
        let usage = parts.last(|patch| Some(&patch.usage).filter(|usage| !usage.is_empty()));
        let cost = parts.last(|patch| Some(&patch.cost).filter(|cost| !cost.is_empty()));
        let (tags, removed_tags, n_tags) = parts.tags();
        if tags.len() < n_tags {
            note(&mut content.metadata, "tags", n_tags);
        }
        Some(Self {
            event_id: String::new(),
            at: first.at,
            is_update: first.is_update,
            arrival: first.arrival,
            about: first.about.clone(),
            trace_id: parts.first(|patch| patch.trace_id.as_ref()).cloned(),
            parent_id: parts.last(|patch| patch.parent_id.as_ref()).cloned(),
            kind: parts.kind(),
            name: parts.text(|patch| patch.name.as_ref()),
            start: parts.first(|patch| patch.start.as_ref()).copied(),
            end: parts.last(|patch| patch.end.as_ref()).copied(),
            completion_start: parts.last(|patch| patch.completion_start.as_ref()).copied(),
            level: parts.last(|patch| patch.level.as_ref()).copied(),
            status_message: parts.text(|patch| patch.status_message.as_ref()),
            environment: parts.first(|patch| patch.environment.as_ref()).cloned(),
            release: parts.text(|patch| patch.release.as_ref()),
            version: parts.text(|patch| patch.version.as_ref()),
            user_id: parts.text(|patch| patch.user_id.as_ref()),
            session_id: parts.text(|patch| patch.session_id.as_ref()),
            tags,
            removed_tags,
            bookmarked: parts.last(|patch| patch.bookmarked.as_ref()).copied(),
            public: parts.last(|patch| patch.public.as_ref()).copied(),
            model: parts.text(|patch| patch.model.as_ref()),
            model_parameters: parts.last(|patch| patch.model_parameters.as_ref()).cloned(),
            prompt: parts.last(|patch| patch.prompt.as_ref()).cloned(),
            usage: usage.cloned().unwrap_or_default(),
            cost: cost.cloned().unwrap_or_default(),
            input: content.input,
            output: content.output,
            tool_definitions: content.tool_definitions,
            tool_calls: content.tool_calls,
            metadata: content.metadata,
        })
    }

    /// An observation as a patch that precedes all others.
    fn of(base: &Observation) -> Self {
        let mut patch = Self::new(
            String::new(),
            Timestamp::from_micros(i64::MIN),
            false,
            PatchSubject::Observation(base.id.clone()),
        );
        let Content { input, output, tool_definitions, tool_calls, metadata, .. } =
            base.content.clone();
        patch.tool_definitions = tool_definitions;
        patch.trace_id = Some(base.trace_id.clone());
        patch.parent_id.clone_from(&base.parent_id);
        patch.kind = base.kind;
        patch.name = Some(base.name.clone());
        patch.start = Some(base.start);
        patch.end = base.end;
        patch.completion_start = base.completion_start;
        patch.level = Some(base.level);
        patch.status_message.clone_from(&base.status_message);
        patch.environment = Some(base.environment.clone());
        patch.release.clone_from(&base.release);
        patch.version.clone_from(&base.version);
        patch.user_id.clone_from(&base.user_id);
        patch.session_id.clone_from(&base.session_id);
        patch.tags.clone_from(&base.tags);
        patch.model.clone_from(&base.model);
        patch.model_parameters = Some(base.model_parameters.clone());
        patch.prompt.clone_from(&base.prompt);
        patch.usage.clone_from(&base.usage);
        patch.cost.clone_from(&base.cost);
        (patch.input, patch.output) = (input, output);
        (patch.tool_calls, patch.metadata) = (tool_calls, metadata);
        patch
    }

    /// A user's change of a trace as an update; `None` if the trace id is too long for the id of its record.
    #[must_use]
    pub fn marking(
        trace: &TraceId,
        marks: &TraceMarks,
        event_id: String,
        at: Timestamp,
    ) -> Option<Self> {
        record_id(trace)?;
        let mut patch = Self::new(event_id, at, true, PatchSubject::Trace(trace.clone()));
        patch.bookmarked = marks.bookmarked;
        patch.tags.clone_from(&marks.add_tags);
        patch.removed_tags.clone_from(&marks.remove_tags);
        Some(patch)
    }

    fn order(&self, other: &Self) -> Ordering {
        let key = (self.is_update, self.at, self.arrival, &self.event_id);
        key.cmp(&(other.is_update, other.at, other.arrival, &other.event_id))
    }
}

impl Observation {
    /// Whether it represents its trace and is not one of its observations.
    #[must_use]
    pub fn is_trace_record(&self) -> bool {
        self.scope_name == TRACE_RECORD
    }
}

/// The id of the observation that represents a trace; `None` if the trace id is too long.
#[must_use]
pub fn record_id(trace: &TraceId) -> Option<ObservationId> {
    ObservationId::new(&format!("t-{trace}")).ok()
}

/// All patches of one subject, in order.
struct Parts<'p>(Vec<&'p Patch>);

impl<'p> Parts<'p> {
    fn first<T>(&self, field: impl Fn(&'p Patch) -> Option<&'p T>) -> Option<&'p T> {
        self.0.iter().find_map(|patch| field(patch))
    }

    fn last<T>(&self, field: impl Fn(&'p Patch) -> Option<&'p T>) -> Option<&'p T> {
        self.0.iter().rev().find_map(|patch| field(patch))
    }

    fn text(&self, field: impl Fn(&'p Patch) -> Option<&'p String>) -> Option<String> {
        self.last(field).cloned()
    }

    /// The kind of the last create, otherwise of the last update.
    fn kind(&self) -> ObservationKind {
        let creates = self.0.iter().rev().find(|patch| !patch.is_update);
        let decides = creates.or_else(|| self.0.last());
        decides.map_or(ObservationKind::Span, |patch| patch.kind)
    }

    /// The tags and the removed tags, at most [`MAX_TAGS`] each, by the last patch of each tag; and the number of tags before
    /// the limit.
    fn tags(&self) -> (Vec<String>, Vec<String>, usize) {
        let (mut there, mut gone) = (BTreeSet::new(), BTreeSet::new());
        for patch in &self.0 {
            for tag in &patch.tags {
                gone.remove(tag);
                there.insert(tag);
            }
            for tag in &patch.removed_tags {
                there.remove(tag);
                gone.insert(tag);
            }
        }
        let n_tags = there.len();
        let list = |tags: BTreeSet<&String>| tags.into_iter().take(MAX_TAGS).cloned().collect();
        (list(there), list(gone), n_tags)
    }

    fn metadata(&self) -> Map<String, Value> {
        let mut merged = Map::new();
        for patch in &self.0 {
            merge_deep(&mut merged, &patch.metadata);
        }
        limit_metadata(&mut merged);
        merged
    }
}

/// Merges the patches of one subject into an observation; `None` if there are none or an id is invalid.
#[must_use]
pub fn merge<'p>(patches: impl IntoIterator<Item = &'p Patch>) -> Option<Observation> {
    let mut parts: Vec<&Patch> = patches.into_iter().collect();
    parts.sort_by(|a, b| a.order(b));
    // Patches without an event id are condensed ones: there may be two, and both count.
    let mut seen = HashSet::new();
    parts.retain(|patch| patch.event_id.is_empty() || seen.insert(&patch.event_id));
    let parts = Parts(parts);
    let MergedIds { trace_id, id, is_record } = parts.place()?;
    let (start, end) = parts.start_and_end(is_record)?;
    let name = parts.text(|patch| patch.name.as_ref());
    let mut content = parts.content();
    let (tags, removed_tags, n_tags) = parts.tags();
    if tags.len() < n_tags {
        note(&mut content.metadata, "tags", n_tags);
    }
    let facts = is_record.then(|| {
        Box::new(TraceFacts {
            name: name.clone(),
            input: content.input.take(),
            output: content.output.take(),
            metadata: std::mem::take(&mut content.metadata),
            public: parts.last(|patch| patch.public.as_ref()).copied(),
            timestamp: parts.first(|patch| patch.start.as_ref()).copied(),
            environment: parts.first(|patch| patch.environment.as_ref()).cloned(),
            bookmarked: parts.last(|patch| patch.bookmarked.as_ref()).copied(),
            removed_tags,
        })
    });
    let model_parameters = parts.last(|patch| patch.model_parameters.as_ref());
    let usage = parts.last(|patch| Some(&patch.usage).filter(|usage| !usage.is_empty()));
    let cost = parts.last(|patch| Some(&patch.cost).filter(|cost| !cost.is_empty()));
    let environment = parts.first(|patch| patch.environment.as_ref());
    Some(Observation {
        trace_id,
        parent_id: parts.parent(&id),
        kind: parts.kind(),
        name: name.unwrap_or_else(|| "unnamed".to_owned()),
        start,
        end,
        completion_start: parts
            .last(|patch| patch.completion_start.as_ref())
            .map(|at| (*at).min(end.unwrap_or(*at)).max(start)),
        level: *parts.last(|patch| patch.level.as_ref()).unwrap_or(&Level::Default),
        status_message: parts.text(|patch| patch.status_message.as_ref()),
        environment: environment.map_or_else(|| "default".to_owned(), Clone::clone),
        release: parts.text(|patch| patch.release.as_ref()),
        version: parts.text(|patch| patch.version.as_ref()),
        user_id: parts.text(|patch| patch.user_id.as_ref()),
        session_id: parts.text(|patch| patch.session_id.as_ref()),
        tags,
        model: parts.text(|patch| patch.model.as_ref()),
        provider: None,
        model_parameters: model_parameters.cloned().unwrap_or_default(),
        prompt: parts.last(|patch| patch.prompt.as_ref()).cloned(),
        usage: usage.cloned().unwrap_or_default(),
        cost: cost.cloned().unwrap_or_default(),
        computed_cost: Cost::new(),
        price_id: None,
        aggregate_usage: Usage::new(),
        aggregate_cost: Cost::new(),
        aggregate_model: None,
        aggregate_computed_cost: Cost::new(),
        response_id: None,
        scope_name: if is_record { TRACE_RECORD } else { "" }.to_owned(),
        is_app_root: false,
        as_root: false,
        called_tools: content.tool_calls.iter().map(|c| c.name.clone()).collect(),
        trace: facts,
        is_complete_marker: false,
        is_in_parts: true,
        experiment: None,
        attribute_count: u32::try_from(parts.0.len()).unwrap_or(u32::MAX),
        has_content: content.input.is_some() || content.output.is_some(),
        content,
        id,
    })
}

/// Condenses the oldest of more than `max` patches of one subject into one: at most half of `max` remain, the first of them
/// with an empty event id. Returns the event ids of the condensed ones: such an event sent again counts as a new one,
/// ordered by time and last among equal times.
pub fn condense(patches: &mut Vec<Patch>, max: usize) -> Vec<String> {
    if patches.len() <= max {
        return Vec::new();
    }
    patches.sort_by(Patch::order);
    // A previously condensed patch is among the oldest, even if earlier ones arrived since.
    let made = patches.iter().position(|patch| patch.event_id.is_empty());
    let n_old = (patches.len() - max / 2 + 1).max(made.map_or(0, |at| at + 1));
    let old: Vec<Patch> = patches.drain(..n_old.min(patches.len())).collect();
    if let Some(one) = Patch::of_all(&Parts(old.iter().collect())) {
        patches.insert(0, one);
    }
    old.into_iter().map(|patch| patch.event_id).collect()
}

/// Applies patches to an observation that was received as a whole: fields absent in all patches are unchanged.
#[must_use]
pub fn merge_onto<'p>(
    base: Option<&Observation>,
    patches: impl IntoIterator<Item = &'p Patch>,
) -> Option<Observation> {
    let Some(base) = base else {
        return merge(patches);
    };
    let first = Patch::of(base);
    let patches: Vec<&Patch> = patches.into_iter().collect();
    let says = |field: fn(&Patch) -> bool| patches.iter().any(|patch| field(patch));
    let (has_input, has_output) = (says(|p| p.input.is_some()), says(|p| p.output.is_some()));
    let n_patches = u32::try_from(patches.len()).unwrap_or(u32::MAX);
    let mut merged = merge(std::iter::once(&first).chain(patches.iter().copied()))?;
    if !has_input {
        merged.content.input_row = base.content.input_row;
    }
    if !has_output {
        merged.content.output_row = base.content.output_row;
        merged.called_tools.clone_from(&base.called_tools);
    }
    let definitions = merged.content.tool_definitions.take();
    let content = Content {
        tool_definitions: definitions.or_else(|| base.content.tool_definitions.clone()),
        system_instructions: base.content.system_instructions.clone(),
        ..merged.content
    };
    Some(Observation {
        provider: base.provider.clone(),
        aggregate_usage: base.aggregate_usage.clone(),
        aggregate_cost: base.aggregate_cost.clone(),
        aggregate_model: base.aggregate_model.clone(),
        aggregate_computed_cost: base.aggregate_computed_cost.clone(),
        response_id: base.response_id.clone(),
        scope_name: base.scope_name.clone(),
        is_app_root: base.is_app_root,
        as_root: base.as_root,
        trace: base.trace.clone(),
        is_complete_marker: base.is_complete_marker,
        experiment: base.experiment.clone(),
        // Richer than its parts, in case one of them is sent again.
        attribute_count: base.attribute_count.saturating_add(n_patches),
        content,
        ..merged
    })
}

/// The identity of the merged observation.
struct MergedIds {
    trace_id: TraceId,
    id: ObservationId,
    is_record: bool,
}

impl Parts<'_> {
    fn place(&self) -> Option<MergedIds> {
        Some(match &self.0.first()?.about {
            PatchSubject::Trace(trace) => {
                MergedIds { trace_id: trace.clone(), id: record_id(trace)?, is_record: true }
            }
            PatchSubject::Observation(id) => {
                let trace = self.first(|patch| patch.trace_id.as_ref()).cloned();
                MergedIds {
                    // Without a trace it gets its own.
                    trace_id: trace.or_else(|| TraceId::new(id.as_str()).ok())?,
                    id: id.clone(),
                    is_record: false,
                }
            }
        })
    }

    /// The end is never before the start; the record of a trace has no length.
    fn start_and_end(&self, is_record: bool) -> Option<(Timestamp, Option<Timestamp>)> {
        let start = self.first(|patch| patch.start.as_ref());
        let start = *start.unwrap_or(&self.0.first()?.at);
        let end = self.last(|patch| patch.end.as_ref());
        let end = end.map(|end| (*end).max(start));
        Some((start, if is_record { Some(start) } else { end }))
    }

    fn content(&self) -> Content {
        let input = self.0.iter().rev().find(|patch| patch.input.is_some());
        let output = self.0.iter().rev().find(|patch| patch.output.is_some());
        Content {
            input: input.and_then(|patch| patch.input.clone()),
            tool_definitions: input.and_then(|patch| patch.tool_definitions.clone()),
            output: output.and_then(|patch| patch.output.clone()),
            tool_calls: output.map_or_else(Vec::new, |patch| patch.tool_calls.clone()),
            metadata: self.metadata(),
            ..Content::default()
        }
    }

    /// The observation above; its own id means none.
    fn parent(&self, own: &ObservationId) -> Option<ObservationId> {
        let parent = self.last(|patch| patch.parent_id.as_ref());
        parent.filter(|parent| *parent != own).cloned()
    }
}

#[cfg(test)]
mod tests;
