//! What a reader holds was charged before: it uses no more memory than its sink reserved. Counted by the
//! allocator of this program.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

#[path = "../fuzz/charged.rs"]
mod charged;

use charged::check;
use peak_alloc::PeakAlloc;
use perpend_otlp::{Encoding, Limits};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

const ID: &str = "0af7651916cd43dd8448eb211c80319c";

/// Attributes with rules of their own, and one without.
const KEYS: [&str; 19] = [
    "langfuse.observation.input",
    "langfuse.observation.output",
    "langfuse.observation.metadata",
    "langfuse.trace.tags",
    "langfuse.trace.input",
    "metadata",
    "input.value",
    "output.value",
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.definitions",
    "gen_ai.system_instructions",
    "llm.input_messages",
    "mlflow.chat.tools",
    "ai.prompt.messages",
    "ai.prompt.tools",
    "model_request_parameters",
    "embedding.embeddings",
    "notes",
];

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut rest = bytes.len();
    while 0x80 <= rest {
        out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap());
    out.extend_from_slice(bytes);
    out
}

/// A request with one span that has these further fields, in protobuf.
fn with_span(fields: &[u8]) -> Vec<u8> {
    let ids = [field(1, &[7; 16]), field(2, &[7; 8])].concat();
    let span = [&ids, fields].concat();
    field(1, &field(2, &field(2, &span)))
}

fn attribute(key: &str, value: &[u8]) -> Vec<u8> {
    field(9, &[field(1, key.as_bytes()), field(2, value)].concat())
}

fn text(key: &str, text: &str) -> Vec<u8> {
    attribute(key, &field(1, text.as_bytes()))
}

/// A request with one span that has these attributes and events, in JSON.
fn json_span(attributes: &[Value], events: &[Value]) -> Vec<u8> {
    let span = json!({ "traceId": ID, "spanId": "0102030405060708", "attributes": attributes, "events": events });
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    request.to_string().into_bytes()
}

