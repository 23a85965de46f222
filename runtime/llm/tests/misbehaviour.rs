//! Providers that fail, lie and stall: each gets the class that the scheduler acts on, and no secret gets out.

mod support;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use perpend_llm::{CallLimits, ErrorClass, Failure, Protocol};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest};
use serde_json::{Value, json};
use support::{
    Act, GOOD, HEADER, KEY, Recorder, Server, endpoint, finished, llm, quick, reply, structured,
};

async fn ask(acts: Vec<Act>) -> (Result<Completion, Failure>, Arc<Recorder>, Server) {
    ask_with(Protocol::OpenAi, acts, &CallLimits::default()).await
}

async fn ask_with(
    protocol: Protocol,
    acts: Vec<Act>,
    limits: &CallLimits,
) -> (Result<Completion, Failure>, Arc<Recorder>, Server) {
    let server = Server::start(acts).await;
    let endpoint = endpoint(protocol, &server.url);
    let (result, recorder) = support::call(&llm(), &endpoint, limits, &structured()).await;
    (result, recorder, server)
}

fn error(message: &str) -> Value {
    json!({ "error": { "message": message } })
}

#[tokio::test]
async fn a_429_has_the_retry_after_of_the_provider() {
    let message = |lines| Act::JsonWithHeaders(429, lines, error("slow down"));
    for (lines, seconds) in [
        ("retry-after: 7\r\n", 7.0),
        ("retry-after-ms: 250\r\nretry-after: 7\r\n", 0.25),
        ("Retry-After: Sun, 01 Mar 2026 12:01:00 GMT\r\n", 60.0),
        ("retry-after: 99999\r\n", 900.0),
    ] {
        let (result, recorder, server) = ask(vec![message(lines)]).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, ErrorClass::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_secs_f64(seconds)));
        assert!(!failure.is_unsent);
        assert_eq!(server.received().len(), 1, "it is not tried again here");
        assert_eq!(recorder.outcomes(), ["rate_limited"]);
        assert!(recorder.calls()[0].reply_head.contains("slow down"));
    }
}

#[tokio::test]
async fn failures_of_providers_are_reported_once() {
    let page = |kind: &str, body: &str| {
        let head = format!("200 OK\r\ncontent-type: {kind}\r\n");
        Act::Raw(head, body.as_bytes().to_vec())
    };
    let hidden = json!({ "error": { "code": 429, "message": "later" } });
    let cases = [
        (Act::Json(500, error("oops")), ErrorClass::UpstreamUnavailable, "oops"),
        (Act::Json(529, error("overloaded")), ErrorClass::RateLimited, "overloaded"),
        (Act::Json(401, error("denied")), ErrorClass::AuthInvalid, "denied"),
        (Act::Json(402, error("pay")), ErrorClass::BillingExhausted, "pay"),
        (Act::Cut, ErrorClass::UpstreamUnavailable, "before the response was complete"),
        (
            page("application/json", "{\"choices\": ["),
            ErrorClass::UpstreamUnavailable,
            "not valid JSON",
        ),
        (page("text/html; charset=utf-8", "<html>"), ErrorClass::UpstreamUnavailable, "text/html"),
        (page("application/json", "{}"), ErrorClass::UpstreamUnavailable, "unknown form"),
        (Act::Json(200, json!({ "choices": [] })), ErrorClass::UpstreamUnavailable, "no choices"),
        (Act::Json(200, hidden), ErrorClass::RateLimited, "later"),
        (
            page("application/json", &" ".repeat(30 << 20)),
            ErrorClass::MalformedOutput,
            "larger than 8 MiB",
        ),
    ];
    for (act, class, words) in cases {
        let (result, recorder, server) = ask(vec![act]).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.message.contains(words), "{failure}");
        assert_eq!(server.received().len(), 1);
        assert_eq!(recorder.outcomes(), [class.name()]);
    }
}

#[tokio::test]
async fn missing_and_partial_responses_time_out() {
    for act in [Act::Hang, Act::Stall] {
        let (result, recorder, _) = ask_with(Protocol::OpenAi, vec![act], &quick()).await;
        assert_eq!(result.unwrap_err().class, ErrorClass::UpstreamTimeout);
        assert_eq!(recorder.outcomes(), ["upstream_timeout"]);
    }
}

