//! The mapping of conventions that the recorded corpus does not cover.

#![expect(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use perpend_domain::batch::Batch;
use perpend_domain::observation::{Level, Observation, ObservationKind as Kind};
use perpend_domain::time::Timestamp;
use perpend_otlp::{Context, Encoding, Limits, MappingReport, read_logs, read_traces};
use serde_json::{Value, json};

mod logs;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_800_000_000 * SECOND;

/// An attribute value of OTLP/JSON.
fn any_value(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        Value::Array(items) => {
            json!({ "arrayValue": { "values": items.iter().map(any_value).collect::<Vec<_>>() } })
        }
        Value::Object(_) => json!({ "kvlistValue": { "values": key_values(value) } }),
    }
}

fn key_values(object: &Value) -> Value {
    let pairs = object.as_object().unwrap().iter();
    pairs.map(|(key, value)| json!({ "key": key, "value": any_value(value) })).collect()
}

/// A span with these attributes; `more` overrides its other fields.
fn span(attributes: &Value, more: &Value) -> Value {
    let mut span = json!({
        "traceId": TRACE, "spanId": "0102030405060708", "name": "a span",
        "startTimeUnixNano": START.to_string(), "endTimeUnixNano": (START + 2 * SECOND).to_string(),
        "attributes": key_values(attributes),
    });
    for (key, value) in more.as_object().unwrap() {
        span[key] = value.clone();
    }
    span
}

fn request(spans: &[Value], scope: &Value, resource: &Value) -> Vec<u8> {
    json!({ "resourceSpans": [{
        "resource": { "attributes": key_values(resource) },
        "scopeSpans": [{ "scope": scope, "spans": spans }],
    }] })
    .to_string()
    .into_bytes()
}

/// A request and its response.
struct Mapped {
    batch: Batch,
    taken: MappingReport,
}

fn mapped(body: &[u8], context: &Context) -> Mapped {
    let mut batch = Batch::default();
    let taken = read_traces(body, Encoding::Json, context, &mut batch).unwrap();
    Mapped { batch, taken }
}

fn logs_of(body: &str) -> Batch {
    let mut batch = Batch::default();
    read_logs(body.as_bytes(), Encoding::Json, &Context::default(), &mut batch).unwrap();
    batch
}

fn one_of(span: Value, scope: &str) -> Observation {
    let body = request(&[span], &json!({ "name": scope }), &json!({}));
    mapped(&body, &Context::default()).batch.observations.remove(0)
}

fn one(attributes: Value) -> Observation {
    one_of(span(&attributes, &json!({})), "app")
}

fn scoped(scope: &str, attributes: Value) -> Observation {
    one_of(span(&attributes, &json!({})), scope)
}

fn input(observation: &Observation) -> Value {
    observation.content.input.as_ref().map_or(Value::Null, |payload| payload.to_value())
}

fn output(observation: &Observation) -> Value {
    observation.content.output.as_ref().map_or(Value::Null, |payload| payload.to_value())
}

