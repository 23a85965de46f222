//! Parts of messages that one library or protocol records in its own way, made parts of the common shapes. A member that has
//! no place in them keeps its name.

use serde_json::{Map, Value};

use crate::content::members::{is_empty, merge, rename, text};

/// Values of `$type` in parts of Microsoft.Extensions.AI, and the common words for them.
const DOTNET: [(&str, &str); 7] = [
    ("data", "uri"),
    ("functionCall", "tool_call"),
    ("functionResult", "tool_result"),
    ("hostedFile", "file"),
    ("reasoning", "reasoning"),
    ("text", "text"),
    ("uri", "uri"),
];
/// Types of parts that are the result of a tool.
const RESULTS: [&str; 4] = ["tool_result", "tool-result", "tool_call_response", "mcp_tool_result"];
/// Types of the parts of a result of MCP.
const ANSWERED: [&str; 5] = ["text", "image", "audio", "resource", "resource_link"];

/// Gives a part of a message one of the common shapes.
pub(crate) fn of_part(part: &mut Value) {
    let Value::Object(members) = part else { return };
    of_dotnet(members);
    of_origin(members);
    let kind = text(members, "type").to_owned();
    match kind.as_str() {
        "text" => of_value(members),
        "text-plain" => of_document(members),
        "resource" => of_resource(members),
        "resource_link" if text(members, "uri").starts_with("http") => {
            members.insert("type".to_owned(), "uri".into());
        }
        "audio" | "input_audio" | "output_audio" => of_transcript(members),
        "server_tool_call" => of_server(members, (kind.as_str(), "arguments"), "tool_call"),
        "server_tool_call_response" => {
            of_server(members, (kind.as_str(), "response"), "tool_call_response");
        }
        kind if RESULTS.contains(&kind) => of_result(members),
        _ => {}
    }
}

/// The contents of a result of a tool, which may be a result of MCP as a whole.
pub(crate) fn of_result(members: &mut Map<String, Value>) {
    for key in ["content", "output", "result", "response"] {
        open_result(members, key);
    }
    for key in ["content", "output"] {
        if let Some(Value::Array(parts)) = members.get_mut(key) {
            parts.iter_mut().for_each(of_part);
        }
    }
}

