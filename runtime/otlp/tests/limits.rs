//! Every limit on a field: what is kept is stored, and the metadata and the response name the field.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use perpend_domain::batch::Batch;
use perpend_domain::ids::fits;
use perpend_domain::observation::Observation;
use perpend_domain::patch::merge;
use perpend_otlp::respond::{ExportResponse, export_response};
use perpend_otlp::{Context, Encoding, Event, Limits, MappingReport, read_event, read_traces};
use serde_json::{Map, Value, json};

const START: &str = "1800000000000000000";

fn long(n: usize) -> String {
    "x".repeat(n)
}

/// The observation of a span with these members and attributes of text.
fn read(members: &Value, attributes: &Value) -> (Observation, MappingReport) {
    let text = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::Number(number) => json!({ "doubleValue": number }),
            value => json!({ "stringValue": value }),
        };
        json!({ "key": key, "value": value })
    };
    let mut span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0102030405060708", "name": "step",
        "startTimeUnixNano": START, "endTimeUnixNano": "1800000001000000000",
        "attributes": attributes.as_object().unwrap().iter().map(text).collect::<Vec<_>>(),
    });
    for (name, value) in members.as_object().unwrap() {
        span[name] = value.clone();
    }
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "scope": { "name": "lib" }, "spans": [span] }] }] });
    let (mut batch, body) = (Batch::default(), body.to_string());
    let taken =
        read_traces(body.as_bytes(), Encoding::Json, &Context::default(), &mut batch).unwrap();
    (batch.observations.remove(0), taken)
}

