//! Converts wrappers of single services and protocols to the common form: lists of threads, requests of
//! Google's library, results of MCP, events of OpenAI's Realtime, answers of Cohere, messages of LangChain4j.

use serde_json::{Map, Value, json};

use crate::content::members::{is_empty, merge, rename, text};
use crate::content::parts::{answer, is_answer, of_result, open_result};

/// Members of `config` in a request of Google's library that other requests have next to the messages.
const SETTINGS: [&str; 3] = ["system_instruction", "systemInstruction", "tools"];
/// Types of the messages of LangChain4j and their roles.
const JAVA: [(&str, &str); 4] = [
    ("SYSTEM", "system"),
    ("USER", "user"),
    ("AI", "assistant"),
    ("TOOL_EXECUTION_RESULT", "tool"),
];
/// Types of their parts, and the common words for them.
const JAVA_PARTS: [(&str, &str); 5] =
    [("TEXT", "text"), ("IMAGE", "image"), ("AUDIO", "audio"), ("VIDEO", "video"), ("PDF", "file")];

/// Gives an object the words of the common shapes.
pub(crate) fn of_object(members: &mut Map<String, Value>) {
    of_thread(members);
    of_request(members);
    of_event(members);
    of_cohere(members);
    of_item(members);
    if is_java(members) {
        of_java(members);
    }
    of_rpc(members);
    if matches!(text(members, "role"), "tool" | "function") {
        open_result(members, "content");
    }
    if is_answer(members, false) {
        *members = answer(std::mem::take(members));
    }
}

/// The messages of LangChain4j in a list with one that no other library writes.
pub(crate) fn of_list(items: &mut [Value]) {
    if items.iter().any(|item| item.as_object().is_some_and(is_java)) {
        let items = items.iter_mut().filter_map(Value::as_object_mut);
        items.for_each(of_java);
    }
}

/// A page of a thread, as OpenAI lists them.
fn of_thread(members: &mut Map<String, Value>) {
    let is_said = |item: &Value| {
        item.get("role").is_some_and(Value::is_string) && item.get("content").is_some()
    };
    let data = members.get("data").and_then(Value::as_array);
    let is_thread = data.is_some_and(|items| items.iter().any(is_said));
    let is_list = text(members, "object") == "list";
    if is_thread && is_list && !members.contains_key("messages") {
        rename(members, &[("data", "messages")]);
    }
}

/// A request of Google's library, which puts its settings into one object.
fn of_request(members: &mut Map<String, Value>) {
    let model = text(members, "model");
    let is_google =
        model.starts_with("models/") || ["gemini", "gemma"].iter().any(|name| model.contains(name));
    let has_config = members.get("config").is_some_and(Value::is_object);
    if !is_google && (model.is_empty() || !has_config) {
        return;
    }
    match members.get_mut("contents") {
        Some(contents) => of_contents(contents),
        None => return,
    }
    let free = SETTINGS.iter().filter(|key| !members.contains_key(**key));
    let free: Vec<&str> = free.copied().collect();
    let Some(Value::Object(config)) = members.get_mut("config") else {
        return;
    };
    let mut moved = Map::new();
    for key in free {
        if config.get(key).is_some_and(|value| !is_empty(value))
            && let Some(value) = config.remove(key)
        {
            moved.insert(key.to_owned(), value);
        }
    }
    merge(members, moved);
}

/// Texts and parts without a message around them are one message of the user.
fn of_contents(contents: &mut Value) {
    let is_bare = |item: &Value| match item {
        Value::Object(members) => !members.contains_key("role") && !members.contains_key("parts"),
        item => item.is_string(),
    };
    let parts = match std::mem::take(contents) {
        Value::String(text) => vec![Value::String(text)],
        Value::Array(items) if !items.is_empty() && items.iter().all(is_bare) => items,
        other => {
            *contents = other;
            return;
        }
    };
    *contents = json!([{ "role": "user", "parts": parts }]);
}

/// A result of MCP in an answer of JSON-RPC.
fn of_rpc(members: &mut Map<String, Value>) {
    let is_rpc = members.get("jsonrpc").is_some_and(Value::is_string);
    let result = members.get_mut("result").and_then(Value::as_object_mut);
    let result = result.filter(|result| is_rpc && is_answer(result, true));
    if let Some(result) = result {
        *result = answer(std::mem::take(result));
        rename(members, &[("result", "response")]);
    }
}