#[test]
fn the_rules_of_the_type_table_apply_in_order() {
    let cases = [
        (
            json!({ "langfuse.observation.type": "ToOl", "openinference.span.kind": "LLM" }),
            Kind::Tool,
        ),
        (
            json!({ "langfuse.observation.type": "odd", "openinference.span.kind": "RERANKER" }),
            Kind::Retriever,
        ),
        (
            json!({ "openinference.span.kind": "PROMPT", "gen_ai.operation.name": "chat" }),
            Kind::Span,
        ),
        (
            json!({ "openinference.span.kind": "UNKNOWN", "gen_ai.operation.name": "chat_stream" }),
            Kind::Generation,
        ),
        (json!({ "gen_ai.operation.name": "search_memory" }), Kind::Retriever),
        (
            json!({ "gen_ai.operation.name": "other", "genkit:metadata:subtype": "flow" }),
            Kind::Chain,
        ),
        (json!({ "ai.operationId": "ai.streamObject.doStream" }), Kind::Generation),
        (json!({ "operation.name": "ai.embedMany.doEmbed fn" }), Kind::Embedding),
        (json!({ "ai.operationId": "ai.streamText", "model": "m" }), Kind::Span),
        (json!({ "mlflow.spanType": "\"WORKFLOW\"" }), Kind::Chain),
        (json!({ "traceloop.span.kind": "task" }), Kind::Chain),
        (json!({ "llm.request.type": "rerank" }), Kind::Retriever),
        (json!({ "langsmith.span.kind": "llm" }), Kind::Generation),
        (json!({ "mcp.method.name": "tools/call" }), Kind::Tool),
        (json!({ "gen_ai.retrieval.query.text": "q" }), Kind::Retriever),
        (json!({ "flue.tool.name": "f" }), Kind::Tool),
        (json!({ "flue.task.prompt": "f" }), Kind::Agent),
        (json!({ "gen_ai.evaluation.name": "e" }), Kind::Evaluator),
        (json!({ "gen_ai.embeddings.dimension.count": 8 }), Kind::Embedding),
        (json!({ "llm.model_name": "m" }), Kind::Generation),
        (json!({ "http.method": "GET" }), Kind::Span),
    ];
    for (attributes, kind) in cases {
        assert_eq!(one(attributes.clone()).kind, kind, "{attributes}");
    }
    let agent = one_of(span(&json!({}), &json!({ "name": "agent_turn" })), "livekit-agents");
    assert_eq!(agent.kind, Kind::Agent);
}

#[test]
fn old_python_sdks_sent_span_for_generations() {
    let attributes =
        json!({ "langfuse.observation.type": "span", "langfuse.observation.model.name": "m" });
    let kind = |version: &str, language: &str| {
        let scope = json!({ "name": "langfuse-sdk", "version": version });
        let resource = json!({ "telemetry.sdk.language": language });
        let body = request(&[span(&attributes, &json!({}))], &scope, &resource);
        mapped(&body, &Context::default()).batch.observations[0].kind
    };
    assert_eq!(kind("3.3.0", "python"), Kind::Generation);
    assert_eq!(kind("3.4.0", "python"), Kind::Span);
    assert_eq!(kind("3.3.0", "nodejs"), Kind::Span);
}

#[test]
fn names_follow_the_library() {
    assert_eq!(one(json!({ "gen_ai.tool.name": "t", "logfire.msg": "m" })).name, "t");
    assert_eq!(one(json!({ "tool.name": "t", "model": "m" })).name, "a span");
    assert_eq!(one(json!({ "genkit:name": "g", "logfire.msg": "m" })).name, "g");
    assert_eq!(one(json!({ "ai.operationId": "ai.embed" })).name, "ai.embed");
    let long = |name: String| one_of(span(&json!({}), &json!({ "name": name })), "app").name;
    assert_eq!(long("e".repeat(3_000)).len(), 1_024);
    assert_eq!(long("é".repeat(3_000)), "é".repeat(1_024));
    assert_eq!(long("字".repeat(600)), "字".repeat(600));
    assert_eq!(long("字".repeat(1_024)).len(), 2_382, "what the index holds");
}

