//! Spans as single libraries write them, and what they must become.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use perpend_domain::batch::Batch;
use perpend_otlp::{Context, Encoding, read_traces};
use serde_json::{Value, json};

/// A span of a library in short, and the facts about its observation.
struct Case {
    scope: &'static str,
    name: &'static str,
    attributes: Value,
    events: Value,
    facts: Value,
}

fn any_value(value: &Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Array(items) => {
            json!({ "arrayValue": { "values": items.iter().map(any_value).collect::<Vec<_>>() } })
        }
        other => json!({ "stringValue": other }),
    }
}

fn pairs(object: &Value) -> Value {
    let members = object.as_object().unwrap().iter();
    members.map(|(key, value)| json!({ "key": key, "value": any_value(value) })).collect()
}

/// The members of the observation that a case may specify.
fn facts_of(case: &Case) -> Value {
    let events = case.events.as_array().into_iter().flatten();
    let events: Vec<Value> =
        events.map(|event| json!({ "name": event[0], "attributes": pairs(&event[1]) })).collect();
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{
        "scope": { "name": case.scope },
        "spans": [{
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "0102030405060708",
            "name": case.name, "startTimeUnixNano": "1800000000000000000",
            "attributes": pairs(&case.attributes), "events": events,
        }],
    }] }] })
    .to_string();
    let mut batch = Batch::default();
    read_traces(body.as_bytes(), Encoding::Json, &Context::default(), &mut batch).unwrap();
    let held = batch.observations.remove(0);
    json!({
        "type": held.kind.as_str(), "name": held.name, "model": held.model,
        "provider": held.provider, "parameters": held.model_parameters,
        "usage": held.usage, "cost": held.cost, "aggregate": held.aggregate_usage,
        "input": held.content.input.map(|payload| payload.to_value()),
        "output": held.content.output.map(|payload| payload.to_value()),
        "tools": held.called_tools, "level": held.level.as_str(),
        "session": held.session_id, "user": held.user_id, "tags": held.tags,
    })
}

fn check(cases: &[Case]) {
    for case in cases {
        let found = facts_of(case);
        for (key, wanted) in case.facts.as_object().unwrap() {
            assert_eq!(&found[key], wanted, "{} of {} ({})", key, case.name, case.scope);
        }
    }
}

#[test]
fn agent_libraries_become_agents_and_model_calls() {
    check(&[
        Case {
            scope: "gcp.vertex.agent",
            name: "call_llm",
            attributes: json!({
                "gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "gemini-2.5-flash",
                "gcp.vertex.agent.session_id": "s", "gen_ai.conversation.id": "conv",
                "gcp.vertex.agent.llm_request": "{\"contents\":[{\"role\":\"user\"}]}",
                "gcp.vertex.agent.llm_response":
                    "{\"content\":{\"parts\":[{\"text\":\"hi\"}]},\"usage_metadata\":{\"cached_content_token_count\":50}}",
                "gen_ai.usage.input_tokens": 110, "gen_ai.usage.output_tokens": 42,
            }),
            events: json!([]),
            facts: json!({
                "type": "GENERATION", "model": "gemini-2.5-flash", "session": "conv",
                "provider": "gcp.vertex.agent",
                "input": { "contents": [{ "role": "user" }] },
                "usage": { "input": 60, "input_cached_tokens": 50, "output": 42, "total": 152 },
            }),
        },
        Case {
            scope: "strands-agents",
            name: "invoke_agent helper",
            attributes: json!({
                "gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "claude",
                "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 5,
                "gen_ai.usage.total_tokens": 15, "gen_ai.usage.cache_read_input_tokens": 0,
            }),
            events: json!([
                ["gen_ai.user.message", { "content": "[{\"text\":\"hi\"}]" }],
                ["gen_ai.choice", { "message": "hello", "finish_reason": "end_turn" }],
            ]),
            facts: json!({
                "type": "AGENT", "model": null, "usage": {},
                "aggregate": { "input": 10, "input_cached_tokens": 0, "output": 5, "total": 15 },
                "input": [{ "role": "user", "content": [{ "text": "hi" }] }],
                "output": { "message": "hello", "finish_reason": "end_turn" },
            }),
        },
    ]);
}

