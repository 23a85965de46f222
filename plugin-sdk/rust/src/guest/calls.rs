//! Calls to the host, in the SDK's types.

use super::bindings::perpend::evaluator::{context, log as host_log, model, trace_reader, types};
use crate::Payload;
use crate::host::Level;
use crate::model::{CacheMode, Completion, FinishReason, ModelError, Request, Role, TokenLogprob};
use crate::trace::{Filter, Kind, Observation, Page, Severity, TraceError, TraceInfo};

pub(crate) fn seed() -> u64 {
    context::seed()
}

pub(crate) fn run_time_ms() -> u64 {
    context::run_time()
}

pub(crate) fn log(level: Level, message: &str, fields: Option<&str>) {
    let level = match level {
        Level::Debug => host_log::Level::Debug,
        Level::Info => host_log::Level::Info,
        Level::Warn => host_log::Level::Warn,
        Level::Error => host_log::Level::Error,
    };
    host_log::log(level, message, fields);
}

pub(crate) fn complete(request: &Request) -> Result<Completion, ModelError> {
    answered(model::complete(&asked(request)))
}

pub(crate) fn complete_all(requests: &[Request]) -> Vec<Result<Completion, ModelError>> {
    let requests: Vec<_> = requests.iter().map(asked).collect();
    model::complete_all(&requests)
        .into_iter()
        .map(answered)
        .collect()
}

pub(crate) fn embed(slot: Option<&str>, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
    model::embed(slot, texts).map_err(model_error)
}

fn asked(request: &Request) -> model::CompletionRequest {
    let messages = request
        .messages
        .iter()
        .map(|(role, content)| model::Message {
            role: match role {
                Role::System => model::Role::System,
                Role::User => model::Role::User,
                Role::Assistant => model::Role::Assistant,
            },
            content: content.clone(),
        });
    model::CompletionRequest {
        slot: request.slot.clone(),
        messages: messages.collect(),
        response_schema: request.response_schema.clone(),
        temperature: request.temperature,
        top_p: request.top_p,
        max_output_tokens: request.max_output_tokens,
        seed: request.seed,
        stop: request.stop.clone(),
        top_logprobs: request.top_logprobs,
        cache: match request.cache {
            CacheMode::Standard => model::CacheMode::Standard,
            CacheMode::Refresh => model::CacheMode::Refresh,
            CacheMode::Bypass => model::CacheMode::Bypass,
        },
        extra: request.extra.clone(),
    }
}

fn answered(
    answer: Result<model::Completion, model::ModelError>,
) -> Result<Completion, ModelError> {
    let answer = answer.map_err(model_error)?;
    let logprobs = answer.logprobs.into_iter().map(|token| TokenLogprob {
        token: token.token,
        logprob: token.logprob,
        alternatives: token
            .alternatives
            .into_iter()
            .map(|other| (other.token, other.logprob))
            .collect(),
    });
    Ok(Completion {
        text: answer.text,
        structured: answer.structured,
        finish: match answer.finish {
            model::FinishReason::Stop => FinishReason::Stop,
            model::FinishReason::Length => FinishReason::Length,
            model::FinishReason::ContentFilter => FinishReason::ContentFilter,
            model::FinishReason::Other => FinishReason::Other,
        },
        input_tokens: answer.usage.input_tokens,
        output_tokens: answer.usage.output_tokens,
        logprobs: logprobs.collect(),
        model: answer.model,
        from_cache: answer.from_cache,
    })
}

fn model_error(error: model::ModelError) -> ModelError {
    match error {
        model::ModelError::NotGranted(text) => ModelError::NotGranted(text),
        model::ModelError::InvalidRequest(text) => ModelError::InvalidRequest(text),
        model::ModelError::BudgetExhausted(text) => ModelError::BudgetExhausted(text),
        model::ModelError::Timeout(text) => ModelError::Timeout(text),
        model::ModelError::RateLimited(text) => ModelError::RateLimited(text),
        model::ModelError::Refused(text) => ModelError::Refused(text),
        model::ModelError::InvalidResponse(text) => ModelError::InvalidResponse(text),
        model::ModelError::Unavailable(text) => ModelError::Unavailable(text),
        model::ModelError::Cancelled => ModelError::Cancelled,
    }
}

