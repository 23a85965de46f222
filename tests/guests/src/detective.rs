//! `detective`, an evaluator in several languages, and its expected requests and scores: it reads a trace with a model
//! that calls tools, a session, or a run; or it makes every other kind of host call.
//!
//! Its configuration `look` selects which. Its scores: `found`, and for a trace `margin` and `coverage`.

use std::sync::Arc;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{Item, PluginScore, PluginScoreValue, TraceRef};
use perpend_worker_protocol::host_call::{
    CacheMode, Completion, CompletionRequest, FinishReason, Hit, Kind, MediaKind, Message,
    MessagePart, ModelError, ObservationFilter, ObservationHead, ObservationPage, ObservationPart,
    OutlineEntry, OutlinePage, Role, RunInfo, RunItem, RunPage, SessionInfo, Severity, Slice,
    TokenAlternative, TokenLogprob, ToolCall, ToolChoice, ToolResult, TraceInfo, TracePage,
};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::{Value, json};

use crate::{Guest, Model, item, output};

const EXCERPT: &str = "über it TIMED out here";

fn number(scores: &[PluginScore], name: &str) -> f64 {
    let found = scores.iter().find(|score| score.name == name);
    match found.map(|score| &score.value) {
        Some(PluginScoreValue::Numeric(number)) => *number,
        other => panic!("{name}: {other:?}"),
    }
}

/// Checks that it calls a model, runs the tools that the model calls, returns their results to the model, and reports the
/// probability of the verdict.
///
/// # Panics
/// When it does not.
pub fn uses_tools(guest: &Guest) {
    let model = Model::with_host(scripted, trace);
    let guest = guest.through(Arc::<Model>::clone(&model));
    let subject = Item {
        trace: Some(TraceRef { trace_id: "t1".into(), observation_id: None }),
        ..output("fine")
    };
    let scores = guest.scores("detective", &json!({ "look": "trace" }), &subject);
    let close = |name: &str, wanted: f64| {
        let number = number(&scores, name);
        assert!((number - wanted).abs() < 1e-6, "{name}: {number}");
    };
    close("found", 0.75);
    close("margin", 0.5);
    close("coverage", 0.8);
    let lines = "3 steps, 1 deep, error in fetch after 20 ms\nno by double";
    assert_eq!(scores[0].comment.as_deref(), Some(lines));

    let requests = model.completions();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        let names: Vec<_> = request.tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["search", "read"]);
        let schema: Value = serde_json::from_str(&request.tools[0].parameters).unwrap();
        assert_eq!(schema["properties"]["text"]["type"], "string");
        assert_eq!(request.top_logprobs, Some(5));
        assert_eq!(request.messages[0].parts.len(), 1);
    }
    assert_eq!(requests[0].tool_choice, ToolChoice::Named("search".into()));
    assert_eq!(requests[1].tool_choice, ToolChoice::Auto);
    let question = Message {
        role: Role::User,
        parts: vec![
            MessagePart::Text("fine".into()),
            MessagePart::Media(MediaKind::Image, "m1".into()),
        ],
    };
    assert_eq!(requests[0].messages[1], question);
    conversation(&requests[2].messages);
}

