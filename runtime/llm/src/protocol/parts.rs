//! Encoding of message parts and tools that several protocols share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_worker_protocol::host_call::{
    MediaKind, Medium, Message, MessagePart, Role, Tool, ToolCall,
};
use serde_json::{Map, Value, json};

use super::wire::CompletionSpec;
use crate::conversation;
use crate::failure::{ErrorClass, Failure};

/// A medium in base64.
pub(super) struct Encoded<'a> {
    pub(super) kind: MediaKind,
    pub(super) content_type: &'a str,
    pub(super) base64: String,
}

impl Encoded<'_> {
    pub(super) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.content_type, self.base64)
    }
}

/// Encodes the medium with this id.
pub(super) fn encoded<'a>(
    spec: &CompletionSpec<'a>,
    kind: MediaKind,
    id: &str,
) -> Result<Encoded<'a>, Failure> {
    let medium: Option<&Medium> = spec.media.iter().find(|medium| medium.id == id);
    let medium = medium.ok_or_else(|| {
        let message = format!("the medium {id:?} was not loaded");
        Failure::new(ErrorClass::InvalidInput, message)
    })?;
    let is_kind = |prefix: &str| medium.content_type.starts_with(prefix);
    let fits = match kind {
        MediaKind::Image => is_kind("image/"),
        MediaKind::Audio => is_kind("audio/"),
        MediaKind::File => true,
    };
    if !fits {
        let message = format!(
            "the medium {id:?} has the content type {}, which does not match the part kind `{}`",
            medium.content_type,
            kind.name()
        );
        return Err(Failure::new(ErrorClass::InvalidInput, message));
    }
    Ok(Encoded { kind, content_type: &medium.content_type, base64: STANDARD.encode(&medium.bytes) })
}

/// The failure for a part that a protocol does not support.
pub(super) fn unsupported(protocol: &str, medium: &Encoded<'_>) -> Failure {
    let message = format!(
        "the protocol {protocol} does not support parts of the kind `{}` with content type {}",
        medium.kind.name(),
        medium.content_type
    );
    Failure::new(ErrorClass::InvalidInput, message)
}

/// The JSON Schema of a tool's arguments, which was validated before.
pub(super) fn parameters(tool: &Tool) -> Map<String, Value> {
    conversation::parameters(tool).unwrap_or_default()
}

/// The arguments of a call as an object.
pub(super) fn arguments(call: &ToolCall) -> Map<String, Value> {
    conversation::arguments(&call.arguments)
}

/// The arguments of a call as JSON text, unchanged if they are an object; else an empty object.
pub(super) fn arguments_text(call: &ToolCall) -> &str {
    match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(_) => &call.arguments,
        Err(_) => "{}",
    }
}

/// The arguments of a call in a response, as JSON text. Servers send a string or the value itself. Absent, `null` and empty
/// arguments become an empty object.
pub(super) fn call_arguments(arguments: Value) -> String {
    let text = match arguments {
        Value::String(text) => text,
        value => value.to_string(),
    };
    match text.trim() {
        "" | "null" => "{}".to_owned(),
        _ => text,
    }
}

/// Whether all parts are text.
pub(super) fn is_text(message: &Message) -> bool {
    let mut parts = message.parts.iter();
    parts.all(|part| matches!(part, MessagePart::Text(_)))
}

/// The parts of a message without blank texts, which Anthropic and Google reject.
pub(super) fn non_blank(message: &Message) -> impl Iterator<Item = &MessagePart> {
    let is_blank =
        |part: &MessagePart| matches!(part, MessagePart::Text(text) if text.trim().is_empty());
    message.parts.iter().filter(move |part| !is_blank(part))
}

/// The non-blank texts of a message, separated by blank lines.
pub(super) fn texts(message: &Message) -> String {
    let texts = non_blank(message).filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Separates the texts of system messages from the other messages, for protocols that reject empty messages.
///
/// Messages without content are omitted, except that the request fails when the last message of the user is blank: the model
/// would answer an earlier question.
pub(super) fn split_system<'a>(
    spec: &CompletionSpec<'a>,
) -> Result<(Option<String>, Vec<&'a Message>), Failure> {
    let empty = |message: String| Err(Failure::new(ErrorClass::InvalidInput, message));
    let is_empty = |message: &Message| non_blank(message).next().is_none();
    let mut numbered = spec.messages.iter().enumerate();
    let question = numbered.rfind(|(_, message)| message.role == Role::User);
    if let Some((at, _)) = question.filter(|(_, message)| is_empty(message)) {
        let reason = "the last message of the role `user` is blank";
        return empty(format!("messages[{at}]: {reason}"));
    }
    let non_empty = spec.messages.iter().filter(|message| !is_empty(message));
    let is_system = |message: &&Message| message.role == Role::System;
    let (mut system, mut others): (Vec<_>, Vec<_>) = non_empty.partition(is_system);
    // Providers require at least one message that is not a system message.
    if others.is_empty() {
        others.extend(system.pop());
    }
    if others.is_empty() {
        return empty("all messages are blank".to_owned());
    }
    let system: Vec<_> = system.iter().map(|message| texts(message)).collect();
    let system = (!system.is_empty()).then(|| system.join("\n\n"));
    Ok((system, others))
}

/// A tool result, with a text that marks failures, for protocols without a failure flag.
pub(super) fn result_text(content: &str, is_error: bool) -> Value {
    match is_error {
        true => json!(format!("The tool failed: {content}")),
        false => json!(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_arguments_become_an_empty_object_and_others_are_unchanged() {
        let texts = ["", " \n", "null"].map(Value::from);
        for absent in texts.into_iter().chain([json!(null), json!({})]) {
            assert_eq!(call_arguments(absent), "{}");
        }
        assert_eq!(call_arguments(json!({ "a": null })), r#"{"a":null}"#);
        for text in [r#"{ "a": 1 }"#, r#"{"a": "#, "[1]"] {
            assert_eq!(call_arguments(json!(text)), text);
        }
    }
}
