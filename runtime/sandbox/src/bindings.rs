//! Generated Rust types of the WIT contract, and conversions between them and the types of the domain.
//!
//! The generated types are private to this crate. Other crates use `perpend_domain::plugin` and `perpend_worker_protocol`.

mod generated {
    wasmtime::component::bindgen!({
        path: "../../plugin-sdk/wit",
        world: "judge",
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "perpend:evaluator/model.request": crate::handles::HeldRequest,
            "perpend:evaluator/model.completion": crate::handles::HeldCompletion,
        },
    });
}

pub(crate) use generated::perpend::evaluator::{
    context, log, model, run_reader, session_reader, trace_reader, types,
};
pub(crate) use generated::{Judge, JudgePre};

use perpend_domain::payload::Payload;
use perpend_domain::plugin as domain;
use perpend_worker_protocol::host_call as port;

pub(crate) fn item(item: domain::Item) -> types::Item {
    types::Item {
        id: item.id,
        input: item.input.map(payload),
        output: item.output.map(payload),
        expected_output: item.expected_output.map(payload),
        metadata: item.metadata,
        trace: item.trace.map(trace_ref),
        session: item.session,
        run: item.run,
    }
}

fn trace_ref(trace: domain::TraceRef) -> types::TraceRef {
    types::TraceRef { trace_id: trace.trace_id, observation_id: trace.observation_id }
}

pub(crate) fn payload(payload: Payload) -> types::Payload {
    match payload {
        Payload::Text(text) => types::Payload::Text(text),
        Payload::Json(json) => types::Payload::Json(json),
    }
}

