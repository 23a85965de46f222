//! Tools offered to the model, and tools it called (otlp.md 2.7).

use std::collections::HashSet;

use perpend_domain::observation::ToolCall;
use perpend_domain::payload::Payload;
use perpend_domain::tool_calls::tool_calls;
use serde_json::Value as Json;

use crate::attributes::{Attributes, any_json, default_json};
use crate::json;
use crate::messages::unflatten;
use crate::model::Value;

/// Tool definitions of every source; of two with one name the first stays.
pub(crate) fn definitions(attributes: &Attributes<'_>) -> Option<Json> {
    let mut found: Vec<Json> = Vec::new();
    // A list of definitions may hold each of them as JSON text.
    let unpacked = |item: Json| match item {
        Json::String(text) => json::value(&text),
        other => other,
    };
    let mut add = |value: Json| match value {
        Json::Array(items) => found.extend(items.into_iter().map(unpacked)),
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
    if let Some(Json::Array(tools)) = unflatten(attributes.with_prefix("llm.tools."), "llm.tools.")
    {
        let schemas = tools
            .iter()
            .filter_map(|tool| tool.get("tool")?.get("json_schema"));
        schemas.cloned().map(unpacked).for_each(&mut add);
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
    let mut names: HashSet<String> = HashSet::new();
    found.retain(|definition| match tool_name(definition) {
        Some(name) => names.insert(name.to_owned()),
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
    tool_calls(output, json::value_any)
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
            json!({ "content": [{ "type": "tool_use", "tool_call": { "id": "1", "function": { "name": "f", "arguments": "{\"a\":1}" } } }] }),
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
        let told_twice = json!([{
            "tool_calls": [
                { "id": "1", "function": { "name": "f" } },
                { "function": { "name": "g" } },
                { "function": { "name": "g" } },
            ],
            "content": [{ "type": "tool_use", "tool_call": { "id": "1", "function": { "name": "f" } } }],
        }]);
        let found = calls(Some(&Payload::from_value(told_twice)));
        let names: Vec<&str> = found.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["f", "g", "g"]);
        let result =
            json!([{ "type": "tool-result", "toolCallId": "1", "toolName": "f", "output": 1 }]);
        assert_eq!(calls(Some(&Payload::from_value(result))), []);
    }
}
