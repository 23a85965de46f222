//! Tools offered to the model, and tools it called (otlp.md 2.7).

use std::collections::HashSet;

use perpend_domain::content::calls::is_too_large;
use perpend_domain::content::tool_name;
use perpend_domain::observation::{Content, ObservationKind, ToolCall};
use perpend_domain::payload::Payload;
use serde_json::Value as Json;

use crate::attributes::{Attributes, any_json, default_json};
use crate::json;
use crate::messages::unflatten;
use crate::model::Value;
use crate::notes::Notes;

/// Tool definitions of every source; of two with one name the first stays.
pub(crate) fn definitions(attributes: &Attributes<'_>) -> Option<Json> {
    let mut found: Vec<Json> = Vec::new();
    let mut add = |value: Json| found.extend(perpend_domain::content::definitions(value));
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
        let schemas = tools.iter().filter_map(|tool| tool.get("tool")?.get("json_schema"));
        schemas.cloned().for_each(&mut add);
    }
    let functions =
        unflatten(attributes.with_prefix("llm.request.functions."), "llm.request.functions.");
    if let Some(Json::Array(functions)) = functions {
        functions.into_iter().map(with_parameters).for_each(&mut add);
    }
    if let Some(mut request) = attributes.object("model_request_parameters")
        && let Some(tools) = request.remove("function_tools")
    {
        add(tools);
    }
    if let Some(value) = attributes.get("mlflow.chat.tools") {
        add(any_json(value));
    }
    distinct(found)
}

/// The calls in an output; none in one that is too large, which is noted.
pub(crate) fn calls_in(output: Option<&Payload>, notes: &mut Notes) -> Vec<ToolCall> {
    if let Some(Payload::Json(json)) = output
        && is_too_large(json)
    {
        let explanation = "were not read: the output has too many values";
        notes.repaired("tool_calls", explanation.to_owned());
    }
    ToolCall::all_in(output)
}

/// Finds the calls in the output of an observation, and the definitions in its input where no attribute has them.
pub(crate) fn index(content: &mut Content, kind: ObservationKind, notes: &mut Notes) {
    content.tool_calls = calls_in(content.output.as_ref(), notes);
    if content.tool_definitions.is_none() {
        content.tool_definitions = definitions_in(content.input.as_ref(), kind);
    }
}

/// The tools that the request of a generation offers.
pub(crate) fn definitions_in(input: Option<&Payload>, kind: ObservationKind) -> Option<Json> {
    let is_request = matches!(kind, ObservationKind::Generation | ObservationKind::Agent);
    match input {
        Some(Payload::Json(request)) if is_request => {
            distinct(perpend_domain::content::definitions_in(request))
        }
        _ => None,
    }
}

/// The definitions, of several with one name the first; none where there are none.
fn distinct(mut found: Vec<Json>) -> Option<Json> {
    let mut names: HashSet<String> = HashSet::new();
    found.retain(|definition| match tool_name(definition) {
        Some(name) => names.insert(name.to_owned()),
        None => true,
    });
    (!found.is_empty()).then_some(Json::Array(found))
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

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

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
            let found = ToolCall::all_in(Some(&Payload::from_value(shape.clone())));
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
        let found = ToolCall::all_in(Some(&Payload::from_value(told_twice)));
        let names: Vec<&str> = found.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["f", "g", "g"]);
        let result =
            json!([{ "type": "tool-result", "toolCallId": "1", "toolName": "f", "output": 1 }]);
        assert_eq!(ToolCall::all_in(Some(&Payload::from_value(result))), []);
    }

    #[test]
    fn an_output_that_is_too_large_to_be_searched_for_calls_is_noted() {
        for (n, is_noted) in [(10, false), (300_000, true)] {
            let output = Payload::Json(format!("[\"call\"{}]", ",{}".repeat(n)));
            let (mut notes, mut metadata) = (Notes::default(), Map::new());
            assert_eq!(calls_in(Some(&output), &mut notes), []);
            notes.write(&mut metadata);
            assert_eq!(!metadata.is_empty(), is_noted);
        }
    }
}
