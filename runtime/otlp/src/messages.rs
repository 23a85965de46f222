//! Message lists that were sent as one attribute per field (otlp.md 2.3, 2.7).

use serde_json::{Map, Value as Json};

use crate::attributes::{Attributes, Entry};
use crate::json;
use crate::limits::{MAX_DEPTH, MAX_SLOTS};

/// A level of a flattened tree, members in order of arrival.
#[derive(Debug, Default)]
struct Branch<'k> {
    leaf: Option<Json>,
    members: Vec<(&'k str, Branch<'k>)>,
    /// Array slots opened here: one more than the largest index.
    n_slots: usize,
}

/// Rebuilds the tree under `prefix` (which ends with a dot); `None` without entries.
///
/// A level whose keys are all digits becomes an array, gaps closed. Segments are data: they are only
/// ever compared with each other.
pub(crate) fn unflatten(entries: &[Entry<'_>], prefix: &str) -> Option<Json> {
    let mut entries: Vec<&Entry<'_>> = entries.iter().filter(|e| e.value.is_present()).collect();
    entries.sort_unstable_by_key(|entry| entry.order());
    let mut root = Branch::default();
    let mut n_slots = 0;
    for entry in entries {
        let Some(path) = entry.key.strip_prefix(prefix) else {
            continue;
        };
        let segments: Vec<&str> = path.split('.').take(MAX_DEPTH + 1).collect();
        if segments.len() > MAX_DEPTH {
            continue;
        }
        root.insert(&segments, entry.value.to_json(), &mut n_slots);
    }
    (!root.members.is_empty()).then(|| root.into_json())
}

impl<'k> Branch<'k> {
    /// Adds a leaf unless its indexes would open more slots than a prefix may.
    fn insert(&mut self, segments: &[&'k str], leaf: Json, n_slots: &mut usize) {
        if self.growth(segments).saturating_add(*n_slots) > MAX_SLOTS {
            return;
        }
        let mut branch = self;
        for segment in segments {
            if let Some(index) = index_of(segment)
                && index >= branch.n_slots
            {
                *n_slots += index + 1 - branch.n_slots;
                branch.n_slots = index + 1;
            }
            // The last member is the likely one: senders write field after field.
            let at = branch.members.iter().rposition(|(key, _)| key == segment);
            let at = at.unwrap_or_else(|| {
                branch.members.push((segment, Self::default()));
                branch.members.len() - 1
            });
            branch = &mut branch.members[at].1;
        }
        branch.leaf = Some(leaf);
    }

    /// Slots that a path would newly open.
    fn growth(&self, segments: &[&str]) -> usize {
        let mut branch = Some(self);
        let mut growth = 0_usize;
        for segment in segments {
            if let Some(index) = index_of(segment) {
                let open = branch.map_or(0, |branch| branch.n_slots);
                growth = growth.saturating_add(index.saturating_add(1).saturating_sub(open));
            }
            branch = branch.and_then(|branch| {
                let found = branch.members.iter().rfind(|(key, _)| key == segment)?;
                Some(&found.1)
            });
        }
        growth
    }

    fn into_json(self) -> Json {
        if self.members.is_empty() {
            return self.leaf.unwrap_or(Json::Null);
        }
        let mut indexed: Vec<(usize, Branch<'k>)> = Vec::new();
        let is_array = self.members.iter().all(|(key, _)| index_of(key).is_some());
        if is_array {
            for (key, branch) in self.members {
                indexed.push((index_of(key).unwrap_or(usize::MAX), branch));
            }
            indexed.sort_by_key(|(index, _)| *index);
            return Json::Array(indexed.into_iter().map(|(_, b)| b.into_json()).collect());
        }
        let members = self.members.into_iter();
        Json::Object(members.map(|(key, branch)| (key.to_owned(), branch.into_json())).collect())
    }
}

fn index_of(segment: &str) -> Option<usize> {
    let is_number = !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit());
    // Absurdly long numbers count as the largest index, which the slot limit drops.
    is_number.then(|| segment.parse().unwrap_or(usize::MAX - 1))
}

/// `llm.input_messages` or `llm.output_messages`, without the wrappers of OpenInference.
pub(crate) fn openinference(attributes: &Attributes<'_>, key: &str) -> Option<Json> {
    if let Some(value) = attributes.get(key) {
        return Some(crate::attributes::default_json(value));
    }
    let prefix = format!("{key}.");
    let list = unflatten(attributes.with_prefix(&prefix), &prefix)?;
    Some(map_items(list, |item| {
        let mut message = unwrapped(item, "message");
        if let Json::Object(members) = &mut message {
            tidy_message(members);
        }
        message
    }))
}

fn tidy_message(message: &mut Map<String, Json>) {
    if let Some(calls) = message.get_mut("tool_calls") {
        *calls = map_items(calls.take(), |call| unwrapped(call, "tool_call"));
    }
    let Some(contents) = message.get_mut("contents") else {
        return;
    };
    let parts = map_items(contents.take(), |item| {
        let mut part = unwrapped(item, "message_content");
        // `image.image.url` becomes `image.url`.
        if let Some(image) = part.get_mut("image") {
            *image = unwrapped(image.take(), "image");
        }
        part
    });
    message.insert("content".to_owned(), parts);
    // Keeps the order of the other members.
    message.shift_remove("contents");
}

/// `retrieval.documents` and the like, without the `document` wrapper.
pub(crate) fn documents(attributes: &Attributes<'_>, key: &str) -> Option<Json> {
    if let Some(value) = attributes.get(key) {
        return Some(crate::attributes::default_json(value));
    }
    let prefix = format!("{key}.");
    let list = unflatten(attributes.with_prefix(&prefix), &prefix)?;
    Some(map_items(list, |item| unwrapped(item, "document")))
}

/// `gen_ai.prompt` or `gen_ai.completion`, plain or flattened as Traceloop does.
pub(crate) fn traceloop(attributes: &Attributes<'_>, key: &str) -> Option<Json> {
    if let Some(value) = attributes.get(key) {
        return Some(crate::attributes::default_json(value));
    }
    let prefix = format!("{key}.");
    let under = attributes.with_prefix(&prefix);
    let is_numbered =
        |entry: &&Entry<'_>| index_of(first_segment(&entry.key[prefix.len()..])).is_some();
    let has_list = under.iter().any(|entry| is_numbered(&entry));
    // Members next to a list are not part of it: filter results of a provider, the name of the prompt.
    let fields = under.iter().filter(|entry| match has_list {
        true => is_numbered(entry),
        false => is_message_field(&entry.key[prefix.len()..]),
    });
    let fields: Vec<Entry<'_>> = fields.copied().collect();
    Some(map_items(unflatten(&fields, &prefix)?, |mut message| {
        if let Some(content) = message.get_mut("content")
            && let Json::String(text) = content
        {
            *content = json::value(text);
        }
        message
    }))
}

fn first_segment(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

/// Whether a key below `gen_ai.prompt.` or `gen_ai.completion.` is part of a message that has no index.
fn is_message_field(path: &str) -> bool {
    const FIELDS: [&str; 6] =
        ["content", "finish_reason", "parts", "role", "tool_call_id", "tool_calls"];
    FIELDS.contains(&first_segment(path))
}

/// The content of the wrapper member of an object, merged with the other members; without a wrapper the object itself.
fn unwrapped(item: Json, wrapper: &str) -> Json {
    match item {
        Json::Object(mut members) => match members.shift_remove(wrapper) {
            Some(Json::Object(mut inner)) => {
                for (key, sibling) in members {
                    inner.entry(key).or_insert(sibling);
                }
                Json::Object(inner)
            }
            Some(other) => {
                members.insert(wrapper.to_owned(), other);
                Json::Object(members)
            }
            None => Json::Object(members),
        },
        other => other,
    }
}

fn map_items(list: Json, one: impl Fn(Json) -> Json) -> Json {
    match list {
        Json::Array(items) => Json::Array(items.into_iter().map(one).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_json::json;

    use super::*;
    use crate::model::{Pairs, Value};

    fn with<T>(entries: &[(&str, &str)], check: impl FnOnce(&Attributes<'_>) -> T) -> T {
        let pairs: Pairs<'_> = entries
            .iter()
            .map(|(key, value)| (Cow::Borrowed(*key), Value::Text(Cow::Borrowed(*value))))
            .collect();
        check(&Attributes::new(&pairs))
    }

    #[test]
    fn openinference_wrappers_are_removed() {
        let entries = [
            ("llm.input_messages.0.message.role", "user"),
            ("llm.input_messages.0.message.content", "old"),
            ("llm.input_messages.0.message.contents.0.message_content.type", "text"),
            ("llm.input_messages.0.message.contents.0.message_content.text", "hi"),
            ("llm.input_messages.0.message.contents.1.message_content.type", "image"),
            ("llm.input_messages.0.message.contents.1.message_content.image.image.url", "http://x"),
            ("llm.input_messages.2.message.role", "assistant"),
            ("llm.input_messages.2.message.tool_calls.0.tool_call.function.name", "f"),
        ];
        let messages = with(&entries, |a| openinference(a, "llm.input_messages").unwrap());
        assert_eq!(
            messages,
            json!([
                { "role": "user", "content": [
                    { "type": "text", "text": "hi" },
                    { "type": "image", "image": { "url": "http://x" } },
                ]},
                { "role": "assistant", "tool_calls": [{ "function": { "name": "f" } }] },
            ])
        );
    }

    #[test]
    fn other_members_of_a_content_part_are_kept() {
        let entries = [
            ("m.0.message.role", "assistant"),
            ("m.0.message.contents.0.message_content.type", "tool_use"),
            ("m.0.message.contents.0.tool_call.id", "t0"),
            ("m.0.message.contents.0.tool_call.function.name", "f"),
            ("m.0.message.contents.0.tool_call.function.arguments", "{}"),
            ("m.0.score", "0.5"),
        ];
        let messages = with(&entries, |a| openinference(a, "m").unwrap());
        let call = json!({ "id": "t0", "function": { "name": "f", "arguments": "{}" } });
        let part = json!({ "type": "tool_use", "tool_call": call });
        assert_eq!(messages, json!([{ "role": "assistant", "content": [part], "score": "0.5" }]));
    }

    #[test]
    fn traceloop_messages_parse_their_content_and_leave_the_prompt_name_out() {
        let entries = [
            ("gen_ai.prompt.name", "weather"),
            ("gen_ai.prompt.10.content", "last"),
            ("gen_ai.prompt.0.role", "user"),
            ("gen_ai.prompt.0.content", "[{\"type\":\"text\"}]"),
            ("gen_ai.prompt.2.tool_calls.0.arguments", "{\"a\":1}"),
        ];
        let messages = with(&entries, |a| traceloop(a, "gen_ai.prompt").unwrap());
        assert_eq!(
            messages,
            json!([
                { "role": "user", "content": [{ "type": "text" }] },
                { "tool_calls": [{ "arguments": "{\"a\":1}" }] },
                { "content": "last" },
            ])
        );
        assert_eq!(with(&entries[..1], |a| traceloop(a, "gen_ai.prompt")), None);
        let one = [("c.content", "d"), ("c.role", "assistant")];
        let one = with(&one, |a| traceloop(a, "c").unwrap());
        assert_eq!(one, json!({ "content": "d", "role": "assistant" }));
        let adjacent = [("p.0.content", "a"), ("p.prompt_filter_results", "[]")];
        let list = with(&adjacent, |a| traceloop(a, "p").unwrap());
        assert_eq!(list, json!([{ "content": "a" }]));
        assert_eq!(with(&adjacent[1..], |a| traceloop(a, "p")), None);
    }

    #[test]
    fn an_index_beyond_the_slots_is_dropped_and_words_are_only_data() {
        let entries = [
            ("p.0.__proto__.x", "data"),
            ("p.10000.a", "last slot"),
            ("p.10001.a", "too far"),
            ("p.99999999999999999999999.a", "too far"),
        ];
        let value = with(&entries, |a| unflatten(a.with_prefix("p."), "p.").unwrap());
        assert_eq!(value, json!([{ "__proto__": { "x": "data" } }, { "a": "last slot" }]));
    }
}
