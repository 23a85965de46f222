//! Completions: selection of the structure method, validation of the reply, and re-asks.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use perpend_worker_protocol::host_call::{
    Completion, CompletionRequest, FinishReason, Message, MessagePart, Role, ToolCall,
};
use serde_json::{Value, json};

use crate::capabilities::{Capabilities, Quirk};
use crate::conversation;
use crate::endpoint::{CallLimits, Endpoint, ModelSettings};
use crate::extract;
use crate::failure::{ErrorClass, Failure, short};
use crate::llm::{Exchange, Llm, ReplyMetadata, Shared, redacted_failure, tokens};
use crate::observer::{CallObserver, Estimate, StructureMethod, Usage};
use crate::params::Params;
use crate::protocol::{self, CompletionSpec, EncodedRequest, Reply};
use crate::redact::Secrets;
use crate::rejection::{Hint, Rejection};
use crate::response_schema::ResponseSchema;

/// Maximum length of the malformed reply in a re-ask.
const MAX_QUOTED_BYTES: usize = 16 << 10;

impl Llm {
    /// Requests a completion. With a response schema, `structured` of the completion matches it.
    ///
    /// Falls back to weaker structure methods, and re-asks after malformed replies, without delay. All other retries are left
    /// to the caller.
    ///
    /// # Errors
    /// The class of the failure tells whether another attempt may succeed.
    pub async fn complete(
        &self,
        endpoint: &Endpoint,
        choice: &ModelSettings,
        limits: &CallLimits,
        request: &CompletionRequest,
        observer: Arc<dyn CallObserver>,
    ) -> Result<Completion, Failure> {
        let call = Call::new(&self.0, (endpoint, choice), limits, request, observer);
        call.map_err(|mut failure| {
            failure.is_unsent = true;
            failure
        })?
        .run()
        .await
        .map_err(|failure| redacted_failure(endpoint, failure))
    }
}

pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    endpoint: Arc<Endpoint>,
    model: &'a str,
    limits: &'a CallLimits,
    pub(crate) observer: Arc<dyn CallObserver>,
    params: Params,
    pub(crate) schema: Option<ResponseSchema>,
    /// The remaining methods; the first is in use.
    methods: Vec<StructureMethod>,
    quirks: BTreeSet<Quirk>,
    pub(crate) request: &'a CompletionRequest,
    messages: Vec<Message>,
    /// Exchanges so far.
    number: u32,
    /// Usable answers so far, including those of an earlier attempt.
    n_answered: u32,
    reask: u32,
    /// The output limit was doubled because a reply was truncated.
    is_doubled: bool,
    /// Output tokens of the truncated reply.
    cut_off_tokens: u64,
    pub(crate) usage: Usage,
    pub(crate) is_from_cache: bool,
}

impl<'a> Call<'a> {
    fn new(
        shared: &'a Arc<Shared>,
        (endpoint, choice): (&'a Endpoint, &'a ModelSettings),
        limits: &'a CallLimits,
        request: &'a CompletionRequest,
        observer: Arc<dyn CallObserver>,
    ) -> Result<Self, Failure> {
        conversation::check(request)?;
        let schema = request.response_schema.as_deref();
        let schema = schema.map(|text| ResponseSchema::new(text, &shared.check));
        let schema = schema.transpose()?;
        let known = shared.capabilities.get(endpoint, &choice.model, shared.clock.now());
        Ok(Self {
            shared,
            endpoint: Arc::new(endpoint.clone()),
            model: &choice.model,
            limits,
            observer,
            params: Params::new(choice, limits, request)?,
            methods: methods(endpoint, schema.as_ref(), known.structure, !request.tools.is_empty()),
            schema,
            quirks: known.quirks,
            request,
            messages: request.messages.clone(),
            number: 0,
            n_answered: 0,
            reask: 0,
            is_doubled: false,
            cut_off_tokens: 0,
            usage: Usage::default(),
            is_from_cache: false,
        })
    }

    async fn run(mut self) -> Result<Completion, Failure> {
        if let Some(completion) = self.cached_completion().await? {
            return Ok(completion);
        }
        loop {
            match self.exchange_once().await {
                Ok(reply) => {
                    if let Some(completion) = self.accept(reply).await? {
                        self.store_capabilities();
                        return Ok(completion);
                    }
                }
                Err(rejected) => self.adapt(rejected)?,
            }
        }
    }

    /// One exchange.
    async fn exchange_once(&mut self) -> Result<Reply, Rejection> {
        let (messages, n_bytes) = self.conversation();
        if let Some(reply) = self.recorded_reply(&messages, n_bytes) {
            return Ok(reply);
        }
        let wire = self.wire(&messages, n_bytes).map_err(|mut failure| {
            failure.is_unsent = true;
            failure
        })?;
        self.number += 1;
        let exchange = self.exchange(&messages, n_bytes);
        let result = self.shared.exchange(exchange, wire, read).await;
        let (reply, usage) = result?;
        self.n_answered += 1;
        self.usage += usage;
        self.is_from_cache = false;
        Ok(reply)
    }

