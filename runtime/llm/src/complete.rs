//! A completion: the structure method that works, the check of the reply, and re-asks.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use perpend_worker_protocol::host_call::{
    Completion, CompletionRequest, FinishReason, Message, MessagePart, Role, ToolCall,
};
use serde_json::{Value, json};

use crate::conversation;
use crate::endpoint::{CallLimits, Endpoint, ModelSettings};
use crate::extract;
use crate::failure::{ErrorClass, Failure, short};
use crate::learnt::{Known, Quirk};
use crate::llm::{Exchange, Facts, Llm, Shared, clean, tokens};
use crate::observe::{CallObserver, Estimate, StructureMethod, Usage};
use crate::params::Params;
use crate::protocol::{self, Ask, Reply, Wire};
use crate::redact::Secrets;
use crate::reject::{Hint, Rejected};
use crate::wanted::Wanted;

/// Maximum length of a malformed reply in a re-ask, in bytes.
const MAX_SHOWN: usize = 16 << 10;

impl Llm {
    /// Asks a model. With a response schema, the completion's `structured` matches it.
    ///
    /// Steps down structure methods and re-asks after malformed replies, without delay. All other retries are the caller's.
    ///
    /// # Errors
    /// With the class that tells whether another attempt makes sense.
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
        .map_err(|failure| clean(endpoint, failure))
    }
}

pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    endpoint: Arc<Endpoint>,
    model: &'a str,
    limits: &'a CallLimits,
    pub(crate) observer: Arc<dyn CallObserver>,
    params: Params,
    pub(crate) wanted: Option<Wanted>,
    /// The methods left, the one in use first.
    methods: Vec<StructureMethod>,
    quirks: BTreeSet<Quirk>,
    pub(crate) request: &'a CompletionRequest,
    messages: Vec<Message>,
    /// Exchanges so far.
    number: u32,
    /// Usable answers so far, those of an earlier attempt included.
    n_answered: u32,
    reask: u32,
    /// The output limit is twice what was configured, because a reply was cut off.
    is_doubled: bool,
    /// Output tokens of that reply.
    cut_off_after: u64,
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
        let wanted = request.response_schema.as_deref();
        let wanted = wanted.map(|schema| Wanted::new(schema, &shared.check));
        let wanted = wanted.transpose()?;
        let known = shared.learnt.get(endpoint, &choice.model, shared.clock.now());
        Ok(Self {
            shared,
            endpoint: Arc::new(endpoint.clone()),
            model: &choice.model,
            limits,
            observer,
            params: Params::new(choice, limits, request)?,
            methods: methods(endpoint, wanted.as_ref(), known.structure, !request.tools.is_empty()),
            wanted,
            quirks: known.quirks,
            request,
            messages: request.messages.clone(),
            number: 0,
            n_answered: 0,
            reask: 0,
            is_doubled: false,
            cut_off_after: 0,
            usage: Usage::default(),
            is_from_cache: false,
        })
    }

    async fn run(mut self) -> Result<Completion, Failure> {
        if let Some(completion) = self.stored().await? {
            return Ok(completion);
        }
        loop {
            match self.ask().await {
                Ok(reply) => {
                    if let Some(completion) = self.take(reply).await? {
                        self.remember();
                        return Ok(completion);
                    }
                }
                Err(rejected) => self.give_way(rejected)?,
            }
        }
    }

    /// One exchange.
    async fn ask(&mut self) -> Result<Reply, Rejected> {
        let (messages, n_bytes) = self.conversation();
        if let Some(reply) = self.kept(&messages, n_bytes) {
            return Ok(reply);
        }
        let wire = self.wire(&messages, n_bytes).map_err(|mut failure| {
            failure.is_unsent = true;
            failure
        })?;
        self.number += 1;
        let exchange = self.exchange(&messages, n_bytes);
        let answered = self.shared.exchange(exchange, wire, read).await;
        let (reply, usage) = answered?;
        self.n_answered += 1;
        self.usage += usage;
        self.is_from_cache = false;
        Ok(reply)
    }

    /// The answer that an earlier attempt got here. Its method is the one that goes on being used.
    fn kept(&mut self, messages: &Arc<[Message]>, n_bytes: usize) -> Option<Reply> {
        let answer = self.observer.recorded_answer(self.n_answered)?;
        let known = self.methods.iter().position(|method| *method == answer.method);
        let (reply, usage) = Shared::kept(&self.exchange(messages, n_bytes), &answer, read)?;
        self.methods.drain(..known.unwrap_or_default());
        self.n_answered += 1;
        self.usage += usage;
        self.is_from_cache = answer.is_from_cache;
        Some(reply)
    }

    /// What is sent, and its bytes.
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
                    format!("the prompt has about {n_tokens} tokens, and {limit} are allowed");
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
            params: self.params.shown(),
        }
    }

    fn wire(&self, messages: &[Message], n_bytes: usize) -> Result<Wire, Failure> {
        self.check_length(n_bytes)?;
        let ask = Ask {
            model: self.model,
            messages,
            structure: self.method(),
            wanted: self.wanted.as_ref(),
            params: &self.params,
            quirks: &self.quirks,
            tools: &self.request.tools,
            tool_choice: &self.request.tool_choice,
            media: &self.request.media,
        };
        protocol::complete(&self.endpoint, &ask)
    }

    fn method(&self) -> StructureMethod {
        self.methods.first().copied().unwrap_or(StructureMethod::None)
    }

    fn output_limit(&self) -> Option<u32> {
        let required = protocol::required_limit(&self.endpoint);
        self.params.max_tokens.or(required)
    }

    /// The conversation, with the schema in its last message where nothing else carries it.
    fn sent_messages(&self) -> Vec<Message> {
        let mut messages = self.messages.clone();
        let is_in_prompt =
            matches!(self.method(), StructureMethod::JsonMode | StructureMethod::Prompt);
        let Some(wanted) = self.wanted.as_ref().filter(|_| is_in_prompt) else {
            return messages;
        };
        let instruction = wanted.instruction();
        match messages.last_mut() {
            Some(last) if last.role == Role::User => match last.parts.last_mut() {
                Some(MessagePart::Text(text)) => *text = format!("{text}\n\n{instruction}"),
                _ => last.parts.push(MessagePart::Text(instruction)),
            },
            _ => messages.push(Message::text(Role::User, instruction)),
        }
        messages
    }

    /// The reply as a completion, or nothing when it has to be asked for again.
    async fn take(&mut self, reply: Reply) -> Result<Option<Completion>, Failure> {
        if reply.refusal.is_some() || reply.finish == FinishReason::ContentFilter {
            let why = reply.refusal.as_deref().map(short);
            let message = match why.filter(|why| !why.is_empty()) {
                Some(why) => format!("the model {:?} refused: {why}", self.model),
                None => format!("the reply of the model {:?} was filtered", self.model),
            };
            return Err(Failure::new(ErrorClass::Refused, message));
        }
        if self.is_calling(&reply) {
            return Ok(Some(self.calling(reply)));
        }
        let Some(wanted) = &self.wanted else {
            return Ok(Some(self.completion(reply, None)));
        };
        let calls: Vec<&str> = reply.structured().collect();
        let said = (calls.as_slice(), reply.text.as_str());
        let found = wanted.find(said, &self.request.messages).await?;
        // The limit may have been reached with the last brace.
        let is_cut_off =
            reply.finish == FinishReason::Length && !(found.is_ok() && is_whole(&reply));
        match found {
            _ if is_cut_off => self.ask_longer(&reply).map(|()| None),
            Ok(structured) => Ok(Some(self.completion(reply, Some(structured)))),
            Err(violations) => self.ask_again(&reply, &violations).map(|()| None),
        }
    }

    /// Prepares the same request with twice the output limit, once.
    fn ask_longer(&mut self, reply: &Reply) -> Result<(), Failure> {
        let used = reply.usage.map_or(0, |usage| usage.output);
        let used = used.max(tokens(reply.text.len()));
        self.cut_off_after = used;
        if self.is_doubled || self.limits.reasks <= self.reask {
            return Err(self.cut_off());
        }
        self.reask += 1;
        self.is_doubled = true;
        // Without a limit of ours, what the reply has is that of the provider.
        let used = u32::try_from(used).unwrap_or(u32::MAX);
        let limit = self.output_limit().unwrap_or(used).max(1);
        self.params.max_tokens = Some(limit.saturating_mul(2));
        Ok(())
    }

    /// The failure of a reply that was cut off. Another attempt would end in the same way.
    fn cut_off(&self) -> Failure {
        let asked = match self.is_doubled {
            true => ", also with twice the limit",
            false => "",
        };
        let message = format!(
            "the reply of the model {:?} was cut off at its output limit after {} tokens{asked}; \
             raise max_output_tokens or ask for a shorter reply",
            self.model, self.cut_off_after
        );
        let mut failure = Failure::new(ErrorClass::MalformedOutput, message);
        failure.is_final = true;
        failure
    }

    pub(crate) fn completion(&self, reply: Reply, structured: Option<String>) -> Completion {
        // The text of a tool call is in its arguments.
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

    /// Whether a reply calls tools of the request, and not the one that a provider's schema is sent as.
    pub(crate) fn is_calling(&self, reply: &Reply) -> bool {
        !self.request.tools.is_empty() && !reply.calls.is_empty()
    }

    /// A reply that calls tools of the request. A reply that was cut at the output limit stays one: the arguments of its last
    /// call may be cut, or calls after it be lost.
    pub(crate) fn calling(&self, mut reply: Reply) -> Completion {
        let mut calls = std::mem::take(&mut reply.calls);
        for call in &mut calls {
            // It can be answered as any call of a tool that is not there.
            if call.name.is_empty() {
                "unknown_tool".clone_into(&mut call.name);
            }
        }
        self.identify(&mut calls);
        let finish = match reply.finish {
            FinishReason::Length => FinishReason::Length,
            _ => FinishReason::ToolCalls,
        };
        Completion { finish, tool_calls: calls, ..self.completion(reply, None) }
    }

    /// Gives each call an id that no other call of the reply has: results name it. The first call with an id of the
    /// provider keeps it; one without, or with that of a call before it, gets the next free number of the conversation.
    /// Equal replies in equal conversations get equal ids.
    fn identify(&self, calls: &mut [ToolCall]) {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        let earlier = parts.filter_map(|part| match part {
            MessagePart::ToolCall(call) => Some(call.id.clone()),
            _ => None,
        });
        let earlier: Vec<String> = earlier.collect();
        let n_before = earlier.len();
        // An id that begins with the mark of a signature lacks its number.
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
            // Numbers only grow: ids that are given here differ from each other.
            number = number.max(n_before + at) + 1;
            while taken.contains(&format!("call_{number}{signature}")) {
                number += 1;
            }
            call.id = format!("call_{number}{signature}");
        }
    }

    /// Prepares the next request after a malformed reply.
    fn ask_again(&mut self, reply: &Reply, violations: &[String]) -> Result<(), Failure> {
        if self.limits.reasks <= self.reask {
            let violations = short(&violations.join("; "));
            let message = format!(
                "the replies of the model {:?} did not match the schema in {} tries: {violations}",
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
            bad => &bad[..bad.floor_char_boundary(MAX_SHOWN)],
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

    /// Changes the request as the provider hints, or fails.
    fn give_way(&mut self, rejected: Rejected) -> Result<(), Failure> {
        let may_pass = match rejected.hint {
            Some(Hint::StepDown) if 1 < self.methods.len() => {
                self.methods.remove(0);
                true
            }
            Some(Hint::Quirk(quirk)) => {
                let is_ours = match quirk {
                    Quirk::OtherLimitName => self.params.max_tokens.is_some(),
                    Quirk::NoSeed => self.params.seed.is_some() && !self.params.is_seed_of_user,
                    Quirk::NoLogprobs => self.params.top_logprobs.is_some(),
                };
                is_ours && self.quirks.insert(quirk)
            }
            _ => false,
        };
        let is_of_request = matches!(
            rejected.failure.class,
            ErrorClass::ModelConfigInvalid | ErrorClass::InvalidInput | ErrorClass::ContextTooLong
        );
        match may_pass {
            true => Ok(()),
            // The provider may not allow twice the limit: the settings of the user are not at fault.
            false if self.is_doubled && is_of_request => Err(self.cut_off()),
            false => Err(rejected.failure),
        }
    }

    fn remember(&self) {
        let now = self.shared.clock.now();
        let learnt = &self.shared.learnt;
        let structure = match self.method() {
            // Nothing was learnt about methods: with tools there are fewer of them.
            StructureMethod::None => learnt.get(&self.endpoint, self.model, now).structure,
            _ if !self.request.tools.is_empty() => {
                learnt.get(&self.endpoint, self.model, now).structure
            }
            method => Some(method),
        };
        let quirks = self.quirks.clone();
        learnt.put(&self.endpoint, self.model, Known { structure, quirks }, now);
    }
}

/// The methods to try, in order: from the one that worked before.
fn methods(
    endpoint: &Endpoint,
    wanted: Option<&Wanted>,
    known: Option<StructureMethod>,
    has_tools: bool,
) -> Vec<StructureMethod> {
    let Some(wanted) = wanted else {
        return vec![StructureMethod::None];
    };
    if !wanted.is_object() {
        return vec![StructureMethod::Prompt];
    }
    let all = protocol::methods(endpoint, has_tools).iter().copied();
    all.filter(|method| known.is_none_or(|known| known <= *method)).collect()
}

/// Whether a reply has nothing besides one JSON value.
pub(crate) fn is_whole(reply: &Reply) -> bool {
    reply.structured().next().is_some() || extract::whole(&reply.text).is_some()
}

pub(crate) fn read(endpoint: &Endpoint, body: Value) -> Result<(Reply, Facts), String> {
    let mut reply = protocol::reply(endpoint, body)?;
    // Parts of a text were cleaned alone.
    if let Cow::Owned(clean) = Secrets::in_replies(endpoint).removed(&reply.text) {
        reply.text = clean;
        reply.logprobs.clear();
    }
    let of_calls: usize = reply.calls.iter().map(ToolCall::size).sum();
    let facts = Facts {
        model: reply.model.clone(),
        finish: reply.finish,
        usage: reply.usage,
        n_bytes: reply.text.len() + of_calls,
        text: Some(shown(&reply)),
    };
    Ok((reply, facts))
}

/// A reply for people: the text, the structured reply, or the calls of tools.
fn shown(reply: &Reply) -> String {
    match reply.calls.as_slice() {
        [] => reply.text.clone(),
        [call] if call.name == protocol::REPLY => call.arguments.clone(),
        calls => json!({ "content": reply.text, "tool_calls": calls }).to_string(),
    }
}
