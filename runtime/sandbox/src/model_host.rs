//! Host functions of the interface `model`.

use perpend_domain::plugin::FailureClass;
use perpend_worker_protocol::host_call::{self as port, CompletionRequest, ModelError};
use perpend_worker_protocol::{HostReply, HostRequest};
use wasmtime::component::Resource;
use wasmtime::{Result, bail};

use crate::bindings::{self, model};
use crate::handles::{HeldCompletion, HeldRequest, MAX_HELD, MAX_HELD_BYTES};
use crate::state::State;

const MAX_EMBED_TEXTS: usize = 256;

type Request = Resource<HeldRequest>;
type Completion = Resource<HeldCompletion>;
type Answer = Result<Completion, model::ModelError>;

fn wrong_reply() -> ModelError {
    ModelError::Unavailable("the server sent a reply of another kind".into())
}

fn too_large() -> ModelError {
    let message = format!(
        "the requests and completions of this call take more than {} MiB",
        MAX_HELD_BYTES >> 20
    );
    ModelError::InvalidRequest(message)
}

impl State {
    fn set(
        &mut self,
        request: &Request,
        n_bytes: usize,
        set: impl FnOnce(&mut CompletionRequest),
    ) -> Result<()> {
        let request = self.table.get_mut(request)?;
        self.handles.set(request, n_bytes, set);
        Ok(())
    }

    fn take_request(&mut self, request: Request) -> Result<HeldRequest> {
        let request = self.table.delete(request)?;
        self.handles.release_request(&request);
        Ok(request)
    }

    fn completion(&self, completion: &Completion) -> Result<&port::Completion> {
        Ok(&self.table.get(completion)?.completion)
    }

    /// Creates the handle of a completion.
    fn add_completion(
        &mut self,
        completion: Result<port::Completion, ModelError>,
    ) -> Result<Answer> {
        let completion = completion.and_then(|completion| {
            let completion = self.handles.add_completion(completion);
            completion.ok_or_else(|| {
                let message = format!(
                    "cannot keep the completion: a call has at most {MAX_HELD} requests and completions of {} MiB",
                    MAX_HELD_BYTES >> 20
                );
                ModelError::InvalidResponse(message)
            })
        });
        match completion {
            Ok(completion) => {
                // The class when the guest returns `upstream` because it cannot use the completion.
                self.last_upstream.get_or_insert(FailureClass::MalformedOutput);
                Ok(Ok(self.table.push(completion)?))
            }
            Err(error) => {
                self.record_model_error(&error);
                Ok(Err(bindings::model_error(error)))
            }
        }
    }

    async fn complete_many(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>> {
        let n = requests.len();
        let mut requested = Vec::with_capacity(n);
        let mut too_large_flags = Vec::with_capacity(n);
        for request in requests {
            let request = self.take_request(request)?;
            too_large_flags.push(request.is_too_large);
            if !request.is_too_large {
                requested.push(request.request);
            }
        }
        let n_requested = requested.len();
        let answers: Vec<_> = if n_requested == 0 {
            Vec::new()
        } else if let Err(error) = self.allowance.count_model_calls(n_requested) {
            (0..n_requested).map(|_| Err(error.clone())).collect()
        } else {
            match self.host_call(HostRequest::Complete(requested)).await {
                HostReply::Complete(answers) if answers.len() == n_requested => answers,
                _ => (0..n_requested).map(|_| Err(wrong_reply())).collect(),
            }
        };
        let mut answers = answers.into_iter();
        let mut results = Vec::with_capacity(n);
        for is_too_large in too_large_flags {
            let answer = match is_too_large {
                true => Err(too_large()),
                false => answers.next().unwrap_or_else(|| Err(wrong_reply())),
            };
            results.push(self.add_completion(answer)?);
        }
        Ok(results)
    }
}

impl model::HostRequest for State {
    async fn new(&mut self, messages: Vec<model::Message>) -> Result<Request> {
        let messages = messages.into_iter().map(bindings::message).collect();
        match self.handles.add_request(CompletionRequest::new(messages)) {
            Some(request) => Ok(self.table.push(request)?),
            None => bail!(
                "more than {MAX_HELD} requests and completions at a time: drop those that are no longer needed"
            ),
        }
    }

    async fn set_slot(&mut self, own: Request, name: String) -> Result<()> {
        self.set(&own, name.len(), |request| request.slot = Some(name))
    }

    async fn set_response_schema(&mut self, own: Request, schema: String) -> Result<()> {
        let n_bytes = schema.len();
        self.set(&own, n_bytes, |request| {
            request.response_schema = Some(schema);
        })
    }

    async fn set_temperature(&mut self, own: Request, temperature: f32) -> Result<()> {
        self.set(&own, 0, |request| request.temperature = Some(temperature))
    }

    async fn set_top_p(&mut self, own: Request, top_p: f32) -> Result<()> {
        self.set(&own, 0, |request| request.top_p = Some(top_p))
    }

    async fn set_max_output_tokens(&mut self, own: Request, limit: u32) -> Result<()> {
        self.set(&own, 0, |request| request.max_output_tokens = Some(limit))
    }

    async fn set_seed(&mut self, own: Request, seed: u64) -> Result<()> {
        self.set(&own, 0, |request| request.seed = Some(seed))
    }

    async fn set_stop(&mut self, own: Request, texts: Vec<String>) -> Result<()> {
        let n_bytes = texts.iter().map(|text| 32 + text.len()).sum();
        self.set(&own, n_bytes, |request| request.stop = texts)
    }

