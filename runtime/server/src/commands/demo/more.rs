//! What the demo sends beside the tickets, so that the pages show something at once: a conversation of many turns, a
//! picture, and an agent that takes hundreds of steps, some of which fail.

use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::sample::{Draft, Moment, request};
use super::wire::{ExportRequest, KeyValue, Span, Status, int, text};

/// Turns of the conversation.
const N_TURNS: usize = 30;
/// Rounds of the agent that searches, of ten steps each with the round itself.
const N_ROUNDS: u64 = 40;

/// What is asked in the conversation, and answered; turn after turn, from the beginning again.
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

/// A drawing of a mug, as a PNG.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAADAAAAAgCAIAAADbtmxLAAAARUlEQVR42u3XsQkAIAwAwQzmJE7sODbpncBCUAh48HW4KiGROUsVQECfgVofVwICehVQWdBuJhAQkD1kMbr2QED+MqDTFpVAoiRpXpPPAAAAAElFTkSuQmCC";

fn draft(ids: &dyn IdSource, begun: u64) -> Draft<'_> {
    Draft { ids, trace_id: ids.uuid().as_bytes().to_vec(), begun, spans: Vec::new() }
}

/// What is recorded of a call of a model.
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

/// The turns of one session: each generation is given all that was said before.
fn conversation(ids: &dyn IdSource, now: u64) -> Vec<Vec<Span>> {
    let mut said = vec![json!({
        "role": "system", "content": "You help customers of a shop for mugs and lamps. Be short."
    })];
    let mut turns = Vec::new();
    for (turn, (asked, answered)) in TURNS.iter().cycle().take(N_TURNS).enumerate() {
        let ago = (N_TURNS - turn) as u64 * 40_000_000_000;
        let mut draft = draft(ids, now - ago);
        // The picture comes with the first question.
        let content = match turn {
            0 => json!([
                { "type": "text", "text": asked },
                { "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{PICTURE}") } },
            ]),
            _ => json!(asked),
        };
        said.push(json!({ "role": "user", "content": content }));
        let root = draft.span(
            &[],
            "chat turn",
            &Moment(0, 1_500),
            vec![
                text("perpend.observation.input", *asked),
                text("perpend.observation.output", *answered),
                text("user.id", "noor"),
                text("session.id", "chat-noor"),
                text("perpend.environment", "shop"),
            ],
        );
        let tokens = (60 + 40 * turn as i64, 30);
        let attributes = model("gpt-4o-mini", &json!(said), answered, tokens);
        draft.span(&root, "answer", &Moment(80, 1_300), attributes);
        said.push(json!({ "role": "assistant", "content": answered }));
        turns.push(draft.spans);
    }
    turns
}

/// An agent that searches in rounds: it plans, searches, reads what it found and takes notes.
fn research(ids: &dyn IdSource, now: u64) -> Vec<Span> {
    let mut draft = draft(ids, now - N_ROUNDS * 2_500_000_000);
    let root = draft.span(
        &[],
        "compare suppliers",
        &Moment(0, N_ROUNDS * 2_400),
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
        let chain = draft.span(&root, "look at a supplier", &Moment(at, 2_300), chain);
        let asked =
            json!([{ "role": "user", "content": format!("What do we need to know of {name}?") }]);
        let plan = model("gpt-4o", &asked, "Prices, glazes, days until delivery.", (420, 60));
        draft.span(&chain, "plan", &Moment(at + 10, 600), plan);
        let search = vec![
            text("perpend.observation.type", "tool"),
            text("perpend.observation.input", json!({ "query": name }).to_string()),
            text(
                "perpend.observation.output",
                json!({ "pages": 5, "days": 5 + round * 7 % 23 }).to_string(),
            ),
        ];
        draft.span(&chain, "search", &Moment(at + 620, 300), search);
        if round % 9 == 4
            && let Some(tool) = draft.spans.last_mut()
        {
            let message = "the supplier's site did not answer within 300 ms".to_owned();
            tool.status = Some(Status { message, code: 2 });
        }
        for part in 0..6 {
            let embedding = vec![
                text("perpend.observation.type", "embedding"),
                text("perpend.observation.input", format!("{name}, page {}", part + 1)),
            ];
            let moment = Moment(at + 940 + part * 60, 40 + round % 5 * 4);
            draft.span(&chain, "embed page", &moment, embedding);
        }
        let notes =
            json!([{ "role": "user", "content": format!("Write down what matters of {name}.") }]);
        let noted = format!("{name} delivers in {} days.", 5 + round * 7 % 23);
        // One round thinks for long: it is the step that cost most.
        let tokens = if round == 17 { (9_000, 2_400) } else { (700, 90) };
        let notes = model("gpt-4o", &notes, &noted, tokens);
        draft.span(&chain, "take notes", &Moment(at + 1_400, 850), notes);
    }
    draft.spans
}

/// A request for each trace, ended a moment before `now`.
pub(super) fn requests(ids: &dyn IdSource, now: Timestamp) -> Vec<ExportRequest> {
    let now = u64::try_from(now.as_micros()).unwrap_or(0) * 1_000;
    let mut traces = conversation(ids, now);
    traces.push(research(ids, now));
    traces.into_iter().map(request).collect()
}
