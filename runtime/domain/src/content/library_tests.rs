//! Records of single libraries, services and protocols get the common form.

use serde_json::{Value, json};

use crate::content::last_message_text;
use crate::content::tests::unified;

/// Parts of a message of a model, and what they are made.
fn assert_parts(pairs: impl IntoIterator<Item = (Value, Value)>) {
    for (sent, made) in pairs {
        let message = |part: &Value| json!([{"role": "assistant", "content": [part]}]);
        assert_eq!(unified(message(&sent)), message(&made), "{sent}");
    }
}

#[test]
fn texts_in_objects_of_their_own_are_texts() {
    assert_parts([
        (
            json!({"type": "text", "text": {"value": "hi", "annotations": [{"n": 1}]}}),
            json!({"type": "text", "text": "hi", "annotations": [{"n": 1}]}),
        ),
        (
            json!({"type": "text-plain", "text": "hi", "mime_type": "text/plain"}),
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}),
        ),
        (
            json!({"type": "audio", "transcript": "hi", "audio": null}),
            json!({"type": "text", "text": "hi", "audio": null}),
        ),
    ]);
    let ran = json!([{"type": "code_interpreter_call", "id": "c", "code": "1", "outputs": [{"type": "logs", "logs": "hi"}]}]);
    assert_eq!(unified(ran)[0]["outputs"], json!([{"text": "hi", "type": "text"}]));
}

#[test]
fn threads_events_and_answers_are_messages() {
    let message = json!({"role": "user", "content": "hi"});
    for (sent, made) in [
        (
            json!({"object": "list", "data": [message], "has_more": false}),
            json!({"object": "list", "messages": [message], "has_more": false}),
        ),
        (
            json!({"type": "conversation.item.create", "item": message}),
            json!({"type": "conversation.item.create", "message": message}),
        ),
        (
            json!({"text": "hi", "generation_id": "g", "finish_reason": "COMPLETE"}),
            json!({"content": "hi", "generation_id": "g", "finish_reason": "COMPLETE", "role": "assistant"}),
        ),
    ] {
        assert_eq!(unified(sent.clone()), made, "{sent}");
    }
}

#[test]
fn instructions_and_tools_of_google_requests_are_read() {
    let tools = json!([{"function_declarations": [{"name": "f"}]}]);
    let sent = json!({"model": "m", "contents": [{"role": "user", "parts": [{"text": "hi"}]}], "config": {
        "temperature": 1, "system_instruction": "s", "tools": tools,
    }});
    let made = unified(sent);
    assert_eq!(made["system_instruction"], "s");
    assert_eq!(made["tools"], tools);
    assert_eq!(made["config"], json!({"temperature": 1}));
    for contents in [json!("hi"), json!(["hi"])] {
        let made = unified(json!({"model": "gemini-2.0-flash", "contents": contents}));
        assert_eq!(made["contents"], json!([{"role": "user", "parts": ["hi"]}]));
        assert_eq!(last_message_text(&made.to_string()).as_deref(), Some("hi"));
    }
    let own =
        unified(json!({"model": "m", "contents": "hi", "tools": [1], "config": {"tools": [2]}}));
    assert_eq!((&own["tools"], &own["config"]), (&json!([1]), &json!({"tools": [2]})));
}

#[test]
fn calls_in_additional_kwargs_are_calls_of_the_message() {
    let calls = json!([{"id": "c", "function": {"name": "f", "arguments": "{}"}}]);
    let sent = json!([{"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": calls, "x": 1}}]);
    let made = unified(sent);
    assert_eq!(made[0]["tool_calls"], calls);
    assert_eq!(made[0]["additional_kwargs"], json!({"x": 1}));
    for kept in [
        json!([{"role": "user", "content": "", "additional_kwargs": {"tool_calls": calls}}]),
        json!([{"role": "assistant", "tool_calls": calls, "additional_kwargs": {"tool_calls": calls}}]),
        json!([{"role": "assistant", "content": "", "additional_kwargs": {"tool_calls": "text", "function_call": "text"}}]),
    ] {
        assert_eq!(unified(kept.clone()), kept);
    }
}

#[test]
fn results_of_mcp_are_messages_of_tools() {
    let text = json!({"type": "text", "text": "hi"});
    let message = |result: Value| json!({"role": "tool", "content": [result]});
    for (sent, made) in [
        (
            json!({"content": [text], "isError": true, "structuredContent": {"a": 1}}),
            message(
                json!({"content": [text], "is_error": true, "structuredContent": {"a": 1}, "type": "tool_result"}),
            ),
        ),
        (
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [text]}}),
            json!({"jsonrpc": "2.0", "id": 1, "response": message(json!({"content": [text], "type": "tool_result"}))}),
        ),
        (
            json!([{"role": "tool", "content": {"content": [text], "isError": false}, "tool_call_id": "c"}]),
            json!([{"role": "tool", "content": [text], "tool_call_id": "c"}]),
        ),
        (
            json!([{"type": "function_call_output", "call_id": "c", "output": {"content": [text], "isError": true}}]),
            json!([{"type": "function_call_output", "call_id": "c", "output": [text], "is_error": true}]),
        ),
    ] {
        assert_eq!(unified(sent.clone()), made, "{sent}");
    }
    let held = json!({"content": [
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "hi"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "x"}},
        {"type": "resource_link", "uri": "https://a.example/b"},
    ]});
    assert_eq!(
        unified(held)["content"][0]["content"],
        json!([
            {"type": "document", "title": "file:///a", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
            {"type": "file", "uri": "file:///b", "blob": "x"},
            {"type": "uri", "uri": "https://a.example/b"},
        ])
    );
}

