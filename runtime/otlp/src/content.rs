//! Input and output: two lists of sources, chosen independently (otlp.md 2.7).
//!
//! Rows are numbered as in the specification; the first row that has something gives the value.

use perpend_domain::join::{
    DETAILS_ROW, EVENTS_ROW, EventContent, details_content, has_messages, is_present,
    message_content, with_system,
};
use perpend_domain::observation::ObservationKind as Kind;
use perpend_domain::payload::Payload;
use serde_json::{Map, Value as Json, json};

use crate::attributes::{any_json, default_json, to_content};
use crate::json;
use crate::messages;
use crate::model::Value;
use crate::source::Source;

/// A value and the row that gave it.
pub(crate) type Chosen = Option<(u8, Payload)>;

/// Input and output of a span.
pub(crate) fn input_and_output(source: &Source<'_>, kind: Kind) -> (Chosen, Chosen) {
    let events = source.events();
    let rows = Rows {
        source,
        kind,
        details: details(source, &events),
        messages: if events.is_empty() {
            EventContent::default()
        } else {
            message_content(&events)
        },
    };
    (rows.input(), rows.output())
}

/// Row 6 of span events; the span's own system instructions replace missing ones.
fn details(source: &Source<'_>, events: &[(&str, Map<String, Json>)]) -> EventContent {
    if events.is_empty() {
        return EventContent::default();
    }
    let mut content = details_content(events);
    let instructions = source.attributes.get(SYSTEM).map(default_json);
    content.input = content.input.map(|list| with_system(list, instructions.as_ref()));
    content
}

pub(crate) const SYSTEM: &str = "gen_ai.system_instructions";

struct Rows<'r, 's> {
    source: &'r Source<'s>,
    kind: Kind,
    details: EventContent,
    messages: EventContent,
}

/// By the default rule: JSON objects and arrays held as text become JSON.
fn default_payload(value: &Value<'_>) -> Payload {
    match value {
        Value::Text(text) | Value::Plain(text) => json::payload(text),
        other => Payload::from_value(other.to_json()),
    }
}

/// By the JSON-any rule.
fn any_payload(value: &Value<'_>) -> Payload {
    match value {
        Value::Text(text) | Value::Plain(text) => json::payload_any(text),
        other => Payload::from_value(other.to_json()),
    }
}

/// Whether a payload has content after parsing. An empty object counts: it may be the arguments of a tool without
/// parameters.
fn says_something(payload: &Payload) -> bool {
    match payload {
        Payload::Text(text) => !text.is_empty(),
        Payload::Json(json) => json != "null",
    }
}

impl Rows<'_, '_> {
    fn first(&self, keys: &[&str]) -> Option<Payload> {
        keys.iter().find_map(|key| self.one(key))
    }

    fn one(&self, key: &str) -> Option<Payload> {
        let payload = default_payload(self.source.attributes.get(key)?);
        says_something(&payload).then_some(payload)
    }

    fn any(&self, key: &str) -> Option<Payload> {
        let payload = any_payload(self.source.attributes.get(key)?);
        says_something(&payload).then_some(payload)
    }

    /// A message list with the adjacent system instructions.
    fn list(&self, value: Option<Json>) -> Option<Payload> {
        let value = value.filter(has_messages)?;
        let instructions = self.source.attributes.get(SYSTEM).map(default_json);
        Some(Payload::from_value(with_system(value, instructions.as_ref())))
    }

    fn plain_list(value: Option<Json>) -> Option<Payload> {
        value.filter(has_messages).map(Payload::from_value)
    }

    /// A message list sent as one attribute. Text without adjacent instructions is not parsed.
    fn sent_list(&self, key: &str, takes_system: bool) -> Option<Payload> {
        let attributes = self.source.attributes;
        let value = attributes.get(key)?;
        if takes_system && attributes.get(SYSTEM).is_some() {
            return self.list(Some(default_json(value)));
        }
        let (Value::Text(text) | Value::Plain(text)) = value else {
            return Self::plain_list(Some(value.to_json()));
        };
        let payload = json::payload(text);
        let is_empty = match &payload {
            Payload::Text(text) => text.is_empty(),
            Payload::Json(json) => !has_body(json),
        };
        (!is_empty).then_some(payload)
    }

