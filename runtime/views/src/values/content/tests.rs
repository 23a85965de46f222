//! The message formats of each API, media, and tool results at their calls.

use askama::Template;
use serde_json::json;

use super::*;

/// A PNG image with one pixel.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5ErkJggg==";

#[derive(Template)]
#[template(path = "block.html")]
struct BlockTemplate<'b> {
    block: &'b Block,
}

pub(super) fn addresses() -> Addresses {
    Addresses::new("", "t", None, "input")
}

pub(super) fn shown(payload: &Payload, form: Option<Form>) -> Block {
    super::RenderedValue::of(Some(payload), &ValueParams::form(form), &addresses()).block
}

pub(super) fn block(value: Value) -> Block {
    shown(&Payload::from_value(value), None)
}

pub(super) fn html(block: &Block) -> String {
    BlockTemplate { block }.render().unwrap()
}

fn chat(value: Value) -> Chat {
    match block(value.clone()) {
        Block::Chat(chat) => *chat,
        _ => panic!("not a conversation: {value}"),
    }
}

/// A conversation as one line per message: `role: part, part`. A part is its text, or `label name(contents)`.
pub(super) fn outline(value: Value) -> Vec<String> {
    fn sketch(part: &parts::RenderedPart) -> String {
        let mut inner: Vec<String> = part.inner.iter().map(sketch).collect();
        if let Some(body) = part.body.as_ref().filter(|body| !body.is_blank) {
            inner.insert(0, text_of(&body.body.to_string()));
        }
        if part.further.is_some() {
            inner.push("+".to_owned());
        }
        let error = if part.is_error { "!" } else { "" };
        match (part.label, &part.name) {
            (None, _) => inner.join(" "),
            (Some(label), None) => format!("{label}{error}({})", inner.join(" ")),
            (Some(label), Some(name)) => format!("{label}{error} {name}({})", inner.join(" ")),
        }
    }
    let chat = chat(value);
    assert!(chat.middle.is_empty());
    let lines = chat.first.iter().map(|message| {
        let parts: Vec<String> = message.parts.iter().map(sketch).collect();
        let further = if message.further.is_some() { " +" } else { "" };
        format!("{}: {}{further}", message.role, parts.join(", "))
    });
    lines.collect()
}

/// The text of HTML without white space.
fn text_of(html: &str) -> String {
    let mut out = String::new();
    for piece in html.split('<') {
        let text = piece.split_once('>').map_or(piece, |(_, text)| text);
        out.push_str(text);
    }
    let out = out.replace("&quot;", "\"");
    out.split_whitespace().collect()
}

#[test]
fn lists_objects_requests_and_responses_are_conversations() {
    let message = json!({"role": "user", "content": "hello"});
    let shapes = [
        json!([message]),
        message.clone(),
        json!({"messages": [message], "model": "m", "temperature": 1}),
        json!({"id": "x", "choices": [{"index": 0, "message": message}], "usage": {"n": 1}}),
        json!({"inputs": {"messages": [message]}, "tags": ["a"]}),
        json!([{"graph": null, "update": {"messages": [message]}}]),
        json!({"output": {"messages": [[message]]}}),
        json!({"message": message, "finish_reason": "stop"}),
        json!({"model": "m", "messages": format!("[{message}]")}),
        json!(format!(" [{message}]")),
    ];
    for shape in shapes {
        let lines = outline(shape.clone());
        assert!(lines == ["user: hello"], "{shape}: {lines:?}");
    }
    let chat = chat(json!({"messages": [message], "temperature": 1, "inner": {"deep": "x"}}));
    let further = chat.further.unwrap();
    assert_eq!(further.title(), "2 more fields");
    assert_eq!(further.names.to_string(), "temperature, inner");
}

#[test]
fn other_json_is_a_tree() {
    let raw = [
        json!([]),
        json!([1, 2]),
        json!({"question": "a", "answer": "b"}),
        json!([{"role": "user", "email": "a@b.c", "plan": "x"}, {"role": "admin", "plan": "y"}]),
        json!([{"type": "text", "text": "a"}, 1, 2, 3]),
        json!([{"role": "user", "email": "a@b.c"}, {"x": 1}, {"y": 1}]),
        json!({"prompt": "a"}),
        json!([{"id": "doc", "score": 0.5}]),
        json!([{"page_content": "text", "type": "Document"}]),
        json!({"data": {"messages": "none"}}),
        json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]),
    ];
    for value in raw {
        assert!(matches!(block(value.clone()), Block::Tree(_)), "{value}");
    }
}

