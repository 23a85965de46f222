//! Model judges over HTTP: from a connection to a score with its cost, and failures of the provider.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_db::DatabaseUrl;
use perpend_it::{PROCESSES, TestApp, Trace, count};
use perpend_storage::testing::TempDatabase;
use serde_json::{Value, json};

const CONNECTIONS: &str = "/api/public/llm-connections";
const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";

pub(crate) async fn call(app: &TestApp, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = app.client.json(method, path, &body).await.unwrap();
    (answer.status.into(), answer.json())
}

/// Connects a scripted provider; the id of the connection.
pub(crate) async fn connect(app: &TestApp, provider: &str, replies: Value) -> String {
    let body = json!({
        "provider": provider, "adapter": "mock", "secretKey": "sk-never-shown-again",
        "config": { "replies": replies },
    });
    let (status, made) = call(app, Method::PUT, CONNECTIONS, body).await;
    assert!(status == 200 || status == 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// A judge as the official clients send it.
pub(crate) fn judge(model: Option<&str>) -> Value {
    let config = model.map(|model| json!({ "provider": "main", "model": model }));
    json!({
        "type": "llm_as_judge", "name": "politeness",
        "prompt": "How polite is this answer?\n{{output}}",
        "modelConfig": config,
        "variableMapping": [{ "variable": "output", "source": "output" }],
        "outputDefinition": {
            "dataType": "NUMERIC", "minValue": 0, "maxValue": 1,
            "scoreReasoningInstructions": "One sentence.",
            "scoreValueInstructions": "1 is very polite.",
        },
    })
}

/// A rule for generations alone: the root of the trace has no output.
pub(crate) fn generations() -> Value {
    let generation = json!({
        "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"],
    });
    json!({ "filter": [generation] })
}

fn polite() -> Value {
    json!([
        { "contains": "rude", "reply": { "reasoning": "It insults.", "score": 0.1 },
          "usage": { "input": 100, "output": 10 } },
        { "reply": { "reasoning": "It thanks.", "score": 0.9 }, "usage": { "input": 100, "output": 10 } },
    ])
}

async fn main_story(app: TestApp) {
    connect(&app, "main", polite()).await;
    let (status, made) = call(&app, Method::POST, EVALUATORS, judge(Some("gpt-4o-mini"))).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["type"], "llm_as_judge");
    assert_eq!(made["variables"], json!(["output"]));
    assert_eq!(made["prompt"][0]["role"], "user");
    assert_eq!(made["modelConfig"], json!({ "provider": "main", "model": "gpt-4o-mini" }));
    assert_eq!(made["outputDefinition"]["maxValue"], 1.0);
    let evaluator = made["id"].as_str().unwrap();
    app.rule(evaluator, generations()).await.unwrap();
    let trace = Trace::new(1, "ticket").generation("answer", "Thank you for waiting.");
    app.ingest(&trace).await.unwrap();

    let scores = app.scores(1).await.unwrap();
    let score = &scores[0];
    assert_eq!(score["name"], "politeness");
    assert_eq!((&score["value"], &score["source"]), (&json!(0.9), &json!("EVAL")));
    assert_eq!(score["comment"], "It thanks.");
    let execution = score["origin"]["executionId"].as_str().unwrap();
    let path = format!("/api/v1/executions/{execution}");
    let shown = app.client.get(&path).await.unwrap().json();
    let exchange = &shown["modelCalls"][0];
    assert_eq!(exchange["model"], "gpt-4o-mini", "{shown}");
    assert_eq!((&exchange["inputTokens"], &exchange["outputTokens"]), (&json!(100), &json!(10)));
    // 100 tokens at 0.15 and 10 at 0.60 dollars for a million.
    let cost = shown["costUsd"].as_f64().unwrap();
    assert!((cost - 0.000_021).abs() < 1e-12, "{cost}");
    assert!(!shown.to_string().contains("sk-never"));
    own_trace(&app, score).await;
    app.stop().await.unwrap();
}

