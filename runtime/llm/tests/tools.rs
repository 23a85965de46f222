//! Conversations with tools and media, in each protocol.

mod support;

use perpend_llm::{CallLimits, Endpoint, ErrorClass, Protocol};
use perpend_worker_protocol::host_call::{
    Completion, CompletionRequest, FinishReason, MediaKind, Medium, Message, MessagePart, Role,
    Tool, ToolCall, ToolChoice, ToolResult,
};
use serde_json::{Value, json};
use support::{Act, GOOD, Server, endpoint, llm, message, mock, schema};

const SCHEMA: &str = r#"{"type":"object","properties":{"text":{"type":"string"}}}"#;

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: "Finds a text.".to_owned(),
        parameters: SCHEMA.to_owned(),
    }
}

fn parameters() -> Value {
    serde_json::from_str(SCHEMA).unwrap_or_default()
}

fn called(id: &str) -> MessagePart {
    MessagePart::ToolCall(ToolCall {
        id: id.to_owned(),
        name: "search".to_owned(),
        arguments: r#"{"text":"refund"}"#.to_owned(),
    })
}

fn result(id: &str, content: &str, is_error: bool) -> MessagePart {
    MessagePart::ToolResult(ToolResult {
        call_id: id.to_owned(),
        content: content.to_owned(),
        is_error,
    })
}

/// A question, two calls, their results.
fn conversation(id: &str) -> CompletionRequest {
    let other = format!("{id}b");
    let mut request = CompletionRequest::new(vec![
        message(Role::User, "Is it good?"),
        Message {
            role: Role::Assistant,
            parts: vec![MessagePart::Text("I look.".to_owned()), called(id), called(&other)],
        },
        Message {
            role: Role::Tool,
            parts: vec![result(id, "found", false), result(&other, "no such", true)],
        },
    ]);
    request.tools = vec![tool("search"), tool("end")];
    request.tool_choice = ToolChoice::Required;
    request
}

fn with_media(parts: &[(MediaKind, &str, &str)]) -> CompletionRequest {
    let mut request = CompletionRequest::new(vec![Message {
        role: Role::User,
        parts: vec![MessagePart::Text("Look.".to_owned())],
    }]);
    for (kind, id, content_type) in parts {
        let part = MessagePart::Media(*kind, (*id).to_owned());
        request.messages[0].parts.push(part);
        request.media.push(Medium {
            id: (*id).to_owned(),
            content_type: (*content_type).to_owned(),
            bytes: (*b"abc").into(),
        });
    }
    request
}

/// The body that is sent, and the completion.
#[expect(clippy::unwrap_used, reason = "a panic fails the test")]
async fn exchanged(
    protocol: Protocol,
    change: impl Fn(&mut Endpoint),
    request: &CompletionRequest,
    answer: Value,
) -> (Value, Completion) {
    let server = Server::start(vec![Act::Json(200, answer)]).await;
    let mut endpoint = endpoint(protocol, &server.url);
    change(&mut endpoint);
    let limits = CallLimits::default();
    let (result, _) = support::call(&llm(), &endpoint, &limits, request).await;
    (server.received().remove(0).body, result.unwrap())
}

fn call_fields(completion: &Completion) -> Vec<(&str, &str, &str)> {
    assert_eq!(completion.finish, FinishReason::ToolCalls);
    let calls = completion.tool_calls.iter();
    calls.map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str())).collect()
}

fn chat_calls() -> Value {
    let call = json!({
        "id": "c9", "type": "function", "function": { "name": "search", "arguments": "{\"text\":\"x\"}" },
    });
    let reply = json!({ "content": null, "tool_calls": [call] });
    json!({ "choices": [{ "message": reply, "finish_reason": "tool_calls" }] })
}

