//! GenAI events that carry the content of a model call: span events, and log records that arrive on
//! their own (otlp.md 2.7 rows 6 and 8, 2.17).

use std::borrow::Borrow;

pub use crate::content::bodies::{has_messages, is_present};
use crate::content::is_system_message;
use serde_json::{Map, Value, json};

use crate::batch::SpanLog;
use crate::observation::{Observation, ToolCall};
use crate::payload::Payload;

/// The event that carries whole message lists.
pub const OPERATION_DETAILS: &str = "gen_ai.client.inference.operation.details";
/// The event that carries one answer.
pub const CHOICE: &str = "gen_ai.choice";
/// The event that carries a score.
pub const EVALUATION_RESULT: &str = "gen_ai.evaluation.result";
/// The row of the input and output table that [`OPERATION_DETAILS`] feeds.
pub const DETAILS_ROW: u8 = 6;
/// The row that the message events feed.
pub const EVENTS_ROW: u8 = 8;
/// Attributes that identify the sender of an event, not its content.
const LEFT_OUT: [&str; 3] = ["gen_ai.system", "gen_ai.provider.name", "event.name"];

/// The role of a message event; `None` for other events.
#[must_use]
pub fn message_role(event: &str) -> Option<&'static str> {
    match event {
        "gen_ai.system.message" => Some("system"),
        "gen_ai.user.message" => Some("user"),
        "gen_ai.assistant.message" => Some("assistant"),
        "gen_ai.tool.message" => Some("tool"),
        _ => None,
    }
}

/// Input and output of row 6 or row 8, each absent when no event of that row has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventContent {
    /// The chosen input.
    pub input: Option<Value>,
    /// The chosen output.
    pub output: Option<Value>,
}

/// Row 6: the message lists of the first operation details event that has them.
#[must_use]
pub fn details_content<M: Borrow<Map<String, Value>>>(events: &[(&str, M)]) -> EventContent {
    let mut content = EventContent::default();
    for (_, attributes) in events.iter().filter(|(name, _)| *name == OPERATION_DETAILS) {
        let attributes = attributes.borrow();
        let list = |key: &str| {
            let value = parsed(attributes.get(key)?);
            has_messages(&value).then_some(value)
        };
        if content.input.is_none() {
            content.input = list("gen_ai.input.messages").map(|messages| {
                with_system(messages, attributes.get("gen_ai.system_instructions"))
            });
        }
        if content.output.is_none() {
            content.output = list("gen_ai.output.messages");
        }
    }
    content
}

/// Row 8: one message per event in order; the choices.
#[must_use]
pub fn message_content<M: Borrow<Map<String, Value>>>(events: &[(&str, M)]) -> EventContent {
    let mut messages = Vec::new();
    let mut choices = Vec::new();
    for (name, attributes) in events {
        let attributes = attributes.borrow();
        let kept = attributes
            .iter()
            .filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), parsed(value)));
        if let Some(role) = message_role(name) {
            let mut message = Map::new();
            message.insert("role".to_owned(), role.into());
            message.extend(kept);
            messages.push(Value::Object(message));
        } else if *name == CHOICE {
            let choice: Map<String, Value> = kept.collect();
            // An event without attributes falls back to the next source.
            choices.extend((!choice.is_empty()).then_some(Value::Object(choice)));
        }
    }
    let input = Value::Array(messages);
    EventContent {
        input: has_messages(&input).then_some(input),
        output: match choices.len() {
            0 => None,
            1 => choices.pop(),
            _ => Some(Value::Array(choices)),
        },
    }
}

/// Puts log records onto their observation, all that are known of it, in any order of arrival among
/// equal times. Joining again, with the same or with more records, gives the same as joining once.
pub fn join_logs(observation: &mut Observation, logs: &[SpanLog]) {
    let mut logs: Vec<&SpanLog> = logs
        .iter()
        .filter(|log| log.observation_id == observation.id && log.trace_id == observation.trace_id)
        .collect();
    logs.sort_by_key(|log| log.time);
    let events: Vec<(&str, &Map<String, Value>)> =
        logs.iter().map(|log| (log.event.as_str(), &log.attributes)).collect();
    let details = details_content(&events);
    let messages = message_content(&events);
    let content = &mut observation.content;
    let had_output = content.output.clone();
    let instructions = content.system_instructions.clone();
    let with_instructions = |list| with_system(list, instructions.as_ref());
    for (row, mut found) in [(DETAILS_ROW, details), (EVENTS_ROW, messages)] {
        found.input = found.input.map(with_instructions);
        take(found.input, row, &mut content.input, &mut content.input_row);
        take(found.output, row, &mut content.output, &mut content.output_row);
    }
    if content.output != had_output {
        content.tool_calls = ToolCall::all_in(content.output.as_ref());
        let names = content.tool_calls.iter().map(|call| call.name.clone());
        observation.called_tools = names.collect();
    }
    observation.has_content = content.input.is_some() || content.output.is_some();
}

/// Sets `slot` unless its value is from an earlier row. A value of the same row is replaced, since more records may have arrived.
fn take(value: Option<Value>, row: u8, slot: &mut Option<Payload>, slot_row: &mut u8) {
    let is_better = slot.is_none() || row <= *slot_row;
    if let (true, Some(value)) = (is_better, value) {
        *slot = Some(Payload::from_value(value));
        *slot_row = row;
    }
}

/// JSON held as text, by the default rule of otlp.md 2.3: objects and arrays are parsed, else the text stays.
fn parsed(value: &Value) -> Value {
    match value {
        Value::String(text) if text.trim_start().starts_with(['{', '[']) => {
            serde_json::from_str(text).unwrap_or_else(|_| value.clone())
        }
        other => other.clone(),
    }
}

/// The list with a first system message made of the instructions, unless it has a system message.
#[must_use]
pub fn with_system(messages: Value, instructions: Option<&Value>) -> Value {
    let Some(instructions) = instructions.filter(|value| is_present(value)) else {
        return messages;
    };
    let Value::Array(mut list) = messages else {
        return messages;
    };
    let is_list = list.iter().all(Value::is_object);
    let has_system = list.iter().any(is_system_message);
    if !is_list || has_system {
        return Value::Array(list);
    }
    list.insert(0, json!({ "role": "system", "parts": text_parts(parsed(instructions)) }));
    Value::Array(list)
}

/// System instructions as message parts: bare strings become text parts.
#[must_use]
pub fn text_parts(instructions: Value) -> Value {
    let part = |value: Value| match value {
        Value::String(text) => json!({ "type": "text", "content": text }),
        other => other,
    };
    match instructions {
        Value::Array(parts) => Value::Array(parts.into_iter().map(part).collect()),
        other => Value::Array(vec![part(other)]),
    }
}