#[test]
fn unknown_members_are_shown_below_the_message_and_other_items_as_json() {
    let value = json!([
        {"role": "user", "content": "a", "surprise": {"n": 1}},
        {"odd": true},
        {"role": "assistant", "content": "b"},
    ]);
    assert_eq!(
        outline(value.clone()),
        ["user: a +", "other: part({\"odd\":true})", "assistant: b"]
    );
    let page = html(&block(value));
    assert!(page.contains("1 more field <bdi class=\"muted\">surprise</bdi>"));
}

#[test]
fn openai_chat() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"a\":1}"}});
    let lines = outline(json!({
        "model": "gpt",
        "tools": [{"type": "function", "function": {"name": "add", "parameters": {}}}],
        "messages": [
            {"role": "developer", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "1+1"}, {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{PNG}"), "detail": "low"}}]},
            {"role": "assistant", "content": null, "refusal": null, "tool_calls": [call("1", "add"), call("2", "sub")]},
            {"role": "tool", "tool_call_id": "2", "content": "zero"},
            {"role": "tool", "tool_call_id": "1", "content": "{\"sum\":2}"},
            {"role": "assistant", "refusal": "no", "audio": {"id": "a", "transcript": "two", "data": "UklGRiQAAABXQVZF", "expires_at": 1}},
        ],
    }));
    assert_eq!(
        lines,
        [
            "developer: bebrief",
            "user: 1+1, image()",
            "assistant: tool call add({\"a\":1} tool result(JSON({\"sum\":2}))), tool call sub({\"a\":1} tool result(zero))",
            "assistant: audio(), refusal(no)",
        ]
    );
}

#[test]
fn openai_responses() {
    let lines = outline(json!({
        "model": "gpt", "instructions": "be brief",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjQ="}]},
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
            {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "found"},
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}},
            {"type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "done", "annotations": []}]},
        ],
    }));
    assert_eq!(
        lines,
        [
            "system: bebrief",
            "user: hi, file()",
            "assistant: reasoning(hm +)",
            "assistant: tool call look({} tool result(found))",
            "assistant: tool call web_search({\"query\":\"q\"})",
            "assistant: done",
        ]
    );
    assert_eq!(
        outline(json!({"instructions": "be brief", "input": "hi", "model": "gpt"})),
        ["system: bebrief", "user: hi"]
    );
}

#[test]
fn anthropic() {
    let lines = outline(json!({
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t1", "name": "search", "input": {"q": "tea"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": [{"type": "text", "text": "none"}]},
                {"type": "text", "text": "go on"},
            ]},
        ],
    }));
    assert_eq!(
        lines,
        [
            "system: bebrief +",
            "user: image()",
            "assistant: reasoning(hm +), Ilook, tool call search({\"q\":\"tea\"} tool result!(none))",
            "user: goon",
        ]
    );
    let answer = json!([{"type": "text", "text": "I look"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}]);
    assert_eq!(outline(answer), ["assistant: Ilook, tool call f()"]);
}

#[test]
fn gemini_and_bedrock() {
    let lines = outline(json!({
        "systemInstruction": {"role": "system", "parts": [{"text": "be brief"}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": PNG}}, {"fileData": {"mimeType": "video/mp4", "fileUri": "https://files.example/v"}}]},
            {"role": "model", "parts": [{"text": "hm", "thought": true}, {"functionCall": {"name": "f", "args": {"a": 1}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"r": 2}}}]},
        ],
    }));
    assert_eq!(
        lines,
        [
            "system: bebrief",
            "user: hi, image(), video()",
            "model: reasoning(hm), tool call f({\"a\":1} tool result f(JSON({\"r\":2})))",
        ]
    );
    let answer = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "STOP"}]});
    assert_eq!(outline(answer), ["model: a"]);
    let lines = outline(json!([
        {"role": "user", "content": [{"text": "hi"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"json": {"r": 1}}], "status": "error"}}]},
    ]));
    assert_eq!(
        lines,
        ["user: hi, image()", "assistant: tool call f({\"a\":1} tool result!(JSON({\"r\":1})))",]
    );
}

