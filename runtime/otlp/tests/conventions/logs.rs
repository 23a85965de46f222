//! Log records that become part of spans.

use super::*;

#[test]
fn logs_are_joined_scored_or_dropped() {
    let record = |event: &str, attributes: Value| {
        json!({
            "traceId": TRACE, "spanId": "0102030405060708", "eventName": event, "observedTimeUnixNano": START.to_string(),
            "attributes": key_values(&attributes),
        })
    };
    let body = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [
        record("gen_ai.client.inference.operation.details", json!({ "gen_ai.input.messages": [{ "role": "user", "parts": [{ "type": "text", "content": "hi" }] }], "gen_ai.system_instructions": "Be brief." })),
        record("gen_ai.evaluation.result", json!({ "gen_ai.evaluation.name": "ok", "gen_ai.evaluation.score.label": "good" })),
        record("something.else", json!({})),
        { "eventName": "gen_ai.choice" },
    ] }] }] }).to_string();
    let batch = logs_of(&body);
    assert_eq!((batch.logs.len(), batch.scores.len()), (1, 1));
    let mut observation =
        one(json!({ "gen_ai.operation.name": "chat", "input.value": "later row" }));
    perpend_domain::join::join_logs(&mut observation, &batch.logs);
    assert_eq!(
        input(&observation)[0],
        json!({ "role": "system", "parts": [{ "type": "text", "content": "Be brief." }] })
    );
    let once = observation.clone();
    perpend_domain::join::join_logs(&mut observation, &batch.logs);
    assert_eq!(observation, once);
    let mut native = one(json!({ "langfuse.observation.input": "first row" }));
    perpend_domain::join::join_logs(&mut native, &batch.logs);
    assert_eq!(input(&native), json!("first row"));
}

#[test]
fn media_in_logs_is_taken_out_before_they_are_joined() {
    let messages = "[{\"role\":\"user\",\"parts\":[{\"type\":\"blob\",\"mime_type\":\"image/png\",\"content\":\"AP8=\"}]}]";
    let body = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [{
        "traceId": TRACE, "spanId": "0102030405060708", "eventName": "gen_ai.client.inference.operation.details",
        "attributes": key_values(&json!({ "gen_ai.input.messages": messages })),
    }] }] }] })
    .to_string();
    let batch = logs_of(&body);
    assert_eq!((batch.media.len(), batch.media[0].field), (1, "input"));
    let mut observation = one(json!({ "gen_ai.operation.name": "chat" }));
    perpend_domain::join::join_logs(&mut observation, &batch.logs);
    assert!(input(&observation).to_string().contains("@@@langfuseMedia:type=image/png"));
}

#[test]
fn joined_logs_take_the_instructions_of_the_span_and_bring_their_tool_calls() {
    let mut observation = one(json!({
        "gen_ai.operation.name": "chat", "gen_ai.system_instructions": "Be brief.",
    }));
    let record = |event: &str, body: Value| {
        json!({
            "traceId": TRACE, "spanId": "0102030405060708", "timeUnixNano": START.to_string(),
            "eventName": event, "body": any_value(&body),
        })
    };
    let call = json!([{ "role": "assistant", "parts": [
        { "type": "tool_call", "id": "1", "name": "look_up", "arguments": { "a": 1 } },
    ] }]);
    let details = record(
        "gen_ai.client.inference.operation.details",
        json!({
            "gen_ai.input.messages": "[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"content\":\"x\\u0000\\ud83d\"}]}]",
            "gen_ai.output.messages": call,
        }),
    );
    let body = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [details] }] }] });
    let logs = logs_of(&body.to_string()).logs;
    for _ in 0..2 {
        perpend_domain::join::join_logs(&mut observation, &logs);
        assert_eq!(
            input(&observation),
            json!([
                { "role": "system", "parts": [{ "type": "text", "content": "Be brief." }] },
                { "role": "user", "parts": [{ "type": "text", "content": "x\u{fffd}" }] },
            ])
        );
        assert_eq!(observation.called_tools, ["look_up"]);
        assert_eq!(observation.content.tool_calls[0].arguments, json!({ "a": 1 }));
    }
}
