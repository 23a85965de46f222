//! What the demo tells: customers write to a support agent, which classifies, looks up and answers.
//! Some of it goes wrong, so that the scores have something to say.

use assay_domain::ids::IdSource;
use assay_domain::time::Timestamp;

use super::otlp::{ExportRequest, KeyValue, Resource, ResourceSpans, Scope, ScopeSpans, Span, Status};

/// One conversation turn.
struct Turn {
    user: &'static str,
    question: &'static str,
    /// What the classifier should say, and what it says.
    expected_intent: &'static str,
    intent: &'static str,
    /// The order as the extraction step writes it: JSON, or what it wrote instead.
    order: &'static str,
    answer: &'static str,
    /// The shop's system failed.
    lookup_failed: bool,
}

const TURNS: &[Turn] = &[
    Turn {
        user: "maria",
        question: "Where is my order 1001?",
        expected_intent: "order-status",
        intent: "order-status",
        order: r#"{"order":"1001","action":"status"}"#,
        answer: "Order #1001 left our warehouse on Tuesday and should reach you tomorrow.",
        lookup_failed: false,
    },
    Turn {
        user: "tom",
        question: "I want my money back for order 1002, the lamp arrived broken.",
        expected_intent: "refund",
        intent: "refund",
        order: r#"{"order":"1002","action":"refund"}"#,
        answer: "I am sorry about the lamp. The refund for order #1002 is on its way to your card.",
        lookup_failed: false,
    },
    Turn {
        user: "aiko",
        question: "Can I still change the address for order 1003?",
        expected_intent: "change-address",
        intent: "order-status",
        order: r#"{"order":"1003","action":"status"}"#,
        answer: "Order #1003 is being packed.",
        lookup_failed: false,
    },
    Turn {
        user: "liam",
        question: "Do you ship to Norway?",
        expected_intent: "shipping",
        intent: "shipping",
        order: "There is no order in this message.",
        answer: "Yes, we ship to Norway; it takes four to six working days.",
        lookup_failed: false,
    },
    Turn {
        user: "maria",
        question: "Order 1001 still has not come!",
        expected_intent: "order-status",
        intent: "order-status",
        order: r#"{"order":"1001","action":"status"}"#,
        answer: "As an AI language model I cannot look that up right now. Orders can be late for many reasons: the \
                 weather, the carrier, customs, a wrong address, a full depot. Please be patient and try again at a \
                 later time, or write to us once more if it has not come by then.",
        lookup_failed: true,
    },
    Turn {
        user: "zoe",
        question: "Please cancel order 1004.",
        expected_intent: "cancel",
        intent: "cancel",
        order: r#"{"order":"1004"}"#,
        answer: "Done: order #1004 is cancelled and nothing will be charged.",
        lookup_failed: false,
    },
];

/// Traces the story has.
pub(super) const N_TRACES: usize = TURNS.len();
/// What an answer must not say.
pub(super) const EXCUSES: &[&str] = &["as an AI", "I cannot"];
/// Pattern of an order number in an answer.
pub(super) const ORDER_NUMBER: &str = r"#(\d{4})";

/// The story as one export request, ended just before `now`.
pub(super) fn request(now: Timestamp, ids: &dyn IdSource) -> ExportRequest {
    let spans = TURNS
        .iter()
        .enumerate()
        .flat_map(|(at, turn)| {
            let end = now.plus_millis(-1_000 * (TURNS.len() - at) as i64);
            spans(turn, end, ids)
        })
        .collect();
    let resource = Resource {
        attributes: vec![
            KeyValue::text("service.name", "support-agent"),
            KeyValue::text("service.version", "1.4.2"),
            KeyValue::text("deployment.environment.name", "production"),
        ],
    };
    let scope = Scope { name: "support-agent".to_owned() };
    ExportRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
        }],
    }
}

/// Where a step stands within its turn, in milliseconds after the turn's start.
struct Step {
    name: &'static str,
    from: i64,
    to: i64,
    attributes: Vec<KeyValue>,
}

const TURN_MS: i64 = 2_300;

