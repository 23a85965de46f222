//! Uses a stored reply to an equal request in place of a call. It is parsed and validated like a new one.

use std::time::Duration;

use perpend_worker_protocol::host_call::{Completion, FinishReason};

use crate::complete::{Call, is_json_only, read};
use crate::failure::Failure;
use crate::llm::{Exchange, Shared, usage};
use crate::observer::ProviderCall;

impl Call<'_> {
    /// The completion from a stored reply. `None` when there is none, or when it cannot be parsed or does not match the
    /// schema.
    pub(crate) async fn cached_completion(&mut self) -> Result<Option<Completion>, Failure> {
        let Some(answer) = self.observer.cached_reply().await else {
            return Ok(None);
        };
        let (messages, n_bytes) = self.conversation();
        if self.check_length(n_bytes).is_err() {
            return Ok(None);
        }
        let exchange = Exchange { method: answer.method, ..self.exchange(&messages, n_bytes) };
        let Some((reply, metadata)) = Shared::parse_again(&exchange, &answer, read) else {
            return Ok(None);
        };
        if reply.refusal.is_some() || reply.finish == FinishReason::ContentFilter {
            return Ok(None);
        }
        let structured = match &self.schema {
            None => None,
            Some(_) if self.calls_tools(&reply) => None,
            Some(schema) => {
                let calls: Vec<&str> = reply.structured().collect();
                let contents = (calls.as_slice(), reply.text.as_str());
                let found = schema.find(contents, &self.request.messages).await?;
                match found.ok() {
                    Some(found) if reply.finish != FinishReason::Length || is_json_only(&reply) => {
                        Some(found)
                    }
                    _ => return Ok(None),
                }
            }
        };
        let usage = usage(&metadata);
        let call = ProviderCall {
            requested_model: exchange.estimate.model,
            response_model: metadata.model,
            method: answer.method,
            request_digest: String::new(),
            started_at: self.shared.clock.now(),
            latency: Duration::ZERO,
            number: 0,
            reask: 0,
            outcome: Ok(metadata.finish),
            usage,
            reply_head: String::new(),
            messages,
            params: exchange.params,
            reply: metadata.text,
        };
        self.observer.cached_reply_used(call, answer).await?;
        self.usage += usage;
        self.is_from_cache = true;
        Ok(Some(match self.calls_tools(&reply) {
            true => self.tool_call_completion(reply),
            false => self.completion(reply, structured),
        }))
    }
}
