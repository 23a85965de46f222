//! Each protocol by one request and one answer.

mod support;

use std::sync::Arc;

use perpend_llm::{CallLimits, Endpoint, ErrorClass, Protocol, Usage};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest, FinishReason};
use serde_json::{Value, json};
use support::{
    Act, GOOD, KEY, ReceivedRequest, Server, choice, endpoint, llm, mock, schema, structured,
};

/// Sends a request, and returns the received request with the result.
#[expect(clippy::unwrap_used, reason = "a panic fails the test")]
async fn exchanged(
    change: impl Fn(&mut Endpoint),
    protocol: Protocol,
    request: &CompletionRequest,
    answer: Value,
) -> (ReceivedRequest, Completion, Usage) {
    let server = Server::start(vec![Act::Json(200, answer)]).await;
    let mut endpoint = endpoint(protocol, &server.url);
    change(&mut endpoint);
    let limits = CallLimits::default();
    let (result, recorder) = support::call(&llm(), &endpoint, &limits, request).await;
    let received = server.received().remove(0);
    assert_eq!(received.header("x-team"), Some(support::HEADER));
    assert_eq!(received.header("content-type"), Some("application/json"));
    (received, result.unwrap(), recorder.calls()[0].usage)
}

fn full() -> CompletionRequest {
    CompletionRequest {
        temperature: Some(0.7),
        max_output_tokens: Some(300),
        seed: Some(5),
        stop: vec!["END".to_owned()],
        top_logprobs: Some(2),
        extra: Some(r#"{"user": "u"}"#.to_owned()),
        ..structured()
    }
}

/// The schema as it is sent where a provider enforces it.
fn sent_schema() -> Value {
    let mut schema = schema();
    schema["properties"]["score"] =
        json!({ "type": "number", "description": "minimum: 0, maximum: 1" });
    schema
}

fn counted(input: u64, cached_input: u64, output: u64, reasoning: u64) -> Usage {
    Usage { input, cached_input, output, reasoning, ..Usage::default() }
}

fn chat_answer() -> Value {
    json!({
        "model": "m-2026",
        "choices": [{
            "message": { "content": GOOD, "refusal": null },
            "finish_reason": "stop",
            "logprobs": { "content": [{
                "token": "0.5", "logprob": -0.1, "top_logprobs": [{ "token": "0.6", "logprob": -2.5 }],
            }] },
        }],
        "usage": {
            "prompt_tokens": 20, "completion_tokens": 9,
            "prompt_tokens_details": { "cached_tokens": 8 },
            "completion_tokens_details": { "reasoning_tokens": 3 },
        },
    })
}

fn chat_body() -> Value {
    json!({
        "messages": [
            { "role": "system", "content": "Be strict." },
            { "role": "user", "content": "Is it good?" },
        ],
        "temperature": 0.7,
        "max_tokens": 300,
        "seed": 5,
        "stop": ["END"],
        "logprobs": true,
        "top_logprobs": 2,
        "response_format": {
            "type": "json_schema",
            "json_schema": { "name": "reply", "schema": sent_schema(), "strict": true },
        },
        "user": "u",
    })
}

#[tokio::test]
async fn chat_completions_are_encoded_and_decoded() {
    let change = |endpoint: &mut Endpoint| {
        let url = format!("{}/deploy/{{model}}/v1/", endpoint.base_url.as_ref().unwrap());
        endpoint.base_url = Some(url);
    };
    let (received, completion, usage) =
        exchanged(change, Protocol::OpenAi, &full(), chat_answer()).await;
    assert_eq!(received.path, "/deploy/m/v1/chat/completions");
    assert_eq!(received.header("authorization").unwrap(), format!("Bearer {KEY}"));
    let mut expected = chat_body();
    expected["model"] = json!("m");
    assert_eq!(received.body, expected);
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(completion.finish, FinishReason::Stop);
    assert_eq!(completion.model, "m-2026");
    assert_eq!((completion.input_tokens, completion.output_tokens), (20, 9));
    assert_eq!(completion.logprobs[0].alternatives[0].token, "0.6");
    assert_eq!(usage, counted(20, 8, 9, 3));
}

#[tokio::test]
async fn unset_parameters_are_not_sent() {
    let request = support::request();
    let answer = chat_answer();
    let (received, completion, _) = exchanged(|_| {}, Protocol::OpenAi, &request, answer).await;
    let mut names: Vec<_> = received.body.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["messages", "model"]);
    assert_eq!(completion.text, GOOD);
    assert_eq!(completion.structured, None);
}

