//! Usage as libraries and providers send it: `tests/corpus/usage`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use perpend_domain::batch::Batch;
use perpend_domain::observation::{Observation, Usage};
use perpend_domain::patch::merge;
use perpend_domain::pricing::PriceTable;
use perpend_domain::time::Timestamp;
use perpend_otlp::{Context, Encoding, Event, Limits, read_event, read_traces};
use serde_json::{Value, json};

const CASES: &str = include_str!("../../../tests/corpus/usage/cases.json");
const MODEL: &str = "model-of-cases";
const PRICES: &str = "# source 0: a test\nmodel-of-cases\tanybody\town\t0\t3,15,0.3,3.75,6\n";

/// The observation of a span with these attributes.
fn of_span(scope: &str, attributes: &Value) -> Observation {
    let pairs = attributes.as_object().unwrap().iter().map(|(key, value)| {
        let value = match value {
            Value::Number(number) => json!({ "intValue": number.to_string() }),
            other => json!({ "stringValue": other }),
        };
        json!({ "key": key, "value": value })
    });
    let operation = json!({ "key": "gen_ai.operation.name", "value": { "stringValue": "chat" } });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{
        "scope": { "name": scope },
        "spans": [{
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0102030405060708", "name": "call",
            "startTimeUnixNano": "1800000000000000000",
            "attributes": pairs.chain([operation]).collect::<Vec<_>>(),
        }],
    }] }] });
    let (body, context) = (body.to_string(), Context::default());
    let mut batch = Batch::default();
    read_traces(body.as_bytes(), Encoding::Json, &context, &mut batch).unwrap();
    batch.observations.remove(0)
}

/// The usage of an event with this member.
fn of_event(member: &str, sent: &Value) -> Usage {
    let event = json!({ "id": "e", "type": "generation-create", "timestamp": "2026-03-01T10:00:00Z",
        "body": { "id": "o", "traceId": "t", member: sent } });
    match read_event(&event, &Limits::default()).unwrap() {
        Event::Patch(patch, _) => merge([&*patch]).unwrap().usage,
        other => panic!("{other:?}"),
    }
}

#[test]
fn usage_of_every_library_and_provider_has_the_right_buckets_and_cost() {
    let prices = PriceTable::parse(PRICES).unwrap();
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut wrong = Vec::new();
    for case in &cases {
        let (source, sent) = (&case["source"], &case["sent"]);
        let usage = match case["via"].as_str().unwrap() {
            "attributes" => of_span(case["scope"].as_str().unwrap_or("app"), sent).usage,
            member => of_event(member, sent),
        };
        let expected: Usage = serde_json::from_value(case["usage"].clone()).unwrap();
        if usage != expected {
            wrong.push(format!("{source}: {usage:?}\n  expected {expected:?}"));
        }
        let cost = prices.cost_of_call(MODEL, &usage, Timestamp::default());
        let (cost, expected) = (cost.unwrap() * 1e6, case["microdollars"].as_f64().unwrap());
        if 1e-6 < (cost - expected).abs() {
            wrong.push(format!("{source}: costs {cost}, expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn buckets_that_are_sent_again_stay_as_they_are() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    for case in &cases {
        let stored: Usage = serde_json::from_value(case["usage"].clone()).unwrap();
        let again = of_event("usageDetails", &case["usage"]);
        assert_eq!(again, stored, "{}", case["source"]);
    }
}

#[test]
fn tokens_are_whole_and_other_quantities_may_be_fractions() {
    let seconds = json!({ "seconds": 20.424, "total": 20.424 });
    let usage = of_event("usageDetails", &seconds);
    assert_eq!(serde_json::to_value(&usage).unwrap(), seconds);
    let event = json!({ "id": "e", "type": "generation-create", "timestamp": "2026-03-01T10:00:00Z",
        "body": { "id": "o", "usageDetails": { "input": 10.5 } } });
    let error = read_event(&event, &Limits::default()).unwrap_err();
    assert_eq!(error.field(), "body.usageDetails.input");
}

#[test]
fn the_cost_in_ticks_of_xai_is_read() {
    let sent =
        json!({ "gen_ai.usage.input_tokens": 5, "gen_ai.usage.cost_in_usd_ticks": 37_756_000 });
    assert_eq!(of_span("xai", &sent).cost["total"], 0.003_775_6);
}