#[test]
fn input_and_output_are_chosen_row_by_row_and_each_on_its_own() {
    let mixed = one(json!({ "langfuse.observation.input": "in", "output.value": "{\"a\": 1}" }));
    assert_eq!((input(&mixed), output(&mixed)), (json!("in"), json!({ "a": 1 })));
    let genkit = scoped(
        "genkit-tracer",
        json!({
            "genkit:input": "{\"messages\":[{\"role\":\"user\"}],\"config\":{}}", "genkit:output": "\"done\"",
        }),
    );
    assert_eq!((input(&genkit), output(&genkit)), (json!([{ "role": "user" }]), json!("done")));
    let both = scoped(
        "ai",
        json!({
            "ai.operationId": "ai.generateText.doGenerate", "ai.prompt": "hi",
            "ai.response.text": "text", "ai.response.toolCalls": "[{\"toolName\":\"f\",\"toolCallId\":\"1\",\"input\":\"{}\"}]",
        }),
    );
    assert_eq!(output(&both)["content"], "text");
    assert_eq!(both.called_tools, ["f"]);
    let object = scoped(
        "ai",
        json!({ "ai.operationId": "ai.generateObject", "ai.response.object": "{\"a\":1}" }),
    );
    assert_eq!(output(&object), json!({ "a": 1 }));
    let flue = scoped(
        "@flue/opentelemetry",
        json!({ "flue.tool.arguments": "{}", "flue.tool.name": "t", "flue.tool.result": "r" }),
    );
    assert_eq!(output(&flue), json!("r"));
    let tool = one(
        json!({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": { "a": 1 }, "gen_ai.tool.call.result": "\"quoted\"" }),
    );
    assert_eq!((input(&tool), output(&tool)), (json!({ "a": 1 }), json!("quoted")));
    let vertex = one(
        json!({ "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.tool_call_args": "{\"x\":1}" }),
    );
    assert_eq!(input(&vertex), json!({ "x": 1 }));
    let livekit = one(json!({ "lk.user_transcript": "hello", "lk.response.text": "hi" }));
    assert_eq!((input(&livekit), output(&livekit)), (json!("hello"), json!("hi")));
    let logfire = one(json!({
        "logfire.msg": "m", "request_data": "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}",
        "events": "[{\"event.name\":\"gen_ai.user.message\",\"content\":\"q\"},{\"event.name\":\"gen_ai.choice\",\"index\":0}]",
    }));
    assert_eq!(input(&logfire), json!([{ "role": "user", "content": "q" }]));
    assert_eq!(output(&logfire), json!({ "event.name": "gen_ai.choice", "index": 0 }));
    let haystack =
        one(json!({ "haystack.component.input": "{\"q\":1}", "gen_ai.task.output": "t" }));
    assert_eq!((input(&haystack), output(&haystack)), (json!({ "q": 1 }), json!("t")));
    let cut = one(json!({ "input.value": "{\"a\": \"cut" }));
    assert_eq!(input(&cut), json!("{\"a\": \"cut"));
}

#[test]
fn retrieved_documents_and_embedded_texts_lose_their_wrappers() {
    let retriever = one(json!({
        "openinference.span.kind": "RETRIEVER", "input.value": "q",
        "retrieval.documents.0.document.content": "text", "retrieval.documents.0.document.score": 0.5,
    }));
    assert_eq!(output(&retriever), json!([{ "content": "text", "score": 0.5 }]));
    let embedding = one(json!({
        "openinference.span.kind": "EMBEDDING", "input.value": "whole request",
        "embedding.embeddings.0.embedding.text": "a", "embedding.embeddings.1.embedding.text": "b",
        "embedding.embeddings.0.embedding.vector": [0.1, 0.2], "embedding.embeddings.1.embedding.vector": [0.1, 0.2],
    }));
    assert_eq!(input(&embedding), json!(["a", "b"]));
    assert_eq!(output(&embedding), json!({ "count": 2, "dimensions": 2 }));
    let ai = scoped(
        "ai",
        json!({ "ai.operationId": "ai.embed.doEmbed", "ai.value": "\"v\"", "ai.embedding": "[1,2,3]" }),
    );
    assert_eq!((input(&ai), output(&ai)), (json!("v"), json!({ "count": 1, "dimensions": 3 })));
}

