//! Less common formats of libraries: lists of messages, message parts, and media.

use serde_json::json;

use super::corpus_tests::has_base64;
use super::tests::{PNG, block, html, outline};
use super::*;

const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";

#[test]
fn message_lists_of_every_library_are_conversations() {
    let message = json!({"role": "user", "content": "hi"});
    let twice = json!(json!([message]).to_string()).to_string();
    let shapes = [
        json!({"messages": [{"role": "user", "blocks": [{"block_type": "text", "text": "hi"}], "additional_kwargs": {}}]}),
        json!({"contents": [{"parts": [{"text": "hi"}]}]}),
        json!({"messages": [["user", "hi"]]}),
        json!([{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "hi"}]}]),
        json!([{"source": "user", "content": "hi", "type": "UserMessage"}]),
        json!({"message": "hi", "chat_history": []}),
        json!({"conversations": [{"from": "user", "value": "hi"}]}),
        json!([{"_role": "user", "_content": [{"text": "hi"}], "_name": null, "_meta": {}}]),
        json!({"messages": [{"role": "user", "items": [{"content_type": "text", "text": "hi"}]}]}),
        json!({"messages": twice}),
        json!({"object": "list", "data": [{"role": "user", "content": [{"type": "text", "text": {"value": "hi", "annotations": []}}]}]}),
        json!({"model": "gemini-2.0-flash", "contents": "hi"}),
        json!([{"role": "user", "contents": [{"$type": "text", "text": "hi"}]}]),
        json!([{"type": "USER", "contents": [{"type": "TEXT", "text": "hi"}]}]),
        json!(twice),
    ];
    for shape in shapes {
        let lines = outline(shape.clone());
        assert!(lines == ["user: hi"], "{shape}: {lines:?}");
    }
    let stream = json!([
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "he"}}]},
        {"choices": [{"index": 0, "delta": {"content": "llo"}, "finish_reason": "stop"}]},
    ]);
    assert_eq!(outline(stream), ["assistant: hello"]);
}

#[test]
fn tool_calls_results_and_reasoning_of_every_library_are_parts() {
    let llama = json!({"message": {"role": "assistant", "blocks": [
        {"block_type": "thinking", "content": "hm"},
        {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "f", "tool_kwargs": {"a": 1}},
        {"block_type": "text", "text": "yo"},
    ]}, "raw": null});
    assert_eq!(outline(llama), ["assistant: reasoning(hm), tool call f({\"a\":1}), yo"]);
    let pydantic = json!([
        {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "s"}, {"part_kind": "user-prompt", "content": ["look", {"kind": "image-url", "url": "https://a.example/b"}]}]},
        {"kind": "response", "parts": [{"part_kind": "tool-call", "tool_name": "f", "args": "{}", "tool_call_id": "c"}]},
        {"kind": "request", "parts": [{"part_kind": "tool-return", "tool_name": "f", "content": "r", "tool_call_id": "c"}]},
    ]);
    assert_eq!(
        outline(pydantic),
        ["system: s", "user: look, image()", "assistant: tool call f({} tool result f(r))",]
    );
    let autogen = json!([
        {"source": "a", "content": [{"id": "c", "name": "f", "arguments": "{}"}], "type": "AssistantMessage"},
        {"content": [{"call_id": "c", "content": "r", "name": "f"}], "type": "FunctionExecutionResultMessage"},
    ]);
    assert_eq!(outline(autogen), ["assistant: tool call f({} tool result f(r))"]);
    let cohere = json!({"message": "hi", "preamble": "s", "chat_history": [{"role": "CHATBOT", "message": "yo"}]});
    assert_eq!(outline(cohere), ["system: s", "CHATBOT: yo", "user: hi"]);
    let haystack = json!([
        {"role": "assistant", "content": [{"tool_call": {"tool_name": "f", "arguments": {}, "id": "c"}}]},
        {"role": "tool", "content": [{"tool_call_result": {"result": "r", "error": false}}]},
    ]);
    assert_eq!(outline(haystack), ["assistant: tool call f()", "tool: tool result(r +)"]);
    let paired = json!([
        {"role": "assistant", "content": [{"tool_call": {"tool_name": "f", "arguments": {}, "id": "c"}}]},
        {"role": "tool", "content": [{"tool_call_result": {"result": "r", "origin": {"tool_name": "f", "arguments": {}, "id": "c"}, "error": false}}]},
    ]);
    assert_eq!(outline(paired), ["assistant: tool call f(tool result f(r +))"]);
}