#[tokio::test]
async fn azure_is_encoded_and_decoded() {
    let (received, completion, usage) =
        exchanged(|_| {}, Protocol::Azure, &full(), chat_answer()).await;
    assert_eq!(
        received.path,
        "/openai/deployments/m/chat/completions?api-version=2025-02-01-preview"
    );
    assert_eq!(received.header("api-key"), Some(KEY));
    assert_eq!(received.header("authorization"), None);
    assert_eq!(received.body, chat_body());
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(usage, counted(20, 8, 9, 3));
}

#[tokio::test]
async fn responses_are_encoded_and_decoded() {
    let request = CompletionRequest { seed: None, stop: Vec::new(), ..full() };
    let answer = json!({
        "model": "m-2026", "status": "completed", "error": null, "incomplete_details": null,
        "output": [
            { "type": "reasoning", "summary": [] },
            { "type": "message", "content": [{ "type": "output_text", "text": GOOD, "logprobs": [] }] },
        ],
        "usage": {
            "input_tokens": 20, "input_tokens_details": { "cached_tokens": 8 },
            "output_tokens": 9, "output_tokens_details": { "reasoning_tokens": 3 },
        },
    });
    let change = |endpoint: &mut Endpoint| endpoint.use_responses_api = true;
    let (received, completion, usage) = exchanged(change, Protocol::OpenAi, &request, answer).await;
    assert_eq!(received.path, "/responses");
    let expected = json!({
        "model": "m",
        "input": [
            { "role": "system", "content": "Be strict." },
            { "role": "user", "content": "Is it good?" },
        ],
        "temperature": 0.7,
        "max_output_tokens": 300,
        "top_logprobs": 2,
        "include": ["message.output_text.logprobs"],
        "text": { "format": {
            "type": "json_schema", "name": "reply", "schema": sent_schema(), "strict": true,
        } },
        "user": "u",
    });
    assert_eq!(received.body, expected);
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(usage, counted(20, 8, 9, 3));
}

#[tokio::test]
async fn anthropic_is_encoded_and_decoded() {
    let answer = json!({
        "model": "m-2026", "stop_reason": "tool_use",
        "content": [
            { "type": "thinking", "thinking": "…" },
            { "type": "text", "text": "I call it." },
            { "type": "tool_use", "name": "reply", "input": { "reasoning": "fine", "score": 0.5 } },
        ],
        "usage": {
            "input_tokens": 10, "output_tokens": 9,
            "cache_creation_input_tokens": 4, "cache_read_input_tokens": 6,
        },
    });
    let request = CompletionRequest { max_output_tokens: None, extra: None, ..full() };
    let (received, completion, usage) =
        exchanged(|_| {}, Protocol::Anthropic, &request, answer).await;
    assert_eq!(received.path, "/v1/messages");
    assert_eq!(received.header("x-api-key"), Some(KEY));
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
    let expected = json!({
        "model": "m",
        "max_tokens": 4096,
        "system": "Be strict.",
        "messages": [{ "role": "user", "content": "Is it good?" }],
        "temperature": 0.7,
        "stop_sequences": ["END"],
        "tools": [{ "name": "reply", "description": "Gives the reply.", "input_schema": schema() }],
        "tool_choice": { "type": "tool", "name": "reply" },
    });
    assert_eq!(received.body, expected);
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(completion.finish, FinishReason::Stop);
    let mut expected = counted(20, 6, 9, 0);
    expected.cache_creation = 4;
    assert_eq!(usage, expected);
}

fn converse_answer() -> Value {
    json!({
        "output": { "message": { "role": "assistant", "content": [
            { "reasoningContent": { "reasoningText": { "text": "…" } } },
            { "text": "I call it." },
            { "toolUse": {
                "toolUseId": "t1", "name": "reply", "input": { "reasoning": "fine", "score": 0.5 },
            } },
        ] } },
        "stopReason": "tool_use",
        "usage": {
            "inputTokens": 10, "outputTokens": 9, "totalTokens": 19,
            "cacheReadInputTokens": 6, "cacheWriteInputTokens": 4,
        },
        "metrics": { "latencyMs": 120 },
    })
}