fn names_field(metadata: &Map<String, Value>, field: &str) -> bool {
    let notes = ["truncated", "notices"].into_iter();
    let mut notes = notes.filter_map(|key| metadata.get(key)?.as_object());
    notes.any(|notes| notes.keys().any(|key| key.starts_with(field)))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of all fields")]
fn every_change_of_a_span_is_named_in_its_metadata_and_in_the_answer() {
    let native = |suffix: &str, value: Value| json!({ format!("langfuse.{suffix}"): value });
    let many = |n: usize, item: Value| json!(vec![item; n]);
    let cases = [
        (json!({ "name": long(2_000) }), json!({}), "name"),
        (json!({ "status": { "code": 2, "message": long(20_000) } }), json!({}), "statusMessage"),
        (json!({}), native("observation.status_message", long(20_000).into()), "statusMessage"),
        (json!({}), json!({ "session.id": long(900) }), "sessionId"),
        (json!({}), json!({ "user.id": long(900) }), "userId"),
        (json!({}), json!({ "gen_ai.conversation.id": "字".repeat(500) }), "sessionId"),
        (json!({}), native("trace.tags", json!(format!("{}, b", long(300)))), "tags"),
        (
            json!({}),
            native(
                "trace.tags",
                json!((0..150).map(|n| n.to_string()).collect::<Vec<_>>().join(",")),
            ),
            "tags",
        ),
        (json!({}), native("environment", long(50).into()), "environment"),
        (json!({}), native("environment", "pro duction!".into()), "environment"),
        (json!({}), native("observation.level", "LOUD".into()), "level"),
        (json!({}), native("trace.name", long(2_000).into()), "trace.name"),
        (json!({}), native("release", long(900).into()), "release"),
        (json!({}), native("version", long(900).into()), "version"),
        (json!({}), native("observation.model.name", long(900).into()), "model"),
        (json!({}), json!({ "gen_ai.provider.name": long(900) }), "provider"),
        (json!({}), json!({ "gen_ai.response.id": long(900) }), "responseId"),
        (
            json!({}),
            json!({ "langfuse.observation.type": "generation", "langfuse.observation.prompt.name": long(900) }),
            "promptName",
        ),
        (json!({}), native("experiment.id", long(900).into()), "experiment.id"),
        (json!({}), native("experiment.name", long(2_000).into()), "experiment.name"),
        (
            json!({}),
            native("experiment.description", long(20_000).into()),
            "experiment.description",
        ),
        (json!({}), native("experiment.dataset.id", long(900).into()), "experiment.dataset.id"),
        (json!({}), native("experiment.item.id", long(900).into()), "experiment.item.id"),
        (
            json!({}),
            native("experiment.item.version", "yesterday".into()),
            "experiment.item.version",
        ),
        (
            json!({}),
            native("experiment.item.root_observation_id", long(900).into()),
            "experiment.item.root_observation_id",
        ),
        (json!({}), native("observation.input", long(11 << 20).into()), "input"),
        (json!({}), native("trace.output", long(11 << 20).into()), "trace.output"),
        (json!({}), native("observation.metadata.big", long(70_000).into()), "big"),
        (json!({}), native("trace.metadata.big", long(70_000).into()), "trace.metadata.big"),
        (json!({}), json!({ "own": long(70_000) }), "attributes.own"),
        (
            json!({}),
            native(
                "observation.metadata.deep",
                format!("{}1{}", "[".repeat(100), "]".repeat(100)).into(),
            ),
            "deep",
        ),
        (json!({ "events": many(100, json!({ "name": "e" })) }), json!({}), "events"),
        (
            json!({ "links": many(200, json!({ "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0102030405060709" })) }),
            json!({}),
            "links",
        ),
        (
            json!({}),
            Value::Object((0..3_000).map(|n| (format!("k{n}"), n.into())).collect()),
            "attributes",
        ),
        (json!({ "startTimeUnixNano": "1000000000" }), json!({}), "startTime"),
        (json!({ "startTimeUnixNano": "4200000000000000000" }), json!({}), "startTime"),
        (json!({ "endTimeUnixNano": "1000000000" }), json!({}), "endTime"),
        (
            json!({}),
            native("observation.completion_start_time", "2020-01-01T00:00:00Z".into()),
            "completionStartTime",
        ),
        (
            json!({}),
            native("observation.usage_details", r#"{"input":-1,"output":2}"#.into()),
            "usageDetails.input",
        ),
        (
            json!({}),
            native("observation.cost_details", r#"{"input":-1,"output":2}"#.into()),
            "costDetails.input",
        ),
        (
            json!({}),
            json!({ "gen_ai.usage.input_tokens": -5.0, "gen_ai.operation.name": "chat" }),
            "usage.input_tokens",
        ),
    ];
    for (members, attributes, field) in cases {
        let (observation, taken) = read(&members, &attributes);
        assert!(
            names_field(&observation.content.metadata, field),
            "{field} is not in the metadata"
        );
        assert_eq!((taken.n_accepted, taken.n_changed), (1, 1), "{field}");
        let named = taken.changes.iter().any(|change| change.text.starts_with(field));
        assert!(named, "{field}: {:?}", taken.changes);
        let ExportResponse::Accepted(body) = export_response(&taken, Encoding::Json) else {
            panic!("{field}: the span is stored");
        };
        let body: Value = serde_json::from_slice(&body).unwrap();
        let message = body["partialSuccess"]["errorMessage"].as_str().unwrap();
        assert!(message.contains(field) && message.len() <= 1_024, "{message}");
    }
}

#[test]
fn a_span_within_the_limits_is_stored_as_it_is_and_the_answer_is_empty() {
    let attributes = json!({
        "session.id": long(800), "user.id": long(800), "langfuse.environment": "Staging", "langfuse.trace.tags": "a,b",
        "langfuse.observation.completion_start_time": "2027-01-15T08:00:00.5Z", "gen_ai.usage.input_tokens": 5.0,
    });
    let (observation, taken) = read(&json!({}), &attributes);
    assert_eq!(taken.n_changed, 0, "{:?}", taken.changes);
    assert_eq!(export_response(&taken, Encoding::Json), ExportResponse::Accepted(b"{}".to_vec()));
    assert_eq!(observation.session_id.unwrap().len(), 800);
    assert_eq!(observation.user_id.unwrap().len(), 800);
}

#[test]
fn sessions_and_users_with_long_ids_that_begin_alike_stay_apart() {
    let ids = |end: &str| {
        let attributes = json!({ "session.id": long(900) + end, "user.id": long(900) + end });
        let (observation, _) = read(&json!({}), &attributes);
        (observation.session_id.unwrap(), observation.user_id.unwrap())
    };
    let (one, other) = (ids("1"), ids("2"));
    assert!(one.0 != other.0 && one.1 != other.1);
    assert!(fits(&one.0) && 200 < one.0.len());
    assert_eq!(one, ids("1"));
}

#[test]
fn every_change_of_an_event_is_named_in_its_metadata() {
    let cases = [
        ("name", json!({ "name": long(2_000) })),
        ("statusMessage", json!({ "statusMessage": long(20_000) })),
        ("environment", json!({ "environment": long(50) })),
        ("environment", json!({ "environment": "pro duction!" })),
        ("model", json!({ "model": long(900) })),
        ("version", json!({ "version": long(900) })),
        ("promptName", json!({ "promptName": long(900), "promptVersion": 1 })),
        ("input", json!({ "input": long(11 << 20) })),
        ("output", json!({ "output": long(11 << 20) })),
        ("big", json!({ "metadata": { "big": long(70_000) } })),
        ("usageDetails.input", json!({ "usageDetails": { "input": -1 } })),
        ("costDetails.input", json!({ "costDetails": { "input": -1 } })),
        ("release", json!({ "release": long(900) })),
        ("tags", json!({ "tags": [long(300)] })),
        ("tags", json!({ "tags": (0..150).map(|n| n.to_string()).collect::<Vec<_>>() })),
    ];
    for (field, mut body) in cases {
        let is_of_trace = matches!(field, "release" | "tags");
        let kind = if is_of_trace { "trace-create" } else { "generation-create" };
        body["id"] = "o".into();
        let event =
            json!({ "id": "e", "type": kind, "timestamp": "2026-03-01T10:00:00Z", "body": body });
        let Ok(Event::Patch(patch, _)) = read_event(&event, &Limits::default()) else {
            panic!("{field} is refused");
        };
        assert!(names_field(&patch.metadata, field), "{field}: {:?}", patch.metadata.keys());
        assert!(merge([&*patch]).is_some());
    }
}

#[test]
fn an_end_before_the_start_is_repaired_and_noted_in_the_metadata_alone() {
    let (observation, taken) =
        read(&json!({ "endTimeUnixNano": "1700000000000000000" }), &json!({}));
    assert_eq!(observation.end, Some(observation.start));
    assert!(names_field(&observation.content.metadata, "endTime"));
    assert_eq!(taken.n_changed, 0);
}