/// An event of OpenAI's that an item is sent with.
fn of_event(members: &mut Map<String, Value>) {
    let kind = text(members, "type");
    let is_event =
        ["conversation.item.", "response.output_item."].iter().any(|start| kind.starts_with(start));
    let has_item = members.get("item").is_some_and(Value::is_object);
    if is_event && has_item && !members.contains_key("message") {
        rename(members, &[("item", "message")]);
    }
}

/// An answer of Cohere.
fn of_cohere(members: &mut Map<String, Value>) {
    let is_answer = !text(members, "generation_id").is_empty()
        && members.get("text").is_some_and(Value::is_string);
    let is_free = ["role", "content", "message"].iter().all(|name| !members.contains_key(*name));
    if is_answer && is_free {
        rename(members, &[("text", "content")]);
        members.insert("role".to_owned(), "assistant".into());
    }
}

/// An item of OpenAI's Responses that is a call or a result under a specific type.
fn of_item(members: &mut Map<String, Value>) {
    let kind = text(members, "type").to_owned();
    let has = |name: &str| members.contains_key(name);
    match kind.as_str() {
        "mcp_list_tools" if has("tools") && !has("output") => {
            rename(members, &[("tools", "output")]);
            members.insert("type".to_owned(), "mcp_list_tools_call".into());
        }
        "mcp_approval_request" if !has("status") => {
            rename(members, &[("type", "status")]);
            members.insert("type".to_owned(), "tool_call".into());
        }
        "mcp_approval_response" if has("approval_request_id") && !has("output") => {
            rename(members, &[("approval_request_id", "call_id")]);
            if let Some(approved) = members.remove("approve") {
                members.insert("output".to_owned(), json!({ "approve": approved }));
            }
            members.insert("type".to_owned(), "tool_result".into());
        }
        "code_interpreter_call" => {
            let outputs = members.get_mut("outputs").and_then(Value::as_array_mut);
            for output in outputs.into_iter().flatten() {
                of_logs(output);
            }
        }
        "function_call_output" | "custom_tool_call_output" => of_result(members),
        _ => {}
    }
}

/// The output of code that a provider ran.
fn of_logs(output: &mut Value) {
    let Value::Object(members) = output else {
        return;
    };
    let is_said = members.get("logs").is_some_and(Value::is_string);
    if text(members, "type") == "logs" && is_said && !members.contains_key("text") {
        rename(members, &[("logs", "text")]);
        members.insert("type".to_owned(), "text".into());
    }
}

/// Whether an object is a message of LangChain4j, and nothing else that has a type and a text.
fn is_java(members: &Map<String, Value>) -> bool {
    let is_text = members.get("text").is_some_and(Value::is_string);
    let has_list = |name: &str| members.get(name).is_some_and(Value::is_array);
    let is_part = |part: &Value| {
        let kind = part.get("type").and_then(Value::as_str);
        kind.is_some_and(|kind| JAVA_PARTS.iter().any(|(word, _)| *word == kind))
    };
    let parts = members.get("contents").and_then(Value::as_array);
    let has_parts = parts.is_some_and(|parts| !parts.is_empty() && parts.iter().all(is_part));
    match text(members, "type") {
        "USER" => has_parts,
        "AI" => is_text || has_list("toolExecutionRequests"),
        "TOOL_EXECUTION_RESULT" => is_text || has_parts,
        _ => false,
    }
}

fn of_java(members: &mut Map<String, Value>) {
    let kind = text(members, "type");
    let Some((_, role)) = JAVA.iter().find(|(word, _)| *word == kind) else {
        return;
    };
    let has = |name: &str| members.contains_key(name);
    let has_body = has("text") || has("contents") || has("toolExecutionRequests");
    if !has_body || has("role") || has("content") {
        return;
    }
    let names = [("type", "role"), ("text", "content"), ("toolExecutionRequests", "tool_calls")];
    rename(members, &names);
    if *role == "tool" {
        let names = [("id", "tool_call_id"), ("toolName", "name"), ("isError", "is_error")];
        rename(members, &names);
    }
    members.insert("role".to_owned(), (*role).into());
    let parts = members.get_mut("contents").and_then(Value::as_array_mut);
    let parts = parts.into_iter().flatten();
    for part in parts.filter_map(Value::as_object_mut) {
        let kind = text(part, "type");
        if let Some((_, word)) = JAVA_PARTS.iter().find(|(word, _)| *word == kind) {
            part.insert("type".to_owned(), (*word).into());
        }
    }
}
