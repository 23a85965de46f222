//! Sessions, comments, annotation queues, models and LLM connections through HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, trace_id};
use serde_json::{Value, json};

async fn send(app: &TestApp, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = app.client.json(method, path, &body).await.unwrap();
    let body = serde_json::from_slice(&answer.body).unwrap_or_default();
    (answer.status.as_u16(), body)
}

async fn post(app: &TestApp, path: &str, body: Value) -> (u16, Value) {
    send(app, Method::POST, path, body).await
}

async fn get(app: &TestApp, path: &str) -> Value {
    let answer = app.client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

fn ids(page: &Value) -> Vec<&str> {
    let data = page["data"].as_array().unwrap();
    data.iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn sessions_are_made_of_their_traces() {
    let app = TestApp::new().await.unwrap();
    for (n, session) in [(1, "s1"), (2, "s2"), (3, "s1")] {
        let trace = Trace::new(n, "root").attribute("langfuse.session.id", session);
        app.ingest(&trace).await.unwrap();
    }
    app.ingest(&Trace::new(4, "alone")).await.unwrap();
    let list = get(&app, "/api/public/sessions").await;
    assert_eq!(ids(&list), ["s1", "s2"], "equal times are ordered by id");
    assert_eq!(list["meta"]["totalItems"], 2);
    assert_eq!(list["data"][0]["environment"], "default");
    let one = get(&app, "/api/public/sessions/s1").await;
    let traces = one["traces"].as_array().unwrap();
    let traces: Vec<_> = traces.iter().map(|t| t["id"].as_str().unwrap()).collect();
    assert_eq!(traces, [trace_id(1), trace_id(3)]);
    for query in ["environment=prod", "fromTimestamp=2030-01-01T00:00:00Z"] {
        let list = get(&app, &format!("/api/public/sessions?{query}")).await;
        assert_eq!(list["meta"]["totalItems"], 0, "{query}");
    }
    let theirs = app.other_project().await.unwrap();
    for path in ["/api/public/sessions/s1", "/api/public/sessions/none"] {
        assert_eq!(theirs.get(path).await.unwrap().status, 404);
    }
}

#[tokio::test]
async fn comments_are_about_something_the_project_has() {
    let app = TestApp::new().await.unwrap();
    let trace = Trace::new(1, "root").attribute("langfuse.session.id", "s1");
    app.ingest(&trace).await.unwrap();
    let project = get(&app, "/api/public/projects").await["data"][0]["id"].clone();
    let comment = |kind: &str, id: &str| {
        json!({ "projectId": project, "objectType": kind, "objectId": id, "content": "well done",
                "authorUserId": null })
    };
    let path = "/api/public/comments";
    let (status, made) = post(&app, path, comment("TRACE", &trace_id(1))).await;
    assert_eq!(status, 200, "{made}");
    for (kind, id) in [("SESSION", "s1"), ("OBSERVATION", "0000000000000001")] {
        assert_eq!(post(&app, path, comment(kind, id)).await.0, 200, "{kind}");
    }
    let id = made["id"].as_str().unwrap();
    let stored = get(&app, &format!("{path}/{id}")).await;
    assert_eq!((&stored["content"], &stored["projectId"]), (&json!("well done"), &project));
    let list = get(&app, &format!("{path}?objectType=TRACE&objectId={}", trace_id(1))).await;
    assert_eq!(ids(&list), [id]);
    assert_eq!(get(&app, path).await["meta"]["totalItems"], 3);
    for (kind, id) in
        [("TRACE", "none"), ("PROMPT", "none"), ("SESSION", "none"), ("OBSERVATION", "none")]
    {
        assert_eq!(post(&app, path, comment(kind, id)).await.0, 404, "{kind}");
    }
    let mut strict = comment("TRACE", &trace_id(1));
    strict["extra"] = 1.into();
    let mut foreign = comment("TRACE", &trace_id(1));
    foreign["projectId"] = "other".into();
    let mut long = comment("TRACE", &trace_id(1));
    long["content"] = "x".repeat(5_001).into();
    let mut stranger = comment("TRACE", &trace_id(1));
    stranger["authorUserId"] = "nobody".into();
    for (body, field) in [
        (strict, "extra"),
        (foreign, "projectId"),
        (long, "content"),
        (comment("THING", "t"), "objectType"),
        (stranger, "authorUserId"),
    ] {
        let (status, answer) = post(&app, path, body).await;
        assert_eq!(status, 400, "{field}");
        assert!(answer["message"].as_str().unwrap().contains(field), "{field}: {answer}");
    }
    let answer = app.client.get(&format!("{path}?objectId=x")).await.unwrap();
    assert_eq!(answer.status, 400);
    let theirs = app.other_project().await.unwrap();
    assert_eq!(theirs.get(&format!("{path}/{id}")).await.unwrap().status, 404);
}

/// Each of these bodies is refused, and the answer names the field.
async fn refuses(app: &TestApp, path: &str, wrong: impl IntoIterator<Item = (Value, &str)>) {
    for (body, field) in wrong {
        let (status, answer) = post(app, path, body.clone()).await;
        assert_eq!(status, 400, "{body}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(field), "{body}: {answer}");
    }
}

#[tokio::test]
async fn a_queue_is_filled_and_worked_off() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "name": "q", "dataType": "BOOLEAN" });
    let (_, config) = post(&app, "/api/public/score-configs", config).await;
    let queues = "/api/public/annotation-queues";
    let new = json!({ "name": "review", "description": null, "scoreConfigIds": [config["id"]] });
    let (status, queue) = post(&app, queues, new.clone()).await;
    assert_eq!(status, 200, "{queue}");
    let path = format!("{queues}/{}", queue["id"].as_str().unwrap());
    assert_eq!(get(&app, &path).await, queue);
    let wrong = [
        (new, "name"),
        (json!({ "name": "n", "scoreConfigIds": [] }), "scoreConfigIds"),
        (json!({ "name": "n", "scoreConfigIds": ["none"] }), "scoreConfigIds"),
        (json!({ "name": "n", "scoreConfigIds": [config["id"]], "x": 1 }), "x"),
    ];
    refuses(&app, queues, wrong).await;
    let items = format!("{path}/items");
    let (status, item) =
        post(&app, &items, json!({ "objectId": "t", "objectType": "TRACE" })).await;
    assert_eq!(
        (status, &item["status"], &item["completedAt"]),
        (200, &json!("PENDING"), &Value::Null)
    );
    let one = format!("{items}/{}", item["id"].as_str().unwrap());
    let (_, done) = send(&app, Method::PATCH, &one, json!({ "status": "COMPLETED" })).await;
    assert!(done["completedAt"].is_string(), "{done}");
    assert_eq!(get(&app, &format!("{items}?status=PENDING")).await["meta"]["totalItems"], 0);
    assert_eq!(get(&app, &format!("{items}?status=COMPLETED")).await["data"][0], done);
    let (_, open) = send(&app, Method::PATCH, &one, json!({ "status": "PENDING" })).await;
    assert_eq!(open["completedAt"], Value::Null);
    assert_eq!(send(&app, Method::PATCH, &one, json!({ "status": "ODD" })).await.0, 400);
    let (status, gone) = send(&app, Method::DELETE, &one, json!({})).await;
    assert_eq!((status, &gone["success"]), (200, &json!(true)));
    assert_eq!(app.client.get(&one).await.unwrap().status, 404);
    let assignments = format!("{path}/assignments");
    assert_eq!(post(&app, &assignments, json!({ "userId": "nobody" })).await.0, 404);
    let (status, answer) =
        send(&app, Method::DELETE, &assignments, json!({ "userId": "nobody" })).await;
    assert_eq!((status, answer), (200, json!({ "success": true })));
    let theirs = app.other_project().await.unwrap();
    assert_eq!(theirs.get(&path).await.unwrap().status, 404);
    let item = json!({ "objectId": "t", "objectType": "TRACE" });
    let foreign = theirs.json(Method::POST, &items, &item).await.unwrap();
    assert_eq!(foreign.status, 404);
}

