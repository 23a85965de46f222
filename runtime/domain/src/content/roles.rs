//! Recognises messages and their roles, whichever library recorded them.

use serde_json::{Map, Value};

use crate::content::kinds::Kind;

/// Nested objects around a message: `choices[0].message`, the `data` and `kwargs` of LangChain ...
pub const MAX_LAYERS: usize = 5;
/// Values of the member `role`.
pub const ROLES: [&str; 10] =
    ["system", "developer", "user", "human", "assistant", "model", "ai", "tool", "function", "bot"];
/// `type` of LangChain's messages.
pub const LANGCHAIN: [&str; 10] = [
    "human",
    "ai",
    "system",
    "tool",
    "function",
    "chat",
    "developer",
    "AIMessageChunk",
    "HumanMessageChunk",
    "ToolMessageChunk",
];
/// Members that only a message has, next to its role.
const BODIES: [&str; 14] = [
    "content",
    "parts",
    "contents",
    "tool_calls",
    "toolCalls",
    "tool_call_id",
    "toolInvocations",
    "function_call",
    "refusal",
    "reasoning_content",
    "reasoning",
    "audio",
    "images",
    "text",
];

/// The role of a message, independent of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// `system` and `developer`.
    System,
    /// `user` and `human`.
    User,
    /// `assistant`, `ai` and `model`.
    Assistant,
    /// `tool` and `function`.
    Tool,
}

impl Speaker {
    /// From a role or the class of a message, in any case.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase();
        let word = word.strip_suffix("chunk").unwrap_or(&word);
        match word.strip_suffix("message").unwrap_or(word) {
            "system" | "developer" => Some(Self::System),
            "user" | "human" => Some(Self::User),
            "assistant" | "model" | "ai" | "bot" | "chatbot" | "gpt" | "chatgpt" | "tool-call"
            | "function_call" => Some(Self::Assistant),
            "tool" | "function" | "tool-response" | "observation" | "ipython" => Some(Self::Tool),
            _ => None,
        }
    }

    /// The role, as most APIs name it.
    #[must_use]
    pub const fn role(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// The role of a message, by its `role` or its `type`.
#[must_use]
pub fn speaker(message: &Map<String, Value>) -> Option<Speaker> {
    match text_at(message, "role") {
        "" => langchain_role(text_at(message, "type")).and_then(Speaker::of),
        role => Speaker::of(role),
    }
}

/// The text of a member; empty if it is absent.
pub fn text_at<'v>(object: &'v Map<String, Value>, key: &str) -> &'v str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The member that holds the message, if the object is only a wrapper.
pub fn layer(object: &Map<String, Value>) -> Option<&'static str> {
    let inner = |key: &str| object.get(key).and_then(Value::as_object);
    if object.contains_key("lc") && inner("kwargs").is_some() {
        return Some("kwargs");
    }
    if LANGCHAIN.contains(&text_at(object, "type")) && inner("data").is_some() {
        return Some("data");
    }
    if object.contains_key("role") {
        return None;
    }
    let has_message = |key: &&str| {
        inner(key).is_some_and(|inner| inner.contains_key("role") || layer(inner).is_some())
    };
    ["message", "delta", "content"].into_iter().find(has_message)
}

/// Whether a value is a message, or an item that lists of messages contain too: a call, its result, reasoning, a part with
/// a type.
pub fn is_message(value: &Value) -> bool {
    let Some(mut object) = value.as_object() else {
        return false;
    };
    for _ in 0..MAX_LAYERS {
        match layer(object).and_then(|key| object.get(key)?.as_object()) {
            Some(inner) if text_at(object, "type") == "constructor" => {
                return is_class(object) || has_role(inner);
            }
            Some(inner) => object = inner,
            None => break,
        }
    }
    has_role(object) || is_item(object)
}

/// Whether a value has both a role and content.
pub fn is_chat_message(value: &Value) -> bool {
    let Some(mut object) = value.as_object() else {
        return false;
    };
    for _ in 0..MAX_LAYERS {
        match layer(object).and_then(|key| object.get(key)?.as_object()) {
            Some(inner) => object = inner,
            None => break,
        }
    }
    let is_langchain = LANGCHAIN.contains(&text_at(object, "type"));
    let has_content = ["content", "parts"].iter().any(|key| object.contains_key(*key));
    has_content && (is_langchain || !text_at(object, "role").is_empty())
}