#[test]
fn results_of_mcp_are_read_alone_and_in_the_answer_of_a_server() {
    let contents = json!([
        {"type": "text", "text": "words"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "held"}},
        {"type": "resource", "resource": {"uri": "file:///b", "mimeType": "application/zip", "blob": "UEsDBAo="}},
    ]);
    let result = json!({"content": contents, "isError": true, "structuredContent": {"a": 1}});
    let line = "words image() document file:///a(held) file() +)";
    assert_eq!(outline(result.clone()), [format!("tool: tool result!({line}")]);
    assert_eq!(media(&result), ["image/png", "application/zip"]);
    let rpc = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "words"}], "isError": false}});
    assert_eq!(outline(rpc), ["tool: tool result(words)"]);
    let in_message = json!([{"role": "tool", "tool_call_id": "c", "content": {"content": [{"type": "text", "text": "words"}], "isError": true}}]);
    assert_eq!(outline(in_message), ["tool: tool result!(words) +"]);
}

#[test]
fn server_tools_are_calls_and_provider_files_are_media() {
    let semconv = json!([{"role": "assistant", "parts": [
        {"type": "server_tool_call", "id": "s", "name": "search", "server_tool_call": {"type": "search", "query": "q"}},
        {"type": "server_tool_call_response", "id": "s", "server_tool_call_response": {"type": "search", "hits": 2}},
    ]}]);
    assert_eq!(
        outline(semconv),
        ["assistant: tool call search({\"query\":\"q\"} tool result search(JSON({\"hits\":2})))"]
    );
    let responses = json!({"output": [
        {"type": "mcp_list_tools", "id": "l", "server_label": "s", "tools": [{"name": "f", "input_schema": {}}]},
        {"type": "mcp_approval_request", "id": "a", "name": "f", "arguments": "{\"a\":1}"},
        {"type": "mcp_approval_response", "approval_request_id": "a", "approve": true},
    ]});
    assert_eq!(
        outline(responses),
        [
            "assistant: tool call mcp_list_tools(tool result(part({\"name\":\"f\",\"input_schema\":{}})) +)",
            "assistant: tool call f({\"a\":1} tool result(JSON({\"approve\":true})))",
        ]
    );
    for part in [
        json!({"type": "file", "modality": "image", "mime_type": "image/png", "file_id": "f-1"}),
        json!({"type": "file", "file": {"file_id": "f-1"}}),
    ] {
        let page = html(&block(json!([{"role": "user", "content": [part]}])));
        assert!(page.contains(" at <bdi>f-1</bdi>"), "{page}");
    }
}

#[test]
fn list_with_one_message_is_a_conversation_with_the_other_items_as_json() {
    let user = json!({"role": "user", "content": "a"});
    let lines = outline(json!([null, user, null, 7]));
    let [first, second, ..] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert!(first.starts_with("other: ") && second == "user: a", "{lines:?}");
    assert_eq!((lines.len(), lines[3].as_str()), (4, "other: part(7)"));
    let lines = outline(json!([user, {"x": 1}, {"y": "z"}]));
    let expected = ["user: a", "other: part({\"x\":1})", "other: part({\"y\":\"z\"})"];
    assert_eq!(lines, expected);
    let lines = outline(json!({"input": [
        {"type": "item_reference", "id": "m"},
        {"type": "message", "role": "user", "content": "go"},
        {"type": "compaction", "encrypted_content": "x"},
    ]}));
    assert!(lines.len() == 3 && lines[1] == "user: go", "{lines:?}");
}

