//! A model with scripted replies that records its requests.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use perpend_sandbox::Port;
use perpend_worker_protocol::host_call::{
    Completion, CompletionRequest, FinishReason, ModelError, TokenAlternative, TokenLogprob,
};
use perpend_worker_protocol::{HostReply, HostRequest};

type Answer = dyn Fn(&CompletionRequest) -> Result<Completion, ModelError> + Send + Sync;
type Other = dyn Fn(&HostRequest) -> Option<HostReply> + Send + Sync;

/// Replaces every model of the host, and optionally the reader of traces.
pub struct Model {
    answer: Box<Answer>,
    other: Box<Other>,
    requests: Mutex<Vec<HostRequest>>,
}

impl Model {
    /// Replies to each completion with the result of `answer`.
    #[must_use]
    pub fn new(
        answer: impl Fn(&CompletionRequest) -> Result<Completion, ModelError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Self::with_host(answer, |_| None)
    }

    /// Replies to each completion with `answer` and to other requests with `other`; requests for which `other` returns
    /// `None` are refused.
    #[must_use]
    pub fn with_host(
        answer: impl Fn(&CompletionRequest) -> Result<Completion, ModelError> + Send + Sync + 'static,
        other: impl Fn(&HostRequest) -> Option<HostReply> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            answer: Box::new(answer),
            other: Box::new(other),
            requests: Mutex::default(),
        })
    }

    /// Replies to each completion with the same text.
    #[must_use]
    pub fn saying(text: &str) -> Arc<Self> {
        let text = text.to_owned();
        Self::new(move |request| Ok(Self::completion(request, &text)))
    }

    /// Refuses each completion with the same error.
    #[must_use]
    pub fn failing(error: ModelError) -> Arc<Self> {
        Self::new(move |_| Err(error.clone()))
    }

    /// The answer `text` to `request`: structured where a schema was given.
    #[must_use]
    pub fn completion(request: &CompletionRequest, text: &str) -> Completion {
        Completion {
            text: text.to_owned(),
            structured: request.response_schema.as_ref().map(|_| text.to_owned()),
            finish: FinishReason::Stop,
            input_tokens: 10,
            output_tokens: 5,
            logprobs: Vec::new(),
            tool_calls: Vec::new(),
            model: "double".to_owned(),
            from_cache: false,
        }
    }

    /// The reply `{"é":1,"verdict":"good"}`, with its tokens if the request sets log-probabilities: good at 60%, bad at 20%.
    #[must_use]
    pub fn verdict(request: &CompletionRequest) -> Completion {
        let token = |text: &str, others: &[(&str, f32)]| TokenLogprob {
            token: text.to_owned(),
            logprob: others.first().map_or(0.0, |(_, probability)| probability.ln()),
            alternatives: others
                .iter()
                .map(|(other, probability)| TokenAlternative {
                    token: (*other).to_owned(),
                    logprob: probability.ln(),
                })
                .collect(),
        };
        let tokens = [
            token("{\"é\":1,\"verdict\":\"", &[]),
            token("good", &[("good", 0.6), ("bad", 0.2), ("well", 0.1)]),
            token("\"}", &[]),
        ];
        let text: String = tokens.iter().map(|token| token.token.as_str()).collect();
        let logprobs = request.top_logprobs.map(|_| tokens.to_vec());
        Completion { logprobs: logprobs.unwrap_or_default(), ..Self::completion(request, &text) }
    }

    /// The requests so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<HostRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The completions requested so far, in order.
    #[must_use]
    pub fn completions(&self) -> Vec<CompletionRequest> {
        let requests = self.requests().into_iter();
        let completions = requests.filter_map(|request| match request {
            HostRequest::Complete(requests) => Some(requests),
            _ => None,
        });
        completions.flatten().collect()
    }
}

impl Port for Model {
    fn call(&self, request: HostRequest) -> BoxFuture<'static, HostReply> {
        let reply = match &request {
            HostRequest::Complete(requests) => {
                HostReply::Complete(requests.iter().map(|request| (self.answer)(request)).collect())
            }
            other => (self.other)(other).unwrap_or_else(|| other.not_granted()),
        };
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        Box::pin(std::future::ready(reply))
    }
}
