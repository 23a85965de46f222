//! Every file of `tests/corpus/otlp` maps to the content of its expectation file: as protobuf and as JSON, in
//! one request, and in one request per span, shuffled and with repeats.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::path::{self, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use perpend_domain::batch::{Batch, Media, SpanLog};
use perpend_domain::fold::{fold, replaces};
use perpend_domain::join::join_logs;
use perpend_domain::observation::Observation;
use perpend_domain::pricing::PriceTable;
use perpend_domain::score::{NewScore, ScoreValue, Subject};
use perpend_domain::time::Timestamp;
use perpend_otlp::respond::{ExportResponse, export_response};
use perpend_otlp::{Context, Encoding, read_logs, read_traces, show};
use serde_json::{Value, json};

/// The price table of the corpus' README.
const PRICES: &str = "# source 0: README.md
gpt-4o-mini\topenai\town\t0\t0.15,0.60,0.075
gpt-4o\topenai\town\t0\t2.50,10,1.25
gpt-4.1-mini\topenai\town\t0\t0.40,1.60,0.10
claude-sonnet-4-5\tanthropic\town\t0\t3,15,0.30,3.75,6
text-embedding-3-small\topenai\town\t0\t0.02,0
gemini-2.5-flash\tgoogle\town\t0\t0.30,2.50,0.03
";

fn corpus() -> PathBuf {
    path::absolute("../../tests/corpus/otlp").unwrap()
}

/// The content of a store after some requests.
#[derive(Default)]
struct Held {
    observations: BTreeMap<(String, String), Observation>,
    logs: Vec<SpanLog>,
    media: Vec<Media>,
    scores: BTreeMap<String, NewScore>,
}

impl Held {
    fn take(&mut self, batch: Batch) {
        for arrived in batch.observations {
            let key = (arrived.trace_id.to_string(), arrived.id.to_string());
            match self.observations.get(&key) {
                Some(stored) if !replaces(stored, &arrived) => {}
                _ => {
                    self.observations.insert(key, arrived);
                }
            }
        }
        for log in batch.logs {
            if !self.logs.contains(&log) {
                self.logs.push(log);
            }
        }
        for item in batch.media {
            if !self.media.contains(&item) {
                self.media.push(item);
            }
        }
        for score in batch.scores {
            self.scores.insert(score.id.to_string(), score);
        }
    }

    /// The comparison value: that of `perpend otlp show --json`, with media and scores.
    fn show(&self, prices: &PriceTable) -> (Value, Vec<Observation>) {
        let mut by_trace: BTreeMap<String, Vec<Observation>> = BTreeMap::new();
        for observation in self.observations.values() {
            let mut observation = observation.clone();
            join_logs(&mut observation, &self.logs);
            prices.apply(&mut observation);
            let trace = observation.trace_id.to_string();
            by_trace.entry(trace).or_default().push(observation);
        }
        let traces: Vec<_> = by_trace.values().filter_map(|set| fold(set)).collect();
        for set in by_trace.values() {
            let mut reversed = set.clone();
            reversed.reverse();
            assert_eq!(fold(set), fold(&reversed), "the fold depends on the order");
        }
        let all: Vec<Observation> = by_trace.into_values().flatten().collect();
        assert!(!show::tree(&all, &traces, true).contains('\0'));
        let mut value = show::json(&all, &traces);
        let media = media_json(&self.media);
        for observation in value["observations"].as_array_mut().unwrap() {
            let key = (
                observation["traceId"].as_str().unwrap().to_owned(),
                observation["id"].as_str().unwrap().to_owned(),
            );
            if let Some(items) = media.get(&key) {
                observation["media"] = json!(items);
            }
        }
        let scores: Vec<NewScore> = self.scores.values().cloned().collect();
        value["scores"] = scores_json(&scores);
        (value, all)
    }
}

fn context(expected: &Value) -> Context {
    let header = |name: &str| expected["requestHeaders"][name].as_str().map(str::to_owned);
    Context {
        arrived_at: Timestamp::parse("2026-11-21T03:00:00Z").unwrap(),
        sdk_name: header("x-langfuse-sdk-name"),
        sdk_version: header("x-langfuse-sdk-version"),
        ..Context::default()
    }
}

/// Media items by (trace, observation), with the field names of the fixtures.
fn media_json(media: &[Media]) -> BTreeMap<(String, String), Vec<Value>> {
    let mut by_observation: BTreeMap<_, Vec<Value>> = BTreeMap::new();
    for item in media {
        let key = (item.trace_id.to_string(), item.observation_id.to_string());
        by_observation.entry(key).or_default().push(json!({
            "field": item.field,
            "contentType": item.content_type,
            "bytes": item.bytes.len(),
            "sha256": STANDARD.encode(item.sha256),
            "mediaId": item.id,
        }));
    }
    by_observation
}