#[test]
fn langchain() {
    let lines = outline(json!({"messages": [
        {"type": "human", "data": {"content": "hi", "type": "human", "additional_kwargs": {}}},
        {"type": "system", "content": "be brief"},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "AIMessage"], "kwargs": {
            "content": "", "type": "ai", "additional_kwargs": {"refusal": null}, "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "c", "type": "tool_call"}]}},
        {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "ToolMessage"], "kwargs": {
            "content": "12", "name": "f", "tool_call_id": "c", "status": "error", "response_metadata": {"a": 1}}},
    ]}));
    assert_eq!(
        lines,
        ["human: hi", "system: bebrief", "ai: tool call f({\"a\":1} tool result! f(12 +))",]
    );
    let generations = json!({"generations": [[{"text": "a", "message": {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": {"content": "a"}}}]]});
    assert_eq!(outline(generations), ["ai: a +"]);
}

#[test]
fn conventions_of_opentelemetry_and_pydantic_ai() {
    let lines = outline(json!([
        {"role": "user", "parts": [{"type": "text", "content": "hi"}, {"type": "blob", "modality": "image", "mime_type": "image/png", "content": PNG}, {"type": "uri", "modality": "image", "uri": "http://a.example/x.png"}]},
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "tool_call", "id": "c", "name": "f", "arguments": "{\"a\": 1}"}], "finish_reason": "tool_call"},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c", "name": "f", "result": "12"}]},
    ]));
    assert_eq!(
        lines,
        [
            "user: hi, image(), image()",
            "assistant: reasoning(hm), tool call f({\"a\":1} tool result f(12))",
        ]
    );
}

#[test]
fn vercel_openinference_and_litellm() {
    let lines = outline(json!([
        {"role": "user", "content": [{"type": "file", "mediaType": "image/png", "data": PNG}, {"type": "image", "image": "https://a.example/b.png"}]},
        {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {"a": 1}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "error-text", "value": "12"}}]},
    ]));
    assert_eq!(
        lines,
        ["user: image(), image()", "assistant: tool call f({\"a\":1} tool result! f(12))",]
    );
    assert_eq!(
        outline(json!({"system": "be brief", "prompt": "hi"})),
        ["system: bebrief", "user: hi"]
    );
    let nested = json!([{"message": {"role": "assistant", "contents": [{"message_content": {"type": "text", "text": "a"}}], "tool_calls": [{"tool_call": {"id": "c", "function": {"name": "f", "arguments": "{}"}}}]}}]);
    let flat = json!([{"message.role": "assistant", "message.content": "a", "message.tool_calls": [{"tool_call.id": "c", "tool_call.function.name": "f", "tool_call.function.arguments": "{}"}]}]);
    for value in [nested, flat] {
        assert_eq!(outline(value), ["assistant: a, tool call f({})"]);
    }
    let litellm = json!([{"function_call": {"arguments": "{\"a\": 1}", "name": "f"}}]);
    assert_eq!(outline(litellm), ["assistant: tool call f({\"a\":1})"]);
}

#[test]
fn results_are_shown_at_the_latest_earlier_call_or_as_messages() {
    let call = |id: &str| json!({"role": "assistant", "tool_calls": [{"id": id, "function": {"name": "f", "arguments": "{}"}}]});
    let result =
        |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    let lines = outline(json!([
        result("a", "early"),
        call("a"),
        result("a", "one"),
        result("b", "of none"),
        call("a"),
        result("a", "two"),
    ]));
    assert_eq!(
        lines,
        [
            "tool: tool result(early)",
            "assistant: tool call f({} tool result(one))",
            "tool: tool result(ofnone)",
            "assistant: tool call f({} tool result(two))",
        ]
    );
}