    /// The reply that an earlier attempt recorded at this position. Its method remains in use.
    fn recorded_reply(&mut self, messages: &Arc<[Message]>, n_bytes: usize) -> Option<Reply> {
        let answer = self.observer.recorded_answer(self.n_answered)?;
        let known = self.methods.iter().position(|method| *method == answer.method);
        let (reply, usage) =
            Shared::parse_recorded(&self.exchange(messages, n_bytes), &answer, read)?;
        self.methods.drain(..known.unwrap_or_default());
        self.n_answered += 1;
        self.usage += usage;
        self.is_from_cache = answer.is_from_cache;
        Some(reply)
    }

    /// The messages to send, and their size in bytes.
    pub(crate) fn conversation(&self) -> (Arc<[Message]>, usize) {
        let messages = self.sent_messages();
        let n_bytes = conversation::size(self.request, &messages);
        (messages.into(), n_bytes)
    }

    pub(crate) fn check_length(&self, n_bytes: usize) -> Result<(), Failure> {
        let n_tokens = tokens(n_bytes);
        match self.limits.max_input_tokens {
            Some(limit) if u64::from(limit) < n_tokens => {
                let message =
                    format!("the prompt must have at most {limit} tokens, got about {n_tokens}");
                Err(Failure::new(ErrorClass::ContextTooLong, message))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn exchange(&self, messages: &Arc<[Message]>, n_bytes: usize) -> Exchange {
        Exchange {
            endpoint: Arc::clone(&self.endpoint),
            observer: Arc::clone(&self.observer),
            timeout: self.limits.timeout,
            estimate: Estimate {
                connection_id: self.endpoint.connection_id.clone(),
                provider: self.endpoint.provider.clone(),
                model: self.model.to_owned(),
                input_tokens: tokens(n_bytes),
                max_output_tokens: self.output_limit(),
            },
            method: self.method(),
            number: self.number,
            reask: self.reask,
            messages: Arc::clone(messages),
            params: self.params.to_map(),
        }
    }

    fn wire(&self, messages: &[Message], n_bytes: usize) -> Result<EncodedRequest, Failure> {
        self.check_length(n_bytes)?;
        let spec = CompletionSpec {
            model: self.model,
            messages,
            structure: self.method(),
            schema: self.schema.as_ref(),
            params: &self.params,
            quirks: &self.quirks,
            tools: &self.request.tools,
            tool_choice: &self.request.tool_choice,
            media: &self.request.media,
        };
        protocol::complete(&self.endpoint, &spec)
    }

    fn method(&self) -> StructureMethod {
        self.methods.first().copied().unwrap_or(StructureMethod::None)
    }

    fn output_limit(&self) -> Option<u32> {
        let required = protocol::required_limit(&self.endpoint);
        self.params.max_tokens.or(required)
    }

    /// The conversation, with the schema in the last message when the method requires it.
    fn sent_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        let is_in_prompt =
            matches!(self.method(), StructureMethod::JsonMode | StructureMethod::Prompt);
        let Some(schema) = self.schema.as_ref().filter(|_| is_in_prompt) else {
            return messages;
        };
        let instruction = schema.instruction();
        match messages.last_mut() {
            Some(last) if last.role == Role::User => match last.parts.last_mut() {
                Some(MessagePart::Text(text)) => *text = format!("{text}\n\n{instruction}"),
                _ => last.parts.push(MessagePart::Text(instruction)),
            },
            _ => messages.push(Message::text(Role::User, instruction)),
        }
        messages
    }

    /// Converts a valid reply to a completion. `None` when another exchange is necessary.
    async fn accept(&mut self, reply: Reply) -> Result<Option<Completion>, Failure> {
        if reply.refusal.is_some() || reply.finish == FinishReason::ContentFilter {
            let reason = reply.refusal.as_deref().map(short);
            let message = match reason.filter(|reason| !reason.is_empty()) {
                Some(reason) => format!("the model {:?} refused: {reason}", self.model),
                None => format!("the reply of the model {:?} was filtered", self.model),
            };
            return Err(Failure::new(ErrorClass::Refused, message));
        }
        if self.calls_tools(&reply) {
            return Ok(Some(self.tool_call_completion(reply)));
        }
        let Some(schema) = &self.schema else {
            return Ok(Some(self.completion(reply, None)));
        };
        let calls: Vec<&str> = reply.structured().collect();
        let contents = (calls.as_slice(), reply.text.as_str());
        let found = schema.find(contents, &self.request.messages).await?;
        // A complete JSON value may end exactly at the limit.
        let is_cut_off =
            reply.finish == FinishReason::Length && !(found.is_ok() && is_json_only(&reply));
        match found {
            _ if is_cut_off => self.double_limit(&reply).map(|()| None),
            Ok(structured) => Ok(Some(self.completion(reply, Some(structured)))),
            Err(violations) => self.prepare_reask(&reply, &violations).map(|()| None),
        }
    }

    /// Doubles the output limit for the next request, once.
    fn double_limit(&mut self, reply: &Reply) -> Result<(), Failure> {
        let used = reply.usage.map_or(0, |usage| usage.output);
        let used = used.max(tokens(reply.text.len()));
        self.cut_off_tokens = used;
        if self.is_doubled || self.limits.reasks <= self.reask {
            return Err(self.cut_off_failure());
        }
        self.reask += 1;
        self.is_doubled = true;
        // Without a configured limit, the length of the reply is the limit of the provider.
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        let limit = self.output_limit().unwrap_or(used).max(1);
        self.params.max_tokens = Some(limit.saturating_mul(2));
        Ok(())
    }

    /// The failure for a truncated reply. Another attempt would fail in the same way.
    fn cut_off_failure(&self) -> Failure {
        let note = match self.is_doubled {
            true => ", even with twice the limit",
            false => "",
        };
        let message = format!(
            "the reply of the model {:?} was cut off at its output limit after {} tokens{note}; \
             raise max_output_tokens or request a shorter reply",
            self.model, self.cut_off_tokens
        );
        let mut failure = Failure::new(ErrorClass::MalformedOutput, message);
        failure.is_final = true;
        failure
    }

    pub(crate) fn completion(&self, reply: Reply, structured: Option<String>) -> Completion {
        // With the method `tool`, the reply is in the arguments of the call.
        let text = match (&structured, reply.text.is_empty()) {
            (Some(structured), true) => structured.clone(),
            _ => reply.text,
        };
        Completion {
            text,
            structured,
            finish: reply.finish,
            input_tokens: self.usage.input,
            output_tokens: self.usage.output,
            logprobs: reply.logprobs,
            tool_calls: Vec::new(),
            model: reply.model.unwrap_or_else(|| self.model.to_owned()),
            from_cache: self.is_from_cache,
        }
    }

    /// Whether a reply calls tools of the request, rather than the tool of the structure method.
    pub(crate) fn calls_tools(&self, reply: &Reply) -> bool {
        !self.request.tools.is_empty() && !reply.calls.is_empty()
    }

    /// Converts a reply with tool calls. A truncated reply keeps its finish reason: its last arguments may be incomplete and
    /// further calls may be missing.
    pub(crate) fn tool_call_completion(&self, mut reply: Reply) -> Completion {
        let mut calls = std::mem::take(&mut reply.calls);
        for call in &mut calls {
            // The plug-in can reply to it as to a call of an unknown tool.
            if call.name.is_empty() {
                "unknown_tool".clone_into(&mut call.name);
            }
        }
        self.assign_ids(&mut calls);
        let finish = match reply.finish {
            FinishReason::Length => FinishReason::Length,
            _ => FinishReason::ToolCalls,
        };
        Completion { finish, tool_calls: calls, ..self.completion(reply, None) }
    }

    /// Makes the ids of calls unique, because results refer to them. The first call with an id of the provider keeps it; a
    /// call without an id, or with a repeated one, gets the next free number of the conversation. Equal replies in equal
    /// conversations get equal ids.
    fn assign_ids(&self, calls: &mut [ToolCall]) {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        let earlier = parts.filter_map(|part| match part {
            MessagePart::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        });
        let earlier: Vec<String> = earlier.collect();
        let n_before = earlier.len();
        // An id that starts with the mark of a signature has no number yet.
        let is_number_absent = |id: &str| id.is_empty() || id.starts_with(protocol::SIGNATURE);
        let mut taken = HashSet::new();
        let keeps: Vec<bool> = calls
            .iter()
            .map(|call| !is_number_absent(&call.id) && taken.insert(call.id.clone()))
            .collect();
        taken.extend(earlier);
        let mut number = n_before;
        let calls = calls.iter_mut().zip(keeps).enumerate();
        for (at, (call, _)) in calls.filter(|(_, (_, keeps))| !keeps) {
            let signature = match call.id.starts_with(protocol::SIGNATURE) {
                true => std::mem::take(&mut call.id),
                false => String::new(),
            };
            // Numbers only grow, so that assigned ids are unique.
            number = number.max(n_before + at) + 1;
            while taken.contains(&format!("call_{number}{signature}")) {
                number += 1;
            }
            call.id = format!("call_{number}{signature}");
        }
    }

    /// Prepares the next request after a malformed reply.
    fn prepare_reask(&mut self, reply: &Reply, violations: &[String]) -> Result<(), Failure> {
        if self.limits.reasks <= self.reask {
            let violations = short(&violations.join("; "));
            let message = format!(
                "the replies of the model {:?} did not match the schema in {} attempts: {violations}",
                self.model,
                self.reask + 1
            );
            return Err(Failure::new(ErrorClass::MalformedOutput, message));
        }
        self.reask += 1;
        if self.reask == 2 && 1 < self.methods.len() {
            self.methods.remove(0);
        }
        let bad = reply.structured().next().unwrap_or(&reply.text);
        let bad = match bad.trim() {
            "" => "(empty)",
            bad => &bad[..bad.floor_char_boundary(MAX_QUOTED_BYTES)],
        };
        self.messages.push(Message::text(Role::Assistant, bad));
        let list = violations.iter().map(|violation| format!("- {violation}\n"));
        let list: String = list.collect();
        let message = format!(
            "This reply cannot be used:\n{list}Reply again, with one JSON value that matches the schema and nothing else."
        );
        self.messages.push(Message::text(Role::User, message));
        Ok(())
    }

    /// Adapts the request to the error of the provider, or fails.
    fn adapt(&mut self, rejected: Rejection) -> Result<(), Failure> {
        let is_adapted = match rejected.hint {
            Some(Hint::StepDown) if 1 < self.methods.len() => {
                self.methods.remove(0);
                true
            }
            Some(Hint::Quirk(quirk)) => {
                let is_removable = match quirk {
                    Quirk::OtherLimitName => self.params.max_tokens.is_some(),
                    Quirk::NoSeed => self.params.seed.is_some() && !self.params.is_seed_of_user,
                    Quirk::NoLogprobs => self.params.top_logprobs.is_some(),
                };
                is_removable && self.quirks.insert(quirk)
            }
            _ => false,
        };
        let is_request_error = matches!(
            rejected.failure.class,
            ErrorClass::ModelConfigInvalid | ErrorClass::InvalidInput | ErrorClass::ContextTooLong
        );
        match is_adapted {
            true => Ok(()),
            // The provider rejects the doubled limit, not the settings of the user.
            false if self.is_doubled && is_request_error => Err(self.cut_off_failure()),
            false => Err(rejected.failure),
        }
    }

    fn store_capabilities(&self) {
        let now = self.shared.clock.now();
        let capabilities = &self.shared.capabilities;
        let structure = match self.method() {
            // Without a schema no method was used, and with tools fewer methods are available.
            StructureMethod::None => capabilities.get(&self.endpoint, self.model, now).structure,
            _ if !self.request.tools.is_empty() => {
                capabilities.get(&self.endpoint, self.model, now).structure
            }
            method => Some(method),
        };
        let quirks = self.quirks.clone();
        capabilities.put(&self.endpoint, self.model, Capabilities { structure, quirks }, now);
    }
}

/// The methods to try, best first, starting with the one that worked before.
fn methods(
    endpoint: &Endpoint,
    schema: Option<&ResponseSchema>,
    known: Option<StructureMethod>,
    has_tools: bool,
) -> Vec<StructureMethod> {
    let Some(schema) = schema else {
        return vec![StructureMethod::None];
    };
    if !schema.is_object() {
        return vec![StructureMethod::Prompt];
    }
    let all = protocol::methods(endpoint, has_tools).iter().copied();
    all.filter(|method| known.is_none_or(|known| known <= *method)).collect()
}

/// Whether a reply consists of one JSON value.
pub(crate) fn is_json_only(reply: &Reply) -> bool {
    reply.structured().next().is_some() || extract::entire_value(&reply.text).is_some()
}

pub(crate) fn read(endpoint: &Endpoint, body: Value) -> Result<(Reply, ReplyMetadata), String> {
    let mut reply = protocol::reply(endpoint, body)?;
    // Redacted again, because a secret may span several parts of the text.
    if let Cow::Owned(clean) = Secrets::in_replies(endpoint).removed(&reply.text) {
        reply.text = clean;
        reply.logprobs.clear();
    }
    let of_calls: usize = reply.calls.iter().map(ToolCall::size).sum();
    let metadata = ReplyMetadata {
        model: reply.model.clone(),
        finish: reply.finish,
        usage: reply.usage,
        n_bytes: reply.text.len() + of_calls,
        text: Some(display_text(&reply)),
    };
    Ok((reply, metadata))
}

/// The reply for records: the text, the structured reply, or the tool calls.
fn display_text(reply: &Reply) -> String {
    match reply.calls.as_slice() {
        [] => reply.text.clone(),
        [call] if call.name == protocol::REPLY => call.arguments.clone(),
        calls => json!({ "content": reply.text, "tool_calls": calls }).to_string(),
    }
}
