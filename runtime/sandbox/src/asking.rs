//! `model`, as guests call it.

use perpend_domain::plugin::FailureClass;
use perpend_worker_protocol::host_call::{self as port, CompletionRequest, ModelError};
use perpend_worker_protocol::{HostReply, HostRequest};
use wasmtime::component::Resource;
use wasmtime::{Result, bail};

use crate::bindings::{self, model};
use crate::held::{HeldCompletion, HeldRequest, MAX_HELD, MAX_HELD_BYTES};
use crate::state::State;

const MAX_EMBED_TEXTS: usize = 256;

type Request = Resource<HeldRequest>;
type Completion = Resource<HeldCompletion>;
type Answer = Result<Completion, model::ModelError>;

fn mismatch() -> ModelError {
    ModelError::Unavailable("the server gave another answer".into())
}

fn too_large() -> ModelError {
    let message = format!(
        "the requests and answers that are held take more than {} MiB",
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
        let held = self.table.get_mut(request)?;
        self.held.set(held, n_bytes, set);
        Ok(())
    }

    fn taken(&mut self, request: Request) -> Result<HeldRequest> {
        let held = self.table.delete(request)?;
        self.held.without_request(&held);
        Ok(held)
    }

    fn completion(&self, completion: &Completion) -> Result<&port::Completion> {
        Ok(&self.table.get(completion)?.completion)
    }

    /// The answer behind a handle.
    fn given(&mut self, answer: Result<port::Completion, ModelError>) -> Result<Answer> {
        let held = answer.and_then(|completion| {
            let held = self.held.completion(completion);
            held.ok_or_else(|| {
                let message = format!(
                    "no room for the answer: at most {MAX_HELD} requests and answers of {} MiB are held at a time",
                    MAX_HELD_BYTES >> 20
                );
                ModelError::InvalidResponse(message)
            })
        });
        match held {
            Ok(held) => {
                // A guest that then says `upstream` could not use the reply.
                self.last_upstream.get_or_insert(FailureClass::MalformedOutput);
                Ok(Ok(self.table.push(held)?))
            }
            Err(error) => {
                self.upstream(&error);
                Ok(Err(bindings::model_error(error)))
            }
        }
    }

    async fn complete_many(&mut self, requests: Vec<Request>) -> Result<Vec<Answer>> {
        let n = requests.len();
        let mut asked = Vec::with_capacity(n);
        let mut is_over = Vec::with_capacity(n);
        for request in requests {
            let held = self.taken(request)?;
            is_over.push(held.is_over);
            if !held.is_over {
                asked.push(held.request);
            }
        }
        let n_asked = asked.len();
        let answers: Vec<_> = if n_asked == 0 {
            Vec::new()
        } else if let Err(spent) = self.allowance.count_model_calls(n_asked) {
            (0..n_asked).map(|_| Err(spent.clone())).collect()
        } else {
            match self.ask(HostRequest::Complete(asked)).await {
                HostReply::Complete(answers) if answers.len() == n_asked => answers,
                _ => (0..n_asked).map(|_| Err(mismatch())).collect(),
            }
        };
        let mut answers = answers.into_iter();
        let mut given = Vec::with_capacity(n);
        for is_over in is_over {
            let answer = match is_over {
                true => Err(too_large()),
                false => answers.next().unwrap_or_else(|| Err(mismatch())),
            };
            given.push(self.given(answer)?);
        }
        Ok(given)
    }
}

impl model::HostRequest for State {
    async fn new(&mut self, messages: Vec<model::Message>) -> Result<Request> {
        let messages = messages.into_iter().map(bindings::message).collect();
        match self.held.request(CompletionRequest::new(messages)) {
            Some(held) => Ok(self.table.push(held)?),
            None => bail!(
                "more than {MAX_HELD} requests and answers of models are held: drop those that are done with"
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
        let of_choice = match &choice {
            port::ToolChoice::Named(name) => name.len(),
            _ => 0,
        };
        let n_bytes = of_choice + tools.iter().map(size).sum::<usize>();
        self.set(&own, n_bytes, |request| {
            request.tools = tools;
            request.tool_choice = choice;
        })
    }

    async fn drop(&mut self, own: Request) -> Result<()> {
        self.taken(own).map(drop)
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
        let tokens = tokens.map(|own| perpend_choices::Token {
            token: &own.token,
            logprob: own.logprob,
            alternatives: own
                .alternatives
                .iter()
                .map(|other| (other.token.as_str(), other.logprob))
                .collect(),
        });
        let tokens: Vec<_> = tokens.collect();
        let found = perpend_choices::Distribution::of(&tokens, &choices, place);
        Ok(found.map(|found| {
            let margin = found.margin();
            let shares = choices.into_iter().zip(found.shares);
            model::Distribution {
                shares: shares
                    .map(|(choice, probability)| model::Share { choice, probability })
                    .collect(),
                margin,
                coverage: found.coverage,
            }
        }))
    }

    async fn drop(&mut self, own: Completion) -> Result<()> {
        let held = self.table.delete(own)?;
        self.held.without_completion(&held);
        Ok(())
    }
}

impl model::Host for State {
    async fn complete(&mut self, request: Request) -> Result<Answer> {
        let mut answers = self.complete_many(vec![request]).await?;
        Ok(answers.pop().unwrap_or_else(|| Err(bindings::model_error(mismatch()))))
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
        } else if let Err(spent) = self.allowance.count_model_calls(1) {
            Err(spent)
        } else {
            match self.ask(HostRequest::Embed { slot, texts }).await {
                HostReply::Embed(answer) => answer,
                _ => Err(mismatch()),
            }
        };
        Ok(answer.map_err(|error| {
            self.upstream(&error);
            bindings::model_error(error)
        }))
    }
}