/// The execution is a trace too, which no rule takes.
async fn own_trace(app: &TestApp, score: &Value) {
    let execution = score["origin"]["executionId"].as_str().unwrap();
    let full = app.client.get("/api/public/v3/scores?fields=details").await.unwrap();
    let metadata = &full.json()["data"][0]["metadata"];
    assert_eq!(metadata["execution_trace_id"], execution, "{metadata}");
    let path = format!("/api/public/traces/{execution}");
    let trace = app.client.get(&path).await.unwrap().json();
    assert_eq!(trace["environment"], "perpend-eval", "{trace}");
    assert_eq!(trace["name"], "evaluate politeness");
    let observations = trace["observations"].as_array().unwrap();
    assert_eq!(observations.len(), 2, "{trace}");
    let of_kind = |kind: &str| {
        let mut all = observations.iter();
        all.find(|own| own["type"] == kind).unwrap()
    };
    let (root, call) = (of_kind("EVALUATOR"), of_kind("GENERATION"));
    assert_eq!(call["parentObservationId"], root["id"]);
    assert_eq!(root["metadata"]["outcome"], "completed", "{root}");
    assert_eq!(root["metadata"]["target_trace_id"], score["subject"]["traceId"]);
    assert_eq!(call["model"], "gpt-4o-mini");
    assert_eq!(call["usageDetails"]["input"], 100, "{call}");
    let cost = call["costDetails"]["total"].as_f64().unwrap();
    assert!((cost - 0.000_021).abs() < 1e-12, "{call}");
    let response = call["input"].to_string();
    assert!(response.contains("How polite is this answer?"), "{call}");
    assert!(call["output"].to_string().contains("It thanks."), "{call}");
    // Sums by day have its tokens.
    let daily = "/api/public/metrics/daily?environment=perpend-eval";
    let daily = app.client.get(daily).await.unwrap().json();
    let mut models = daily["data"][0]["usage"].as_array().unwrap().iter();
    let usage = models.find(|usage| usage["model"] == "gpt-4o-mini");
    let tokens = ["inputUsage", "outputUsage", "totalUsage"].map(|name| &usage.unwrap()[name]);
    assert_eq!(json!(tokens), json!([100, 10, 110]), "{daily}");
    // The price of the target is not known.
    let filter = "[{%22type%22:%22null%22,%22column%22:%22totalCost%22,%22operator%22:%22is%20null%22,%22value%22:%22%22}]";
    let unpriced = format!("/api/public/traces?filter={filter}");
    let unpriced = app.client.get(&unpriced).await.unwrap().json();
    assert_eq!(count(&unpriced), 1, "{unpriced}");
    assert_eq!(unpriced["data"][0]["id"], score["subject"]["traceId"]);
    // Spans of the call that a gateway forwards add nothing.
    let foreign = Trace::of_id(execution.to_owned(), "gateway").generation("chat", "It thanks.");
    app.ingest(&foreign).await.unwrap();
    let again = app.client.get(&path).await.unwrap().json();
    assert_eq!(again["observations"], trace["observations"]);
    let all = format!("/api/v1/executions?traceId={execution}");
    let of_own = app.client.get(&all).await.unwrap().json();
    assert_eq!(count(&of_own), 0, "an evaluation is not evaluated: {of_own}");
}

#[tokio::test]
async fn a_judge_of_the_official_clients_scores_live_traces_and_reports_its_cost() {
    main_story(TestApp::new().await.unwrap()).await;
}

#[tokio::test]
async fn in_worker_processes_a_judge_scores_as_in_the_server() {
    main_story(TestApp::with(&[PROCESSES]).await.unwrap()).await;
}

#[tokio::test]
async fn on_postgresql_a_judge_scores_as_on_sqlite() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("a PostgreSQL database was created");
    };
    let settings = [("database.url", url.as_str())];
    main_story(TestApp::with(&settings).await.unwrap()).await;
}