/// The conversation that the model receives before its last reply.
fn conversation(messages: &[Message]) {
    let [_, _, searched, found, wanted, read] = messages else {
        panic!("{messages:?}");
    };
    let mut scripted = vec![MessagePart::Text("Looking.".into())];
    scripted.extend(searches().into_iter().map(MessagePart::ToolCall));
    assert_eq!((searched.role, &searched.parts), (Role::Assistant, &scripted));
    let [MessagePart::ToolResult(first), MessagePart::ToolResult(second)] = found.parts.as_slice()
    else {
        panic!("{found:?}");
    };
    assert_eq!(found.role, Role::Tool);
    let expected = ToolResult {
        call_id: "c1".into(),
        content: format!("o2 output 9 {EXCERPT}"),
        is_error: false,
    };
    assert_eq!(*first, expected);
    assert_eq!((&*second.call_id, second.is_error), ("c2", true));
    assert!(!second.content.is_empty());
    // The reply had no text, so none is repeated.
    assert_eq!(wanted.parts, [MessagePart::ToolCall(reading())]);
    let expected = MessagePart::ToolResult(ToolResult {
        call_id: "c3".into(),
        content: "TIMED".into(),
        is_error: false,
    });
    assert_eq!(read.parts, [expected]);
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

/// The second one does not fit its schema.
fn searches() -> Vec<ToolCall> {
    vec![
        call("c1", "search", r#"{"text":"timed \u006fut"}"#),
        call("c2", "search", r#"{"text":7}"#),
    ]
}

fn reading() -> ToolCall {
    call("c3", "read", r#"{"observation":"o2","offset":9}"#)
}

/// The next reply of the model.
fn scripted(request: &CompletionRequest) -> Result<Completion, ModelError> {
    let calling = |text: &str, tool_calls| Completion {
        finish: FinishReason::ToolCalls,
        tool_calls,
        ..Model::completion(request, text)
    };
    Ok(match request.messages.len() {
        2 => calling("Looking.", searches()),
        4 => calling("", vec![reading()]),
        6 => Completion { logprobs: vec![no()], ..Model::completion(request, "no") },
        other => panic!("{other} messages"),
    })
}

/// `no` at 60%, `yes` at 20%, and something else.
fn no() -> TokenLogprob {
    let alternative = |token: &str, probability: f32| TokenAlternative {
        token: token.to_owned(),
        logprob: probability.ln(),
    };
    TokenLogprob {
        token: "no".into(),
        logprob: 0.6_f32.ln(),
        alternatives: vec![
            alternative("no", 0.6),
            alternative("yes", 0.2),
            alternative("Well", 0.1),
        ],
    }
}

/// An agent with two tools, one of which failed; the outline comes on two pages.
fn trace(request: &HostRequest) -> Option<HostReply> {
    let entry = |id: &str, name: &str, depth, severity| OutlineEntry {
        id: id.to_owned(),
        parent_id: (0 < depth).then(|| "o1".to_owned()),
        depth,
        kind: if depth == 0 { Kind::Agent } else { Kind::Tool },
        name: Some(name.to_owned()),
        severity,
        start_ms: 1_000,
        duration_ms: (0 < depth).then_some(20),
        input_size: 1,
        output_size: 30,
        n_children: if depth == 0 { 2 } else { 0 },
    };
    Some(match request {
        HostRequest::Outline { trace_id, parent_id: None, cursor, .. } => {
            assert_eq!(trace_id, "t1");
            let (entries, next) = match cursor.as_deref() {
                None => (
                    vec![
                        entry("o1", "agent", 0, Severity::Standard),
                        entry("o2", "fetch", 1, Severity::Error),
                    ],
                    Some("2".to_owned()),
                ),
                Some(cursor) => {
                    assert_eq!(cursor, "2");
                    (vec![entry("o3", "save", 1, Severity::Debug)], None)
                }
            };
            HostReply::Outline(Ok(OutlinePage { entries, next_cursor: next }))
        }
        HostRequest::Search { trace_id, text, limit } => {
            assert_eq!((&**trace_id, &**text, *limit), ("t1", "timed out", 3));
            HostReply::Search(Ok(vec![Hit {
                observation_id: "o2".into(),
                part: ObservationPart::Output,
                offset: 9,
                excerpt: EXCERPT.into(),
            }]))
        }
        HostRequest::ReadRange { observation_id, part, offset, length, .. } => {
            let requests = (&**observation_id, *part, *offset, *length);
            assert_eq!(requests, ("o2", ObservationPart::Output, 9, 5));
            HostReply::ReadRange(Ok(Some(Slice {
                text: "TIMED".into(),
                offset: 9,
                total: 23,
                is_json: false,
            })))
        }
        _ => return None,
    })
}

/// Checks the remaining host calls: several completions with every setting, embeddings, and a trace read page by page.
///
/// # Panics
/// When it does not.
pub fn asks_for_all_else(guest: &Guest) {
    let answer = |request: &CompletionRequest| match request.messages[0].texts().as_str() {
        "second" => Err(ModelError::RateLimited("too many".into())),
        _ => Ok(Model::completion(request, r#"{"a":2}"#)),
    };
    let model = Model::with_host(answer, all_else);
    let subject =
        Item { trace: Some(TraceRef { trace_id: "t1".into(), observation_id: None }), ..item("1") };
    let guest = guest.through(Arc::<Model>::clone(&model));
    let scores = guest.scores("detective", &json!({ "look": "all" }), &subject);
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(10.0));
    let line = r#"{"a":2}; too many; chat 3; o2 in 5 ms; o3 in 6 ms; [1]; none; {"k":1}"#;
    assert_eq!(scores[0].comment.as_deref(), Some(line));
    let requests = model.completions();
    let message = Message {
        role: Role::User,
        parts: vec![
            MessagePart::Text("first".into()),
            MessagePart::Text("and".into()),
            MessagePart::Media(MediaKind::Audio, "a1".into()),
            MessagePart::Media(MediaKind::File, "f1".into()),
        ],
    };
    let expected = CompletionRequest {
        slot: Some("judge".into()),
        response_schema: Some(r#"{"type":"object"}"#.into()),
        temperature: Some(0.5),
        top_p: Some(0.25),
        max_output_tokens: Some(9),
        seed: Some(7),
        stop: vec!["END".into(), ".".into()],
        cache: CacheMode::Bypass,
        extra: Some(r#"{"a":1}"#.into()),
        tool_choice: ToolChoice::None,
        ..CompletionRequest::new(vec![message])
    };
    assert_eq!(requests[0], expected);
    // What is not set is not sent.
    let second = Message::text(Role::User, "second");
    assert_eq!(requests[1], CompletionRequest::new(vec![second]));
}

fn all_else(request: &HostRequest) -> Option<HostReply> {
    let step = |id: &str, end_ms| ObservationHead {
        id: id.to_owned(),
        parent_id: Some("o1".into()),
        kind: Kind::Tool,
        name: Some("search".into()),
        start_ms: 1_000,
        end_ms: Some(end_ms),
        severity: Severity::Standard,
        status_message: None,
        model: None,
        input_tokens: None,
        output_tokens: None,
        input_size: 3,
        output_size: 0,
    };
    Some(match request {
        HostRequest::Embed { slot, texts } => {
            assert_eq!(slot.as_deref(), Some("vectors"));
            assert_eq!(*texts, ["a", "bc"]);
            HostReply::Embed(Ok(vec![vec![1.0, 2.0], vec![3.0, 4.0]]))
        }
        HostRequest::GetTrace { .. } => HostReply::GetTrace(Ok(TraceInfo {
            n_observations: 3,
            ..trace_info("t1", Some("chat"), &["a"])
        })),
        HostRequest::ListObservations { filter, cursor, .. } => {
            let expected = ObservationFilter {
                parent_id: Some("o1".into()),
                kinds: filter.kinds.clone(),
                name: Some("search".into()),
            };
            assert_eq!(*filter, expected);
            let has = |kind| filter.kinds.contains(&kind);
            assert!(has(Kind::Tool) && has(Kind::Agent) && filter.kinds.len() == 2);
            let (step, next) = match cursor {
                None => (step("o2", 1_005), Some("2".to_owned())),
                Some(_) => (step("o3", 1_006), None),
            };
            HostReply::ListObservations(Ok(ObservationPage {
                observations: vec![step],
                next_cursor: next,
            }))
        }
        HostRequest::Read { part, .. } => HostReply::Read(Ok(match part {
            ObservationPart::Input => Some(Payload::Json("[1]".into())),
            ObservationPart::Output => None,
            ObservationPart::Metadata => Some(Payload::Json(r#"{"k":1}"#.into())),
        })),
        _ => return None,
    })
}

/// It reads the session that is scored, trace by trace.
///
/// # Panics
/// When it does not.
pub fn reads_a_session(guest: &Guest) {
    let model = Model::with_host(|_| Err(ModelError::Cancelled), session);
    let subject = Item { session: Some("s1".into()), ..item("1") };
    let config = json!({ "look": "session" });
    let scores = guest.through(model).scores("detective", &config, &subject);
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(2.0));
    let line = "s1 of ann, bob in 60000 ms: t1 chat [a], t2";
    assert_eq!(scores[0].comment.as_deref(), Some(line));
    let failure = guest.failure("detective", &config, &subject);
    assert_eq!(failure.message, "the capability `trace` was not granted");
}

fn trace_info(id: &str, name: Option<&str>, tags: &[&str]) -> TraceInfo {
    TraceInfo {
        id: id.to_owned(),
        name: name.map(str::to_owned),
        session_id: Some("s1".into()),
        user_id: None,
        start_ms: 1_000,
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
        metadata: None,
        n_observations: 1,
    }
}

fn session(request: &HostRequest) -> Option<HostReply> {
    Some(match request {
        HostRequest::GetSession { session_id } => HostReply::GetSession(Ok(SessionInfo {
            id: session_id.clone(),
            n_traces: 2,
            start_ms: 1_000,
            end_ms: 61_000,
            user_ids: vec!["ann".into(), "bob".into()],
        })),
        HostRequest::ListTraces { session_id, cursor, .. } => {
            assert_eq!(session_id, "s1");
            let (traces, next) = match cursor {
                None => (vec![trace_info("t1", Some("chat"), &["a"])], Some("2".to_owned())),
                Some(_) => (vec![trace_info("t2", None, &[])], None),
            };
            HostReply::ListTraces(Ok(TracePage { traces, next_cursor: next }))
        }
        _ => return None,
    })
}

/// It reads the run that is scored, item by item.
///
/// # Panics
/// When it does not.
pub fn reads_a_run(guest: &Guest) {
    let model = Model::with_host(|_| Err(ModelError::Cancelled), run);
    let subject = Item { run: Some("r1".into()), ..item("1") };
    let config = json!({ "look": "run" });
    let scores = guest.through(model).scores("detective", &config, &subject);
    assert_eq!(scores[0].value, PluginScoreValue::Numeric(0.5));
    let line = "nightly, 2 items: i1 d1 t1/o1, i2";
    assert_eq!(scores[0].comment.as_deref(), Some(line));
}

fn run(request: &HostRequest) -> Option<HostReply> {
    Some(match request {
        HostRequest::GetRun { run_id } => HostReply::GetRun(Ok(RunInfo {
            id: run_id.clone(),
            name: Some("nightly".into()),
            dataset_id: None,
            metadata: None,
            n_items: 2,
        })),
        HostRequest::ListRunItems { run_id, cursor, .. } => {
            assert_eq!(run_id, "r1");
            let (items, next) = match cursor {
                None => (vec![right()], Some("2".to_owned())),
                Some(_) => (vec![wrong()], None),
            };
            HostReply::ListRunItems(Ok(RunPage { items, next_cursor: next }))
        }
        _ => return None,
    })
}

fn right() -> RunItem {
    RunItem {
        id: "i1".into(),
        dataset_item_id: Some("d1".into()),
        trace: Some(TraceRef { trace_id: "t1".into(), observation_id: Some("o1".into()) }),
        input: Some(Payload::Text("2 + 2".into())),
        output: Some(Payload::Text("4".into())),
        expected_output: Some(Payload::Text("4".into())),
        metadata: Some("{}".into()),
    }
}

fn wrong() -> RunItem {
    RunItem {
        id: "i2".into(),
        dataset_item_id: None,
        trace: None,
        input: None,
        output: Some(Payload::Json("4".into())),
        expected_output: Some(Payload::Text("4".into())),
        metadata: None,
    }
}