#[test]
fn events_carry_content_where_attributes_do_not() {
    let event = |name: &str, attributes: Value| json!({ "name": name, "timeUnixNano": START.to_string(), "attributes": key_values(&attributes) });
    let prompt = one_of(
        span(
            &json!({ "gen_ai.operation.name": "chat" }),
            &json!({ "events": [
        event("gen_ai.content.prompt", json!({ "gen_ai.prompt": "[{\"role\":\"user\"}]" })),
        event("gen_ai.content.completion", json!({ "gen_ai.completion.0.content": "c" })),
        event("custom", json!({ "a": 1 })),
    ] }),
        ),
        "app",
    );
    assert_eq!(input(&prompt), json!([{ "role": "user" }]));
    assert_eq!(output(&prompt), json!([{ "content": "c" }]));
    assert_eq!(prompt.content.metadata["events"].as_array().unwrap().len(), 1);
    let choices = one_of(
        span(
            &json!({}),
            &json!({ "events": [
        event("gen_ai.choice", json!({ "index": 0, "gen_ai.system": "x" })), event("gen_ai.choice", json!({ "index": 1 })),
    ] }),
        ),
        "app",
    );
    assert_eq!(output(&choices), json!([{ "index": 0 }, { "index": 1 }]));
}

#[test]
fn tool_definitions_have_a_field_of_their_own() {
    let observation = one(json!({
        "gen_ai.tool.definitions": "[{\"name\":\"a\",\"v\":1}]", "ai.prompt.tools": ["{\"name\":\"b\"}", "{\"name\":\"a\"}"],
        "llm.tools.0.tool.json_schema": "{\"function\":{\"name\":\"c\"}}",
        "llm.request.functions.0.name": "d", "llm.request.functions.0.parameters": "{\"type\":\"object\"}",
        "model_request_parameters": "{\"function_tools\":[{\"name\":\"e\"}]}",
    }));
    assert_eq!(
        observation.content.tool_definitions.unwrap(),
        json!([
            { "name": "a", "v": 1 }, { "name": "b" }, { "function": { "name": "c" } },
            { "name": "d", "parameters": { "type": "object" } }, { "name": "e" },
        ])
    );
}

#[test]
fn model_provider_parameters_and_prompt_follow_their_lists() {
    let observation = one(json!({
        "gen_ai.operation.name": "chat", "gen_ai.response.model": "unknown", "gen_ai.request.model": "m",
        "gen_ai.system": "openai.responses", "gen_ai.request.top_k": 3, "gen_ai.request.stop": [],
        "traceloop.prompt.key": "p", "traceloop.prompt.version": "7",
        "ai.response.providerMetadata": "{\"openai\":{\"serviceTier\":\"flex\"}}",
    }));
    assert_eq!(observation.model.as_deref(), Some("m"));
    assert_eq!(observation.provider.as_deref(), Some("openai"));
    assert_eq!(
        Value::Object(observation.model_parameters),
        json!({ "top_k": 3, "service_tier": "flex" })
    );
    let prompt = observation.prompt.unwrap();
    assert_eq!((prompt.name.as_str(), prompt.version), ("p", Some(7)));
    let inside = one(
        json!({ "openinference.span.kind": "LLM", "llm.invocation_parameters": "{\"model\":\"i\",\"temperature\":0,\"tools\":[1]}", "gen_ai.provider.name": "aws.bedrock" }),
    );
    assert_eq!(
        (inside.model.as_deref(), inside.provider.as_deref()),
        (Some("i"), Some("aws.bedrock"))
    );
    assert_eq!(Value::Object(inside.model_parameters), json!({ "temperature": 0 }));
    let wrapper = one(
        json!({ "ai.operationId": "ai.generateText", "ai.model.id": "m", "ai.usage.inputTokens": 5 }),
    );
    assert_eq!(
        (wrapper.model, wrapper.usage.len(), wrapper.aggregate_usage["input"].to_u64()),
        (None, 0, 5)
    );
}

#[test]
fn user_session_and_tags_are_found_wherever_libraries_put_them() {
    let observation = one(json!({
        "enduser.id": 42, "traceloop.association.properties.session_id": "\"s\"", "tag.tags": "b, a,,b",
    }));
    assert_eq!(observation.user_id.as_deref(), Some("42"));
    assert_eq!(observation.session_id.as_deref(), Some("s"));
    assert_eq!(observation.tags, ["a", "b"]);
    let long = one(json!({ "user.id": "x".repeat(201), "langfuse.trace.tags": "[\"z\", \"y\"]" }));
    assert_eq!(
        (long.user_id, long.tags),
        (Some("x".repeat(201)), vec!["y".to_owned(), "z".to_owned()])
    );
}