fn spans(turn: &Turn, end: Timestamp, ids: &dyn IdSource) -> Vec<Span> {
    let trace_id = ids.uuid().into_bytes().to_vec();
    let span_id = || ids.uuid().into_bytes()[..8].to_vec();
    let nanos = |at: Timestamp| at.as_micros().unsigned_abs() * 1_000;
    let start = end.plus_millis(-TURN_MS);
    let root_id = span_id();
    let root = Span {
        trace_id: trace_id.clone(),
        span_id: root_id.clone(),
        parent_span_id: Vec::new(),
        name: "support-turn".to_owned(),
        start_time_unix_nano: nanos(start),
        end_time_unix_nano: nanos(end),
        attributes: vec![
            KeyValue::text("assay.observation.type", "agent"),
            KeyValue::text("assay.observation.input", turn.question),
            KeyValue::text("assay.observation.output", turn.answer),
            KeyValue::text("user.id", turn.user),
            KeyValue::text("session.id", format!("chat-{}", turn.user)),
            KeyValue::text("assay.trace.tags", r#"["demo"]"#),
        ],
        status: None,
    };
    let steps = [classify(turn), extract(turn), lookup(turn), answer(turn)];
    let children = steps.into_iter().map(|step| Span {
        trace_id: trace_id.clone(),
        span_id: span_id(),
        parent_span_id: root_id.clone(),
        name: step.name.to_owned(),
        start_time_unix_nano: nanos(start.plus_millis(step.from)),
        end_time_unix_nano: nanos(start.plus_millis(step.to)),
        status: (turn.lookup_failed && step.name == "lookup-order")
            .then(|| Status { code: 2, message: "the shop's system did not answer in 800 ms".to_owned() }),
        attributes: step.attributes,
    });
    std::iter::once(root).chain(children).collect()
}

/// A model call: messages in, text out, tokens counted.
fn model_call(system: &str, user: &str, output: &str) -> Vec<KeyValue> {
    let messages = serde_json::json!([
        {"role": "system", "content": system},
        {"role": "user", "content": user},
    ]);
    let n_tokens = |text: &str| i64::try_from(text.len() / 4 + 1).unwrap_or(i64::MAX);
    vec![
        KeyValue::text("gen_ai.operation.name", "chat"),
        KeyValue::text("gen_ai.provider.name", "openai"),
        KeyValue::text("gen_ai.request.model", "gpt-4o-mini"),
        KeyValue::text("gen_ai.response.model", "gpt-4o-mini-2024-07-18"),
        KeyValue::int("gen_ai.usage.input_tokens", n_tokens(system) + n_tokens(user)),
        KeyValue::int("gen_ai.usage.output_tokens", n_tokens(output)),
        KeyValue::text("assay.observation.input", messages.to_string()),
        KeyValue::text("assay.observation.output", output),
    ]
}

fn classify(turn: &Turn) -> Step {
    let mut attributes = model_call("Name the customer's intent in one word.", turn.question, turn.intent);
    // The application knows the right answer here: a rule maps it to the expected output.
    attributes.push(KeyValue::text("assay.observation.metadata.expected_intent", turn.expected_intent));
    Step { name: "classify", from: 10, to: 420, attributes }
}

fn extract(turn: &Turn) -> Step {
    let attributes = model_call("Write the order as JSON: order, action.", turn.question, turn.order);
    Step { name: "extract-order", from: 430, to: 900, attributes }
}

fn lookup(turn: &Turn) -> Step {
    let attributes = vec![
        KeyValue::text("assay.observation.type", "tool"),
        KeyValue::text("gen_ai.tool.name", "lookup-order"),
        KeyValue::text("assay.observation.input", turn.order),
        KeyValue::text(
            "assay.observation.output",
            if turn.lookup_failed { "" } else { r#"{"state":"found"}"# },
        ),
    ];
    Step { name: "lookup-order", from: 910, to: 1_700, attributes }
}

fn answer(turn: &Turn) -> Step {
    let attributes = model_call("Answer the customer briefly and kindly.", turn.question, turn.answer);
    Step { name: "answer", from: 1_710, to: 2_280, attributes }
}
