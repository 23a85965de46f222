//! User metadata and attributes that no other rule consumes (otlp.md 2.12, 2.16).

use perpend_domain::memory;
use serde_json::{Map, Value as Json};

use crate::attributes::{Attributes, any_json, default_json};
use crate::consumed::is_consumed;
use crate::limits::{Limits, MAX_DEPTH, MAX_NUMBERS, cut_bytes};
use crate::model::{Attributed, Event, Link, Pairs, Scope, Value, to_object};
use crate::notes::Notes;
use crate::source::Source;
use crate::times::timestamp;

/// The metadata of a resource and scope, shared by all their spans: built once, within the limits.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    resource: Map<String, Json>,
    scope: Map<String, Json>,
    /// Notices about truncated values.
    pub(crate) notes: Notes,
    resource_notes: Notes,
    /// Memory that a copy takes.
    pub(crate) n_bytes: usize,
}

impl Shared {
    pub(crate) fn of_resource(pairs: &Pairs<'_>, limits: &Limits) -> Self {
        let mut shared = Self::default();
        let members = to_object(pairs);
        shared.resource =
            within_limits("resourceAttributes", members, limits, &mut shared.resource_notes);
        shared.notes = shared.resource_notes.clone();
        shared.n_bytes = memory::of_members(&shared.resource);
        shared
    }

    pub(crate) fn enter(&mut self, scope: &Scope<'_>, limits: &Limits) {
        self.notes = self.resource_notes.clone();
        self.scope = within_limits("scope", scope_json(scope), limits, &mut self.notes);
        self.n_bytes = memory::of_members(&self.resource) + memory::of_members(&self.scope);
    }
}

/// Metadata of this one member within the limits; nothing when it is empty.
fn within_limits(
    name: &str,
    members: Map<String, Json>,
    limits: &Limits,
    notes: &mut Notes,
) -> Map<String, Json> {
    let mut metadata = Map::new();
    if !members.is_empty() {
        metadata.insert(name.to_owned(), Json::Object(members));
        limit(&mut metadata, "", limits, notes);
    }
    metadata
}

fn scope_json(scope: &Scope<'_>) -> Map<String, Json> {
    let mut json = Map::new();
    for (key, text) in [("name", &scope.name), ("version", &scope.version)] {
        if !text.is_empty() {
            json.insert(key.to_owned(), Json::String(text.as_ref().to_owned()));
        }
    }
    add_attributes(&scope.attributes, &mut json);
    json
}

/// Keys that are user, session, tags or prompt link wherever metadata carries them.
const RESERVED_NATIVE: [&str; 3] = ["langfuse_user_id", "langfuse_session_id", "langfuse_tags"];

/// The native metadata of an observation (`observation.metadata`, `metadata`) or a trace.
fn add_native(
    source: &Source<'_>,
    prefixes: &[&str],
    wants_whole: bool,
    into: &mut Map<String, Json>,
) {
    let attributes = source.attributes;
    if attributes.natives().is_empty() {
        return;
    }
    for prefix in prefixes {
        if wants_whole {
            match attributes.native(prefix.trim_end_matches('.')) {
                Some(value) => match decoded(source, value) {
                    Json::Object(object) => into.extend(object),
                    other => {
                        into.insert("metadata".to_owned(), other);
                    }
                },
                None => continue,
            }
            continue;
        }
        for entry in in_order(attributes.native_with_prefix(prefix)) {
            let key = &entry.key[prefix.len()..];
            if key.is_empty() || RESERVED_NATIVE.contains(&key) || *entry.value == Value::Absent {
                continue;
            }
            into.insert(key.to_owned(), decoded(source, entry.value));
        }
    }
}

/// A native metadata value, by the rule for the SDK that sent it.
fn decoded(source: &Source<'_>, value: &Value<'_>) -> Json {
    if source.encodes_metadata { any_json(value) } else { default_json(value) }
}