/// Converts a description without validating it.
pub(crate) fn plugin_info(info: types::PluginInfo) -> domain::PluginInfo {
    domain::PluginInfo {
        name: info.name,
        version: info.version,
        description: info.description,
        evaluators: info.evaluators.into_iter().map(evaluator_info).collect(),
        // Determined from the component, not from its description.
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

pub(crate) fn message(message: model::Message) -> port::Message {
    let part = |part| match part {
        model::Part::Text(text) => port::MessagePart::Text(text),
        model::Part::Image(id) => port::MessagePart::Media(port::MediaKind::Image, id),
        model::Part::Audio(id) => port::MessagePart::Media(port::MediaKind::Audio, id),
        model::Part::File(id) => port::MessagePart::Media(port::MediaKind::File, id),
        model::Part::ToolCall(call) => port::MessagePart::ToolCall(port::ToolCall {
            id: call.id,
            name: call.name,
            arguments: call.arguments,
        }),
        model::Part::ToolResult(result) => port::MessagePart::ToolResult(port::ToolResult {
            call_id: result.call_id,
            content: result.content,
            is_error: result.is_error,
        }),
    };
    port::Message {
        role: match message.role {
            model::Role::System => port::Role::System,
            model::Role::User => port::Role::User,
            model::Role::Assistant => port::Role::Assistant,
            model::Role::Tool => port::Role::Tool,
        },
        parts: message.parts.into_iter().map(part).collect(),
    }
}

pub(crate) const fn cache_mode(mode: model::CacheMode) -> port::CacheMode {
    match mode {
        model::CacheMode::Standard => port::CacheMode::Standard,
        model::CacheMode::Refresh => port::CacheMode::Refresh,
        model::CacheMode::Bypass => port::CacheMode::Bypass,
    }
}

pub(crate) fn tool(tool: model::Tool) -> port::Tool {
    port::Tool { name: tool.name, description: tool.description, parameters: tool.parameters }
}

pub(crate) fn tool_choice(choice: model::ToolChoice) -> port::ToolChoice {
    match choice {
        model::ToolChoice::Auto => port::ToolChoice::Auto,
        model::ToolChoice::Required => port::ToolChoice::Required,
        model::ToolChoice::None => port::ToolChoice::None,
        model::ToolChoice::Named(name) => port::ToolChoice::Named(name),
    }
}

pub(crate) const fn finish(finish: port::FinishReason) -> model::FinishReason {
    match finish {
        port::FinishReason::Stop => model::FinishReason::Stop,
        port::FinishReason::Length => model::FinishReason::Length,
        port::FinishReason::ContentFilter => model::FinishReason::ContentFilter,
        port::FinishReason::ToolCalls => model::FinishReason::ToolCalls,
        port::FinishReason::Other => model::FinishReason::Other,
    }
}

pub(crate) fn logprob(logprob: port::TokenLogprob) -> model::TokenLogprob {
    let alternative = |other: port::TokenAlternative| model::TokenAlternative {
        token: other.token,
        logprob: other.logprob,
    };
    model::TokenLogprob {
        token: logprob.token,
        logprob: logprob.logprob,
        alternatives: logprob.alternatives.into_iter().map(alternative).collect(),
    }
}

pub(crate) fn tool_call(call: port::ToolCall) -> model::ToolCall {
    model::ToolCall { id: call.id, name: call.name, arguments: call.arguments }
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
kinds!(Span, Generation, Event, Agent, Tool, Chain, Retriever, Evaluator, Embedding, Guardrail);

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

const fn severity(severity: port::Severity) -> trace_reader::Severity {
    match severity {
        port::Severity::Debug => trace_reader::Severity::Debug,
        port::Severity::Standard => trace_reader::Severity::Standard,
        port::Severity::Warning => trace_reader::Severity::Warning,
        port::Severity::Error => trace_reader::Severity::Error,
    }
}

pub(crate) fn observation_page(page: port::ObservationPage) -> trace_reader::ObservationPage {
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

pub(crate) const fn part(part: trace_reader::ObservationPart) -> port::ObservationPart {
    match part {
        trace_reader::ObservationPart::Input => port::ObservationPart::Input,
        trace_reader::ObservationPart::Output => port::ObservationPart::Output,
        trace_reader::ObservationPart::Metadata => port::ObservationPart::Metadata,
    }
}

pub(crate) fn outline_page(page: port::OutlinePage) -> trace_reader::OutlinePage {
    let entry = |entry: port::OutlineEntry| trace_reader::OutlineEntry {
        id: entry.id,
        parent_id: entry.parent_id,
        depth: entry.depth,
        kind: kind(entry.kind),
        name: entry.name,
        severity: severity(entry.severity),
        start: entry.start_ms,
        duration_ms: entry.duration_ms,
        input_size: entry.input_size,
        output_size: entry.output_size,
        child_count: entry.n_children,
    };
    trace_reader::OutlinePage {
        entries: page.entries.into_iter().map(entry).collect(),
        next_cursor: page.next_cursor,
    }
}

pub(crate) fn hit(hit: port::Hit) -> trace_reader::Hit {
    trace_reader::Hit {
        observation_id: hit.observation_id,
        part: match hit.part {
            port::ObservationPart::Input => trace_reader::ObservationPart::Input,
            port::ObservationPart::Output => trace_reader::ObservationPart::Output,
            port::ObservationPart::Metadata => trace_reader::ObservationPart::Metadata,
        },
        offset: hit.offset,
        excerpt: hit.excerpt,
    }
}

pub(crate) fn slice(slice: port::Slice) -> trace_reader::Slice {
    trace_reader::Slice {
        text: slice.text,
        offset: slice.offset,
        total: slice.total,
        is_json: slice.is_json,
    }
}

pub(crate) fn session_info(info: port::SessionInfo) -> session_reader::SessionInfo {
    session_reader::SessionInfo {
        id: info.id,
        trace_count: info.n_traces,
        start: info.start_ms,
        end: info.end_ms,
        user_ids: info.user_ids,
    }
}

pub(crate) fn trace_page(page: port::TracePage) -> session_reader::TracePage {
    session_reader::TracePage {
        traces: page.traces.into_iter().map(trace_info).collect(),
        next_cursor: page.next_cursor,
    }
}

pub(crate) fn run_info(info: port::RunInfo) -> run_reader::RunInfo {
    run_reader::RunInfo {
        id: info.id,
        name: info.name,
        dataset_id: info.dataset_id,
        metadata: info.metadata,
        item_count: info.n_items,
    }
}

pub(crate) fn run_page(page: port::RunPage) -> run_reader::RunPage {
    let item = |item: port::RunItem| run_reader::RunItem {
        id: item.id,
        dataset_item_id: item.dataset_item_id,
        trace: item.trace.map(trace_ref),
        input: item.input.map(payload),
        output: item.output.map(payload),
        expected_output: item.expected_output.map(payload),
        metadata: item.metadata,
    };
    run_reader::RunPage {
        items: page.items.into_iter().map(item).collect(),
        next_cursor: page.next_cursor,
    }
}
