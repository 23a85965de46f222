//! The conversation of a request, checked before anything is sent: what no protocol could say fails here, by its name.

use std::collections::HashSet;

use perpend_worker_protocol::host_call::{
    CompletionRequest, MediaKind, Message, MessagePart, Role, Tool, ToolChoice,
};
use serde_json::{Map, Value};

use crate::failure::{ErrorClass, Failure, short};

const MAX_MESSAGES: usize = 1_000;
const MAX_PARTS: usize = 10_000;
const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(ErrorClass::InvalidInput, message)
}

/// What is wrong with the messages and tools of a request.
pub(crate) fn check(request: &CompletionRequest) -> Result<(), Failure> {
    let messages = &request.messages;
    if messages.is_empty() {
        return Err(invalid("the request has no messages"));
    }
    if MAX_MESSAGES < messages.len() {
        let message =
            format!("the request has {} messages, and {MAX_MESSAGES} are possible", messages.len());
        return Err(invalid(message));
    }
    let n_parts: usize = messages.iter().map(|message| message.parts.len()).sum();
    if MAX_PARTS < n_parts {
        let message = format!("the messages have {n_parts} parts, and {MAX_PARTS} are possible");
        return Err(invalid(message));
    }
    let mut called: HashSet<&str> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        check_message(at, message, &called)?;
        for part in &message.parts {
            if let MessagePart::ToolCall(call) = part {
                called.insert(&call.id);
            }
        }
    }
    check_tools(&request.tools, &request.tool_choice)
}

fn check_message(at: usize, message: &Message, called: &HashSet<&str>) -> Result<(), Failure> {
    let wrong = |why: &str| Err(invalid(format!("messages[{at}]: {why}")));
    if message.parts.is_empty() {
        return wrong("it has no parts");
    }
    for part in &message.parts {
        match (message.role, part) {
            (Role::Tool, MessagePart::ToolResult(result)) => {
                if !called.contains(result.call_id.as_str()) {
                    let why =
                        format!("no earlier message has a tool call {:?}", short(&result.call_id));
                    return wrong(&why);
                }
            }
            (Role::Tool, _) => return wrong("a message of the role `tool` has tool results only"),
            (_, MessagePart::ToolResult(_)) => {
                return wrong("a tool result belongs into a message of the role `tool`");
            }
            (Role::Assistant, MessagePart::ToolCall(call)) => {
                if call.id.is_empty() || call.name.is_empty() {
                    return wrong("a tool call has an id and a name");
                }
            }
            (_, MessagePart::ToolCall(_)) => {
                return wrong("a tool call belongs into a message of the role `assistant`");
            }
            (Role::User, MessagePart::Media(..)) | (_, MessagePart::Text(_)) => {}
            (_, MessagePart::Media(kind, _)) => {
                let why = format!(
                    "a part of the kind `{}` belongs into a message of the role `user`",
                    kind.name()
                );
                return wrong(&why);
            }
        }
    }
    Ok(())
}

fn check_tools(tools: &[Tool], choice: &ToolChoice) -> Result<(), Failure> {
    if MAX_TOOLS < tools.len() {
        let message = format!("{} tools, and {MAX_TOOLS} are possible", tools.len());
        return Err(invalid(message));
    }
    let mut names = HashSet::new();
    for tool in tools {
        let is_name = (1..=MAX_NAME).contains(&tool.name.len())
            && tool.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !is_name {
            let message = format!(
                "the tool name {:?} is not 1 to {MAX_NAME} of a-z, A-Z, 0-9, _ and -",
                short(&tool.name)
            );
            return Err(invalid(message));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(invalid(format!("two tools are called {:?}", tool.name)));
        }
        if parameters(tool).is_none() {
            let message = format!(
                "the parameters of the tool {:?} must be a JSON Schema of an object",
                tool.name
            );
            return Err(invalid(message));
        }
    }
    match choice {
        ToolChoice::Named(name) if !names.contains(name.as_str()) => {
            let message = format!("the tool choice names {:?}, which is no tool", short(name));
            Err(invalid(message))
        }
        ToolChoice::Required if tools.is_empty() => {
            Err(invalid("the tool choice is `required`, and there are no tools"))
        }
        _ => Ok(()),
    }
}

/// The schema of a tool's arguments.
pub(crate) fn parameters(tool: &Tool) -> Option<Map<String, Value>> {
    serde_json::from_str(&tool.parameters).ok()
}

