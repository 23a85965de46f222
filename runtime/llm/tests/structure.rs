//! Structured replies: the method that works, what is remembered of it, and re-asks.

mod support;

use std::sync::{Arc, Mutex};

use perpend_domain::time::Timestamp;
use perpend_llm::{CallLimits, ErrorClass, Failure, Protocol, StructureMethod};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest, FinishReason};
use serde_json::json;
use support::{
    Act, Asked, GOOD, Recorder, Server, Still, endpoint, finished, llm, mock, said, structured,
};

async fn ask(
    acts: Vec<Act>,
    limits: &CallLimits,
    request: &CompletionRequest,
) -> (Result<Completion, Failure>, Arc<Recorder>, Vec<Asked>) {
    let server = Server::start(acts).await;
    let endpoint = endpoint(Protocol::OpenAi, &server.url);
    let (result, recorder) = support::call(&llm(), &endpoint, limits, request).await;
    (result, recorder, server.asked())
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
async fn rejected_methods_are_stepped_down_one_by_one_and_the_last_failure_stays() {
    let limits = CallLimits::default();
    let acts = vec![
        rejected("response_format json_schema is not supported"),
        rejected("this model does not support tools"),
        rejected("unknown field response_format"),
        said(&format!("Here: {GOOD}")),
    ];
    let (result, recorder, asked) = ask(acts, &limits, &structured()).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(GOOD));
    assert_eq!(recorder.methods(), ["json_schema", "tool", "json_mode", "prompt"]);
    assert_eq!(asked[1].body["tool_choice"]["function"]["name"], "reply");
    assert_eq!(asked[2].body["response_format"]["type"], "json_object");
    assert!(asked[3].body.get("response_format").is_none());
    let prompt = asked[3].body["messages"][1]["content"].as_str().unwrap();
    assert!(prompt.starts_with("Is it good?") && prompt.contains("\"maximum\":1"));
    let acts = vec![rejected("json_schema: no")];
    let (result, recorder, _) = ask(acts, &limits, &structured()).await;
    assert_eq!(result.unwrap_err().class, ErrorClass::ModelConfigInvalid);
    assert_eq!(recorder.methods().len(), 4);
}