fn in_order<'s>(entries: &[crate::attributes::Entry<'s>]) -> Vec<crate::attributes::Entry<'s>> {
    let mut entries = entries.to_vec();
    entries.sort_unstable_by_key(|entry| entry.order());
    entries
}

/// Native trace metadata.
pub(crate) fn of_trace(source: &Source<'_>) -> Map<String, Json> {
    let mut metadata = Map::new();
    add_native(source, &["trace.metadata."], true, &mut metadata);
    add_native(source, &["trace.metadata."], false, &mut metadata);
    metadata
}

/// Metadata with a dotted prefix each, and the keys below it that belong elsewhere.
const PREFIXED: [(&str, &[&str]); 3] = [
    ("traceloop.association.properties.", &["user_id", "session_id"]),
    (
        "ai.telemetry.metadata.",
        &["langfusePrompt", "userId", "user_id", "sessionId", "session_id", "tags"],
    ),
    ("langsmith.metadata.", &[]),
];

/// Later lines overwrite earlier ones.
fn user_keys(source: &Source<'_>) -> Map<String, Json> {
    let attributes = source.attributes;
    let mut metadata = Map::new();
    add_native(source, &["metadata.", "observation.metadata."], true, &mut metadata);
    if let Some(object) = attributes.object("metadata") {
        metadata.extend(object);
    }
    for (prefix, reserved) in PREFIXED {
        for entry in in_order(attributes.with_prefix(prefix)) {
            let key = &entry.key[prefix.len()..];
            if !key.is_empty() && !reserved.contains(&key) && *entry.value != Value::Absent {
                metadata.insert(key.to_owned(), default_json(entry.value));
            }
        }
    }
    add_native(source, &["metadata.", "observation.metadata."], false, &mut metadata);
    metadata
}

/// All metadata of an observation in its stored layout.
pub(crate) fn of_observation(source: &Source<'_>, shared: &Shared) -> Map<String, Json> {
    let span = source.span;
    let mut metadata = user_keys(source);
    let mut add = |key: &str, value: Json| {
        // A user key of the same name wins.
        if !metadata.contains_key(key) {
            metadata.insert(key.to_owned(), value);
        }
    };
    let attributes = leftovers(source);
    if !attributes.is_empty() {
        add("attributes", Json::Object(attributes));
    }
    for (key, value) in shared.resource.iter().chain(&shared.scope) {
        add(key, value.clone());
    }
    let events: Vec<Json> =
        span.events.iter().filter(|event| !is_consumed(&event.name)).map(event_json).collect();
    if !events.is_empty() {
        add("events", Json::Array(events));
    }
    let links: Vec<Json> = span.links.iter().filter_map(link_json).collect();
    if !links.is_empty() {
        add("links", Json::Array(links));
    }
    for (key, n_by_sender, n_here) in [
        ("droppedAttributesCount", span.n_dropped_attributes, span.attributes.n_over),
        ("droppedEventsCount", span.n_dropped_events, span.n_over_events),
        ("droppedLinksCount", span.n_dropped_links, span.n_over_links),
    ] {
        let n = n_by_sender.saturating_add(n_here);
        if n > 0 {
            add(key, n.into());
        }
    }
    metadata
}

fn event_json(event: &Event<'_>) -> Json {
    let mut json = Map::new();
    json.insert("name".to_owned(), event.name.as_ref().into());
    if let Some(at) = timestamp(event.time_nanos) {
        json.insert("time".to_owned(), at.to_iso_micros().into());
    }
    add_attributes(&event.attributes, &mut json);
    Json::Object(json)
}

fn link_json(link: &Link<'_>) -> Option<Json> {
    let mut json = Map::new();
    json.insert("traceId".to_owned(), link.trace_id.to_hex()?.into());
    json.insert("spanId".to_owned(), link.span_id.to_hex()?.into());
    add_attributes(&link.attributes, &mut json);
    Some(Json::Object(json))
}