#[tokio::test]
async fn a_judge_without_a_model_uses_the_default_model_and_waits_when_it_is_deleted() {
    let app = TestApp::new().await.unwrap();
    let (status, refused) = call(&app, Method::POST, EVALUATORS, judge(None)).await;
    assert_eq!(status, 422, "{refused}");
    connect(&app, "main", polite()).await;
    let default = "/api/v1/llm-connections/default-model";
    let choice = json!({ "provider": "main", "model": "gpt-4o-mini" });
    let (status, _) =
        call(&app, Method::PUT, default, json!({ "provider": "other", "model": "m" })).await;
    assert_eq!(status, 400);
    let (status, put) = call(&app, Method::PUT, default, choice.clone()).await;
    assert_eq!((status, &put), (200, &choice));
    let (status, made) = call(&app, Method::POST, EVALUATORS, judge(None)).await;
    assert_eq!(status, 200, "{made}");
    let evaluator = made["id"].as_str().unwrap();
    app.rule(evaluator, generations()).await.unwrap();
    app.ingest(&Trace::new(1, "ticket").generation("answer", "Thanks.")).await.unwrap();
    app.scores(1).await.unwrap();

    let (status, _) = call(&app, Method::DELETE, default, Value::Null).await;
    assert_eq!(status, 200);
    let one = format!("{EVALUATORS}/{evaluator}");
    let paused = app.client.get(&one).await.unwrap().json();
    assert_eq!(paused["pausedReason"], "DEFAULT_EVAL_MODEL_MISSING", "{paused}");
    app.ingest(&Trace::new(2, "ticket").generation("answer", "Thanks.")).await.unwrap();
    let (status, _) = call(&app, Method::PUT, default, choice).await;
    assert_eq!(status, 200);
    let resumed = app.client.get(&one).await.unwrap().json();
    assert_eq!(resumed["status"], "active", "{resumed}");
    // Targets that arrived meanwhile were held, and are judged with new ones.
    let third = Trace::new(3, "ticket").generation("answer", "Thanks.");
    app.ingest(&third).await.unwrap();
    app.scores(3).await.unwrap();
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_rejected_key_holds_waiting_executions_until_the_connection_is_saved() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", polite()).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    let evaluator = made["id"].as_str().unwrap();
    app.rule(evaluator, generations()).await.unwrap();
    connect(&app, "main", json!([{ "error": { "status": 401 } }])).await;
    let trace = Trace::new(1, "ticket").generation("answer", "Thanks.");
    app.ingest(&trace).await.unwrap();
    let one = format!("{EVALUATORS}/{evaluator}");
    let is_paused = |answer: &Value| answer["status"] == "paused";
    let paused = app.wait_for(&one, is_paused).await.unwrap();
    assert_eq!(paused["pausedReason"], "LLM_CONNECTION_AUTH_INVALID", "{paused}");
    let executions = format!("/api/v1/executions?traceId={}", trace.id);
    let shown = app.client.get(&executions).await.unwrap().json();
    assert_eq!((count(&shown), &shown["data"][0]["state"]), (1, &json!("held")), "{shown}");
    assert_eq!(shown["data"][0]["errorClass"], "auth_invalid", "{shown}");
    let health = "/api/v1/evaluation-health";
    let failing = app.client.get(health).await.unwrap().json();
    assert_eq!(failing["status"], "failing", "{failing}");
    let problem = &failing["problems"][0];
    assert_eq!(problem["kind"], "evaluator_paused", "{failing}");
    assert_eq!(problem["reason"], "LLM_CONNECTION_AUTH_INVALID");
    assert_eq!((&problem["providers"][0], &problem["waiting"]), (&json!("main"), &json!(1)));

    connect(&app, "main", polite()).await;
    let scores = app.scores(1).await.unwrap();
    assert_eq!((scores.len(), &scores[0]["value"]), (1, &json!(0.9)));
    let well = app.client.get(health).await.unwrap().json();
    assert_eq!(well, json!({ "status": "ok", "problems": [] }));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_connection_that_is_deleted_pauses_its_judges_at_once() {
    let app = TestApp::new().await.unwrap();
    let id = connect(&app, "main", polite()).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    let one = format!("{EVALUATORS}/{}", made["id"].as_str().unwrap());
    let (status, _) = call(&app, Method::DELETE, &format!("{CONNECTIONS}/{id}"), Value::Null).await;
    assert_eq!(status, 200);
    let paused = app.client.get(&one).await.unwrap().json();
    assert_eq!(paused["pausedReason"], "LLM_CONNECTION_MISSING", "{paused}");
    connect(&app, "main", polite()).await;
    let resumed = app.client.get(&one).await.unwrap().json();
    assert_eq!(resumed["status"], "active", "{resumed}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_reply_that_never_fits_its_schema_is_a_failure_and_no_score() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", polite()).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    app.rule(made["id"].as_str().unwrap(), generations()).await.unwrap();
    let too_good = json!([{ "reply": { "reasoning": "Too good.", "score": 7 } }]);
    connect(&app, "main", too_good).await;
    let trace = Trace::new(1, "ticket").generation("answer", "Thanks.");
    app.ingest(&trace).await.unwrap();
    let executions = format!("/api/v1/executions?traceId={}", trace.id);
    let has_failed = |answer: &Value| {
        let state = &answer["data"][0]["state"];
        state == "failed" || state == "delayed"
    };
    let shown = app.wait_for(&executions, has_failed).await.unwrap();
    assert_eq!(shown["data"][0]["errorClass"], "malformed_output", "{shown}");
    let one = format!("/api/v1/executions/{}", shown["data"][0]["id"].as_str().unwrap());
    let exchanges = app.client.get(&one).await.unwrap().json();
    // The first reply and two retries, each with a cost.
    assert!(3 <= exchanges["modelCalls"].as_array().unwrap().len(), "{exchanges}");
    assert_eq!(count(&app.client.get("/api/public/v3/scores").await.unwrap().json()), 0);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn failed_executions_of_one_class_are_requeued_together() {
    let app = TestApp::new().await.unwrap();
    let refused = json!([
        { "contains": "rude", "finish": "content_filter", "reply": "" },
        { "error": { "status": 400, "message": "maximum context length exceeded" } },
    ]);
    connect(&app, "main", polite()).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    let rule = app.rule(made["id"].as_str().unwrap(), generations()).await;
    let rule = rule.unwrap();
    connect(&app, "main", refused).await;
    for (n, text) in [(1, "You are rude."), (2, "Thanks."), (3, "Thank you.")] {
        let trace = Trace::new(n, "ticket").generation("answer", text);
        app.ingest(&trace).await.unwrap();
    }
    let failed = "/api/v1/failed-executions";
    app.wait_for(failed, |failed| count(failed) == 3).await.unwrap();
    connect(&app, "main", polite()).await;
    let requeue = format!("{failed}/requeue");
    for (body, status, n) in [
        (json!({ "errorClass": "bad_weather" }), 400, None),
        (json!({ "limit": 0 }), 400, None),
        (json!({ "errorClass": "context_too_long", "evaluationRuleId": "other" }), 200, Some(0)),
        (json!({ "errorClass": "context_too_long", "evaluationRuleId": rule }), 200, Some(2)),
    ] {
        let (answered, response) = call(&app, Method::POST, &requeue, body).await;
        assert_eq!((answered, response["requeued"].as_u64()), (status, n), "{response}");
    }
    app.scores(2).await.unwrap();
    let left = app.client.get(failed).await.unwrap().json();
    assert_eq!((count(&left), &left["data"][0]["errorClass"]), (1, &json!("refused")));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn invalid_judges_are_refused_when_they_are_saved() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", polite()).await;
    let with = |member: &str, value: Value| {
        let mut body = judge(Some("m"));
        body[member] = value;
        body
    };
    let output = |more: Value| with("outputDefinition", more);
    let mapping = |value: Value| with("variableMapping", value);
    let entry = json!({ "variable": "output", "source": "output" });
    for (body, status, part) in [
        (with("prompt", json!("")), 400, "prompt"),
        (with("prompt", json!([{ "role": "robot", "content": "x" }])), 400, "prompt[0].role"),
        (with("modelConfig", json!({ "provider": "nobody", "model": "m" })), 422, "nobody"),
        (with("typo", json!(1)), 400, "typo"),
        (output(json!({ "dataType": "NUMERIC", "minValue": 2, "maxValue": 1 })), 422, "config"),
        (output(json!({ "dataType": "CATEGORICAL", "categories": ["one"] })), 422, "config"),
        (output(json!({ "dataType": "GRADE" })), 400, "outputDefinition"),
        (mapping(json!([])), 200, ""),
        (mapping(json!([entry, { "variable": "other", "source": "input" }])), 400, "other"),
        (mapping(json!([entry, entry])), 400, "twice"),
        (mapping(json!([{ "variable": "output", "source": "nowhere" }])), 400, "nowhere"),
        (
            mapping(json!([{ "variable": "output", "source": "output", "jsonPath": "a[" }])),
            400,
            "JSONPath",
        ),
    ] {
        let (answered, response) = call(&app, Method::POST, EVALUATORS, body.clone()).await;
        let is_right = answered == status && response.to_string().contains(part);
        // A variable that is mapped more than once has a separate message.
        let is_right = is_right || (part == "twice" && answered == 400);
        assert!(is_right, "{body}: {answered} {response}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_placeholder_without_a_mapping_is_refused_whatever_its_spelling() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", polite()).await;
    for placeholder in ["{{user-name}}", "{{user name}}", "{{名前}}"] {
        let mut body = judge(Some("m"));
        body["prompt"] = json!(format!("Rate {placeholder} {{{{output}}}}"));
        let (status, refused) = call(&app, Method::POST, EVALUATORS, body).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused.to_string().contains(placeholder), "{refused}");
    }
    // If the evaluator has no mapping, the rule must map each variable.
    let mut body = judge(Some("m"));
    body["prompt"] = json!("{{question}} {{output}}");
    body.as_object_mut().unwrap().remove("variableMapping");
    let (status, made) = call(&app, Method::POST, EVALUATORS, body).await;
    assert_eq!(status, 200, "{made}");
    let rule = json!({
        "name": "r", "enabled": true,
        "evaluatorAssignments": [{ "evaluatorId": made["id"] }],
    });
    let (status, refused) = call(&app, Method::POST, RULES, rule).await;
    assert_eq!(status, 400, "{refused}");
    assert!(refused.to_string().contains("question"), "{refused}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_judge_as_clients_send_it_encloses_judged_text_in_marks_unless_it_opts_out() {
    let app = TestApp::new().await.unwrap();
    let scored = |score: f64| json!({ "reasoning": "r", "score": score });
    let replies = json!([
        { "contains": "[begin data ", "reply": scored(1.0) },
        { "reply": scored(0.0) },
    ]);
    connect(&app, "main", replies).await;
    for (fence, expected) in [(None, 1.0), (Some(true), 1.0), (Some(false), 0.0)] {
        let mut judge = judge(Some("m"));
        if let Some(fence) = fence {
            judge["fence"] = json!(fence);
        }
        let trial = json!({ "evaluator": judge, "item": { "output": "Thanks." }, "fresh": true });
        let (status, response) = call(&app, Method::POST, "/api/v1/evaluations/trial", trial).await;
        assert_eq!(status, 200, "{response}");
        assert_eq!(response["data"][0]["scores"][0]["value"], expected, "{fence:?}: {response}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn addresses_that_cannot_be_requested_are_refused_when_a_connection_is_saved() {
    let app = TestApp::new().await.unwrap();
    for (url, expected) in [
        ("https://models.example.com:99999/v1", 400),
        ("https://user:pw@models.example.com/v1", 400),
        ("https://user@models.example.com/v1", 400),
        ("http://", 400),
        ("ftp://models.example.com", 400),
        ("models.example.com/v1", 400),
        ("https://models.example.com/{model}/v1", 201),
    ] {
        let body = json!({
            "provider": "main", "adapter": "openai", "secretKey": "sk-never-shown-again", "baseURL": url,
        });
        let (status, response) = call(&app, Method::PUT, CONNECTIONS, body).await;
        assert_eq!(status, expected, "{url}: {response}");
        assert!(status == 201 || response.to_string().contains("baseURL"), "{response}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_verdict_in_free_text_that_was_not_offered_is_malformed_when_the_judge_is_saved() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", json!([{ "reply": "GRADE: maybe" }])).await;
    let judge = json!({
        "type": "plugin", "name": "graded", "plugin": "perpend/judge", "evaluator": "judge", "grants": ["model"],
        "slots": [{ "name": "judge", "model": { "provider": "main", "model": "m" } }],
        "config": { "prompt": "{{output}}", "choice_scores": { "C": 1, "I": 0 }, "pattern": "GRADE: (\\w+)" },
    });
    let (status, response) = call(&app, Method::POST, EVALUATORS, judge).await;
    assert_eq!(status, 422, "{response}");
    assert_eq!(response["details"]["class"], "malformed_output", "{response}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_rate_limited_provider_is_in_the_health_until_its_connection_is_saved() {
    let app = TestApp::new().await.unwrap();
    connect(&app, "main", polite()).await;
    let (_, made) = call(&app, Method::POST, EVALUATORS, judge(Some("m"))).await;
    app.rule(made["id"].as_str().unwrap(), generations()).await.unwrap();
    let down = json!([{ "error": { "status": 503, "retryAfterSeconds": 31_536_000 } }]);
    connect(&app, "main", down).await;
    let trace = Trace::new(1, "ticket").generation("answer", "Thanks.");
    app.ingest(&trace).await.unwrap();
    let health = "/api/v1/evaluation-health";
    let is_closed = |answer: &Value| answer["problems"][0]["kind"] == "connection_closed";
    let closed = app.wait_for(health, is_closed).await.unwrap();
    let problem = &closed["problems"][0];
    assert_eq!(problem["reason"], "RETRY_AFTER", "{closed}");
    assert!(problem["until"].is_string(), "{closed}");
    connect(&app, "main", polite()).await;
    let trial =
        json!({ "evaluator": judge(Some("m")), "item": { "output": "Thanks." }, "fresh": true });
    let (status, response) = call(&app, Method::POST, "/api/v1/evaluations/trial", trial).await;
    assert_eq!(status, 200, "{response}");
    assert_eq!(response["data"][0]["scores"][0]["value"], 0.9, "{response}");
    let well = app.client.get(health).await.unwrap().json();
    assert_eq!(well["problems"], json!([]), "{well}");
    app.stop().await.unwrap();
}
