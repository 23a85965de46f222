//! Traces of `--large`: one with many observations, one with many levels, and a session with many turns.

use perpend_domain::ids::IdSource;
use perpend_domain::time::Timestamp;
use serde_json::json;

use super::more::model;
use super::sample::{Timing, TraceBuilder, request};
use super::wire::{ExportTraceServiceRequest, text};

/// Documents of the indexing run, each with 5,000 observations.
const N_DOCUMENTS: u64 = 10;
const N_CHUNKS: u64 = 4_000;
const N_SECTIONS: u64 = 499;
/// Nested agents.
const N_LEVELS: u64 = 1_000;
/// Turns of the session.
const N_TURNS: u64 = 20_000;
/// Turns per request.
const PER_REQUEST: u64 = 4_000;

/// Descriptions and requests. The requests are generated lazily, to limit memory.
pub(super) fn all(
    ids: &dyn IdSource,
    now: Timestamp,
) -> [(&'static str, Box<dyn Iterator<Item = ExportTraceServiceRequest> + '_>); 3] {
    let now = u64::try_from(now.as_micros()).unwrap_or(0) * 1_000;
    [
        ("a trace of 50,000 observations", Box::new(indexing(ids, now))),
        ("a trace with 1,000 levels", Box::new(std::iter::once_with(move || deep(ids, now)))),
        ("a session of 20,000 turns", Box::new(session(ids, now))),
    ]
}

fn typed(kind: &str) -> Vec<super::wire::KeyValue> {
    vec![text("perpend.observation.type", kind)]
}

/// One request per document; the first one includes the root.
fn indexing(ids: &dyn IdSource, now: u64) -> impl Iterator<Item = ExportTraceServiceRequest> {
    let per_document = N_CHUNKS * 3 + N_SECTIONS * 40 + 100;
    let took = N_DOCUMENTS * per_document;
    let trace_id = ids.uuid().as_bytes().to_vec();
    let mut root = Vec::new();
    (0..N_DOCUMENTS).map(move |document| {
        let mut builder = TraceBuilder {
            ids,
            trace_id: trace_id.clone(),
            start: now - took * 1_000_000,
            spans: Vec::new(),
        };
        if document == 0 {
            let attributes = vec![
                text("perpend.observation.type", "chain"),
                text("perpend.observation.input", "Index the handbook."),
                text("perpend.observation.output", "Ten documents are indexed."),
                text("perpend.environment", "indexing"),
            ];
            root = builder.span(&[], "index handbook", &Timing(0, took), attributes);
        }
        let mut at = document * per_document;
        let name = format!("index document {}", document + 1);
        let chain = builder.span(&root, &name, &Timing(at, per_document), typed("chain"));
        builder.span(&chain, "read document", &Timing(at, 90), typed("tool"));
        at += 100;
        for chunk in 0..N_CHUNKS {
            // Some chunks are slower, in an irregular order.
            let took = 2 + chunk * 7_919 % 13 / 12 * 20;
            builder.span(&chain, "embed chunk", &Timing(at, took), typed("embedding"));
            at += 3;
        }
        for section in 0..N_SECTIONS {
            let prompt =
                json!([{ "role": "user", "content": format!("Summarise section {section}.") }]);
            let summary = format!("Section {section} of document {} is about mugs.", document + 1);
            let attributes = model("gpt-4o-mini", &prompt, &summary, (800, 40));
            builder.span(&chain, "summarise section", &Timing(at, 30), attributes);
            builder.span(&chain, "store summary", &Timing(at + 31, 8), typed("tool"));
            at += 40;
        }
        request(builder.spans)
    })
}

fn deep(ids: &dyn IdSource, now: u64) -> ExportTraceServiceRequest {
    let mut builder = TraceBuilder {
        ids,
        trace_id: ids.uuid().as_bytes().to_vec(),
        start: now - 10_000 * 1_000_000,
        spans: Vec::new(),
    };
    let mut parent = Vec::new();
    for level in 0..N_LEVELS {
        let attributes = vec![
            text("perpend.observation.type", "agent"),
            text("perpend.environment", "research"),
        ];
        let name = format!("ask colleague {}", level + 1);
        let timing = Timing(level * 4, (N_LEVELS - level) * 8);
        parent = builder.span(&parent, &name, &timing, attributes);
    }
    request(builder.spans)
}

fn session(ids: &dyn IdSource, now: u64) -> impl Iterator<Item = ExportTraceServiceRequest> {
    (0..N_TURNS / PER_REQUEST).map(move |part| {
        let mut spans = Vec::new();
        for turn in part * PER_REQUEST..(part + 1) * PER_REQUEST {
            let mut builder = TraceBuilder {
                ids,
                trace_id: ids.uuid().as_bytes().to_vec(),
                start: now - (N_TURNS - turn) * 30_000_000_000,
                spans: Vec::new(),
            };
            let attributes = vec![
                text("perpend.observation.input", format!("Question {}", turn + 1)),
                text("perpend.observation.output", format!("Answer {}", turn + 1)),
                text("user.id", "noor"),
                text("session.id", "chat-of-years"),
                text("perpend.environment", "shop"),
            ];
            builder.span(&[], "chat turn", &Timing(0, 900), attributes);
            spans.extend(builder.spans);
        }
        request(spans)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RandomIds;

    #[test]
    fn the_requests_have_the_described_numbers_of_observations_levels_and_turns() {
        let now = Timestamp::from_millis(1_790_000_000_000);
        let spans = |requests: Box<dyn Iterator<Item = ExportTraceServiceRequest> + '_>| {
            let spans = requests.flat_map(|request| {
                let scopes = request.resource_spans.into_iter();
                let scopes = scopes.flat_map(|resource| resource.scope_spans);
                scopes.flat_map(|scope| scope.spans).collect::<Vec<_>>()
            });
            spans.collect::<Vec<_>>()
        };
        let [many, deep, turns] = all(&RandomIds, now).map(|(_, requests)| spans(requests));
        assert_eq!((many.len(), deep.len(), turns.len()), (50_001, 1_000, 20_000));
        let roots = many.iter().chain(&deep);
        assert_eq!(roots.filter(|span| span.parent_span_id.is_empty()).count(), 2);
    }
}
