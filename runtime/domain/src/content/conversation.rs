//! The conversation in a recorded value, as a list of messages of one form.

use serde_json::{Map, Value, json};

use crate::content::fields::Fields;
use crate::content::kinds::Kind;
use crate::content::locate::{Item, Located, QUESTIONS, locate};
use crate::content::members::is_empty;
use crate::content::messages::{HOLDERS, unify};
use crate::content::roles::{
    LANGCHAIN, MAX_LAYERS, Speaker, class_of, has_role, is_message, langchain_role, layer,
    names_role, role_of_class,
};

/// Nested lists around contents that are not messages, and nested objects next to a conversation.
const MAX_DEPTH: usize = 8;
/// Members that hold the content of a message.
const CONTENTS: [&str; 4] = ["content", "parts", "contents", "text"];
/// Members that hold the reply of a model; the other holders have its input.
const ANSWERS: [&str; 10] = [
    "output_messages",
    "replies",
    "choices",
    "candidates",
    "generations",
    "output",
    "outputs",
    "message",
    "update",
    "response",
];
/// Members of a message about its transport: usage, time, model, finish reason.
const TRANSPORT: [&str; 26] = [
    "id",
    "index",
    "object",
    "status",
    "finish_reason",
    "finishReason",
    "stop_reason",
    "stopReason",
    "stop_sequence",
    "done_reason",
    "usage",
    "usage_metadata",
    "usageMetadata",
    "response_metadata",
    "provider_details",
    "provider_response_id",
    "logprobs",
    "logprobs_result",
    "model",
    "model_name",
    "created",
    "created_at",
    "createdAt",
    "timestamp",
    "example",
    "tool_call_chunks",
];

/// The messages of a value: objects with `role`, `content` and the other members that are not empty. A value that is not a
/// conversation becomes one message in this role.
#[must_use]
pub fn conversation(mut value: Value, role: Speaker) -> Vec<Value> {
    unify(&mut value);
    let mut messages = Vec::new();
    match locate(&value) {
        Some(located) => messages = all_of(&located, role, 0),
        None => contents(&value, role, 0, &mut messages),
    }
    messages
}

/// The messages of a conversation and those in the members next to it: input before output.
fn all_of(located: &Located<'_>, role: Speaker, depth: usize) -> Vec<Value> {
    let mut surrounding = SurroundingMessages::default();
    surrounding.read(&located.further, located.holder, depth);
    let is_instruction = |item: &&Item<'_>| matches!(item, Item::FromRole("system", _));
    let n_instructions = located.items.iter().take_while(is_instruction).count();
    let (instructed, rest) = located.items.split_at(n_instructions);
    let own = messages_of(rest, role);
    let is_answer = located.holder.is_some_and(|key| ANSWERS.contains(&key));
    let (first, second) = match is_answer {
        true => (surrounding.requests, own),
        false => (own, surrounding.requests),
    };
    let mut messages = messages_of(instructed, role);
    for more in [first, second, surrounding.replies] {
        add(&mut messages, more);
    }
    messages
}