/// Scores with the field names of the fixtures.
fn scores_json(scores: &[NewScore]) -> Value {
    let one = |score: &NewScore| {
        let (trace, observation) = match &score.subject {
            Subject::Observation(trace, observation) => (Some(trace), Some(observation)),
            Subject::Trace(trace) => (Some(trace), None),
            Subject::Session(_) | Subject::Experiment(_) => (None, None),
        };
        let (value, label) = match &score.value {
            ScoreValue::Numeric(value) => (json!(value), score.metadata.get("label").cloned()),
            ScoreValue::Boolean(value) => (json!(value), None),
            ScoreValue::Categorical(text)
            | ScoreValue::Text(text)
            | ScoreValue::Correction(text) => (Value::Null, Some(json!(text))),
        };
        json!({
            "traceId": trace,
            "observationId": observation,
            "name": score.name,
            "value": value,
            "label": label,
            "comment": score.comment,
        })
    };
    scores.iter().map(one).collect()
}

/// Numbers within 1e-9; objects and arrays by their parts; everything else equal.
fn differences(at: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Number(a), Value::Number(b)) => {
            let (x, y) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if a != b && ((x - y).abs() > 1e-9 || a.is_i64() && b.is_i64()) {
                found.push(format!("{at}: expected {a}, got {b}"));
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&format!("{at}[{i}]"), a, b, found);
            }
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            for (key, a) in a {
                differences(&format!("{at}.{key}"), a, &b[key], found);
            }
        }
        _ if expected == actual => {}
        _ => found.push(format!("{at}: expected {expected}, got {actual}")),
    }
}

/// Compares the members that the expectation names.
fn compare_members(at: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    for (key, value) in expected.as_object().unwrap() {
        differences(&format!("{at}.{key}"), value, &actual[key], found);
    }
    for key in ["aggregateUsageDetails", "aggregateCostDetails", "duplicateOf", "media"] {
        if expected.get(key).is_none() && actual.get(key).is_some() {
            found.push(format!("{at}.{key}: not expected, got {}", actual[key]));
        }
    }
}

/// Checks the held state against an expectation file.
fn check(expected: &Value, held: &Held, prices: &PriceTable, found: &mut Vec<String>) {
    let (actual, observations) = held.show(prices);
    if let Some(list) = expected["observations"].as_array() {
        let actual_list = actual["observations"].as_array().unwrap();
        if list.len() != actual_list.len() {
            found.push(format!("{} observations, not {}", actual_list.len(), list.len()));
        }
        for (expected, actual) in list.iter().zip(actual_list) {
            let name = format!("{} {}", expected["id"], expected["name"]);
            compare_members(&name, expected, actual, found);
        }
        let traces = expected["traces"].as_array().unwrap();
        let mut sorted: Vec<&Value> = traces.iter().collect();
        sorted.sort_by_key(|trace| trace["id"].as_str().unwrap().to_owned());
        if sorted.len() != actual["traces"].as_array().unwrap().len() {
            found.push("another number of traces".to_owned());
        }
        for (expected, actual) in sorted.iter().zip(actual["traces"].as_array().unwrap()) {
            compare_members(&format!("trace {}", expected["id"]), expected, actual, found);
        }
        let scores = expected.get("scores").cloned().unwrap_or_else(|| json!([]));
        differences("scores", &scores, &actual["scores"], found);
    } else if let Some(by_id) = expected["observations"].as_object() {
        let actual_list = actual["observations"].as_array().unwrap();
        for (id, facts) in by_id {
            let Some(held) = observations.iter().find(|o| o.id.as_str() == id) else {
                found.push(format!("observation {id} is missing"));
                continue;
            };
            let shown = actual_list.iter().find(|o| o["id"] == id.as_str()).unwrap();
            check_facts(id, facts, held, shown, found);
        }
    }
    check_ids(expected, &actual, found);
}