#[tokio::test]
async fn bedrock_is_encoded_and_decoded() {
    let extra = json!({ "top_k": 40, "serviceTier": { "type": "priority" } });
    let request = CompletionRequest { extra: Some(extra.to_string()), ..full() };
    let (received, completion, usage) =
        exchanged(|_| {}, Protocol::Bedrock, &request, converse_answer()).await;
    assert_eq!(received.path, "/model/m/converse");
    assert_eq!(received.header("authorization").unwrap(), format!("Bearer {KEY}"));
    let expected = json!({
        "system": [{ "text": "Be strict." }],
        "messages": [{ "role": "user", "content": [{ "text": "Is it good?" }] }],
        "inferenceConfig": { "temperature": 0.7, "maxTokens": 300, "stopSequences": ["END"] },
        "toolConfig": {
            "tools": [{ "toolSpec": {
                "name": "reply", "description": "Gives the reply.",
                "inputSchema": { "json": schema() },
            } }],
            "toolChoice": { "tool": { "name": "reply" } },
        },
        "additionalModelRequestFields": { "top_k": 40 },
        "serviceTier": { "type": "priority" },
    });
    assert_eq!(received.body, expected);
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(completion.finish, FinishReason::Stop);
    let mut expected = counted(20, 6, 9, 0);
    expected.cache_creation = 4;
    assert_eq!(usage, expected);
}

#[tokio::test]
async fn bedrock_needs_the_name_of_a_region_or_an_address() {
    for config in [None, Some(json!({ "region": "evil.example/" })), Some(json!({ "region": "" }))]
    {
        let mut endpoint = endpoint(Protocol::Bedrock, "");
        (endpoint.base_url, endpoint.config) = (None, config);
        let limits = CallLimits::default();
        let (result, recorder) = support::call(&llm(), &endpoint, &limits, &structured()).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
        assert!(failure.message.contains("region") && recorder.calls().is_empty());
    }
}

#[tokio::test]
async fn the_tool_choice_of_anthropic_is_not_forced_with_thinking() {
    let answer = json!({
        "content": [{ "type": "text", "text": GOOD }], "stop_reason": "end_turn",
    });
    let thinking = json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } });
    let request = CompletionRequest { extra: Some(thinking.to_string()), ..structured() };
    let (received, completion, usage) =
        exchanged(|_| {}, Protocol::Anthropic, &request, answer).await;
    assert_eq!(received.body["tool_choice"], json!({ "type": "auto" }));
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert!(usage.estimated && 0 < usage.output);
}

#[tokio::test]
async fn google_ai_studio_is_encoded_and_decoded() {
    let answer = json!({
        "candidates": [{
            "content": { "parts": [{ "text": "hm", "thought": true }, { "text": GOOD }] },
            "finishReason": "STOP",
            "logprobsResult": {
                "chosenCandidates": [{ "token": "a", "logProbability": -0.5 }],
                "topCandidates": [{ "candidates": [{ "token": "b", "logProbability": -1.5 }] }],
            },
        }],
        "usageMetadata": {
            "promptTokenCount": 20, "candidatesTokenCount": 6, "thoughtsTokenCount": 3,
            "cachedContentTokenCount": 8,
        },
        "modelVersion": "m-2026",
    });
    let request = CompletionRequest {
        extra: Some(r#"{"safetySettings": [], "topK": 3}"#.to_owned()),
        ..full()
    };
    let (received, completion, usage) =
        exchanged(|_| {}, Protocol::GoogleAiStudio, &request, answer).await;
    assert_eq!(received.path, "/v1beta/models/m:generateContent");
    assert_eq!(received.header("x-goog-api-key"), Some(KEY));
    let expected = json!({
        "contents": [{ "role": "user", "parts": [{ "text": "Is it good?" }] }],
        "systemInstruction": { "parts": [{ "text": "Be strict." }] },
        "generationConfig": {
            "temperature": 0.7,
            "maxOutputTokens": 300,
            "seed": 5,
            "stopSequences": ["END"],
            "responseLogprobs": true,
            "logprobs": 2,
            "responseMimeType": "application/json",
            "responseJsonSchema": sent_schema(),
            "topK": 3,
        },
        "safetySettings": [],
    });
    assert_eq!(received.body, expected);
    assert_eq!(completion.structured.as_deref(), Some(GOOD));
    assert_eq!(completion.logprobs[0].alternatives[0].token, "b");
    assert_eq!(usage, counted(20, 8, 9, 3));
}

#[tokio::test]
async fn a_scripted_reply_needs_no_network() {
    let endpoint = mock(json!({ "replies": [
        { "contains": "good", "reply": { "reasoning": "fine", "score": 0.5 }, "usage": { "input": 7, "output": 3 } },
        { "reply": "else" },
    ] }));
    let limits = CallLimits::default();
    let (result, recorder) = support::call(&llm(), &endpoint, &limits, &structured()).await;
    assert_eq!(result.unwrap().structured.as_deref(), Some(GOOD));
    assert_eq!(recorder.calls()[0].usage, counted(7, 0, 3, 0));
    let mut request = support::request();
    request.messages.remove(1);
    let (result, recorder) = support::call(&llm(), &endpoint, &limits, &request).await;
    assert_eq!(result.unwrap().text, "else");
    assert!(recorder.calls()[0].usage.estimated);
}

#[tokio::test]
async fn an_unsupported_adapter_fails_with_its_name() {
    let protocol = Protocol::GoogleVertexAi;
    let endpoint = endpoint(protocol, "http://127.0.0.1:1");
    let limits = CallLimits::default();
    let (result, recorder) = support::call(&llm(), &endpoint, &limits, &structured()).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, ErrorClass::ModelConfigInvalid);
    assert!(failure.message.contains(protocol.name()) && failure.is_unsent);
    assert!(recorder.calls().is_empty());
}

