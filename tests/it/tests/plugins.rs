//! The registry of plug-ins: immutable, with several versions at a time, and unaffected by refused requests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_domain::time::Clock as _;
use perpend_it::raw::{OTHER_PAIR, PAIR, RawRequest};
use perpend_it::{TestApp, count};
use perpend_server::client::{Answer, Client};
use serde_json::{Value, json};

const PLUGINS: &str = "/api/v1/plugins";
const ROLLBACK: &str = "/api/v1/plugins/rollback";
const EVALUATORS: &str = "/api/public/v2/evaluators";
/// Its own name, under which the tests of this file register it.
const OURS: &str = "ourfirm/text";

/// The component of the server's own plug-in `perpend/text`.
async fn first_party(app: &TestApp) -> Vec<u8> {
    let found = app.client.get("/api/v1/plugins?name=perpend/text").await;
    let digest = found.unwrap().json()["data"][0]["digest"].clone();
    let path = format!("{PLUGINS}/{}/component", digest.as_str().unwrap());
    app.client.get(&path).await.unwrap().body
}

/// The same evaluators under another name, as `version`: texts of the same length in the file.
async fn ours(app: &TestApp, version: &str) -> Vec<u8> {
    let bytes = first_party(app).await;
    replaced(&replaced(&bytes, "perpend/text", OURS), "0.1.0", version)
}

fn replaced(bytes: &[u8], old: &str, new: &str) -> Vec<u8> {
    assert_eq!(old.len(), new.len());
    let mut out = bytes.to_vec();
    let places: Vec<usize> = bytes
        .windows(old.len())
        .enumerate()
        .filter_map(|(at, window)| (window == old.as_bytes()).then_some(at))
        .collect();
    assert!(!places.is_empty(), "{old} is not in the component");
    for at in places {
        out[at..at + new.len()].copy_from_slice(new.as_bytes());
    }
    out
}

/// Other bytes that mean the same: a custom section more.
fn with_note(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend([0, 5, 4, b'n', b'o', b't', b'e']);
    bytes
}

async fn push(client: &Client, bytes: &[u8]) -> Answer {
    let headers = [("content-type", "application/wasm")];
    let sent = client.send(Method::POST, PLUGINS, &headers, bytes.to_vec());
    sent.await.unwrap()
}

async fn pushed(app: &TestApp, bytes: &[u8]) -> String {
    let answer = push(&app.client, bytes).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["digest"].as_str().unwrap().to_owned()
}

