//! OpenAI's Responses API.

use perpend_worker_protocol::host_call::{
    FinishReason, MediaKind, Message, MessagePart, Role, TokenLogprob, ToolCall, ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openai::{self, Token, VENDOR};
use super::parts;
use super::wire::{self, CompletionSpec, EncodedRequest, REPLY, REPLY_DESCRIPTION, Reply};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observer::Usage;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    /// Not supported by this API, which rejects it with an error.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    top_logprobs: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
}

/// Encodes a message as items: its contents, and one item for each tool call and tool result. A message without content is
/// sent as an empty text, which this protocol allows.
fn items(spec: &CompletionSpec<'_>, message: &Message) -> Result<Vec<Value>, Failure> {
    let role = wire::role(message);
    if parts::is_text(message) {
        return Ok(vec![json!({ "role": role, "content": message.texts() })]);
    }
    let kind = match message.role {
        Role::Assistant => "output_text",
        _ => "input_text",
    };
    let (mut content, mut items) = (Vec::new(), Vec::new());
    for part in parts::non_blank(message) {
        match part {
            MessagePart::Text(text) => content.push(json!({ "type": kind, "text": text })),
            MessagePart::Media(kind, id) => content.push(medium(spec, *kind, id)?),
            MessagePart::ToolCall(call) => items.push(json!({
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": parts::arguments_text(call),
            })),
            MessagePart::ToolResult(result) => items.push(json!({
                "type": "function_call_output",
                "call_id": result.call_id,
                "output": parts::result_text(&result.content, result.is_error),
            })),
        }
    }
    if !content.is_empty() {
        items.insert(0, json!({ "role": role, "content": content }));
    }
    Ok(items)
}

fn medium(spec: &CompletionSpec<'_>, kind: MediaKind, id: &str) -> Result<Value, Failure> {
    let medium = parts::encoded(spec, kind, id)?;
    Ok(match kind {
        MediaKind::Image => json!({ "type": "input_image", "image_url": medium.data_url() }),
        MediaKind::Audio => return Err(parts::unsupported("openai (responses)", &medium)),
        MediaKind::File => {
            json!({ "type": "input_file", "filename": id, "file_data": medium.data_url() })
        }
    })
}

/// The tools of the request, and the tool choice.
fn tools(spec: &CompletionSpec<'_>) -> (Option<Value>, Option<Value>) {
    if spec.tools.is_empty() {
        return (None, None);
    }
    let tools = spec.tools.iter().map(|tool| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": parts::parameters(tool),
            "strict": false,
        })
    });
    let choice = match spec.tool_choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Required => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Named(name) => json!({ "type": "function", "name": name }),
    };
    (Some(tools.collect()), Some(choice))
}

pub(super) fn complete(
    endpoint: &Endpoint,
    spec: &CompletionSpec<'_>,
) -> Result<EncodedRequest, Failure> {
    let native = spec.native().map(|schema| {
        json!({
            "type": "json_schema",
            "name": REPLY,
            "schema": schema.reduced,
            "strict": schema.is_strict,
        })
    });
    let json_mode = spec.is_json_mode().then(|| json!({ "type": "json_object" }));
    let tool = spec.tool().map(|schema| {
        // The default is strict, unlike in Chat Completions.
        json!({
            "type": "function",
            "name": REPLY,
            "description": REPLY_DESCRIPTION,
            "parameters": schema.original,
            "strict": false,
        })
    });
    let top_logprobs = spec.top_logprobs();
    let (tools, tool_choice) = tools(spec);
    let items = spec.messages.iter().map(|message| items(spec, message));
    let items: Vec<Vec<Value>> = items.collect::<Result<_, _>>()?;
    let body = Body {
        model: spec.model,
        input: items.into_iter().flatten().collect(),
        temperature: spec.params.temperature,
        top_p: spec.params.top_p,
        max_output_tokens: spec.params.max_tokens,
        stop: &spec.params.stop,
        top_logprobs,
        include: top_logprobs.map(|_| ["message.output_text.logprobs"]),
        text: native.or(json_mode).map(|format| json!({ "format": format })),
        tool_choice: tool
            .as_ref()
            .map(|_| json!({ "type": "function", "name": REPLY }))
            .or(tool_choice),
        tools: tool.map(|tool| json!([tool])).or(tools),
    };
    let base = wire::base(endpoint, VENDOR, spec.model)?;
    Ok(EncodedRequest {
        url: wire::ending_in(base, &["responses"]).into(),
        headers: openai::bearer(endpoint),
        body: wire::body(&body, &spec.params.rest),
    })
}

#[derive(Deserialize)]
struct ResponseBody {
    model: Option<String>,
    status: Option<String>,
    incomplete_details: Option<Incomplete>,
    output: Vec<Item>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<UsageBody>,
}

#[derive(Deserialize)]
struct Incomplete {
    reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item {
    Message {
        #[serde(default)]
        content: Vec<Part>,
        phase: Option<String>,
    },
    FunctionCall {
        call_id: Option<String>,
        #[serde(default)]
        name: String,
        #[serde(default)]
        arguments: Value,
    },
    /// Reasoning, and unknown types.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    OutputText {
        text: String,
        #[serde(default)]
        logprobs: Option<Vec<Token>>,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct UsageBody {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    input_tokens_details: Option<InputDetails>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl From<UsageBody> for Usage {
    fn from(usage: UsageBody) -> Self {
        let cached = usage.input_tokens_details.and_then(|of| of.cached_tokens);
        let reasoning = usage.output_tokens_details.and_then(|of| of.reasoning_tokens);
        Self {
            input: usage.input_tokens,
            cached_input: cached.unwrap_or_default(),
            output: usage.output_tokens,
            reasoning: reasoning.unwrap_or_default(),
            ..Self::default()
        }
    }
}

pub(super) fn reply(body: Value) -> Result<Reply, String> {
    let answer: ResponseBody = wire::read(body)?;
    let reason = answer.incomplete_details.and_then(|of| of.reason);
    let mut reply = Reply {
        text: String::new(),
        calls: Vec::new(),
        finish: match (answer.status.as_deref(), reason.as_deref()) {
            (_, Some("content_filter")) => FinishReason::ContentFilter,
            // Compatible servers may omit the reason.
            (Some("incomplete"), _) | (_, Some("max_output_tokens")) => FinishReason::Length,
            (Some("completed"), _) => FinishReason::Stop,
            _ => FinishReason::Other,
        },
        refusal: None,
        usage: answer.usage.map(Usage::from),
        logprobs: Vec::new(),
        model: answer.model,
    };
    for item in answer.output {
        match item {
            // Comments before the answer.
            Item::Message { phase, .. } if phase.as_deref() == Some("commentary") => {}
            Item::Message { content, .. } => content.into_iter().for_each(|part| reply.add(part)),
            Item::FunctionCall { call_id, name, arguments } => reply.calls.push(ToolCall {
                id: call_id.unwrap_or_default(),
                name,
                arguments: parts::call_arguments(arguments),
            }),
            Item::Other => {}
        }
    }
    Ok(reply)
}

impl Reply {
    fn add(&mut self, part: Part) {
        match part {
            Part::OutputText { text, logprobs } => {
                self.text.push_str(&text);
                let tokens = logprobs.into_iter().flatten();
                self.logprobs.extend(tokens.map(TokenLogprob::from));
            }
            Part::Refusal { refusal } => self.refusal = Some(refusal),
            Part::Other => {}
        }
    }
}
