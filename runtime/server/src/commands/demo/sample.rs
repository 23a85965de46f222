//! The sample application: a support agent that classifies a ticket, looks up the order and answers. Some tickets fail.

use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;

use super::wire::{
    ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans,
    Span, Status, int, text,
};

/// A ticket and the results of the agent.
struct Ticket {
    question: &'static str,
    intent: &'static str,
    /// The correct intent.
    expected_intent: &'static str,
    order: &'static str,
    answer: &'static str,
    user: &'static str,
    fails: bool,
}

const TICKETS: &[Ticket] = &[
    Ticket {
        question: "My parcel 4711 has not arrived. Where is it?",
        intent: "delivery",
        expected_intent: "delivery",
        order: r#"{"order": 4711, "status": "in transit", "eta": "2026-03-04"}"#,
        answer: "Your order 4711 is on its way and should reach you on 4 March. The tracking page shows each stop.",
        user: "maria",
        fails: false,
    },
    Ticket {
        question: "I want my money back for order 4712, the lamp is broken.",
        intent: "refund",
        expected_intent: "refund",
        order: r#"{"order": 4712, "status": "delivered", "total": 49.9}"#,
        answer: "I am sorry about the lamp. Your refund of 49.90 for order 4712 has been started and takes three days.",
        user: "jonas",
        fails: false,
    },
    Ticket {
        question: "You charged me twice for order 4713!",
        intent: "delivery",
        expected_intent: "billing",
        order: r#"{"order": 4713, "status": "delivered", "payments": [20, 20]}"#,
        answer: "Your parcel has been delivered.",
        user: "ayse",
        fails: false,
    },
    Ticket {
        question: "Can I change the address of order 4714?",
        intent: "delivery",
        expected_intent: "delivery",
        // The output of the tool is truncated.
        order: r#"{"order": 4714, "status": "pack"#,
        answer: "As an AI language model I cannot access your order. Please contact support.",
        user: "li",
        fails: true,
    },
    Ticket {
        question: "Do you have the blue mug in stock?",
        intent: "product",
        expected_intent: "product",
        order: r#"{"order": null, "stock": {"blue mug": 12}}"#,
        answer: "Yes, twelve blue mugs are in stock. An order placed today leaves our house tomorrow.",
        user: "maria",
        fails: false,
    },
];

/// Traces in the sample.
pub(super) const N_TRACES: usize = TICKETS.len();

/// Builds the spans of a trace.
pub(super) struct TraceBuilder<'a> {
    pub(super) ids: &'a dyn IdSource,
    pub(super) trace_id: Vec<u8>,
    /// Start of the trace, in nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) spans: Vec<Span>,
}

/// Start relative to the trace, and duration, in milliseconds.
pub(super) struct Timing(pub(super) u64, pub(super) u64);

impl TraceBuilder<'_> {
    /// Adds a span and returns its id.
    pub(super) fn span(
        &mut self,
        parent: &[u8],
        name: &str,
        at: &Timing,
        attributes: Vec<KeyValue>,
    ) -> Vec<u8> {
        let span_id = self.ids.uuid().as_bytes()[..8].to_vec();
        let start = self.start + at.0 * 1_000_000;
        self.spans.push(Span {
            trace_id: self.trace_id.clone(),
            span_id: span_id.clone(),
            parent_span_id: parent.to_vec(),
            name: name.to_owned(),
            start_time_unix_nano: start,
            end_time_unix_nano: start + at.1 * 1_000_000,
            attributes,
            ..Span::default()
        });
        span_id
    }
}

fn message(role: &str, content: &str) -> String {
    serde_json::json!([{ "role": role, "content": content }]).to_string()
}

fn spans(ticket: &Ticket, ids: &dyn IdSource, start: u64) -> Vec<Span> {
    let trace_id = ids.uuid().as_bytes().to_vec();
    let mut builder = TraceBuilder { ids, trace_id, start, spans: Vec::new() };
    let root = builder.span(
        &[],
        "support ticket",
        &Timing(0, 1_900),
        vec![
            text("perpend.observation.type", "agent"),
            text("perpend.observation.input", ticket.question),
            text("perpend.observation.output", ticket.answer),
            text("user.id", ticket.user),
            text("session.id", format!("chat-{}", ticket.user)),
            text("perpend.environment", "demo"),
        ],
    );
    builder.span(
        &root,
        "classify intent",
        &Timing(40, 310),
        vec![
            text("gen_ai.operation.name", "chat"),
            text("gen_ai.system", "openai"),
            text("gen_ai.request.model", "gpt-4o-mini"),
            text("gen_ai.input.messages", message("user", ticket.question)),
            text("perpend.observation.output", ticket.intent),
            text("perpend.observation.metadata.expected_intent", ticket.expected_intent),
            int("gen_ai.usage.input_tokens", 180),
            int("gen_ai.usage.output_tokens", 3),
            text("perpend.environment", "demo"),
        ],
    );
    builder.span(
        &root,
        "look up order",
        &Timing(380, 220),
        vec![
            text("perpend.observation.type", "tool"),
            text("perpend.observation.input", ticket.question),
            text("perpend.observation.output", ticket.order),
            text("perpend.environment", "demo"),
        ],
    );
    if let Some(tool) = builder.spans.last_mut().filter(|_| ticket.fails) {
        let message = "the answer of the order service was cut off".to_owned();
        tool.status = Some(Status { message, code: 2 });
    }
    builder.span(
        &root,
        "write answer",
        &Timing(640, 1_200),
        vec![
            text("gen_ai.operation.name", "chat"),
            text("gen_ai.system", "openai"),
            text("gen_ai.request.model", "gpt-4o"),
            text("gen_ai.input.messages", message("user", ticket.question)),
            text("perpend.observation.output", ticket.answer),
            int("gen_ai.usage.input_tokens", 640),
            int("gen_ai.usage.output_tokens", 38),
            text("perpend.environment", "demo"),
        ],
    );
    builder.spans
}

/// One OTLP request per ticket, with spans that end shortly before `now`.
pub(super) fn requests(ids: &dyn IdSource, now: Timestamp) -> Vec<ExportTraceServiceRequest> {
    let now_nanos = u64::try_from(now.as_micros()).unwrap_or(0) * 1_000;
    let second = 1_000_000_000;
    let request_of = |(at, ticket): (usize, &Ticket)| {
        let start = now_nanos - (TICKETS.len() - at) as u64 * 3 * second;
        request(spans(ticket, ids, start))
    };
    TICKETS.iter().enumerate().map(request_of).collect()
}

/// An OTLP request with these spans.
pub(super) fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
    let name = "support-agent";
    let scope = InstrumentationScope { name: name.to_owned(), ..InstrumentationScope::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    let attributes = vec![text("service.name", name)];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}