#[test]
fn metadata_values_are_decoded_only_for_sdks_that_encode_them() {
    let attributes = json!({ "langfuse.observation.metadata.a": "\"007\"", "langfuse.observation.metadata.b": "3", "langfuse.metadata": "plain" });
    let body = request(&[span(&attributes, &json!({}))], &json!({ "name": "app" }), &json!({}));
    let with = |name: &str, version: &str| {
        let context = Context {
            sdk_name: Some(name.into()),
            sdk_version: Some(version.into()),
            ..Context::default()
        };
        mapped(&body, &context).batch.observations.remove(0).content.metadata
    };
    let new = with("python", "5.0.4");
    assert_eq!(
        (&new["a"], &new["b"], &new["metadata"]),
        (&json!("007"), &json!(3), &json!("plain"))
    );
    let old = with("python", "4.9");
    assert_eq!((&old["a"], &old["b"]), (&json!("\"007\""), &json!("3")));
}

#[test]
fn unconsumed_attributes_stay_under_attributes() {
    let metadata = one(json!({ "http.method": "GET", "input.value": "secret", "numbers": vec![1; 300], "scope": "mine", "langfuse.observation.metadata.scope": "user key" })).content.metadata;
    assert_eq!(
        metadata["attributes"],
        json!({ "http.method": "GET", "numbers": "[300 numbers]", "scope": "mine" })
    );
    assert_eq!(metadata["scope"], "user key");
    assert!(!scoped("langfuse-sdk", json!({ "x": 1 })).content.metadata.contains_key("attributes"));
}

#[test]
fn levels_and_messages_follow_status_and_exceptions() {
    let exception = json!({ "name": "exception", "attributes": key_values(&json!({ "exception.type": "E", "exception.message": "m" })) });
    let failed = one_of(
        span(&json!({}), &json!({ "status": { "code": 2 }, "events": [exception.clone()] })),
        "app",
    );
    assert_eq!((failed.level, failed.status_message.as_deref()), (Level::Error, Some("E: m")));
    let handled = one_of(span(&json!({}), &json!({ "events": [exception] })), "app");
    assert_eq!((handled.level, handled.status_message), (Level::Default, None));
    assert_eq!(one(json!({ "langfuse.observation.level": " fatal " })).level, Level::Error);
    assert_eq!(one(json!({ "logfire.level_num": 13 })).level, Level::Warning);
    assert_eq!(one(json!({ "logfire.level_num": 5 })).level, Level::Debug);
    let bookkeeping = one_of(span(&json!({}), &json!({ "name": "tts_node" })), "livekit-agents");
    assert_eq!(bookkeeping.level, Level::Debug);
}

#[test]
fn the_latency_of_the_first_token_is_read_from_every_library_in_its_unit() {
    let start = Timestamp::from_micros((START / 1_000).cast_signed());
    let cases = [
        ("app", "ai.response.msToFirstChunk", 500.0),
        ("app", "ai.stream.msToFirstChunk", 500.0),
        ("app", "gen_ai.response.time_to_first_chunk", 0.5),
        ("vllm", "gen_ai.latency.time_to_first_token", 0.5),
        ("app", "gen_ai.response.time_to_first_token", 0.5),
        ("openlit.otel.tracing", "gen_ai.server.time_to_first_token", 0.5),
        ("strands.telemetry.tracer", "gen_ai.server.time_to_first_token", 500.0),
        ("agentops", "gen_ai.time_to_first_token", 0.5),
        ("agentops", "gen_ai.streaming.time_to_first_token", 0.5),
        ("agentops", "streaming.time_to_first_token", 0.5),
    ];
    for (scope, key, latency) in cases {
        let found = scoped(scope, json!({ key: latency })).completion_start;
        assert_eq!(found, Some(start.plus_millis(500)), "{scope}: {key}");
    }
}

