//! OTLP protobuf batches of a realistic agent: encoded once; ids and times are overwritten in the encoded bytes.

/// Spans of one trace: an agent, two model calls, a retrieval and a tool call.
pub(crate) const SPANS_PER_TRACE: usize = 5;

/// How many of them are model calls.
pub(crate) const GENERATIONS_PER_TRACE: usize = 2;

/// A request body in which the offsets of ids and times are known.
#[derive(Clone)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    stamps: Vec<Stamp>,
}

#[derive(Clone)]
struct Stamp {
    at: usize,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    TraceId { trace: usize },
    SpanId { trace: usize, span: usize },
    Start { span: usize },
    End { span: usize },
}

impl Batch {
    /// A batch of `n_spans` spans of about 1.4 KB each; a multiple of [`SPANS_PER_TRACE`].
    #[must_use]
    pub(crate) fn new(n_spans: usize) -> Self {
        let mut stamps = Vec::new();
        let mut spans = Vec::new();
        for at in 0..n_spans {
            let (trace, span) = (at / SPANS_PER_TRACE, at % SPANS_PER_TRACE);
            let offset = spans.len();
            let (encoded, inner) = encode_span(trace, span);
            let header = delimited(2, &encoded);
            let shift = offset + header.len() - encoded.len();
            spans.extend_from_slice(&header);
            stamps.extend(inner.into_iter().map(|stamp| Stamp { at: stamp.at + shift, ..stamp }));
        }
        // ResourceSpans { resource = 1, scope_spans = 2 { scope = 1, spans = 2 } }
        let resource = delimited(1, &attribute(1, "service.name", "support-agent"));
        let scope = delimited(1, &delimited(1, b"bench-agent"));
        let scope_spans = [scope.clone(), spans].concat();
        let scope_header = delimited(2, &scope_spans);
        let inside = [resource.clone(), scope_header.clone()].concat();
        let bytes = delimited(1, &inside);
        let shift = (bytes.len() - inside.len())
            + resource.len()
            + (scope_header.len() - scope_spans.len())
            + scope.len();
        for stamp in &mut stamps {
            stamp.at += shift;
        }
        Self { bytes, stamps }
    }

    /// Size of the body in bytes.
    #[must_use]
    pub(crate) fn n_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Gives every trace and span an id that no other `serial` has, and times that end now.
    pub(crate) fn stamp(&mut self, serial: u64, now_ns: u64) -> &[u8] {
        for stamp in &self.stamps {
            let bytes = &mut self.bytes[stamp.at..];
            match stamp.what {
                What::TraceId { trace } => {
                    let id = mix(serial.wrapping_mul(1_000).wrapping_add(trace as u64));
                    bytes[..8].copy_from_slice(&id.to_be_bytes());
                    bytes[8..16].copy_from_slice(&mix(id).to_be_bytes());
                }
                What::SpanId { trace, span } => {
                    let key = serial.wrapping_mul(1_000).wrapping_add(trace as u64);
                    let id = mix(mix(key).wrapping_add(span as u64 + 1));
                    bytes[..8].copy_from_slice(&id.to_be_bytes());
                }
                What::Start { span } => {
                    let start = now_ns - 900_000_000 + span as u64 * 100_000_000;
                    bytes[..8].copy_from_slice(&start.to_le_bytes());
                }
                What::End { span } => {
                    let end = if span == 0 {
                        now_ns
                    } else {
                        now_ns - 820_000_000 + span as u64 * 100_000_000
                    };
                    bytes[..8].copy_from_slice(&end.to_le_bytes());
                }
            }
        }
        &self.bytes
    }
}

/// A bijection that looks random: ids must not come in order, as real ones do not.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) | 1
}

fn encode_span(trace: usize, span: usize) -> (Vec<u8>, Vec<Stamp>) {
    let mut out = Vec::new();
    let mut stamps = Vec::new();
    let mut id = |out: &mut Vec<u8>, field: u32, len: usize, what: What| {
        out.extend(delimited(field, &vec![0; len]));
        stamps.push(Stamp { at: out.len() - len, what });
    };
    id(&mut out, 1, 16, What::TraceId { trace });
    id(&mut out, 2, 8, What::SpanId { trace, span });
    if span != 0 {
        id(&mut out, 4, 8, What::SpanId { trace, span: 0 });
    }
    let (name, attributes) = content(trace, span);
    out.extend(delimited(5, name.as_bytes()));
    out.extend(varint(6 << 3));
    out.push(1);
    for (field, what) in [(7, What::Start { span }), (8, What::End { span })] {
        out.extend(varint(field << 3 | 1));
        stamps.push(Stamp { at: out.len(), what });
        out.extend([0; 8]);
    }
    for (key, value) in attributes {
        out.extend(attribute(9, key, &value));
    }
    (out, stamps)
}