/// The looser statements of the synthetic cases about one observation.
fn check_facts(
    id: &str,
    facts: &Value,
    held: &Observation,
    shown: &Value,
    found: &mut Vec<String>,
) {
    let metadata = &held.content.metadata;
    let text = shown["input"].as_str().unwrap_or_default();
    for (key, value) in facts.as_object().unwrap() {
        let holds = match key.as_str() {
            "note" => true,
            "startEqualsEnd" => (held.end == Some(held.start)) == value.as_bool().unwrap(),
            "metadata" => {
                for (key, value) in value.as_object().unwrap() {
                    let actual = metadata.get(key).unwrap_or(&Value::Null);
                    differences(&format!("{id}.metadata.{key}"), value, actual, found);
                }
                true
            }
            "metadataAbsent" => {
                let absent = value.as_array().unwrap();
                absent.iter().all(|key| !metadata.contains_key(key.as_str().unwrap()))
            }
            "links" => metadata.get("links") == Some(value),
            "inputStartsWith" => text.starts_with(value.as_str().unwrap()),
            "inputContainsReplacementCharacter" => text.contains('\u{fffd}'),
            other => &shown[other] == value,
        };
        if !holds {
            found.push(format!("{id}.{key}: expected {value}, got {}", shown[key]));
        }
    }
}

fn check_ids(expected: &Value, actual: &Value, found: &mut Vec<String>) {
    let observations = actual["observations"].as_array().unwrap();
    let ids = |wanted: &dyn Fn(&Value) -> bool| -> Vec<&Value> {
        observations.iter().filter(|o| wanted(o)).map(|o| &o["id"]).collect()
    };
    if let Some(accepted) = expected["acceptedObservations"].as_array() {
        let mut wanted: Vec<&Value> = accepted.iter().collect();
        let mut got = ids(&|_| true);
        wanted.sort_by_key(|id| id.to_string());
        got.sort_by_key(|id| id.to_string());
        if wanted != got {
            found.push(format!("accepted: expected {wanted:?}, got {got:?}"));
        }
    }
    if let Some(roots) = expected["roots"].as_array() {
        let got = ids(&|o| o["parentId"].is_null());
        if got.len() != roots.len() || !roots.iter().all(|root| got.contains(&root)) {
            found.push(format!("roots: expected {roots:?}, got {got:?}"));
        }
    }
    for (key, field) in [("traceName", "name"), ("rootObservationId", "rootObservationId")] {
        if let Some(wanted) = expected.get(key)
            && !actual["traces"].as_array().unwrap().iter().any(|t| &t[field] == wanted)
        {
            found.push(format!("{key}: expected {wanted}"));
        }
    }
}

/// Sends a body and checks the response.
fn send(
    body: &[u8],
    encoding: Encoding,
    expected: &Value,
    held: &mut Held,
    found: &mut Vec<String>,
) {
    let response = &expected["response"];
    let (context, mut batch) = (context(expected), Batch::default());
    let taken = match read_traces(body, encoding, &context, &mut batch) {
        Ok(taken) => taken,
        Err(error) => {
            if response["status"] != 400 {
                found.push(format!("refused: {error}"));
            }
            return;
        }
    };
    let mut again = Batch::default();
    assert_eq!(read_traces(body, encoding, &context, &mut again).as_ref(), Ok(&taken));
    assert_eq!(batch, again, "the mapping is not pure");
    match export_response(&taken, encoding) {
        ExportResponse::AllRejected(message) => {
            if response["status"] != 400 || !message.contains("traces") {
                found.push(format!("all rejected: {message}"));
            }
        }
        ExportResponse::Accepted(body) => {
            let n_rejected = response["rejectedSpans"].as_u64().unwrap_or(0);
            let is_full = body.is_empty() || body == b"{}";
            let text = String::from_utf8_lossy(&body);
            let mentions = response["errorMessageMentions"].as_array().cloned();
            let is_mentioned = |word: &Value| text.contains(word.as_str().unwrap());
            if response["status"] != 200
                || taken.n_rejected as u64 != n_rejected
                || is_full != (n_rejected == 0)
                || !mentions.unwrap_or_default().iter().all(is_mentioned)
            {
                found.push(format!("response: expected {response}, got {text}"));
            }
        }
    }
    held.take(batch);
}

fn send_logs(body: &[u8], encoding: Encoding, held: &mut Held) {
    let mut batch = Batch::default();
    read_logs(body, encoding, &Context::default(), &mut batch).unwrap();
    held.take(batch);
}

#[test]
fn otlp_corpus() {
    let prices = PriceTable::parse(PRICES).unwrap();
    let mut failures = Vec::new();
    let mut n_cases = 0;
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().ends_with(".expected.json"))
        .collect();
    files.sort();
    for path in files {
        let expected: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let fixture = expected["fixture"].as_str().unwrap();
        let mut n_bodies = 0;
        for (encoding, ending) in [(Encoding::Protobuf, "pb"), (Encoding::Json, "json")] {
            let Ok(body) = std::fs::read(corpus().join(format!("{fixture}.{ending}"))) else {
                continue;
            };
            n_bodies += 1;
            let logs = std::fs::read(corpus().join(format!("{fixture}-logs.{ending}"))).ok();
            for (label, found) in check_ways(&body, logs.as_deref(), encoding, &expected, &prices) {
                failures.extend(
                    found.into_iter().map(|text| format!("{fixture}.{ending} {label}: {text}")),
                );
            }
        }
        assert!(n_bodies > 0, "{fixture} has no body");
        n_cases += 1;
    }
    assert!(n_cases >= 20, "the corpus is not where it was");
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