#[test]
fn the_first_token_must_lie_within_the_span() {
    let start = Timestamp::from_micros((START / 1_000).cast_signed());
    assert_eq!(
        one(json!({ "ai.response.msToFirstChunk": 1_500.0 })).completion_start,
        Some(start.plus_millis(1_500))
    );
    assert_eq!(one(json!({ "gen_ai.response.time_to_first_chunk": 3 })).completion_start, None);
    let event =
        json!({ "name": "First Token Stream Event", "timeUnixNano": (START + SECOND).to_string() });
    let by_event = one_of(span(&json!({}), &json!({ "events": [event] })), "app");
    assert_eq!(by_event.completion_start, Some(start.plus_millis(1_000)));
    assert!(!by_event.content.metadata.contains_key("events"));
}

#[test]
fn pending_spans_are_noise_and_own_parents_are_none() {
    let pending = span(&json!({ "logfire.span_type": "pending_span" }), &json!({}));
    let body = request(&[pending], &json!({}), &json!({}));
    let result = mapped(&body, &Context::default());
    assert_eq!(
        (result.taken.n_accepted, result.batch.observations.len(), result.taken.n_rejected),
        (1, 0, 0)
    );
}

#[test]
fn limits_truncate_at_characters_and_add_a_note() {
    let limits = Limits {
        max_content_bytes: 5,
        max_metadata_value_bytes: 10,
        max_metadata_bytes: 200,
        max_attributes: 4,
        ..Limits::default()
    };
    let context = Context { limits, ..Context::default() };
    let attributes = json!({ "input.value": "ééé", "big": "x".repeat(50), "small": 1, "fourth": 2, "dropped": 3 });
    let body = request(
        &[span(&attributes, &json!({ "droppedAttributesCount": 2 }))],
        &json!({}),
        &json!({}),
    );
    let observation = mapped(&body, &context).batch.observations.remove(0);
    assert_eq!(input(&observation), json!("éé"));
    let metadata = &observation.content.metadata;
    assert_eq!(metadata["truncated"]["input"], 6);
    assert_eq!(metadata["attributes"]["big"], "x".repeat(10));
    assert_eq!(metadata["droppedAttributesCount"], 3);
}

#[test]
fn shape_errors_cost_only_what_they_touch() {
    let sound = span(&json!({}), &json!({}));
    let cases = [
        json!({ "attributes": { "a": 1 } }),
        json!({ "events": {} }),
        json!({ "links": "x" }),
        json!({ "events": [{ "name": "e", "attributes": {} }] }),
        json!({ "traceId": "00000000000000000000000000000000" }),
        json!({ "spanId": 7 }),
        json!({ "parentSpanId": "abc" }),
    ];
    for case in cases {
        let body =
            request(&[sound.clone(), span(&json!({}), &case)], &json!({ "name": "s" }), &json!({}));
        let taken = mapped(&body, &Context::default()).taken;
        assert_eq!((taken.n_accepted, taken.n_rejected), (1, 1), "{case}");
        assert_eq!(taken.rejections[0].scope, "s");
    }
    for body in [
        "",
        "{}",
        "{\"resourceSpans\":[]}",
        "{\"resource_spans\":[1]}",
        "{\"resourceSpans\":[{},null,{\"scopeSpans\":[{\"spans\":[]}]}]}",
    ] {
        let taken = mapped(body.as_bytes(), &Context::default()).taken;
        assert_eq!((taken.n_accepted, taken.n_rejected), (0, 0), "{body}");
        assert_eq!(taken.hint.is_some(), body.contains("resource_spans"));
    }
    for body in ["[]", "{", "{\"resourceSpans\":{}}", "nope", "{\"resourceLogs\":[]}"] {
        let mut batch = Batch::default();
        let read = read_traces(body.as_bytes(), Encoding::Json, &Context::default(), &mut batch);
        assert!(read.is_err(), "{body}");
    }
}

