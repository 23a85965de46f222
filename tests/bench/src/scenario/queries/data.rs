//! The data of the queries: traces over thirty days with common and rare values.

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Value, json};

use crate::load::SPANS_PER_BATCH;
use crate::server::{Folder, Server};
use crate::spans::{SPANS_PER_TRACE, attribute, delimited, filler, mix, varint};

/// Raised when the data change, so that a kept database of other data is not taken for this one.
const EDITION: u64 = 5;
/// Time that the data cover.
pub(crate) const DAYS: u64 = 30;
/// Observations of the large trace.
pub(crate) const LARGE: u64 = 5_000;
/// One trace in so many has the rare values.
const RARE: u64 = 10_000;
const SCORES_PER_REQUEST: u64 = 500;
pub(crate) const N_PROMPTS: u64 = 20;
/// A whole day in nanoseconds.
pub(crate) const DAY_NS: u64 = 86_400_000_000_000;

/// The contents of the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) n_traces: u64,
    /// The last trace begins before this, in nanoseconds.
    pub(crate) until_ns: u64,
}

impl Filled {
    /// When a trace begins.
    pub(crate) const fn start_ns(self, trace: u64) -> u64 {
        self.until_ns - DAYS * DAY_NS + trace * (DAYS * DAY_NS / self.n_traces)
    }
}

/// Traces of 50,000 observations, for the pages.
pub(crate) const HUGE_TRACES: u64 = 2;
const STEPS_OF_HUGE: u64 = 50_000;
/// The number in ids of the first of them; those of the others are lower.
pub(crate) const HUGE: u64 = LARGE_TRACE - 1;

/// The session of every tenth trace: 20,000 of 200,000.
pub(crate) const LONG_SESSION: &str = "session-without-end";

/// The number in ids of the large trace.
pub(crate) const LARGE_TRACE: u64 = u64::MAX >> 8;
/// That of another one as large, to compare it with.
pub(crate) const OTHER_LARGE: u64 = HUGE - HUGE_TRACES;

/// The id of a trace as clients name it.
pub(crate) fn trace_id(trace: u64) -> String {
    let id = mix(trace);
    format!("{id:016x}{:016x}", mix(id))
}

