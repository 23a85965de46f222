//! A reply that was stored for an equal request, used in place of a call: read and checked as a fresh one.

use std::time::Duration;

use perpend_worker_protocol::host_call::{Completion, FinishReason};

use crate::complete::{Call, is_whole, read};
use crate::failure::Failure;
use crate::llm::{Exchange, Shared, usage};
use crate::observe::ProviderCall;

impl Call<'_> {
    /// The completion from a stored reply. One that cannot be read any more, or does not fit, is asked for anew.
    pub(crate) async fn stored(&mut self) -> Result<Option<Completion>, Failure> {
        let Some(answer) = self.observer.cached_reply().await else {
            return Ok(None);
        };
        let (messages, n_bytes) = self.conversation();
        if self.check_length(n_bytes).is_err() {
            return Ok(None);
        }
        let exchange = Exchange { method: answer.method, ..self.exchange(&messages, n_bytes) };
        let Some((reply, facts)) = Shared::reread(&exchange, &answer, read) else {
            return Ok(None);
        };
        if reply.refusal.is_some() || reply.finish == FinishReason::ContentFilter {
            return Ok(None);
        }
        let structured = match &self.wanted {
            None => None,
            Some(_) if self.is_calling(&reply) => None,
            Some(wanted) => {
                let calls: Vec<&str> = reply.structured().collect();
                let said = (calls.as_slice(), reply.text.as_str());
                let found = wanted.find(said, &self.request.messages).await?;
                match found.ok() {
                    Some(found) if reply.finish != FinishReason::Length || is_whole(&reply) => {
                        Some(found)
                    }
                    _ => return Ok(None),
                }
            }
        };
        let usage = usage(&facts);
        let call = ProviderCall {
            requested_model: exchange.estimate.model,
            response_model: facts.model,
            method: answer.method,
            request_digest: String::new(),
            started_at: self.shared.clock.now(),
            latency: Duration::ZERO,
            number: 0,
            reask: 0,
            outcome: Ok(facts.finish),
            usage,
            reply_head: String::new(),
            messages,
            params: exchange.params,
            reply: facts.text,
        };
        self.observer.cached_reply_used(call, answer).await?;
        self.usage += usage;
        self.is_from_cache = true;
        Ok(Some(match self.is_calling(&reply) {
            true => self.calling(reply),
            false => self.completion(reply, structured),
        }))
    }
}