/// The small things of which a small body holds many, and the texts that rules make much of.
fn protobuf_bodies() -> Vec<Vec<u8>> {
    let n = 200_000;
    let zeros = format!("[{}0]", "0,".repeat(n));
    let objects = format!("[{}{{}}]", "{\"a\":{}},".repeat(n / 8));
    let messages = format!("[{}{{}}]", r#"{"role":"user","content":"x"},"#.repeat(n / 32));
    let calls = r#"{"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]},"#;
    let calls = format!("[{}{{}}]", calls.repeat(n / 64));
    let media = r#"{"type":"blob","mime_type":"image/png","content":"AP8="},"#;
    let media = format!("[{}{{}}]", media.repeat(n / 64));
    let uris = "data:image/png;base64,AP8= ".repeat(n / 32);
    let quoted = "\"".repeat(n);
    let mut bodies = vec![
        b"\x0a\x00".repeat(n),
        field(1, &b"\x12\x00".repeat(n)),
        field(1, &field(2, &b"\x12\x00".repeat(n))),
        field(1, &field(2, &b"\x12\x02\x4a\x00".repeat(n))),
        field(1, &field(1, &b"\x0a\x00".repeat(n))),
        with_span(&b"\x4a\x00".repeat(n)),
        with_span(&b"\x5a\x00".repeat(n)),
        with_span(&b"\x6a\x00".repeat(n)),
        with_span(&attribute("list", &field(5, &b"\x0a\x00".repeat(n)))),
        with_span(&attribute("map", &field(6, &b"\x0a\x00".repeat(n)))),
    ];
    for key in KEYS {
        for held in [&zeros, &objects, &messages, &calls, &media, &uris, &quoted] {
            bodies.push(with_span(&text(key, held)));
        }
    }
    for prefix in ["gen_ai.prompt", "llm.input_messages", "llm.tools", "evaluations"] {
        let flat = |at: usize| text(&format!("{prefix}.{at}.{}", "a.".repeat(40)), "x");
        bodies.push(with_span(&(0..2_000).flat_map(flat).collect::<Vec<u8>>()));
        let far = |at: usize| text(&format!("{prefix}.{at}.a.10000.b"), "x");
        bodies.push(with_span(&(0..2_000).flat_map(far).collect::<Vec<u8>>()));
    }
    let small = format!("[{}0]", "0,".repeat(500));
    let each = |at: usize| text(&format!("notes{at}"), &small);
    bodies.push(with_span(&(0..2_000).flat_map(each).collect::<Vec<u8>>()));
    bodies
}

fn json_bodies() -> Vec<Vec<u8>> {
    let n = 100_000;
    let list = |one: &str, n: usize| vec![one; n].join(",");
    let spans = |inner: String| {
        format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{inner}]}}]}}]}}"#).into_bytes()
    };
    let span = |fields: String| {
        spans(format!(r#"{{"traceId":"{ID}","spanId":"0102030405060708",{fields}}}"#))
    };
    let value = |value: String| format!(r#""attributes":[{{"key":"k","value":{value}}}]"#);
    let escaped = "\u{1}".repeat(n);
    let deep = r#"{"arrayValue":{"values":["#.repeat(80) + &"]}}".repeat(80);
    vec![
        spans(list("{}", n)),
        format!(r#"{{"resourceSpans":[{}]}}"#, list("{}", n)).into_bytes(),
        span(format!(r#""attributes":[{}]"#, list("{}", n))),
        span(format!(r#""events":[{}]"#, list("{}", n))),
        span(format!(r#""links":[{}]"#, list("{}", n))),
        span(format!(r#""other":[{}]"#, list("{}", n))),
        span(list(r#""a":1"#, n)),
        span(value(format!(r#"{{"arrayValue":{{"values":[{}]}}}}"#, list("{}", n)))),
        span(value(format!(r#"{{"kvlistValue":{{"values":[{}]}}}}"#, list("{}", n)))),
        span(value(deep)),
        format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#, list("{}", n))
            .into_bytes(),
        json_span(&[json!({ "key": "input.value", "value": { "stringValue": escaped } })], &[]),
        json_span(
            &[],
            &vec![
                json!({ "name": "gen_ai.choice", "attributes": [{ "key": "content", "value": { "stringValue": "[[1,2],{}]" } }] });
                3_000
            ],
        ),
    ]
}

/// Texts that take more memory than they were sent in, or that rules copy, where no other part of a span does.
fn large_texts() -> Vec<(Vec<u8>, Encoding)> {
    let n = 1 << 20;
    let image = format!("data:image/png;base64,{}", "A".repeat(n));
    let prose = "a line of words\n".repeat(n / 16);
    let quoted = json!({ "text": prose }).to_string();
    let list = json!([{ "role": "user", "content": prose }]).to_string();
    let texts: [&[u8]; 7] = [
        &vec![0xff; n],
        &vec![1; n],
        &vec![b'"'; n],
        image.as_bytes(),
        prose.as_bytes(),
        quoted.as_bytes(),
        list.as_bytes(),
    ];
    let mut bodies = Vec::new();
    for key in KEYS {
        for text in texts {
            let in_list = field(5, &field(1, &field(1, text)));
            bodies.push(with_span(&attribute(key, &field(1, text))));
            bodies.push(with_span(&attribute(key, &in_list)));
        }
    }
    let mut bodies: Vec<_> = bodies.into_iter().map(|body| (body, Encoding::Protobuf)).collect();
    let name = [b"{\"\\n", vec![0xff; n].as_slice(), b"\":1}"].concat();
    bodies.push((name, Encoding::Json));
    bodies
}

fn corpus() -> Vec<(Vec<u8>, Encoding)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/corpus/otlp");
    let files = std::fs::read_dir(folder).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let read = paths.filter_map(|path| {
        let encoding = match path.extension()?.to_str()? {
            "pb" => Encoding::Protobuf,
            "json" => Encoding::Json,
            _ => return None,
        };
        Some((std::fs::read(&path).unwrap(), encoding))
    });
    read.collect()
}

// A single test: allocations of concurrent tests would be counted too.
#[test]
fn no_more_memory_is_taken_than_the_sink_granted() {
    let protobuf = protobuf_bodies().into_iter();
    let protobuf = protobuf.map(|body| (body, Encoding::Protobuf));
    let json = json_bodies().into_iter().map(|body| (body, Encoding::Json));
    let small: Vec<_> = protobuf.chain(json).chain(corpus()).collect();
    assert!(200 < small.len());
    // One-time allocations of the process do not belong to a request.
    check(&ALLOCATOR, &small[0].0, small[0].1, Limits::default());
    for (body, encoding) in &small {
        check(&ALLOCATOR, body, *encoding, Limits::default());
    }
    // A small value budget: texts have to be charged as texts.
    let limits = Limits { max_values: 64, ..Limits::default() };
    for (body, encoding) in large_texts() {
        check(&ALLOCATOR, &body, encoding, limits.clone());
    }
}
