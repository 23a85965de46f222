//! Properties of the common form of messages.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::content::unify;

pub(crate) fn unified(mut value: Value) -> Value {
    unify(&mut value);
    value
}

#[test]
fn messages_of_each_library_get_roles_and_contents() {
    let text = json!({"type": "text", "text": "hi"});
    let of_user = json!({"role": "user", "content": "hi"});
    for (sent, made) in [
        (
            json!({"messages": [["system", "s"], ["human", [text]]]}),
            json!({"messages": [{"role": "system", "content": "s"}, {"role": "human", "content": [text]}]}),
        ),
        (
            json!({"messages": [{"role": "user", "blocks": [{"block_type": "text", "text": "hi"}]}]}),
            json!({"messages": [{"role": "user", "content": [text]}]}),
        ),
        (
            json!([{"role": "user", "content": "x", "items": [{"content_type": "text", "text": "hi"}]}]),
            json!([{"role": "user", "content": "x", "parts": [text]}]),
        ),
        (
            json!({"contents": [{"parts": [{"text": "hi"}]}]}),
            json!({"contents": [{"parts": [{"text": "hi"}], "role": "user"}]}),
        ),
        (
            json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}}]}),
            json!({"candidates": [{"content": {"parts": [{"text": "hi"}], "role": "model"}}]}),
        ),
        (json!([{"source": "user", "content": "hi", "type": "UserMessage"}]), json!([of_user])),
        (
            json!([{"source": "bob", "content": "hi", "type": "TextMessage"}]),
            json!([{"name": "bob", "content": "hi", "type": "TextMessage", "role": "assistant"}]),
        ),
        (
            json!({"message": "hi", "chat_history": [{"role": "USER", "message": "a"}], "preamble": "p"}),
            json!({"preamble": "p", "messages": [{"role": "USER", "content": "a"}, of_user]}),
        ),
        (
            json!({"conversations": [{"from": "human", "value": "hi"}]}),
            json!({"conversations": [{"role": "human", "content": "hi"}]}),
        ),
        (
            json!([{"_role": "user", "_content": "hi", "_name": null, "_meta": {}}]),
            json!([{"role": "user", "content": "hi", "name": null, "meta": {}}]),
        ),
        (json!({"messages": json!([of_user]).to_string()}), json!({"messages": [of_user]})),
        (
            json!({"messages": json!(json!([of_user]).to_string()).to_string()}),
            json!({"messages": [of_user]}),
        ),
        (
            json!([{"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}]}]),
            json!([{"role": "assistant", "content": [{"text": "hm", "signature": "s", "type": "thinking"}]}]),
        ),
    ] {
        assert_eq!(unified(sent.clone()), made, "{sent}");
    }
}

#[test]
fn answers_name_the_call_and_requests_their_tools_in_one_way() {
    let answer = json!([{"role": "tool", "content": "r", "tool_call_id": "c"}]);
    for sent in [
        json!([{"role": "tool", "content": "r", "id": "c"}]),
        json!([{"role": "tool", "content": "r", "additional_kwargs": {"tool_call_id": "c"}}]),
    ] {
        let mut made = unified(sent);
        if let Some(Value::Object(members)) = made.get_mut(0) {
            members.remove("additional_kwargs");
        }
        assert_eq!(made, answer);
    }
    for kept in [
        json!([{"role": "tool", "content": "r", "id": "m", "tool_call_id": "c"}]),
        json!([{"role": "function", "content": "r", "id": "m", "name": "f"}]),
        json!([{"role": "tool", "content": [{"type": "tool-result"}], "id": "m"}]),
        json!({"toolConfig": {"tools": []}}),
    ] {
        assert_eq!(unified(kept.clone()), kept);
    }
    let tool = json!({"toolSpec": {"name": "f"}});
    let made = unified(json!({"messages": [], "toolConfig": {"tools": [tool]}}));
    assert_eq!(made["tools"], json!([tool]));
}

#[test]
fn the_turns_of_pydantic_ai_are_a_message_for_each_role() {
    let sent = json!([
        {"kind": "request", "instructions": "be brief", "parts": [
            {"part_kind": "system-prompt", "content": "s"},
            {"part_kind": "user-prompt", "content": ["look", {"kind": "image-url", "url": "https://a.example/b"}], "timestamp": "t"},
        ]},
        {"kind": "response", "parts": [
            {"part_kind": "thinking", "content": "hm"},
            {"part_kind": "tool-call", "tool_name": "f", "args": "{}", "tool_call_id": "c"},
        ]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "f", "content": "r", "tool_call_id": "c"}]},
    ]);
    let made = json!([
        {"role": "system", "parts": ["be brief", {"content": "s", "type": "text"}]},
        {"role": "user", "parts": ["look", {"type": "image-url", "url": "https://a.example/b"}], "timestamp": "t"},
        {"role": "assistant", "parts": [
            {"content": "hm", "type": "thinking"},
            {"tool_name": "f", "args": "{}", "tool_call_id": "c", "type": "tool-call"},
        ]},
        {"role": "tool", "parts": [{"tool_name": "f", "content": "r", "tool_call_id": "c", "type": "tool-result"}]},
    ]);
    assert_eq!(unified(sent.clone()), made);
    let alone = unified(sent[1].clone());
    assert_eq!(alone, json!({ "messages": [made[2]] }));
}

