//! The request of an item, from the messages of its filled prompt, and the output from the completion.

use perpend_domain::server_run::ModelTask;
use perpend_worker_protocol::host_call::{
    CacheMode, Completion, CompletionRequest, Message, MessagePart, Role, Tool, ToolCall,
    ToolResult,
};
use serde_json::{Value, json};

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn role(name: &str) -> Result<Role, String> {
    Ok(match name {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" | "model" => Role::Assistant,
        "tool" => Role::Tool,
        other => {
            return Err(format!(
                "`role` must be one of `system`, `developer`, `user`, `assistant`, `tool`; got `{other}`"
            ));
        }
    })
}

/// The texts of a content: a text or a list of text parts.
fn texts(content: &Value) -> Result<Vec<String>, String> {
    let parts = match content {
        Value::Null => return Ok(Vec::new()),
        Value::String(text) => return Ok(vec![text.clone()]),
        Value::Array(parts) => parts,
        other => {
            let found = kind_of(other);
            return Err(format!(
                "`content` must be a string or an array of text parts, got {found}"
            ));
        }
    };
    let text = |part: &Value| match part {
        Value::String(text) => Ok(text.clone()),
        _ => {
            let text = part.get("text").and_then(Value::as_str);
            text.map(str::to_owned).ok_or_else(|| {
                "a part of `content` must have a `text`; media are not supported".to_owned()
            })
        }
    };
    parts.iter().map(text).collect()
}

fn tool_call(call: &Value) -> Result<ToolCall, String> {
    let function = call.get("function").unwrap_or(call);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "{}".to_owned(),
    };
    let name = text(function.get("name"));
    Ok(ToolCall {
        id: text(call.get("id")).unwrap_or_default(),
        name: name.ok_or("a tool call must have a `name`")?,
        arguments,
    })
}

fn message(raw: &Value) -> Result<Message, String> {
    let role = role(raw.get("role").and_then(Value::as_str).unwrap_or_default())?;
    let texts = texts(raw.get("content").unwrap_or(&Value::Null))?;
    if role == Role::Tool {
        let call_id = raw.get("tool_call_id").and_then(Value::as_str);
        let call_id = call_id.ok_or("a message of the role `tool` must have a `tool_call_id`")?;
        let result = ToolResult {
            call_id: call_id.to_owned(),
            content: texts.join("\n\n"),
            is_error: false,
        };
        return Ok(Message { role, parts: vec![MessagePart::ToolResult(result)] });
    }
    let mut parts: Vec<MessagePart> = texts.into_iter().map(MessagePart::Text).collect();
    let calls = raw.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        parts.push(MessagePart::ToolCall(tool_call(call)?));
    }
    Ok(Message { role, parts })
}

/// The request for the messages of a filled prompt.
///
/// # Errors
/// With the number of a message that cannot be sent, and the reason.
pub fn completion_request(
    task: &ModelTask,
    messages: &[Value],
) -> Result<CompletionRequest, String> {
    let messages = messages.iter().enumerate().map(|(at, raw)| {
        message(raw).map_err(|reason| format!("message {at} of the prompt: {reason}"))
    });
    let mut request = CompletionRequest::new(messages.collect::<Result<_, _>>()?);
    request.response_schema = task.output_schema.as_ref().map(Value::to_string);
    let tools = task.tools.iter().map(|tool| Tool {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.to_string(),
    });
    request.tools = tools.collect();
    request.cache = CacheMode::Bypass;
    Ok(request)
}

/// The output of an item: the text, the value that matches the output schema, or a message with tool calls.
pub(super) fn output_of(completion: Completion) -> Value {
    if !completion.tool_calls.is_empty() {
        let calls = completion.tool_calls.iter().map(|call| {
            json!({
                "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments },
            })
        });
        let calls: Vec<Value> = calls.collect();
        return json!({ "role": "assistant", "content": completion.text, "tool_calls": calls });
    }
    let structured = completion.structured.as_deref();
    let structured = structured.and_then(|text| serde_json::from_str(text).ok());
    structured.unwrap_or(Value::String(completion.text))
}

#[cfg(test)]
mod tests {
    use perpend_domain::server_run::RunPrompt;
    use perpend_domain::slots::ModelChoice;

    use super::*;

    fn task() -> ModelTask {
        ModelTask {
            prompt: RunPrompt { name: "p".to_owned(), version: 1, body: json!("x") },
            model: ModelChoice {
                provider: "main".to_owned(),
                model: "m".to_owned(),
                params: serde_json::Map::new(),
            },
            tools: Vec::new(),
            output_schema: None,
            timeout_ms: 1_000,
        }
    }

    #[test]
    fn messages_with_texts_tool_calls_and_results_become_a_request() {
        let messages = json!([
            { "role": "developer", "content": "Be brief." },
            { "role": "user", "content": [{ "type": "text", "text": "Weather?" }] },
            { "role": "assistant", "tool_calls": [
                { "id": "c1", "function": { "name": "weather", "arguments": "{\"city\":\"Bern\"}" } },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "sunny" },
        ]);
        let request = completion_request(&task(), messages.as_array().unwrap()).unwrap();
        let roles: Vec<Role> = request.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::Tool]);
        assert_eq!(request.messages[1].texts(), "Weather?");
        assert!(
            matches!(&request.messages[2].parts[..], [MessagePart::ToolCall(call)] if call.name == "weather")
        );
        assert!(
            matches!(&request.messages[3].parts[..], [MessagePart::ToolResult(result)] if result.content == "sunny")
        );
        assert_eq!(request.cache, CacheMode::Bypass);
    }

    #[test]
    fn a_message_that_cannot_be_sent_is_named_by_its_number() {
        for (wrong, part) in [
            (json!({ "role": "robot", "content": "x" }), "robot"),
            (json!({ "role": "user", "content": 1 }), "a number"),
            (json!({ "role": "user", "content": [{ "type": "image_url" }] }), "text"),
            (json!({ "role": "tool", "content": "x" }), "tool_call_id"),
        ] {
            let messages = [json!({ "role": "user", "content": "x" }), wrong];
            let error = completion_request(&task(), &messages).unwrap_err();
            assert!(error.contains("message 1") && error.contains(part), "{error}");
        }
    }
}
