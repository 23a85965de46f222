//! Rust forms of the WIT contract, generated, and the crossing between them and the domain's words.
//!
//! The generated names stay inside this crate; other rooms see `perpend_domain::plugin` and
//! `perpend_protocol` only.

mod generated {
    wasmtime::component::bindgen!({
        path: "../../plugin-sdk/wit",
        world: "judge",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

pub(crate) use generated::perpend::evaluator::{context, log, model, trace_reader, types};
pub(crate) use generated::{Judge, JudgePre};

use perpend_domain::payload::Payload;
use perpend_domain::plugin as domain;
use perpend_protocol::host_call as port;

pub(crate) fn item(item: domain::Item) -> types::Item {
    types::Item {
        id: item.id,
        input: item.input.map(payload),
        output: item.output.map(payload),
        expected_output: item.expected_output.map(payload),
        metadata: item.metadata,
        trace: item.trace.map(|trace| types::TraceRef {
            trace_id: trace.trace_id,
            observation_id: trace.observation_id,
        }),
    }
}

pub(crate) fn payload(payload: Payload) -> types::Payload {
    match payload {
        Payload::Text(text) => types::Payload::Text(text),
        Payload::Json(json) => types::Payload::Json(json),
    }
}

/// The description as the guest gave it, unchecked.
pub(crate) fn plugin_info(info: types::PluginInfo) -> domain::PluginInfo {
    domain::PluginInfo {
        name: info.name,
        version: info.version,
        description: info.description,
        evaluators: info.evaluators.into_iter().map(evaluator_info).collect(),
        // Seen in the component, not said by it.
        capabilities: domain::Grants::NONE,
        checks_config: false,
    }
}

fn evaluator_info(info: types::EvaluatorInfo) -> domain::EvaluatorInfo {
    let needs = |part| info.needs.contains(part);
    domain::EvaluatorInfo {
        needs: domain::ItemParts {
            input: needs(types::ItemParts::INPUT),
            output: needs(types::ItemParts::OUTPUT),
            expected_output: needs(types::ItemParts::EXPECTED_OUTPUT),
            metadata: needs(types::ItemParts::METADATA),
            trace: needs(types::ItemParts::TRACE),
        },
        id: info.id,
        title: info.title,
        description: info.description,
        config_schema: info.config_schema,
        slots: info.slots.into_iter().map(slot).collect(),
        scores: info.scores.into_iter().map(score_spec).collect(),
        dynamic_scores: info.dynamic_scores,
        deterministic: info.deterministic,
    }
}

fn slot(slot: types::ModelSlot) -> domain::ModelSlot {
    domain::ModelSlot {
        name: slot.name,
        description: slot.description,
        kind: match slot.kind {
            types::SlotKind::Chat => domain::SlotKind::Chat,
            types::SlotKind::Embedding => domain::SlotKind::Embedding,
        },
        required: slot.required,
    }
}

fn score_spec(spec: types::ScoreSpec) -> domain::ScoreSpec {
    domain::ScoreSpec {
        name: spec.name,
        description: spec.description,
        domain: match spec.domain {
            types::ScoreDomain::Numeric(range) => domain::ScoreDomain::Numeric {
                min: range.min,
                max: range.max,
                higher_is_better: range.higher_is_better,
            },
            types::ScoreDomain::Boolean => domain::ScoreDomain::Boolean,
            types::ScoreDomain::Categorical(values) => domain::ScoreDomain::Categorical(values),
        },
    }
}

pub(crate) fn score(score: types::Score) -> domain::PluginScore {
    domain::PluginScore {
        name: score.name,
        value: match score.value {
            types::ScoreValue::Numeric(number) => domain::PluginScoreValue::Numeric(number),
            types::ScoreValue::Boolean(value) => domain::PluginScoreValue::Boolean(value),
            types::ScoreValue::Categorical(text) => domain::PluginScoreValue::Categorical(text),
        },
        observation_id: score.observation_id,
        comment: score.comment,
        metadata: score.metadata,
    }
}

pub(crate) fn completion_request(request: model::CompletionRequest) -> port::CompletionRequest {
    let message = |message: model::Message| port::Message {
        role: match message.role {
            model::Role::System => port::Role::System,
            model::Role::User => port::Role::User,
            model::Role::Assistant => port::Role::Assistant,
        },
        content: message.content,
    };
    port::CompletionRequest {
        slot: request.slot,
        messages: request.messages.into_iter().map(message).collect(),
        response_schema: request.response_schema,
        temperature: request.temperature,
        top_p: request.top_p,
        max_output_tokens: request.max_output_tokens,
        seed: request.seed,
        stop: request.stop,
        top_logprobs: request.top_logprobs,
        cache: match request.cache {
            model::CacheMode::Standard => port::CacheMode::Standard,
            model::CacheMode::Refresh => port::CacheMode::Refresh,
            model::CacheMode::Bypass => port::CacheMode::Bypass,
        },
        extra: request.extra,
    }
}

pub(crate) fn completion(completion: port::Completion) -> model::Completion {
    let alternative = |a: port::TokenAlternative| model::TokenAlternative {
        token: a.token,
        logprob: a.logprob,
    };
    let logprob = |l: port::TokenLogprob| model::TokenLogprob {
        token: l.token,
        logprob: l.logprob,
        alternatives: l.alternatives.into_iter().map(alternative).collect(),
    };
    model::Completion {
        text: completion.text,
        structured: completion.structured,
        finish: match completion.finish {
            port::FinishReason::Stop => model::FinishReason::Stop,
            port::FinishReason::Length => model::FinishReason::Length,
            port::FinishReason::ContentFilter => model::FinishReason::ContentFilter,
            port::FinishReason::Other => model::FinishReason::Other,
        },
        usage: model::TokenUsage {
            input_tokens: completion.input_tokens,
            output_tokens: completion.output_tokens,
        },
        logprobs: completion.logprobs.into_iter().map(logprob).collect(),
        model: completion.model,
        from_cache: completion.from_cache,
    }
}

pub(crate) fn model_error(error: port::ModelError) -> model::ModelError {
    use model::ModelError as Guest;
    use port::ModelError as Port;
    match error {
        Port::NotGranted(text) => Guest::NotGranted(text),
        Port::InvalidRequest(text) => Guest::InvalidRequest(text),
        Port::BudgetExhausted(text) => Guest::BudgetExhausted(text),
        Port::Timeout(text) => Guest::Timeout(text),
        Port::RateLimited(text) => Guest::RateLimited(text),
        Port::Refused(text) => Guest::Refused(text),
        Port::InvalidResponse(text) => Guest::InvalidResponse(text),
        Port::Unavailable(text) => Guest::Unavailable(text),
        Port::Cancelled => Guest::Cancelled,
    }
}

pub(crate) fn trace_error(error: port::TraceError) -> trace_reader::TraceError {
    use port::TraceError as Port;
    use trace_reader::TraceError as Guest;
    match error {
        Port::NotGranted(text) => Guest::NotGranted(text),
        Port::NotFound(text) => Guest::NotFound(text),
        Port::TooLarge(text) => Guest::TooLarge(text),
        Port::Unavailable(text) => Guest::Unavailable(text),
        Port::Cancelled => Guest::Cancelled,
    }
}

/// One enum in two spellings, both ways.
macro_rules! kinds {
    ($($name:ident),*) => {
        fn kind(kind: port::Kind) -> trace_reader::ObservationKind {
            match kind { $(port::Kind::$name => trace_reader::ObservationKind::$name,)* }
        }
        fn kind_of_guest(kind: trace_reader::ObservationKind) -> port::Kind {
            match kind { $(trace_reader::ObservationKind::$name => port::Kind::$name,)* }
        }
    };
}
kinds!(
    Span, Generation, Event, Agent, Tool, Chain, Retriever, Evaluator, Embedding, Guardrail
);

pub(crate) fn observation_filter(
    filter: trace_reader::ObservationFilter,
) -> port::ObservationFilter {
    port::ObservationFilter {
        parent_id: filter.parent_id,
        kinds: filter.kinds.into_iter().map(kind_of_guest).collect(),
        name: filter.name,
    }
}

pub(crate) fn trace_info(info: port::TraceInfo) -> trace_reader::TraceInfo {
    trace_reader::TraceInfo {
        id: info.id,
        name: info.name,
        session_id: info.session_id,
        user_id: info.user_id,
        start: info.start_ms,
        tags: info.tags,
        metadata: info.metadata,
        observation_count: info.n_observations,
    }
}

pub(crate) fn observation_page(page: port::ObservationPage) -> trace_reader::ObservationPage {
    let severity = |severity| match severity {
        port::Severity::Debug => trace_reader::Severity::Debug,
        port::Severity::Standard => trace_reader::Severity::Standard,
        port::Severity::Warning => trace_reader::Severity::Warning,
        port::Severity::Error => trace_reader::Severity::Error,
    };
    let head = |head: port::ObservationHead| trace_reader::ObservationHead {
        id: head.id,
        parent_id: head.parent_id,
        kind: kind(head.kind),
        name: head.name,
        start: head.start_ms,
        end: head.end_ms,
        severity: severity(head.severity),
        status_message: head.status_message,
        model: head.model,
        input_tokens: head.input_tokens,
        output_tokens: head.output_tokens,
        input_size: head.input_size,
        output_size: head.output_size,
    };
    trace_reader::ObservationPage {
        observations: page.observations.into_iter().map(head).collect(),
        next_cursor: page.next_cursor,
    }
}