fn kind_of(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Whether an object is a result of MCP; `is_certain` where the object around it can hold nothing else with contents.
pub(crate) fn is_answer(members: &Map<String, Value>, is_certain: bool) -> bool {
    let Some(Value::Array(parts)) = members.get("content") else {
        return false;
    };
    let has = |name: &str| members.contains_key(name);
    let is_own = |part: &Value| match kind_of(part) {
        "resource" | "resource_link" => true,
        "image" | "audio" => part.get("mimeType").is_some(),
        _ => false,
    };
    let is_flagged = members.get("isError").is_some_and(Value::is_boolean);
    let is_known = is_certain || is_flagged || has("structuredContent");
    let is_typed = parts.iter().all(|part| ANSWERED.contains(&kind_of(part)));
    let has_content = !parts.is_empty() || has("structuredContent");
    has_content
        && is_typed
        && (is_known || parts.iter().any(is_own))
        && !has("role")
        && !has("type")
}

/// The message that a result of MCP is.
pub(crate) fn answer(mut result: Map<String, Value>) -> Map<String, Value> {
    flag(&mut result);
    result.insert("type".to_owned(), "tool_result".into());
    let content = Value::Array(vec![Value::Object(result)]);
    Map::from_iter([("role".to_owned(), "tool".into()), ("content".to_owned(), content)])
}

/// Replaces a result of MCP by its contents, and adds its other members next to them.
pub(crate) fn open_result(members: &mut Map<String, Value>, key: &str) {
    let Some(held) = members.get_mut(key) else {
        return;
    };
    let is_whole = held.as_object().is_some_and(|held| is_answer(held, false));
    if !is_whole {
        return;
    }
    if let Value::Object(mut result) = std::mem::take(held) {
        *held = result.remove("content").unwrap_or_default();
        flag(&mut result);
        merge(members, result);
    }
}

/// Renames `isError` to `is_error` if a call failed; success is the default and is left out.
fn flag(result: &mut Map<String, Value>) {
    let is_failed = result.get("isError").and_then(Value::as_bool);
    match is_failed {
        Some(true) => rename(result, &[("isError", "is_error")]),
        Some(false) => {
            result.remove("isError");
        }
        None => {}
    }
}

/// A part of Microsoft.Extensions.AI.
fn of_dotnet(members: &mut Map<String, Value>) {
    let known = DOTNET.iter().find(|(word, _)| *word == text(members, "$type"));
    let Some((_, kind)) = known.filter(|_| !members.contains_key("type")) else {
        return;
    };
    let names = [("$type", "type"), ("callId", "call_id"), ("fileId", "file_id")];
    rename(members, &names);
    members.insert("type".to_owned(), (*kind).into());
}

/// A result of Haystack, which names its call in `origin`.
fn of_origin(members: &mut Map<String, Value>) {
    let Some(Value::Object(result)) = members.get_mut("tool_call_result") else {
        return;
    };
    let mut moved = Map::new();
    for name in ["id", "tool_name"] {
        let is_free = !result.contains_key(name);
        if let Some(Value::Object(origin)) = result.get_mut("origin").filter(|_| is_free)
            && origin.get(name).is_some_and(Value::is_string)
            && let Some(value) = origin.remove(name)
        {
            moved.insert(name.to_owned(), value);
        }
    }
    merge(result, moved);
}

/// A text of OpenAI's Assistants: an object with the text and its annotations.
fn of_value(members: &mut Map<String, Value>) {
    let Some(held) = members.get_mut("text") else {
        return;
    };
    if !held.get("value").is_some_and(Value::is_string) {
        return;
    }
    if let Value::Object(mut more) = std::mem::take(held) {
        *held = more.remove("value").unwrap_or_default();
        merge(members, more);
    }
}

/// A text with a media type: a document inlined in the part.
fn of_document(members: &mut Map<String, Value>) {
    let is_text = members.get("text").is_some_and(Value::is_string);
    if !is_text || members.contains_key("source") {
        return;
    }
    let mut source = Map::from_iter([("type".to_owned(), Value::from("text"))]);
    for (name, new) in [("mime_type", "media_type"), ("text", "data")] {
        if let Some(value) = members.remove(name) {
            source.insert(new.to_owned(), value);
        }
    }
    members.insert("type".to_owned(), "document".into());
    members.insert("source".to_owned(), Value::Object(source));
}

/// A resource that a result of MCP holds: a text, or the bytes of a file.
fn of_resource(members: &mut Map<String, Value>) {
    let Some(Value::Object(held)) = members.get("resource") else {
        return;
    };
    let has = |name: &str| held.get(name).is_some_and(Value::is_string);
    let (is_text, is_file) = (has("text"), has("blob"));
    if !is_text && !is_file {
        return;
    }
    if let Some(Value::Object(held)) = members.remove("resource") {
        merge(members, held);
    }
    if is_text {
        rename(members, &[("uri", "title"), ("mimeType", "mime_type")]);
        of_document(members);
    } else {
        members.insert("type".to_owned(), "file".into());
    }
}

/// Audio of which only the words were recorded.
fn of_transcript(members: &mut Map<String, Value>) {
    let has = |name: &str| members.get(name).is_some_and(|value| !is_empty(value));
    let is_heard =
        ["audio", "input_audio", "data", "source", "url", "audio_url"].iter().any(|name| has(name));
    let has_transcript = !text(members, "transcript").trim().is_empty();
    if has_transcript && !is_heard && !members.contains_key("text") {
        rename(members, &[("transcript", "text")]);
        members.insert("type".to_owned(), "text".into());
    }
}

/// A call of a tool that a provider runs, or its result, as OpenTelemetry records them: their content is in a member named
/// like its type.
fn of_server(members: &mut Map<String, Value>, (own, held): (&str, &str), kind: &str) {
    if members.contains_key(held) {
        return;
    }
    let name = text(members, "name").to_owned();
    let is_nameless = members.get("name").is_none_or(is_empty);
    if let Some(Value::Object(inner)) = members.get_mut(own) {
        let of_tool = text(inner, "type").to_owned();
        // The type is the name of the tool once more.
        if !of_tool.is_empty() && (is_nameless || name == of_tool) {
            inner.remove("type");
            members.insert("name".to_owned(), of_tool.into());
        }
    }
    rename(members, &[(own, held)]);
    members.insert("type".to_owned(), kind.into());
}
