//! The REST API: shapes, strictness, and errors that name the field.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_http_kit::otlp::is_otlp;
use perpend_it::{TestApp, Trace, count};
use perpend_server::client::Answer;
use serde_json::{Value, json};

const EVALUATORS: &str = "/api/public/v2/evaluators";
const RULES: &str = "/api/public/v2/evaluation-rules";
const SCORES: &str = "/api/public/scores";

async fn post(app: &TestApp, path: &str, body: Value) -> (u16, Value) {
    let answer = app.client.json(Method::POST, path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn health_needs_no_key_and_everything_else_does() {
    let app = TestApp::new().await.unwrap();
    let anonymous = app.anonymous();
    for path in ["/api/public/health", "/api/public/ready", "/api/openapi.json"] {
        assert_eq!(anonymous.get(path).await.unwrap().status, 200, "{path}");
    }
    let document = anonymous.get("/api/openapi.json").await.unwrap().json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 15, "{paths:?}");
    for (path, operations) in paths {
        if path.ends_with("/health") || path.ends_with("/ready") {
            continue;
        }
        let address = path.replace(['{', '}'], "");
        for method in operations.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let answer = anonymous.json(method.clone(), &address, &json!({})).await.unwrap();
            assert_eq!(answer.status, 401, "{method} {path}");
            let body = answer.json();
            // Identity providers and exporters know errors of their own form.
            let is_named = if path.contains("/scim/") {
                body["status"] == "401"
            } else if is_otlp(path) {
                body["code"] == 16
            } else {
                body["code"] == "authentication_failed"
            };
            assert!(is_named, "{method} {path}: {body}");
        }
    }
}

#[tokio::test]
async fn the_project_of_the_key_has_all_that_clients_require() {
    let app = TestApp::new().await.unwrap();
    let body = app.client.get("/api/public/projects").await.unwrap().json();
    let project = &body["data"][0];
    assert_eq!(project["name"], "My project");
    assert_eq!(project["organization"]["name"], "My organization");
    assert_eq!(project["metadata"], json!({}));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_json_and_preflights_are_answered() {
    let app = TestApp::new().await.unwrap();
    let answer = app.client.get("/api/public/nothing").await.unwrap();
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["code"]),
        (404, &"resource_not_found".into())
    );
    let (status, body) = post(&app, "/api/public/sessions", json!({})).await;
    assert_eq!((status, &body["code"]), (405, &"method_not_allowed".into()));
    let headers = [("origin", "http://page"), ("access-control-request-headers", "x-one")];
    let answer = app.anonymous().send(Method::OPTIONS, SCORES, &headers, "").await.unwrap();
    assert_eq!(answer.status, 204);
    assert_eq!(answer.headers["access-control-allow-origin"], "http://page");
    assert_eq!(answer.headers["access-control-allow-headers"], "x-one");
}

#[tokio::test]
async fn an_unknown_address_is_a_page_for_browsers_and_json_or_text_for_programs() {
    let app = TestApp::new().await.unwrap();
    let kind = |answer: &Answer| answer.headers["content-type"].to_str().unwrap().to_owned();
    let get = |path: &'static str, accept: &'static str| {
        let anonymous = app.anonymous();
        async move {
            let headers = [("accept", accept)];
            let answer = anonymous.send(Method::GET, path, &headers, "").await;
            let answer = answer.unwrap();
            assert_eq!(answer.status, 404, "{path}");
            answer
        }
    };
    let answer = get("/no/such/page", "text/html,application/xhtml+xml,*/*;q=0.8").await;
    assert_eq!(kind(&answer), "text/html; charset=utf-8");
    assert!(answer.headers.contains_key("content-security-policy"));
    assert!(answer.text().contains("Not found"), "{}", answer.text());
    let answer = get("/no/such/page", "*/*").await;
    assert!(kind(&answer).starts_with("text/plain"));
    let answer = get("/api/nothing", "text/html").await;
    assert_eq!(kind(&answer), "application/json");
}