fn add_attributes(attributes: &Attributed<'_>, json: &mut Map<String, Json>) {
    if !attributes.pairs.is_empty() {
        let object = Json::Object(to_object(&attributes.pairs));
        json.insert("attributes".to_owned(), object);
    }
    if attributes.n_over > 0 {
        json.insert("droppedAttributesCount".to_owned(), attributes.n_over.into());
    }
}

/// Span attributes that no rule reads as content, metadata, user, session, tags or tool definitions.
fn leftovers(source: &Source<'_>) -> Map<String, Json> {
    if source.scope.name.starts_with("langfuse-sdk") {
        return Map::new();
    }
    let attributes: &Attributes<'_> = source.attributes;
    let mut left = Map::with_capacity(attributes.plain().len());
    for entry in attributes.plain() {
        if *entry.value != Value::Absent && !is_read(source, entry.key) {
            left.insert(entry.key.to_owned(), noted(entry.value));
        }
    }
    for entry in attributes.natives() {
        if *entry.value != Value::Absent && !is_native_content(entry.key) {
            left.insert(format!("{}{}", entry.prefix, entry.key), noted(entry.value));
        }
    }
    left
}

/// Whether a rule reads the attribute of this span, as content or as metadata.
fn is_read(source: &Source<'_>, key: &str) -> bool {
    is_content_key(key)
        && match key {
            "prompt" | "request_data" | "response_data" | "events" | "all_messages_events" => {
                source.is_logfire()
            }
            "metadata" => source.attributes.object(key).is_some(),
            _ => true,
        }
}

/// A value in which long number arrays are replaced by a note of their length.
fn noted(value: &Value<'_>) -> Json {
    match value {
        Value::Array(items) if items.len() > MAX_NUMBERS && items.iter().all(is_number) => {
            format!("[{} numbers]", items.len()).into()
        }
        Value::Array(items) => Json::Array(items.iter().map(noted).collect()),
        Value::Map(members) => {
            let present = members.iter().filter(|(_, value)| *value != Value::Absent);
            let noted = present.map(|(key, value)| (key.as_ref().to_owned(), noted(value)));
            Json::Object(noted.collect())
        }
        other => other.to_json(),
    }
}

const fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Double(_))
}

fn is_native_content(suffix: &str) -> bool {
    const EXACT: [&str; 15] = [
        "metadata",
        "observation.input",
        "observation.metadata",
        "observation.output",
        "public",
        "session.id",
        "tags",
        "trace.input",
        "trace.metadata",
        "trace.output",
        "trace.public",
        "trace.session_id",
        "trace.tags",
        "trace.user_id",
        "user.id",
    ];
    EXACT.binary_search(&suffix).is_ok()
        || ["metadata.", "observation.metadata.", "trace.metadata."]
            .iter()
            .any(|prefix| suffix.starts_with(prefix))
}

/// Sorted, for binary search.
const CONTENT_KEYS: [&str; 87] = [
    "ai.embedding",
    "ai.embeddings",
    "ai.prompt",
    "ai.prompt.messages",
    "ai.prompt.tools",
    "ai.response.object",
    "ai.response.text",
    "ai.response.toolCalls",
    "ai.result.object",
    "ai.result.text",
    "ai.result.toolCalls",
    "ai.toolCall.args",
    "ai.toolCall.result",
    "ai.value",
    "ai.values",
    "all_messages_events",
    "enduser.id",
    "events",
    "final_result",
    "flue.operation.result",
    "flue.task.prompt",
    "flue.task.result",
    "flue.tool.arguments",
    "flue.tool.result",
    "flue.turn.input",
    "flue.turn.output",
    "flue.workflow.payload",
    "flue.workflow.result",
    "gcp.vertex.agent.llm_request",
    "gcp.vertex.agent.llm_response",
    "gcp.vertex.agent.tool_call_args",
    "gcp.vertex.agent.tool_response",
    "gen_ai.completion",
    "gen_ai.conversation.id",
    "gen_ai.input.messages",
    "gen_ai.memory.query.text",
    "gen_ai.memory.records",
    "gen_ai.output.messages",
    "gen_ai.prompt",
    "gen_ai.retrieval.documents",
    "gen_ai.retrieval.query.text",
    "gen_ai.system_instructions",
    "gen_ai.task.input",
    "gen_ai.task.output",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.tool.definitions",
    "gen_ai.user",
    "genkit:input",
    "genkit:output",
    "haystack.component.input",
    "haystack.component.output",
    "haystack.pipeline.input_data",
    "haystack.pipeline.output_data",
    "input",
    "input.value",
    "langsmith.span.tags",
    "lk.chat_ctx",
    "lk.function_tool.output",
    "lk.input_text",
    "lk.response.text",
    "lk.user_transcript",
    "llm.input_messages",
    "llm.output_messages",
    "llm.user",
    "metadata",
    "mlflow.chat.tools",
    "mlflow.spanInputs",
    "mlflow.spanOutputs",
    "model_request_parameters",
    "output",
    "output.value",
    "prompt",
    "pydantic_ai.all_messages",
    "request_data",
    "reranker.output_documents",
    "reranker.query",
    "response_data",
    "retrieval.documents",
    "session.id",
    "tag.tags",
    "tool.parameters",
    "tool_arguments",
    "tool_response",
    "traceloop.entity.input",
    "traceloop.entity.output",
    "user.id",
];

