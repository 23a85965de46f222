//! Hostile and arbitrary values: nothing panics, no recorded text is hidden, and bytes are never text.

use proptest::prelude::*;
use serde_json::json;

use super::corpus_tests::has_base64;
use super::tests::{PNG, block, html, shown};
use super::*;

const HOSTILE: &str =
    "</pre><script>alert(1)</script><img src=x onerror=\"alert(2)\">' & \u{202e}txt\u{1}";

fn inert(value: Value) -> String {
    let page = html(&block(value));
    assert!(
        !page.contains("<script") && !page.contains("<img src=x") && !page.contains('\u{202e}')
    );
    assert!(!page.contains("onerror=\""));
    page
}

#[test]
fn hostile_text_is_inert_in_all_members_of_a_message() {
    let keys = [
        "role",
        "name",
        "content",
        "type",
        "id",
        "tool_call_id",
        "refusal",
        "reasoning",
        "url",
        "media_type",
        "filename",
        "status",
    ];
    for key in keys {
        let mut message = json!({"role": "user", "content": "a", "tool_calls": [{"id": HOSTILE, "function": {"name": HOSTILE, "arguments": HOSTILE}}]});
        message[key] = json!(HOSTILE);
        inert(json!([message]));
        let mut part = json!({"type": "image_url", "image_url": {"url": format!("https://{HOSTILE}/x"), "detail": HOSTILE}});
        part[key] = json!(HOSTILE);
        let page = inert(json!([{"role": "user", "content": [part]}]));
        assert!(!page.contains("javascript:"));
    }
    let odd_url = json!({"type": "image_url", "image_url": {"url": "javascript:alert(1)"}});
    let page = inert(json!([{"role": "user", "content": [odd_url]}]));
    assert!(!page.contains("href=\"javascript"));
    inert(
        json!({"tools": [{"name": HOSTILE}], "messages": [{"role": "user", "content": HOSTILE}], HOSTILE: 1}),
    );
}

#[test]
fn wrong_types_and_deep_nesting_are_shown() {
    let odd = [json!(null), json!(1), json!([]), json!({}), json!([[]]), json!(true), json!("x")];
    let keys = [
        "role",
        "content",
        "parts",
        "tool_calls",
        "function_call",
        "type",
        "kwargs",
        "data",
        "lc",
        "id",
        "message",
        "choices",
        "output",
        "tools",
        "system",
        "source",
        "summary",
    ];
    for key in keys {
        for value in &odd {
            let mut message =
                json!({"role": "user", "content": [{"type": "tool_use", "name": "n"}]});
            message[key] = value.clone();
            inert(json!([message.clone()]));
            inert(json!({"messages": [message.clone()], key: value}));
            let mut part = json!({"type": "tool_result", "tool_use_id": "a", "content": "c"});
            part[key] = value.clone();
            inert(json!([{"role": "user", "content": [part]}]));
        }
    }
    for (open, close) in [
        ("{\"message\":", "}"),
        ("[", "]"),
        ("{\"messages\":[", "]}"),
        ("{\"content\":{\"role\":\"user\",\"parts\":[", "]}}"),
    ] {
        for depth in [5, 20, 60, 2_000] {
            let json =
                open.repeat(depth) + "{\"role\":\"user\",\"content\":\"a\"}" + &close.repeat(depth);
            let payload = Payload::Json(json);
            html(&shown(&payload, None));
            let page = html(&shown(&payload, Some(Form::Text)));
            assert!(page.contains("user"));
        }
    }
}

#[test]
fn ten_thousand_parts_with_equal_ids_are_limited() {
    let parts: Vec<Value> = (0..10_000)
        .map(|n| match n % 8 {
            0 => json!({"type": "text", "text": "t"}),
            1 => json!({"type": "tool_use", "id": "same", "name": "f", "input": {}}),
            2 => json!({"type": "tool_result", "tool_use_id": "same", "content": "r"}),
            3..7 => json!({"type": "text", "text": "t"}),
            _ => json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AP8="}}),
        })
        .collect();
    let page = inert(json!([{"role": "user", "content": parts}]));
    assert!(page.contains(" more parts</a>") && page.contains("<img "));
    assert!(page.len() < 1 << 20, "{}", page.len());
    let text = format!("data:image/png;base64,{PNG} data: ").repeat(10_000);
    let page = inert(json!(text));
    assert!(page.contains("9900 more in the raw value"), "{}", page.len());
    inert(json!("data:data:data:@@@langfuseMedia:@@@langfuseMedia:".repeat(20_000)));
}

