//! Scores and score configs: validation of written scores, filters of lists.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, trace_id};
use perpend_server::client::Client;
use serde_json::{Value, json};

const SCORES: &str = "/api/public/scores";
const CONFIGS: &str = "/api/public/score-configs";

async fn send(app: &TestApp, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = app.client.json(method, path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

async fn post(app: &TestApp, path: &str, body: Value) -> (u16, Value) {
    send(app, Method::POST, path, body).await
}

async fn get(app: &TestApp, path: &str) -> Value {
    let answer = app.client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn config(app: &TestApp, body: Value) -> String {
    let (status, made) = post(app, CONFIGS, body).await;
    assert_eq!(status, 200, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<&str> {
    let data = page["data"].as_array().unwrap();
    data.iter().map(|one| one["id"].as_str().unwrap()).collect()
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[tokio::test]
async fn a_config_is_made_changed_archived_and_never_gone() {
    let app = TestApp::new().await.unwrap();
    let body = json!({ "name": "Tone (v1.0)", "dataType": "NUMERIC", "minValue": 0, "maxValue": 1,
                       "categories": null, "description": null });
    let id = config(&app, body).await;
    let path = format!("{CONFIGS}/{id}");
    let stored = get(&app, &path).await;
    assert_eq!(stored["isArchived"], false);
    assert_eq!((&stored["minValue"], &stored["categories"]), (&json!(0.0), &Value::Null));

    let (status, changed) = send(&app, Method::PATCH, &path, json!({ "maxValue": 5 })).await;
    assert_eq!((status, &changed["maxValue"]), (200, &json!(5.0)));
    for wrong in [json!({}), json!({ "maxValue": -1 }), json!({ "name": "a/b" })] {
        let (status, _) = send(&app, Method::PATCH, &path, wrong.clone()).await;
        assert_eq!(status, 400, "{wrong}");
    }
    let (status, _) = send(&app, Method::PATCH, &path, json!({ "isArchived": true })).await;
    assert_eq!(status, 200);
    let list = get(&app, CONFIGS).await;
    assert_eq!(ids(&list), [id.as_str()]);
    assert_eq!(list["meta"]["totalItems"], 1);
    let boolean = config(&app, json!({ "name": "ok", "dataType": "BOOLEAN" })).await;
    let boolean = get(&app, &format!("{CONFIGS}/{boolean}")).await;
    assert_eq!(boolean["categories"][0], json!({ "label": "True", "value": 1.0 }));

    let theirs = app.other_project().await.unwrap();
    assert_eq!(theirs.get(&path).await.unwrap().status, 404);
    let answer = theirs.json(Method::PATCH, &path, &json!({ "name": "x" })).await;
    assert_eq!(answer.unwrap().status, 404);
}

#[tokio::test]
async fn a_config_that_contradicts_itself_is_refused_naming_the_field() {
    let app = TestApp::new().await.unwrap();
    for (body, field) in [
        (json!({ "dataType": "NUMERIC" }), "name"),
        (json!({ "name": "n", "dataType": "CORRECTION" }), "dataType"),
        (json!({ "name": "n", "dataType": "ODD" }), "dataType"),
        (json!({ "name": "n", "dataType": "CATEGORICAL" }), "categories"),
        (json!({ "name": "n", "dataType": "TEXT", "minValue": 1 }), "minValue"),
        (json!({ "name": "n", "dataType": "NUMERIC", "minValue": "1" }), "minValue"),
        (
            json!({ "name": "n", "dataType": "BOOLEAN", "categories": [{ "label": "x", "value": 1 }] }),
            "categories",
        ),
    ] {
        let (status, answer) = post(&app, CONFIGS, body.clone()).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer["message"].as_str().unwrap().contains(field), "{body}: {answer}");
    }
}

#[tokio::test]
async fn scores_obey_the_config_they_name() {
    let app = TestApp::new().await.unwrap();
    let numeric =
        json!({ "name": "quality", "dataType": "NUMERIC", "minValue": 0, "maxValue": 10 });
    let numeric = config(&app, numeric).await;
    let categorical = config(
        &app,
        json!({ "name": "tone", "dataType": "CATEGORICAL",
                "categories": [{ "label": "kind", "value": 2 }, { "label": "rude", "value": -1 }] }),
    )
    .await;
    let score = |config: &str, value: Value| {
        let name = if config == numeric { "quality" } else { "tone" };
        json!({ "traceId": "t", "name": name, "value": value, "configId": config })
    };
    let mut misnamed = score(&numeric, json!(3));
    misnamed["name"] = "other".into();
    for (body, field) in [
        (score(&numeric, json!(11)), "value"),
        (score(&numeric, json!("kind")), "value"),
        (score(&categorical, json!("odd")), "value"),
        (score("nowhere", json!(1)), "configId"),
        (misnamed, "name"),
    ] {
        let (status, answer) = post(&app, SCORES, body.clone()).await;
        assert_eq!(status, 400, "{body}");
        assert!(answer["message"].as_str().unwrap().starts_with(field), "{answer}");
    }
    let mut annotation = score(&categorical, json!("rude"));
    annotation["source"] = "ANNOTATION".into();
    annotation["id"] = "by-hand".into();
    let (status, answer) = post(&app, SCORES, annotation).await;
    assert_eq!(status, 200, "{answer}");
    let stored = get(&app, "/api/public/v2/scores/by-hand").await;
    assert_eq!(stored["name"], "tone");
    assert_eq!((&stored["value"], &stored["stringValue"]), (&json!(-1.0), &json!("rude")));
    assert_eq!(stored["configId"], categorical.as_str());

    let batch = json!([score(&numeric, json!(3)), score(&numeric, json!(99))]);
    let (status, answer) = post(&app, SCORES, batch).await;
    assert_eq!((status, &answer["accepted"], &answer["rejected"]), (207, &1.into(), &1.into()));

    let archive = json!({ "isArchived": true });
    send(&app, Method::PATCH, &format!("{CONFIGS}/{numeric}"), archive).await;
    let (status, _) = post(&app, SCORES, score(&numeric, json!(3))).await;
    assert_eq!(status, 400);
    let theirs = app.other_project().await.unwrap();
    let answer = theirs.json(Method::POST, SCORES, &score(&categorical, json!("kind"))).await;
    assert_eq!(answer.unwrap().status, 400, "a foreign config is none");
}

#[tokio::test]
async fn the_older_list_filters_by_trace_and_metadata_and_shows_the_trace() {
    let app = TestApp::new().await.unwrap();
    for (n, user, tags) in [(1, "ann", r#"["a","b"]"#), (2, "bob", r#"["a"]"#)] {
        let trace = Trace::new(n, "root")
            .attribute("langfuse.user.id", user)
            .attribute("langfuse.trace.tags", tags);
        app.ingest(&trace).await.unwrap();
        let body = json!({ "id": format!("s{n}"), "traceId": trace_id(n), "name": "n", "value": n,
                           "metadata": { "run": format!("r{n}"), "n": n } });
        assert_eq!(post(&app, SCORES, body).await.0, 200);
    }
    let session = json!({ "id": "s3", "sessionId": "sess", "name": "n", "value": 3 });
    assert_eq!(post(&app, SCORES, session).await.0, 200);
    let is_run = |run: &str| {
        let filter = json!([{ "type": "stringObject", "column": "metadata", "key": "run",
                              "operator": "=", "value": run }]);
        format!("filter={}", encoded(&filter.to_string()))
    };
    for (query, expected) in [
        ("userId=ann".to_owned(), &["s1"][..]),
        ("traceTags=a".to_owned(), &["s2", "s1"]),
        ("traceTags=a&traceTags=b".to_owned(), &["s1"]),
        (is_run("r2"), &["s2"]),
        ("operator=%3E%3D&value=2".to_owned(), &["s3", "s2"]),
    ] {
        let page = get(&app, &format!("/api/public/v2/scores?{query}")).await;
        assert_eq!(ids(&page), expected, "{query}");
        assert_eq!(page["meta"]["totalItems"], expected.len());
    }
    let page = get(&app, "/api/public/v2/scores").await;
    assert_eq!(ids(&page), ["s3", "s2", "s1"]);
    assert_eq!(page["data"][0]["trace"], Value::Null);
    assert_eq!(page["data"][2]["trace"]["userId"], "ann");
    assert_eq!(page["data"][2]["trace"]["tags"], json!(["a", "b"]));
    let oldest = get(&app, "/api/public/scores").await;
    assert_eq!(ids(&oldest), ["s2", "s1"]);
    for query in [
        "fields=score&userId=ann",
        "filter=%5B%7B%22type%22:%22string%22,%22column%22:%22name%22,%22operator%22:%22=%22,%22value%22:%22n%22%7D%5D",
        "operator=%3E",
    ] {
        let answer = app.client.get(&format!("/api/public/v2/scores?{query}")).await.unwrap();
        assert_eq!(answer.status, 400, "{query}");
    }
}

#[tokio::test]
async fn a_public_key_alone_changes_the_scores_that_it_wrote_and_no_others() {
    let app = TestApp::new().await.unwrap();
    let half = app.anonymous().with_authorization("Bearer pk-test");
    let keys = format!("/api/public/projects/{}/apiKeys", app.app.home_project.as_str());
    let made = app.organizer().json(Method::POST, &keys, &json!({})).await;
    let made = made.unwrap().json();
    let other = made["publicKey"].as_str().unwrap();
    let other_half = app.anonymous().with_authorization(&format!("Bearer {other}"));
    let score = |id: &str, value: u32| json!({ "id": id, "traceId": trace_id(1), "name": "liked", "value": value });
    let write = async |client: &Client, body: Value| {
        let answer = client.json(Method::POST, SCORES, &body).await.unwrap();
        (answer.status.as_u16(), answer.json())
    };
    let stored = async |id: &str| get(&app, &format!("{SCORES}/{id}")).await["value"].clone();

    assert_eq!(write(&half, score("of-half", 1)).await.0, 200);
    assert_eq!(write(&half, score("of-half", 2)).await.0, 200, "its own");
    assert_eq!(write(&app.client, score("of-pair", 1)).await.0, 200);
    for (client, id) in [(&half, "of-pair"), (&other_half, "of-half"), (&other_half, "of-pair")] {
        let (status, problem) = write(client, score(id, 9)).await;
        assert_eq!(status, 403, "{problem}");
        assert_eq!(problem["details"]["permission"], "score.write");
    }
    assert_eq!((stored("of-half").await, stored("of-pair").await), (json!(2.0), json!(1.0)));

    let switch = format!(
        "/api/v1/projects/{}/api-keys/{}",
        app.app.home_project,
        made["id"].as_str().unwrap()
    );
    let off = json!({ "publicScores": false });
    let changed = app.organizer().json(Method::PATCH, &switch, &off).await.unwrap();
    assert_eq!(changed.json()["publicScores"], false, "{}", changed.text());
    assert_eq!(write(&other_half, score("of-half", 9)).await.0, 401, "it is switched off");

    // In a list and in a batch, each is answered on its own.
    let (status, response) = write(&half, json!([score("of-pair", 9), score("new", 3)])).await;
    assert_eq!((status, &response["accepted"], &response["rejected"]), (207, &json!(1), &json!(1)));
    let event = |id: &str| {
        json!({
            "id": format!("event {id}"), "type": "score-create", "timestamp": "2026-01-01T00:00:00Z",
            "body": score(id, 4),
        })
    };
    let batch = json!({ "batch": [event("of-pair"), event("new")] });
    let response = half.json(Method::POST, "/api/public/ingestion", &batch).await.unwrap().json();
    assert_eq!(response["successes"][0]["id"], "event new", "{response}");
    assert_eq!(response["errors"][0]["id"], "event of-pair", "{response}");
    assert_eq!((stored("new").await, stored("of-pair").await), (json!(4.0), json!(1.0)));

    // A score that a pair has overwritten no longer belongs to the public key alone.
    assert_eq!(write(&app.client, score("new", 5)).await.0, 200);
    assert_eq!(write(&half, score("new", 6)).await.0, 403);
    app.stop().await.unwrap();
}