    fn input(&self) -> Chosen {
        let attributes = self.source.attributes;
        if let Some(native) = attributes.native("observation.input") {
            return Some((1, default_payload(native)));
        }
        let row = |row: u8, payload: Option<Payload>| payload.map(|payload| (row, payload));
        row(2, self.genkit("genkit:input", "messages"))
            .or_else(|| row(3, self.ai_input()))
            .or_else(|| {
                row(
                    4,
                    self.flue(&[
                        "flue.turn.input",
                        "flue.tool.arguments",
                        "flue.task.prompt",
                        "flue.workflow.payload",
                    ]),
                )
            })
            .or_else(|| {
                let is_tool = self.kind == Kind::Tool;
                let keys = ["gen_ai.tool.call.arguments", "tool_arguments"];
                row(5, is_tool.then(|| self.first(&keys)).flatten())
            })
            .or_else(|| row(DETAILS_ROW, self.details.input.clone().map(Payload::from_value)))
            .or_else(|| row(7, self.sent_list("gen_ai.input.messages", true)))
            .or_else(|| row(EVENTS_ROW, self.list(self.messages.input.clone())))
            .or_else(|| row(9, self.content_event("gen_ai.content.prompt", "gen_ai.prompt")))
            .or_else(|| {
                row(
                    10,
                    self.vertex("gcp.vertex.agent.llm_request", "gcp.vertex.agent.tool_call_args"),
                )
            })
            .or_else(|| {
                let is_generation = self.kind == Kind::Generation;
                row(11, is_generation.then(|| self.flattened("llm.input_messages")).flatten())
            })
            .or_else(|| self.later_input())
    }

    /// Rows 12 to 23.
    fn later_input(&self) -> Chosen {
        let attributes = self.source.attributes;
        let row = |row: u8, payload: Option<Payload>| payload.map(|payload| (row, payload));
        let of_kind =
            |kind: Kind, keys: &[&str]| (self.kind == kind).then(|| self.first(keys)).flatten();
        row(12, of_kind(Kind::Retriever, &["gen_ai.retrieval.query.text", "reranker.query"]))
            .or_else(|| row(13, self.embedded_texts()))
            .or_else(|| row(14, self.one("input.value")))
            .or_else(|| row(15, self.any("mlflow.spanInputs")))
            .or_else(|| row(16, self.one("traceloop.entity.input")))
            .or_else(|| row(17, self.logfire_input()))
            .or_else(|| row(18, self.sent_list("pydantic_ai.all_messages", true)))
            .or_else(|| {
                row(19, self.first(&["lk.input_text", "lk.user_transcript", "lk.chat_ctx"]))
            })
            .or_else(|| row(20, self.list(messages::traceloop(attributes, "gen_ai.prompt"))))
            .or_else(|| row(21, self.flattened("llm.input_messages")))
            .or_else(|| {
                row(
                    22,
                    self.first(&[
                        "input",
                        "gen_ai.memory.query.text",
                        "gen_ai.task.input",
                        "haystack.component.input",
                        "haystack.pipeline.input_data",
                    ]),
                )
            })
            .or_else(|| row(22, of_kind(Kind::Tool, &["tool.parameters"])))
            .or_else(|| row(23, self.of_provider(&[".messages"])))
    }