#[tokio::test]
async fn embeddings_are_in_the_order_of_the_texts() {
    let openai = json!({
        "data": [{ "index": 1, "embedding": [0.5, 1] }, { "index": 0, "embedding": [0, 2] }],
        "usage": { "prompt_tokens": 6 },
    });
    let google = json!({ "embeddings": [{ "values": [0, 2] }, { "values": [0.5, 1] }] });
    let cases = [
        (Protocol::OpenAi, "/embeddings", openai.clone()),
        (
            Protocol::Azure,
            "/openai/deployments/m/embeddings?api-version=2025-02-01-preview",
            openai,
        ),
        (Protocol::GoogleAiStudio, "/v1beta/models/m:batchEmbedContents", google),
    ];
    let texts = ["a".to_owned(), "b".to_owned()];
    for (protocol, path, answer) in cases {
        let server = Server::start(vec![Act::Json(200, answer)]).await;
        let endpoint = endpoint(protocol, &server.url);
        let recorder = Arc::new(support::Recorder::default());
        let limits = CallLimits::default();
        let (llm, model) = (llm(), choice("m"));
        let found = llm.embed(&endpoint, &model, &limits, &texts, recorder.clone());
        let (vectors, usage) = found.await.unwrap();
        assert_eq!(vectors, [[0.0, 2.0], [0.5, 1.0]]);
        assert_eq!(server.received()[0].path, path);
        let is_counted = protocol != Protocol::GoogleAiStudio;
        assert_eq!(usage.input, if is_counted { 6 } else { 2 });
        assert_eq!(recorder.outcomes(), ["ok"]);
    }
}

#[tokio::test]
async fn malformed_embeddings_are_errors() {
    let texts = ["a".to_owned(), "b".to_owned()];
    let one = json!({ "data": [{ "embedding": [1] }] });
    let uneven = json!({ "data": [{ "embedding": [1] }, { "index": 1, "embedding": [1, 2] }] });
    for answer in [one, uneven] {
        let server = Server::start(vec![Act::Json(200, answer)]).await;
        let endpoint = endpoint(Protocol::OpenAi, &server.url);
        let recorder = Arc::new(support::Recorder::default());
        let limits = CallLimits::default();
        let (llm, model) = (llm(), choice("m"));
        let found = llm.embed(&endpoint, &model, &limits, &texts, recorder.clone());
        assert_eq!(found.await.unwrap_err().class, ErrorClass::MalformedOutput);
    }
    let vectors = |text: &str| {
        let (llm, endpoint, texts) = (llm(), mock(json!(null)), [text.to_owned()]);
        async move {
            let recorder = Arc::new(support::Recorder::default());
            let limits = CallLimits::default();
            let model = choice("m");
            let found = llm.embed(&endpoint, &model, &limits, &texts, recorder.clone());
            found.await.unwrap().0
        }
    };
    assert_eq!(vectors("a").await, vectors("a").await);
    assert_ne!(vectors("a").await, vectors("b").await);
}