#[test]
fn steps_of_other_agent_libraries_keep_their_kind_and_content() {
    check(&[
        Case {
            scope: "livekit-agents",
            name: "function_tool",
            attributes: json!({
                "lk.function_tool.name": "look_up", "lk.function_tool.output": "done",
            }),
            events: json!([]),
            facts: json!({ "type": "TOOL", "output": "done", "level": "DEFAULT" }),
        },
        Case {
            scope: "openinference.instrumentation.dspy",
            name: "LM.__call__",
            attributes: json!({
                "openinference.span.kind": "LLM", "llm.model_name": "openai/gpt-4o-mini",
                "llm.invocation_parameters": "{\"temperature\":0,\"model\":\"x\",\"stop\":[]}",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "q",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.tool_calls.0.tool_call.id": "1",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
                "input.value": "{\"whole\":\"request\"}", "user.id": "u", "tag.tags": ["b", "a"],
            }),
            events: json!([]),
            facts: json!({
                "type": "GENERATION", "parameters": { "temperature": 0 }, "tools": ["f"],
                "input": [{ "role": "user", "content": "q" }], "user": "u", "tags": ["a", "b"],
            }),
        },
        Case {
            scope: "haystack",
            name: "haystack.component.run",
            attributes: json!({
                "haystack.component.input": "{\"query\":\"q\"}",
                "haystack.component.output": "{\"documents\":[]}",
            }),
            events: json!([]),
            facts: json!({
                "type": "SPAN", "input": { "query": "q" }, "output": { "documents": [] },
            }),
        },
    ]);
}

#[test]
fn genkit_gives_messages_without_wrapper_and_usage() {
    check(&[Case {
        scope: "genkit-tracer",
        name: "gpt",
        attributes: json!({
            "genkit:name": "googleai/gemini-2.5-flash", "genkit:metadata:subtype": "model",
            "genkit:input": "{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"q\"}]}]}",
            "genkit:output": "{\"message\":{\"role\":\"model\"},\"usage\":{\"inputTokens\":9,\"outputTokens\":7,\"thoughtsTokens\":3,\"totalTokens\":16}}",
        }),
        events: json!([]),
        facts: json!({
            "type": "GENERATION", "name": "googleai/gemini-2.5-flash",
            "model": "googleai/gemini-2.5-flash", "output": { "role": "model" },
            "input": [{ "role": "user", "content": [{ "text": "q" }] }],
            "usage": { "input": 9, "output": 4, "output_reasoning_tokens": 3, "total": 16 },
        }),
    }]);
}

#[test]
fn the_ai_sdk_divides_its_usage_and_names_its_functions() {
    check(&[
        Case {
            scope: "ai",
            name: "ai.generateText.doGenerate",
            attributes: json!({
                "ai.operationId": "ai.generateText.doGenerate", "ai.telemetry.functionId": "fn",
                "ai.model.provider": "anthropic.messages", "ai.model.id": "claude-sonnet-4-5",
                "ai.response.text": "hi", "ai.settings.maxRetries": 2,
                "ai.response.toolCalls": "[{\"toolCallId\":\"1\",\"toolName\":\"f\",\"input\":\"{}\"}]",
                "ai.usage.inputTokens": 530, "ai.usage.outputTokens": 55,
                "ai.response.providerMetadata":
                    "{\"anthropic\":{\"usage\":{\"cache_read_input_tokens\":400,\"cache_creation_input_tokens\":100}}}",
            }),
            events: json!([]),
            facts: json!({
                "type": "GENERATION", "name": "fn:ai.generateText.doGenerate",
                "provider": "anthropic", "tools": ["f"], "parameters": { "maxRetries": 2 },
                "usage": { "input": 30, "input_cached_tokens": 400, "input_cache_creation": 100,
                    "output": 55, "total": 585 },
            }),
        },
        Case {
            scope: "ai",
            name: "ai.embedMany",
            attributes: json!({
                "ai.operationId": "ai.embedMany", "ai.values": ["\"a\"", "\"b\""],
                "ai.embeddings": ["[1,2,3]", "[4,5,6]"], "ai.usage.tokens": 4,
            }),
            events: json!([]),
            facts: json!({
                "type": "SPAN", "input": ["a", "b"], "output": { "count": 2, "dimensions": 3 },
                "aggregate": { "input": 4, "total": 4 },
            }),
        },
    ]);
}