fn messages_of(items: &[Item<'_>], role: Speaker) -> Vec<Value> {
    let messages = items.iter().filter_map(|item| match item {
        Item::Message(message) => message_of(message, role),
        Item::FromRole(role, value) => instructions(role, value),
    });
    messages.collect()
}

/// Appends messages, without a leading part that is already there: a response may repeat its request.
fn add(messages: &mut Vec<Value>, more: Vec<Value>) {
    let dialogue: Vec<&Value> = messages.iter().filter(|one| !is_system_message(one)).collect();
    let is_repeated = |known: &[&Value]| {
        known.len() <= more.len() && known.iter().zip(&more).all(|(known, one)| *known == one)
    };
    let all: Vec<&Value> = messages.iter().collect();
    let n_repeated = match (more.as_slice(), dialogue.as_slice()) {
        ([one], [.., last]) if one == *last => 1,
        _ if is_repeated(&all) => all.len(),
        _ if is_repeated(&dialogue) => dialogue.len(),
        _ => 0,
    };
    messages.extend(more.into_iter().skip(n_repeated));
}

/// Messages in the members next to a conversation.
#[derive(Default)]
struct SurroundingMessages {
    requests: Vec<Value>,
    replies: Vec<Value>,
}

impl SurroundingMessages {
    /// `around` is the member that is around the conversation itself; none where any may be.
    fn read(&mut self, further: &Map<String, Value>, around: Option<&str>, depth: usize) {
        if MAX_DEPTH < depth {
            return;
        }
        for key in HOLDERS {
            let Some(value) = further.get(key) else {
                continue;
            };
            if let Some(located) = locate(value) {
                let (into, role) = match ANSWERS.contains(&key) {
                    true => (&mut self.replies, Speaker::Assistant),
                    false => (&mut self.requests, Speaker::User),
                };
                add(into, all_of(&located, role, depth + 1));
                continue;
            }
            match value {
                Value::String(text) if QUESTIONS.contains(&key) && !text.trim().is_empty() => {
                    let message = json!({ "role": Speaker::User.role(), "content": text });
                    add(&mut self.requests, vec![message]);
                }
                Value::Object(inner) if around.is_none_or(|around| around == key) => {
                    self.read(inner, None, depth + 1);
                }
                _ => {}
            }
        }
        // Of a list of conversations.
        for (key, value) in further {
            if key.starts_with('[')
                && let Value::Object(inner) = value
            {
                self.read(inner, None, depth + 1);
            }
        }
    }
}

/// Whether a message has the system role.
#[must_use]
pub fn is_system_message(message: &Value) -> bool {
    message.get("role").and_then(Value::as_str).and_then(Speaker::of) == Some(Speaker::System)
}

/// A member of a request as a message of a role; absent when it is empty.
fn instructions(role: &str, value: &Value) -> Option<Value> {
    let parts = value.as_object().and_then(|object| object.get("parts"));
    let content = parts.unwrap_or(value);
    (!is_empty(content)).then(|| json!({ "role": role, "content": content }))
}

/// A value that is not a conversation, as messages of one role.
fn contents(value: &Value, role: Speaker, depth: usize, messages: &mut Vec<Value>) {
    let is_part = |item: &Value| {
        let object = item.as_object();
        object.is_some_and(|object| Kind::of(object) != Kind::Unknown)
    };
    match value {
        Value::Null => {}
        Value::Array(items) if !items.is_empty() && items.iter().all(is_part) => {
            messages.push(json!({ "role": role.role(), "content": items }));
        }
        Value::Array(items) if depth < MAX_DEPTH => {
            for item in items {
                contents(item, role, depth + 1, messages);
            }
        }
        Value::Object(_) if is_message(value) => messages.extend(message_of(value, role)),
        other => messages.push(json!({ "role": role.role(), "content": other })),
    }
}

/// A message, or a single part in a list of messages.
fn message_of(value: &Value, default: Speaker) -> Option<Value> {
    let Some(mut object) = value.as_object().filter(|_| is_message(value)) else {
        return (!is_empty(value)).then(|| json!({ "role": default.role(), "content": value }));
    };
    let mut class = None;
    for _ in 0..MAX_LAYERS {
        let Some(inner) = layer(object).and_then(|key| object.get(key)?.as_object()) else {
            break;
        };
        class = class.or_else(|| class_of(object));
        object = inner;
    }
    let class = class.as_deref().and_then(|path| path.rsplit('.').next());
    if !has_role(object) && class.is_none() {
        let role = match Kind::of(object) {
            Kind::Call | Kind::Reasoning | Kind::Refusal => Speaker::Assistant,
            Kind::Result => Speaker::Tool,
            _ => default,
        };
        return Some(json!({ "role": role.role(), "content": [object] }));
    }
    let mut fields = Fields::of(object);
    let role = fields
        .text(&["role"])
        .or_else(|| fields.take(&["type"], |kind| langchain_role(kind.as_str()?)))
        .or(class.and_then(role_of_class));
    fields.is_one_of("type", &["message"]);
    // A type that names another role stays a member of its own.
    if role.is_none_or(|role| names_role(object, role)) {
        fields.is_one_of("type", &LANGCHAIN);
    }
    let content = fields.any(&CONTENTS);
    let mut message = Map::new();
    let role = role.map_or(Speaker::Assistant.role(), role_name);
    message.insert("role".to_owned(), role.into());
    message.insert("content".to_owned(), content.cloned().unwrap_or_default());
    let has_calls = object.get("tool_calls").is_some_and(|calls| !is_empty(calls));
    for (name, value) in fields.rest() {
        if TRANSPORT.contains(&name.as_str()) {
            continue;
        }
        let value = match (name.as_str(), value) {
            ("additional_kwargs", Value::Object(mut more)) => {
                // The calls of the message in the shape of the provider.
                if has_calls {
                    more.remove("tool_calls");
                    more.remove("function_call");
                }
                Value::Object(more)
            }
            (_, value) => value,
        };
        if !is_empty(&value) {
            message.insert(name, value);
        }
    }
    Some(Value::Object(message))
}

/// The name of a role that most APIs use; `developer` and `function` keep their names.
fn role_name(role: &str) -> &str {
    match Speaker::of(role) {
        Some(_) if matches!(role, "developer" | "function") => role,
        Some(speaker) => speaker.role(),
        None => role,
    }
}