#[tokio::test]
async fn tools_are_encoded_and_decoded_in_chat_completions_and_azure() {
    for protocol in [Protocol::OpenAi, Protocol::Azure] {
        let (body, completion) =
            exchanged(protocol, |_| {}, &conversation("c1"), chat_calls()).await;
        let call = |id: &str| {
            json!({
                "id": id, "type": "function",
                "function": { "name": "search", "arguments": "{\"text\":\"refund\"}" },
            })
        };
        let expected = json!([
            { "role": "user", "content": "Is it good?" },
            { "role": "assistant", "content": "I look.", "tool_calls": [call("c1"), call("c1b")] },
            { "role": "tool", "tool_call_id": "c1", "content": "found" },
            { "role": "tool", "tool_call_id": "c1b", "content": "The tool failed: no such" },
        ]);
        assert_eq!(body["messages"], expected);
        assert_eq!(body["tool_choice"], "required");
        let function =
            json!({ "name": "search", "description": "Finds a text.", "parameters": parameters() });
        assert_eq!(body["tools"][0], json!({ "type": "function", "function": function }));
        assert_eq!(body["tools"][1]["function"]["name"], "end");
        assert_eq!(call_fields(&completion), [("c9", "search", "{\"text\":\"x\"}")]);
    }
}

#[tokio::test]
async fn tools_are_encoded_and_decoded_in_responses() {
    let answer = json!({
        "status": "completed",
        "output": [{ "type": "reasoning" },
            { "type": "function_call", "call_id": "c9", "name": "search", "arguments": "{}" }],
    });
    let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = true;
    let mut request = conversation("c1");
    request.tool_choice = ToolChoice::Named("end".to_owned());
    let (body, completion) = exchanged(Protocol::OpenAi, change, &request, answer).await;
    let call = |id: &str| {
        json!({
            "type": "function_call", "call_id": id, "name": "search",
            "arguments": "{\"text\":\"refund\"}",
        })
    };
    let expected = json!([
        { "role": "user", "content": "Is it good?" },
        { "role": "assistant", "content": [{ "type": "output_text", "text": "I look." }] },
        call("c1"),
        call("c1b"),
        { "type": "function_call_output", "call_id": "c1", "output": "found" },
        { "type": "function_call_output", "call_id": "c1b", "output": "The tool failed: no such" },
    ]);
    assert_eq!(body["input"], expected);
    assert_eq!(body["tool_choice"], json!({ "type": "function", "name": "end" }));
    assert_eq!(body["tools"][0]["parameters"], parameters());
    assert_eq!(call_fields(&completion), [("c9", "search", "{}")]);
}

