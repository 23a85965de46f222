//! Records an exchange with a provider as a generation of the execution's own trace.

use std::sync::Arc;

use perpend_domain::evaluation::OWN_ENVIRONMENT;
use perpend_domain::identity::{call_span_id, root_span_id};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::model_call::ModelCall;
use perpend_domain::observation::{Cost, Level, Observation, ObservationKind, Usage};
use perpend_domain::payload::Payload;
use perpend_domain::plugin::RunCall;
use perpend_domain::server_run::RUN_ENVIRONMENT;
use perpend_executions::AttemptKey;
use perpend_llm::ProviderCall;
use perpend_worker_protocol::host_call::{Message, MessagePart, Role};
use serde_json::{Map, Value, json};

/// The messages, parameters and reply of an exchange.
pub(super) struct ExchangeContent {
    messages: Arc<[Message]>,
    params: Map<String, Value>,
    reply: Option<String>,
}

impl ExchangeContent {
    pub(super) fn of(call: &ProviderCall) -> Self {
        Self {
            messages: Arc::clone(&call.messages),
            params: call.params.clone(),
            reply: call.reply.clone(),
        }
    }
}

/// The generation of an exchange. Its ids are derived from the attempt and the number, so that writing it again is
/// idempotent.
pub(super) fn generation(
    (attempt_key, run): (&AttemptKey, Option<&RunCall>),
    call: &ModelCall,
    content: ExchangeContent,
    number: u32,
) -> Observation {
    let execution = &attempt_key.execution;
    let end = call.started_at.plus_millis(call.latency_ms.cast_signed());
    let id = call_span_id(execution, attempt_key.attempt, number);
    let mut own = Observation::ended(
        trace_of(attempt_key),
        observation(&id),
        ObservationKind::Generation,
        (call.started_at, end),
    );
    own.parent_id = Some(observation(&root_span_id(execution)));
    own.name = call.model.clone();
    own.environment = run.map_or(OWN_ENVIRONMENT, |_| RUN_ENVIRONMENT).to_owned();
    own.prompt = run.and_then(|run| run.prompt.clone());
    own.model = Some(call.model_answered.as_ref().unwrap_or(&call.model).clone());
    own.provider = Some(call.provider.to_lowercase());
    own.model_parameters = content.params;
    own.usage = usage(call);
    own.cost = call.cost.map(|cost| Cost::from([("total".to_owned(), cost)])).unwrap_or_default();
    if let Some((class, message)) = &call.error {
        own.level = Level::Error;
        own.status_message = Some(format!("{class}: {message}"));
    }
    own.has_content = true;
    own.content.input = Some(Payload::Json(messages(&content.messages).to_string()));
    own.content.output = content.reply.map(Payload::Text);
    own.content.metadata = metadata(attempt_key, call);
    own
}

/// `id` is 16 hex digits, derived by the server.
fn observation(id: &str) -> ObservationId {
    ObservationId::new(id).unwrap_or_else(|_| unreachable!("16 hex digits are a valid id"))
}

fn trace_of(attempt_key: &AttemptKey) -> TraceId {
    let id = attempt_key.execution.as_str();
    TraceId::new(id).unwrap_or_else(|_| unreachable!("32 hex digits are a valid id"))
}

fn usage(call: &ModelCall) -> Usage {
    let all = [
        ("input", call.input_tokens.saturating_sub(call.cached_tokens)),
        ("input_cached_tokens", call.cached_tokens),
        ("output", call.output_tokens.saturating_sub(call.reasoning_tokens)),
        ("output_reasoning_tokens", call.reasoning_tokens),
        ("total", call.input_tokens.saturating_add(call.output_tokens)),
    ];
    let used = all.into_iter().filter(|(_, n_tokens)| 0 < *n_tokens);
    used.map(|(bucket, n_tokens)| (bucket.to_owned(), n_tokens.into())).collect()
}

fn messages(messages: &[Message]) -> Value {
    let message = |message: &Message| {
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        json!({ "role": role, "content": content(message) })
    };
    messages.iter().map(message).collect()
}

/// The text of a message with one text part; else the list of its parts.
fn content(message: &Message) -> Value {
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => json!({ "type": "text", "text": text }),
        MessagePart::Media(kind, id) => json!({ "type": kind.name(), "mediaId": id }),
        MessagePart::ToolCall(call) => json!({
            "type": "tool-call", "id": call.id, "name": call.name, "arguments": call.arguments,
        }),
        MessagePart::ToolResult(result) => json!({
            "type": "tool-result", "callId": result.call_id, "content": result.content,
            "isError": result.is_error,
        }),
    };
    match message.parts.as_slice() {
        [MessagePart::Text(text)] => json!(text),
        parts => parts.iter().map(part).collect(),
    }
}

fn metadata(attempt_key: &AttemptKey, call: &ModelCall) -> Map<String, Value> {
    let known = [
        ("attempt", json!(attempt_key.attempt + 1)),
        ("method", json!(call.method)),
        ("estimated", json!(call.is_estimated)),
        ("from_cache", json!(call.is_from_cache)),
    ];
    let saved = call.saved.map(|saved| ("saved_usd", json!(saved)));
    known.into_iter().chain(saved).map(|(name, value)| (name.to_owned(), value)).collect()
}