#[tokio::test]
async fn refusals_of_each_protocol_have_the_class_refused() {
    let chat = |message: Value, reason: &str| json!({ "choices": [{ "message": message, "finish_reason": reason }] });
    let part = json!({ "type": "refusal", "refusal": "I will not" });
    let response = json!({
        "status": "completed", "output": [{ "type": "message", "content": [part] }],
    });
    let cases = [
        (Protocol::OpenAi, chat(json!({ "content": null, "refusal": "I will not" }), "stop")),
        (Protocol::OpenAi, chat(json!({ "content": "" }), "content_filter")),
        (Protocol::Azure, chat(json!({ "content": "" }), "content_filter")),
        (Protocol::Anthropic, json!({ "content": [], "stop_reason": "refusal" })),
        (Protocol::GoogleAiStudio, json!({ "promptFeedback": { "blockReason": "SAFETY" } })),
        (
            Protocol::GoogleAiStudio,
            json!({ "candidates": [{ "finishReason": "PROHIBITED_CONTENT" }] }),
        ),
    ];
    for (protocol, body) in cases {
        let acts = vec![Act::Json(200, body)];
        let (result, recorder, _) = ask_with(protocol, acts, &CallLimits::default()).await;
        assert_eq!(result.unwrap_err().class, ErrorClass::Refused);
        assert_eq!(recorder.outcomes(), ["ok"], "an answer that is paid for");
    }
    let server = Server::start(vec![Act::Json(200, response)]).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    endpoint.use_responses_api = true;
    let limits = CallLimits::default();
    let (result, _) = support::call(&llm(), &endpoint, &limits, &structured()).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::Refused);
    assert!(failure.message.contains("I will not"));
}

#[tokio::test]
async fn only_a_redirect_to_another_origin_drops_secrets() {
    let elsewhere = Server::start(vec![reply(GOOD)]).await;
    let head = |to: &str| Act::Raw(format!("307 X\r\nlocation: {to}\r\n"), Vec::new());
    let away = format!("{}/v1/chat", elsewhere.url);
    let (result, _, server) = ask(vec![head("/other?a=1"), head(&away)]).await;
    assert!(result.is_ok());
    let at_home = &server.received()[1];
    assert_eq!(at_home.path, "/other?a=1");
    assert_eq!(at_home.header("authorization").unwrap(), format!("Bearer {KEY}"));
    let away = &elsewhere.received()[0];
    assert_eq!(away.path, "/v1/chat");
    assert_eq!(away.body, at_home.body);
    let values: Vec<_> = away.headers.iter().map(|(_, value)| value).collect();
    assert!(!values.iter().any(|value| value.contains(KEY) || value.contains(HEADER)));
}

#[tokio::test]
async fn redirects_are_limited_and_do_not_reach_private_addresses() {
    let head = |to: &str| Act::Raw(format!("302 X\r\nlocation: {to}\r\n"), Vec::new());
    let (result, _, server) = ask(vec![head("/again")]).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::EndpointUnreachable);
    assert!(failure.message.contains("3 redirects"), "{failure}");
    assert_eq!(server.received().len(), 4);
    for to in
        ["http://localhost:1/", "http://10.0.0.1/", "ftp://127.0.0.1/", "http://u:p@127.0.0.1/"]
    {
        let (result, ..) = ask(vec![head(to)]).await;
        assert_eq!(result.unwrap_err().class, ErrorClass::EndpointUnreachable, "{to}");
    }
}

#[tokio::test]
async fn private_unreachable_and_invalid_addresses_have_different_classes() {
    // Longer than a label may be: no resolver asks anyone for it.
    let long_name = format!("http://{}.invalid/v1", "a".repeat(64));
    let limits = CallLimits::default();
    let cases = [
        ("http://localhost:9/v1", ErrorClass::EndpointUnreachable),
        ("http://10.0.0.1/v1", ErrorClass::EndpointUnreachable),
        ("http://[::1]:9/v1", ErrorClass::EndpointUnreachable),
        ("http://169.254.169.254/", ErrorClass::EndpointUnreachable),
        (long_name.as_str(), ErrorClass::EndpointUnreachable),
        ("http://127.0.0.1:1/v1", ErrorClass::UpstreamUnavailable),
        ("ftp://127.0.0.1/", ErrorClass::ModelConfigInvalid),
        ("http://user:word@127.0.0.1/", ErrorClass::ModelConfigInvalid),
        ("nonsense", ErrorClass::ModelConfigInvalid),
    ];
    for (url, class) in cases {
        let endpoint = endpoint(Protocol::OpenAi, url);
        let (result, _) = support::call(&llm(), &endpoint, &limits, &structured()).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, class, "{url}: {failure}");
        assert!(!failure.message.contains("word"), "{failure}");
    }
}

#[tokio::test]
async fn keys_in_error_messages_are_removed() {
    let echo = format!("Incorrect API key provided: {KEY}, with {HEADER}; {}", "y".repeat(900));
    let (result, recorder, _) = ask(vec![Act::Json(401, error(&echo))]).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::AuthInvalid);
    assert!(failure.message.contains("Incorrect API key provided: ***"));
    assert!(failure.message.chars().count() < 620);
    assert!(recorder.calls()[0].reply_head.contains("***"));
}

#[tokio::test]
async fn a_key_in_a_usable_answer_is_removed_from_all_records() {
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("user:{KEY}"));
    let escaped = format!("\\u0073{}", &KEY[1..]);
    for secret in [KEY, HEADER, encoded.as_str(), escaped.as_str()] {
        let content = format!(r#"{{"reasoning":"it is {secret}","score":1}}"#);
        let (result, recorder, _) = ask(vec![reply(&content)]).await;
        let completion = result.unwrap();
        let found = completion.structured.unwrap();
        assert!(found.contains("it is ***") || found.contains("it is dXNlc"), "{found}");
        let call = &recorder.calls()[0];
        let answers = recorder.answers.lock().unwrap().clone();
        for text in [
            &found,
            &completion.text,
            call.reply.as_ref().unwrap(),
            &call.reply_head,
            &answers[0].body,
        ] {
            assert!(text.contains("***"), "{text}");
            assert!(!text.contains(secret) && !text.contains(&KEY[8..]), "{text}");
        }
    }
}

