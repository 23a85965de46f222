//! Further traces of the demo: a conversation of many turns, an image, and an agent run with hundreds of observations, some of
//! which fail.

use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::sample::{Timing, TraceBuilder, request};
use super::wire::{ExportTraceServiceRequest, KeyValue, Span, Status, int, text};

/// Turns of the conversation.
const N_TURNS: usize = 30;
/// Rounds of the research agent, each with ten observations.
const N_ROUNDS: u64 = 40;

/// Questions and answers of the conversation, repeated.
const TURNS: [(&str, &str); 6] = [
    (
        "I am looking for a mug that keeps tea warm.",
        "The double-walled mug keeps tea warm for about an hour. It holds 0.4 litres.",
    ),
    ("Is it safe in the dishwasher?", "Yes, in the upper basket, without its lid."),
    ("Which colours are there?", "Blue, white and dark green. Of the green one three are left."),
    (
        "What does it cost with delivery to Graz?",
        "24.90, and 4.50 for the delivery to Austria, which takes three days.",
    ),
    (
        "Can I return it if my mother does not like it?",
        "Within 30 days, unused. The label for the way back is in the parcel.",
    ),
    (
        "Then I take the green one, and one in blue for me.",
        "Both are in your basket: 49.80 together. Shall I send them to the address in Graz?",
    ),
];

/// An image of a mug, as PNG.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAADAAAAAgCAIAAADbtmxLAAAARUlEQVR42u3XsQkAIAwAwQzmJE7sODbpncBCUAh48HW4KiGROUsVQECfgVofVwICehVQWdBuJhAQkD1kMbr2QED+MqDTFpVAoiRpXpPPAAAAAElFTkSuQmCC";

fn builder(ids: &dyn IdSource, start: u64) -> TraceBuilder<'_> {
    TraceBuilder { ids, trace_id: ids.uuid().as_bytes().to_vec(), start, spans: Vec::new() }
}

/// Attributes of a model call.
pub(super) fn model(name: &str, input: &Value, output: &str, tokens: (i64, i64)) -> Vec<KeyValue> {
    vec![
        text("gen_ai.operation.name", "chat"),
        text("gen_ai.system", "openai"),
        text("gen_ai.request.model", name),
        text("gen_ai.input.messages", input.to_string()),
        text("perpend.observation.output", output),
        int("gen_ai.usage.input_tokens", tokens.0),
        int("gen_ai.usage.output_tokens", tokens.1),
    ]
}

/// The turns of a session; the input of each generation is the conversation so far.
fn conversation(ids: &dyn IdSource, now: u64) -> Vec<Vec<Span>> {
    let mut messages = vec![json!({
        "role": "system", "content": "You help customers of a shop for mugs and lamps. Be short."
    })];
    let mut turns = Vec::new();
    for (turn, (question, answer)) in TURNS.iter().cycle().take(N_TURNS).enumerate() {
        let ago = (N_TURNS - turn) as u64 * 40_000_000_000;
        let mut builder = builder(ids, now - ago);
        // The first question has the image.
        let content = match turn {
            0 => json!([
                { "type": "text", "text": question },
                { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{PICTURE}") } },
            ]),
            _ => json!(question),
        };
        messages.push(json!({ "role": "user", "content": content }));
        let root = builder.span(
            &[],
            "chat turn",
            &Timing(0, 1_500),
            vec![
                text("perpend.observation.input", *question),
                text("perpend.observation.output", *answer),
                text("user.id", "noor"),
                text("session.id", "chat-noor"),
                text("perpend.environment", "shop"),
            ],
        );
        let tokens = (60 + 40 * turn as i64, 30);
        let attributes = model("gpt-4o-mini", &json!(messages), answer, tokens);
        builder.span(&root, "answer", &Timing(80, 1_300), attributes);
        messages.push(json!({ "role": "assistant", "content": answer }));
        turns.push(builder.spans);
    }
    turns
}

/// A research agent that plans, searches, embeds pages and takes notes in each round.
fn research(ids: &dyn IdSource, now: u64) -> Vec<Span> {
    let mut builder = builder(ids, now - N_ROUNDS * 2_500_000_000);
    let root = builder.span(
        &[],
        "compare suppliers",
        &Timing(0, N_ROUNDS * 2_400),
        vec![
            text("perpend.observation.type", "agent"),
            text("perpend.observation.input", "Which supplier delivers glazed mugs fastest?"),
            text(
                "perpend.observation.output",
                "Two of the forty suppliers deliver within a week. The cheaper one is in Faenza.",
            ),
            text("user.id", "purchasing"),
            text("perpend.environment", "research"),
        ],
    );
    for round in 0..N_ROUNDS {
        let at = round * 2_400;
        let name = format!("supplier {}", round + 1);
        let chain = vec![
            text("perpend.observation.type", "chain"),
            text("perpend.observation.input", name.clone()),
        ];
        let chain = builder.span(&root, "look at a supplier", &Timing(at, 2_300), chain);
        let question =
            json!([{ "role": "user", "content": format!("What do we need to know of {name}?") }]);
        let plan = model("gpt-4o", &question, "Prices, glazes, days until delivery.", (420, 60));
        builder.span(&chain, "plan", &Timing(at + 10, 600), plan);
        let search = vec![
            text("perpend.observation.type", "tool"),
            text("perpend.observation.input", json!({ "query": name }).to_string()),
            text(
                "perpend.observation.output",
                json!({ "pages": 5, "days": 5 + round * 7 % 23 }).to_string(),
            ),
        ];
        builder.span(&chain, "search", &Timing(at + 620, 300), search);
        if round % 9 == 4
            && let Some(tool) = builder.spans.last_mut()
        {
            let message = "the supplier's site did not answer within 300 ms".to_owned();
            tool.status = Some(Status { message, code: 2 });
        }
        for part in 0..6 {
            let embedding = vec![
                text("perpend.observation.type", "embedding"),
                text("perpend.observation.input", format!("{name}, page {}", part + 1)),
            ];
            let timing = Timing(at + 940 + part * 60, 40 + round % 5 * 4);
            builder.span(&chain, "embed page", &timing, embedding);
        }
        let notes =
            json!([{ "role": "user", "content": format!("Write down what matters of {name}.") }]);
        let noted = format!("{name} delivers in {} days.", 5 + round * 7 % 23);
        // One round uses many tokens, which makes it the most expensive one.
        let tokens = if round == 17 { (9_000, 2_400) } else { (700, 90) };
        let notes = model("gpt-4o", &notes, &noted, tokens);
        builder.span(&chain, "take notes", &Timing(at + 1_400, 850), notes);
    }
    builder.spans
}

/// One request per trace, with spans that end shortly before `now`.
pub(super) fn requests(ids: &dyn IdSource, now: Timestamp) -> Vec<ExportTraceServiceRequest> {
    let now = u64::try_from(now.as_micros()).unwrap_or(0) * 1_000;
    let mut traces = conversation(ids, now);
    traces.push(research(ids, now));
    traces.into_iter().map(request).collect()
}
