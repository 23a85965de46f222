//! One shape out of the many in which libraries record messages: objects with `role` and `content` or `parts`. A member
//! that has no place in it keeps its name, so that nothing is left out.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::content::members::{is_empty, merge, n_values, parsed, rename, text};
use crate::content::parts::of_part;
use crate::content::{holders, stream};

/// Members that hold messages, those that are likelier first.
pub const HOLDERS: [&str; 21] = [
    "messages",
    "contents",
    "input_messages",
    "output_messages",
    "replies",
    "input",
    "inputs",
    "choices",
    "candidates",
    "generations",
    "output",
    "outputs",
    "message",
    "update",
    "prompt",
    "response",
    "request",
    "body",
    "kwargs",
    "conversations",
    "conversation",
];
/// Members that hold what a model was offered.
pub const TOOLS: [&str; 2] = ["tools", "functions"];
/// Objects and lists around the messages.
const MAX_DEPTH: usize = 8;
/// Values of messages held as text that are parsed. Each takes up to 100 bytes.
const MAX_PARSED: usize = 300_000;
/// Roles of a pair of role and content.
const PAIRED: [&str; 7] = ["system", "developer", "user", "human", "ai", "assistant", "tool"];
/// Values of the member `from` that name the sender of a message.
const SENDERS: [&str; 9] = [
    "human",
    "gpt",
    "chatgpt",
    "system",
    "user",
    "assistant",
    "tool",
    "function_call",
    "observation",
];
/// Lists of parts, and the member of each part that holds its type.
const BLOCKS: [(&str, &str); 2] = [("blocks", "block_type"), ("items", "content_type")];

/// Gives the messages in a value one shape, and reads lists of them that are held as text.
pub fn unify(value: &mut Value) {
    expand(value, &mut MAX_PARSED.to_owned());
    walk(value, 0);
}

/// Names with dots, such as `message.role`, become objects; lists of messages held as text become lists, as long as they
/// have no more than `n_left` values together.
fn expand(value: &mut Value, n_left: &mut usize) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| expand(item, n_left)),
        Value::Object(members) => {
            for key in HOLDERS.iter().chain(&TOOLS) {
                let Some(Value::String(text)) = members.get(*key) else {
                    continue;
                };
                let n_values = n_values(text);
                if n_values <= *n_left
                    && let Some(list) = parsed(text).filter(Value::is_array)
                {
                    *n_left -= n_values;
                    members.insert((*key).to_owned(), list);
                }
            }
            if members.keys().any(|key| is_dotted(key)) {
                let flat = std::mem::take(members);
                for (key, value) in flat {
                    match is_dotted(&key) {
                        true => insert_dotted(members, &key, value),
                        false => merge(members, Map::from_iter([(key, value)])),
                    }
                }
            }
            members.values_mut().for_each(|member| expand(member, n_left));
        }
        _ => {}
    }
}

fn is_dotted(key: &str) -> bool {
    ["message.", "tool_call.", "message_content."].iter().any(|prefix| key.starts_with(prefix))
}

fn insert_dotted(members: &mut Map<String, Value>, path: &str, value: Value) {
    const MAX_NAMES: usize = 8;
    let mut names: Vec<&str> = path.splitn(MAX_NAMES, '.').collect();
    let last = names.pop().unwrap_or(path);
    let mut at = members;
    for name in names {
        let inner = at.entry(name).or_insert_with(|| Value::Object(Map::new()));
        // A text under the name of an object: the object takes it in.
        if !inner.is_object() {
            let taken = std::mem::take(inner);
            *inner = Value::Object(Map::from_iter([(String::new(), taken)]));
        }
        let Value::Object(inner) = inner else { return };
        at = inner;
    }
    merge(at, Map::from_iter([(last.to_owned(), value)]));
}

/// Only what may hold messages is walked: the arguments of a call are shown as they are.
fn walk(value: &mut Value, depth: usize) {
    if MAX_DEPTH < depth {
        return;
    }
    match value {
        Value::Array(items) => {
            stream::join_chunks(items);
            of_pairs(items);
            of_turns(items);
            holders::of_list(items);
            items.iter_mut().for_each(of_sender);
            items.iter_mut().for_each(|item| walk(item, depth + 1));
        }
        Value::Object(members) => walk_object(members, depth),
        _ => {}
    }
}

