//! OpenAI's responses.

use perpend_protocol::host_call::{FinishReason, TokenLogprob};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::openai::{self, Token, Turn, VENDOR};
use super::wire::{self, Ask, REPLY, REPLY_DESCRIPTION, Reply, Wire};
use crate::endpoint::Endpoint;
use crate::failure::Failure;
use crate::observe::Usage;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    input: Vec<Turn<'a>>,
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
    let body = Body {
        model: ask.model,
        input: ask.messages.iter().map(Turn::from).collect(),
        temperature: ask.params.temperature,
        top_p: ask.params.top_p,
        max_output_tokens: ask.params.max_tokens,
        stop: &ask.params.stop,
        top_logprobs,
        include: top_logprobs.map(|_| ["message.output_text.logprobs"]),
        text: native
            .or(json_mode)
            .map(|format| json!({ "format": format })),
        tool_choice: tool
            .as_ref()
            .map(|_| json!({ "type": "function", "name": REPLY })),
        tools: tool.map(|tool| json!([tool])),
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
    },
    FunctionCall {
        arguments: String,
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
        let reasoning = counted
            .output_tokens_details
            .and_then(|of| of.reasoning_tokens);
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
        structured: None,
        finish: match (answer.status.as_deref(), reason.as_deref()) {
            (_, Some("max_output_tokens")) => FinishReason::Length,
            (_, Some("content_filter")) => FinishReason::ContentFilter,
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
            Item::Message { content } => content.into_iter().for_each(|part| reply.add(part)),
            Item::FunctionCall { arguments } => reply.structured = Some(arguments),
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
