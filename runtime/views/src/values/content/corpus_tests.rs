//! Values of real SDKs from the corpus: each list of messages is a conversation.

use std::path::Path;

use super::tests::{block, html};
use super::*;

/// All inputs and outputs of the corpus, with their file names.
fn values() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/otlp");
    let mut values = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".expected.json") {
            continue;
        }
        let expected: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for list in ["traces", "observations"] {
            for holder in expected[list].as_array().into_iter().flatten() {
                for part in ["input", "output"] {
                    values.push((format!("{name} {list} {part}"), holder[part].clone()));
                }
            }
        }
    }
    values
}

/// Whether a value contains a list of messages. Independent of the parser.
fn has_messages(value: &Value) -> bool {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let is_message = |item: &Value| {
        let kind = text(item, "type");
        item["role"].is_string()
            || ["human", "ai", "system", "tool", "tool_call", "function_call"].contains(&&*kind)
            || item["kwargs"]["type"].is_string()
            || item["function_call"].is_object()
    };
    match value {
        Value::Array(items) => items.iter().any(is_message) || items.iter().any(has_messages),
        Value::Object(members) => members.values().any(has_messages),
        _ => false,
    }
}

/// Whether a page contains base64 text.
pub(super) fn has_base64(page: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    page.split(|c| !is_base64(c)).any(|run| 256 < run.len())
}

#[test]
fn every_list_of_messages_in_the_corpus_is_a_conversation() {
    let mut n_lists = 0;
    for (place, value) in values() {
        let shown = block(value.clone());
        if has_messages(&value) {
            n_lists += 1;
            assert!(matches!(shown, Block::Chat(_)), "{place}: {value}");
        }
        let page = html(&shown);
        assert!(!page.contains("data:") && !has_base64(&page), "{place}");
    }
    assert!(n_lists > 50, "{n_lists}");
}

#[test]
fn stored_media_of_the_corpus_are_images() {
    let of_blob = |(place, value): &(String, Value)| {
        place.starts_with("semconv") && value.to_string().contains("@@@langfuseMedia")
    };
    let found = values().into_iter().find(of_blob).unwrap();
    let page = html(&block(found.1));
    assert!(page.contains("<img src=\"/media/TEtqO"), "{page}");
    assert!(!page.contains("@@@"), "{page}");
}