/// Whether a list is the content of a response of Anthropic: texts together with calls or reasoning.
pub fn is_reply(items: &[Value]) -> bool {
    let kind = |item: &Value| match item.get("role") {
        Some(_) => None,
        None => Some(item.get("type")?.as_str()?.to_owned()),
    };
    let is_block = |kind: &String| {
        let known = [
            "text",
            "thinking",
            "redacted_thinking",
            "tool_use",
            "server_tool_use",
            "mcp_tool_use",
        ];
        known.contains(&kind.as_str()) || kind.ends_with("_tool_result")
    };
    let kinds: Option<Vec<String>> = items.iter().map(kind).collect();
    kinds.is_some_and(|kinds| kinds.iter().all(is_block) && kinds.iter().any(|kind| kind != "text"))
}

/// Whether a serialised object of LangChain is a message.
fn is_class(object: &Map<String, Value>) -> bool {
    let path = object.get("id").and_then(Value::as_array);
    let class = path.and_then(|path| path.last()?.as_str()).unwrap_or_default();
    class.ends_with("Message") || class.ends_with("MessageChunk")
}

/// Whether an object has a role, in the member `role` or as LangChain records it, or calls tools.
pub fn has_role(object: &Map<String, Value>) -> bool {
    let role = text_at(object, "role");
    let has_body = BODIES.iter().any(|key| object.contains_key(*key));
    if !role.is_empty() {
        let is_known = ROLES.contains(&role) && (has_body || object.len() <= 2);
        return is_known || object.contains_key("content") || object.contains_key("parts");
    }
    let is_langchain = LANGCHAIN.contains(&text_at(object, "type"));
    let has_calls =
        ["tool_calls", "toolCalls"].iter().any(|key| object.get(*key).is_some_and(Value::is_array));
    (is_langchain && object.contains_key("content")) || has_calls
}

/// Whether an object is a part that lists of messages contain without a message around it.
fn is_item(object: &Map<String, Value>) -> bool {
    match Kind::of(object) {
        Kind::Unknown => object.contains_key("message_content"),
        Kind::Text | Kind::Refusal | Kind::Reasoning => {
            let bodies = ["text", "content", "thinking", "refusal", "summary", "data"];
            object.contains_key("type") && bodies.iter().any(|key| object.contains_key(*key))
        }
        Kind::Medium => {
            let kind = text_at(object, "type");
            let bodies = ["source", "data", "content", "inlineData", "image", "url", "uri"];
            object.contains_key(kind) || bodies.iter().any(|key| object.contains_key(*key))
        }
        Kind::Call => {
            let bodies = ["name", "toolName", "tool_name", "call_id", "action", "id"];
            let is_wrapped = |member: &Value| member.get("name").is_some();
            bodies.iter().any(|key| object.contains_key(*key)) || object.values().any(is_wrapped)
        }
        Kind::Result => true,
    }
}

/// The role, if the type of a message is one of LangChain's.
pub fn langchain_role(kind: &str) -> Option<&str> {
    LANGCHAIN.contains(&kind).then_some(kind)
}

/// Whether the `type` of a message of LangChain is a name of this role, so that nothing is lost without it.
pub fn names_role(object: &Map<String, Value>, role: &str) -> bool {
    let kind = text_at(object, "type");
    kind == role
        || matches!(
            (kind, role),
            ("human" | "HumanMessageChunk", "user" | "human")
                | ("ai" | "AIMessageChunk", "assistant" | "ai")
                | ("ToolMessageChunk", "tool")
        )
}

/// The role, by the name of a class of LangChain.
pub fn role_of_class(class: &str) -> Option<&'static str> {
    let roles = [
        ("Human", "human"),
        ("AI", "ai"),
        ("System", "system"),
        ("Tool", "tool"),
        ("Function", "function"),
    ];
    let found = roles.iter().find(|(prefix, _)| class.starts_with(prefix));
    found.map(|(_, role)| *role)
}

/// The path of the class of an object that LangChain serialised.
pub fn class_of(object: &Map<String, Value>) -> Option<String> {
    object.get("lc")?;
    let path = object.get("id")?.as_array()?;
    let path: Option<Vec<&str>> = path.iter().map(Value::as_str).collect();
    path.map(|path| path.join("."))
}
