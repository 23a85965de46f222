//! Organizations with their own keys: projects and their keys, members and roles, SCIM.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_domain::time::Clock as _;
use perpend_it::{OTLP, TestApp, Trace, command, trace_id};
use perpend_server::client::Client;
use serde_json::{Value, json};

const PROJECTS: &str = "/api/public/projects";
const OF_ORGANIZATION: &str = "/api/public/organizations/projects";
const MEMBERSHIPS: &str = "/api/public/organizations/memberships";
const USERS: &str = "/api/public/scim/Users";
const HOUR: Duration = Duration::from_secs(3_600);

async fn send(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = client.json(method, path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

async fn post(client: &Client, path: &str, body: Value) -> (u16, Value) {
    send(client, Method::POST, path, body).await
}

async fn get(client: &Client, path: &str) -> Value {
    let answer = client.get(path).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

async fn status(client: &Client, path: &str) -> u16 {
    client.get(path).await.unwrap().status.as_u16()
}

/// A project of the organization; its id.
async fn project(app: &TestApp, name: &str) -> String {
    let body = json!({ "name": name, "retention": 0 });
    let (status, made) = post(&app.organizer(), PROJECTS, body).await;
    assert_eq!(status, 200, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// A key pair of a project: its id, and a caller with it.
async fn key(app: &TestApp, project: &str, body: Value) -> (String, Client) {
    let path = format!("{PROJECTS}/{project}/apiKeys");
    let (status, made) = post(&app.organizer(), &path, body).await;
    assert_eq!(status, 200, "{made}");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    let client = Client::new(&app.origin).with_keys(&text("publicKey"), &text("secretKey"));
    (text("id"), client)
}

/// Creates a user of the organization; returns the id.
async fn user(app: &TestApp, name: &str) -> String {
    let (status, made) = post(&app.organizer(), USERS, json!({ "userName": name })).await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn names(list: &Value) -> Vec<&str> {
    let projects = list["projects"].as_array().unwrap();
    projects.iter().map(|one| one["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn an_organization_makes_projects_and_keys_that_open_them() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let body = json!({ "name": "Search", "retention": 30, "metadata": { "team": "blue" } });
    let (_, made) = post(&organizer, PROJECTS, body).await;
    assert_eq!(made["organization"]["name"], "My organization");
    assert_eq!((&made["retentionDays"], &made["metadata"]["team"]), (&json!(30), &json!("blue")));
    let id = made["id"].as_str().unwrap();
    let list = get(&organizer, OF_ORGANIZATION).await;
    assert_eq!(names(&list), ["My project", "Search"]);

    let (key_id, opened) = key(&app, id, json!({ "name": "ci" })).await;
    assert_eq!(get(&opened, PROJECTS).await["data"][0], made);
    let trace = Trace::new(1, "root").to_json();
    assert_eq!(post(&opened, OTLP, trace).await.0, 200);
    let path = format!("/api/public/traces/{}", trace_id(1));
    assert_eq!((status(&opened, &path).await, status(&app.client, &path).await), (200, 404));
    for path in [OF_ORGANIZATION, MEMBERSHIPS, USERS] {
        assert_eq!(status(&opened, path).await, 403, "{path}");
    }
    assert_eq!(status(&organizer, &path).await, 403);

    app.app.jobs.run_once().await;
    let keys = format!("{PROJECTS}/{id}/apiKeys");
    let listed = get(&organizer, &keys).await;
    let listed = &listed["apiKeys"][0];
    assert_eq!((&listed["name"], &listed["note"]), (&json!("ci"), &json!("ci")));
    assert!(listed["lastUsedAt"].is_string(), "{listed}");
    assert!(listed.get("secretKey").is_none(), "{listed}");
    let own = get(&organizer, "/api/public/organizations/apiKeys").await;
    assert_eq!(own["apiKeys"][0]["publicKey"], "pk-test-org");

    let path = format!("{keys}/{key_id}");
    let (status_, gone) = send(&organizer, Method::DELETE, &path, json!({})).await;
    assert_eq!((status_, &gone["success"]), (200, &json!(true)));
    assert_eq!(status(&opened, PROJECTS).await, 401, "at once");
    assert_eq!(send(&organizer, Method::DELETE, &path, json!({})).await.0, 404);

    let path = format!("{PROJECTS}/{id}");
    let (_, changed) = send(&organizer, Method::PUT, &path, json!({ "name": "Search 2" })).await;
    assert_eq!(changed["name"], "Search 2");
    assert_eq!(changed["retentionDays"], 30, "what is not named stays");
    let forever = json!({ "name": "Search 2", "retention": 0, "metadata": {} });
    let (_, changed) = send(&organizer, Method::PUT, &path, forever).await;
    assert!(changed.get("retentionDays").is_none(), "{changed}");
    assert_eq!(changed["metadata"], json!({}));
}

#[tokio::test]
async fn a_key_opens_nothing_after_its_end() {
    let app = TestApp::new().await.unwrap();
    let id = project(&app, "Search").await;
    let end = app.clock.now().plus_millis(3_600_000);
    let (_, opened) = key(&app, &id, json!({ "expiresAt": end })).await;
    assert_eq!(status(&opened, PROJECTS).await, 200);
    app.clock.advance(HOUR);
    assert_eq!(status(&opened, PROJECTS).await, 401);
    let past = json!({ "expiresAt": "2020-01-01T00:00:00Z" });
    let keys = format!("{PROJECTS}/{id}/apiKeys");
    let (status, refused) = post(&app.organizer(), &keys, past).await;
    assert_eq!(status, 400);
    assert!(refused["message"].as_str().unwrap().contains("expiresAt"), "{refused}");
}

#[tokio::test]
async fn a_pair_that_exists_already_is_taken_over() {
    let app = TestApp::new().await.unwrap();
    let id = project(&app, "Search").await;
    let pair = json!({ "publicKey": "pk-lf-old", "secretKey": "sk-lf-0123456789abcdef" });
    // Requested before it exists: the negative result must not be cached.
    let opened = Client::new(&app.origin).with_keys("pk-lf-old", "sk-lf-0123456789abcdef");
    assert_eq!(status(&opened, PROJECTS).await, 401);
    key(&app, &id, pair.clone()).await;
    assert_eq!(get(&opened, PROJECTS).await["data"][0]["name"], "Search");
    let keys = format!("{PROJECTS}/{id}/apiKeys");
    assert_eq!(post(&app.organizer(), &keys, pair).await.0, 409);
    for (body, field) in [
        (json!({ "publicKey": "pk-lf-a" }), "secretKey"),
        (json!({ "secretKey": "sk-lf-0123456789abcdef" }), "publicKey"),
        (json!({ "publicKey": "a:b", "secretKey": "sk-lf-0123456789abcdef" }), "publicKey"),
        (json!({ "publicKey": "", "secretKey": "sk-lf-0123456789abcdef" }), "publicKey"),
        (json!({ "publicKey": "pk-lf-a", "secretKey": "short" }), "secretKey"),
        (json!({ "name": "x".repeat(501) }), "name"),
    ] {
        let (status, refused) = post(&app.organizer(), &keys, body).await;
        assert_eq!(status, 400, "{field}");
        assert!(refused["message"].as_str().unwrap().contains(field), "{refused}");
    }
}

#[tokio::test]
async fn a_deleted_project_is_closed_at_once_and_leaves_nothing() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let id = project(&app, "Search").await;
    let (_, opened) = key(&app, &id, json!({})).await;
    assert_eq!(post(&opened, OTLP, Trace::new(1, "root").to_json()).await.0, 200);
    let path = format!("{PROJECTS}/{id}");
    let (deleted, body) = send(&organizer, Method::DELETE, &path, json!({})).await;
    assert_eq!((deleted, &body["success"]), (202, &json!(true)));
    assert_eq!(status(&opened, PROJECTS).await, 401);
    assert_eq!(status(&organizer, &format!("{path}/apiKeys")).await, 404);
    assert_eq!(send(&organizer, Method::DELETE, &path, json!({})).await.0, 404);
    assert_eq!(names(&get(&organizer, OF_ORGANIZATION).await), ["My project"]);
    project(&app, "Search").await;

    app.app.jobs.run_once().await;
    let tenant = id.parse().unwrap();
    let trace = trace_id(1).parse().unwrap();
    let left = app.app.store.telemetry.trace(&tenant, &trace, false).await.unwrap();
    assert!(left.is_none());
    app.clock.advance(HOUR);
    app.app.jobs.run_once().await;
    let swept = app.app.store.sweep(app.clock.now()).await.unwrap();
    assert_eq!((swept.n_gone, swept.n_lingering), (0, 0), "it was gone before");
    assert_eq!(status(&app.client, PROJECTS).await, 200);
}

#[tokio::test]
async fn invalid_changes_of_an_organization_are_refused_by_name() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let id = project(&app, "Search").await;
    for (body, field) in [
        (json!({ "retention": 0 }), "name"),
        (json!({ "name": "ab", "retention": 0 }), "name"),
        (json!({ "name": "x".repeat(61), "retention": 0 }), "name"),
        (json!({ "name": "a\nbc", "retention": 0 }), "name"),
        (json!({ "name": "Search 2", "retention": 2 }), "retention"),
        (json!({ "name": "Search 2", "retention": -3 }), "retention"),
        (json!({ "name": "Search 2", "retention": "3" }), "retention"),
        (json!({ "name": "Search 2", "metadata": [] }), "metadata"),
        (json!({ "name": "Search 2", "metadata": { "a": "x".repeat(20_000) } }), "metadata"),
    ] {
        let (status, refused) = post(&organizer, PROJECTS, body.clone()).await;
        assert_eq!(status, 400, "{body}: {refused}");
        assert!(refused["message"].as_str().unwrap().contains(field), "{field}: {refused}");
    }
    let taken = json!({ "name": "Search", "retention": 0 });
    assert_eq!(post(&organizer, PROJECTS, taken).await.0, 409);
    let taken = json!({ "name": "My project" });
    let path = format!("{PROJECTS}/{id}");
    assert_eq!(send(&organizer, Method::PUT, &path, taken).await.0, 409);
    for (body, field) in [
        (json!({ "userId": "nobody", "role": "KING" }), "role"),
        (json!({ "role": "OWNER" }), "userId"),
    ] {
        let (status, refused) = send(&organizer, Method::PUT, MEMBERSHIPS, body).await;
        assert_eq!(status, 400, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains(field), "{refused}");
    }
}

#[tokio::test]
async fn another_organization_finds_nothing_of_this_one() {
    let app = TestApp::new().await.unwrap();
    app.other_project().await.unwrap();
    let theirs = Client::new(&app.origin).with_keys("pk-other-org", "sk-other-org");
    let (id, ada) = (project(&app, "Search").await, user(&app, "ada@example.com").await);
    let role = json!({ "userId": ada, "role": "OWNER" });
    let calls = [
        (Method::PUT, "/api/public/projects/ID", json!({ "name": "Stolen" })),
        (Method::DELETE, "/api/public/projects/ID", json!({})),
        (Method::GET, "/api/public/projects/ID/apiKeys", json!({})),
        (Method::POST, "/api/public/projects/ID/apiKeys", json!({})),
        (Method::DELETE, "/api/public/projects/ID/apiKeys/k", json!({})),
        (Method::GET, "/api/public/projects/ID/memberships", json!({})),
        (Method::PUT, "/api/public/projects/ID/memberships", role.clone()),
        (Method::DELETE, "/api/public/projects/ID/memberships", role.clone()),
    ];
    for (method, path, body) in calls {
        let mut answers = Vec::new();
        for id in [&*id, "none"] {
            answers
                .push(send(&theirs, method.clone(), &path.replace("ID", id), body.clone()).await);
        }
        assert_eq!(answers[0], answers[1], "{method} {path}");
        assert_eq!(answers[0].0, 404, "{method} {path}");
    }
    for method in [Method::PUT, Method::DELETE] {
        assert_eq!(send(&theirs, method, MEMBERSHIPS, role.clone()).await.0, 404);
    }
    assert_eq!(names(&get(&theirs, OF_ORGANIZATION).await), ["Other"]);
    let members = get(&theirs, MEMBERSHIPS).await;
    assert_eq!(members["memberships"], json!([]));
    assert_eq!(get(&app.organizer(), MEMBERSHIPS).await["memberships"][0]["role"], "VIEWER");
}

#[tokio::test]
async fn members_have_a_role_in_the_organization_and_another_in_a_project() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let (id, ada) = (project(&app, "Search").await, user(&app, "ada@example.com").await);
    let of_project = format!("{PROJECTS}/{id}/memberships");
    let role = |role: &str| json!({ "userId": ada, "role": role });
    let (_, member) = send(&organizer, Method::PUT, MEMBERSHIPS, role("ADMIN")).await;
    let expected = json!({ "userId": ada, "role": "ADMIN", "email": "ada@example.com",
                           "name": "ada@example.com" });
    assert_eq!(member, expected);
    assert_eq!(get(&organizer, &of_project).await["memberships"], json!([]));
    let (_, member) = send(&organizer, Method::PUT, &of_project, role("VIEWER")).await;
    assert_eq!(member["role"], "VIEWER");
    assert_eq!(get(&organizer, &of_project).await["memberships"], json!([member]));
    assert_eq!(get(&organizer, MEMBERSHIPS).await["memberships"], json!([expected]));
    let (_, left) = send(&organizer, Method::DELETE, &of_project, role("")).await;
    assert_eq!(left["userId"], json!(ada));
    assert_eq!(send(&organizer, Method::DELETE, &of_project, role("")).await.0, 404);
    let (_, left) = send(&organizer, Method::DELETE, MEMBERSHIPS, role("")).await;
    assert!(left["message"].is_string());
    assert_eq!(get(&organizer, MEMBERSHIPS).await["memberships"], json!([]));
    assert_eq!(send(&organizer, Method::PUT, &of_project, role("VIEWER")).await.0, 404);
    let (back, _) = send(&organizer, Method::PUT, MEMBERSHIPS, role("MEMBER")).await;
    assert_eq!(back, 404, "a role does not bring back who has left");
}

#[tokio::test]
async fn members_write_comments_and_work_on_queues_and_others_do_not() {
    let app = TestApp::new().await.unwrap();
    let ada = user(&app, "ada@example.com").await;
    app.ingest(&Trace::new(1, "root")).await.unwrap();
    let project = app.app.home_project.clone();
    let comment = |author: &str| {
        json!({ "projectId": project, "objectType": "TRACE", "objectId": trace_id(1),
                "content": "well done", "authorUserId": author })
    };
    let comments = "/api/public/comments";
    assert_eq!(post(&app.client, comments, comment(&ada)).await.0, 200);
    let listed = get(&app.client, &format!("{comments}?authorUserId={ada}")).await;
    assert_eq!(listed["meta"]["totalItems"], 1);
    let config = json!({ "name": "ok", "dataType": "BOOLEAN" });
    let (_, config) = post(&app.client, "/api/public/score-configs", config).await;
    let queue = json!({ "name": "q", "scoreConfigIds": [config["id"]] });
    let (_, queue) = post(&app.client, "/api/public/annotation-queues", queue).await;
    let queue = queue["id"].as_str().unwrap();
    let assignments = format!("/api/public/annotation-queues/{queue}/assignments");
    let who = json!({ "userId": ada });
    for _ in 0..2 {
        let (status, assigned) = post(&app.client, &assignments, who.clone()).await;
        let expected = json!({ "userId": ada, "queueId": queue, "projectId": project });
        assert_eq!((status, assigned), (200, expected));
    }
    let other = app.other_project().await.unwrap();
    let foreign = Client::new(&app.origin).with_keys("pk-other-org", "sk-other-org");
    let (_, bob) = post(&foreign, USERS, json!({ "userName": "bob@example.com" })).await;
    let bob = bob["id"].as_str().unwrap();
    assert_eq!(post(&app.client, comments, comment(bob)).await.0, 400);
    assert_eq!(post(&app.client, &assignments, json!({ "userId": bob })).await.0, 404);
    assert_eq!(post(&other, &assignments, who.clone()).await.0, 404);

    let asleep = json!({ "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    let path = format!("{USERS}/{ada}");
    assert_eq!(send(&app.organizer(), Method::PATCH, &path, asleep).await.0, 200);
    assert_eq!(post(&app.client, comments, comment(&ada)).await.0, 400);
    assert_eq!(post(&app.client, &assignments, who).await.0, 404);
    let listed = get(&app.client, &format!("{comments}?authorUserId={ada}")).await;
    assert_eq!(listed["meta"]["totalItems"], 1, "what was written stays");
}

#[tokio::test]
async fn an_identity_provider_makes_people_known_and_lets_them_go() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let body = json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"],
        "userName": "Ada@Example.com", "externalId": "00u1", "password": "placeholder",
        "name": { "givenName": "Ada", "familyName": "Byron" },
        "emails": [{ "value": "ada@mail.example", "primary": true, "type": "work" }],
    });
    let (status_, made) = post(&organizer, USERS, body.clone()).await;
    assert_eq!(status_, 201, "{made}");
    assert_eq!(
        (&made["userName"], &made["name"]["formatted"]),
        (&json!("ada@example.com"), &json!("Ada Byron"))
    );
    assert_eq!(
        (&made["emails"][0]["value"], &made["active"]),
        (&json!("ada@mail.example"), &json!(true))
    );
    assert_eq!(made["roles"][0]["value"], "VIEWER", "the least role");
    let path = format!("{USERS}/{}", made["id"].as_str().unwrap());
    assert_eq!(get(&organizer, &path).await, made);
    let (status_, twice) = post(&organizer, USERS, body).await;
    assert_eq!((status_, &twice["scimType"]), (409, &json!("uniqueness")));

    let asleep = json!({ "Operations": [{ "op": "Replace", "path": "active", "value": "False" }] });
    let (_, changed) = send(&organizer, Method::PATCH, &path, asleep).await;
    assert_eq!(changed["active"], false);
    assert_eq!(get(&organizer, &path).await["active"], false, "still found");
    assert_eq!(get(&organizer, MEMBERSHIPS).await["memberships"], json!([]));
    let whole = json!({ "userName": "ada@example.com", "name": { "formatted": "Ada Lovelace" },
                        "roles": ["ADMIN"], "active": true });
    let (_, changed) = send(&organizer, Method::PUT, &path, whole).await;
    assert_eq!((&changed["displayName"], &changed["id"]), (&json!("Ada Lovelace"), &made["id"]));
    let member = &get(&organizer, MEMBERSHIPS).await["memberships"][0];
    assert_eq!((&member["role"], &member["email"]), (&json!("ADMIN"), &json!("ada@example.com")));

    let (status_, gone) = send(&organizer, Method::DELETE, &path, json!({})).await;
    assert_eq!((status_, gone), (200, json!({})));
    assert_eq!(status(&organizer, &path).await, 404);
    let again = user(&app, "ada@example.com").await;
    assert_eq!(made["id"], again, "who comes back is the same person");
}

#[tokio::test]
async fn users_are_listed_in_parts_and_looked_up() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    for n in 0..5 {
        user(&app, &format!("u{n}@example.com")).await;
    }
    let list = async |query: &str| get(&organizer, &format!("{USERS}?{query}")).await;
    let shown = |list: &Value| {
        let numbers = ["totalResults", "startIndex", "itemsPerPage"];
        let numbers = numbers.map(|name| list[name].as_i64().unwrap());
        let users = list["Resources"].as_array().unwrap();
        assert_eq!(numbers[2], users.len() as i64);
        let names = users.iter().map(|user| user["userName"].as_str().unwrap().to_owned());
        (numbers[0], numbers[1], names.collect::<Vec<_>>())
    };
    let user = |n: usize| format!("u{n}@example.com");
    let all: Vec<String> = (0..5).map(user).collect();
    assert_eq!(shown(&list("").await), (5, 1, all.clone()));
    assert_eq!(shown(&list("startIndex=2&count=2").await), (5, 2, vec![user(1), user(2)]));
    assert_eq!(shown(&list("startIndex=-1&count=1").await), (5, 1, vec![user(0)]));
    assert_eq!(shown(&list("startIndex=9999999999").await).2, [""; 0]);
    assert_eq!(shown(&list("count=0").await), (5, 1, Vec::new()));
    assert_eq!(shown(&list("count=-7").await), (5, 1, Vec::new()));
    assert_eq!(shown(&list("count=1000000").await), (5, 1, all));
    let found = list("filter=userName%20eq%20%22U3%40example.com%22").await;
    assert_eq!(shown(&found), (1, 1, vec![user(3)]));
    let id = found["Resources"][0]["id"].as_str().unwrap();
    assert_eq!(shown(&list(&format!("filter=id+eq+%22{id}%22")).await).0, 1);
    assert_eq!(shown(&list("filter=userName%20eq%20%22nobody%22").await).0, 0);
}

/// An answer has to be this error of SCIM.
fn is_scim_error((answered, error): &(u16, Value), status: u16, kind: Option<&str>) {
    assert_eq!(*answered, status, "{error}");
    let schema = "urn:ietf:params:scim:api:messages:2.0:Error";
    assert_eq!(error["schemas"], json!([schema]));
    assert_eq!(error["status"], json!(status.to_string()));
    assert_eq!(error["scimType"].as_str(), kind, "{error}");
    assert!(!error["detail"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn errors_of_scim_are_scim_errors() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let ada = format!("{USERS}/{}", user(&app, "ada@example.com").await);
    let none = format!("{USERS}/none");
    let reads = [
        (&organizer, none.as_str(), 404, None),
        (&app.client, USERS, 403, None),
        (&app.anonymous(), USERS, 401, None),
        (&organizer, "/api/public/scim/Users?filter=x", 400, Some("invalidFilter")),
        (&organizer, "/api/public/scim/Users?count=x", 400, Some("invalidValue")),
    ];
    for (client, path, status, kind) in reads {
        let answer = client.get(path).await.unwrap();
        is_scim_error(&(answer.status.as_u16(), answer.json()), status, kind);
    }
    for body in [
        json!({}),
        json!({ "userName": " " }),
        json!({ "userName": "x".repeat(321) }),
        json!({ "userName": "a\u{0}b" }),
        json!({ "userName": "bob", "roles": ["KING"] }),
        json!({ "userName": "bob", "active": "maybe" }),
    ] {
        let refused = post(&organizer, USERS, body).await;
        is_scim_error(&refused, 400, Some("invalidValue"));
    }
    let unknown = json!({ "Operations": [{ "op": "move" }] });
    let refused = send(&organizer, Method::PATCH, &ada, unknown).await;
    is_scim_error(&refused, 400, Some("invalidValue"));
    let users = get(&organizer, USERS).await;
    assert_eq!(users["totalResults"], 1, "nothing was made");
    let answer = organizer.json(Method::DELETE, USERS, &json!({})).await;
    let answer = answer.unwrap();
    assert!(answer.headers.contains_key("allow"));
    is_scim_error(&(answer.status.as_u16(), answer.json()), 405, None);
    let answer = organizer.get("/api/public/scim/Groups").await.unwrap();
    is_scim_error(&(answer.status.as_u16(), answer.json()), 404, None);

    let app = TestApp::with(&[("limits.api_per_minute", "1")]).await;
    let app = app.unwrap();
    assert_eq!(status(&app.organizer(), USERS).await, 200);
    let answer = app.organizer().get(USERS).await.unwrap();
    assert!(answer.headers.contains_key("retry-after"));
    is_scim_error(&(answer.status.as_u16(), answer.json()), 429, None);
}

#[tokio::test]
async fn scim_describes_itself_in_the_requested_media_type() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let media_type = async |path: &str, headers: &[(&str, &str)]| {
        let body = axum::body::Body::empty();
        let answer = organizer.send(Method::GET, path, headers, body).await;
        let headers = answer.unwrap().headers;
        headers["content-type"].to_str().unwrap().to_owned()
    };
    for path in [USERS, "/api/public/scim/Users/none"] {
        let headers = [("accept", "application/scim+json")];
        assert_eq!(media_type(path, &headers).await, "application/scim+json");
        assert_eq!(media_type(path, &[]).await, "application/json");
    }
    let config = get(&organizer, "/api/public/scim/ServiceProviderConfig").await;
    assert_eq!(config["patch"]["supported"], true);
    assert_eq!(config["bulk"]["supported"], false);
    for (path, id) in
        [("ResourceTypes", "User"), ("Schemas", "urn:ietf:params:scim:schemas:core:2.0:User")]
    {
        let list = get(&organizer, &format!("/api/public/scim/{path}")).await;
        assert_eq!(list["totalResults"], 1);
        assert_eq!(list["Resources"][0]["id"], id);
    }
}

#[tokio::test]
async fn the_administrator_opens_the_project_that_is_named_and_only_with_the_key() {
    const KEY: &str = "the key of the administrator";
    let app = TestApp::with(&[("admin.api_key", KEY)]).await.unwrap();
    let home = app.app.home_project.to_string();
    let admin = |bearer: &str, key: &str, project: &str| {
        Client::new(&app.origin)
            .with_authorization(&format!("Bearer {bearer}"))
            .with_header("x-langfuse-admin-api-key", key)
            .with_header("x-langfuse-project-id", project)
    };
    assert_eq!(get(&admin(KEY, KEY, &home), PROJECTS).await["data"][0]["id"], json!(home));
    let unnamed = app.anonymous().with_authorization(&format!("Bearer {KEY}"));
    let unnamed = unnamed.with_header("x-perpend-admin-api-key", KEY);
    for (client, expected) in [
        (admin(KEY, KEY, "none"), 404),
        (unnamed, 400),
        (admin(KEY, "another key of nobody", &home), 401),
        (admin("another key of nobody", KEY, &home), 401),
        (admin("pk-test", "another key of nobody", &home), 401),
    ] {
        assert_eq!(status(&client, PROJECTS).await, expected);
    }
    assert_eq!(status(&admin(KEY, KEY, &home), OF_ORGANIZATION).await, 403);

    // Where no key is configured, the empty one opens nothing.
    let app = TestApp::new().await.unwrap();
    let home = app.app.home_project.to_string();
    for key in ["", KEY] {
        let client = Client::new(&app.origin)
            .with_authorization(&format!("Bearer {key}"))
            .with_header("x-langfuse-admin-api-key", key)
            .with_header("x-langfuse-project-id", &home);
        assert_eq!(status(&client, PROJECTS).await, 401, "{key:?}");
    }
}

/// A half of the key pair that a command printed.
fn printed_half(output: &str, name: &str) -> String {
    let line = output.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    line.split_whitespace().last().unwrap().to_owned()
}

#[tokio::test]
async fn an_operator_creates_rotates_and_revokes_a_pair_of_a_project_with_commands() {
    let app = TestApp::new().await.unwrap();
    let run = async |command_and_options: &[&str]| {
        let (name, options) = command_and_options.split_first().unwrap();
        let mut command = command(&["keys", name, "--data-dir"]).unwrap();
        let done = command.arg(app.data_dir()).args(options).output().await.unwrap();
        let output = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(output).unwrap())
    };
    let (is_made, output) = run(&["create", "--scope", "read", "--note", "dashboard"]).await;
    assert!(is_made, "{output}");
    let public_key = printed_half(&output, "public key");
    let pair = |output: &str| {
        Client::new(&app.origin).with_keys(&public_key, &printed_half(output, "secret key"))
    };
    let old = pair(&output);
    assert_eq!(status(&old, PROJECTS).await, 200);
    assert_eq!(post(&old, OTLP, Trace::new(1, "root").to_json()).await.0, 403);

    assert!(!run(&["rotate", &public_key]).await.0, "the overlap is required");
    let (is_rotated, output) = run(&["rotate", &public_key, "--overlap-hours", "1"]).await;
    assert!(is_rotated, "{output}");
    app.clock.advance(Duration::from_secs(1));
    let new = pair(&output);
    assert_eq!((status(&new, PROJECTS).await, status(&old, PROJECTS).await), (200, 200));
    let (_, listed) = run(&["list"]).await;
    for part in [public_key.as_str(), "dashboard", "read", "previous secret until"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    let (is_ended, output) = run(&["end-previous", &public_key]).await;
    assert!(is_ended && output.contains("within 10 seconds"), "{output}");
    app.clock.advance(Duration::from_secs(10));
    assert_eq!((status(&new, PROJECTS).await, status(&old, PROJECTS).await), (200, 401));
    assert!(run(&["revoke", &public_key]).await.0);
    app.clock.advance(Duration::from_secs(10));
    assert_eq!(status(&new, PROJECTS).await, 401);
    let (is_gone, output) = run(&["revoke", &public_key]).await;
    assert!(!is_gone && output.contains("keys list"), "{output}");
    let trail = get(&app.client, "/api/v1/audit").await;
    let recorded = trail["data"].as_array().unwrap().iter();
    let recorded: Vec<_> = recorded
        .filter(|record| record["actor"]["kind"] == "command")
        .map(|record| record["operation"].as_str().unwrap())
        .collect();
    let commands = ["revoke", "end-previous", "rotate", "create"];
    assert_eq!(recorded, commands.map(|name| format!("perpend keys {name}")));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_command_creates_and_revokes_keys_of_organizations() {
    let app = TestApp::new().await.unwrap();
    let run = async |more: &[&str]| {
        let mut command = command(&["organization-key", "--data-dir"]).unwrap();
        let done = command.arg(app.data_dir()).args(more).output();
        let done = done.await.unwrap();
        let output = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8(output).unwrap())
    };
    let (is_made, output) = run(&[]).await;
    assert!(is_made, "{output}");
    let public_key = printed_half(&output, "public key");
    let secret_key = printed_half(&output, "secret key");
    let client = Client::new(&app.origin).with_keys(&public_key, &secret_key);
    assert_eq!(names(&get(&client, OF_ORGANIZATION).await), ["My project"]);

    let revoke = ["--revoke", public_key.as_str()];
    let (is_gone, output) = run(&revoke).await;
    assert!(is_gone && output.contains("within 10 seconds"), "{output}");
    app.clock.advance(Duration::from_secs(10));
    assert_eq!(status(&client, OF_ORGANIZATION).await, 401);
    assert_eq!(status(&app.organizer(), OF_ORGANIZATION).await, 200);
    for unknown in [public_key.as_str(), "pk-test", "no\nkey", ""] {
        let (is_gone, output) = run(&["--revoke", unknown]).await;
        assert!(!is_gone && output.contains("--revoke"), "{unknown:?}: {output}");
    }
    assert_eq!(status(&app.client, PROJECTS).await, 200);
    let of_settings = ["--revoke", "pk-test-org", "--init-org-public-key", "pk-test-org"];
    let (is_gone, output) =
        run(&[&of_settings[..], &["--init-org-secret-key", "sk-test-org"]].concat()).await;
    assert!(is_gone && output.contains("init.org_public_key"), "{output}");

    app.other_project().await.unwrap();
    let (is_made, output) = run(&[]).await;
    assert!(!is_made, "the organization is ambiguous");
    assert!(output.contains("--organization") && output.contains("\"Other\""), "{output}");
    assert!(run(&["--organization", "Other"]).await.0);
}

#[tokio::test]
async fn the_secret_of_a_known_organization_key_is_not_changed_by_the_settings() {
    let app = TestApp::new().await.unwrap();
    let start = async |public: &str, secret: &str| {
        let init = perpend_config::Init {
            public_key: None,
            secret_key: None,
            org_public_key: Some(public.to_owned()),
            org_secret_key: Some(secret.to_owned()),
            ..app.app.web.config.init.clone()
        };
        let ids = perpend_server::RandomIds;
        perpend_server::first_start(&app.app.store, &init, &ids, app.clock.now(), |_| ()).await
    };
    let (public, secret) = perpend_it::ORGANIZATION_KEYS;
    start(public, secret).await.unwrap();
    for (public, secret, why) in [
        (public, "another secret", "choose another public key"),
        ("pk-test", secret, "of a project"),
    ] {
        let refused = start(public, secret).await.unwrap_err().to_string();
        assert!(refused.contains("init.org_public_key"), "{refused}");
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(status(&app.organizer(), OF_ORGANIZATION).await, 200);
}