#[test]
fn media_have_urls_and_are_never_text() {
    let long = PNG.trim_end_matches('=').repeat(9);
    let uri = format!("data:image/png;base64,{PNG}");
    let svg = "data:image/svg+xml;utf8,<svg onload='alert(1)'>";
    let value = json!({
        "text": format!("before {uri} after"),
        "svg": svg,
        "b64_json": long,
        "encrypted": "Ab1".repeat(200),
        format!("key {uri}"): 1,
    });
    let payload = Payload::from_value(value.clone());
    let page = inert(value);
    assert!(!page.contains("data:") && !has_base64(&page), "{page}");
    for shown in [
        "before [image/png, 70 bytes] after",
        "[image/svg+xml, 23 bytes]",
        "[base64, 450 bytes]",
        "<img src=\"/traces/t/raw/input/media/1\"",
        "<a href=\"/traces/t/raw/input/media/2\" download>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("<img src=\"/traces/t/raw/input/media/2\""));
    let medium = |number| inline_medium(&payload, number);
    let picture = medium(1).unwrap();
    assert!(picture.content_type == "image/png" && picture.bytes.starts_with(b"\x89PNG"));
    assert_eq!(medium(2).unwrap().bytes, b"<svg onload='alert(1)'>");
    assert_eq!(medium(5), None);
}

#[test]
fn media_numbers_on_the_page_match_the_request() {
    let part = |data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": data}});
    let value = json!({"messages": [
        {"role": "user", "content": [part("AQ=="), {"type": "text", "text": "@@@langfuseMedia:type=image/png|id=abc|source=bytes@@@"}, part("Ag==")]},
    ]});
    let payload = Payload::from_value(value.clone());
    let page = inert(value);
    for address in ["/traces/t/raw/input/media/0", "/media/abc", "/traces/t/raw/input/media/2"] {
        assert!(page.contains(&format!("<img src=\"{address}\"")), "{address}");
    }
    let bytes = [0, 1, 2].map(|number| inline_medium(&payload, number).map(|found| found.bytes));
    assert_eq!(bytes, [Some(vec![1]), None, Some(vec![2])]);
}

#[test]
fn only_safe_types_are_displayed_inline() {
    for (recorded, sent) in [
        ("image/png", Some("image/png")),
        ("IMAGE/JPG; q=1", Some("image/jpeg")),
        ("audio/mp3", Some("audio/mpeg")),
        ("image/svg+xml", None),
        ("text/html", None),
        ("application/pdf", None),
        ("image/png\r\nx: y", None),
        ("", None),
    ] {
        assert_eq!(inline_type(recorded), sent, "{recorded}");
    }
}

/// Texts that define the structure of a message and are not shown.
const STRUCTURE: [&str; 14] = [
    "text",
    "thinking",
    "tool_use",
    "tool_result",
    "tool_call",
    "function",
    "function_call",
    "image_url",
    "image",
    "human",
    "constructor",
    "message",
    "base64",
    "refusal",
];

const WORDS: [&str; 19] = [
    "user",
    "assistant",
    "tool",
    "text",
    "thinking",
    "tool_use",
    "tool_result",
    "tool_call",
    "function",
    "function_call",
    "image_url",
    "image",
    "human",
    "constructor",
    "message",
    "https://a.example/b",
    "{\"held\": [\"as text\"]}",
    "c1",
    "Ünïcode \u{1}\u{202e} <b>&'\"\n",
];

const KEYS: [&str; 38] = [
    "role",
    "content",
    "type",
    "parts",
    "text",
    "name",
    "id",
    "tool_calls",
    "tool_call_id",
    "function",
    "arguments",
    "input",
    "output",
    "messages",
    "choices",
    "message",
    "kwargs",
    "lc",
    "data",
    "image_url",
    "url",
    "thinking",
    "tools",
    "system",
    "prompt",
    "result",
    "error",
    "usage",
    "message.role",
    "message.content",
    "functionCall",
    "summary",
    "status",
    "source",
    "toolUseId",
    "refusal",
    "function_call",
    "update",
];

