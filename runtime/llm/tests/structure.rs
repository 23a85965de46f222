//! Structured replies: the choice of the method, its cache, and re-asks.

mod support;

use std::sync::{Arc, Mutex};

use perpend_domain::time::Timestamp;
use perpend_llm::{CallLimits, ErrorClass, Failure, Protocol, StructureMethod};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest, FinishReason};
use serde_json::json;
use support::{
    Act, FixedClock, GOOD, ReceivedRequest, Recorder, Server, endpoint, finished, llm, mock, reply,
    structured,
};

async fn ask(
    acts: Vec<Act>,
    limits: &CallLimits,
    request: &CompletionRequest,
) -> (Result<Completion, Failure>, Arc<Recorder>, Vec<ReceivedRequest>) {
    let server = Server::start(acts).await;
    let endpoint = endpoint(Protocol::OpenAi, &server.url);
    let (result, recorder) = support::call(&llm(), &endpoint, limits, request).await;
    (result, recorder, server.received())
}

fn rejected(message: &str) -> Act {
    Act::Json(400, json!({ "error": { "message": message } }))
}

fn tool(arguments: &str) -> Act {
    let call = json!({ "function": { "name": "reply", "arguments": arguments } });
    let message = json!({ "content": null, "tool_calls": [call] });
    let choice = json!({ "message": message, "finish_reason": "tool_calls" });
    Act::Json(200, json!({ "choices": [choice] }))
}

const BAD: &str = r#"{"reasoning":"fine","score":7}"#;

#[tokio::test]
async fn rejected_methods_fall_back_one_by_one_and_the_last_failure_is_returned() {
    let limits = CallLimits::default();
    let acts = vec![
        rejected("response_format json_schema is not supported"),
        rejected("this model does not support tools"),
        rejected("unknown field response_format"),
        reply(&format!("Here: {GOOD}")),
    ];
    let (result, recorder, received) = ask(acts, &limits, &structured()).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(GOOD));
    assert_eq!(recorder.methods(), ["json_schema", "tool", "json_mode", "prompt"]);
    assert_eq!(received[1].body["tool_choice"]["function"]["name"], "reply");
    assert_eq!(received[2].body["response_format"]["type"], "json_object");
    assert!(received[3].body.get("response_format").is_none());
    let prompt = received[3].body["messages"][1]["content"].as_str().unwrap();
    assert!(prompt.starts_with("Is it good?") && prompt.contains("\"maximum\":1"));
    let acts = vec![rejected("json_schema: no")];
    let (result, recorder, _) = ask(acts, &limits, &structured()).await;
    assert_eq!(result.unwrap_err().class, ErrorClass::ModelConfigInvalid);
    assert_eq!(recorder.methods().len(), 4);
}

#[tokio::test]
async fn the_method_that_worked_is_cached_for_a_day_per_model() {
    let acts = vec![rejected("json_schema is not supported"), tool(GOOD), tool(GOOD), reply(GOOD)];
    let server = Server::start(acts).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    let clock = Arc::new(FixedClock(Mutex::new(Timestamp::from_micros(0))));
    let llm = support::llm_at(clock.clone());
    let limits = CallLimits::default();
    let ask = async |endpoint: &_| {
        let (result, recorder) = support::call(&llm, endpoint, &limits, &structured()).await;
        assert_eq!(result.unwrap().structured.as_deref(), Some(GOOD));
        recorder.methods()
    };
    assert_eq!(llm.known_method(&endpoint, "m"), None);
    assert_eq!(ask(&endpoint).await, ["json_schema", "tool"]);
    assert_eq!(llm.known_method(&endpoint, "m"), Some(StructureMethod::Tool));
    assert_eq!(llm.known_method(&endpoint, "other"), None);
    assert_eq!(ask(&endpoint).await, ["tool"]);
    *clock.0.lock().unwrap() = Timestamp::from_millis(24 * 60 * 60 * 1000);
    assert_eq!(ask(&endpoint).await, ["json_schema"]);
    endpoint.connection_id = "c2".to_owned();
    assert_eq!(llm.known_method(&endpoint, "m"), None);
}

