//! Tools offered to the model, and tools it called (otlp.md 2.7).

use assay_domain::observation::ToolCall;
use assay_domain::payload::Payload;
use serde_json::{Map, Value as Json};

use crate::attributes::{Attributes, any_json, default_json};
use crate::json;
use crate::messages::unflatten;
use crate::model::Value;

/// How deep calls are looked for in an output.
const MAX_DEPTH: usize = 10;
/// Calls kept of one output.
const MAX_CALLS: usize = 1_000;

/// Tool definitions of every source; of two with one name the first stays.
pub(crate) fn definitions(attributes: &Attributes<'_>) -> Option<Json> {
    let mut found: Vec<Json> = Vec::new();
    let mut add = |value: Json| match value {
        Json::Array(items) => found.extend(items),
        Json::Null => {}
        other => found.push(other),
    };
    if let Some(value) = attributes.get("gen_ai.tool.definitions") {
        add(default_json(value));
    }
    match attributes.get("ai.prompt.tools") {
        Some(Value::Array(items)) => items.iter().map(any_json).for_each(&mut add),
        Some(value) => add(default_json(value)),
        None => {}
    }
    for entry in attributes.with_prefix("llm.tools.") {
        if entry.key.ends_with(".tool.json_schema") {
            add(default_json(entry.value));
        }
    }
    let functions = unflatten(
        attributes.with_prefix("llm.request.functions."),
        "llm.request.functions.",
    );
    if let Some(Json::Array(functions)) = functions {
        functions
            .into_iter()
            .map(with_parameters)
            .for_each(&mut add);
    }
    if let Some(mut request) = attributes.object("model_request_parameters")
        && let Some(tools) = request.remove("function_tools")
    {
        add(tools);
    }
    if let Some(value) = attributes.get("mlflow.chat.tools") {
        add(any_json(value));
    }
    if found.is_empty() {
        return None;
    }
    let mut names: Vec<String> = Vec::new();
    found.retain(|definition| match tool_name(definition) {
        Some(name) if names.iter().any(|known| known == name) => false,
        Some(name) => {
            names.push(name.to_owned());
            true
        }
        None => true,
    });
    Some(Json::Array(found))
}

/// Parameters of a flattened function are JSON held as text.
fn with_parameters(mut function: Json) -> Json {
    if let Some(parameters) = function.get_mut("parameters")
        && let Json::String(text) = parameters
    {
        *parameters = json::value(text);
    }
    function
}

fn tool_name(definition: &Json) -> Option<&str> {
    let inner = definition.get("function").unwrap_or(definition);
    inner
        .get("name")
        .or_else(|| definition.get("name"))?
        .as_str()
}

/// Tool calls found in an output, in order.
pub(crate) fn calls(output: Option<&Payload>) -> Vec<ToolCall> {
    const MARKERS: [&str; 4] = ["tool", "function_call", "toolName", "function\""];
    let Some(Payload::Json(text)) = output else {
        return Vec::new();
    };
    if !MARKERS.iter().any(|marker| text.contains(marker)) {
        return Vec::new();
    }
    let mut calls = Vec::new();
    if let Some(node) = json::parse(text) {
        collect(&node.to_json(), 0, &mut calls);
    }
    calls
}

fn collect(value: &Json, depth: usize, calls: &mut Vec<ToolCall>) {
    if depth > MAX_DEPTH || calls.len() >= MAX_CALLS {
        return;
    }
    match value {
        Json::Array(items) => {
            for item in items {
                collect(item, depth + 1, calls);
            }
        }
        Json::Object(members) => {
            if let Some(call) = part_call(members) {
                calls.push(call);
                return;
            }
            for (key, inner) in members {
                match (key.as_str(), inner) {
                    ("tool_calls" | "toolCalls", Json::Array(list)) => {
                        calls.extend(list.iter().filter_map(listed_call));
                    }
                    ("function_call", Json::Object(_)) => calls.extend(listed_call(inner)),
                    _ => collect(inner, depth + 1, calls),
                }
            }
        }
        _ => {}
    }
}

/// A part of a message that is a call: GenAI, Anthropic, AI SDK.
fn part_call(members: &Map<String, Json>) -> Option<ToolCall> {
    match members.get("type").and_then(Json::as_str) {
        Some("tool_call" | "tool_use" | "tool-call" | "function_call") => call_of(members),
        _ if members.contains_key("toolName") && members.contains_key("toolCallId") => {
            let is_result = members.contains_key("output") || members.contains_key("result");
            (!is_result).then(|| call_of(members)).flatten()
        }
        _ => None,
    }
}

/// An entry of `tool_calls`.
fn listed_call(value: &Json) -> Option<ToolCall> {
    call_of(value.as_object()?)
}

fn call_of(members: &Map<String, Json>) -> Option<ToolCall> {
    let inner = members
        .get("function")
        .and_then(Json::as_object)
        .unwrap_or(members);
    let text = |from: &Map<String, Json>, keys: &[&str]| {
        let found = keys.iter().find_map(|key| from.get(*key)?.as_str())?;
        (!found.is_empty()).then(|| found.to_owned())
    };
    let name = text(inner, &["name", "toolName"])?;
    let arguments = ["arguments", "input", "args"]
        .iter()
        .find_map(|key| inner.get(*key))
        .cloned()
        .unwrap_or(Json::Null);
    Some(ToolCall {
        id: text(members, &["id", "toolCallId", "call_id"]),
        name,
        arguments: match arguments {
            Json::String(text) => json::value_any(&text),
            other => other,
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn calls_of_every_shape_are_found() {
        let shapes = [
            json!([{ "role": "assistant", "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } }] }]),
            json!([{ "role": "assistant", "parts": [{ "type": "tool_call", "id": "1", "name": "f", "arguments": { "a": 1 } }] }]),
            json!({ "role": "assistant", "tool_calls": [{ "toolCallId": "1", "toolName": "f", "input": "{\"a\":1}" }] }),
            json!({ "content": [{ "type": "tool_use", "id": "1", "name": "f", "input": { "a": 1 } }] }),
            json!({ "choices": [{ "message": { "tool_calls": [{ "id": "1", "function": { "name": "f", "arguments": "{\"a\":1}" } }] } }] }),
        ];
        for shape in shapes {
            let found = calls(Some(&Payload::from_value(shape.clone())));
            let wanted = ToolCall {
                id: Some("1".to_owned()),
                name: "f".to_owned(),
                arguments: json!({ "a": 1 }),
            };
            assert_eq!(found, [wanted], "{shape}");
        }
        let result =
            json!([{ "type": "tool-result", "toolCallId": "1", "toolName": "f", "output": 1 }]);
        assert_eq!(calls(Some(&Payload::from_value(result))), []);
    }
}