/// Text of at least `n` bytes that differs by trace, span and part.
pub(crate) fn filler(n: usize, trace: usize, part: usize) -> String {
    const WORDS: [&str; 16] = [
        "order",
        "parcel",
        "shipped",
        "customer",
        "refund",
        "invoice",
        "address",
        "Tuesday",
        "please",
        "carrier",
        "tracking",
        "delayed",
        "receipt",
        "warehouse",
        "thanks",
        "number",
    ];
    let mut seed = mix((trace * 31 + part) as u64);
    let mut text = String::with_capacity(n + 12);
    while text.len() < n {
        seed = mix(seed);
        text.push_str(WORDS[(seed % 16) as usize]);
        text.push(' ');
    }
    text
}

type Attributes = Vec<(&'static str, String)>;

fn content(trace: usize, span: usize) -> (&'static str, Attributes) {
    let text = |n, part| filler(n, trace, span * 10 + part);
    let step = |kind: &str, input: String, output: String| -> Attributes {
        vec![
            ("langfuse.observation.type", kind.to_owned()),
            ("langfuse.observation.input", input),
            ("langfuse.observation.output", output),
        ]
    };
    match span {
        0 => {
            let input = format!("{{\"question\":\"{}\"}}", text(480, 1));
            let mut attributes =
                step("agent", input, format!("{{\"answer\":\"{}\"}}", text(480, 2)));
            attributes.push(("user.id", format!("user-{}", trace % 97)));
            attributes.push(("session.id", format!("session-{}", trace % 31)));
            ("support-turn", attributes)
        }
        3 => {
            let output = format!("[\"{}\",\"{}\"]", text(400, 2), text(400, 3));
            ("kb-search", step("retriever", text(200, 1), output))
        }
        4 => {
            let input = format!("{{\"order\":\"{}\"}}", text(300, 1));
            ("lookup_order", step("tool", input, format!("{{\"state\":\"{}\"}}", text(700, 2))))
        }
        _ => ("answer", generation(trace, &text(520, 1), text(420, 2))),
    }
}

fn generation(trace: usize, question: &str, answer: String) -> Attributes {
    vec![
        ("gen_ai.operation.name", "chat".into()),
        ("gen_ai.provider.name", "openai".into()),
        ("gen_ai.request.model", "gpt-4o-mini".into()),
        ("gen_ai.response.model", "gpt-4o-mini-2024-07-18".into()),
        ("gen_ai.usage.input_tokens", (100 + trace % 50).to_string()),
        ("gen_ai.usage.output_tokens", (30 + trace % 20).to_string()),
        (
            "langfuse.observation.input",
            format!("[{{\"role\":\"user\",\"content\":\"{question}\"}}]"),
        ),
        ("langfuse.observation.output", answer),
    ]
}

/// `KeyValue { key = 1, value = 2 { string_value = 1 } }` in `field`.
pub(crate) fn attribute(field: u32, key: &str, value: &str) -> Vec<u8> {
    let any = delimited(1, value.as_bytes());
    delimited(field, &[delimited(1, key.as_bytes()), delimited(2, &any)].concat())
}

pub(crate) fn delimited(field: u32, bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(field << 3 | 2);
    out.extend(varint(bytes.len() as u32));
    out.extend_from_slice(bytes);
    out
}

pub(crate) fn varint(mut value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    while 0x7f < value {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_weighs_about_1400_bytes() {
        let batch = Batch::new(250);
        let per_span = batch.n_bytes() / 250;
        assert!((1_100..1_700).contains(&per_span), "{per_span} bytes");
    }

    #[test]
    fn two_serials_share_no_ids() {
        let mut batch = Batch::new(10);
        let first = batch.stamp(1, 2_000_000_000).to_vec();
        let second = batch.stamp(2, 2_000_000_000).to_vec();
        let ids = |bytes: &[u8]| -> Vec<Vec<u8>> {
            batch
                .stamps
                .iter()
                .filter(|s| matches!(s.what, What::SpanId { .. }))
                .map(|s| bytes[s.at..s.at + 8].to_vec())
                .collect()
        };
        assert!(ids(&first).iter().all(|id| !ids(&second).contains(id)));
    }
}