#[test]
fn chunks_are_merged_into_one_message() {
    let chunk = |delta: Value, more: Value| json!({"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": more}]});
    let call = |id: Value, arguments: &str| json!({"tool_calls": [{"index": 0, "id": id, "function": {"arguments": arguments}}]});
    let sent = json!([
        chunk(json!({"role": "assistant", "content": "ha"}), json!(null)),
        chunk(json!({"content": "ha"}), json!(null)),
        chunk(call(json!("t"), "{\"a\""), json!(null)),
        chunk(call(json!(null), ":1}"), json!("stop")),
        {"id": "d", "choices": [], "usage": {"n": 1}},
    ]);
    let made = json!([{
        "id": "c",
        "choices": [{"index": 0, "finish_reason": "stop", "delta": {
            "role": "assistant", "content": "haha",
            "tool_calls": [{"index": 0, "id": "t", "function": {"arguments": "{\"a\":1}"}}],
        }}],
        "usage": {"n": 1},
        "id'": ["d"],
    }]);
    assert_eq!(unified(sent), made);
    let bare = json!([{"choices": [{"delta": {"content": "a"}}]}]);
    assert_eq!(unified(bare)[0]["choices"][0]["delta"]["role"], "assistant");
    let many: Vec<Value> = (0..50_000)
        .map(|n| json!({"choices": [{"index": n, "delta": {"content": "a"}}]}))
        .collect();
    assert_eq!(unified(json!(many))[0]["choices"].as_array().unwrap().len(), 50_000);
}

#[test]
fn similar_objects_and_tool_arguments_are_unchanged() {
    for value in [
        json!([["user", "a"], ["b", "c"]]),
        json!([["user"], ["user", "a", "b"]]),
        json!([{"from": "a@b.example", "value": "x"}]),
        json!([{"source": "web", "content": "x", "type": "Document"}]),
        json!({"kind": "request", "parts": []}),
        json!({"message": "hi", "chat_history": "none"}),
        json!([{"choices": []}, {"choices": [{"message": {"role": "user"}}]}]),
        json!({"items": [{"content_type": "text", "text": "a"}]}),
        json!([{"type": "tool_use", "name": "f", "input": {"messages": [["user", "a"]]}}]),
        json!({"role": "assistant", "tool_calls": [{"function": {"arguments": {"messages": [["user", "a"]]}}}]}),
    ] {
        assert_eq!(unified(value.clone()), value);
    }
}

const KEYS: [&str; 41] = [
    "role",
    "content",
    "parts",
    "part_kind",
    "kind",
    "type",
    "blocks",
    "block_type",
    "items",
    "content_type",
    "source",
    "name",
    "from",
    "value",
    "_role",
    "_content",
    "message",
    "chat_history",
    "messages",
    "contents",
    "choices",
    "delta",
    "index",
    "reasoningContent",
    "reasoningText",
    "arguments",
    "$type",
    "text",
    "isError",
    "resource",
    "transcript",
    "data",
    "object",
    "model",
    "config",
    "tools",
    "additional_kwargs",
    "tool_calls",
    "item",
    "generation_id",
    "server_tool_call",
];
/// Discriminator values of objects.
const WORDS: [&str; 28] = [
    "user",
    "human",
    "system",
    "assistant",
    "request",
    "response",
    "text",
    "thinking",
    "user-prompt",
    "system-prompt",
    "tool-call",
    "tool-return",
    "retry-prompt",
    "UserMessage",
    "AssistantMessage",
    "TextMessage",
    "function_result",
    "tool_use",
    "tool_result",
    "functionCall",
    "audio",
    "resource",
    "list",
    "gemini",
    "AI",
    "mcp_list_tools",
    "server_tool_call",
    "conversation.item.create",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => (0..3).prop_map(Value::from),
        3 => "[ -~é]{1,8}".prop_map(Value::from),
        4 => prop::sample::select(&WORDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let member = (prop::sample::select(&KEYS[..]), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            prop::collection::vec(member, 0..6).prop_map(|members| {
                let members = members.into_iter();
                let members: Map<String, Value> =
                    members.map(|(key, value)| (key.to_owned(), value)).collect();
                Value::Object(members)
            }),
        ]
    })
}

fn leaves(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, into)),
        _ => {}
    }
}

proptest! {
    #[test]
    fn unification_keeps_every_text(value in any_value()) {
        let mut before = Vec::new();
        leaves(&value, &mut before);
        let made = unified(value.clone());
        let mut after = Vec::new();
        leaves(&made, &mut after);
        // Chunks are joined, so each text is part of a longer one.
        let all = after.join("\n");
        for text in before.iter().filter(|text| !WORDS.contains(&text.as_str())) {
            let held: Option<Value> = crate::content::parsed(text);
            prop_assert!(all.contains(text.as_str()) || held.is_some(), "{text:?} of {value} is not in {made}");
        }
    }
}