#[tokio::test]
async fn tools_are_encoded_and_decoded_for_anthropic() {
    let answer = json!({
        "content": [{ "type": "text", "text": "hm" },
            { "type": "tool_use", "id": "c9", "name": "search", "input": { "text": "x" } }],
        "stop_reason": "tool_use",
    });
    let mut request = conversation("c1");
    request.extra = Some(r#"{"thinking": {"type": "enabled"}}"#.to_owned());
    let (body, completion) = exchanged(Protocol::Anthropic, |_| {}, &request, answer).await;
    let call = |id: &str| json!({ "type": "tool_use", "id": id, "name": "search", "input": { "text": "refund" } });
    let result = |id: &str, content: &str, is_error: bool| {
        json!({
            "type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error,
        })
    };
    let expected = json!([
        { "role": "user", "content": "Is it good?" },
        { "role": "assistant", "content": [
            { "type": "text", "text": "I look." }, call("c1"), call("c1b")] },
        { "role": "user", "content": [result("c1", "found", false), result("c1b", "no such", true)] },
    ]);
    assert_eq!(body["messages"], expected);
    assert_eq!(body["tool_choice"], json!({ "type": "any" }));
    assert_eq!(body["tools"][0]["input_schema"], parameters());
    assert_eq!(body.get("thinking"), None, "without thinking, because thoughts are not stored");
    assert_eq!(completion.text, "hm");
    assert_eq!(call_fields(&completion), [("c9", "search", "{\"text\":\"x\"}")]);
}

#[tokio::test]
async fn tools_are_encoded_and_decoded_for_google_with_signatures_in_ids() {
    let answer = json!({ "candidates": [{ "finishReason": "STOP", "content": { "parts": [
        { "functionCall": { "name": "search", "args": { "text": "x" } }, "thoughtSignature": "c2ln" },
        { "functionCall": { "name": "end" } },
    ] } }] });
    let (body, completion) =
        exchanged(Protocol::GoogleAiStudio, |_| {}, &conversation("call_1~c2ln"), answer).await;
    let call = json!({ "name": "search", "args": { "text": "refund" } });
    let response =
        |response: Value| json!({ "functionResponse": { "name": "search", "response": response } });
    let expected = json!([
        { "role": "user", "parts": [{ "text": "Is it good?" }] },
        { "role": "model", "parts": [
            { "text": "I look." },
            { "functionCall": call, "thoughtSignature": "c2ln" },
            { "functionCall": call, "thoughtSignature": "c2lnb" }] },
        { "role": "user", "parts": [
            response(json!({ "result": "found" })), response(json!({ "error": "no such" }))] },
    ]);
    assert_eq!(body["contents"], expected);
    assert_eq!(body["toolConfig"]["functionCallingConfig"], json!({ "mode": "ANY" }));
    let declared = &body["tools"][0]["functionDeclarations"][0];
    assert_eq!(declared["parametersJsonSchema"], parameters());
    let calls = [("call_3~c2ln", "search", "{\"text\":\"x\"}"), ("call_4", "end", "{}")];
    assert_eq!(call_fields(&completion), calls);
}

/// An answer of each protocol that calls `search`, and whether it is one of responses. A cut one ended at the output limit.
fn answers(arguments: Option<&Value>, is_cut: bool) -> Vec<(Protocol, bool, Value)> {
    let with = |mut call: Value, member: &str| {
        if let Some(arguments) = arguments {
            call[member] = arguments.clone();
        }
        call
    };
    let ended = |whole: &'static str, cut: &'static str| if is_cut { cut } else { whole };
    let function = with(json!({ "name": "search" }), "arguments");
    let chat = json!({ "choices": [{
        "message": { "content": null, "tool_calls": [{ "id": "c9", "function": function }] },
        "finish_reason": ended("tool_calls", "length"),
    }] });
    let item = json!({ "type": "function_call", "call_id": "c9", "name": "search" });
    let responses = json!({
        "status": ended("completed", "incomplete"),
        "incomplete_details": is_cut.then(|| json!({ "reason": "max_output_tokens" })),
        "output": [with(item, "arguments")],
    });
    let block = json!({ "type": "tool_use", "id": "c9", "name": "search" });
    let anthropic = json!({
        "content": [with(block, "input")], "stop_reason": ended("tool_use", "max_tokens"),
    });
    let part = json!({ "functionCall": with(json!({ "name": "search" }), "args") });
    let google = json!({ "candidates": [{
        "content": { "parts": [part] }, "finishReason": ended("STOP", "MAX_TOKENS"),
    }] });
    let called = json!({ "toolUseId": "c9", "name": "search" });
    let bedrock = json!({
        "output": { "message": { "content": [{ "toolUse": with(called, "input") }] } },
        "stopReason": ended("tool_use", "max_tokens"),
    });
    vec![
        (Protocol::OpenAi, false, chat.clone()),
        (Protocol::Azure, false, chat),
        (Protocol::OpenAi, true, responses),
        (Protocol::Anthropic, false, anthropic),
        (Protocol::GoogleAiStudio, false, google),
        (Protocol::Bedrock, false, bedrock),
    ]
}

#[tokio::test]
async fn absent_arguments_become_an_empty_object_in_each_protocol() {
    for arguments in [None, Some(&Value::Null)] {
        for (protocol, responses, answer) in answers(arguments, false) {
            let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = responses;
            let request = conversation("c1");
            let (_, completion) = exchanged(protocol, change, &request, answer).await;
            let call = &completion.tool_calls[0];
            assert_eq!(call.name, "search");
            assert_eq!(call.arguments, "{}", "{protocol:?}");
        }
    }
}

#[tokio::test]
async fn calls_of_a_truncated_reply_have_the_finish_reason_length_in_each_protocol() {
    let arguments = json!({ "text": "re" });
    let mut cut = answers(Some(&arguments), true);
    let (.., mut unexplained) = cut[2].clone();
    unexplained["incomplete_details"] = Value::Null;
    cut.push((Protocol::OpenAi, true, unexplained));
    for (protocol, responses, answer) in cut {
        let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = responses;
        let request = conversation("c1");
        let (_, completion) = exchanged(protocol, change, &request, answer).await;
        assert_eq!(completion.finish, FinishReason::Length, "{protocol:?}");
        assert_eq!(completion.tool_calls[0].arguments, arguments.to_string());
    }
    let half = r#"{"text":"re"#;
    let call = json!({ "name": "search", "arguments": half });
    let endpoint = mock(json!({ "replies": [{ "finish": "length", "toolCalls": [call] }] }));
    let limits = CallLimits::default();
    let (result, _) = support::call(&llm(), &endpoint, &limits, &conversation("c1")).await;
    let completion = result.unwrap();
    assert_eq!(completion.finish, FinishReason::Length);
    assert_eq!(completion.tool_calls[0].arguments, half);
}

/// The ids of calls in a reply, in the order of the calls.
async fn ids(protocol: Protocol, request: &CompletionRequest, answer: &Value) -> Vec<String> {
    let is_responses = answer.get("output").is_some();
    let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = is_responses;
    let (_, completion) = exchanged(protocol, change, request, answer.clone()).await;
    let calls = completion.tool_calls.into_iter();
    calls.map(|call| call.id).collect()
}

#[tokio::test]
async fn ids_of_calls_are_unique_and_ids_of_the_provider_are_kept() {
    let mut request = CompletionRequest::new(vec![message(Role::User, "Is it good?")]);
    request.tools = vec![tool("search")];
    let provided_ids = [json!("a"), json!(null), json!("a"), json!(""), json!("call_2")];
    let calls = |member: &str, call: Value| {
        let with = |id: &Value| {
            let mut call = call.clone();
            call[member] = id.clone();
            call
        };
        provided_ids.iter().map(with).collect::<Value>()
    };
    let function = json!({ "function": { "name": "search" } });
    let item = json!({ "type": "function_call", "name": "search" });
    let block = json!({ "type": "tool_use", "name": "search" });
    for (protocol, answer) in [
        (
            Protocol::OpenAi,
            json!({ "choices": [{ "message": { "tool_calls": calls("id", function) } }] }),
        ),
        (Protocol::OpenAi, json!({ "status": "completed", "output": calls("call_id", item) })),
        (Protocol::Anthropic, json!({ "content": calls("id", block) })),
    ] {
        let found = ids(protocol, &request, &answer).await;
        assert_eq!(found, ["a", "call_3", "call_4", "call_5", "call_2"]);
        assert_eq!(ids(protocol, &request, &answer).await, found, "each time");
    }
    let part = json!({ "functionCall": { "name": "search" }, "thoughtSignature": "c2ln" });
    let google = json!({ "candidates": [{ "content": { "parts": [part, part] } }] });
    let found = ids(Protocol::GoogleAiStudio, &request, &google).await;
    assert_eq!(found, ["call_1~c2ln", "call_2~c2ln"]);
}

#[tokio::test]
async fn assigned_ids_do_not_repeat_ids_of_the_conversation() {
    let part = json!({ "functionCall": { "name": "search" } });
    let answer = json!({ "candidates": [{ "content": { "parts": [part] } }] });
    // The two calls before these were taken out of the conversation.
    let request = conversation("call_3");
    let found = ids(Protocol::GoogleAiStudio, &request, &answer).await;
    assert_eq!(found, ["call_4"]);
}

#[tokio::test]
async fn extra_cannot_replace_tools_or_conversation() {
    let extra = json!({
        "tools": [], "tool_choice": "none", "toolConfig": {}, "tool_config": {}, "functions": [],
        "function_call": "none", "mcp_servers": [], "messages": [], "contents": [], "input": "x",
        "system": "x", "systemInstruction": {}, "instructions": "x", "model": "dearer", "stream": true,
    });
    for (protocol, responses, answer) in [
        (Protocol::OpenAi, false, chat_calls()),
        (Protocol::Azure, false, chat_calls()),
        (Protocol::OpenAi, true, json!({ "status": "completed", "output": [] })),
        (Protocol::Anthropic, false, json!({ "content": [] })),
        (Protocol::GoogleAiStudio, false, json!({ "candidates": [{}] })),
        (Protocol::Bedrock, false, json!({ "output": { "message": { "content": [] } } })),
    ] {
        let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = responses;
        let mut request = conversation("c1");
        let (body, _) = exchanged(protocol, change, &request, answer.clone()).await;
        request.extra = Some(extra.to_string());
        let (with_extra, _) = exchanged(protocol, change, &request, answer).await;
        assert_eq!(with_extra, body);
    }
}

#[tokio::test]
async fn images_and_files_are_encoded_for_each_protocol() {
    let request = with_media(&[
        (MediaKind::Image, "i", "image/png"),
        (MediaKind::File, "f", "application/pdf"),
    ]);
    let (image, file) = ("data:image/png;base64,YWJj", "data:application/pdf;base64,YWJj");
    let chat = json!({ "choices": [{ "message": { "content": "a" } }] });
    let (body, _) = exchanged(Protocol::OpenAi, |_| {}, &request, chat).await;
    let expected = json!([
        { "type": "text", "text": "Look." },
        { "type": "image_url", "image_url": { "url": image } },
        { "type": "file", "file": { "filename": "f", "file_data": file } },
    ]);
    assert_eq!(body["messages"][0]["content"], expected);
    let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = true;
    let answer = json!({ "status": "completed", "output": [] });
    let (body, _) = exchanged(Protocol::OpenAi, change, &request, answer).await;
    let expected = json!([
        { "type": "input_text", "text": "Look." },
        { "type": "input_image", "image_url": image },
        { "type": "input_file", "filename": "f", "file_data": file },
    ]);
    assert_eq!(body["input"][0]["content"], expected);
    let (body, _) =
        exchanged(Protocol::Anthropic, |_| {}, &request, json!({ "content": [] })).await;
    let source = |kind: &str| json!({ "type": "base64", "media_type": kind, "data": "YWJj" });
    let expected = json!([
        { "type": "text", "text": "Look." },
        { "type": "image", "source": source("image/png") },
        { "type": "document", "source": source("application/pdf") },
    ]);
    assert_eq!(body["messages"][0]["content"], expected);
    let answer = json!({ "candidates": [{ "content": { "parts": [{ "text": "a" }] } }] });
    let (body, _) = exchanged(Protocol::GoogleAiStudio, |_| {}, &request, answer).await;
    let inline = |kind: &str| json!({ "inlineData": { "mimeType": kind, "data": "YWJj" } });
    let expected = json!([{ "text": "Look." }, inline("image/png"), inline("application/pdf")]);
    assert_eq!(body["contents"][0]["parts"], expected);
}

/// A blank message of each role, and a question surrounded by blank texts.
fn with_empty_texts() -> CompletionRequest {
    let mut request = with_media(&[(MediaKind::Image, "i", "image/png")]);
    let question = &mut request.messages[0].parts;
    question.insert(0, MessagePart::Text(String::new()));
    question.push(MessagePart::Text(" \n".to_owned()));
    let before = [
        message(Role::System, ""),
        message(Role::User, "Hello."),
        message(Role::Assistant, " "),
        message(Role::User, ""),
    ];
    request.messages.splice(0..0, before);
    request
}

#[tokio::test]
async fn blank_texts_and_messages_are_omitted_for_protocols_that_reject_them() {
    let request = with_empty_texts();
    let chat = json!({ "choices": [{ "message": { "content": "a" } }] });
    let (body, _) = exchanged(Protocol::OpenAi, |_| {}, &request, chat).await;
    let image = "data:image/png;base64,YWJj";
    let expected = json!([
        { "role": "system", "content": "" },
        { "role": "user", "content": "Hello." },
        { "role": "assistant", "content": " " },
        { "role": "user", "content": "" },
        { "role": "user", "content": [
            { "type": "text", "text": "Look." },
            { "type": "image_url", "image_url": { "url": image } }] },
    ]);
    assert_eq!(body["messages"], expected);
    let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = true;
    let answer = json!({ "status": "completed", "output": [] });
    let (body, _) = exchanged(Protocol::OpenAi, change, &request, answer).await;
    let expected = json!([
        { "type": "input_text", "text": "Look." },
        { "type": "input_image", "image_url": image },
    ]);
    assert_eq!(body["input"][4]["content"], expected);
    let answer = json!({ "content": [] });
    let (body, _) = exchanged(Protocol::Anthropic, |_| {}, &request, answer).await;
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "YWJj" });
    let expected = json!([
        { "role": "user", "content": "Hello." },
        { "role": "user", "content": [
            { "type": "text", "text": "Look." }, { "type": "image", "source": source }] },
    ]);
    assert_eq!((&body["messages"], body.get("system")), (&expected, None));
    let answer = json!({ "candidates": [{ "content": { "parts": [{ "text": "a" }] } }] });
    let (body, _) = exchanged(Protocol::GoogleAiStudio, |_| {}, &request, answer).await;
    let inline = json!({ "inlineData": { "mimeType": "image/png", "data": "YWJj" } });
    let expected =
        json!([{ "role": "user", "parts": [{ "text": "Hello." }, { "text": "Look." }, inline] }]);
    assert_eq!(body["contents"], expected);
    assert_eq!(body.get("systemInstruction"), None);
}