#[test]
fn older_conventions_still_give_content_and_cost() {
    check(&[
        Case {
            scope: "logfire.openai",
            name: "Chat Completion",
            attributes: json!({
                "gen_ai.request.model": "gpt-4o", "logfire.msg": "Chat with gpt-4o",
                "logfire.level_num": 13, "operation.cost": 0.25,
                "request_data": "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}],\"model\":\"gpt-4o\"}",
                "response_data": "{\"message\":{\"role\":\"assistant\",\"content\":\"a\"}}",
            }),
            events: json!([]),
            facts: json!({
                "type": "GENERATION", "name": "Chat with gpt-4o", "level": "WARNING",
                "cost": { "total": 0.25 },
                "input": [{ "role": "user", "content": "q" }],
                "output": { "role": "assistant", "content": "a" },
            }),
        },
        Case {
            scope: "opentelemetry.instrumentation.crewai",
            name: "Agent.task",
            attributes: json!({
                "traceloop.span.kind": "task", "traceloop.entity.input": "\"plain\"",
                "traceloop.association.properties.session_id": "s",
            }),
            events: json!([]),
            facts: json!({ "type": "CHAIN", "input": "\"plain\"", "session": "s" }),
        },
        Case {
            scope: "litellm",
            name: "raw_gen_ai_request",
            attributes: json!({
                "llm.openai.messages": "[{'role': None}]", "llm.openai.choices": "[]",
                "llm.openai.content": "later",
            }),
            events: json!([]),
            facts: json!({ "type": "SPAN", "input": "[{'role': None}]", "output": [] }),
        },
        Case {
            scope: "opentelemetry.instrumentation.openai.v1",
            name: "openai.chat",
            attributes: json!({
                "llm.request.type": "chat", "gen_ai.system": "OpenAI",
                "gen_ai.content.prompt": "x", "gen_ai.completion.0.content": "",
                "gen_ai.completion.0.role": "assistant",
            }),
            events: json!([
                ["gen_ai.content.prompt", { "gen_ai.prompt": "[{\"role\":\"user\"}]" }],
                ["gen_ai.content.completion", { "gen_ai.completion": "done" }],
            ]),
            facts: json!({
                "type": "GENERATION", "provider": "openai", "input": [{ "role": "user" }],
                "output": "done",
            }),
        },
    ]);
}

#[test]
fn an_empty_source_falls_back_to_the_next_one() {
    check(&[
        Case {
            scope: "ai",
            name: "empty messages",
            attributes: json!({
                "ai.prompt.messages": r#"[{"role":"user","content":""}]"#,
                "ai.prompt": r#"{"prompt":"p"}"#,
            }),
            events: json!([]),
            facts: json!({ "input": { "prompt": "p" } }),
        },
        Case {
            scope: "app",
            name: "a choice of nothing",
            attributes: json!({ "output.value": "reply" }),
            events: json!([["gen_ai.choice", {}]]),
            facts: json!({ "output": "reply" }),
        },
    ]);
}

#[test]
fn a_flattened_completion_needs_no_index() {
    check(&[Case {
        scope: "app",
        name: "one completion",
        attributes: json!({ "gen_ai.completion.content": "d", "gen_ai.completion.role": "assistant" }),
        events: json!([]),
        facts: json!({ "output": { "content": "d", "role": "assistant" } }),
    }]);
}

#[test]
fn a_tool_span_is_a_model_call_where_it_counts_tokens_of_a_model_or_names_a_model_request() {
    let usage = json!({ "input": 120, "output": 40, "total": 160 });
    let counts = json!({ "llm.token_count.prompt": 120, "llm.token_count.completion": 40 });
    let case = |name: &'static str, attributes: Value, facts: Value| {
        let mut all = json!({ "openinference.span.kind": "TOOL" });
        let members = attributes.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        Case { scope: "litellm", name, attributes: all, events: json!([]), facts }
    };
    let with_counts = |more: Value| {
        let mut all = counts.clone();
        let members = more.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(members);
        all
    };
    check(&[
        case(
            "a model and its tokens",
            with_counts(json!({ "llm.model_name": "gpt-4o" })),
            json!({ "type": "GENERATION", "model": "gpt-4o", "usage": usage, "aggregate": {} }),
        ),
        case(
            "a request without tokens",
            json!({ "llm.request.type": "chat", "llm.model_name": "gpt-4o" }),
            json!({ "type": "GENERATION", "model": "gpt-4o", "usage": {} }),
        ),
        case(
            "an embedding",
            with_counts(json!({ "llm.request.type": "embedding" })),
            json!({ "type": "EMBEDDING", "usage": usage }),
        ),
        case(
            "a model without tokens",
            json!({ "llm.model_name": "gpt-4o" }),
            json!({ "type": "TOOL" }),
        ),
        case(
            "tokens without a model",
            counts.clone(),
            json!({ "type": "TOOL", "usage": {}, "aggregate": usage }),
        ),
        case("another request", json!({ "llm.request.type": "rerank" }), json!({ "type": "TOOL" })),
    ]);
}
