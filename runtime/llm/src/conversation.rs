//! Validates the conversation and the tools of a request before it is sent.

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

/// Validates the messages and tools of a request.
pub(crate) fn check(request: &CompletionRequest) -> Result<(), Failure> {
    let messages = &request.messages;
    if messages.is_empty() {
        return Err(invalid("the request has no messages"));
    }
    if MAX_MESSAGES < messages.len() {
        let message =
            format!("a request must have at most {MAX_MESSAGES} messages, got {}", messages.len());
        return Err(invalid(message));
    }
    let n_parts: usize = messages.iter().map(|message| message.parts.len()).sum();
    if MAX_PARTS < n_parts {
        let message = format!("the messages must have at most {MAX_PARTS} parts, got {n_parts}");
        return Err(invalid(message));
    }
    let mut call_ids: HashSet<&str> = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        check_message(at, message, &call_ids)?;
        for part in &message.parts {
            if let MessagePart::ToolCall(call) = part {
                call_ids.insert(&call.id);
            }
        }
    }
    check_tools(&request.tools, &request.tool_choice)
}

fn check_message(at: usize, message: &Message, call_ids: &HashSet<&str>) -> Result<(), Failure> {
    let wrong = |reason: &str| Err(invalid(format!("messages[{at}]: {reason}")));
    if message.parts.is_empty() {
        return wrong("a message must have at least one part");
    }
    for part in &message.parts {
        match (message.role, part) {
            (Role::Tool, MessagePart::ToolResult(result)) => {
                if !call_ids.contains(result.call_id.as_str()) {
                    let reason =
                        format!("no earlier message has a tool call {:?}", short(&result.call_id));
                    return wrong(&reason);
                }
            }
            (Role::Tool, _) => {
                return wrong("a message of the role `tool` can have only tool results");
            }
            (_, MessagePart::ToolResult(_)) => {
                return wrong("a tool result must be in a message of the role `tool`");
            }
            (Role::Assistant, MessagePart::ToolCall(call)) => {
                if call.id.is_empty() || call.name.is_empty() {
                    return wrong("a tool call must have an id and a name");
                }
            }
            (_, MessagePart::ToolCall(_)) => {
                return wrong("a tool call must be in a message of the role `assistant`");
            }
            (Role::User, MessagePart::Media(..)) | (_, MessagePart::Text(_)) => {}
            (_, MessagePart::Media(kind, _)) => {
                let reason = format!(
                    "a part of the kind `{}` must be in a message of the role `user`",
                    kind.name()
                );
                return wrong(&reason);
            }
        }
    }
    Ok(())
}

fn check_tools(tools: &[Tool], choice: &ToolChoice) -> Result<(), Failure> {
    if MAX_TOOLS < tools.len() {
        let message = format!("a request must have at most {MAX_TOOLS} tools, got {}", tools.len());
        return Err(invalid(message));
    }
    let mut names = HashSet::new();
    for tool in tools {
        let is_name = (1..=MAX_NAME).contains(&tool.name.len())
            && tool.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !is_name {
            let message = format!(
                "a tool name must have 1 to {MAX_NAME} characters of a-z, A-Z, 0-9, _ and -, got {:?}",
                short(&tool.name)
            );
            return Err(invalid(message));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(invalid(format!("two tools have the name {:?}", tool.name)));
        }
        if parameters(tool).is_none() {
            let message =
                format!("the parameters of the tool {:?} must be a JSON Schema object", tool.name);
            return Err(invalid(message));
        }
    }
    match choice {
        ToolChoice::Named(name) if !names.contains(name.as_str()) => {
            let message = format!("unknown tool {:?} in the tool choice", short(name));
            Err(invalid(message))
        }
        ToolChoice::Required if tools.is_empty() => {
            Err(invalid("the tool choice `required` needs at least one tool"))
        }
        _ => Ok(()),
    }
}

/// The JSON Schema of a tool's arguments.
pub(crate) fn parameters(tool: &Tool) -> Option<Map<String, Value>> {
    serde_json::from_str(&tool.parameters).ok()
}

/// The arguments of a call. Absent or invalid arguments of a model become an empty object, because providers accept only
/// objects; the result of the call tells the model what was wrong.
pub(crate) fn arguments(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Size of the messages and tools in bytes, for estimates of 4 bytes per token. A medium counts as many tokens as providers
/// count for it, not its bytes.
pub(crate) fn size(request: &CompletionRequest, messages: &[Message]) -> usize {
    /// An image, and the minimum for other media: 1,000 tokens.
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

    fn outcome(change: impl FnOnce(&mut CompletionRequest)) -> String {
        let mut request = CompletionRequest::new(vec![Message::text(Role::User, "a")]);
        change(&mut request);
        check(&request).map_or_else(|failure| failure.message, |()| "valid".to_owned())
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
    fn a_conversation_with_tools_is_valid() {
        let found = outcome(|request| {
            request
                .messages
                .extend([of(Role::Assistant, call("1", "{}")), of(Role::Tool, result("1"))]);
            request.tools = vec![tool("look", "{}")];
            request.tool_choice = ToolChoice::Named("look".to_owned());
        });
        assert_eq!(found, "valid");
    }

    #[test]
    fn a_call_with_invalid_arguments_may_have_a_result() {
        let found = outcome(|request| {
            request
                .messages
                .extend([of(Role::Assistant, call("1", "[1]")), of(Role::Tool, result("1"))]);
            request.tools = vec![tool("look", "{}")];
        });
        assert_eq!(found, "valid");
        assert_eq!(arguments("[1]"), Map::new());
    }

    #[test]
    fn the_error_for_a_misplaced_part_names_its_message() {
        let image = || MessagePart::Media(MediaKind::Image, "m".to_owned());
        for (message, expected) in [
            (of(Role::User, call("1", "{}")), "role `assistant`"),
            (of(Role::User, result("1")), "role `tool`"),
            (of(Role::Tool, result("1")), "no earlier message"),
            (of(Role::Assistant, image()), "kind `image`"),
            (of(Role::Tool, MessagePart::Text("a".to_owned())), "only tool results"),
            (Message { role: Role::User, parts: Vec::new() }, "at least one part"),
        ] {
            let found = outcome(|request| request.messages.push(message));
            assert!(found.contains("messages[1]") && found.contains(expected), "{found}");
        }
    }

    #[test]
    fn ambiguous_and_invalid_tools_are_errors() {
        for (tools, choice, expected) in [
            (vec![tool("a b", "{}")], ToolChoice::Auto, "tool name"),
            (vec![tool("a", "{}"), tool("a", "{}")], ToolChoice::Auto, "two tools"),
            (vec![tool("a", "[]")], ToolChoice::Auto, "JSON Schema"),
            (vec![tool("a", "{}")], ToolChoice::Named("b".to_owned()), "unknown tool"),
            (vec![], ToolChoice::Required, "needs at least one tool"),
            (vec![tool("a", "{}"); 129], ToolChoice::Auto, "at most 128 tools, got 129"),
        ] {
            let found = outcome(|request| {
                request.tools = tools;
                request.tool_choice = choice;
            });
            assert!(found.contains(expected), "{found}");
        }
    }
}
