//! Prompts over HTTP: versions and labels, composition, conditional requests, refusals.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, count};
use perpend_server::client::Answer;
use serde_json::{Value, json};

const ALL: &str = "/api/public/v2/prompts";

async fn send(app: &TestApp, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = app.client.json(method, path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

async fn create(app: &TestApp, body: Value) -> Value {
    let (status, made) = send(app, Method::POST, ALL, body).await;
    assert_eq!(status, 201, "{made}");
    made
}

async fn get(app: &TestApp, path: &str) -> (u16, Value) {
    let answer = app.client.get(&format!("{ALL}/{path}")).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

fn include(name: &str) -> String {
    format!("@@@langfusePrompt:name={name}|label=production@@@")
}

#[tokio::test]
async fn a_prompt_has_all_that_clients_require_and_its_name_may_hold_folders() {
    let app = TestApp::new().await.unwrap();
    let made = create(&app, json!({ "name": "support/tone 100%", "prompt": "Be {{tone}}.", "labels": null, "tags": null })).await;
    assert_eq!((&made["version"], &made["type"]), (&json!(1), &json!("text")));
    assert_eq!((&made["config"], &made["labels"]), (&json!({}), &json!(["latest"])));
    let (status, missing) = get(&app, "support%2Ftone%20100%25").await;
    assert_eq!((status, &missing["error"]), (404, &json!("LangfuseNotFoundError")));
    let (status, found) = get(&app, "support%2Ftone%20100%25?label=latest").await;
    assert_eq!(status, 200);
    for key in ["name", "version", "config", "labels", "tags", "prompt", "type"] {
        assert_eq!(found[key], made[key], "{key}");
    }
    assert_eq!((&found["isActive"], &found["resolutionGraph"]), (&json!(false), &Value::Null));
}

#[tokio::test]
async fn labels_move_and_the_one_called_latest_does_not() {
    let app = TestApp::new().await.unwrap();
    for text in ["one", "two"] {
        create(&app, json!({ "name": "a", "prompt": text, "labels": ["production"] })).await;
    }
    let (_, found) = get(&app, "a").await;
    assert_eq!(
        (&found["prompt"], &found["labels"]),
        (&json!("two"), &json!(["latest", "production"]))
    );
    let patch = async |version: &str, labels: Value| {
        let path = format!("{ALL}/a/versions/{version}");
        let body = json!({ "name": "a", "version": 1, "newLabels": labels });
        send(&app, Method::PATCH, &path, body).await
    };
    let (status, moved) = patch("1", json!(["production", "eu"])).await;
    assert_eq!((status, &moved["labels"]), (200, &json!(["eu", "production"])));
    assert_eq!(get(&app, "a").await.1["version"], 1);
    assert_eq!(get(&app, "a?version=2").await.1["labels"], json!(["latest"]));
    assert_eq!(patch("1", json!(["latest"])).await.0, 400);
    assert_eq!(patch("1", json!(["No Label"])).await.0, 400);
    assert_eq!(patch("9", json!(["eu"])).await.0, 404);
    assert_eq!(patch("x", json!(["eu"])).await.0, 404);
    assert_eq!(get(&app, "a?version=1&label=eu").await.0, 400);
    assert_eq!(get(&app, "a?version=0").await.0, 400);
}

#[tokio::test]
async fn included_prompts_are_resolved_and_shown_raw_on_request() {
    let app = TestApp::new().await.unwrap();
    create(&app, json!({ "name": "rules", "prompt": "Never lie.", "labels": ["production"] }))
        .await;
    let messages = json!([
        { "role": "system", "content": format!("You help. {}", include("rules")) },
        { "type": "placeholder", "name": "history" },
    ]);
    create(
        &app,
        json!({ "name": "bot", "type": "chat", "prompt": messages, "labels": ["production"] }),
    )
    .await;
    let (_, found) = get(&app, "bot").await;
    assert_eq!(found["prompt"][0]["content"], "You help. Never lie.");
    let root = found["id"].as_str().unwrap();
    assert_eq!(found["resolutionGraph"]["dependencies"][root][0]["name"], "rules");
    let (_, raw) = get(&app, "bot?resolve=false").await;
    assert!(raw["prompt"][0]["content"].as_str().unwrap().contains("@@@"));
    create(&app, json!({ "name": "rules", "prompt": "Never ever lie.", "labels": ["production"] }))
        .await;
    assert_eq!(get(&app, "bot").await.1["prompt"][0]["content"], "You help. Never ever lie.");
    let (status, refused) =
        send(&app, Method::DELETE, &format!("{ALL}/rules?version=2"), Value::Null).await;
    assert_eq!(status, 400);
    assert_eq!(refused["details"]["includedBy"][0]["name"], "bot");
    let (status, _) = send(&app, Method::DELETE, &format!("{ALL}/bot"), Value::Null).await;
    assert_eq!(status, 204);
    assert_eq!(send(&app, Method::DELETE, &format!("{ALL}/rules"), Value::Null).await.0, 204);
    assert_eq!(send(&app, Method::DELETE, &format!("{ALL}/rules"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn cycles_and_invalid_includes_are_refused() {
    let app = TestApp::new().await.unwrap();
    let try_out = async |body: Value| send(&app, Method::POST, ALL, body).await;
    let (status, refused) = try_out(json!({ "name": "a", "prompt": include("none") })).await;
    assert_eq!(status, 400);
    assert!(
        refused["message"].as_str().unwrap().contains("none with label production"),
        "{refused}"
    );
    let chat = json!([{ "role": "user", "content": "" }]);
    create(
        &app,
        json!({ "name": "chat", "type": "chat", "prompt": chat, "labels": ["production"] }),
    )
    .await;
    assert_eq!(try_out(json!({ "name": "a", "prompt": include("chat") })).await.0, 400);
    create(&app, json!({ "name": "a", "prompt": "A", "labels": ["production"] })).await;
    create(&app, json!({ "name": "b", "prompt": include("a"), "labels": ["production"] })).await;
    let (status, refused) = try_out(json!({ "name": "a", "prompt": include("b") })).await;
    assert_eq!(status, 400);
    assert!(refused["message"].as_str().unwrap().contains("circle"), "{refused}");
    // The same by way of a label that moves later.
    create(&app, json!({ "name": "b", "prompt": "B", "labels": ["production"] })).await;
    create(&app, json!({ "name": "a", "prompt": include("b"), "labels": ["production"] })).await;
    let back = json!({ "newLabels": ["production"] });
    let (status, refused) = send(&app, Method::PATCH, &format!("{ALL}/b/versions/1"), back).await;
    assert_eq!(status, 400, "{refused}");
    assert_eq!(get(&app, "a").await.1["prompt"], "B");
    let wrong = "@@@langfusePrompt:name=b@@@";
    assert_eq!(try_out(json!({ "name": "c", "prompt": wrong })).await.0, 400);
    let mut below = "b".to_owned();
    for level in 1..=6 {
        let name = format!("level {level}");
        let (status, answer) =
            try_out(json!({ "name": name, "prompt": include(&below), "labels": ["production"] }))
                .await;
        assert_eq!(status, if level <= 5 { 201 } else { 400 }, "{level}: {answer}");
        below = name;
    }
}

#[tokio::test]
async fn an_unchanged_prompt_is_not_sent_again_and_a_lost_race_is_reported() {
    let app = TestApp::new().await.unwrap();
    create(&app, json!({ "name": "a", "prompt": "A", "labels": ["production"] })).await;
    let ask = async |method: Method, path: &str, headers: &[(&str, &str)], body: Value| -> Answer {
        app.client.send(method, path, headers, body.to_string()).await.unwrap()
    };
    let path = format!("{ALL}/a");
    let first = ask(Method::GET, &path, &[], Value::Null).await;
    let tag = first.headers["etag"].to_str().unwrap().to_owned();
    let again = ask(Method::GET, &path, &[("if-none-match", &tag)], Value::Null).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
    let version = format!("{path}/versions/1");
    let label = json!({ "newLabels": ["eu"] });
    let done = ask(Method::PATCH, &version, &[("if-match", &tag)], label.clone()).await;
    assert_eq!(done.status, 200, "{}", done.text());
    let late = ask(Method::PATCH, &version, &[("if-match", &tag)], label).await;
    assert_eq!((late.status.as_u16(), &late.json()["code"]), (412, &json!("conflict")));
    let changed = ask(Method::GET, &path, &[("if-none-match", &tag)], Value::Null).await;
    assert_eq!(changed.status, 200);
}

#[tokio::test]
async fn the_list_shows_ten_prompts_a_page_and_takes_conditions() {
    let app = TestApp::new().await.unwrap();
    for n in 0..11 {
        let tags = json!([format!("n{}", n % 2)]);
        create(&app, json!({ "name": format!("p{n:02}"), "prompt": "x", "tags": tags, "config": { "n": n } })).await;
    }
    create(&app, json!({ "name": "p03", "prompt": "y", "labels": ["eu"] })).await;
    let list = async |query: &str| app.client.get(&format!("{ALL}?{query}")).await.unwrap().json();
    let first = list("").await;
    assert_eq!((count(&first), &first["meta"]["totalPages"]), (10, &json!(2)));
    let one = &list("name=p03").await["data"][0];
    assert_eq!((&one["versions"], &one["labels"]), (&json!([1, 2]), &json!(["eu", "latest"])));
    assert_eq!((&one["type"], &one["lastConfig"]), (&json!("text"), &json!({})));
    assert_eq!(list("tag=n1").await["meta"]["totalItems"], 5);
    assert_eq!(list("label=eu").await["meta"]["totalItems"], 1);
    let filter = "%5B%7B%22type%22%3A%22number%22%2C%22column%22%3A%22version%22%2C%22operator%22%3A%22%3E%22%2C%22value%22%3A1%7D%5D";
    assert_eq!(list(&format!("filter={filter}")).await["meta"]["totalItems"], 1);
    assert_eq!(list("limit=101").await["code"], "invalid_query");
    assert_eq!(list("filter=%5B1%5D").await["code"], "invalid_request");
}

#[tokio::test]
async fn invalid_prompts_are_refused_with_the_field() {
    let app = TestApp::new().await.unwrap();
    create(&app, json!({ "name": "text", "prompt": "x" })).await;
    let cases = [
        (json!({ "name": "", "prompt": "x" }), "name"),
        (json!({ "name": "a|b", "prompt": "x" }), "name"),
        (json!({ "name": "/a", "prompt": "x" }), "name"),
        (json!({ "name": "<b>a</b>", "prompt": "x" }), "name"),
        (json!({ "name": "new", "prompt": "x" }), "name"),
        (json!({ "name": "a\u{0}", "prompt": "x" }), "name"),
        (json!({ "prompt": "x" }), "name"),
        (json!({ "name": "a" }), "prompt"),
        (json!({ "name": "a", "prompt": 1 }), "prompt"),
        (json!({ "name": "a", "prompt": "x", "type": "image" }), "type"),
        (json!({ "name": "a", "prompt": "x", "type": "chat" }), "prompt"),
        (json!({ "name": "text", "prompt": [], "type": "chat" }), "type"),
        (json!({ "name": "a", "prompt": "x", "labels": ["A"] }), "labels"),
        (json!({ "name": "a", "prompt": "x", "tags": [""] }), "tags"),
        (json!({ "name": "a", "prompt": "x", "commitMessage": "x".repeat(501) }), "commitMessage"),
    ];
    for (body, field) in cases {
        let (status, refused) = send(&app, Method::POST, ALL, body.clone()).await;
        assert_eq!(status, 400, "{body}");
        assert!(refused.to_string().contains(field), "{body}: {refused}");
    }
    let lone = r#"{"name":"a","prompt":"\ud800"}"#;
    let answer = app.client.send(Method::POST, ALL, &[], lone).await.unwrap();
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn prompts_of_another_project_are_not_there() {
    let app = TestApp::new().await.unwrap();
    let other = app.other_project().await.unwrap();
    create(&app, json!({ "name": "a", "prompt": "A", "labels": ["production"] })).await;
    let foreign = other.get(&format!("{ALL}/a")).await.unwrap();
    let missing = other.get(&format!("{ALL}/b")).await.unwrap();
    assert_eq!(
        (foreign.status, missing.status),
        (404.try_into().unwrap(), 404.try_into().unwrap())
    );
    assert_eq!(foreign.text().replace("\\\"a\\\"", "\\\"b\\\""), missing.text());
    for (method, path) in [(Method::DELETE, "a"), (Method::PATCH, "a/versions/1")] {
        let body = json!({ "newLabels": [] });
        let answer = other.json(method, &format!("{ALL}/{path}"), &body).await;
        assert_eq!(answer.unwrap().status, 404, "{path}");
    }
    let (status, _) = send(
        &app,
        Method::POST,
        "/api/public/prompts",
        json!({ "name": "old", "prompt": "x", "isActive": true }),
    )
    .await;
    assert_eq!(status, 200);
    let old = app.client.get("/api/public/prompts?name=old").await.unwrap().json();
    assert_eq!((&old["prompt"], &old["isActive"]), (&json!("x"), &json!(true)));
}

#[tokio::test]
async fn an_observation_that_names_a_version_of_a_prompt_shows_its_id() {
    let app = TestApp::new().await.unwrap();
    let made = create(&app, json!({ "name": "greet", "prompt": "Hello" })).await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut events = vec![json!({
        "id": "e0", "type": "trace-create", "timestamp": "2026-03-01T10:00:00Z", "body": { "id": trace },
    })];
    for (id, name, version) in [("a1", "greet", 1), ("a2", "greet", 7), ("a3", "nobody", 1)] {
        events.push(json!({
            "id": id, "type": "generation-create", "timestamp": "2026-03-01T10:00:00Z",
            "body": { "id": id, "traceId": trace, "promptName": name, "promptVersion": version },
        }));
    }
    let body = json!({ "batch": events });
    let taken = app.client.json(Method::POST, "/api/public/ingestion", &body).await.unwrap();
    assert_eq!(taken.json()["errors"], json!([]));
    let ids = async |path: &str, key: &str| {
        let body = app.client.get(path).await.unwrap().json();
        let mut found: Vec<(String, Value)> = body[key]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["id"].as_str().unwrap().starts_with('a'))
            .map(|one| (one["id"].as_str().unwrap().to_owned(), one["promptId"].clone()))
            .collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
    };
    let expected = [made["id"].clone(), Value::Null, Value::Null];
    assert_eq!(ids("/api/public/v2/observations?fields=prompt", "data").await, expected);
    assert_eq!(ids("/api/public/observations", "data").await, expected);
    assert_eq!(ids(&format!("/api/public/traces/{trace}"), "observations").await, expected);
    let one = app.client.get("/api/public/observations/a1").await.unwrap().json();
    assert_eq!(one["promptId"], made["id"]);
}

/// Requests that move or delete `production`, which is on the first version of the prompt `a` and of the skill `sk`.
fn changes_of_production() -> Vec<(Method, String, Value)> {
    const A: &str = "/api/public/v2/prompts/a";
    let skill = |n: u32| format!("/api/public/unstable/skills/sk/versions/{n}");
    let production = json!(["production"]);
    vec![
        (Method::PATCH, format!("{A}/versions/2"), json!({ "newLabels": production })),
        (
            Method::POST,
            ALL.to_owned(),
            json!({ "name": "a", "prompt": "text", "labels": production }),
        ),
        (Method::DELETE, A.to_owned(), json!({})),
        (Method::DELETE, format!("{A}?version=1"), json!({})),
        (Method::DELETE, format!("{A}?label=production"), json!({})),
        (Method::PATCH, skill(2), json!({ "labels": production })),
        (Method::PATCH, skill(1), json!({ "labels": [] })),
        (Method::DELETE, skill(1), json!({})),
    ]
}

#[tokio::test]
async fn key_pairs_of_a_project_neither_move_nor_delete_protected_prompt_labels() {
    const PROTECTED: &str = "/api/v1/prompts/protected-labels";
    const SKILLS: &str = "/api/public/unstable/skills";
    let app = TestApp::new().await.unwrap();
    let project = app.app.home_project.to_string();
    let call = async |method: Method, path: &str, body: Value| {
        let answer = app.client.json(method, path, &body).await.unwrap();
        answer.status.as_u16()
    };
    for labels in [json!(["production"]), json!([])] {
        create(&app, json!({ "name": "a", "prompt": "text", "labels": labels })).await;
    }
    let content = "---\nname: sk\ndescription: Does it.\n---\n# sk\n";
    let files = json!({ "files": [{ "path": "SKILL.md", "content": content }] });
    for _ in 0..2 {
        assert_eq!(call(Method::POST, SKILLS, files.clone()).await, 200);
    }
    let skill = |version: u32| format!("{SKILLS}/sk/versions/{version}");
    let labels = |labels: Value| json!({ "labels": labels });
    let of_skill = skill(1);
    assert_eq!(call(Method::PATCH, &of_skill, labels(json!(["production"]))).await, 200);

    let list = labels(json!(["production"]));
    assert_eq!(
        call(Method::PUT, PROTECTED, list.clone()).await,
        403,
        "not by a key of the project"
    );
    let organizer = app.organizer();
    let unnamed = organizer.json(Method::PUT, PROTECTED, &list).await.unwrap();
    assert_eq!(unnamed.status, 400, "{}", unnamed.text());
    let named = |id: &str| organizer.clone().with_header("x-perpend-project-id", id);
    let foreign = named("another").json(Method::PUT, PROTECTED, &list).await;
    assert_eq!(foreign.unwrap().status, 404);
    let named = named(&project);
    let latest = named.json(Method::PUT, PROTECTED, &labels(json!(["latest"]))).await;
    assert_eq!(latest.unwrap().status, 400);
    let set = named.json(Method::PUT, PROTECTED, &list).await.unwrap();
    assert_eq!(set.status, 200, "{}", set.text());

    let version = |n: u32| format!("/api/public/v2/prompts/a/versions/{n}");
    for (method, path, body) in changes_of_production() {
        let refused = app.client.json(method.clone(), &path, &body).await.unwrap();
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
        assert!(refused.text().contains("protected"), "{}", refused.text());
    }
    let new_labels = json!({ "newLabels": ["production"] });
    // Unprotected labels and all other changes still work.
    assert_eq!(call(Method::PATCH, &version(1), new_labels.clone()).await, 200);
    assert_eq!(get(&app, "a?label=production").await.1["version"], 1);
    let eu = json!({ "newLabels": ["eu"] });
    assert_eq!(call(Method::PATCH, &version(2), eu).await, 200);
    let kept = labels(json!(["production", "eu"]));
    assert_eq!(call(Method::PATCH, &of_skill, kept).await, 200);
    let path = "/api/public/v2/prompts/a?version=2";
    assert_eq!(call(Method::DELETE, path, json!({})).await, 204);

    let none = named.json(Method::PUT, PROTECTED, &labels(json!([]))).await;
    assert_eq!(none.unwrap().status, 200);
    create(&app, json!({ "name": "a", "prompt": "text" })).await;
    assert_eq!(call(Method::PATCH, &version(2), new_labels).await, 200);
}