    async fn set_top_logprobs(&mut self, own: Request, alternatives: u8) -> Result<()> {
        self.set(&own, 0, |request| request.top_logprobs = Some(alternatives))
    }

    async fn set_cache(&mut self, own: Request, mode: model::CacheMode) -> Result<()> {
        self.set(&own, 0, |request| request.cache = bindings::cache_mode(mode))
    }

    async fn set_extra(&mut self, own: Request, settings: String) -> Result<()> {
        self.set(&own, settings.len(), |request| {
            request.extra = Some(settings);
        })
    }

    async fn set_tools(
        &mut self,
        own: Request,
        tools: Vec<model::Tool>,
        choice: model::ToolChoice,
    ) -> Result<()> {
        let tools: Vec<_> = tools.into_iter().map(bindings::tool).collect();
        let choice = bindings::tool_choice(choice);
        let size = |tool: &port::Tool| {
            128 + tool.name.len() + tool.description.len() + tool.parameters.len()
        };
        let choice_bytes = match &choice {
            port::ToolChoice::Named(name) => name.len(),
            _ => 0,
        };
        let n_bytes = choice_bytes + tools.iter().map(size).sum::<usize>();
        self.set(&own, n_bytes, |request| {
            request.tools = tools;
            request.tool_choice = choice;
        })
    }

    async fn drop(&mut self, own: Request) -> Result<()> {
        self.take_request(own).map(drop)
    }
}

impl model::HostCompletion for State {
    async fn text(&mut self, own: Completion) -> Result<String> {
        Ok(self.completion(&own)?.text.clone())
    }

    async fn structured(&mut self, own: Completion) -> Result<Option<String>> {
        Ok(self.completion(&own)?.structured.clone())
    }

    async fn finish(&mut self, own: Completion) -> Result<model::FinishReason> {
        Ok(bindings::finish(self.completion(&own)?.finish))
    }

    async fn usage(&mut self, own: Completion) -> Result<model::TokenUsage> {
        let completion = self.completion(&own)?;
        Ok(model::TokenUsage {
            input_tokens: completion.input_tokens,
            output_tokens: completion.output_tokens,
        })
    }

    async fn logprobs(&mut self, own: Completion) -> Result<Vec<model::TokenLogprob>> {
        let logprobs = self.completion(&own)?.logprobs.iter().cloned();
        Ok(logprobs.map(bindings::logprob).collect())
    }

    async fn tool_calls(&mut self, own: Completion) -> Result<Vec<model::ToolCall>> {
        let calls = self.completion(&own)?.tool_calls.iter().cloned();
        Ok(calls.map(bindings::tool_call).collect())
    }

    async fn model(&mut self, own: Completion) -> Result<String> {
        Ok(self.completion(&own)?.model.clone())
    }

    async fn from_cache(&mut self, own: Completion) -> Result<bool> {
        Ok(self.completion(&own)?.from_cache)
    }

    async fn probabilities(
        &mut self,
        own: Completion,
        choices: Vec<String>,
        place: model::Place,
    ) -> Result<Option<model::Distribution>> {
        let completion = self.completion(&own)?;
        let place = match &place {
            model::Place::Whole => perpend_choices::Place::Whole,
            model::Place::Member(name) => perpend_choices::Place::Member(name),
            model::Place::Offset(byte) => {
                perpend_choices::Place::Offset { text: &completion.text, byte: *byte }
            }
        };
        let tokens = completion.logprobs.iter();
        let tokens = tokens.map(|token| perpend_choices::Token {
            token: &token.token,
            logprob: token.logprob,
            alternatives: token
                .alternatives
                .iter()
                .map(|other| (other.token.as_str(), other.logprob))
                .collect(),
        });
        let tokens: Vec<_> = tokens.collect();
        let distribution = perpend_choices::Distribution::of(&tokens, &choices, place);
        Ok(distribution.map(|distribution| {
            let margin = distribution.margin();
            let shares = choices.into_iter().zip(distribution.shares);
            model::Distribution {
                shares: shares
                    .map(|(choice, probability)| model::Share { choice, probability })
                    .collect(),
                margin,
                coverage: distribution.coverage,
            }
        }))
    }

    async fn drop(&mut self, own: Completion) -> Result<()> {
        let completion = self.table.delete(own)?;
        self.handles.release_completion(&completion);
        Ok(())
    }
}

impl model::Host for State {
    async fn complete(&mut self, request: Request) -> Result<Answer> {
        let mut answers = self.complete_many(vec![request]).await?;
        Ok(answers.pop().unwrap_or_else(|| Err(bindings::model_error(wrong_reply()))))
    }

    async fn complete_all(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>> {
        self.complete_many(requests).await
    }

    async fn embed(
        &mut self,
        slot: Option<String>,
        texts: Vec<String>,
    ) -> Result<Result<Vec<Vec<f32>>, model::ModelError>> {
        let answer = if MAX_EMBED_TEXTS < texts.len() {
            Err(ModelError::InvalidRequest("at most 256 texts at a time".into()))
        } else if let Err(error) = self.allowance.count_model_calls(1) {
            Err(error)
        } else {
            match self.host_call(HostRequest::Embed { slot, texts }).await {
                HostReply::Embed(answer) => answer,
                _ => Err(wrong_reply()),
            }
        };
        Ok(answer.map_err(|error| {
            self.record_model_error(&error);
            bindings::model_error(error)
        }))
    }
}