const KINDS: [&str; 13] = [
    "text",
    "thinking",
    "tool_use",
    "tool_result",
    "tool_call",
    "function",
    "function_call",
    "image_url",
    "image",
    "human",
    "constructor",
    "message",
    "refusal",
];

fn any_value() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(&WORDS[..]);
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        2 => "[ -~]{0,12}".prop_map(Value::from),
        1 => "\\PC{0,60}".prop_map(Value::from),
        4 => words.prop_map(Value::from),
    ];
    let keys = prop::sample::select(&KEYS[..]);
    let kinds = prop::sample::select(&KINDS[..]);
    leaf.prop_recursive(6, 64, 6, move |inner| {
        let member = (keys.clone(), inner.clone());
        let members = prop::collection::vec(member, 0..6).prop_map(|members| {
            let members = members.into_iter();
            members.map(|(key, value)| (key.to_owned(), value)).collect::<Map<_, _>>()
        });
        let with = |key: &'static str| {
            move |(word, mut members): (&str, Map<String, Value>)| {
                members.insert(key.to_owned(), Value::from(word));
                Value::Object(members)
            }
        };
        prop_oneof![
            2 => prop::collection::vec(inner, 0..5).prop_map(Value::from),
            1 => members.clone().prop_map(Value::Object),
            // Most values would not be conversations without these.
            2 => (Just("assistant"), members.clone()).prop_map(with("role")),
            1 => (kinds.clone(), members).prop_map(with("type")),
        ]
    })
}

fn leaves<'v>(value: &'v Value, into: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => into.push(text),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, into)),
        _ => {}
    }
}

/// Text without white space, quotes and backslashes, which JSON formatting changes.
fn squeezed(text: &str) -> String {
    let keeps = |c: &char| !c.is_whitespace() && *c != '"' && *c != '\\';
    text.chars().filter(keeps).collect()
}

proptest! {
    #[test]
    fn every_text_of_any_value_is_on_the_page(value in any_value()) {
        // Rendered markdown only contains the words of a text.
        let form = value.is_string().then_some(Form::Raw);
        let page = html(&shown(&Payload::from_value(value.clone()), form));
        let mut text = String::new();
        for piece in page.split('<') {
            // External URLs are attributes.
            text.push_str(piece.split_once('>').map_or(piece, |(tag, text)| {
                if tag.contains("https:") || tag.contains("start=") { piece } else { text }
            }));
        }
        for (escaped, plain) in [("&#34;", "\""), ("&#38;", "&"), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")] {
            text = text.replace(escaped, plain);
        }
        let text = squeezed(&text);
        let mut all = Vec::new();
        leaves(&value, &mut all);
        for leaf in all.into_iter().filter(|leaf| !STRUCTURE.contains(leaf)) {
            let has = |leaf: &str| {
                let shown = squeezed(&crate::Text::lines(leaf).to_string());
                let json = Value::from(leaf).to_string();
                let escaped = squeezed(&crate::Text::from(json).to_string());
                text.contains(&shown) || text.contains(&escaped)
            };
            // JSON in a string may be parsed; then the page contains its texts.
            let parsed: Option<Value> = serde_json::from_str(leaf).ok();
            let mut inner = Vec::new();
            if let Some(parsed) = &parsed {
                leaves(parsed, &mut inner);
            }
            let is_parsed = !inner.is_empty() && inner.iter().all(|leaf| has(leaf));
            let mut words = leaf.split(|c: char| !c.is_alphanumeric());
            let has_words = words.all(|word| text.contains(word));
            prop_assert!(has(leaf) || is_parsed || has_words, "{leaf:?} of {value} is not in {page}");
        }
    }

    #[test]
    fn media_links_of_any_text_match_the_request(text in "(data:|image/png|;base64,|,|[A-Za-z0-9+/=]{0,300}|@@@|langfuseMedia:|type=|id=|\\||\\PC){0,12}") {
        let payload = Payload::Text(text);
        let page = html(&shown(&payload, None));
        for number in 0..4 {
            let is_linked = page.contains(&format!("/media/{number}\""));
            let found = inline_medium(&payload, number);
            prop_assert!(!is_linked || found.is_some(), "{page}");
        }
    }
}