fn walk_object(members: &mut Map<String, Value>, depth: usize) {
    if is_turn(members) {
        let turns = turns(std::mem::take(members), &mut String::new());
        members.insert("messages".to_owned(), Value::Array(turns));
    }
    holders::of_object(members);
    of_history(members);
    of_tool_config(members);
    of_message(members);
    of_answer(members);
    let kind = text(members, "type");
    if kind.contains("tool") || kind.ends_with("_call_output") {
        return;
    }
    give_roles(members);
    for key in HOLDERS.iter().chain(&["content", "delta"]) {
        match members.get_mut(*key) {
            // The contents of a message are no messages.
            Some(Value::Array(_)) if *key == "content" => {}
            Some(inner) => walk(inner, depth + 1),
            None => {}
        }
    }
}

/// Pairs of role and content, as LangGraph accepts them.
fn of_pairs(items: &mut [Value]) {
    let is_pair = |item: &Value| match item.as_array().map(Vec::as_slice) {
        Some([Value::String(role), Value::String(_) | Value::Array(_)]) => {
            PAIRED.contains(&role.as_str())
        }
        _ => false,
    };
    if !items.iter().all(|item| item.is_object() || is_pair(item)) {
        return;
    }
    for item in items {
        if let Value::Array(pair) = item {
            let content = pair.pop().unwrap_or_default();
            let role = pair.pop().unwrap_or_default();
            *item = json!({ "role": role, "content": content });
        }
    }
}

/// A message with the members `from` and `value`.
fn of_sender(item: &mut Value) {
    let Value::Object(members) = item else { return };
    let is_free = !members.contains_key("role") && !members.contains_key("content");
    if is_free && members.contains_key("value") && SENDERS.contains(&text(members, "from")) {
        rename(members, &[("from", "role"), ("value", "content")]);
    }
}

/// Whether an object is a request or a response of Pydantic AI: parts of several roles.
fn is_turn(members: &Map<String, Value>) -> bool {
    let parts = members.get("parts").and_then(Value::as_array);
    let is_part = |part: &Value| part.get("part_kind").is_some_and(Value::is_string);
    matches!(text(members, "kind"), "request" | "response")
        && !members.contains_key("role")
        && parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part))
}

fn of_turns(items: &mut Vec<Value>) {
    let is_any = |item: &Value| item.as_object().is_some_and(is_turn);
    if !items.iter().any(is_any) {
        return;
    }
    let all = std::mem::take(items).into_iter();
    let mut instructed = String::new();
    let all = all.flat_map(|item| match item {
        Value::Object(members) if is_turn(&members) => turns(members, &mut instructed),
        other => vec![other],
    });
    *items = all.collect();
}

/// A message for each role of a turn; the other members of the turn go into the last one. Each turn repeats the
/// instructions: they become a message only when they differ from the previous ones.
fn turns(mut members: Map<String, Value>, instructed: &mut String) -> Vec<Value> {
    let is_answer = text(&members, "kind") == "response";
    members.remove("kind");
    let instructions = match members.get("instructions") {
        Some(Value::String(text)) if !text.is_empty() => {
            let is_new = text != instructed;
            instructed.clone_from(text);
            members.remove("instructions").filter(|_| is_new)
        }
        _ => None,
    };
    let parts = members.remove("parts").unwrap_or_default();
    let Value::Array(parts) = parts else {
        return vec![Value::Object(members)];
    };
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    turns.extend(instructions.map(|text| ("system", vec![text])));
    // Members of parts other than their texts. Merged one by one, names that all parts have would grow with each.
    let mut rest: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for part in parts {
        let Value::Object(mut part) = part else {
            continue;
        };
        let kind = text(&part, "part_kind").to_owned();
        let is_of_tool = kind.ends_with("tool-return") || part.contains_key("tool_call_id");
        let (role, name) = match kind.as_str() {
            "tool-call" | "builtin-tool-call" => ("assistant", "tool-call"),
            "system-prompt" | "instruction" => ("system", "text"),
            _ if is_of_tool => ("tool", "tool-result"),
            "user-prompt" | "retry-prompt" => ("user", "text"),
            _ if is_answer => ("assistant", kind.as_str()),
            _ => ("user", kind.as_str()),
        };
        let role = if is_answer { "assistant" } else { role };
        let is_known =
            matches!(kind.as_str(), "system-prompt" | "user-prompt" | "tool-call" | "tool-return");
        // For other kinds the name is more specific than the type.
        if (is_known || name == kind) && !part.contains_key("type") {
            part.remove("part_kind");
        }
        let mut contents = match part.get_mut("content") {
            Some(Value::Array(items)) if name == "text" => std::mem::take(items),
            _ => Vec::new(),
        };
        if contents.is_empty() {
            part.entry("type").or_insert_with(|| name.into());
            contents.push(Value::Object(part));
        } else {
            part.remove("content");
            contents.iter_mut().for_each(of_kind);
            for (name, value) in part {
                rest.entry(name).or_default().push(value);
            }
        }
        match turns.last_mut().filter(|(last, _)| *last == role) {
            Some((_, parts)) => parts.extend(contents),
            None => turns.push((role, contents)),
        }
    }
    let rest = rest.into_iter().map(|(name, mut values)| match values.len() {
        1 => (name, values.remove(0)),
        _ => (name, Value::Array(values)),
    });
    merge(&mut members, rest.collect());
    let turns = turns.into_iter();
    let mut turns: Vec<Value> =
        turns.map(|(role, parts)| json!({ "role": role, "parts": parts })).collect();
    if let Some(Value::Object(last)) = turns.last_mut() {
        merge(last, members);
    }
    turns
}