    fn output(&self) -> Chosen {
        let attributes = self.source.attributes;
        if let Some(native) = attributes.native("observation.output") {
            return Some((1, default_payload(native)));
        }
        let row = |row: u8, payload: Option<Payload>| payload.map(|payload| (row, payload));
        row(2, self.genkit("genkit:output", "message"))
            .or_else(|| row(3, self.ai_output()))
            .or_else(|| {
                row(
                    4,
                    self.flue(&[
                        "flue.turn.output",
                        "flue.tool.result",
                        "flue.task.result",
                        "flue.operation.result",
                        "flue.workflow.result",
                    ]),
                )
            })
            .or_else(|| row(5, (self.kind == Kind::Tool).then(|| self.tool_result()).flatten()))
            .or_else(|| row(DETAILS_ROW, self.details.output.clone().map(Payload::from_value)))
            .or_else(|| row(7, self.sent_list("gen_ai.output.messages", false)))
            .or_else(|| row(EVENTS_ROW, self.messages.output.clone().map(Payload::from_value)))
            .or_else(|| {
                row(9, self.content_event("gen_ai.content.completion", "gen_ai.completion"))
            })
            .or_else(|| {
                row(
                    10,
                    self.vertex("gcp.vertex.agent.llm_response", "gcp.vertex.agent.tool_response"),
                )
            })
            .or_else(|| {
                let is_generation = self.kind == Kind::Generation;
                let list = || messages::openinference(attributes, "llm.output_messages");
                row(11, Self::plain_list(is_generation.then(list).flatten()))
            })
            .or_else(|| self.later_output())
    }

    /// Rows 12 to 23.
    fn later_output(&self) -> Chosen {
        let attributes = self.source.attributes;
        let row = |row: u8, payload: Option<Payload>| payload.map(|payload| (row, payload));
        row(12, (self.kind == Kind::Retriever).then(|| self.found_documents()).flatten())
            .or_else(|| row(13, self.vectors_note()))
            .or_else(|| row(14, self.one("output.value")))
            .or_else(|| row(15, self.any("mlflow.spanOutputs")))
            .or_else(|| row(16, self.one("traceloop.entity.output")))
            .or_else(|| row(17, self.logfire_output()))
            .or_else(|| row(18, self.one("final_result")))
            .or_else(|| row(19, self.first(&["lk.function_tool.output", "lk.response.text"])))
            .or_else(|| {
                row(20, Self::plain_list(messages::traceloop(attributes, "gen_ai.completion")))
            })
            .or_else(|| {
                row(
                    21,
                    Self::plain_list(messages::openinference(attributes, "llm.output_messages")),
                )
            })
            .or_else(|| {
                row(
                    22,
                    self.first(&[
                        "output",
                        "gen_ai.memory.records",
                        "gen_ai.task.output",
                        "haystack.component.output",
                        "haystack.pipeline.output_data",
                    ]),
                )
            })
            .or_else(|| row(23, self.of_provider(&[".choices", ".content"])))
    }

    fn flattened(&self, key: &str) -> Option<Payload> {
        self.list(messages::openinference(self.source.attributes, key))
    }

    /// Row 2: what Genkit wraps its messages into is removed.
    fn genkit(&self, key: &str, inner: &str) -> Option<Payload> {
        if self.source.scope.name != "genkit-tracer" {
            return None;
        }
        let value = any_json(self.source.attributes.get(key)?);
        let value = value.get(inner).filter(|v| is_present(v)).cloned().unwrap_or(value);
        is_present(&value).then(|| Payload::from_value(value))
    }

    fn is_ai_sdk(&self) -> bool {
        self.source.ai_operation.is_some() || self.source.scope.name == "ai"
    }

    /// Row 3, input.
    fn ai_input(&self) -> Option<Payload> {
        if !self.is_ai_sdk() {
            return None;
        }
        let values = || {
            let list = match self.source.attributes.get("ai.values")? {
                Value::Array(items) => Json::Array(items.iter().map(any_json).collect()),
                other => default_json(other),
            };
            Some(Payload::from_value(list))
        };
        self.sent_list("ai.prompt.messages", true)
            .or_else(|| self.one("ai.prompt"))
            .or_else(|| self.any("ai.toolCall.args"))
            .or_else(|| self.any("ai.value"))
            .or_else(values)
    }