#[tokio::test]
async fn every_answer_carries_an_id_and_a_callers_id_is_kept_where_it_is_harmless() {
    let app = TestApp::new().await.unwrap();
    let client = app.client.clone();
    let id = |method: Method, path: &'static str, given: Option<&'static str>| {
        let client = client.clone();
        async move {
            let headers: Vec<_> = given.map(|id| ("x-request-id", id)).into_iter().collect();
            let answer = client.send(method, path, &headers, "").await.unwrap();
            answer.headers["x-request-id"].to_str().unwrap().to_owned()
        }
    };
    let mut seen = std::collections::BTreeSet::new();
    for (method, path) in [
        (Method::GET, "/api/public/health"),
        (Method::GET, "/api/public/traces"),
        (Method::GET, "/api/public/nothing"),
        (Method::OPTIONS, "/api/public/scores"),
        (Method::POST, perpend_it::OTLP),
        (Method::GET, "/login"),
        (Method::GET, "/nothing"),
    ] {
        let id = id(method, path, None).await;
        assert_eq!(id.len(), 36, "{path}: {id}");
        seen.insert(id);
    }
    assert_eq!(seen.len(), 7, "no id comes twice");
    let path = "/api/public/health";
    assert_eq!(id(Method::GET, path, Some("abc-1")).await, "abc-1");
    for bad in ["two words", &*"x".repeat(129).leak()] {
        assert_ne!(id(Method::GET, path, Some(bad)).await, bad);
    }
}

#[tokio::test]
async fn a_score_is_written_read_in_both_shapes_replaced_and_deleted() {
    let app = TestApp::new().await.unwrap();
    let score = json!({
        "id": "s1", "traceId": "t1", "name": "good", "value": 1, "dataType": "BOOLEAN", "comment": "why",
    });
    assert_eq!(post(&app, SCORES, score.clone()).await, (200, json!({ "id": "s1" })));
    assert_eq!(post(&app, SCORES, score).await.0, 200);
    let v3 = app.client.get("/api/public/v3/scores?fields=details,subject").await.unwrap().json();
    assert_eq!(count(&v3), 1);
    let one = &v3["data"][0];
    assert_eq!((&one["value"], &one["dataType"]), (&json!(true), &json!("BOOLEAN")));
    assert_eq!(one["subject"], json!({ "kind": "trace", "id": "t1" }));
    assert_eq!(v3["meta"], json!({ "limit": 50 }));
    let v2 = app.client.get("/api/public/v2/scores/s1").await.unwrap().json();
    assert_eq!((&v2["value"], &v2["stringValue"]), (&json!(1), &json!("True")));
    let list =
        app.client.get("/api/public/v2/scores?operator=%3E%3D&value=1").await.unwrap().json();
    assert_eq!(list["meta"], json!({ "page": 1, "limit": 50, "totalItems": 1, "totalPages": 1 }));
    let gone = app.client.json(Method::DELETE, "/api/public/scores/s1", &json!({})).await.unwrap();
    assert_eq!(gone.status, 202);
    assert_eq!(app.client.get("/api/public/v2/scores/s1").await.unwrap().status, 404);
}

#[tokio::test]
async fn an_array_of_scores_is_taken_as_far_as_it_is_right() {
    let app = TestApp::new().await.unwrap();
    let good = json!({ "traceId": "t", "name": "n", "value": "label" });
    assert_eq!(post(&app, SCORES, json!([])).await.0, 202);
    assert_eq!(post(&app, SCORES, json!([good])).await, (202, json!({ "message": "Accepted" })));
    let bad = json!({ "traceId": "t", "name": "n", "value": 2, "dataType": "BOOLEAN" });
    let (status, body) = post(&app, SCORES, json!([good, bad])).await;
    assert_eq!((status, &body["accepted"], &body["rejected"]), (207, &json!(1), &json!(1)));
    assert!(body["errors"][0]["message"].as_str().unwrap().contains("value"));
}