/// A part of a prompt with its type in `kind`.
fn of_kind(part: &mut Value) {
    let Value::Object(members) = part else { return };
    if !members.contains_key("type") && members.contains_key("kind") {
        rename(members, &[("kind", "type")]);
    }
}

/// The history of a conversation and the message that follows it, as Cohere accepts them.
fn of_history(members: &mut Map<String, Value>) {
    let is_history = members.get("chat_history").is_some_and(Value::is_array)
        && members.get("message").is_some_and(Value::is_string)
        && !members.contains_key("messages");
    if !is_history {
        return;
    }
    let message = members.remove("message").unwrap_or_default();
    rename(members, &[("chat_history", "messages")]);
    let Some(Value::Array(history)) = members.get_mut("messages") else {
        return;
    };
    for item in history.iter_mut().filter_map(Value::as_object_mut) {
        if item.contains_key("role") && !item.contains_key("content") {
            rename(item, &[("message", "content")]);
        }
    }
    history.push(json!({ "role": "user", "content": message }));
}

/// The tools in a request of Bedrock.
fn of_tool_config(members: &mut Map<String, Value>) {
    if members.contains_key("tools") || !members.contains_key("messages") {
        return;
    }
    let Some(Value::Object(config)) = members.get_mut("toolConfig") else {
        return;
    };
    if let Some(tools) = config.remove("tools") {
        members.insert("tools".to_owned(), tools);
    }
}

/// The id of the call that a message answers, where libraries have it elsewhere: LlamaIndex in `additional_kwargs`, the
/// events of OpenTelemetry as the id of the message.
fn of_answer(members: &mut Map<String, Value>) {
    let has = |name: &str| members.contains_key(name);
    let is_answer = matches!(text(members, "role"), "tool" | "function");
    if !is_answer || has("tool_call_id") || has("toolCallId") {
        return;
    }
    let has_text = members.get("content").is_some_and(|content| !content.is_array());
    // Calls of the older functions have no ids: their names pair them.
    let is_function = text(members, "role") == "function" && has("name");
    let is_event = has_text && has("id") && !is_function;
    let more = members.get_mut("additional_kwargs");
    let id = more.and_then(|more| match more.get("tool_call_id") {
        Some(Value::String(_)) => more.as_object_mut()?.remove("tool_call_id"),
        _ => None,
    });
    match id {
        Some(id) => {
            members.insert("tool_call_id".to_owned(), id);
        }
        None if is_event => rename(members, &[("id", "tool_call_id")]),
        None => {}
    }
}

/// Adds the role to contents of Gemini that have none.
fn give_roles(members: &mut Map<String, Value>) {
    let has_no_role = |item: &Map<String, Value>| {
        item.get("parts").is_some_and(Value::is_array) && !item.contains_key("role")
    };
    if members.contains_key("role") {
        return;
    }
    for (key, role) in [("contents", "user"), ("content", "model")] {
        let held = match members.get_mut(key) {
            Some(Value::Array(items)) if key == "contents" => items.as_mut_slice(),
            Some(one) => std::slice::from_mut(one),
            None => continue,
        };
        for item in held.iter_mut().filter_map(Value::as_object_mut) {
            if has_no_role(item) {
                item.insert("role".to_owned(), role.into());
            }
        }
    }
}

/// The members of one message.
fn of_message(members: &mut Map<String, Value>) {
    if members.get("_role").is_some_and(Value::is_string) && members.contains_key("_content") {
        let names =
            [("_role", "role"), ("_content", "content"), ("_name", "name"), ("_meta", "meta")];
        rename(members, &names);
    }
    of_class(members);
    if members.get("role").is_some_and(Value::is_string) {
        BLOCKS.iter().for_each(|(list, kind)| of_blocks(members, list, kind));
    }
    of_more(members);
    let has_role = members.get("role").is_some_and(Value::is_string);
    for key in ["content", "parts", "contents"] {
        let is_held = key != "contents" || has_role;
        if let Some(Value::Array(parts)) = members.get_mut(key).filter(|_| is_held) {
            parts.iter_mut().for_each(of_untyped);
            parts.iter_mut().for_each(of_reasoning);
            parts.iter_mut().for_each(of_part);
        }
    }
}

