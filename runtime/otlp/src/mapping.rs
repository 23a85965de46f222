//! From decoded spans to observations: validation, then every rule of otlp.md 2 in order.

use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::join::{DETAILS_ROW, EVALUATION_RESULT};
use perpend_domain::observation::{
    Content, ExperimentLink, Observation, ObservationKind as Kind, TraceFacts,
};
use perpend_domain::payload::Payload;
use perpend_domain::score::NewScore;
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value as Json};

use crate::attributes::{Attributes, default_json, is_true};
use crate::facts::plain_text;
use crate::ledger::{Ledger, within};
use crate::limits::{Limits, MAX_DEPTH, cut_bytes, is_deep};
use crate::media::Extractor;
use crate::metadata::{self, Shared};
use crate::model::{Pairs, Scope, Span, Value, ValueBudget, check_ids, to_object};
use crate::notes::{Notes, TRUNCATED};
use crate::scores::{self, ScoreContext};
use crate::sink::{MemoryExhausted, Sink};
use crate::source::Source;
use crate::usage::Numbers;
use crate::{Context, DecodeError, MappingReport, content, facts, json, kind, times, tools, usage};

/// The attributes of a resource, and what its spans share.
#[derive(Debug)]
pub(crate) struct Resource<'r> {
    pub(crate) attributes: Attributes<'r>,
    shared: Shared,
}

impl<'r> Resource<'r> {
    pub(crate) fn new(pairs: &'r Pairs<'r>, limits: &Limits) -> Self {
        Self { attributes: Attributes::new(pairs), shared: Shared::of_resource(pairs, limits) }
    }

    /// The spans that follow belong to this scope.
    pub(crate) fn enter(&mut self, scope: &Scope<'_>, limits: &Limits) {
        self.shared.enter(scope, limits);
    }
}

/// Turns spans into observations, one after the other. Malformed ones are left out and counted.
pub(crate) struct SpanMapper<'m> {
    context: &'m Context,
    pub(crate) ledger: Ledger<'m>,
    report: MappingReport,
}

impl<'m> SpanMapper<'m> {
    pub(crate) fn new(context: &'m Context, sink: &'m mut dyn Sink) -> Self {
        Self {
            context,
            ledger: Ledger::new(&context.limits, sink),
            report: MappingReport::default(),
        }
    }

    pub(crate) fn finish(self) -> MappingReport {
        self.report
    }

    pub(crate) const fn limits(&self) -> &'m Limits {
        &self.context.limits
    }

    pub(crate) const fn hint_at_wrong_case(&mut self) {
        self.report.hint = Some(
            "The field resource_spans was ignored: OTLP/JSON spells its fields in lowerCamelCase, resourceSpans.",
        );
    }

    fn begin_span(&mut self) -> Result<(), DecodeError> {
        let n_spans = self.report.n_accepted + self.report.n_rejected + 1;
        within(n_spans, self.limits().max_spans, "spans")
    }

    /// A span that cannot be read at all.
    pub(crate) fn rejected(
        &mut self,
        scope: &Scope<'_>,
        reason: &'static str,
    ) -> Result<(), DecodeError> {
        self.begin_span()?;
        self.report.reject(reason, &scope.name);
        Ok(())
    }

    /// Maps a span.
    pub(crate) fn span<'a>(
        &mut self,
        resource: &Resource<'_>,
        scope: &Scope<'_>,
        n_bytes: usize,
        read: impl FnOnce(
            &mut ValueBudget,
            &Limits,
        ) -> Result<Result<Span<'a>, &'static str>, DecodeError>,
    ) -> Result<(), DecodeError> {
        self.begin_span()?;
        let limits = self.limits();
        self.ledger.read(n_bytes)?;
        let mut budget = ValueBudget::new(limits.max_values);
        let read = read(&mut budget, limits)?.and_then(|span| Ok((ids(&span)?, span)));
        match read {
            Err(reason) => self.report.reject(reason, &scope.name),
            Ok((ids, span)) => {
                self.ledger.map(n_bytes + resource.shared.n_bytes, &budget)?;
                self.report.n_accepted += 1;
                let of = (scope, resource);
                let sink = &mut *self.ledger.sink;
                add_span(&span, ids, of, self.context, sink, &mut self.report)?;
            }
        }
        Ok(())
    }
}

struct Ids {
    trace_id: TraceId,
    id: ObservationId,
    parent_id: Option<ObservationId>,
}