#[tokio::test]
async fn wrong_scores_are_refused_with_the_field() {
    let app = TestApp::new().await.unwrap();
    for (body, field) in [
        (json!({ "name": "n", "value": 1 }), "traceId"),
        (json!({ "traceId": "t", "sessionId": "s", "name": "n", "value": 1 }), "traceId"),
        (json!({ "observationId": "o", "name": "n", "value": 1 }), "observationId"),
        (json!({ "traceId": "t", "value": 1 }), "name"),
        (json!({ "traceId": "t", "name": "", "value": 1 }), "name"),
        (json!({ "traceId": "t", "name": "n", "value": "x", "dataType": "NUMERIC" }), "value"),
        (json!({ "traceId": "t", "name": "n", "value": "", "dataType": "TEXT" }), "value"),
        (json!({ "traceId": "t", "name": "n", "value": 1, "dataType": "ODD" }), "dataType"),
        (json!({ "traceId": "t", "name": "n", "value": 1, "source": "EVAL" }), "source"),
        (json!({ "traceId": "t", "name": "n", "value": 1, "configId": "c" }), "configId"),
        (json!({ "traceId": "t", "name": "n", "value": 1, "timestamp": "today" }), "timestamp"),
        (json!({ "traceId": 5, "name": "n", "value": 1 }), "traceId"),
    ] {
        let (status, answer) = post(&app, SCORES, body.clone()).await;
        assert_eq!(status, 400, "{body}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(field), "{body}: {message}");
    }
}

#[tokio::test]
async fn lists_refuse_unknown_parameters() {
    let app = TestApp::new().await.unwrap();
    for path in [
        "/api/public/v3/scores?userId=x",
        "/api/public/v3/scores?limit=101",
        "/api/public/v3/scores?fields=all",
        "/api/public/v3/scores?traceId=a&sessionId=b",
        "/api/public/v3/scores?observationId=a",
        "/api/public/v3/scores?valueMin=1",
        "/api/public/v3/scores?cursor=nonsense",
        "/api/public/v2/observations?cursor=e30",
        "/api/public/v2/observations?parseIoAsJson=true",
        "/api/public/v2/observations?fromStartTime=yesterday",
        "/api/public/v2/observations?filter=no",
        "/api/public/traces?page=0",
        "/api/public/traces?orderBy=luck.desc",
        "/api/public/observations?limit=1000",
    ] {
        let answer = app.client.get(path).await.unwrap();
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.json()["code"].is_string());
    }
    let filter = r#"[{"type":"string","column":"nme","operator":"=","value":"x"}]"#;
    let path: String =
        format!("/api/public/traces?filter={}", filter.replace('"', "%22").replace(' ', "%20"));
    let answer = app.client.get(&path).await.unwrap();
    assert_eq!(answer.status, 400);
    let body = answer.json();
    assert_eq!(body["details"]["field"], "filter[0].column", "{body}");
    assert_eq!(body["details"]["reason"], "invalid_filter_value");
}

#[tokio::test]
async fn the_tools_of_a_generation_are_in_responses_and_filters() {
    let app = TestApp::new().await.unwrap();
    let tool = json!({ "type": "function", "function": { "name": "look_up", "parameters": {} } });
    let input = json!({ "tools": [tool], "messages": [{ "role": "user", "content": "Where?" }] });
    let output = json!({ "candidates": [{ "content": { "role": "model", "parts": [
        { "functionCall": { "id": "c1", "name": "look_up", "args": { "order": 4711 } } },
    ] } }] });
    let trace = Trace::new(1, "call")
        .attribute("perpend.observation.type", "generation")
        .attribute("perpend.observation.input", &input.to_string())
        .attribute("perpend.observation.output", &output.to_string());
    app.ingest(&trace).await.unwrap();
    app.ingest(&Trace::new(2, "other")).await.unwrap();
    let call = json!({ "id": "c1", "name": "look_up", "arguments": { "order": 4711 }, "type": "function", "index": 0 });
    let whole = format!("/api/public/observations/{}", Trace::span_id(1));
    let grouped = format!("/api/public/v2/observations?traceId={}&fields=core,tools", trace.id);
    let whole = app.client.get(&whole).await.unwrap().json();
    let grouped = app.client.get(&grouped).await.unwrap().json();
    for answer in [&whole, &grouped["data"][0]] {
        assert_eq!(answer["toolCalls"], json!([call]), "{answer}");
        assert_eq!(answer["toolCallNames"], json!(["look_up"]), "{answer}");
        assert_eq!(answer["toolDefinitions"], json!([tool]), "{answer}");
    }
    for column in ["calledToolNames", "toolNames"] {
        let filter = json!([{ "type": "arrayOptions", "column": column, "operator": "any of", "value": ["look_up"] }]);
        let path = format!(
            "/api/public/v2/observations?filter={}",
            filter.to_string().replace('"', "%22").replace(' ', "%20")
        );
        let found = app.client.get(&path).await.unwrap().json();
        assert_eq!(found["data"].as_array().unwrap().len(), 1, "{column}: {found}");
    }
}