#[test]
fn offered_tools_are_listed_and_called_ones_marked() {
    let page = html(&block(json!({
        "tools": [{"name": "a", "input_schema": {}}, {"functionDeclarations": [{"name": "b"}]}],
        "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "b", "input": {}}]}],
    })));
    assert!(page.contains("2 tools offered, 1 called"), "{page}");
    assert!(page.contains("<bdi>a</bdi></summary>"));
    assert!(page.contains("<bdi>b</bdi> <span class=\"tag good\">called</span>"));
    let page = html(&block(json!({
        "toolConfig": {"tools": [{"toolSpec": {"name": "f"}}, {"toolSpec": {"name": "g"}}]},
        "messages": [{"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "g", "input": {}}}]}],
    })));
    assert!(page.contains("2 tools offered, 1 called"), "{page}");
    let history = json!([{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "y", "arguments": "{}"}}]}]);
    let answer =
        json!({"output": [{"type": "web_search_call", "id": "w", "action": {"query": "q"}}]});
    let [history, answer] = [history, answer].map(Payload::from_value);
    let called = called_tools(&["x".to_owned()], [Some(&history), Some(&answer)]);
    assert_eq!(called, ["x", "y", "web_search"]);
    let offered = json!({"x": {"description": "d"}});
    let called = ["x".to_owned()];
    let tools = super::RenderedValue::of_tools(Some(&offered), &called, None, &addresses());
    assert!(html(&tools.block).contains("1 tool offered, 1 called"));
}

#[test]
fn long_values_are_collapsed_and_huge_ones_truncated() {
    let Block::Plain(fold) = block(json!("é".repeat(1_000_000))) else {
        panic!("text");
    };
    assert!(fold.preview.is_some());
    assert_eq!(fold.size, "1.9 MB");
    assert_eq!(fold.cut.unwrap().shown, "64 KB of 1.9 MB");
    let chat = chat(json!(vec![json!({"role": "user", "content": "a"}); 100]));
    assert_eq!((chat.first.len(), chat.middle.len(), chat.last.len()), (2, 86, 12));
}

/// The shown part of a text from a byte on, and the offset of the next part.
fn part(text: &str, from: usize) -> (String, Option<usize>) {
    let params = ValueParams { form: Some(Form::Raw), from, ..ValueParams::default() };
    let payload = Payload::Text(text.to_owned());
    match super::RenderedValue::of(Some(&payload), &params, &addresses()).block {
        Block::Plain(fold) => (fold.body.to_string(), fold.cut.and_then(|cut| cut.next)),
        _ => panic!("not a text"),
    }
}

#[test]
fn parts_of_a_long_text_are_complete() {
    let text = "aé€😀".repeat(20_000);
    let mut whole = String::new();
    let mut next = Some(0);
    while let Some(from) = next {
        let (shown, then) = part(&text, from);
        assert!(shown.len() <= 64 << 10);
        whole.push_str(&shown);
        next = then;
    }
    assert!(whole == text);
    // In the middle of a character, and past the end.
    assert!(part(&text, 2).0.starts_with('é') && part(&text, 1 << 30).0.is_empty());
}

#[test]
fn long_conversation_shows_start_and_end_with_a_link_to_the_rest() {
    let messages: Vec<Value> = (0..200)
        .map(|n| json!({"role": "user", "content": format!("<{n}>{}", "word ".repeat(400))}))
        .collect();
    let payload = Payload::from_value(json!(messages));
    let window = |from: usize| {
        let params = ValueParams { from, ..ValueParams::default() };
        match super::RenderedValue::of(Some(&payload), &params, &addresses()).block {
            Block::Chat(chat) => *chat,
            _ => panic!("not a conversation"),
        }
    };
    let chat = window(0);
    let (n_between, href) = chat.n_between.unwrap();
    assert_eq!(chat.first.len() + chat.last.len() + n_between, 200);
    assert!(10 < chat.last.len() && chat.last.len() < 60);
    assert!(href.ends_with("&as=conversation&from=2"), "{href}");
    let mut n = 2;
    loop {
        let part = window(n);
        n += part.first.len();
        match part.ways.next {
            Some((_, href)) => assert!(href.ends_with(&format!("&from={n}")), "{href}"),
            None => break,
        }
    }
    assert_eq!(n, 200);
}