#[tokio::test]
async fn a_blank_text_next_to_a_call_is_omitted_in_each_protocol() {
    let mut request = conversation("c1");
    request.messages[1].parts[0] = MessagePart::Text(String::new());
    for (protocol, responses, pointer, n_parts) in [
        (Protocol::OpenAi, false, "/messages/1/tool_calls", 2),
        (Protocol::OpenAi, true, "/input", 5),
        (Protocol::Anthropic, false, "/messages/1/content", 2),
        (Protocol::GoogleAiStudio, false, "/contents/1/parts", 2),
        (Protocol::Bedrock, false, "/messages/1/content", 2),
    ] {
        let server = Server::start(vec![Act::Json(200, json!({}))]).await;
        let mut endpoint = endpoint(protocol, &server.url);
        endpoint.use_responses_api = responses;
        let (_, _) = support::call(&llm(), &endpoint, &CallLimits::default(), &request).await;
        let body = server.received().remove(0).body;
        let parts = body.pointer(pointer).and_then(Value::as_array);
        assert_eq!(parts.map(Vec::len), Some(n_parts), "{body}");
    }
}

#[tokio::test]
async fn a_blank_question_is_an_error_for_protocols_that_reject_it() {
    for protocol in [Protocol::Anthropic, Protocol::GoogleAiStudio, Protocol::Bedrock] {
        let server = Server::start(vec![Act::Json(200, json!({}))]).await;
        let endpoint = endpoint(protocol, &server.url);
        for (messages, expected) in [
            (
                vec![message(Role::User, "Hello."), message(Role::User, " ")],
                "messages[1]: the last message of the role `user`",
            ),
            (
                vec![message(Role::System, ""), message(Role::Assistant, "")],
                "all messages are blank",
            ),
        ] {
            let request = CompletionRequest::new(messages);
            let limits = CallLimits::default();
            let (result, _) = support::call(&llm(), &endpoint, &limits, &request).await;
            let failure = result.unwrap_err();
            assert_eq!(failure.class, ErrorClass::InvalidInput);
            assert!(failure.message.contains(expected), "{}", failure.message);
            assert!(failure.is_unsent && server.received().is_empty());
        }
    }
}