fn ids(span: &Span<'_>) -> Result<Ids, &'static str> {
    check_ids(span.trace_id, span.span_id, span.parent_id)?;
    let trace_id = span.trace_id.to_hex();
    let trace_id = trace_id.and_then(|hex| TraceId::new(&hex).ok());
    let id = span.span_id.to_hex();
    let id = id.and_then(|hex| ObservationId::new(&hex).ok());
    // Its own id as parent means no parent.
    let parent_id = span
        .parent_id
        .to_hex()
        .filter(|_| span.parent_id != span.span_id)
        .and_then(|hex| ObservationId::new(&hex).ok());
    Ok(Ids {
        trace_id: trace_id.ok_or("the trace id is not usable")?,
        id: id.ok_or("the span id is not usable")?,
        parent_id,
    })
}

fn add_span(
    span: &Span<'_>,
    ids: Ids,
    (scope, resource): (&Scope<'_>, &Resource<'_>),
    context: &Context,
    sink: &mut dyn Sink,
    report: &mut MappingReport,
) -> Result<(), MemoryExhausted> {
    let attributes = Attributes::new(&span.attributes.pairs);
    let source = Source::new(span, &attributes, scope, &resource.attributes, context);
    // A placeholder of an unfinished span, which has a different id.
    if attributes.text("logfire.span_type") == Some("pending_span") {
        return Ok(());
    }
    let mut notes = resource.shared.notes.clone();
    notes.extend(dropped(span, &context.limits));
    let mut observation = observation(&source, ids, &mut notes);
    observation.content.metadata = metadata::of_observation(&source, &resource.shared);
    let mut found = Vec::new();
    let mut extractor = Extractor {
        trace_id: &observation.trace_id,
        observation_id: &observation.id,
        max_bytes: context.limits.max_media_bytes,
        found: &mut found,
    };
    let content = &mut observation.content;
    extractor.payload(&mut content.input, "input");
    extractor.payload(&mut content.output, "output");
    extractor.metadata(&mut content.metadata);
    // Of the whole values, and without the media in them.
    tools::index(content, observation.kind, &mut notes);
    let limits = &context.limits;
    if let Some(trace) = &mut observation.trace {
        extractor.payload(&mut trace.input, "input");
        extractor.payload(&mut trace.output, "output");
        limit_payload(&mut trace.input, "trace.input", limits, &mut notes);
        limit_payload(&mut trace.output, "trace.output", limits, &mut notes);
        metadata::limit(&mut trace.metadata, "trace.metadata.", limits, &mut notes);
    }
    let calls = content.tool_calls.iter();
    observation.called_tools = calls.map(|call| call.name.clone()).collect();
    metadata::limit(&mut content.metadata, "", limits, &mut notes);
    limit_payload(&mut content.input, "input", limits, &mut notes);
    limit_payload(&mut content.output, "output", limits, &mut notes);
    limit_facts(&mut observation, &mut notes);
    let scores = scores_of(&source, &observation, &mut notes);
    report.change(&notes, &scope.name);
    notes.write(&mut observation.content.metadata);
    for score in scores {
        sink.score(score)?;
    }
    for media in found {
        sink.media(media)?;
    }
    sink.observation(observation)
}

/// Reports the elements of a span above the limits on its lists.
fn dropped(span: &Span<'_>, limits: &Limits) -> Notes {
    let mut notes = Notes::default();
    for (field, n_dropped, max) in [
        ("attributes", span.attributes.n_over, limits.max_attributes),
        ("events", span.n_over_events, limits.max_events),
        ("links", span.n_over_links, limits.max_links),
    ] {
        if n_dropped > 0 {
            let explanation =
                format!("are over the limit of {max} or too large; {n_dropped} are dropped");
            notes.replaced(field, explanation);
        }
    }
    let is_implausible = |nanos: u64| nanos != 0 && times::timestamp(nanos).is_none();
    let n_implausible = span.events.iter().filter(|event| is_implausible(event.time_nanos)).count();
    if n_implausible > 0 {
        let explanation = format!(
            "have {n_implausible} times that are not between 1970-01-02 and 2100-01-01; these are ignored"
        );
        notes.replaced("events.time", explanation);
    }
    notes
}

/// Cuts over-long facts.
fn limit_facts(observation: &mut Observation, notes: &mut Notes) {
    let prompt = observation.prompt.as_mut();
    let facts = [
        ("model", observation.model.as_mut()),
        ("aggregateModel", observation.aggregate_model.as_mut()),
        ("provider", observation.provider.as_mut()),
        ("release", observation.release.as_mut()),
        ("version", observation.version.as_mut()),
        ("promptName", prompt.map(|prompt| &mut prompt.name)),
        ("responseId", observation.response_id.as_mut()),
    ];
    for (name, fact) in facts {
        notes.limit_fact(name, fact);
    }
}

/// Truncates an over-long payload, which is stored as text, and notes its full size. For JSON that is too deep, notes that
/// levels are missing.
pub(crate) fn limit_payload(
    payload: &mut Option<Payload>,
    name: &str,
    limits: &Limits,
    notes: &mut Notes,
) {
    let Some(text) = payload.as_ref().map(Payload::as_str) else {
        return;
    };
    let size = text.len();
    if size > limits.max_content_bytes {
        let kept = cut_bytes(text, limits.max_content_bytes).to_owned();
        *payload = Some(Payload::Text(kept));
        notes.cut(name, size);
    } else if matches!(&*payload, Some(Payload::Json(json)) if is_deep(json)) {
        notes.cut_levels(name, MAX_DEPTH);
    }
}

fn observation(source: &Source<'_>, ids: Ids, notes: &mut Notes) -> Observation {
    let attributes = source.attributes;
    let limits = &source.context.limits;
    let kind = kind::kind(source);
    let span = source.span;
    let arrived_at = source.context.arrived_at;
    let (start, end) = times::start_and_end(span.start_nanos, span.end_nanos, arrived_at, notes);
    let numbers = usage::numbers(source, kind, notes);
    let level = facts::level(source, notes);
    let mut status_message = facts::status_message(source, level);
    if let Some(message) = &mut status_message {
        notes.limit_chars("statusMessage", message, limits.max_status_chars);
    }
    let content = content_of(source, kind);
    let mut name = facts::name(source, kind).into_owned();
    notes.limit_name("name", &mut name, limits.max_name_chars, ids.id.as_str());
    // Whole in the metadata.
    let mut scope_name = source.scope.name.as_ref().to_owned();
    Notes::default().limit_name("scope", &mut scope_name, limits.max_name_chars, "");
    let (model, aggregate_model) = models(source, &numbers);
    Observation {
        trace_id: ids.trace_id,
        id: ids.id,
        parent_id: ids.parent_id,
        kind,
        name,
        start,
        end: Some(end),
        completion_start: times::completion_start(source, start, end, notes),
        level,
        status_message,
        environment: facts::environment(source, notes),
        release: facts::release(source),
        version: facts::version(source),
        user_id: facts::user_id(source, notes),
        session_id: facts::session_id(source, notes),
        tags: facts::tags(source, notes),
        model,
        provider: facts::provider(source),
        model_parameters: facts::parameters(source, kind),
        prompt: facts::prompt(source, kind),
        usage: numbers.usage,
        cost: numbers.cost,
        computed_cost: Default::default(),
        price_id: None,
        aggregate_usage: numbers.aggregate_usage,
        aggregate_model,
        aggregate_cost: numbers.aggregate_cost,
        aggregate_computed_cost: Default::default(),
        response_id: response_id(source, &content),
        scope_name,
        is_app_root: attributes.native("internal.is_app_root").is_some_and(is_true),
        as_root: attributes.native("internal.as_root").is_some_and(is_true),
        called_tools: Vec::new(),
        trace: trace_facts(source, notes),
        is_complete_marker: attributes.native("trace.complete").is_some_and(is_true),
        is_in_parts: false,
        experiment: experiment(source, notes),
        attribute_count: u32::try_from(span.attributes.pairs.len())
            .unwrap_or(u32::MAX)
            .saturating_add(span.attributes.n_over),
        has_content: content.input.is_some() || content.output.is_some(),
        content,
    }
}

/// The model of the span itself, and that of its descendants. An aggregate span has the first only with the native attribute.
fn models(source: &Source<'_>, numbers: &Numbers) -> (Option<String>, Option<String>) {
    let model = facts::model(source);
    if !numbers.is_aggregate() {
        return (model, None);
    }
    let native = source.attributes.native_text("observation.model.name");
    (native.map(str::to_owned), model)
}

fn content_of(source: &Source<'_>, kind: Kind) -> Content {
    let (input, output) = content::input_and_output(source, kind);
    let row = |chosen: &content::Chosen| chosen.as_ref().map_or(0, |(row, _)| *row);
    let (input_row, output_row) = (row(&input), row(&output));
    let output = output.map(|(_, payload)| payload);
    Content {
        input: input.map(|(_, payload)| payload),
        tool_definitions: tools::definitions(source.attributes),
        tool_calls: Vec::new(),
        output,
        metadata: Map::new(),
        // Log records may bring messages of a better row; what is better still needs none.
        system_instructions: (input_row == 0 || input_row >= DETAILS_ROW)
            .then(|| source.attributes.get(content::SYSTEM).map(default_json))
            .flatten(),
        input_row,
        output_row,
    }
}

fn response_id(source: &Source<'_>, content: &Content) -> Option<String> {
    const KEYS: [&str; 3] = ["gen_ai.response.id", "ai.response.id", "llm.openai.id"];
    if let Some(id) = source.attributes.first_text(&KEYS) {
        return Some(id.to_owned());
    }
    let text = source.attributes.text("output.value")?;
    // Only model calls of OpenInference; others put anything there.
    let is_call = source.attributes.text("openinference.span.kind") == Some("LLM");
    if !is_call || content.output.is_none() || !text.contains("\"id\"") {
        return None;
    }
    let id = json::parse(text)?.get("id")?.as_str()?.to_owned();
    (!id.is_empty()).then_some(id)
}

fn trace_facts(source: &Source<'_>, notes: &mut Notes) -> Option<Box<TraceFacts>> {
    let attributes = source.attributes;
    if attributes.natives().is_empty() {
        return None;
    }
    let payload = |suffix: &str| {
        attributes.native(suffix).map(|value| match value {
            Value::Text(text) | Value::Plain(text) => json::payload(text),
            other => Payload::from_value(other.to_json()),
        })
    };
    let name = attributes.native("trace.name").and_then(plain_text);
    let mut name = name.filter(|name| !name.trim().is_empty());
    if let Some(name) = &mut name {
        notes.limit_name("trace.name", name, source.context.limits.max_name_chars, "");
    }
    let facts = TraceFacts {
        name,
        input: payload("trace.input"),
        output: payload("trace.output"),
        metadata: metadata::of_trace(source),
        public: attributes.first_native(&["trace.public", "public"]).map(is_true),
        ..TraceFacts::default()
    };
    (facts != TraceFacts::default()).then(|| Box::new(facts))
}

fn experiment(source: &Source<'_>, notes: &mut Notes) -> Option<Box<ExperimentLink>> {
    let attributes = source.attributes;
    if attributes.native_with_prefix("experiment.").is_empty() {
        return None;
    }
    let text = |suffix: &str| attributes.native(suffix).and_then(plain_text);
    let mut id = |suffix: &str| {
        let mut id = text(suffix)?;
        notes.limit_id(suffix, &mut id);
        Some(id)
    };
    let metadata = |suffix: &str| {
        let mut merged = match attributes.native(suffix).map(default_json) {
            Some(Json::Object(object)) => object,
            Some(other) => return Some(other),
            None => Map::new(),
        };
        let prefix = format!("{suffix}.");
        for entry in attributes.native_with_prefix(&prefix) {
            merged.insert(entry.key[prefix.len()..].to_owned(), default_json(entry.value));
        }
        (!merged.is_empty()).then_some(Json::Object(merged))
    };
    let (experiment_id, dataset_id) = (id("experiment.id"), id("experiment.dataset.id"));
    let item_id = id("experiment.item.id");
    let item_root_observation_id = id("experiment.item.root_observation_id");
    let limits = &source.context.limits;
    let mut long = |suffix: &str, max_chars: usize| {
        let mut text = text(suffix)?;
        notes.limit_chars(suffix, &mut text, max_chars);
        Some(text)
    };
    let name = long("experiment.name", limits.max_name_chars);
    let description = long("experiment.description", limits.max_status_chars);
    let version = text("experiment.item.version");
    let item_version = version.as_deref().and_then(|text| Timestamp::parse(text).ok());
    if let (Some(text), None) = (&version, item_version) {
        notes.ignored("experiment.item.version", text, "a time");
    }
    let number = |suffix: &str| text(suffix).and_then(|text| text.parse().ok());
    let link = ExperimentLink {
        id: experiment_id,
        name,
        description,
        metadata: metadata("experiment.metadata"),
        dataset_id,
        item_id,
        item_version,
        item_expected_output: attributes
            .native("experiment.item.expected_output")
            .map(|value| Payload::from_value(default_json(value))),
        item_metadata: metadata("experiment.item.metadata"),
        item_root_observation_id,
        repetition: number("experiment.item.repetition"),
        attempt: number("experiment.item.attempt"),
    };
    (link != ExperimentLink::default()).then(|| Box::new(link))
}

fn scores_of(source: &Source<'_>, observation: &Observation, notes: &mut Notes) -> Vec<NewScore> {
    let place = ScoreContext {
        trace_id: &observation.trace_id,
        observation_id: &observation.id,
        environment: &observation.environment,
    };
    let results = source.span.events.iter().filter(|event| event.name == EVALUATION_RESULT);
    let of_events = results.enumerate().filter_map(|(index, event)| {
        let at = times::timestamp(event.time_nanos).unwrap_or(observation.start);
        let attributes = to_object(&event.attributes.pairs);
        scores::of_event(&place, &attributes, index, at)
    });
    let of_attributes = scores::of_attributes(&place, source.attributes, observation.start);
    let scores: Vec<NewScore> = of_events.chain(of_attributes).collect();
    for score in &scores {
        if let Some(Json::Object(cut)) = score.metadata.get(TRUNCATED)
            && let Some(size) = cut.get("name").and_then(Json::as_u64)
        {
            notes.cut("score.name", usize::try_from(size).unwrap_or(usize::MAX));
        }
    }
    scores
}