#[tokio::test]
async fn observations_are_paged_by_cursor_without_repeats_or_holes() {
    let app = TestApp::new().await.unwrap();
    let mut trace = Trace::new(1, "root");
    for n in 0..6 {
        trace = trace.generation(&format!("step {n}"), "out");
    }
    app.ingest(&trace).await.unwrap();
    let mut names = Vec::new();
    let mut path = "/api/public/v2/observations?limit=3&fields=core,basic,io".to_owned();
    loop {
        let page = app.client.get(&path).await.unwrap().json();
        for one in page["data"].as_array().unwrap() {
            names.push(one["name"].as_str().unwrap().to_owned());
        }
        let Some(cursor) = page["meta"]["cursor"].as_str() else {
            break;
        };
        path = format!("/api/public/v2/observations?limit=3&cursor={cursor}");
    }
    let expected: Vec<String> =
        (0..6).rev().map(|n| format!("step {n}")).chain(["root".to_owned()]).collect();
    assert_eq!(names, expected, "latest start first");
    let roots =
        app.client.get("/api/public/v2/observations?parentObservationId=").await.unwrap().json();
    assert_eq!(count(&roots), 1);
    let v1 =
        app.client.get("/api/public/observations?type=GENERATION&limit=2").await.unwrap().json();
    assert_eq!(v1["meta"]["totalItems"], 6);
    assert_eq!(v1["data"][0]["output"], "out");
}

#[tokio::test]
async fn deleted_traces_are_deleted_with_their_contents() {
    let app = TestApp::new().await.unwrap();
    for n in 1..=3 {
        app.ingest(&Trace::new(n, "root")).await.unwrap();
    }
    let path = format!("/api/public/traces/{}", perpend_it::trace_id(1));
    assert_eq!(app.client.json(Method::DELETE, &path, &json!({})).await.unwrap().status, 200);
    assert_eq!(app.client.get(&path).await.unwrap().status, 404);
    let many = json!({ "traceIds": [perpend_it::trace_id(2), "unknown"] });
    assert_eq!(
        app.client.json(Method::DELETE, "/api/public/traces", &many).await.unwrap().status,
        200
    );
    let left = app.client.get("/api/public/traces").await.unwrap().json();
    assert_eq!((count(&left), &left["meta"]["totalItems"]), (1, &json!(1)));
    assert_eq!(count(&app.client.get("/api/public/v2/observations").await.unwrap().json()), 1);
}