#[tokio::test]
async fn a_reply_truncated_twice_is_a_final_failure() {
    for (protocol, cut) in [
        (Protocol::OpenAi, finished(r#"{"reasoning":"fi"#, "length")),
        (Protocol::OpenAi, finished(&format!("{GOOD}\nBut then"), "length")),
        (
            Protocol::Anthropic,
            Act::Json(
                200,
                json!({
                    "content": [{ "type": "text", "text": "Well" }], "stop_reason": "max_tokens",
                    "usage": { "input_tokens": 9, "output_tokens": 4096 },
                }),
            ),
        ),
        (
            Protocol::GoogleAiStudio,
            Act::Json(
                200,
                json!({
                    "candidates": [{ "content": { "parts": [{ "text": "{" }] }, "finishReason": "MAX_TOKENS" }],
                }),
            ),
        ),
    ] {
        let limits = CallLimits::default();
        let (result, recorder, server) = ask_with(protocol, vec![cut], &limits).await;
        let failure = result.unwrap_err();
        assert_eq!((failure.class, failure.is_final), (ErrorClass::MalformedOutput, true));
        assert!(failure.message.contains("cut off"), "{failure}");
        assert_eq!(server.received().len(), 2, "{failure}");
        let limits: Vec<_> = recorder.calls().iter().map(|call| call.reask).collect();
        assert_eq!(limits, [0, 1]);
    }
}

#[tokio::test]
async fn a_provider_that_rejects_the_doubled_limit_gives_the_failure_of_the_truncated_reply() {
    let cut = finished(r#"{"reasoning":"fi"#, "length");
    let refused = Act::Json(400, error("max_tokens is too large: 200"));
    let (result, _, server) = ask(vec![cut, refused]).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::MalformedOutput);
    assert!(failure.message.contains("cut off"), "{failure}");
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn a_complete_value_that_ends_at_the_limit_is_accepted() {
    let (result, _, server) = ask(vec![finished(GOOD, "length")]).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(GOOD));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn conflict_and_too_early_are_retried_and_moderation_is_a_refusal() {
    for (status, message, class) in [
        (409, "conflict", ErrorClass::UpstreamUnavailable),
        (425, "too early", ErrorClass::UpstreamUnavailable),
        (403, "your input was flagged", ErrorClass::Refused),
        (403, "no access", ErrorClass::ModelConfigInvalid),
        (403, "no access to model m", ErrorClass::ModelUnavailable),
    ] {
        let (result, ..) = ask(vec![Act::Json(status, error(message))]).await;
        assert_eq!(result.unwrap_err().class, class, "{status} {message}");
    }
}

#[tokio::test]
async fn headers_of_a_connection_replace_defaults_but_not_transport_headers() {
    let server = Server::start(vec![reply(GOOD)]).await;
    let mut endpoint = endpoint(Protocol::OpenAi, &server.url);
    endpoint.headers = vec![("Authorization".to_owned(), perpend_llm::Secret::new("Own x"))];
    let limits = CallLimits::default();
    let (result, _) = support::call(&llm(), &endpoint, &limits, &structured()).await;
    assert!(result.is_ok());
    let received = server.received();
    assert_eq!(received[0].header("authorization"), Some("Own x"));
    assert_eq!(received[0].header("traceparent"), Some(support::TRACEPARENT));
    for name in ["Host", "content-length", "bad name"] {
        endpoint.headers = vec![(name.to_owned(), perpend_llm::Secret::new("x"))];
        let (result, _) = support::call(&llm(), &endpoint, &limits, &structured()).await;
        assert_eq!(result.unwrap_err().class, ErrorClass::ModelConfigInvalid, "{name}");
    }
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn invalid_requests_and_long_prompts_are_not_sent() {
    let server = Server::start(vec![reply(GOOD)]).await;
    let endpoint = endpoint(Protocol::OpenAi, &server.url);
    let limits = CallLimits { max_input_tokens: Some(5), ..CallLimits::default() };
    let empty = CompletionRequest { messages: Vec::new(), ..structured() };
    let no_schema = CompletionRequest { response_schema: Some("{".to_owned()), ..structured() };
    let no_extra = CompletionRequest { extra: Some("[]".to_owned()), ..structured() };
    for (request, class) in [
        (empty, ErrorClass::InvalidInput),
        (no_schema, ErrorClass::InvalidInput),
        (no_extra, ErrorClass::InvalidInput),
        (structured(), ErrorClass::ContextTooLong),
    ] {
        let (result, recorder) = support::call(&llm(), &endpoint, &limits, &request).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, class);
        assert!(failure.is_unsent);
        assert!(recorder.estimates.lock().unwrap().is_empty());
    }
    assert!(server.received().is_empty());
}