#[tokio::test]
async fn an_unsupported_part_is_an_error_before_anything_is_sent() {
    let audio = |kind| with_media(&[(MediaKind::Audio, "a", kind)]);
    for (protocol, responses, request, expected) in [
        (Protocol::OpenAi, false, audio("audio/ogg"), "protocol openai"),
        (Protocol::OpenAi, true, audio("audio/wav"), "openai (responses)"),
        (Protocol::Anthropic, false, audio("audio/wav"), "protocol anthropic"),
        (Protocol::Bedrock, false, audio("audio/wav"), "protocol bedrock"),
        (
            Protocol::GoogleAiStudio,
            false,
            with_media(&[(MediaKind::Image, "a", "text/plain")]),
            "does not match the part kind `image`",
        ),
    ] {
        let server = Server::start(vec![Act::Json(200, json!({}))]).await;
        let mut endpoint = endpoint(protocol, &server.url);
        endpoint.use_responses_api = responses;
        let limits = CallLimits::default();
        let (result, _) = support::call(&llm(), &endpoint, &limits, &request).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, ErrorClass::InvalidInput);
        assert!(failure.message.contains(expected), "{}", failure.message);
        assert!(failure.is_unsent && server.received().is_empty());
    }
}

#[tokio::test]
async fn audio_is_sent_in_chat_completions() {
    let chat = json!({ "choices": [{ "message": { "content": "a" } }] });
    let request = with_media(&[(MediaKind::Audio, "a", "audio/mpeg")]);
    let (body, _) = exchanged(Protocol::OpenAi, |_| {}, &request, chat).await;
    let sound =
        json!({ "type": "input_audio", "input_audio": { "data": "YWJj", "format": "mp3" } });
    assert_eq!(body["messages"][0]["content"][1], sound);
}