#[tokio::test]
async fn the_method_that_worked_is_remembered_for_a_day_per_model() {
    let acts = vec![rejected("json_schema is not supported"), tool(GOOD), tool(GOOD), said(GOOD)];
    let server = Server::start(acts).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    let clock = Arc::new(Still(Mutex::new(Timestamp::from_micros(0))));
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
async fn parameters_that_the_user_did_not_set_give_way_and_others_are_named() {
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
        said(GOOD),
    ];
    let (result, recorder, asked) = ask(acts, &limits, &request).await;
    assert!(result.is_ok());
    assert_eq!(recorder.methods(), ["json_schema"; 4]);
    let body = &asked[3].body;
    assert_eq!(body["max_completion_tokens"], 50);
    for name in ["max_tokens", "seed", "logprobs", "top_logprobs"] {
        assert!(body.get(name).is_none(), "{name}");
    }
    let acts = vec![rejected("Unsupported value: 'temperature' must be 1")];
    let (result, _, asked) = ask(acts, &limits, &request).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
    assert!(failure.message.contains("temperature"));
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_malformed_reply_is_asked_for_again_with_what_is_wrong() {
    let acts = vec![said(BAD), said("I cannot say."), tool(GOOD)];
    let limits = CallLimits::default();
    let (result, recorder, asked) = ask(acts, &limits, &structured()).await;
    let completion = result.unwrap();
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(completion.text, GOOD);
    assert_eq!(recorder.methods(), ["json_schema", "json_schema", "tool"]);
    let reasks: Vec<_> = recorder.calls().iter().map(|call| (call.number, call.reask)).collect();
    assert_eq!(reasks, [(1, 0), (2, 1), (3, 2)]);
    let messages = asked[2].body["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 6);
    assert_eq!(messages[2], json!({ "role": "assistant", "content": BAD }));
    let told = messages[3]["content"].as_str().unwrap();
    assert!(told.contains("- /score: 7 is greater than"), "{told}");
    assert!(messages[5]["content"].as_str().unwrap().contains("no JSON object"));
    assert!(20 <= completion.input_tokens, "all exchanges are paid for");
}

#[tokio::test]
async fn replies_that_stay_malformed_fail_and_are_kept() {
    for (reasks, n_calls) in [(2, 3), (0, 1)] {
        let limits = CallLimits { reasks, ..CallLimits::default() };
        let (result, recorder, _) = ask(vec![said(BAD)], &limits, &structured()).await;
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
async fn a_reply_cut_at_its_limit_is_asked_for_once_with_twice_the_limit() {
    let request = CompletionRequest { max_output_tokens: Some(40), ..structured() };
    let limits = CallLimits::default();
    let cut = || finished(r#"{"reasoning":"fi"#, "length");
    let (result, recorder, asked) = ask(vec![cut(), said(GOOD)], &limits, &request).await;
    assert!(result.is_ok());
    assert_eq!(asked[1].body["max_tokens"], 80);
    assert_eq!(asked[1].body["messages"].as_array().unwrap().len(), 2);
    let estimates = recorder.estimates.lock().unwrap().clone();
    let limits_told: Vec<_> = estimates.iter().map(|of| of.max_output_tokens).collect();
    assert_eq!(limits_told, [Some(40), Some(80)]);
    let (result, _, asked) = ask(vec![cut()], &limits, &request).await;
    assert_eq!(result.unwrap_err().class, ErrorClass::MalformedOutput);
    assert_eq!(asked.last().unwrap().body["max_tokens"], 80, "once");
    let plain = support::request();
    let (result, ..) = ask(vec![finished("half", "length")], &limits, &plain).await;
    assert_eq!(result.unwrap().finish, FinishReason::Length);
}

#[tokio::test]
async fn a_reply_cut_before_its_arguments_is_no_empty_object() {
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
    let (result, _, asked) = ask(acts, &CallLimits::default(), &request).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(r#"{"score":1}"#));
    assert_eq!(asked[1].body["max_tokens"], 80);
}

#[tokio::test]
async fn a_hostile_schema_is_checked_elsewhere() {
    let schema = json!({ "type": "object", "patternProperties": { "(a+)+$": {} } });
    let request =
        CompletionRequest { response_schema: Some(schema.to_string()), ..support::request() };
    let limits = CallLimits::default();
    let acts = vec![said(r#"{"a": "bad"}"#), said(r#"{"a": "good"}"#)];
    let (result, _, asked) = ask(acts, &limits, &request).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(r#"{"a": "good"}"#));
    assert!(asked[1].body["messages"].to_string().contains("it is bad"));
    assert_eq!(asked[0].body["response_format"]["json_schema"]["strict"], false);
}

#[tokio::test]
async fn a_budget_that_refuses_stops_the_call() {
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
async fn a_call_made_again_uses_the_answers_that_were_kept_and_asks_for_the_rest_alone() {
    let acts = vec![rejected("json_schema: no"), tool(BAD), tool(GOOD)];
    let limits = CallLimits::default();
    let (first, recorder, _) = ask(acts, &limits, &structured()).await;
    let first = first.unwrap();
    let answers = recorder.answers.lock().unwrap().clone();
    assert_eq!(answers.len(), 2);
    for n_kept in 0..=2 {
        let server = Server::start(vec![tool(GOOD)]).await;
        let endpoint = endpoint(Protocol::OpenAi, &server.url);
        let again = Arc::new(Recorder { kept: answers[..n_kept].to_vec(), ..Recorder::default() });
        let choice = support::choice("m");
        let llm = llm();
        let request = structured();
        let made = llm.complete(&endpoint, &choice, &limits, &request, again);
        let made = made.await.unwrap();
        assert_eq!(made.structured, first.structured);
        let asked = server.asked();
        assert_eq!(asked.len(), usize::from(n_kept < 2));
        if n_kept == 1 {
            let sent = &asked[0].body;
            assert_eq!(sent["tool_choice"]["function"]["name"], "reply", "{sent}");
            assert!(sent["messages"].to_string().contains("/score"), "{sent}");
        }
        if n_kept == 2 {
            assert_eq!(made, first);
        }
    }
}

#[tokio::test]
async fn equal_requests_have_equal_digests_and_secrets_do_not_change_them() {
    let server = Server::start(vec![said(GOOD)]).await;
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
async fn a_value_that_is_no_object_is_asked_for_in_the_prompt() {
    let request = CompletionRequest {
        response_schema: Some(
            json!({ "type": "array", "items": { "type": "number" } }).to_string(),
        ),
        ..support::request()
    };
    let limits = CallLimits::default();
    let (result, recorder, _) = ask(vec![said("[1, 2]")], &limits, &request).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some("[1, 2]"));
    assert_eq!(recorder.methods(), ["prompt"]);
}