async fn delete(client: &Client, path: &str) -> (u16, Value) {
    let answer = client.json(Method::DELETE, path, &json!({})).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

async fn roll_back(app: &TestApp, body: Value) -> (u16, Value) {
    let answer = app.client.json(Method::POST, ROLLBACK, &body).await;
    let answer = answer.unwrap();
    (answer.status.as_u16(), answer.json())
}

#[tokio::test]
async fn a_component_is_registered_once_and_the_same_bytes_again_change_nothing() {
    let app = TestApp::new().await.unwrap();
    let bytes = ours(&app, "0.1.0").await;
    let first = push(&app.client, &bytes).await;
    assert_eq!(first.status, 201, "{}", first.text());
    let again = push(&app.client, &bytes).await;
    assert_eq!(again.status, 200, "{}", again.text());
    assert_eq!(again.json(), first.json());
    let entry = first.json();
    assert_eq!(
        (&entry["name"], &entry["version"], &entry["isFirstParty"]),
        (&json!(OURS), &json!("0.1.0"), &json!(false))
    );
    assert_eq!(entry["capabilities"], json!([]));

    let listed = app.client.get(PLUGINS).await.unwrap().json();
    assert_eq!(listed["meta"]["contracts"], json!(["1.0.0"]));
    assert_eq!(listed["meta"]["maxComponentBytes"], 64 << 20);
    let path = format!("{PLUGINS}?name={OURS}");
    let named = app.client.get(&path).await.unwrap().json();
    assert_eq!(count(&named), 1, "{named}");

    let digest = entry["digest"].as_str().unwrap();
    let path = format!("{PLUGINS}/sha256:{digest}/component");
    let component = app.client.get(&path).await.unwrap();
    assert_eq!(component.body, bytes);
    assert_eq!(component.headers["content-type"], "application/wasm");
    assert_eq!(component.headers["etag"], format!("\"sha256:{digest}\""));
}

#[tokio::test]
async fn other_bytes_under_the_same_name_and_version_are_refused_and_nothing_is_damaged() {
    let app = TestApp::new().await.unwrap();
    let bytes = ours(&app, "0.1.0").await;
    let digest = pushed(&app, &bytes).await;
    let before = app.client.get(PLUGINS).await.unwrap().json();

    let refused = push(&app.client, &with_note(bytes.clone())).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let problem = refused.json();
    let detail = problem["detail"].as_str().unwrap();
    for part in ["ourfirm/text@0.1.0", &digest, "increase the version"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert_eq!(problem["digest"], digest);

    let broken = push(&app.client, &bytes[..bytes.len() / 2]).await;
    assert_eq!(broken.status, 422, "{}", broken.text());
    let problem = broken.json();
    assert_eq!(problem["problems"][0]["at"], "compile", "{problem}");
    assert_eq!(problem["contracts"], json!(["1.0.0"]));

    assert_eq!(app.client.get(PLUGINS).await.unwrap().json(), before);
    let made = app.evaluator(OURS, "exact-match", json!({})).await.unwrap();
    assert!(!made.is_empty());
}

#[tokio::test]
async fn a_first_party_name_is_the_servers_whether_or_not_it_has_the_plug_in() {
    let app = TestApp::new().await.unwrap();
    let own = first_party(&app).await;
    let before = app.client.get(PLUGINS).await.unwrap().json();
    // Of one that this server has, and of one that it may get later.
    let absent = replaced(&own, "perpend/text", "perpend/next");
    for impostor in [with_note(own.clone()), absent.clone()] {
        let refused = push(&app.client, &impostor).await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        let problem = refused.json();
        assert_eq!(problem["code"], "invalid_component");
        assert_eq!(problem["field"], "name");
        assert_eq!(problem["problems"][0]["at"], "name");
        let detail = problem["detail"].as_str().unwrap();
        for part in ["is reserved", "acme/"] {
            assert!(detail.contains(part), "{part}: {detail}");
        }
    }
    assert_eq!(app.client.get(PLUGINS).await.unwrap().json(), before);
    // The bytes that the server itself has are no impostor.
    assert_eq!(push(&app.client, &own).await.status, 200);
    // The operator adds it: then it is there for all, and the same bytes are known.
    let info = app.app.engine.inspect(&absent).await.unwrap();
    let added = app.app.store.catalog.put_plugin(None, &info, &absent, app.clock.now());
    added.await.unwrap();
    let known = push(&app.client, &absent).await;
    assert_eq!(known.status, 200, "{}", known.text());
    assert_eq!(known.json()["isFirstParty"], true);
    let other = app.other_project().await.unwrap();
    let listed = other.get(&format!("{PLUGINS}?name=perpend/next")).await;
    assert_eq!(count(&listed.unwrap().json()), 1);
}

#[tokio::test]
async fn a_name_that_the_operator_added_is_taken_for_projects() {
    let app = TestApp::new().await.unwrap();
    let bytes = ours(&app, "0.1.0").await;
    let info = app.app.engine.inspect(&bytes).await.unwrap();
    let added = app.app.store.catalog.put_plugin(None, &info, &bytes, app.clock.now());
    added.await.unwrap();
    let refused = push(&app.client, &ours(&app, "0.2.0").await).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    let problem = refused.json();
    assert_eq!((&problem["code"], &problem["field"]), (&json!("name_conflict"), &json!("name")));
}

#[tokio::test]
async fn a_plug_in_in_use_is_not_deleted_and_its_users_are_named() {
    let app = TestApp::new().await.unwrap();
    let digest = pushed(&app, &ours(&app, "0.1.0").await).await;
    let path = format!("{PLUGINS}/{digest}");
    let body = json!({
        "type": "plugin", "name": "Same as expected", "plugin": OURS, "evaluator": "exact-match",
    });
    let made = app.client.json(Method::POST, EVALUATORS, &body).await;
    let evaluator = made.unwrap().json()["id"].as_str().unwrap().to_owned();

    let shown = app.client.get(&path).await.unwrap().json();
    assert_eq!(shown["users"][0]["name"], "Same as expected");
    let (status, problem) = delete(&app.client, &path).await;
    assert_eq!(status, 409, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("\"Same as expected\" (version 1)"), "{detail}");
    assert_eq!(problem["users"][0]["evaluatorId"], evaluator);

    let own = format!("{EVALUATORS}/{evaluator}");
    assert_eq!(delete(&app.client, &own).await.0, 200);
    assert_eq!(delete(&app.client, &path).await.0, 200);
    assert_eq!(app.client.get(&path).await.unwrap().status, 404);
    assert_eq!(delete(&app.client, &path).await.0, 404);

    let listed = app.client.get(PLUGINS).await.unwrap().json();
    let served = listed["data"][0]["digest"].as_str().unwrap().to_owned();
    let (status, problem) = delete(&app.client, &format!("{PLUGINS}/{served}")).await;
    assert_eq!(status, 403, "{problem}");
}

#[tokio::test]
async fn versions_coexist_and_evaluators_are_moved_back_on_request() {
    let app = TestApp::new().await.unwrap();
    let old = pushed(&app, &ours(&app, "0.1.0").await).await;
    let kept = app.evaluator(OURS, "exact-match", json!({})).await.unwrap();
    // Nowhere to go.
    let (status, problem) = roll_back(&app, json!({ "name": OURS })).await;
    assert_eq!(status, 422, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("no former version"), "{problem}");
    let new = pushed(&app, &ours(&app, "0.2.0").await).await;
    let moved = app.evaluator(OURS, "exact-match", json!({})).await.unwrap();
    let digest_of = async |id: &str| {
        let path = format!("{EVALUATORS}/{id}");
        let shown = app.client.get(&path).await.unwrap().json();
        shown["plugin"]["digest"].as_str().unwrap().to_owned()
    };
    assert_eq!(digest_of(&kept).await, old, "an evaluator stays with its digest");
    assert_eq!(digest_of(&moved).await, new, "a name means the newest version");
    let path = format!("{PLUGINS}/{new}");
    let shown = app.client.get(&path).await.unwrap().json();
    assert_eq!(shown["versions"].as_array().unwrap().len(), 2, "{shown}");

    let to_old = |dry_run: bool| json!({ "name": OURS, "to": "0.1.0", "dryRun": dry_run });
    let (status, planned) = roll_back(&app, to_old(true)).await;
    assert_eq!((status, count(&planned)), (200, 1), "{planned}");
    assert_eq!(planned["data"][0]["after"]["evaluatorVersion"], Value::Null);
    assert_eq!(digest_of(&moved).await, new, "a plan changes nothing");

    let (status, done) = roll_back(&app, to_old(false)).await;
    assert_eq!((status, count(&done)), (200, 1), "{done}");
    let change = &done["data"][0];
    assert_eq!(change["evaluatorId"], moved);
    assert_eq!(
        (&change["before"]["pluginVersion"], &change["after"]["pluginVersion"]),
        (&json!("0.2.0"), &json!("0.1.0"))
    );
    assert_eq!(change["after"]["evaluatorVersion"], 2);
    assert_eq!(digest_of(&moved).await, old);
    let (_, again) = roll_back(&app, to_old(false)).await;
    assert_eq!(count(&again), 0, "twice is once: {again}");

    let (status, problem) = roll_back(&app, json!({ "name": OURS, "to": "9.9.9" })).await;
    assert_eq!(status, 404);
    assert!(problem["detail"].as_str().unwrap().contains("0.1.0, 0.2.0"), "{problem}");
    let (status, _) = roll_back(&app, json!({ "name": "ourfirm/none" })).await;
    assert_eq!(status, 404);
    let (status, problem) = roll_back(&app, json!({ "name": OURS, "too": "1" })).await;
    assert_eq!(status, 400, "{problem}");
}

#[tokio::test]
async fn a_repeated_rollback_without_a_target_has_no_further_effect() {
    let app = TestApp::new().await.unwrap();
    pushed(&app, &ours(&app, "0.1.0").await).await;
    let oldest = app.evaluator(OURS, "exact-match", json!({})).await.unwrap();
    pushed(&app, &ours(&app, "0.2.0").await).await;
    pushed(&app, &ours(&app, "0.3.0").await).await;
    let newest = app.evaluator(OURS, "exact-match", json!({})).await.unwrap();
    let used = async |id: &str| {
        let path = format!("{EVALUATORS}/{id}");
        let shown = app.client.get(&path).await.unwrap().json();
        let version = shown["plugin"]["version"].as_str().unwrap().to_owned();
        (version, shown["version"].clone())
    };
    // Three at the same time, like a client that repeats a request without a response.
    let body = || json!({ "name": OURS });
    let (one, two, three) =
        tokio::join!(roll_back(&app, body()), roll_back(&app, body()), roll_back(&app, body()));
    let mut n_moved = 0;
    for (status, answer) in [one, two, three] {
        match status {
            200 => n_moved += count(&answer),
            // Another one was first.
            409 => assert_eq!(answer["code"], "conflict", "{answer}"),
            _ => unreachable!("{answer}"),
        }
    }
    assert_eq!(n_moved, 1);
    assert_eq!(used(&newest).await, ("0.2.0".to_owned(), json!(2)));
    let (status, again) = roll_back(&app, body()).await;
    assert_eq!((status, count(&again)), (200, 0), "{again}");
    assert_eq!(used(&newest).await, ("0.2.0".to_owned(), json!(2)));
    assert_eq!(used(&oldest).await, ("0.1.0".to_owned(), json!(1)));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn plug_ins_of_one_project_are_not_found_by_another() {
    let app = TestApp::new().await.unwrap();
    let bytes = ours(&app, "0.1.0").await;
    let digest = pushed(&app, &bytes).await;
    let other = app.other_project().await.unwrap();
    let path = format!("{PLUGINS}/{digest}");
    for path in [path.clone(), format!("{path}/component")] {
        assert_eq!(other.get(&path).await.unwrap().status, 404, "{path}");
    }
    assert_eq!(delete(&other, &path).await.0, 404);
    let body = json!({ "name": OURS });
    let answer = other.json(Method::POST, ROLLBACK, &body).await.unwrap();
    assert_eq!(answer.status, 404);
    // The same bytes are its own registration there.
    assert_eq!(push(&other, &bytes).await.status, 201);
    assert_eq!(delete(&other, &path).await.0, 200);
    assert_eq!(app.client.get(&path).await.unwrap().status, 200);
}

#[tokio::test]
async fn uploads_that_do_not_end_block_no_registration_of_any_project() {
    let app = TestApp::new().await.unwrap();
    let other = app.other_project().await.unwrap();
    let bytes = ours(&app, "0.1.0").await;
    let length = (8 << 20).to_string();
    let mut stuck = Vec::new();
    for pair in [PAIR, OTHER_PAIR].into_iter().cycle().take(8) {
        let headers = [
            ("authorization", pair),
            ("content-type", "application/wasm"),
            ("content-length", length.as_str()),
        ];
        let line = format!("POST {PLUGINS}");
        let mut upload = RawRequest::open(&app.origin, &line, &headers).await.unwrap();
        upload.send(b"\0asm").await.unwrap();
        stuck.push(upload);
    }
    for client in [&app.client, &other] {
        let answer = push(client, &bytes).await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

#[tokio::test]
async fn an_upload_over_the_limit_is_refused_with_the_limit_before_its_bytes_are_read() {
    let app = TestApp::new().await.unwrap();
    let length = ((64 << 20) + 1).to_string();
    let headers = [
        ("authorization", PAIR),
        ("content-type", "application/wasm"),
        ("content-length", length.as_str()),
    ];
    let line = format!("POST {PLUGINS}");
    let request = RawRequest::open(&app.origin, &line, &headers).await;
    let answer = request.unwrap().answer().await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");

    let headers = [("content-type", "application/json")];
    let sent = app.client.send(Method::POST, PLUGINS, &headers, "{}").await;
    let refused = sent.unwrap();
    assert_eq!(refused.status, 415, "{}", refused.text());
    assert!(refused.text().contains("application/wasm"), "{}", refused.text());
}