#[tokio::test]
async fn a_script_by_turns_drives_a_tool_loop_to_a_validated_reply() {
    let good: Value = serde_json::from_str(GOOD).unwrap();
    let endpoint = mock(json!({ "replies": [
        { "turn": 1, "toolCalls": [{ "name": "search", "arguments": { "text": "refund" } }] },
        { "turn": 2, "contains": "found", "toolCalls": [{ "name": "end", "id": "mine" }] },
        { "turn": 3, "reply": good },
        { "error": { "status": 500 } },
    ] }));
    let (llm, limits) = (llm(), CallLimits::default());
    let mut request = CompletionRequest::new(vec![message(Role::User, "Is it good?")]);
    request.tools = vec![tool("search"), tool("end")];
    request.response_schema = Some(schema().to_string());
    let mut seen = Vec::new();
    for turn in 1.. {
        let (result, _) = support::call(&llm, &endpoint, &limits, &request).await;
        let completion = result.unwrap();
        if completion.tool_calls.is_empty() {
            assert_eq!((turn, completion.structured.as_deref()), (3, Some(GOOD)));
            break;
        }
        assert_eq!(completion.structured, None);
        let request_message = Message {
            role: Role::Assistant,
            parts: vec![MessagePart::ToolCall(completion.tool_calls[0].clone())],
        };
        let id = completion.tool_calls[0].id.clone();
        let heard = Message { role: Role::Tool, parts: vec![result_of(&id)] };
        seen.push(id);
        request.messages.extend([request_message, heard]);
    }
    assert_eq!(seen, ["call_1", "mine"]);
}

fn result_of(id: &str) -> MessagePart {
    result(id, "found it", false)
}
