//! Prompts that are longer than `max_input_tokens`: refused, digested, or explored.

use std::rc::Rc;

use perpend_plugin::model::{
    Completion, Message, ModelError, Part, Request, Role, ToolCall, ToolChoice,
};
use perpend_plugin::trace::{Kind, OutlineEntry, Severity};
use perpend_plugin::{EvalError, Item, Json, TraceRef};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{RecordedTrace, Run, judge, metadata, run, run_on, structured};

const REPLY: &str = r#"{"reasoning":"Seen.","score":true}"#;
/// Bytes that a prompt of the tests may have.
const LIMIT: usize = 4_000 * 4;

/// A trace of 40 observations of 4,000 bytes each. Number 30 contains the fact, number 20 failed.
fn recorded() -> Rc<RecordedTrace> {
    let observation = |n: usize| {
        let output = match n {
            30 => format!("{} The CODE is 4711. {}", "a".repeat(3_000), "b".repeat(1_000)),
            20 => format!("The order could not be booked. {}", "x".repeat(300)),
            _ => format!("step {n} {}", "word ".repeat(800)),
        };
        let entry = OutlineEntry {
            id: format!("o{n}"),
            parent_id: (0 < n).then(|| "o0".to_owned()),
            depth: u32::from(0 < n),
            kind: Kind::Tool,
            name: Some(format!("step {n}")),
            severity: if n == 20 { Severity::Error } else { Severity::Standard },
            n_children: if n == 0 { 39 } else { 0 },
            ..OutlineEntry::default()
        };
        (entry, String::new(), output)
    };
    Rc::new(RecordedTrace((0..40).map(observation).collect()))
}

fn item() -> Item {
    Item {
        trace: Some(TraceRef { trace_id: "t".to_owned(), observation_id: None }),
        ..Item::with_output("long ".repeat(20_000))
    }
}

fn config(more: &Value) -> String {
    let mut config = json!({
        "prompt": "Was the code disclosed?\n{{output}}",
        "output": { "dataType": "BOOLEAN", "score": {} },
        "max_input_tokens": LIMIT / 4,
    });
    let members = config.as_object_mut().unwrap();
    members.extend(more.as_object().unwrap().clone());
    config.to_string()
}

fn size(request: &Request) -> usize {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let size = |part: &Part| match part {
        Part::Text(text) => text.len(),
        Part::ToolResult(result) => result.content.len(),
        Part::ToolCall(call) => call.arguments.len(),
        _ => 0,
    };
    parts.map(size).sum()
}

fn call(name: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        id: "c".to_owned(),
        name: name.to_owned(),
        arguments: match arguments {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
    }
}

/// Explores with the calls of each turn, then answers.
fn explore(more: &Value, turns: Vec<Vec<ToolCall>>) -> Run {
    let mut settings = json!({ "large": "explore" });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    run_on(Some(recorded()), "judge", &config(&settings), &item(), move |request| {
        let n_replies =
            request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        Ok(match turns.get(n_replies) {
            _ if request.response_schema.is_some() => structured(REPLY),
            Some(calls) => Completion { input_tokens: 1_000, ..Completion::calling(calls.clone()) },
            None => Completion::of("ready"),
        })
    })
}

/// The results of tools in a conversation: the text, and whether it is an error.
fn results(request: &Request) -> Vec<(String, bool)> {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let results = parts.filter_map(|part| match part {
        Part::ToolResult(result) => Some((result.content.clone(), result.is_error)),
        _ => None,
    });
    results.collect()
}

fn explored(run: &Run) -> Value {
    let found = metadata(run.score(), "explored").unwrap().to_string();
    serde_json::from_str(&found).unwrap()
}

#[test]
fn by_default_a_long_prompt_fails_and_no_setting_changes_a_short_one() {
    for large in [json!({}), json!({ "large": "fail" })] {
        let run =
            run_on(Some(recorded()), "judge", &config(&large), &item(), |_| Ok(structured(REPLY)));
        assert!(run.error().text().contains("context_too_long"), "{:?}", run.outcome);
        assert!(run.requests.is_empty());
    }
    let plain = judge(&config(&json!({})), REPLY);
    for large in ["digest", "explore"] {
        let same = judge(&config(&json!({ "large": large })), REPLY);
        assert_eq!(same.requests, plain.requests, "{large}");
        assert_eq!(same.score(), plain.score());
    }
}