#[test]
fn experiment_attributes_link_the_observation() {
    let link = one(json!({ "langfuse.experiment.id": "e", "langfuse.experiment.item.version": "not a time", "langfuse.experiment.metadata.k": "v" })).experiment.unwrap();
    assert_eq!(
        (link.id.as_deref(), link.item_version, link.metadata),
        (Some("e"), None, Some(json!({ "k": "v" })))
    );
}

#[test]
fn cost_of_mlflow_is_read_from_attributes_of_its_own() {
    let observation = one(json!({
        "mlflow.spanType": "\"LLM\"", "mlflow.llm.cost.input_cost": "0.001",
        "mlflow.llm.cost.output_cost": 0.002,
    }));
    assert_eq!(observation.cost["total"], 0.003);
    let total = one(json!({ "mlflow.spanType": "LLM", "mlflow.llm.cost.total_cost": 0.5 }));
    assert_eq!(total.cost["total"], 0.5);
}

#[test]
fn unconsumed_attributes_keep_the_prefix_of_the_sender() {
    let observation = one(json!({
        "perpend.own": 1, "langfuse.theirs": 2, "prompt": "p", "events": 3, "metadata": "words",
    }));
    assert_eq!(
        observation.content.metadata["attributes"],
        json!({ "perpend.own": 1, "langfuse.theirs": 2, "prompt": "p", "events": 3, "metadata": "words" })
    );
}

#[test]
fn a_tool_without_arguments_has_an_empty_object_as_input() {
    let tool = one(json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "{}",
        "input.value": "later",
    }));
    assert_eq!(input(&tool), json!({}));
    let vertex = scoped(
        "gcp.vertex.agent",
        json!({
            "gen_ai.operation.name": "execute_tool", "gcp.vertex.agent.llm_request": "{}",
            "gcp.vertex.agent.tool_call_args": "{}", "gcp.vertex.agent.llm_response": "{}",
            "gcp.vertex.agent.tool_response": "{\"a\":1}",
        }),
    );
    assert_eq!((input(&vertex), output(&vertex)), (json!({}), json!({ "a": 1 })));
}

#[test]
fn tools_are_ordered_by_their_numbers_and_may_be_json_text() {
    let tools = one(json!({
        "llm.tools.10.tool.json_schema": "{\"name\":\"last\"}",
        "llm.tools.2.tool.json_schema": "{\"name\":\"first\"}",
        "gen_ai.tool.definitions": ["{\"name\":\"text\"}"],
    }));
    assert_eq!(
        tools.content.tool_definitions.unwrap(),
        json!([{ "name": "text" }, { "name": "first" }, { "name": "last" }])
    );
}

#[test]
fn azure_of_the_ai_sdk_loses_its_suffix_and_that_of_the_conventions_stays() {
    for (sent, provider) in [
        ("azure.chat", "azure"),
        ("azure.ai.openai", "azure.ai.openai"),
        ("aws.bedrock", "aws.bedrock"),
        ("openai.responses", "openai"),
    ] {
        let observation = one(json!({ "ai.model.provider": sent }));
        assert_eq!(observation.provider.as_deref(), Some(provider), "{sent}");
    }
}

#[test]
fn whole_metadata_of_an_encoding_sdk_is_decoded_and_an_empty_object_adds_nothing() {
    let context = Context {
        sdk_name: Some("python".to_owned()),
        sdk_version: Some("5.1".to_owned()),
        ..Context::default()
    };
    let user_keys = |sent: &str| {
        let attributes = json!({ "langfuse.observation.metadata": sent });
        let body = request(&[span(&attributes, &json!({}))], &json!({}), &json!({}));
        Value::Object(mapped(&body, &context).batch.observations[0].content.metadata.clone())
    };
    assert_eq!(user_keys("\"note\""), json!({ "metadata": "note" }));
    assert_eq!(user_keys("{}"), json!({}));
    assert_eq!(user_keys("{\"a\":1}"), json!({ "a": 1 }));
}