#[tokio::test]
async fn an_evaluator_is_checked_against_its_plug_in() {
    let app = TestApp::new().await.unwrap();
    let input = |more: Value| {
        let mut body = json!({ "type": "plugin", "name": "n", "plugin": "perpend/text", "evaluator": "length", "config": { "max": 3 } });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let (status, made) = post(&app, EVALUATORS, input(json!({ "config": { "max": 3 } }))).await;
    assert_eq!(status, 200, "{made}");
    assert!(made["config"].get("min").is_some(), "defaults are filled in: {made}");
    assert_eq!(made["config"]["unit"], "chars", "{made}");
    for (more, status, part) in [
        (json!({ "plugin": "perpend/none" }), 404, "perpend/none"),
        (json!({ "plugin": "perpend/text@9.9.9" }), 404, "9.9.9"),
        (json!({ "evaluator": "none" }), 404, "none"),
        (json!({ "config": { "max": "x", "mxa": 1 } }), 422, "mxa"),
        (json!({ "config": {} }), 422, "anyOf"),
        (json!({ "config": { "slope": 1, "max": null } }), 422, "anyOf"),
        (json!({ "config": { "target": 5, "max": 9 } }), 422, "anyOf"),
        (json!({ "type": "code", "sourceCode": "x" }), 400, "unknown"),
        (json!({ "type": "llm_as_judge" }), 400, "unknown"),
        (json!({ "typo": 1 }), 400, "typo"),
        (
            json!({ "variableMapping": [{ "variable": "output", "source": "nowhere" }] }),
            400,
            "nowhere",
        ),
    ] {
        let (answered, body) = post(&app, EVALUATORS, input(more.clone())).await;
        assert_eq!(answered, status, "{more}: {body}");
        assert!(body.to_string().contains(part), "{more}: {body}");
    }
    let (_, body) =
        post(&app, EVALUATORS, input(json!({ "config": { "max": "x", "min": "y" } }))).await;
    let pointers = body["details"]["issues"].to_string();
    assert!(pointers.contains("/config/max") && pointers.contains("/config/min"), "{body}");

    let path = format!("{EVALUATORS}/{}", made["id"].as_str().unwrap());
    let patch = json!({ "type": "plugin", "plugin": "perpend/text", "evaluator": "length", "config": { "max": 4 } });
    let second = app.client.json(Method::PATCH, &path, &patch).await.unwrap().json();
    assert_eq!(second["version"], 2, "{second}");
    assert_ne!(second["fingerprint"], made["fingerprint"]);
    let versions = app.client.get(&format!("{path}/versions")).await.unwrap().json();
    assert_eq!(count(&versions), 2);
    let closed = app
        .client
        .send(Method::GET, &path, &[("x-fern-language", "Python")], "")
        .await
        .unwrap()
        .json();
    assert_eq!(
        (&closed["type"], &closed["plugin"]["name"]),
        (&json!("code"), &json!("perpend/text"))
    );
}

#[tokio::test]
async fn a_rule_is_checked_as_a_whole() {
    let app = TestApp::new().await.unwrap();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let assignments = json!([{ "evaluatorId": evaluator }]);
    for (more, status, part) in [
        (
            json!({ "filter": [{ "type": "string", "column": "x", "operator": "=", "value": "" }] }),
            400,
            "filter[0].column",
        ),
        (json!({ "evaluatorAssignments": [] }), 400, "at least one"),
        (json!({ "evaluatorAssignments": [{ "evaluatorId": "none" }] }), 404, "none"),
        (json!({ "sampling": null }), 400, "sampling"),
        (json!({ "sampling": 2 }), 400, "sampling"),
        (json!({ "target": "prompt" }), 400, "`trace`, `session`"),
        (json!({ "schedule": "weekly" }), 400, "must be `continuous` or `cron`"),
        (json!({ "schedule": "cron" }), 400, "cron"),
        (json!({ "cron": "0 3 * *" }), 400, "must have five fields"),
        (json!({ "cron": "0 25 * * *" }), 400, "hour"),
        (json!({ "cron": "*/5 * * * * *" }), 400, "the shortest interval is a minute"),
        (json!({ "cron": "0 3 * * *", "timezone": "Europe/Bonn" }), 400, "timezone"),
        (json!({ "schedule": "continuous", "cron": "0 3 * * *" }), 400, "must be absent"),
        (json!({ "settleMs": -1 }), 400, "settleMs"),
        (json!({ "onMising": "skip" }), 400, "onMising"),
        (json!({ "enabled": null }), 400, "enabled"),
    ] {
        let mut body = json!({ "name": "r", "enabled": true, "evaluatorAssignments": assignments });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (answered, answer) = post(&app, RULES, body).await;
        assert_eq!(answered, status, "{more}: {answer}");
        assert!(answer.to_string().contains(part), "{more}: {answer}");
    }
    let rule = app.rule(&evaluator, json!({ "sampling": 0.5 })).await.unwrap();
    let path = format!("{RULES}/{rule}");
    let patch = json!({ "evaluatorAssignments": [] });
    let patched = app.client.json(Method::PATCH, &path, &patch).await.unwrap().json();
    assert_eq!((&patched["enabled"], &patched["sampling"]), (&json!(false), &json!(0.5)));
    assert_eq!(app.client.json(Method::DELETE, &path, &json!({})).await.unwrap().status, 200);
    assert_eq!(app.client.get(&path).await.unwrap().status, 404);
}

#[tokio::test]
async fn an_invalid_component_is_refused_with_all_problems() {
    let app = TestApp::new().await.unwrap();
    let wrong_world = wat::parse_str("(component)").unwrap();
    let ungranted =
        wat::parse_str(r#"(component (import "wasi:filesystem/types@0.2.0" (instance)))"#).unwrap();
    for bytes in [b"no component".to_vec(), wrong_world, ungranted] {
        let headers = [("content-type", "application/wasm")];
        let answer =
            app.client.send(Method::POST, "/api/v1/plugins", &headers, bytes).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        let body = answer.json();
        assert_eq!(body["code"], "invalid_component");
        assert!(!body["problems"].as_array().unwrap().is_empty(), "{body}");
    }
    let plugins = app.client.get("/api/v1/plugins").await.unwrap().json();
    assert!(
        plugins["data"].as_array().unwrap().iter().all(|plugin| plugin["isFirstParty"] == true)
    );
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused() {
    let app = TestApp::with(&[("api.max_body_kib", "4")]).await.unwrap();
    let body = json!({ "traceId": "t", "name": "n", "value": "x".repeat(8 << 10) });
    let (status, answer) = post(&app, SCORES, body).await;
    assert_eq!((status, &answer["code"]), (413, &json!("invalid_body")));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused_in_the_form_of_their_neighbours() {
    let app = TestApp::new().await.unwrap();
    for (method, path, status, form) in [
        (Method::GET, "/api/v1/nothing", 404, "application/problem+json"),
        (Method::PUT, "/api/v1/plugins", 405, "application/problem+json"),
        (Method::GET, "/api/public/nothing", 404, "application/json"),
        (Method::PUT, "/api/public/scores", 405, "application/json"),
    ] {
        let answer = app.client.json(method, path, &json!({})).await.unwrap();
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.headers["content-type"], form, "{path}");
    }
}

#[tokio::test]
async fn a_rule_for_a_dataset_that_is_not_there_is_refused() {
    let app = TestApp::new().await.unwrap();
    let rule = |dataset: &str| {
        json!({
            "name": "r", "enabled": false, "evaluatorAssignments": [],
            "filter": [{ "type": "stringOptions", "column": "datasetId", "operator": "any of", "value": [dataset] }],
        })
    };
    let (status, refused) = post(&app, RULES, rule("none")).await;
    assert_eq!(status, 400, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("filter[0].value") && message.contains("none"), "{message}");
    let (_, dataset) = post(&app, "/api/public/v2/datasets", json!({ "name": "d" })).await;
    let (status, made) = post(&app, RULES, rule(dataset["id"].as_str().unwrap())).await;
    assert_eq!(status, 200, "{made}");
}

#[tokio::test]
async fn an_invalid_parameter_is_named_and_not_its_condition() {
    let app = TestApp::new().await.unwrap();
    for path in ["/api/public/observations", "/api/public/v2/observations"] {
        let answer = app.client.get(&format!("{path}?level=error")).await.unwrap();
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, 400, "{message}");
        assert!(message.contains("level: ") && message.contains("ERROR"), "{message}");
    }
}

#[tokio::test]
async fn an_empty_parent_means_none_in_the_second_list_and_is_ignored_in_the_first() {
    let app = TestApp::new().await.unwrap();
    app.ingest(&Trace::new(1, "ticket").generation("answer", "yes")).await.unwrap();
    let n = async |path: &str| count(&app.client.get(path).await.unwrap().json());
    let (first, second) = ("/api/public/observations", "/api/public/v2/observations");
    assert_eq!(n(first).await, n(&format!("{first}?parentObservationId=")).await);
    assert!(n(&format!("{second}?parentObservationId=")).await < n(second).await);
}
