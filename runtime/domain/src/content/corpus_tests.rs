//! Payloads of libraries, and the properties of what is read from them.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::content::calls::{calls_in, is_too_large};
use crate::content::conversation;
use crate::content::encoded::decoded;
use crate::content::inline::{InlineMedium, take};
use crate::content::is_system_message;
use crate::content::roles::Speaker;

fn cases(json: &str) -> Vec<Value> {
    serde_json::from_str(json).unwrap()
}

fn named(case: &Value) -> String {
    format!("{}: {}", case["source"], case["what"])
}

fn calls_of(output: &Value) -> Value {
    let calls = calls_in(&output.to_string()).into_iter();
    calls
        .map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }))
        .collect()
}

#[test]
fn the_calls_of_every_library_are_found() {
    let cases = cases(include_str!("../../../../tests/corpus/shapes/calls.json"));
    let wrong: Vec<String> = cases
        .iter()
        .filter(|case| calls_of(&case["output"]) != case["calls"])
        .map(|case| format!("{}: {}", named(case), calls_of(&case["output"])))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_document_of_too_many_values_is_not_searched_for_calls() {
    let call = with_call(4, "f", &json!({}));
    let large = format!("[{}{call}]", "{},".repeat(300_000));
    assert!(is_too_large(&large) && calls_in(&large).is_empty());
    let small = format!("[{}{call}]", "{},".repeat(1_000));
    assert!(!is_too_large(&small) && calls_in(&small).len() == 1);
}

#[test]
fn each_message_of_every_library_has_its_role() {
    let cases = cases(include_str!("../../../../tests/corpus/shapes/threads.json"));
    let mut wrong = Vec::new();
    for case in &cases {
        let mut messages = conversation(case["input"].clone(), Speaker::User);
        messages.extend(conversation(case["output"].clone(), Speaker::Assistant));
        let texts: Vec<&Value> = case["roles"].as_array().unwrap().iter().collect();
        let roles = messages.iter().map(|message| {
            let content = message["content"].to_string();
            let is_said = |one: &&&Value| content.contains(&one[1].to_string());
            let role = match message["role"].as_str().unwrap() {
                "developer" => "system",
                role => role,
            };
            json!([role, texts.iter().find(is_said).map(|one| &one[1])])
        });
        let roles: Value = roles.collect();
        let n_of_system = messages.iter().filter(|one| is_system_message(one)).count();
        if roles != case["roles"] || n_of_system != 1 {
            wrong.push(format!("{}: {}", named(case), json!(messages)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn messages_in_several_members_are_one_conversation() {
    let says = |role: &str, text: &str| json!({ "role": role, "content": text });
    let (question, answer) = (says("user", "Q1"), says("assistant", "A1"));
    let (first, second) = (json!([question]), json!([answer]));
    for (value, texts) in [
        (json!({ "messages": first, "input": "Q2" }), "Q1 Q2"),
        (json!({ "messages": first, "input": "Q1" }), "Q1"),
        (
            json!({ "request": { "system": "S", "messages": first }, "response": { "choices": [{ "message": answer }] } }),
            "S Q1 A1",
        ),
        (json!({ "input_messages": first, "output_messages": second }), "Q1 A1"),
        (json!({ "instructions": "S", "input": "Q2", "output": second }), "S Q2 A1"),
        (json!({ "system": "S", "messages": first, "output": [question, answer] }), "S Q1 A1"),
        (json!({ "body": { "messages": first, "input": "Q2" } }), "Q1 Q2"),
        (json!({ "messages": first, "output": { "input": "x" } }), "Q1"),
    ] {
        let messages = conversation(value.clone(), Speaker::User);
        let contents: Vec<&str> =
            messages.iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(contents.join(" "), texts, "{value}");
    }
}

#[test]
fn the_media_of_every_library_are_found() {
    let cases = cases(include_str!("../../../../tests/corpus/shapes/media.json"));
    let mut wrong = Vec::new();
    for case in &cases {
        let value = match &case["value"] {
            Value::String(text) => serde_json::from_str(text).unwrap(),
            other => other.clone(),
        };
        let found = take(&mut value.clone()).found;
        let types: Value = found.iter().map(|found| json!(found.content_type)).collect();
        let medium = InlineMedium::of(value, 0).map(|medium| medium.bytes);
        if types != case["media"] || medium != Some(decoded(case["data"].as_str().unwrap())) {
            wrong.push(format!("{}: {types}", named(case)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// An output with this call, in one of the shapes.
fn with_call(shape: usize, name: &str, arguments: &Value) -> Value {
    let text = arguments.to_string();
    let function = json!({ "name": name, "arguments": text });
    let part = |part: Value| json!([{ "role": "assistant", "content": [{ "type": "text", "text": "hm" }, part] }]);
    match shape {
        0 => json!({ "role": "assistant", "tool_calls": [{ "id": "c", "function": function }] }),
        1 => part(json!({ "type": "tool_use", "id": "c", "name": name, "input": arguments })),
        2 => part(json!({ "toolUse": { "toolUseId": "c", "name": name, "input": arguments } })),
        3 => json!({ "candidates": [{ "content": { "parts": [
            { "functionCall": { "id": "c", "name": name, "args": arguments } },
        ] } }] }),
        4 => json!([{ "type": "mcp_call", "id": "c", "name": name, "arguments": text }]),
        5 => json!({ "type": "ai", "content": "", "tool_calls": [
            { "type": "tool_call", "id": "c", "name": name, "args": arguments },
        ], "additional_kwargs": { "tool_calls": [{ "id": "c", "function": function }] } }),
        6 => part(
            json!({ "type": "tool-call", "toolCallId": "c", "toolName": name, "input": arguments }),
        ),
        _ => json!([{ "kind": "response", "parts": [
            { "part_kind": "tool-call", "tool_name": name, "args": arguments, "tool_call_id": "c" },
        ] }]),
    }
}

/// A message with this text, in one of the shapes.
fn with_text(shape: usize, text: &str) -> Value {
    let part = json!({ "type": "text", "text": text });
    match shape {
        0 => json!({ "role": "user", "content": text }),
        1 => json!({ "role": "developer", "content": [part] }),
        2 => json!({ "type": "human", "content": [part] }),
        3 => json!({ "role": "model", "parts": [{ "text": text }] }),
        4 => {
            json!({ "role": "assistant", "content": null, "reasoning_content": text, "tool_calls": [] })
        }
        5 => json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "c", "function": { "name": text, "arguments": "{}" } },
        ] }),
        6 => json!({ "role": "assistant", "content": "", "refusal": text }),
        7 => json!({ "role": "tool", "tool_call_id": "c", "content": text }),
        8 => json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": text }),
        9 => json!({ "type": "function_call_output", "call_id": "c", "output": text }),
        10 => {
            json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
        }
        11 => json!({ "role": "user", "content": [{ "type": "tool_result", "content": [part] }] }),
        12 => {
            json!({ "lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": { "content": text } })
        }
        13 => json!({ "role": "assistant", "content": "hi", "annotations": [{ "title": text }] }),
        _ => json!({ "kind": "request", "instructions": text, "parts": [
            { "part_kind": "user-prompt", "content": text },
        ] }),
    }
}

proptest! {
    #[test]
    fn a_call_is_found_once_with_its_name_and_its_arguments(
        shape in 0..8_usize,
        name in "[a-z_]{1,12}",
        texts in prop::collection::vec("[ -~]{0,20}", 0..4),
    ) {
        let arguments = json!({ "texts": texts, "order": 4711 });
        let calls = calls_in(&with_call(shape, &name, &arguments).to_string());
        prop_assert_eq!(calls.len(), 1);
        prop_assert_eq!(&calls[0].name, &name);
        prop_assert_eq!(calls[0].id.as_deref(), Some("c"));
        prop_assert_eq!(&calls[0].arguments, &arguments);
    }

    #[test]
    fn each_text_of_a_conversation_is_in_its_messages(
        own in prop::collection::vec((0..15_usize, "text[0-9]{6}"), 1..8),
        system in prop::option::of("text[0-9]{6}"),
        other in prop::option::of((0..15_usize, "text[0-9]{6}")),
        holder in prop::sample::select(vec!["input", "output_messages", "request", "response"]),
        prompt in prop::option::of("text[0-9]{6}"),
    ) {
        let messages: Vec<Value> = own.iter().map(|(shape, text)| with_text(*shape, text)).collect();
        let mut request = json!({ "messages": messages });
        if let Some(system) = &system {
            request["system"] = json!(system);
        }
        if let Some((shape, text)) = &other {
            request[holder] = json!([with_text(*shape, text)]);
        }
        if let Some(prompt) = &prompt {
            request["prompt"] = json!(prompt);
        }
        let all = json!(conversation(request, Speaker::User)).to_string();
        let texts = own.iter().chain(&other).map(|(_, text)| text);
        for text in texts.chain(&system).chain(&prompt) {
            prop_assert!(all.contains(text.as_str()), "{} is not in {}", text, all);
        }
    }
}
