//! Calls to the host with the types of the SDK.

use std::rc::Rc;

use super::bindings::perpend::evaluator::{
    context, log as host_log, model, run_reader, session_reader, trace_reader, types,
};
use crate::Payload;
use crate::host::Level;
use crate::model::{
    CacheMode, Completion, Distribution, FinishReason, Handle, ModelError, Part as MessagePart,
    Place, Request, Role, TokenLogprob, ToolCall, ToolChoice,
};
use crate::run::{self, RunInfo, RunItem};
use crate::session::{self, SessionInfo};
use crate::trace::{
    Filter, Hit, Kind, Observation, Outline, OutlineEntry, Page, Part, Severity, Slice, TraceError,
    TraceInfo,
};

/// An answer that the host holds.
pub(crate) type HostCompletion = model::Completion;

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
    read_completion(model::complete(wire_request(request)))
}

pub(crate) fn complete_all(requests: &[Request]) -> Vec<Result<Completion, ModelError>> {
    let requests: Vec<_> = requests.iter().map(wire_request).collect();
    model::complete_all(requests).into_iter().map(read_completion).collect()
}

pub(crate) fn embed(slot: Option<&str>, texts: &[String]) -> Result<Vec<Vec<f32>>, ModelError> {
    model::embed(slot, texts).map_err(model_error)
}

fn wire_request(request: &Request) -> model::Request {
    let messages: Vec<_> = request.messages.iter().map(message).collect();
    let own = model::Request::new(&messages);
    if let Some(slot) = &request.slot {
        own.set_slot(slot);
    }
    if let Some(schema) = &request.response_schema {
        own.set_response_schema(schema);
    }
    if let Some(temperature) = request.temperature {
        own.set_temperature(temperature);
    }
    if let Some(top_p) = request.top_p {
        own.set_top_p(top_p);
    }
    if let Some(limit) = request.max_output_tokens {
        own.set_max_output_tokens(limit);
    }
    if let Some(seed) = request.seed {
        own.set_seed(seed);
    }
    if !request.stop.is_empty() {
        own.set_stop(&request.stop);
    }
    if let Some(alternatives) = request.top_logprobs {
        own.set_top_logprobs(alternatives);
    }
    match request.cache {
        CacheMode::Standard => {}
        CacheMode::Refresh => own.set_cache(model::CacheMode::Refresh),
        CacheMode::Bypass => own.set_cache(model::CacheMode::Bypass),
    }
    if let Some(extra) = &request.extra {
        own.set_extra(extra);
    }
    if !request.tools.is_empty() || request.tool_choice != ToolChoice::Auto {
        let tools = request.tools.iter().map(|tool| model::Tool {
            name: tool.name.clone(),
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        });
        let choice = match &request.tool_choice {
            ToolChoice::Auto => model::ToolChoice::Auto,
            ToolChoice::Required => model::ToolChoice::Required,
            ToolChoice::None => model::ToolChoice::None,
            ToolChoice::Named(name) => model::ToolChoice::Named(name.clone()),
        };
        own.set_tools(&tools.collect::<Vec<_>>(), &choice);
    }
    own
}

fn message(message: &crate::model::Message) -> model::Message {
    let part = |part: &MessagePart| match part {
        MessagePart::Text(text) => model::Part::Text(text.clone()),
        MessagePart::Image(id) => model::Part::Image(id.clone()),
        MessagePart::Audio(id) => model::Part::Audio(id.clone()),
        MessagePart::File(id) => model::Part::File(id.clone()),
        MessagePart::ToolCall(call) => model::Part::ToolCall(model::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        }),
        MessagePart::ToolResult(result) => model::Part::ToolResult(model::ToolResult {
            call_id: result.call_id.clone(),
            content: result.content.clone(),
            is_error: result.is_error,
        }),
    };
    model::Message {
        role: match message.role {
            Role::System => model::Role::System,
            Role::User => model::Role::User,
            Role::Assistant => model::Role::Assistant,
            Role::Tool => model::Role::Tool,
        },
        parts: message.parts.iter().map(part).collect(),
    }
}

fn read_completion(
    answer: Result<HostCompletion, model::ModelError>,
) -> Result<Completion, ModelError> {
    let completion = answer.map_err(model_error)?;
    let logprobs = completion.logprobs().into_iter().map(|token| TokenLogprob {
        token: token.token,
        logprob: token.logprob,
        alternatives: token
            .alternatives
            .into_iter()
            .map(|other| (other.token, other.logprob))
            .collect(),
    });
    let calls = completion.tool_calls().into_iter().map(|call| ToolCall {
        id: call.id,
        name: call.name,
        arguments: call.arguments,
    });
    let usage = completion.usage();
    Ok(Completion {
        text: completion.text(),
        structured: completion.structured(),
        finish: match completion.finish() {
            model::FinishReason::Stop => FinishReason::Stop,
            model::FinishReason::Length => FinishReason::Length,
            model::FinishReason::ContentFilter => FinishReason::ContentFilter,
            model::FinishReason::ToolCalls => FinishReason::ToolCalls,
            model::FinishReason::Other => FinishReason::Other,
        },
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        logprobs: logprobs.collect(),
        tool_calls: calls.collect(),
        model: completion.model(),
        from_cache: completion.from_cache(),
        handle: Handle { completion: Some(Rc::new(completion)) },
    })
}