#[tokio::test]
async fn rejected_parameters_are_omitted_unless_the_user_set_them() {
    let limits = CallLimits::default();
    let request = CompletionRequest {
        max_output_tokens: Some(50),
        seed: Some(1),
        top_logprobs: Some(2),
        temperature: Some(0.0),
        ..structured()
    };
    let acts = vec![
        rejected("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        rejected("Unsupported parameter: 'seed'"),
        rejected("logprobs are not supported with reasoning models"),
        reply(GOOD),
    ];
    let (result, recorder, received) = ask(acts, &limits, &request).await;
    assert!(result.is_ok());
    assert_eq!(recorder.methods(), ["json_schema"; 4]);
    let body = &received[3].body;
    assert_eq!(body["max_completion_tokens"], 50);
    for name in ["max_tokens", "seed", "logprobs", "top_logprobs"] {
        assert!(body.get(name).is_none(), "{name}");
    }
    let acts = vec![rejected("Unsupported value: 'temperature' must be 1")];
    let (result, _, received) = ask(acts, &limits, &request).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
    assert!(failure.message.contains("temperature"));
    assert_eq!(received.len(), 1);
}

#[tokio::test]
async fn a_reask_lists_the_violations_of_the_malformed_reply() {
    let acts = vec![reply(BAD), reply("I cannot say."), tool(GOOD)];
    let limits = CallLimits::default();
    let (result, recorder, received) = ask(acts, &limits, &structured()).await;
    let completion = result.unwrap();
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(completion.text, GOOD);
    assert_eq!(recorder.methods(), ["json_schema", "json_schema", "tool"]);
    let reasks: Vec<_> = recorder.calls().iter().map(|call| (call.number, call.reask)).collect();
    assert_eq!(reasks, [(1, 0), (2, 1), (3, 2)]);
    let messages = received[2].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[2], json!({ "role": "assistant", "content": BAD }));
    let message = messages[3]["content"].as_str().unwrap();
    assert!(message.contains("- /score: 7 is greater than"), "{message}");
    assert!(messages[5]["content"].as_str().unwrap().contains("no JSON object"));
    assert!(20 <= completion.input_tokens, "all exchanges are paid for");
}

#[tokio::test]
async fn repeatedly_malformed_replies_fail_and_are_recorded() {
    for (reasks, n_calls) in [(2, 3), (0, 1)] {
        let limits = CallLimits { reasks, ..CallLimits::default() };
        let (result, recorder, _) = ask(vec![reply(BAD)], &limits, &structured()).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, ErrorClass::MalformedOutput);
        assert!(failure.message.contains("/score"), "{failure}");
        let calls = recorder.calls();
        assert_eq!(calls.len(), n_calls);
        assert!(
            calls.iter().all(|call| call.reply_head.contains("fine") && call.usage.input == 10)
        );
    }
}

