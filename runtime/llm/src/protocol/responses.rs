//! OpenAI's responses.

use perpend_worker_protocol::host_call::{
    FinishReason, MediaKind, Message, MessagePart, Role, TokenLogprob, ToolCall, ToolChoice,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openai::{self, Token, VENDOR};
use super::parts;
use super::wire::{self, Ask, REPLY, REPLY_DESCRIPTION, Reply, Wire};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observe::Usage;

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
    /// Unknown to this API: its refusal says so.
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

/// The items that a message makes: its contents, and one for each call and result of a tool. A message without content is
/// sent as an empty text, which this protocol allows.
fn items(ask: &Ask<'_>, message: &Message) -> Result<Vec<Value>, Failure> {
    let role = wire::role(message);
    if parts::is_text(message) {
        return Ok(vec![json!({ "role": role, "content": message.texts() })]);
    }
    let kind = match message.role {
        Role::Assistant => "output_text",
        _ => "input_text",
    };
    let (mut content, mut items) = (Vec::new(), Vec::new());
    for part in parts::filled(message) {
        match part {
            MessagePart::Text(text) => content.push(json!({ "type": kind, "text": text })),
            MessagePart::Media(kind, id) => content.push(medium(ask, *kind, id)?),
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

fn medium(ask: &Ask<'_>, kind: MediaKind, id: &str) -> Result<Value, Failure> {
    let medium = parts::encoded(ask, kind, id)?;
    Ok(match kind {
        MediaKind::Image => json!({ "type": "input_image", "image_url": medium.data_url() }),
        MediaKind::Audio => return Err(parts::unsupported("openai (responses)", &medium)),
        MediaKind::File => {
            json!({ "type": "input_file", "filename": id, "file_data": medium.data_url() })
        }
    })
}

/// The tools of the request, and how they are to be used.
fn tools(ask: &Ask<'_>) -> (Option<Value>, Option<Value>) {
    if ask.tools.is_empty() {
        return (None, None);
    }
    let tools = ask.tools.iter().map(|tool| {
        json!({
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": parts::parameters(tool),
            "strict": false,
        })
    });
    let choice = match ask.tool_choice {
        ToolChoice::Auto => json!("auto"),
        ToolChoice::Required => json!("required"),
        ToolChoice::None => json!("none"),
        ToolChoice::Named(name) => json!({ "type": "function", "name": name }),
    };
    (Some(tools.collect()), Some(choice))
}

pub(super) fn complete(endpoint: &Endpoint, ask: &Ask<'_>) -> Result<Wire, Failure> {
    let native = ask.native().map(|wanted| {
        json!({
            "type": "json_schema",
            "name": REPLY,
            "schema": wanted.sent,
            "strict": wanted.is_strict,
        })
    });
    let json_mode = ask.is_json_mode().then(|| json!({ "type": "json_object" }));
    let tool = ask.tool().map(|wanted| {
        // Here the default is strict, unlike in chat completions.
        json!({
            "type": "function",
            "name": REPLY,
            "description": REPLY_DESCRIPTION,
            "parameters": wanted.schema,
            "strict": false,
        })
    });
    let top_logprobs = ask.top_logprobs();
    let (tools, tool_choice) = tools(ask);
    let items = ask.messages.iter().map(|message| items(ask, message));
    let items: Vec<Vec<Value>> = items.collect::<Result<_, _>>()?;
    let body = Body {
        model: ask.model,
        input: items.into_iter().flatten().collect(),
        temperature: ask.params.temperature,
        top_p: ask.params.top_p,
        max_output_tokens: ask.params.max_tokens,
        stop: &ask.params.stop,
        top_logprobs,
        include: top_logprobs.map(|_| ["message.output_text.logprobs"]),
        text: native.or(json_mode).map(|format| json!({ "format": format })),
        tool_choice: tool
            .as_ref()
            .map(|_| json!({ "type": "function", "name": REPLY }))
            .or(tool_choice),
        tools: tool.map(|tool| json!([tool])).or(tools),
    };
    let base = wire::base(endpoint, VENDOR, ask.model)?;
    Ok(Wire {
        url: wire::ending_in(base, &["responses"]).into(),
        headers: openai::bearer(endpoint),
        body: wire::body(&body, &ask.params.rest),
    })
}

#[derive(Deserialize)]
struct Answer {
    model: Option<String>,
    status: Option<String>,
    incomplete_details: Option<Incomplete>,
    output: Vec<Item>,
    #[serde(default, deserialize_with = "wire::lenient")]
    usage: Option<Counted>,
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
    /// Reasoning, and what comes to be.
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
struct Counted {
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

impl From<Counted> for Usage {
    fn from(counted: Counted) -> Self {
        let cached = counted.input_tokens_details.and_then(|of| of.cached_tokens);
        let reasoning = counted.output_tokens_details.and_then(|of| of.reasoning_tokens);
        Self {
            input: counted.input_tokens,
            cached_input: cached.unwrap_or_default(),
            output: counted.output_tokens,
            reasoning: reasoning.unwrap_or_default(),
            ..Self::default()
        }
    }
}

pub(super) fn reply(body: Value) -> Result<Reply, String> {
    let answer: Answer = wire::read(body)?;
    let reason = answer.incomplete_details.and_then(|of| of.reason);
    let mut reply = Reply {
        text: String::new(),
        calls: Vec::new(),
        finish: match (answer.status.as_deref(), reason.as_deref()) {
            (_, Some("content_filter")) => FinishReason::ContentFilter,
            // Compatible servers do not always say why.
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
            // Remarks before the answer.
            Item::Message { phase, .. } if phase.as_deref() == Some("commentary") => {}
            Item::Message { content, .. } => content.into_iter().for_each(|part| reply.add(part)),
            Item::FunctionCall { call_id, name, arguments } => reply.calls.push(ToolCall {
                id: call_id.unwrap_or_default(),
                name,
                arguments: parts::called_with(arguments),
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