#[test]
fn parts_of_bedrock_anthropic_and_mistral_are_parsed() {
    let message = |parts: Value| outline(json!([{"role": "user", "content": parts}]));
    for (part, line) in [
        (json!({"reasoningContent": {"reasoningText": {"text": "hm"}}}), "reasoning(hm)"),
        (
            json!({"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}]}}),
            "tool result(JSON({\"a\":1}))",
        ),
        (json!({"guardContent": {"text": {"text": "words"}}}), "guarded(words)"),
        (
            json!({"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://x/y"}}}}),
            "video()",
        ),
        (
            json!({"type": "document", "title": "d", "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "context": "c"}),
            "document d(words +)",
        ),
        (
            json!({"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "words"}]}}),
            "document(words)",
        ),
        (json!({"type": "document_url", "document_url": "https://a.example/m.pdf"}), "file()"),
    ] {
        let lines = message(json!([part]));
        assert_eq!(lines, [format!("user: {line}")], "{part}");
    }
}

#[test]
fn server_tool_calls_have_names_and_inputs() {
    let lines = outline(json!({"output": [
        {"type": "image_generation_call", "id": "ig", "status": "completed", "result": PNG},
        {"type": "code_interpreter_call", "id": "ci", "code": "print(1)", "outputs": [{"type": "logs", "logs": "1"}]},
    ]}));
    assert_eq!(
        lines,
        [
            "assistant: tool call image_generation(tool result())",
            "assistant: tool call code_interpreter(print(1) tool result(1))",
        ]
    );
    let generated = json!([{"role": "user", "content": [
        {"type": "image_generation_call", "id": "ig", "result": PNG},
    ]}]);
    assert_eq!(media(&generated), ["image/png"]);
    let lines = outline(json!({"system_instruction": "S", "contents": "words"}));
    assert_eq!(lines, ["system: S", "user: words"]);
    let gemini = json!({"contents": [{"role": "model", "parts": [
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "1"}},
    ]}]});
    assert_eq!(
        outline(gemini.clone()),
        ["model: tool call code_execution(print(1) tool result! code_execution(1))"]
    );
    assert!(html(&block(gemini)).contains("PYTHON"));
}

#[test]
fn duplicate_calls_are_merged_and_have_their_result() {
    let call = |args: Value| json!({"type": "ai", "content": [{"type": "tool_use", "id": "l", "name": "f", "input": args}], "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "l"}]});
    let result = json!({"type": "tool", "content": "# r", "tool_call_id": "l"});
    for args in [json!({"a": 1}), json!({})] {
        assert_eq!(
            outline(json!([call(args), result])),
            ["ai: tool call f({\"a\":1} tool result(#r))"]
        );
    }
    let twice = outline(json!([call(json!({"a": 2}))]));
    assert_eq!(twice, ["ai: tool call f({\"a\":2}), tool call f({\"a\":1})"]);
    let ui = json!([{"id": "m", "role": "assistant", "parts": [
        {"type": "step-start"},
        {"type": "tool-weather", "toolCallId": "u1", "state": "output-available", "input": {"a": 1}, "output": {"b": 2}},
        {"type": "dynamic-tool", "toolName": "f", "toolCallId": "u2", "state": "output-error", "input": {"a": 1}, "errorText": "no"},
    ]}]);
    assert_eq!(
        outline(ui),
        [
            "assistant: tool call weather({\"a\":1} tool result(JSON({\"b\":2}))), tool call f({\"a\":1} tool result!(no))"
        ]
    );
    let asks = json!({"role": "assistant", "tool_calls": [{"id": "e1", "function": {"name": "f", "arguments": "{}"}}]});
    for result in [
        json!({"role": "tool", "id": "e1", "content": "R"}),
        json!({"role": "tool", "content": "R", "additional_kwargs": {"tool_call_id": "e1"}}),
    ] {
        assert_eq!(outline(json!([asks, result])), ["assistant: tool call f({} tool result(R))"]);
    }
}

#[test]
fn markdown_is_rendered_except_in_tool_results() {
    let page_of =
        |role: &str, content: Value| html(&block(json!([{"role": role, "content": content}])));
    let text = "**bold** ![pixel](https://evil.example/p.png)\n\n| a |\n|---|\n| b |";
    for content in [json!(text), json!([{"type": "text", "text": text}]), json!([text])] {
        let page = page_of("assistant", content);
        assert!(page.contains("<strong>bold</strong>") && page.contains("<td>b</td>"), "{page}");
        assert!(page.contains(">image: pixel</a>") && !page.contains("src="), "{page}");
    }
    let page = page_of("tool", json!(text));
    assert!(page.contains("**bold**") && !page.contains("<table"), "{page}");
    let page = page_of("user", json!("a  b\n    c"));
    assert!(page.contains("<pre dir=\"auto\" tabindex=\"0\">a  b\n    c</pre>"), "{page}");
    for blank in [json!(" \n"), json!(""), json!([{"type": "text", "text": " "}])] {
        let page = page_of("user", blank);
        assert!(!page.contains("<pre") && page.contains("r-user"), "{page}");
    }
    let long = format!("**bold** {}", "word ".repeat(20_000));
    let page = page_of("user", json!(long));
    assert!(!page.contains("<strong>"));
}

#[test]
fn media_in_object_storage_are_named_and_not_linked() {
    let hostile = "s3://x/\"><script>alert(1)</script>\u{202e}";
    for address in ["s3://bucket/film.mp4", "gs://bucket/film.mp4", hostile] {
        let part = json!({"video": {"format": "mp4", "source": {"s3Location": {"uri": address}}}});
        let page = html(&block(json!([{"role": "user", "content": [part]}])));
        let shown = address.split('"').next().unwrap();
        assert!(page.contains(&format!(" at <bdi>{shown}")), "{page}");
        for inert in ["<video", "href=\"s3", "href=\"gs", "<script", "\u{202e}"] {
            assert!(!page.contains(inert), "{inert}: {page}");
        }
    }
}

/// The content types of the media in a value. Checks that their bytes are not text on the page.
fn media(value: &Value) -> Vec<String> {
    let payload = Payload::from_value(value.clone());
    let page = html(&block(value.clone()));
    let has_bytes = [PNG, WAV].iter().any(|data| page.contains(&data[10..40]));
    assert!(!has_bytes && !has_base64(&page) && !page.contains("137,"), "{page}");
    let found = (0..).map_while(|number| {
        let found = inline_medium(&payload, number)?;
        assert!(page.contains(&format!("/raw/input/media/{number}\"")), "{page}");
        assert!(!found.bytes.is_empty());
        Some(found.content_type)
    });
    found.collect()
}

#[test]
fn media_are_found_in_all_encodings() {
    let message = |part: Value| json!([{"role": "user", "content": [part]}]);
    let escaped = PNG.replace('+', "%2B").replace('/', "%2F").replace('=', "%3d");
    let bytes = perpend_domain::content::encoded::decoded(PNG);
    let buffer = json!({"type": "Buffer", "data": bytes});
    let numbered: Map<String, Value> =
        bytes.iter().enumerate().map(|(at, byte)| (at.to_string(), json!(byte))).collect();
    let numbered = Value::Object(numbered);
    for (part, found) in [
        (json!(format!("data:image/png;base64,{escaped}")), "image/png"),
        (json!(format!("x data:image/png;charset=utf-8;base64, {PNG}")), "image/png"),
        (json!({"type": "image", "image": PNG}), "image/png"),
        (json!({"type": "image", "base64": PNG}), "image/png"),
        (json!({"b64_json": PNG}), "image/png"),
        (json!({"type": "input_audio", "input_audio": WAV}), "audio/wav"),
        (json!({"type": "file", "data": buffer, "mediaType": "image/png"}), "image/png"),
        (json!({"type": "image", "image": numbered}), "image/png"),
        (json!({"type": "image", "image": {"0": 137, "1": 80, "2": 78, "3": 71}}), "image/png"),
        (
            json!({"type": "file", "data": {"type": "Buffer", "data": [1, 2, 3]}}),
            "application/octet-stream",
        ),
    ] {
        assert_eq!(media(&message(part.clone())), [found], "{part}");
    }
    for data in [escaped, format!(" {PNG}")] {
        let uri = format!("data:image/png;base64,{data}");
        let medium = inline_medium(&Payload::Text(uri), 0).unwrap();
        assert_eq!(medium.bytes, bytes);
    }
}

#[test]
fn text_and_numbers_are_not_mistaken_for_media() {
    let message = |part: Value| json!([{"role": "user", "content": [part]}]);
    for (part, shown) in [
        (json!({"type": "image", "image": "cat"}), "cat"),
        (json!({"type": "image", "data": "a".repeat(80)}), "aaaa"),
        (json!("see data:image/png;base64, which is a head"), "which is a head"),
        (json!({"0": 1, "1": 2, "2": 3}), "\"2\""),
        (json!({"type": "Buffer", "data": [1, 256]}), "256"),
        (json!({"type": "Buffer", "data": "words"}), "words"),
        (json!({"0": 137, "1": 80, "2": 78, "4": 71}), "137"),
    ] {
        let value = message(part);
        let page = html(&block(value.clone())).replace("&quot;", "\"");
        assert!(page.contains(shown), "{shown}: {page}");
        assert_eq!(inline_medium(&Payload::from_value(value), 0), None);
    }
}