fn is_content_key(key: &str) -> bool {
    const PREFIXES: [&str; 11] = [
        "ai.telemetry.metadata.",
        "embedding.embeddings.",
        "langsmith.metadata.",
        "llm.input_messages.",
        "llm.output_messages.",
        "llm.request.functions.",
        "llm.tools.",
        "reranker.output_documents.",
        "retrieval.documents.",
        "traceloop.association.properties.",
        "evaluations.",
    ];
    if CONTENT_KEYS.binary_search(&key).is_ok() {
        return true;
    }
    let first = key.as_bytes().first();
    PREFIXES.iter().any(|prefix| prefix.as_bytes().first() == first && key.starts_with(prefix))
        || is_flattened_message(key)
        || is_provider_content(key)
}

/// `gen_ai.prompt.0.role`, but not `gen_ai.prompt.name`. A field without an index may be next to a list
/// without being part of it: it stays here too.
fn is_flattened_message(key: &str) -> bool {
    let prompt = key.strip_prefix("gen_ai.prompt.");
    let path = prompt.or_else(|| key.strip_prefix("gen_ai.completion."));
    path.is_some_and(|path| path.starts_with(|c: char| c.is_ascii_digit()))
}

/// `llm.<provider>.messages` and the like.
fn is_provider_content(key: &str) -> bool {
    key.strip_prefix("llm.")
        .and_then(|rest| rest.split_once('.'))
        .is_some_and(|(_, last)| matches!(last, "messages" | "choices" | "content"))
}

/// Cuts what is over the limits, and notes it by its path behind this prefix.
pub(crate) fn limit(
    metadata: &mut Map<String, Json>,
    prefix: &str,
    limits: &Limits,
    notes: &mut Notes,
) {
    for (key, value) in &*metadata {
        if values_of(key, value).any(|value| is_deep_value(value, 0)) {
            notes.cut_levels(&format!("{prefix}{key}"), MAX_DEPTH);
        }
    }
    // A JSON text is never shorter than what it holds, so small metadata is settled by one look.
    let mut total: usize = metadata.iter().map(|(key, value)| key.len() + json_size(value)).sum();
    if total <= limits.max_metadata_value_bytes {
        return;
    }
    let mut cut = Map::new();
    let max = limits.max_metadata_value_bytes;
    for (key, value) in &mut *metadata {
        match value {
            // The describing parts hold many values: each has the limit for itself.
            Json::Object(members)
                if matches!(key.as_str(), "attributes" | "resourceAttributes") =>
            {
                for (name, value) in members {
                    cut_value(value, max, &format!("{key}.{name}"), &mut cut);
                }
            }
            Json::Array(items) if matches!(key.as_str(), "events" | "links") => {
                for (at, item) in items.iter_mut().enumerate() {
                    cut_value(item, max, &format!("{key}.{at}"), &mut cut);
                }
            }
            value => cut_value(value, max, key, &mut cut),
        }
    }
    total = metadata.iter().map(|(key, value)| key.len() + json_size(value)).sum();
    if total > limits.max_metadata_bytes {
        drop_largest(metadata, total - limits.max_metadata_bytes, &mut cut);
    }
    for (field, size) in cut {
        let size = size.as_u64().and_then(|size| usize::try_from(size).ok());
        notes.cut(&format!("{prefix}{field}"), size.unwrap_or(usize::MAX));
    }
}