#[tokio::test]
async fn models_of_a_project_price_later_observations() {
    let app = TestApp::new().await.unwrap();
    let path = "/api/public/models";
    let tiers = json!([
        { "name": "Standard", "isDefault": true, "priority": 0, "conditions": [], "prices": { "input": 1.0, "output": 2.0 } },
        { "name": "Large", "isDefault": false, "priority": 1,
          "conditions": [{ "usageDetailPattern": "^input", "operator": "gt", "value": 100, "caseSensitive": false }],
          "prices": { "input": 10.0, "output": 20.0 } },
    ]);
    let model = json!({ "modelName": "ours", "matchPattern": "(?i)^ours-.*$", "unit": "TOKENS",
                        "inputPrice": null, "pricingTiers": tiers });
    let (status, made) = post(&app, path, model.clone()).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["prices"]["input"]["price"], 1.0);
    assert_eq!(
        (&made["isLangfuseManaged"], made["pricingTiers"].as_array().unwrap().len()),
        (&json!(false), 2)
    );
    let generation = |id: &str, n: u32| {
        json!({ "id": id, "type": "generation-create", "timestamp": "2026-03-01T10:00:00Z",
        "body": { "id": id, "traceId": "t", "model": "OURS-1", "usageDetails": { "input": n, "output": 1 } } })
    };
    let batch = json!({ "batch": [generation("small", 100), generation("large", 101)] });
    assert_eq!(post(&app, "/api/public/ingestion", batch).await.0, 207);
    for (id, total, tier, input, output) in
        [("small", 102.0, "Standard", 1, 2), ("large", 1_030.0, "Large", 10, 20)]
    {
        let stored = get(&app, &format!("/api/public/observations/{id}")).await;
        assert_eq!(stored["calculatedTotalCost"], total, "{stored}");
        assert_eq!(stored["modelId"], made["id"]);
        let prices = ["inputPrice", "outputPrice", "totalPrice"].map(|name| &stored[name]);
        let (own, none) = (json!([f64::from(input), f64::from(output), null]), json!(null));
        assert_eq!(json!(prices), own, "{stored}");
        let one =
            json!([{ "type": "string", "column": "id", "operator": "=", "value": id }]).to_string();
        let one: String = form_urlencoded::byte_serialize(one.as_bytes()).collect();
        let newer = format!("/api/public/v2/observations?fields=usage,prompt&filter={one}");
        let newer = get(&app, &newer).await["data"][0].clone();
        assert_eq!(newer["usagePricingTierName"], tier, "{newer}");
        assert_eq!(
            (&newer["inputPrice"], &newer["outputPrice"], &newer["totalPrice"]),
            (&json!(input.to_string()), &json!(output.to_string()), &none)
        );
    }
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    let flat = json!({ "modelName": "ours", "matchPattern": "^ours$", "totalPrice": 3.0 });
    let (status, replaced) = send(&app, Method::PUT, &one, flat).await;
    assert_eq!((status, &replaced["totalPrice"], &replaced["id"]), (200, &json!(3.0), &made["id"]));
    let list = get(&app, &format!("{path}?limit=2")).await;
    assert_eq!(list["data"][0]["id"], made["id"]);
    assert_eq!(list["data"][1]["isLangfuseManaged"], true);
    let is_null = ["seller", "source", "isVendorPrice"].map(|name| list["data"][1][name].is_null());
    assert_eq!(is_null, [false; 3], "{list}");
    let n = list["meta"]["totalItems"].as_u64().unwrap();
    let last = get(&app, &format!("{path}?limit=2&page={}", n.div_ceil(2))).await;
    assert_eq!(last["data"].as_array().unwrap().len() as u64, 2 - n % 2);
    let built_in = list["data"][1]["id"].as_str().unwrap().replace('/', "%2F");
    let built_in = format!("{path}/{built_in}");
    assert_eq!(get(&app, &built_in).await, list["data"][1]);
    for address in [&built_in, &format!("{path}/none")] {
        assert_eq!(send(&app, Method::DELETE, address, json!({})).await.0, 404);
    }
    let theirs = app.other_project().await.unwrap();
    assert_eq!(theirs.get(&one).await.unwrap().status, 404);
    assert_eq!(send(&app, Method::DELETE, &one, json!({})).await.0, 204);
    assert_eq!(app.client.get(&one).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_model_that_cannot_be_matched_or_priced_is_refused() {
    let app = TestApp::new().await.unwrap();
    let path = "/api/public/models";
    let ours = json!({ "modelName": "ours", "matchPattern": "^ours$", "totalPrice": 3.0 });
    assert_eq!(post(&app, path, ours).await.0, 200);
    let wrong = [
        (json!({ "modelName": "ours", "matchPattern": "x", "inputPrice": 1 }), "modelName"),
        (json!({ "modelName": "n", "matchPattern": "(?!x)", "inputPrice": 1 }), "matchPattern"),
        (
            json!({ "modelName": "n", "matchPattern": "x", "inputPrice": 1, "totalPrice": 1 }),
            "totalPrice",
        ),
        (
            json!({ "modelName": "n", "matchPattern": "x", "inputPrice": 1, "pricingTiers": [] }),
            "pricingTiers",
        ),
        (json!({ "modelName": "n", "matchPattern": "x" }), "pricingTiers"),
        (json!({ "modelName": "n", "matchPattern": "x", "inputPrice": 1, "unit": "ODD" }), "unit"),
        (
            json!({ "modelName": "n", "matchPattern": "x", "inputPrice": 1, "startDate": "no" }),
            "startDate",
        ),
    ];
    refuses(&app, path, wrong).await;
}

#[tokio::test]
async fn a_connection_takes_secrets_and_never_shows_them() {
    let app = TestApp::new().await.unwrap();
    let path = "/api/public/llm-connections";
    let connection = json!({ "provider": "main", "adapter": "openai", "secretKey": "sk-very-secret-1234",
        "extraHeaders": { "X-Team": "hidden-value" }, "customModels": ["m"], "config": null });
    let (status, made) = send(&app, Method::PUT, path, connection.clone()).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["displaySecretKey"], "...1234");
    assert_eq!(made["extraHeaderKeys"], json!(["X-Team"]));
    assert_eq!(made["withDefaultModels"], true);
    let mut azure = connection.clone();
    azure["adapter"] = "azure".into();
    azure["baseURL"] = "https://example.com".into();
    let (status, changed) = send(&app, Method::PUT, path, azure).await;
    assert_eq!((status, &changed["id"], &changed["adapter"]), (200, &made["id"], &json!("azure")));
    let list = app.client.get(path).await.unwrap();
    let text = list.text();
    assert!(!text.contains("very-secret") && !text.contains("hidden-value"), "{text}");
    let database = app.data_dir().join("perpend.db");
    for file in [database.clone(), database.with_extension("db-wal")] {
        let bytes = std::fs::read(&file).unwrap_or_default();
        assert!(!bytes.windows(11).any(|part| part == b"very-secret"), "{}", file.display());
    }
    let with = |changes: Value| {
        let mut body = connection.clone();
        for (key, value) in changes.as_object().unwrap() {
            body[key] = value.clone();
        }
        body
    };
    for (wrong, field) in [
        (with(json!({ "adapter": "odd" })), "adapter"),
        (with(json!({ "adapter": "azure" })), "baseURL"),
        (with(json!({ "adapter": "bedrock" })), "config"),
        (with(json!({ "config": { "region": "x" } })), "config"),
        (with(json!({ "baseURL": "file:///etc" })), "baseURL"),
        (with(json!({ "secretKey": "" })), "secretKey"),
        (with(json!({ "extraHeaders": { "a b": "x" } })), "extraHeaders"),
    ] {
        let (status, answer) = send(&app, Method::PUT, path, wrong.clone()).await;
        assert_eq!(status, 400, "{wrong}");
        assert!(answer["message"].as_str().unwrap().contains(field), "{answer}");
    }
    let one = format!("{path}/{}", made["id"].as_str().unwrap());
    let theirs = app.other_project().await.unwrap();
    assert_eq!(theirs.json(Method::DELETE, &one, &json!({})).await.unwrap().status, 404);
    assert_eq!(send(&app, Method::DELETE, &one, json!({})).await.0, 200);
    assert_eq!(get(&app, path).await["data"], json!([]));
    assert_eq!(send(&app, Method::POST, OTLP, json!({ "resourceSpans": [] })).await.0, 200);
}