#[tokio::test]
async fn a_truncated_reply_is_requested_once_more_with_twice_the_limit() {
    let request = CompletionRequest { max_output_tokens: Some(40), ..structured() };
    let limits = CallLimits::default();
    let cut = || finished(r#"{"reasoning":"fi"#, "length");
    let (result, recorder, received) = ask(vec![cut(), reply(GOOD)], &limits, &request).await;
    assert!(result.is_ok());
    assert_eq!(received[1].body["max_tokens"], 80);
    assert_eq!(received[1].body["messages"].as_array().unwrap().len(), 2);
    let estimates = recorder.estimates.lock().unwrap().clone();
    let limits_told: Vec<_> = estimates.iter().map(|of| of.max_output_tokens).collect();
    assert_eq!(limits_told, [Some(40), Some(80)]);
    let (result, _, received) = ask(vec![cut()], &limits, &request).await;
    assert_eq!(result.unwrap_err().class, ErrorClass::MalformedOutput);
    assert_eq!(received.last().unwrap().body["max_tokens"], 80, "once");
    let plain = support::request();
    let (result, ..) = ask(vec![finished("half", "length")], &limits, &plain).await;
    assert_eq!(result.unwrap().finish, FinishReason::Length);
}

#[tokio::test]
async fn a_reply_truncated_before_its_arguments_is_not_an_empty_object() {
    let schema = json!({ "type": "object", "properties": { "score": { "type": "number" } } });
    let request = CompletionRequest {
        response_schema: Some(schema.to_string()),
        max_output_tokens: Some(40),
        ..support::request()
    };
    let call = json!({ "function": { "name": "reply", "arguments": "" } });
    let message = json!({ "content": null, "tool_calls": [call] });
    let choice = json!({ "message": message, "finish_reason": "length" });
    let cut = Act::Json(200, json!({ "choices": [choice] }));
    let acts = vec![cut, tool(r#"{"score":1}"#)];
    let (result, _, received) = ask(acts, &CallLimits::default(), &request).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(r#"{"score":1}"#));
    assert_eq!(received[1].body["max_tokens"], 80);
}

#[tokio::test]
async fn a_schema_that_is_not_plain_is_checked_by_the_reply_validator() {
    let schema = json!({ "type": "object", "patternProperties": { "(a+)+$": {} } });
    let request =
        CompletionRequest { response_schema: Some(schema.to_string()), ..support::request() };
    let limits = CallLimits::default();
    let acts = vec![reply(r#"{"a": "bad"}"#), reply(r#"{"a": "good"}"#)];
    let (result, _, received) = ask(acts, &limits, &request).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(r#"{"a": "good"}"#));
    assert!(received[1].body["messages"].to_string().contains("it is bad"));
    assert_eq!(received[0].body["response_format"]["json_schema"]["strict"], false);
}

#[tokio::test]
async fn an_observer_that_rejects_a_request_ends_the_call() {
    let endpoint = mock(json!({ "replies": [{ "reply": "x" }] }));
    let recorder = Arc::new(Recorder {
        refuse: Some(Failure::new(ErrorClass::BudgetExhausted, "spent")),
        ..Recorder::default()
    });
    let limits = CallLimits::default();
    let choice = support::choice("m");
    let llm = llm();
    let request = structured();
    let called = llm.complete(&endpoint, &choice, &limits, &request, recorder.clone());
    let failure = called.await.unwrap_err();
    assert_eq!(failure.class, ErrorClass::BudgetExhausted);
    assert!(failure.is_unsent && recorder.calls().is_empty());
    assert!(0 < recorder.estimates.lock().unwrap()[0].input_tokens);
}

#[tokio::test]
async fn a_repeated_call_uses_recorded_answers_and_requests_only_the_rest() {
    let acts = vec![rejected("json_schema: no"), tool(BAD), tool(GOOD)];
    let limits = CallLimits::default();
    let (first, recorder, _) = ask(acts, &limits, &structured()).await;
    let first = first.unwrap();
    let answers = recorder.answers.lock().unwrap().clone();
    assert_eq!(answers.len(), 2);
    for n_recorded in 0..=2 {
        let server = Server::start(vec![tool(GOOD)]).await;
        let endpoint = endpoint(Protocol::OpenAi, &server.url);
        let again =
            Arc::new(Recorder { recorded: answers[..n_recorded].to_vec(), ..Recorder::default() });
        let choice = support::choice("m");
        let llm = llm();
        let request = structured();
        let made = llm.complete(&endpoint, &choice, &limits, &request, again);
        let made = made.await.unwrap();
        assert_eq!(made.structured, first.structured);
        let received = server.received();
        assert_eq!(received.len(), usize::from(n_recorded < 2));
        if n_recorded == 1 {
            let sent = &received[0].body;
            assert_eq!(sent["tool_choice"]["function"]["name"], "reply", "{sent}");
            assert!(sent["messages"].to_string().contains("/score"), "{sent}");
        }
        if n_recorded == 2 {
            assert_eq!(made, first);
        }
    }
}

#[tokio::test]
async fn equal_requests_have_equal_digests_and_secrets_do_not_change_them() {
    let server = Server::start(vec![reply(GOOD)]).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    let limits = CallLimits::default();
    let digest = async |endpoint: &_, request: &CompletionRequest| {
        let (_, recorder) = support::call(&llm(), endpoint, &limits, request).await;
        recorder.calls()[0].request_digest.clone()
    };
    let first = digest(&endpoint, &structured()).await;
    endpoint.key = perpend_llm::Secret::new("another");
    assert_eq!(digest(&endpoint, &structured()).await, first);
    let other = CompletionRequest { seed: Some(1), ..structured() };
    assert_ne!(digest(&endpoint, &other).await, first);
    assert_eq!(first.len(), 64);
}

#[tokio::test]
async fn a_schema_of_another_type_than_object_uses_the_prompt() {
    let request = CompletionRequest {
        response_schema: Some(
            json!({ "type": "array", "items": { "type": "number" } }).to_string(),
        ),
        ..support::request()
    };
    let limits = CallLimits::default();
    let (result, recorder, _) = ask(vec![reply("[1, 2]")], &limits, &request).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some("[1, 2]"));
    assert_eq!(recorder.methods(), ["prompt"]);
}