    /// Row 3, output: text and tool calls together are one assistant message.
    fn ai_output(&self) -> Option<Payload> {
        if !self.is_ai_sdk() {
            return None;
        }
        let attributes = self.source.attributes;
        let text = attributes.first(&["ai.response.text", "ai.result.text"]);
        let calls = attributes
            .first(&["ai.response.toolCalls", "ai.result.toolCalls"])
            .map(default_json)
            .filter(is_present);
        let message = |content: Option<&Value<'_>>, calls: Json| {
            let mut message = json!({ "role": "assistant" });
            if let Some(content) = content {
                message["content"] = default_json(content);
            }
            message["tool_calls"] = calls;
            Payload::from_value(message)
        };
        match (text, calls) {
            (Some(text), Some(calls)) => Some(message(Some(text), calls)),
            (Some(text), None) => Some(default_payload(text)),
            (None, calls) => self
                .any("ai.toolCall.result")
                .or_else(|| self.any("ai.response.object"))
                .or_else(|| self.any("ai.result.object"))
                .or_else(|| calls.map(|calls| message(None, calls))),
        }
    }

    /// Row 10: tool spans contain an empty model call in addition to the tool call.
    fn vertex(&self, model_call: &str, tool_call: &str) -> Option<Payload> {
        self.one(model_call)
            .filter(|payload| payload.as_str() != "{}")
            .or_else(|| self.one(tool_call))
    }

    fn flue(&self, keys: &[&str]) -> Option<Payload> {
        let is_flue = self.source.scope.name == "@flue/opentelemetry";
        is_flue.then(|| self.first(keys)).flatten()
    }

    /// Row 5, output: a result that begins with a quote is a JSON string.
    fn tool_result(&self) -> Option<Payload> {
        let is_quoted = self
            .source
            .attributes
            .text("gen_ai.tool.call.result")
            .is_some_and(|text| text.trim_start().starts_with('"'));
        let result = if is_quoted {
            self.any("gen_ai.tool.call.result")
        } else {
            self.one("gen_ai.tool.call.result")
        };
        result.or_else(|| self.one("tool_response"))
    }

    /// Row 9: one attribute of the event, plain or flattened, else all of them.
    fn content_event(&self, name: &str, key: &str) -> Option<Payload> {
        let event = self.source.span.events.iter().find(|event| event.name == name)?;
        let attributes = crate::attributes::Attributes::new(&event.attributes.pairs);
        let value = messages::traceloop(&attributes, key)
            .unwrap_or_else(|| Json::Object(to_content(&event.attributes.pairs)));
        is_present(&value).then(|| Payload::from_value(value))
    }

    /// Row 12, output.
    fn found_documents(&self) -> Option<Payload> {
        let attributes = self.source.attributes;
        messages::documents(attributes, "retrieval.documents")
            .or_else(|| messages::documents(attributes, "reranker.output_documents"))
            .map(Payload::from_value)
            .or_else(|| self.one("gen_ai.retrieval.documents"))
    }

    /// Row 13, input.
    fn embedded_texts(&self) -> Option<Payload> {
        if self.kind != Kind::Embedding {
            return None;
        }
        let prefix = "embedding.embeddings.";
        let mut texts: Vec<(usize, Json)> = self
            .source
            .attributes
            .with_prefix(prefix)
            .iter()
            .filter_map(|entry| {
                let index = entry.key[prefix.len()..].strip_suffix(".embedding.text")?;
                Some((index.parse().ok()?, entry.value.to_json()))
            })
            .collect();
        texts.sort_by_key(|(index, _)| *index);
        let texts: Vec<Json> = texts.into_iter().map(|(_, text)| text).collect();
        (!texts.is_empty()).then(|| Payload::from_value(Json::Array(texts)))
    }

    /// Row 13, output: how many vectors of how many dimensions. The vectors themselves are dropped.
    fn vectors_note(&self) -> Option<Payload> {
        let is_ai_embed = self.source.ai_operation.is_some_and(|op| op.starts_with("ai.embed"));
        if self.kind != Kind::Embedding && !is_ai_embed {
            return None;
        }
        let attributes = self.source.attributes;
        let mut lengths: Vec<usize> = attributes
            .with_prefix("embedding.embeddings.")
            .iter()
            .filter(|entry| entry.key.ends_with(".embedding.vector"))
            .filter_map(|entry| vector_length(entry.value))
            .collect();
        if lengths.is_empty() {
            if let Some(vector) = attributes.get("ai.embedding") {
                lengths.extend(vector_length(vector));
            } else if let Some(Value::Array(vectors)) = attributes.get("ai.embeddings") {
                lengths.extend(vectors.iter().filter_map(vector_length));
            }
        }
        let dimensions = lengths.first()?;
        Some(Payload::from_value(json!({ "count": lengths.len(), "dimensions": dimensions })))
    }

    /// Row 17, input.
    fn logfire_input(&self) -> Option<Payload> {
        if !self.source.is_logfire() {
            return None;
        }
        self.one("prompt")
            .or_else(|| self.inside("request_data", &["messages", "input", "prompt"]))
            .or_else(|| self.logfire_events(false))
    }

    /// Row 17, output.
    fn logfire_output(&self) -> Option<Payload> {
        if !self.source.is_logfire() {
            return None;
        }
        self.sent_list("all_messages_events", false)
            .or_else(|| self.inside("response_data", &["message"]))
            .or_else(|| self.logfire_events(true))
    }

    /// The member of an object attribute, else the whole value.
    fn inside(&self, key: &str, members: &[&str]) -> Option<Payload> {
        let value = default_json(self.source.attributes.get(key)?);
        let member =
            members.iter().find_map(|member| value.get(member).filter(|v| is_present(v))).cloned();
        let value = member.unwrap_or(value);
        is_present(&value).then(|| Payload::from_value(value))
    }

    /// Logfire's own list of events, with or without the choice.
    fn logfire_events(&self, wants_choice: bool) -> Option<Payload> {
        let Json::Array(events) = default_json(self.source.attributes.get("events")?) else {
            return None;
        };
        let mut kept: Vec<Json> = events
            .into_iter()
            .filter(|event| (event["event.name"] == "gen_ai.choice") == wants_choice)
            .collect();
        match (kept.len(), wants_choice) {
            (0, _) => None,
            (1, true) => kept.pop().map(Payload::from_value),
            _ => Some(Payload::from_value(Json::Array(kept))),
        }
    }

    /// Row 23: `llm.<provider>.messages` and the like.
    fn of_provider(&self, endings: &[&str]) -> Option<Payload> {
        let entries = self.source.attributes.with_prefix("llm.");
        endings.iter().find_map(|ending| {
            let found = entries.iter().find(|entry| {
                let provider = entry.key["llm.".len()..].strip_suffix(ending);
                let is_one_word = provider.is_some_and(|p| !p.is_empty() && !p.contains('.'));
                is_one_word && entry.value.is_present()
            })?;
            Some(default_payload(found.value))
        })
    }
}

/// Length of a vector sent as array or as JSON text.
fn vector_length(value: &Value<'_>) -> Option<usize> {
    match value {
        Value::Array(items) => Some(items.len()),
        Value::Text(text) => match json::parse(text)? {
            json::Node::Array(items) => Some(items.len()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether compact JSON is a message list with something in it, or no message list at all.
fn has_body(text: &str) -> bool {
    // Nearly every message has its text or parts; only what seems empty is looked at closely.
    let seems_full = text.contains("\"content\":\"") && !text.contains("\"content\":\"\"");
    seems_full || json::parse(text).is_none_or(|node| has_messages(&node.to_json()))
}