/// A server on the data: those of an earlier run where they are of this size, else new ones.
///
/// # Errors
/// When the server refuses something.
pub(crate) async fn server(n_observations: u64) -> anyhow::Result<(Server, Filled)> {
    let n_traces = n_observations / SPANS_PER_TRACE as u64;
    let program = std::env::current_exe()?;
    let target = program.ancestors().nth(2).context("no target folder")?;
    let folder: PathBuf = target.join("bench-queries").join(n_traces.to_string());
    let note = folder.join("filled.json");
    if let Some(until_ns) = kept(&note) {
        let server = Server::start_in(Folder::Kept(folder), &[]).await?;
        return Ok((server, Filled { n_traces, until_ns }));
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let server = Server::start_in(Folder::Kept(folder), &[]).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let filled = Filled { n_traces, until_ns: now.as_nanos() as u64 };
    fill(&server, filled).await?;
    let text = json!({ "edition": EDITION, "untilNs": filled.until_ns }).to_string();
    std::fs::write(note, text)?;
    Ok((server, filled))
}

fn kept(note: &std::path::Path) -> Option<u64> {
    let note: Value = serde_json::from_slice(&std::fs::read(note).ok()?).ok()?;
    (note["edition"] == EDITION).then(|| note["untilNs"].as_u64())?
}

async fn fill(server: &Server, filled: Filled) -> anyhow::Result<()> {
    let per_batch = (SPANS_PER_BATCH / SPANS_PER_TRACE) as u64;
    let n_batches = filled.n_traces.div_ceil(per_batch);
    let started = std::time::Instant::now();
    let mut senders = Vec::new();
    for sender in 0..4 {
        let mut connection = server.connect().await?;
        senders.push(tokio::spawn(async move {
            for batch in (sender..n_batches).step_by(4) {
                let first = batch * per_batch;
                let traces = first..(first + per_batch).min(filled.n_traces);
                let spans = traces.flat_map(|trace| spans_of(filled, trace));
                send(&mut connection, spans.collect()).await?;
            }
            anyhow::Ok(())
        }));
    }
    for sender in senders {
        sender.await??;
    }
    let took = started.elapsed().as_secs_f64();
    let rate = (filled.n_traces * SPANS_PER_TRACE as u64) as f64 / took;
    eprintln!("queries: filled in {took:.0} s, {rate:.0} spans/s");
    let mut connection = server.connect().await?;
    let huge = (0..HUGE_TRACES).map(|huge| (HUGE - huge, STEPS_OF_HUGE));
    let large = [(LARGE_TRACE, LARGE), (OTHER_LARGE, LARGE)];
    for (trace, n_steps) in large.into_iter().chain(huge) {
        for first in (0..n_steps).step_by(SPANS_PER_BATCH) {
            let steps = first..(first + SPANS_PER_BATCH as u64).min(n_steps);
            let spans = steps.map(|step| step_of_large(filled, trace, step)).collect();
            send(&mut connection, spans).await?;
        }
    }
    for first in (0..filled.n_traces).step_by(SCORES_PER_REQUEST as usize) {
        let traces = first..(first + SCORES_PER_REQUEST).min(filled.n_traces);
        let scores: Value = traces.flat_map(|trace| scores_of(filled, trace)).collect();
        connection.json("POST", "/api/public/scores", Some(&scores)).await?;
    }
    for at in 0..N_PROMPTS {
        for version in 0..5 {
            let prompt = json!({
                "name": format!("prompt-{at}"), "type": "text", "prompt": filler(2_000, at as usize, version),
                "labels": ["production"], "tags": ["support"], "config": { "temperature": 0.2 },
            });
            connection.json("POST", "/api/public/v2/prompts", Some(&prompt)).await?;
        }
    }
    // What a start leaves to be done later is done before anything is measured.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

async fn send(connection: &mut crate::http::Connection, spans: Vec<Vec<u8>>) -> anyhow::Result<()> {
    let resource = delimited(1, &attribute(1, "service.name", "support-agent"));
    let scope = delimited(1, &delimited(1, b"bench-agent"));
    let spans: Vec<u8> = spans.iter().flat_map(|span| delimited(2, span)).collect();
    let body = delimited(1, &[resource, delimited(2, &[scope, spans].concat())].concat());
    let (status, answer) = connection
        .send("POST", "/api/public/otel/v1/traces", "application/x-protobuf", body.into())
        .await?;
    let answer = String::from_utf8_lossy(&answer);
    anyhow::ensure!(status == 200 && answer.is_empty(), "{status} {answer}");
    Ok(())
}

fn scores_of(filled: Filled, trace: u64) -> Vec<Value> {
    let score = |name: &str, value: Value| {
        json!({
            "id": format!("{name}-{trace}"), "traceId": trace_id(trace), "name": name, "value": value,
            "environment": environment(trace), "comment": "as the judge saw it",
            "timestamp": iso(filled.start_ns(trace)),
        })
    };
    let mut scores = vec![score("quality", json!((mix(trace) % 100) as f64 / 100.0))];
    if trace.is_multiple_of(5) {
        scores.push(score("tone", json!(["warm", "cold"][trace as usize % 2])));
    }
    if is_rare(trace) {
        scores.push(score("needle", json!(1)));
    }
    // 37 further names, of which each trace has one or two: half a million scores in all.
    let n_more = if trace % 10 < 3 { 2 } else { 1 };
    for at in 0..n_more {
        let name = format!("metric-{}", (trace + 18 * at) % 37);
        scores.push(score(&name, json!((mix(trace + at) % 1_000) as f64 / 1_000.0)));
    }
    scores
}

const fn is_rare(trace: u64) -> bool {
    trace % RARE == 77
}

fn environment(trace: u64) -> &'static str {
    match trace % 10 {
        _ if is_rare(trace) => "needle",
        0..=6 => "production",
        7 | 8 => "staging",
        _ => "development",
    }
}

/// Nanoseconds as clients write times.
pub(crate) fn iso(ns: u64) -> String {
    let at = perpend_domain::time::Timestamp::from_micros((ns / 1_000) as i64);
    at.to_string()
}

fn spans_of(filled: Filled, trace: u64) -> Vec<Vec<u8>> {
    let start = filled.start_ns(trace);
    (0..SPANS_PER_TRACE as u64)
        .map(|step| {
            let started = start + step * 100_000_000;
            let ended = match step {
                0 => start + 900_000_000 + mix(trace) % 5_000_000_000,
                _ => started + 20_000_000 + mix(trace + step) % 300_000_000,
            };
            let (name, attributes) = match step {
                0 => root(trace),
                1 | 2 => generation(trace, step),
                _ => tool(trace, step),
            };
            span(trace, step, (started, ended), name, attributes)
        })
        .collect()
}

fn step_of_large(filled: Filled, trace: u64, step: u64) -> Vec<u8> {
    let started = filled.until_ns - DAY_NS / 2 + step * 1_000_000;
    let (name, attributes) = match step % 3 {
        _ if step == 0 => root(1),
        0 | 1 => generation(step, 1),
        _ => tool(step, 3),
    };
    let times = (started, started + 700_000);
    span(trace, step, times, name, attributes)
}

/// `Span { trace_id = 1, span_id = 2, parent_span_id = 4, name = 5, kind = 6, start = 7, end = 8,
/// attributes = 9 }`
fn span(
    trace: u64,
    step: u64,
    (started, ended): (u64, u64),
    name: &str,
    attributes: Vec<Vec<u8>>,
) -> Vec<u8> {
    let id = mix(trace);
    let span_id = |step: u64| mix(mix(trace ^ 0x5bd1).wrapping_add(step)).to_be_bytes();
    let mut out = delimited(1, &[id.to_be_bytes(), mix(id).to_be_bytes()].concat());
    out.extend(delimited(2, &span_id(step)));
    if step != 0 {
        out.extend(delimited(4, &span_id(0)));
    }
    out.extend(delimited(5, name.as_bytes()));
    out.extend(varint(6 << 3));
    out.push(1);
    for (field, at) in [(7, started), (8, ended)] {
        out.extend(varint(field << 3 | 1));
        out.extend(at.to_le_bytes());
    }
    out.extend(attributes.concat());
    out
}

fn put(out: &mut Vec<Vec<u8>>, key: &str, value: &str) {
    out.push(attribute(9, key, value));
}

fn content(out: &mut Vec<Vec<u8>>, kind: &str, seed: u64, sizes: (usize, usize)) {
    let text = |n, part| filler(n, seed as usize, part);
    put(out, "langfuse.observation.type", kind);
    put(out, "langfuse.observation.input", &format!("{{\"question\":\"{}\"}}", text(sizes.0, 1)));
    put(out, "langfuse.observation.output", &format!("{{\"answer\":\"{}\"}}", text(sizes.1, 2)));
}

/// The user of a trace that has none of the rare values.
pub(crate) fn user_of(trace: u64) -> String {
    format!("user-{}", mix(trace) % 5_000)
}

fn root(trace: u64) -> (&'static str, Vec<Vec<u8>>) {
    const NAMES: [&str; 8] =
        ["chat", "search", "summary", "triage", "refund", "billing", "planner", "report"];
    let mut out = Vec::new();
    content(&mut out, "agent", trace, (480, 480));
    let common = |name: &str, n: u64| match is_rare(trace) {
        true => "needle".to_owned(),
        false => format!("{name}-{n}"),
    };
    let name = match is_rare(trace) {
        true => "needle",
        false => NAMES[trace as usize % NAMES.len()],
    };
    put(&mut out, "langfuse.trace.name", name);
    put(&mut out, "user.id", &common("user", mix(trace) % 5_000));
    let session = match trace % 10 {
        3 if !is_rare(trace) => LONG_SESSION.to_owned(),
        _ => common("session", trace / 10),
    };
    put(&mut out, "session.id", &session);
    put(&mut out, "langfuse.environment", environment(trace));
    put(&mut out, "langfuse.release", &format!("r{}", trace / 20_000));
    let tier = ["gold", "silver", "bronze"][trace as usize % 3];
    put(&mut out, "langfuse.trace.metadata.tier", tier);
    let customer = format!("customer-{}", trace % 1_000);
    put(&mut out, "langfuse.trace.metadata.customer", &customer);
    if is_rare(trace) {
        put(&mut out, "langfuse.trace.metadata.needle", "yes");
    }
    let tags = [format!("tag-{}", trace % 6), common("topic", trace % 40)];
    // KeyValue { key = 1, value = 2 { array_value = 5 { values = 1 { string_value = 1 } } } }
    let values: Vec<u8> =
        tags.iter().flat_map(|tag| delimited(1, &delimited(1, tag.as_bytes()))).collect();
    let any = delimited(2, &delimited(5, &values));
    out.push(delimited(9, &[delimited(1, b"langfuse.trace.tags"), any].concat()));
    ("support-turn", out)
}

fn generation(trace: u64, step: u64) -> (&'static str, Vec<Vec<u8>>) {
    const MODELS: [&str; 4] = ["gpt-4o-mini", "gpt-4o", "claude-sonnet-4-5", "mistral-large"];
    let mut out = Vec::new();
    content(&mut out, "generation", trace + step, (560, 420));
    put(&mut out, "gen_ai.operation.name", "chat");
    let model = MODELS[(mix(trace + step) % 4) as usize];
    put(&mut out, "gen_ai.request.model", model);
    let tokens = |n: u64| n.to_string();
    put(&mut out, "gen_ai.usage.input_tokens", &tokens(100 + trace % 50));
    put(&mut out, "gen_ai.usage.output_tokens", &tokens(30 + trace % 20));
    if trace.is_multiple_of(4) {
        let prompt = format!("prompt-{}", trace % N_PROMPTS);
        put(&mut out, "langfuse.observation.prompt.name", &prompt);
    }
    put(&mut out, "langfuse.observation.metadata.attempt", &tokens(trace % 3));
    ("answer", out)
}

fn tool(trace: u64, step: u64) -> (&'static str, Vec<Vec<u8>>) {
    let mut out = Vec::new();
    content(&mut out, "tool", trace + step, (300, 700));
    if trace.is_multiple_of(50) {
        put(&mut out, "langfuse.observation.level", "ERROR");
    }
    if is_rare(trace) {
        put(&mut out, "langfuse.observation.metadata.needle", "yes");
        return ("needle", out);
    }
    (["kb-search", "lookup_order"][step as usize % 2], out)
}
