//! Whatever the bytes are: no panic, the same result twice, and nothing that depends on the order.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test says what is wrong by panicking"
)]

use perpend_domain::batch::Batch;
use perpend_domain::fold::fold;
use perpend_domain::pricing::PriceTable;
use perpend_otlp::{Context, Encoding, check_metrics, read_logs, read_traces, show};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Decodes as everything and maps; panics only where something is wrong.
fn survives(bytes: &[u8]) {
    let context = Context::default();
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        let _checked = check_metrics(bytes, encoding);
        let (mut batch, mut again) = (Batch::default(), Batch::default());
        let read = read_logs(bytes, encoding, &context, &mut batch);
        assert_eq!(read, read_logs(bytes, encoding, &context, &mut again));
        let read = read_traces(bytes, encoding, &context, &mut batch);
        assert_eq!(read, read_traces(bytes, encoding, &context, &mut again));
        assert_eq!(batch, again);
        let mut observations = batch.observations;
        for observation in &mut observations {
            PriceTable::default().apply(observation);
            for payload in
                [&observation.content.input, &observation.content.output].into_iter().flatten()
            {
                // What is called JSON is JSON to every later reader, and PostgreSQL can hold it.
                if let perpend_domain::payload::Payload::Json(text) = payload {
                    serde_json::from_str::<Value>(text).expect(text);
                }
                assert!(!payload.as_str().contains('\0'));
            }
        }
        // One version of each observation of one trace, as a store would hold them.
        observations.sort_by(|a, b| (&a.trace_id, &a.id).cmp(&(&b.trace_id, &b.id)));
        let first = observations.first().map(|o| o.trace_id.clone());
        observations.retain(|o| Some(&o.trace_id) == first.as_ref());
        observations.dedup_by(|b, a| a.trace_id == b.trace_id && a.id == b.id);
        let forward = fold(&observations);
        observations.reverse();
        assert_eq!(forward, fold(&observations));
        let _text = show::tree(&observations, forward.as_slice(), false);
    }
}

/// A protobuf message: fields of any number and kind, nested.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..20),
        "[a-z_.]{1,12}".prop_map(String::into_bytes),
        Just(vec![7; 16]),
        Just(vec![9; 8]),
        Just(b"gen_ai.input.messages".to_vec()),
        Just(b"[{\"role\":\"user\",\"content\":\"\\ud83d\"}]".to_vec()),
    ];
    leaf.prop_recursive(7, 120, 8, |inner| {
        let field =
            (1_u8..16, inner.prop_map(Some), any::<u64>()).prop_map(|(number, bytes, value)| {
                let mut out = Vec::new();
                match (bytes, value % 4) {
                    (_, 0) => {
                        out.push(number << 3 | 1);
                        out.extend(value.to_le_bytes());
                    }
                    (Some(bytes), _) if bytes.len() < 16_000 => {
                        out.push(number << 3 | 2);
                        let length = bytes.len();
                        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                        out.push(u8::try_from(length >> 7).unwrap());
                        out.extend(bytes);
                    }
                    _ => out.extend([number << 3, 1]),
                }
                out
            });
        prop::collection::vec(field, 0..8).prop_map(|fields| fields.concat())
    })
}

/// Keys that some rule reads, so that the rules meet odd values.
const KEYS: [&str; 30] = [
    "langfuse.observation.type",
    "langfuse.observation.input",
    "langfuse.observation.usage_details",
    "langfuse.observation.metadata.k",
    "langfuse.trace.metadata",
    "langfuse.trace.tags",
    "metadata",
    "openinference.span.kind",
    "gen_ai.operation.name",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.total_tokens",
    "gen_ai.aggregated_usage.output_tokens",
    "gen_ai.prompt.0.content",
    "gen_ai.prompt.99999999999999999999.a",
    "llm.input_messages.0.message.contents.0.message_content.type",
    "llm.input_messages.0.message.tool_calls",
    "retrieval.documents.1.document",
    "embedding.embeddings.0.embedding.vector",
    "ai.operationId",
    "ai.response.toolCalls",
    "ai.prompt.tools",
    "gen_ai.tool.definitions",
    "operation.cost",
    "gen_ai.response.time_to_first_chunk",
    "evaluations.0.evaluation.name",
    "logfire.level_num",
];

fn attribute_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        any::<i64>().prop_map(|n| json!({ "intValue": n.to_string() })),
        any::<f64>().prop_map(|n| json!({ "doubleValue": n })),
        any::<bool>().prop_map(|b| json!({ "boolValue": b })),
        ".{0,30}".prop_map(|text| json!({ "stringValue": text })),
        prop::sample::select(vec![
            "[{\"role\":\"user\"}]", "{\"a\":[1,{\"b\":null}]}", "LLM", "chat", "span", "ai.generateText", "[1e999]",
            "data:image/png;base64,AP8=", "[{\"type\":\"blob\",\"mime_type\":\"image/png\",\"content\":\"AP8=\"}]",
            "{\"prompt_tokens\":18446744073709551615,\"prompt_tokens_details\":{\"a\":18446744073709551615}}", "\"x", "[\"\\u0000\"]",
        ])
        .prop_map(|text| json!({ "stringValue": text })),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|v| json!({ "arrayValue": { "values": v } })),
            prop::collection::vec(("[a-z]{1,6}", inner), 0..4).prop_map(|pairs| {
                let pairs: Vec<Value> =
                    pairs.iter().map(|(k, v)| json!({ "key": k, "value": v })).collect();
                json!({ "kvlistValue": { "values": pairs } })
            }),
        ]
    })
}

fn span() -> impl Strategy<Value = Value> {
    let attribute = (prop::sample::select(KEYS.to_vec()), attribute_value())
        .prop_map(|(key, value)| json!({ "key": key, "value": value }));
    let attributes = prop::collection::vec(attribute, 0..12).boxed();
    let ids = (0_u8..4, 0_u8..5, any::<u64>(), any::<u64>());
    (ids, attributes.clone(), attributes).prop_map(|((id, parent, start, end), attributes, event)| {
        json!({
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": format!("00000000000000{:02x}", id + 1),
            "parentSpanId": format!("00000000000000{parent:02x}"), "name": "n",
            "startTimeUnixNano": start.to_string(), "endTimeUnixNano": end,
            "attributes": attributes,
            "events": [{ "name": "gen_ai.client.inference.operation.details", "attributes": event }],
        })
    })
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
    }

    #[test]
    fn any_protobuf_message_is_survived(bytes in message()) {
        survives(&bytes);
    }

    #[test]
    fn any_request_of_the_schema_is_survived_also_cut_and_changed(
        spans in prop::collection::vec(span(), 0..5), cut in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] }).to_string().into_bytes();
        survives(&body);
        let at = cut.index(body.len());
        body[at] = byte;
        survives(&body);
        body.truncate(at);
        survives(&body);
    }

    #[test]
    fn text_survives_byte_for_byte(text in "\\PC*") {
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [{
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0102030405060708",
            "attributes": [{ "key": "langfuse.observation.input", "value": { "stringValue": format!("x{text}") } }],
        }] }] }] }).to_string();
        let mut batch = Batch::default();
        read_traces(body.as_bytes(), Encoding::Json, &Context::default(), &mut batch).unwrap();
        let input = batch.observations[0].content.input.as_ref().unwrap();
        prop_assert_eq!(input.as_str(), format!("x{text}"));
    }
}