#[test]
fn a_digest_contains_the_outline_and_the_failed_observation_and_counts_what_it_omits() {
    let digest = config(&json!({ "large": "digest" }));
    let ask = || run_on(Some(recorded()), "judge", &digest, &item(), |_| Ok(structured(REPLY)));
    let run = ask();
    let request = &run.requests[0];
    assert!(size(request) <= LIMIT && LIMIT * 9 / 10 < size(request), "{}", size(request));
    let text = request.messages.last().unwrap().texts();
    assert!(text.contains("The order could not be booked."), "{text}");
    assert!(text.contains("o20 tool \"step 20\" ERROR"));
    assert!(text.contains("o39 tool"));
    let found = metadata(run.score(), "digest").unwrap().to_string();
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["observations"], &found["outlined"]), (&json!(40), &json!(40)));
    let (bytes, kept) = (found["bytes"].as_u64().unwrap(), found["kept_bytes"].as_u64().unwrap());
    assert!(kept < bytes);
    assert!(text.contains(&format!("{} of {bytes} bytes", bytes - kept)), "{text}");
    let left_out = found["left_out"].as_array().unwrap();
    assert!(left_out.iter().all(|piece| piece["observation"] != "o20"));
    assert!(left_out.iter().any(|piece| piece["kept_bytes"] == 0));
    let truncated = metadata(run.score(), "truncated").unwrap().to_string();
    assert!(truncated.starts_with(r#"{"output":{"bytes":100000,"kept_bytes":"#), "{truncated}");
    assert_eq!(ask().requests, run.requests, "equal traces have equal digests");
}

#[test]
fn without_a_trace_a_digest_keeps_beginning_and_end_of_the_longest_variables() {
    let item = Item {
        input: Some("What is the code?".into()),
        ..Item::with_output(format!("BEGIN {} END", "x".repeat(100_000)))
    };
    let settings = json!({ "large": "digest", "prompt": "{{input}}\n{{output}}" });
    let run = run("judge", &config(&settings), &item, |_| Ok(structured(REPLY)));
    let request = &run.requests[0];
    assert!(size(request) <= LIMIT && LIMIT - 200 < size(request), "{}", size(request));
    let text = request.messages.last().unwrap().texts();
    assert!(text.contains("What is the code?") && text.contains("BEGIN") && text.contains(" END"));
    assert!(metadata(run.score(), "digest").is_none());
    assert!(metadata(run.score(), "truncated").is_some());
}

#[test]
fn a_model_that_explores_finds_a_fact_and_the_score_lists_the_evidence() {
    let turns = vec![
        vec![call("search", &json!({ "text": "the code is" }))],
        vec![
            call(
                "read",
                &json!({ "observation": "o30", "part": "output", "from": 2_990, "bytes": 40 }),
            ),
            call("outline", &json!({ "parent": "o0" })),
        ],
    ];
    let run = explore(&json!({}), turns.clone());
    let requests = &run.requests;
    assert_eq!(requests.len(), 4, "two turns, ready, and the answer");
    for request in requests {
        assert!(size(request) <= LIMIT, "{}", size(request));
        assert_eq!(request.tools.len(), 3);
    }
    assert!(requests[..3].iter().all(|request| request.response_schema.is_none()));
    assert_eq!(requests[3].tool_choice, ToolChoice::None);
    assert!(requests[0].messages.last().unwrap().texts().contains("o39 tool"));
    let shown = results(&requests[3]);
    assert!(shown[0].0.contains("output of o30, at byte 3001: ") && !shown[0].1, "{shown:?}");
    assert!(shown[1].0.starts_with("[begin data ") && shown[1].0.contains("The CODE is 4711."));
    assert!(shown[2].0.contains("o1 tool"));
    let found = explored(&run);
    assert_eq!((&found["calls"], &found["model_calls"]), (&json!(3), &json!(3)));
    assert_eq!((&found["input_tokens"], &found["ended"]), (&json!(2_000), &json!("enough")));
    let evidence = found["evidence"].as_array().unwrap();
    let tools: Vec<_> = evidence.iter().map(|one| one["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["outline", "search", "read", "outline"]);
    let read = &evidence[2];
    assert_eq!((&read["observation"], &read["part"]), (&json!("o30"), &json!("output")));
    assert_eq!((&read["from"], &read["to"]), (&json!(2_990), &json!(3_030)));
    let inner: Vec<_> = shown[1].0.lines().collect();
    let text = &recorded().0[30].2[2_990..3_030];
    assert_eq!(inner[2], text);
    assert_eq!(read["sha256"], sha256(text));
    let again = explore(&json!({}), turns);
    assert_eq!((again.requests, again.outcome), (run.requests, run.outcome));
}

fn sha256(text: &str) -> String {
    use sha2::{Digest as _, Sha256};
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_wrong_call_is_an_error_for_the_model_and_counts() {
    let wrong = [
        ("read", json!({ "observation": "unknown", "part": "output" }), "no such observation"),
        ("read", json!({ "observation": "o1" }), "missing field `part`"),
        ("read", json!({ "observation": "o1", "part": "middle" }), "unknown variant `middle`"),
        ("read", json!({ "observation": "o1", "part": "input" }), "the observation has no input"),
        ("read", json!({ "observation": "o1", "part": "output", "from": 9_999 }), "ends at byte"),
        ("read", json!({ "observation": "o1", "part": "output", "bytes": 0 }), "bytes: at least 1"),
        ("search", json!({ "text": "" }), "text: 1 to 1000 bytes"),
        ("search", json!("not JSON"), "the arguments of search cannot be read"),
        ("outline", json!({ "below": "o1" }), "unknown field `below`"),
        ("delete", json!({}), "there is no tool \"delete\""),
    ];
    let turns = wrong.iter().map(|(name, arguments, _)| vec![call(name, arguments)]).collect();
    let run = explore(&json!({}), turns);
    let last = run.requests.last().unwrap();
    let shown = results(last);
    assert_eq!(shown.len(), wrong.len());
    for ((text, is_error), (_, _, expected)) in shown.iter().zip(&wrong) {
        assert!(*is_error && text.contains(expected), "{text}");
    }
    assert_eq!(explored(&run)["calls"], wrong.len());
    // The calls sent back to the provider have JSON arguments, whatever the model wrote.
    let parts = last.messages.iter().flat_map(|message| &message.parts);
    for part in parts {
        if let Part::ToolCall(call) = part {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            assert!(arguments.is_object());
        }
    }
}

#[test]
fn an_exploration_ends_at_the_limit_of_calls_or_tokens() {
    let look = || call("read", &json!({ "observation": "o1", "part": "output", "bytes": 10 }));
    let limits = json!({ "explore": { "max_calls": 2 } });
    let run = explore(&limits, vec![vec![look(), look(), look()]; 9]);
    assert_eq!(run.requests.len(), 2);
    let shown = results(&run.requests[1]);
    assert_eq!(
        shown.iter().map(|(_, is_error)| *is_error).collect::<Vec<_>>(),
        [false, false, true]
    );
    let found = explored(&run);
    assert_eq!((&found["calls"], &found["ended"]), (&json!(2), &json!("max_calls")));

    let run = explore(&json!({}), vec![vec![look()]; 99]);
    assert_eq!((run.requests.len(), &explored(&run)["calls"]), (33, &json!(32)));

    let limits = json!({ "explore": { "max_tokens": 2_500 } });
    let found = explored(&explore(&limits, vec![vec![look()]; 99]));
    assert_eq!((&found["calls"], &found["ended"]), (&json!(2), &json!("max_tokens")));

    let all = call("read", &json!({ "observation": "o1", "part": "output", "bytes": 1_000_000 }));
    let run = explore(&json!({}), vec![vec![all]; 99]);
    assert_eq!(explored(&run)["ended"], "max_input_tokens");
    assert!(size(run.requests.last().unwrap()) <= LIMIT);
}

#[test]
fn a_model_that_never_answers_fails_with_a_reason() {
    let settings = config(&json!({ "large": "explore", "explore": { "max_calls": 3 } }));
    let run = run_on(Some(recorded()), "judge", &settings, &item(), |_| {
        Ok(Completion::calling(vec![call("outline", &json!({}))]))
    });
    assert_eq!(run.requests.len(), 4);
    let EvalError::Upstream(text) = run.error() else { unreachable!("{:?}", run.outcome) };
    assert!(text.starts_with("exploration_unfinished: "), "{text}");
}

#[test]
fn exploring_needs_a_trace_that_can_be_read() {
    let explore = config(&json!({ "large": "explore" }));
    let without = Item { trace: None, ..item() };
    let failed = run("judge", &explore, &without, |_| Ok(structured(REPLY)));
    let text = failed.error().text();
    assert!(text.contains("context_too_long") && text.contains("trace"), "{text}");
    for large in ["digest", "explore"] {
        let failed =
            run("judge", &config(&json!({ "large": large })), &item(), |_| Ok(structured(REPLY)));
        assert!(failed.error().text().contains("`trace` was not granted"), "{:?}", failed.outcome);
        assert!(failed.requests.is_empty());
    }
    let failing = run_on(Some(recorded()), "judge", &explore, &item(), |_| {
        Err(ModelError::Unavailable("down".to_owned()))
    });
    assert_eq!(failing.error().text(), "down");
}

#[test]
fn several_questions_share_one_exploration() {
    let settings = json!({
        "prompt": "{{output}}", "max_input_tokens": LIMIT / 4, "large": "explore",
        "questions": [
            { "name": "disclosed", "dataType": "BOOLEAN", "description": "Was the code disclosed?" },
            { "name": "polite", "dataType": "BOOLEAN", "description": "Is it polite?" },
        ],
    });
    let run = run_on(Some(recorded()), "questions", &settings.to_string(), &item(), |request| {
        let n_replies =
            request.messages.iter().filter(|message| message.role == Role::Assistant).count();
        Ok(match (request.response_schema.is_some(), n_replies) {
            (true, _) => structured(
                r#"{"disclosed":{"reasoning":"r","score":true},"polite":{"reasoning":"r","score":false}}"#,
            ),
            (false, 0) => Completion::calling(vec![call("search", &json!({ "text": "code" }))]),
            (false, _) => Completion::of("ready"),
        })
    });
    assert_eq!((run.scores().len(), run.requests.len()), (2, 3));
    assert!(run.requests[0].messages.last().unwrap().texts().contains("Was the code disclosed?"));
    assert!(run.scores().iter().all(|score| metadata(score, "explored").is_some()));
}

#[test]
fn a_verdict_in_free_text_can_follow_an_exploration() {
    let settings = json!({
        "prompt": "{{output}} End with GRADE: C or GRADE: I.", "max_input_tokens": LIMIT / 4, "large": "explore",
        "choice_scores": { "C": 1, "I": 0 }, "pattern": "GRADE: (\\w)",
    });
    let run = run_on(Some(recorded()), "judge", &settings.to_string(), &item(), |request| {
        let is_over = request.tool_choice == ToolChoice::None;
        Ok(Completion::of(if is_over { "GRADE: C" } else { "ready" }))
    });
    assert_eq!(run.requests.len(), 2);
    assert_eq!(metadata(run.score(), "choice"), Some(&Json::from("C")));
}

proptest! {
    #[test]
    fn a_prompt_never_exceeds_its_limit(
        n_tokens in 1_500_u32..20_000, length in 0_usize..200_000, large in prop_oneof![Just("digest"), Just("explore")],
        n_bytes in 1_u32..100_000,
    ) {
        let item = Item { input: Some("é".repeat(length).into()), ..item() };
        let settings = json!({ "large": large, "max_input_tokens": n_tokens, "prompt": "{{input}}{{output}}{{input}}" });
        let run = run_on(Some(recorded()), "judge", &config(&settings), &item, move |request| {
            let read = json!({ "observation": "o1", "part": "output", "bytes": n_bytes });
            Ok(match request.response_schema {
                Some(_) => structured(REPLY),
                None => Completion::calling(vec![call("read", &read), call("outline", &json!({}))]),
            })
        });
        for request in &run.requests {
            prop_assert!(size(request) <= n_tokens as usize * 4);
        }
        match &run.outcome {
            Ok(scores) => prop_assert_eq!(scores.len(), 1),
            Err(error) => prop_assert!(error.text().contains("context_too_long"), "{}", error),
        }
    }
}

#[test]
fn a_message_of_the_assistant_at_the_end_of_the_prompt_stays() {
    let prompt = json!([
        { "role": "user", "content": "{{output}}" },
        { "role": "assistant", "content": "I have read it." },
    ]);
    let settings = config(&json!({ "large": "digest", "prompt": prompt }));
    let run = run_on(Some(recorded()), "judge", &settings, &item(), |_| Ok(structured(REPLY)));
    let roles: Vec<_> =
        run.requests[0].messages.iter().map(|message: &Message| message.role).collect();
    assert_eq!(roles, [Role::System, Role::User, Role::Assistant, Role::User]);
}