/// The calls of a model in `additional_kwargs`, as LlamaIndex records them.
fn of_more(members: &mut Map<String, Value>) {
    let is_model = matches!(text(members, "role"), "assistant" | "ai" | "model")
        || matches!(text(members, "type"), "ai" | "AIMessageChunk");
    let has_calls = ["tool_calls", "function_call"]
        .iter()
        .any(|key| members.get(*key).is_some_and(|value| !is_empty(value)));
    if !is_model || has_calls {
        return;
    }
    let Some(Value::Object(more)) = members.get_mut("additional_kwargs") else {
        return;
    };
    let calls = more.get("tool_calls").and_then(Value::as_array);
    let is_list = calls.is_some_and(|calls| calls.iter().all(Value::is_object));
    let key = match is_list {
        true => "tool_calls",
        false => "function_call",
    };
    let is_held = is_list || more.get(key).is_some_and(Value::is_object);
    if is_held && let Some(calls) = more.remove(key) {
        members.insert(key.to_owned(), calls);
    }
}

/// A message of AutoGen, whose class and source determine its role.
fn of_class(members: &mut Map<String, Value>) {
    let source = text(members, "source").to_owned();
    let is_model = matches!(
        text(members, "type"),
        "UserMessage" | "SystemMessage" | "AssistantMessage" | "FunctionExecutionResultMessage"
    );
    let role = match text(members, "type") {
        "SystemMessage" => "system",
        "AssistantMessage" => "assistant",
        "FunctionExecutionResultMessage" | "ToolCallExecutionEvent" => "tool",
        "UserMessage" => "user",
        "TextMessage"
        | "MultiModalMessage"
        | "StopMessage"
        | "HandoffMessage"
        | "ThoughtEvent"
        | "ToolCallRequestEvent"
        | "ToolCallSummaryMessage"
            if !source.is_empty() =>
        {
            if source == "user" {
                "user"
            } else {
                "assistant"
            }
        }
        _ => return,
    };
    if members.contains_key("role") || !members.contains_key("content") {
        return;
    }
    if is_model {
        members.remove("type");
    }
    if source == role {
        members.remove("source");
    }
    rename(members, &[("source", "name")]);
    members.insert("role".to_owned(), role.into());
}

/// A call or a result without a type, as AutoGen and the Claude Agent SDK have them.
fn of_untyped(part: &mut Value) {
    let Value::Object(members) = part else { return };
    let is_text = |name: &str| members.get(name).is_some_and(Value::is_string);
    let has = |names: &[&str]| names.iter().any(|name| members.contains_key(*name));
    let kind = match () {
        () if has(&["type", "role", "parts"]) => return,
        () if is_text("id") && is_text("name") && has(&["arguments", "input"]) => "tool_call",
        () if has(&["call_id", "tool_use_id"]) && has(&["content"]) => "tool_result",
        () => return,
    };
    members.insert("type".to_owned(), kind.into());
}

/// Parts with their type in the member `kind`, in the list `list`.
fn of_blocks(members: &mut Map<String, Value>, list: &str, kind: &str) {
    let is_block = |part: &Value| part.get(kind).is_some_and(Value::is_string);
    let Some(Value::Array(parts)) = members.get_mut(list) else {
        return;
    };
    if parts.is_empty() || !parts.iter().all(is_block) {
        return;
    }
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        if !part.contains_key("type") {
            rename(part, &[(kind, "type")]);
        }
        if text(part, "type") == "function_result" {
            part.insert("type".to_owned(), "tool_result".into());
        }
    }
    if members.get("content").is_some_and(is_empty) {
        members.remove("content");
    }
    let name = match members.contains_key("content") {
        true => "parts",
        false => "content",
    };
    rename(members, &[(list, name)]);
}

/// Bedrock's wrapping of a text that was thought.
fn of_reasoning(part: &mut Value) {
    let is_only = |value: &Value| value.as_object().is_some_and(|members| members.len() == 1);
    let is_wrapped = is_only(part) && part.get("reasoningContent").is_some_and(is_only);
    let held = part.pointer_mut("/reasoningContent/reasoningText");
    if let Some(Value::Object(held)) = held.filter(|_| is_wrapped) {
        let mut held = std::mem::take(held);
        held.entry("type").or_insert_with(|| "thinking".into());
        *part = Value::Object(held);
    }
}