/// The values that were decoded one by one: of a describing part, those in it.
fn values_of<'m>(key: &str, value: &'m Json) -> impl Iterator<Item = &'m Json> {
    let members = |value: &'m Json| value.as_object().map(|members| members.values());
    let attributes = |value: &'m Json| value.get("attributes").and_then(members);
    let values: Vec<&Json> = match key {
        "attributes" | "resourceAttributes" => members(value).into_iter().flatten().collect(),
        "scope" => attributes(value).into_iter().flatten().collect(),
        "events" | "links" => {
            let items = value.as_array().into_iter().flatten();
            items.filter_map(attributes).flatten().collect()
        }
        _ => vec![value],
    };
    values.into_iter()
}

/// Whether a value is as deep as is kept, with a null in the place of a deeper level.
fn is_deep_value(value: &Json, depth: usize) -> bool {
    match value {
        Json::Null => depth == MAX_DEPTH,
        Json::Array(items) => items.iter().any(|item| is_deep_value(item, depth + 1)),
        Json::Object(members) => members.values().any(|item| is_deep_value(item, depth + 1)),
        _ => false,
    }
}

fn cut_value(value: &mut Json, max: usize, name: &str, cut: &mut Map<String, Json>) {
    let size = json_size(value);
    if size <= max {
        return;
    }
    let text = match value.take() {
        Json::String(text) => text,
        other => other.to_string(),
    };
    *value = Json::String(cut_bytes(&text, max).to_owned());
    cut.insert(name.to_owned(), size.into());
}

/// Drops the largest attributes first, then the largest of anything.
fn drop_largest(metadata: &mut Map<String, Json>, mut excess: usize, cut: &mut Map<String, Json>) {
    if let Some(Json::Object(attributes)) = metadata.get_mut("attributes") {
        excess = drop_from(attributes, excess, "attributes.", cut);
    }
    if excess > 0 {
        drop_from(metadata, excess, "", cut);
    }
}

fn drop_from(
    members: &mut Map<String, Json>,
    mut excess: usize,
    prefix: &str,
    cut: &mut Map<String, Json>,
) -> usize {
    let mut sizes: Vec<(usize, String)> =
        members.iter().map(|(key, value)| (key.len() + json_size(value), key.clone())).collect();
    sizes.sort_by(|a, b| b.cmp(a));
    for (size, key) in sizes {
        if excess == 0 {
            break;
        }
        members.shift_remove(&key);
        cut.insert(format!("{prefix}{key}"), size.into());
        excess = excess.saturating_sub(size);
    }
    excess
}

/// About the length of the JSON text.
fn json_size(value: &Json) -> usize {
    match value {
        Json::Null | Json::Bool(_) => 4,
        Json::Number(_) => 8,
        Json::String(text) => text.len() + 2,
        Json::Array(items) => items.iter().map(|item| json_size(item) + 1).sum::<usize>() + 2,
        Json::Object(members) => {
            members.iter().map(|(key, value)| key.len() + 4 + json_size(value)).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_content_keys_is_sorted() {
        assert!(CONTENT_KEYS.is_sorted());
        assert!(is_content_key("llm.openai.messages") && is_content_key("gen_ai.prompt.0.role"));
        assert!(!is_content_key("gen_ai.prompt.name") && !is_content_key("llm.model_name"));
    }
}
