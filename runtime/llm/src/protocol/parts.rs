//! Parts of messages and tools, in the forms that protocols share.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_worker_protocol::host_call::{
    MediaKind, Medium, Message, MessagePart, Role, Tool, ToolCall,
};
use serde_json::{Map, Value, json};

use super::wire::Ask;
use crate::conversation;
use crate::failure::{ErrorClass, Failure};

/// A medium as text.
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

/// The medium of this id, as the part of a message.
pub(super) fn encoded<'a>(
    ask: &Ask<'a>,
    kind: MediaKind,
    id: &str,
) -> Result<Encoded<'a>, Failure> {
    let medium: Option<&Medium> = ask.media.iter().find(|medium| medium.id == id);
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
        let message =
            format!("the medium {id:?} is {}, which is no {}", medium.content_type, kind.name());
        return Err(Failure::new(ErrorClass::InvalidInput, message));
    }
    Ok(Encoded { kind, content_type: &medium.content_type, base64: STANDARD.encode(&medium.bytes) })
}

/// A part that a protocol has no place for.
pub(super) fn unsupported(protocol: &str, medium: &Encoded<'_>) -> Failure {
    let message = format!(
        "a part of the kind `{}` with {} cannot be sent in the protocol {protocol}",
        medium.kind.name(),
        medium.content_type
    );
    Failure::new(ErrorClass::InvalidInput, message)
}

/// The schema of a tool's arguments. It was checked.
pub(super) fn parameters(tool: &Tool) -> Map<String, Value> {
    conversation::parameters(tool).unwrap_or_default()
}

/// The arguments of a call.
pub(super) fn arguments(call: &ToolCall) -> Map<String, Value> {
    conversation::arguments(&call.arguments)
}

/// The arguments of a call as a JSON text, as the model wrote them where they are an object.
pub(super) fn arguments_text(call: &ToolCall) -> &str {
    match serde_json::from_str::<Map<String, Value>>(&call.arguments) {
        Ok(_) => &call.arguments,
        Err(_) => "{}",
    }
}

/// The arguments of a call in an answer, as a JSON text. Servers send the text or the value itself. What is absent, `null`
/// or an empty text is a call without arguments: an empty object.
pub(super) fn called_with(arguments: Value) -> String {
    let text = match arguments {
        Value::String(text) => text,
        value => value.to_string(),
    };
    match text.trim() {
        "" | "null" => "{}".to_owned(),
        _ => text,
    }
}

/// Whether it is all text.
pub(super) fn is_text(message: &Message) -> bool {
    let mut parts = message.parts.iter();
    parts.all(|part| matches!(part, MessagePart::Text(_)))
}

/// The parts of a message that say something: all but texts of white space alone. Anthropic and Google refuse a request
/// with such a text, and no model needs it.
pub(super) fn filled(message: &Message) -> impl Iterator<Item = &MessagePart> {
    let is_blank =
        |part: &MessagePart| matches!(part, MessagePart::Text(text) if text.trim().is_empty());
    message.parts.iter().filter(move |part| !is_blank(part))
}

/// The texts of a message that say something, one after the other.
pub(super) fn texts(message: &Message) -> String {
    let texts = filled(message).filter_map(|part| match part {
        MessagePart::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// The texts of system messages, and the other messages, for protocols that refuse empty ones.
///
/// A message without content is left out: nothing is lost with it. The last message of the user is the exception: without
/// it the model would answer an earlier question, so the request fails.
pub(super) fn system_apart<'a>(
    ask: &Ask<'a>,
) -> Result<(Option<String>, Vec<&'a Message>), Failure> {
    let empty = |message: String| Err(Failure::new(ErrorClass::InvalidInput, message));
    let is_empty = |message: &Message| filled(message).next().is_none();
    let mut numbered = ask.messages.iter().enumerate();
    let question = numbered.rfind(|(_, message)| message.role == Role::User);
    if let Some((at, _)) = question.filter(|(_, message)| is_empty(message)) {
        let why = "the last message of the role `user` has no text but white space";
        return empty(format!("messages[{at}]: {why}"));
    }
    let said = ask.messages.iter().filter(|message| !is_empty(message));
    let is_system = |message: &&Message| message.role == Role::System;
    let (mut system, mut others): (Vec<_>, Vec<_>) = said.partition(is_system);
    // Providers require at least one message besides system messages.
    if others.is_empty() {
        others.extend(system.pop());
    }
    if others.is_empty() {
        return empty("the messages have no text but white space".to_owned());
    }
    let system: Vec<_> = system.iter().map(|message| texts(message)).collect();
    let system = (!system.is_empty()).then(|| system.join("\n\n"));
    Ok((system, others))
}

/// What a failed tool said, where a protocol does not tell failures apart.
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
    fn a_call_without_arguments_has_none_and_others_stay_as_the_model_wrote_them() {
        let texts = ["", " \n", "null"].map(Value::from);
        for absent in texts.into_iter().chain([json!(null), json!({})]) {
            assert_eq!(called_with(absent), "{}");
        }
        assert_eq!(called_with(json!({ "a": null })), r#"{"a":null}"#);
        for text in [r#"{ "a": 1 }"#, r#"{"a": "#, "[1]"] {
            assert_eq!(called_with(json!(text)), text);
        }
    }
}