/// The arguments of a call. None at all count as an empty object, and so does what a model wrote instead of one: its
/// result says what was wrong, and providers take nothing else.
pub(crate) fn arguments(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Bytes of the messages and tools, for estimates: a token is about four. A medium takes as many tokens as a provider
/// counts for it rather than as its bytes would be as text.
pub(crate) fn size(request: &CompletionRequest, messages: &[Message]) -> usize {
    /// An image, and the least that anything else takes: 1,000 tokens.
    const MEDIUM: usize = 4_000;
    let part = |part: &MessagePart| match part {
        MessagePart::Media(MediaKind::Image, _) => MEDIUM,
        MessagePart::Media(_, id) => {
            let medium = request.media.iter().find(|medium| medium.id == *id);
            MEDIUM + medium.map_or(0, |medium| medium.bytes.len() / 16)
        }
        other => other.size(),
    };
    let parts = messages.iter().flat_map(|message| &message.parts);
    let tools = request.tools.iter();
    let tool = |tool: &Tool| tool.name.len() + tool.description.len() + tool.parameters.len();
    parts.map(part).sum::<usize>() + tools.map(tool).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use perpend_worker_protocol::host_call::{ToolCall, ToolResult};

    use super::*;

    fn why(change: impl FnOnce(&mut CompletionRequest)) -> String {
        let mut request = CompletionRequest::new(vec![Message::text(Role::User, "a")]);
        change(&mut request);
        check(&request).map_or_else(|failure| failure.message, |()| "fine".to_owned())
    }

    fn of(role: Role, part: MessagePart) -> Message {
        Message { role, parts: vec![part] }
    }

    fn call(id: &str, arguments: &str) -> MessagePart {
        MessagePart::ToolCall(ToolCall {
            id: id.to_owned(),
            name: "look".to_owned(),
            arguments: arguments.to_owned(),
        })
    }

    fn result(id: &str) -> MessagePart {
        MessagePart::ToolResult(ToolResult {
            call_id: id.to_owned(),
            content: "x".to_owned(),
            is_error: false,
        })
    }

    fn tool(name: &str, parameters: &str) -> Tool {
        Tool {
            name: name.to_owned(),
            description: String::new(),
            parameters: parameters.to_owned(),
        }
    }

    #[test]
    fn a_conversation_with_tools_passes() {
        let found = why(|request| {
            request
                .messages
                .extend([of(Role::Assistant, call("1", "{}")), of(Role::Tool, result("1"))]);
            request.tools = vec![tool("look", "{}")];
            request.tool_choice = ToolChoice::Named("look".to_owned());
        });
        assert_eq!(found, "fine");
    }

    #[test]
    fn a_call_whose_arguments_are_no_object_may_be_answered_all_the_same() {
        let found = why(|request| {
            request
                .messages
                .extend([of(Role::Assistant, call("1", "[1]")), of(Role::Tool, result("1"))]);
            request.tools = vec![tool("look", "{}")];
        });
        assert_eq!(found, "fine");
        assert_eq!(arguments("[1]"), Map::new());
    }

    #[test]
    fn what_stands_in_the_wrong_place_is_refused_by_its_place() {
        let image = || MessagePart::Media(MediaKind::Image, "m".to_owned());
        for (message, wanted) in [
            (of(Role::User, call("1", "{}")), "role `assistant`"),
            (of(Role::User, result("1")), "role `tool`"),
            (of(Role::Tool, result("1")), "no earlier message"),
            (of(Role::Assistant, image()), "kind `image`"),
            (of(Role::Tool, MessagePart::Text("a".to_owned())), "tool results only"),
            (Message { role: Role::User, parts: Vec::new() }, "no parts"),
        ] {
            let found = why(|request| request.messages.push(message));
            assert!(found.contains("messages[1]") && found.contains(wanted), "{found}");
        }
    }

    #[test]
    fn tools_that_cannot_be_told_apart_or_called_are_refused() {
        for (tools, choice, wanted) in [
            (vec![tool("a b", "{}")], ToolChoice::Auto, "tool name"),
            (vec![tool("a", "{}"), tool("a", "{}")], ToolChoice::Auto, "two tools"),
            (vec![tool("a", "[]")], ToolChoice::Auto, "JSON Schema"),
            (vec![tool("a", "{}")], ToolChoice::Named("b".to_owned()), "no tool"),
            (vec![], ToolChoice::Required, "there are no tools"),
            (vec![tool("a", "{}"); 129], ToolChoice::Auto, "129 tools"),
        ] {
            let found = why(|request| {
                request.tools = tools;
                request.tool_choice = choice;
            });
            assert!(found.contains(wanted), "{found}");
        }
    }
}
