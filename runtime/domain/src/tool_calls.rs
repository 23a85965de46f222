//! Tool calls inside an output, in the shapes that providers and libraries write (otlp.md 2.7).

use serde_json::{Map, Value};

use crate::observation::ToolCall;
use crate::payload::Payload;

/// How deep calls are looked for in an output.
const MAX_DEPTH: usize = 10;
/// Calls kept of one output.
const MAX_CALLS: usize = 1_000;
/// Every shape of a call holds one of these words.
const MARKERS: [&str; 2] = ["tool", "function_call"];

/// How arguments held as text become a value.
type Parse = fn(&str) -> Value;

/// The tool calls of an output, in order. Arguments that are JSON held as text go through `parse`.
#[must_use]
pub fn tool_calls(output: Option<&Payload>, parse: Parse) -> Vec<ToolCall> {
    let mut calls = Vec::new();
    if let Some(Payload::Json(text)) = output
        && MARKERS.iter().any(|marker| text.contains(marker))
        && let Ok(value) = serde_json::from_str(text)
    {
        collect(&value, 0, parse, &mut calls);
    }
    calls
}

fn collect(value: &Value, depth: usize, parse: Parse, calls: &mut Vec<ToolCall>) {
    if depth > MAX_DEPTH || calls.len() >= MAX_CALLS {
        return;
    }
    match value {
        Value::Array(items) => {
            for item in items {
                collect(item, depth + 1, parse, calls);
            }
        }
        Value::Object(members) => {
            if let Some(call) = part_call(members, parse) {
                calls.push(call);
                return;
            }
            let n_before = calls.len();
            for (key, inner) in members {
                match (key.as_str(), inner) {
                    ("tool_calls" | "toolCalls", Value::Array(list)) => {
                        calls.extend(list.iter().filter_map(|call| listed_call(call, parse)));
                    }
                    ("function_call", Value::Object(_)) => calls.extend(listed_call(inner, parse)),
                    ("tool_call", Value::Object(_)) if is_of_type(members, "tool_use") => {
                        calls.extend(listed_call(inner, parse));
                    }
                    _ => collect(inner, depth + 1, parse, calls),
                }
            }
            if members.contains_key("tool_calls") {
                leave_out_repeats(calls, n_before);
            }
        }
        _ => {}
    }
}

fn is_of_type(members: &Map<String, Value>, kind: &str) -> bool {
    members.get("type").is_some_and(|own| own == kind)
}

/// Leaves out the calls of one message that are told twice: as parts of its content and in its list.
fn leave_out_repeats(calls: &mut Vec<ToolCall>, first: usize) {
    for call in calls.split_off(first) {
        if call.id.is_none() || !calls[first..].contains(&call) {
            calls.push(call);
        }
    }
}

/// A part of a message that is a call: GenAI, Anthropic, AI SDK.
fn part_call(members: &Map<String, Value>, parse: Parse) -> Option<ToolCall> {
    match members.get("type").and_then(Value::as_str) {
        Some("tool_call" | "tool_use" | "tool-call" | "function_call") => call_of(members, parse),
        _ if members.contains_key("toolName") && members.contains_key("toolCallId") => {
            let is_result = members.contains_key("output") || members.contains_key("result");
            (!is_result).then(|| call_of(members, parse)).flatten()
        }
        _ => None,
    }
}

/// An entry of `tool_calls`.
fn listed_call(value: &Value, parse: Parse) -> Option<ToolCall> {
    call_of(value.as_object()?, parse)
}

fn call_of(members: &Map<String, Value>, parse: Parse) -> Option<ToolCall> {
    let inner = members
        .get("function")
        .and_then(Value::as_object)
        .unwrap_or(members);
    let text = |from: &Map<String, Value>, keys: &[&str]| {
        let found = keys.iter().find_map(|key| from.get(*key)?.as_str())?;
        (!found.is_empty()).then(|| found.to_owned())
    };
    let name = text(inner, &["name", "toolName"])?;
    let arguments = ["arguments", "input", "args"]
        .iter()
        .find_map(|key| inner.get(*key))
        .cloned()
        .unwrap_or(Value::Null);
    Some(ToolCall {
        id: text(members, &["id", "toolCallId", "call_id"]),
        name,
        arguments: match arguments {
            Value::String(text) => parse(&text),
            other => other,
        },
    })
}