/// `None` for a completion that the host does not have.
pub(crate) fn probabilities(
    completion: &Completion,
    choices: &[String],
    place: Place<'_>,
) -> Option<Distribution> {
    let completion = completion.handle.completion.as_ref()?;
    let place = match place {
        Place::Whole => model::Place::Whole,
        Place::Member(name) => model::Place::Member(name.to_owned()),
        Place::Offset(byte) => model::Place::Offset(byte as u64),
    };
    let found = completion.probabilities(choices, &place)?;
    let shares = found.shares.into_iter();
    Some(Distribution {
        shares: shares.map(|own| (own.choice, own.probability)).collect(),
        margin: found.margin,
        coverage: found.coverage,
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
    Ok(trace_info(info))
}

fn trace_info(info: trace_reader::TraceInfo) -> TraceInfo {
    TraceInfo {
        id: info.id,
        name: info.name,
        session_id: info.session_id,
        user_id: info.user_id,
        start_ms: info.start,
        tags: info.tags,
        metadata: info.metadata,
        n_observations: info.observation_count,
    }
}

pub(crate) fn list_observations(
    trace_id: &str,
    filter: &Filter,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page, TraceError> {
    let wire_filter = trace_reader::ObservationFilter {
        parent_id: filter.parent_id.clone(),
        kinds: filter.kinds.iter().copied().map(kind_to_wire).collect(),
        name: filter.name.clone(),
    };
    let page = trace_reader::list_observations(trace_id, &wire_filter, cursor, limit);
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
        severity: severity(head.severity),
        status_message: head.status_message,
        model: head.model,
        input_tokens: head.input_tokens,
        output_tokens: head.output_tokens,
        input_size: head.input_size,
        output_size: head.output_size,
    }
}

fn severity(severity: trace_reader::Severity) -> Severity {
    match severity {
        trace_reader::Severity::Debug => Severity::Debug,
        trace_reader::Severity::Standard => Severity::Standard,
        trace_reader::Severity::Warning => Severity::Warning,
        trace_reader::Severity::Error => Severity::Error,
    }
}

/// The conversions between the kinds in both directions.
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
kinds!(Span, Generation, Event, Agent, Tool, Chain, Retriever, Evaluator, Embedding, Guardrail);

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

pub(crate) fn outline(
    trace: &str,
    parent: Option<&str>,
    cursor: Option<&str>,
    limit: u32,
) -> Result<Outline, TraceError> {
    let page = trace_reader::outline(trace, parent, cursor, limit).map_err(trace_error)?;
    let entry = |entry: trace_reader::OutlineEntry| OutlineEntry {
        id: entry.id,
        parent_id: entry.parent_id,
        depth: entry.depth,
        kind: kind_from_wire(entry.kind),
        name: entry.name,
        severity: severity(entry.severity),
        start_ms: entry.start,
        duration_ms: entry.duration_ms,
        input_size: entry.input_size,
        output_size: entry.output_size,
        n_children: entry.child_count,
    };
    Ok(Outline {
        entries: page.entries.into_iter().map(entry).collect(),
        next_cursor: page.next_cursor,
    })
}

pub(crate) fn search(trace: &str, text: &str, limit: u32) -> Result<Vec<Hit>, TraceError> {
    let hits = trace_reader::search(trace, text, limit).map_err(trace_error)?;
    let hit = |hit: trace_reader::Hit| Hit {
        observation_id: hit.observation_id,
        part: match hit.part {
            trace_reader::ObservationPart::Input => Part::Input,
            trace_reader::ObservationPart::Output => Part::Output,
            trace_reader::ObservationPart::Metadata => Part::Metadata,
        },
        offset: hit.offset,
        excerpt: hit.excerpt,
    };
    Ok(hits.into_iter().map(hit).collect())
}

pub(crate) fn read_range(
    trace: &str,
    observation: &str,
    part: Part,
    offset: u64,
    length: u32,
) -> Result<Option<Slice>, TraceError> {
    let part = match part {
        Part::Input => trace_reader::ObservationPart::Input,
        Part::Output => trace_reader::ObservationPart::Output,
        Part::Metadata => trace_reader::ObservationPart::Metadata,
    };
    let slice = trace_reader::read_range(trace, observation, part, offset, length);
    Ok(slice.map_err(trace_error)?.map(|slice| Slice {
        text: slice.text,
        offset: slice.offset,
        total: slice.total,
        is_json: slice.is_json,
    }))
}

pub(crate) fn get_session(session: &str) -> Result<SessionInfo, TraceError> {
    let info = session_reader::get_session(session).map_err(trace_error)?;
    Ok(SessionInfo {
        id: info.id,
        n_traces: info.trace_count,
        start_ms: info.start,
        end_ms: info.end,
        user_ids: info.user_ids,
    })
}

pub(crate) fn list_traces(
    session: &str,
    cursor: Option<&str>,
    limit: u32,
) -> Result<session::Page, TraceError> {
    let page = session_reader::list_traces(session, cursor, limit).map_err(trace_error)?;
    Ok(session::Page {
        traces: page.traces.into_iter().map(trace_info).collect(),
        next_cursor: page.next_cursor,
    })
}

pub(crate) fn get_run(run: &str) -> Result<RunInfo, TraceError> {
    let info = run_reader::get_run(run).map_err(trace_error)?;
    Ok(RunInfo {
        id: info.id,
        name: info.name,
        dataset_id: info.dataset_id,
        metadata: info.metadata,
        n_items: info.item_count,
    })
}

pub(crate) fn list_items(
    run: &str,
    cursor: Option<&str>,
    limit: u32,
) -> Result<run::Page, TraceError> {
    let page = run_reader::list_items(run, cursor, limit).map_err(trace_error)?;
    let item = |item: run_reader::RunItem| RunItem {
        id: item.id,
        dataset_item_id: item.dataset_item_id,
        trace: item.trace.map(super::trace_ref),
        input: item.input.map(super::payload),
        output: item.output.map(super::payload),
        expected_output: item.expected_output.map(super::payload),
        metadata: item.metadata,
    };
    Ok(run::Page {
        items: page.items.into_iter().map(item).collect(),
        next_cursor: page.next_cursor,
    })
}