/// In one request and again; logs first and last; and span by span in several orders with repeats.
fn check_ways(
    body: &[u8],
    logs: Option<&[u8]>,
    encoding: Encoding,
    expected: &Value,
    prices: &PriceTable,
) -> Vec<(String, Vec<String>)> {
    let mut results = Vec::new();
    for logs_first in [false, true] {
        let (mut held, mut found) = (Held::default(), Vec::new());
        if let (Some(logs), true) = (logs, logs_first) {
            send_logs(logs, encoding, &mut held);
        }
        send(body, encoding, expected, &mut held, &mut found);
        send(body, encoding, expected, &mut held, &mut found);
        if let (Some(logs), false) = (logs, logs_first) {
            send_logs(logs, encoding, &mut held);
        }
        check(expected, &held, prices, &mut found);
        results.push((format!("in one request, logs first {logs_first}"), found));
    }
    let parts = match encoding {
        Encoding::Protobuf => split_protobuf(body),
        Encoding::Json => split_json(body),
    };
    for seed in 0..6 {
        let (mut held, mut found) = (Held::default(), Vec::new());
        for part in shuffled(&parts, seed) {
            let mut batch = Batch::default();
            if read_traces(part, encoding, &context(expected), &mut batch).is_ok() {
                held.take(batch);
            }
        }
        if let Some(logs) = logs {
            send_logs(logs, encoding, &mut held);
        }
        if !parts.is_empty() {
            check(expected, &held, prices, &mut found);
        }
        results.push((format!("span by span, order {seed}"), found));
    }
    results
}

/// The parts in an order of their own for each seed, every third one twice.
fn shuffled(parts: &[Vec<u8>], seed: u64) -> Vec<&Vec<u8>> {
    let mut order: Vec<&Vec<u8>> = parts.iter().chain(parts.iter().step_by(3)).collect();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    for at in (1..order.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, usize::try_from(state % (at as u64 + 1)).unwrap());
    }
    if seed == 0 {
        order.reverse();
    }
    order
}

/// One request per span. Empty when a strict JSON reader cannot read the body.
fn split_json(body: &[u8]) -> Vec<Vec<u8>> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return Vec::new();
    };
    let mut parts = Vec::new();
    for resource in body["resourceSpans"].as_array().into_iter().flatten() {
        for scope in resource["scopeSpans"].as_array().into_iter().flatten() {
            for span in scope["spans"].as_array().into_iter().flatten() {
                let mut one_scope = scope.clone();
                one_scope["spans"] = json!([span]);
                let mut one_resource = resource.clone();
                one_resource["scopeSpans"] = json!([one_scope]);
                parts.push(json!({ "resourceSpans": [one_resource] }).to_string().into_bytes());
            }
        }
    }
    parts
}

/// Length-delimited fields of a message: number and bytes. Others do not occur on these levels.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        if tag & 7 != 2 {
            return Vec::new();
        }
        let length = usize::try_from(varint(&mut bytes)).unwrap();
        found.push((tag >> 3, &bytes[..length]));
        bytes = &bytes[length..];
    }
    found
}

fn field(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    for mut value in [number << 3 | 2, bytes.len() as u64] {
        while value >= 0x80 {
            out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        out.push(u8::try_from(value).unwrap());
    }
    out.extend_from_slice(bytes);
}

fn split_protobuf(body: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    for (_, resource) in fields(body) {
        let resource = fields(resource);
        for (_, scope) in resource.iter().filter(|(number, _)| *number == 2) {
            let scope = fields(scope);
            for (_, span) in scope.iter().filter(|(number, _)| *number == 2) {
                let (mut one_scope, mut one_resource, mut request) =
                    (Vec::new(), Vec::new(), Vec::new());
                for (number, bytes) in scope.iter().filter(|(number, _)| *number != 2) {
                    field(*number, bytes, &mut one_scope);
                }
                field(2, span, &mut one_scope);
                for (number, bytes) in resource.iter().filter(|(number, _)| *number != 2) {
                    field(*number, bytes, &mut one_resource);
                }
                field(2, &one_scope, &mut one_resource);
                field(1, &one_resource, &mut request);
                parts.push(request);
            }
        }
    }
    parts
}