pub(crate) fn get_trace(trace_id: &str) -> Result<TraceInfo, TraceError> {
    let info = trace_reader::get_trace(trace_id).map_err(trace_error)?;
    Ok(TraceInfo {
        id: info.id,
        name: info.name,
        session_id: info.session_id,
        user_id: info.user_id,
        start_ms: info.start,
        tags: info.tags,
        metadata: info.metadata,
        n_observations: info.observation_count,
    })
}

pub(crate) fn list_observations(
    trace_id: &str,
    filter: &Filter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page, TraceError> {
    let wanted = trace_reader::ObservationFilter {
        parent_id: filter.parent_id.clone(),
        kinds: filter.kinds.iter().copied().map(kind_to_wire).collect(),
        name: filter.name.clone(),
    };
    let page = trace_reader::list_observations(trace_id, &wanted, cursor, limit);
    let page = page.map_err(trace_error)?;
    Ok(Page {
        observations: page.observations.into_iter().map(observation).collect(),
        next_cursor: page.next_cursor,
    })
}

fn observation(head: trace_reader::ObservationHead) -> Observation {
    Observation {
        id: head.id,
        parent_id: head.parent_id,
        kind: kind_from_wire(head.kind),
        name: head.name,
        start_ms: head.start,
        end_ms: head.end,
        severity: match head.severity {
            trace_reader::Severity::Debug => Severity::Debug,
            trace_reader::Severity::Standard => Severity::Standard,
            trace_reader::Severity::Warning => Severity::Warning,
            trace_reader::Severity::Error => Severity::Error,
        },
        status_message: head.status_message,
        model: head.model,
        input_tokens: head.input_tokens,
        output_tokens: head.output_tokens,
        input_size: head.input_size,
        output_size: head.output_size,
    }
}

/// The kinds both ways: the two lists cannot differ.
macro_rules! kinds {
    ($($kind:ident),+ $(,)?) => {
        fn kind_to_wire(kind: Kind) -> trace_reader::ObservationKind {
            match kind { $(Kind::$kind => trace_reader::ObservationKind::$kind),+ }
        }
        fn kind_from_wire(kind: trace_reader::ObservationKind) -> Kind {
            match kind { $(trace_reader::ObservationKind::$kind => Kind::$kind),+ }
        }
    };
}
kinds!(
    Span, Generation, Event, Agent, Tool, Chain, Retriever, Evaluator, Embedding, Guardrail
);

pub(crate) fn read_input(trace: &str, observation: &str) -> Result<Option<Payload>, TraceError> {
    read(trace_reader::read_input(trace, observation))
}

pub(crate) fn read_output(trace: &str, observation: &str) -> Result<Option<Payload>, TraceError> {
    read(trace_reader::read_output(trace, observation))
}

pub(crate) fn read_metadata(trace: &str, observation: &str) -> Result<Option<Payload>, TraceError> {
    let read = trace_reader::read_metadata(trace, observation).map_err(trace_error)?;
    Ok(read.map(Payload::Json))
}

fn read(
    read: Result<Option<types::Payload>, trace_reader::TraceError>,
) -> Result<Option<Payload>, TraceError> {
    Ok(read.map_err(trace_error)?.map(super::payload))
}

fn trace_error(error: trace_reader::TraceError) -> TraceError {
    match error {
        trace_reader::TraceError::NotGranted(text) => TraceError::NotGranted(text),
        trace_reader::TraceError::NotFound(text) => TraceError::NotFound(text),
        trace_reader::TraceError::TooLarge(text) => TraceError::TooLarge(text),
        trace_reader::TraceError::Unavailable(text) => TraceError::Unavailable(text),
        trace_reader::TraceError::Cancelled => TraceError::Cancelled,
    }
}