#[test]
fn calls_and_results_of_every_library_have_a_type_and_an_id() {
    assert_parts([
        (
            json!({"type": "server_tool_call", "id": "c", "name": "f", "server_tool_call": {"type": "f", "q": 1}}),
            json!({"type": "tool_call", "id": "c", "name": "f", "arguments": {"q": 1}}),
        ),
        (
            json!({"type": "server_tool_call_response", "id": "c", "server_tool_call_response": {"type": "f", "n": 1}}),
            json!({"type": "tool_call_response", "id": "c", "name": "f", "response": {"n": 1}}),
        ),
        (
            json!({"$type": "functionCall", "callId": "c", "name": "f", "arguments": {"q": 1}}),
            json!({"type": "tool_call", "call_id": "c", "name": "f", "arguments": {"q": 1}}),
        ),
        (
            json!({"$type": "functionResult", "callId": "c", "result": "r"}),
            json!({"type": "tool_result", "call_id": "c", "result": "r"}),
        ),
        (
            json!({"tool_call_result": {"result": "r", "origin": {"id": "c", "tool_name": "f"}}}),
            json!({"tool_call_result": {"result": "r", "origin": {}, "id": "c", "tool_name": "f"}}),
        ),
    ]);
    for (sent, made) in [
        (
            json!({"type": "mcp_list_tools", "id": "l", "tools": [{"name": "f"}]}),
            json!({"type": "mcp_list_tools_call", "id": "l", "output": [{"name": "f"}]}),
        ),
        (
            json!({"type": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{}"}),
            json!({"type": "tool_call", "status": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{}"}),
        ),
        (
            json!({"type": "mcp_approval_response", "approval_request_id": "a", "approve": true}),
            json!({"type": "tool_result", "call_id": "a", "output": {"approve": true}}),
        ),
    ] {
        assert_eq!(unified(json!({"output": [sent]})), json!({"output": [made]}));
    }
}

#[test]
fn messages_of_langchain4j_have_roles() {
    let sent = json!([
        {"type": "SYSTEM", "text": "s"},
        {"type": "USER", "contents": [{"type": "TEXT", "text": "hi"}, {"type": "PDF", "pdfFile": {"url": "https://a.example/b"}}]},
        {"type": "AI", "toolExecutionRequests": [{"id": "c", "name": "f", "arguments": "{}"}]},
        {"type": "TOOL_EXECUTION_RESULT", "id": "c", "toolName": "f", "text": "r"},
    ]);
    let made = json!([
        {"role": "system", "content": "s"},
        {"role": "user", "contents": [{"type": "text", "text": "hi"}, {"type": "file", "pdfFile": {"url": "https://a.example/b"}}]},
        {"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": "{}"}]},
        {"role": "tool", "tool_call_id": "c", "name": "f", "content": "r"},
    ]);
    assert_eq!(unified(sent.clone()), made);
    assert_eq!(unified(sent[2].clone()), made[2]);
}

#[test]
fn objects_that_only_have_some_of_these_members_stay() {
    for value in [
        json!({"object": "list", "data": [{"id": "model", "role": "x"}]}),
        json!({"object": "list", "data": [{"object": "embedding", "embedding": [0.1]}]}),
        json!({"model": "T", "contents": "a box of tools"}),
        json!({"config": {"tools": [1]}, "contents": "words of a file"}),
        json!({"content": [{"type": "text", "text": "a"}]}),
        json!({"content": [{"type": "paragraph"}], "isError": false}),
        json!({"content": "a", "isError": true}),
        json!({"content": [], "isError": false, "isLoading": true}),
        json!({"content": [{"type": "text", "text": "a"}], "isError": "no"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}),
        json!({"type": "cart.item.create", "item": {"role": "user", "content": "a"}}),
        json!({"text": "a", "generation": 1}),
        json!([{"type": "SYSTEM", "text": "disk full"}, {"type": "USER", "text": "log in"}]),
        json!([{"type": "USER", "contents": ["a"]}]),
        json!([{"$type": "Shop.Order, Shop", "callId": 1}]),
        json!([{"role": "tool", "content": [{"$type": "Shop.Order, Shop", "callId": 1}]}]),
    ] {
        assert_eq!(unified(value.clone()), value);
        assert_eq!(last_message_text(&value.to_string()), None, "{value}");
    }
}
