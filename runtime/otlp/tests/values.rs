//! Values that are deep, long, or JSON held as text, and what is stored of them.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use perpend_domain::batch::Batch;
use perpend_domain::observation::Observation;
use perpend_otlp::respond::{ExportResponse, export_response};
use perpend_otlp::{Context, Encoding, read_logs, read_traces};
use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "0102030405060708";
const START: u64 = 1_800_000_000_000_000_000;

fn mapped(body: &[u8], encoding: Encoding) -> Observation {
    let mut batch = Batch::default();
    read_traces(body, encoding, &Context::default(), &mut batch).unwrap();
    batch.observations.remove(0)
}

/// The observation of a span whose attributes and events are OTLP/JSON.
fn one(attributes: &Value, events: &Value) -> Observation {
    let span =
        json!({ "traceId": TRACE, "spanId": SPAN, "attributes": attributes, "events": events });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    mapped(body.to_string().as_bytes(), Encoding::Json)
}

/// A field of a protobuf message that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len();
    let head = [
        number << 3 | 2,
        u8::try_from(length & 0x7f).unwrap() | 0x80,
        u8::try_from(length >> 7).unwrap(),
    ];
    [&head, bytes].concat()
}

fn nested(n_arrays: usize, inner: &str) -> String {
    format!("{}{inner}{}", "[".repeat(n_arrays), "]".repeat(n_arrays))
}

#[test]
fn a_blank_name_is_no_name() {
    for blank in ["", " ", "\n\n \t", "\u{3000}"] {
        let attributes = json!([
            { "key": "logfire.msg", "value": { "stringValue": blank } },
            { "key": "langfuse.trace.name", "value": { "stringValue": blank } },
        ]);
        let span =
            json!({ "traceId": TRACE, "spanId": SPAN, "name": blank, "attributes": attributes });
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
        let stored = mapped(body.to_string().as_bytes(), Encoding::Json);
        assert_eq!(stored.name, "unnamed");
        assert_eq!(stored.trace.and_then(|facts| facts.name), None);
    }
}

#[test]
fn structured_values_nest_as_deep_as_json_held_as_text() {
    for (n_arrays, kept) in [(64, nested(64, "1")), (65, nested(64, "null"))] {
        let mut json = json!({ "intValue": 1 });
        let mut protobuf = vec![3 << 3, 1];
        for _ in 0..n_arrays {
            json = json!({ "arrayValue": { "values": [json] } });
            protobuf = field(5, &field(1, &protobuf));
        }
        let pair = json!({ "key": "input.value", "value": json });
        let of_json = one(&json!([pair]), &json!([]));
        let text =
            json!({ "key": "input.value", "value": { "stringValue": nested(n_arrays, "1") } });
        let of_text = one(&json!([text]), &json!([]));

        let pair = [field(1, b"input.value"), field(2, &protobuf)].concat();
        let span = [field(1, &[7; 16]), field(2, &[9; 8]), field(9, &pair)].concat();
        let body = field(1, &field(2, &field(2, &span)));
        let of_protobuf = mapped(&body, Encoding::Protobuf);
        for observation in [of_json, of_text, of_protobuf] {
            let notes = observation.content.metadata.get("truncated");
            assert_eq!(notes.is_some(), n_arrays == 65, "{notes:?}");
            let input = observation.content.input.unwrap();
            assert_eq!(input.as_str(), kept);
        }
    }
}

#[test]
fn long_number_arrays_are_noted_inside_of_objects_too() {
    let numbers: Vec<Value> = vec![json!({ "intValue": 1 }); 257];
    let members = json!([
        { "key": "vector", "value": { "arrayValue": { "values": numbers } } },
        { "key": "size", "value": { "intValue": 257 } },
        { "key": "nothing", "value": {} },
    ]);
    let attributes = json!([{ "key": "found", "value": { "kvlistValue": { "values": members } } }]);
    let observation = one(&attributes, &json!([]));
    assert_eq!(
        observation.content.metadata["attributes"]["found"],
        json!({ "vector": "[257 numbers]", "size": 257 })
    );
}

#[test]
fn all_attributes_of_a_content_event_are_taken_and_json_held_as_text_is_json() {
    let event = json!([{ "name": "gen_ai.content.prompt", "attributes": [
        { "key": "foo", "value": { "stringValue": "[{\"role\":\"user\"}]" } },
        { "key": "perpend.x", "value": { "stringValue": "y" } },
    ] }]);
    let input = one(&json!([]), &event).content.input.unwrap();
    assert_eq!(input.to_value(), json!({ "foo": [{ "role": "user" }], "perpend.x": "y" }));
}

#[test]
fn log_records_of_one_request_are_ordered_by_their_nanoseconds() {
    let record = |nanos: u64, text: &str| {
        json!({
            "traceId": TRACE, "spanId": SPAN, "eventName": "gen_ai.user.message",
            "timeUnixNano": nanos.to_string(), "body": { "kvlistValue": { "values": [
                { "key": "content", "value": { "stringValue": text } },
            ] } },
        })
    };
    let later = json!({ "logRecords": [record(START + 900, "c"), record(START + 500, "b")] });
    let first = json!({ "logRecords": [record(START + 100, "a"), record(0, "d")] });
    let body = json!({ "resourceLogs": [{ "scopeLogs": [later] }, { "scopeLogs": [first] }] });
    let body = body.to_string();
    let mut batch = Batch::default();
    read_logs(body.as_bytes(), Encoding::Json, &Context::default(), &mut batch).unwrap();
    let contents: Vec<&Value> = batch.logs.iter().map(|log| &log.attributes["content"]).collect();
    assert_eq!(contents, ["a", "b", "c", "d"]);
}

#[test]
fn log_records_on_the_path_of_traces_are_named_in_the_error() {
    let logs = include_bytes!("../../../tests/corpus/otlp/otel-openai-v2-logs.pb");
    let mut batch = Batch::default();
    let mut read = |body| read_traces(body, Encoding::Protobuf, &Context::default(), &mut batch);
    let taken = read(logs).unwrap();
    let ExportResponse::AllRejected(refused) = export_response(&taken, Encoding::Protobuf) else {
        panic!("{taken:?}");
    };
    assert!(refused.contains("this endpoint takes OTLP traces"), "{refused}");
    let refused = read(b"\x0b").unwrap_err().to_string();
    assert!(refused.contains("not a protobuf message"), "{refused}");
}
