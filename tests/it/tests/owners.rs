//! The last owner of an organization, through the members API and SCIM.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use perpend_server::client::Client;
use serde_json::{Value, json};

const MEMBERSHIPS: &str = "/api/public/organizations/memberships";

async fn send(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let answer = client.json(method, path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

/// A user of the organization; the id.
async fn user(app: &TestApp, name: &str) -> String {
    let body = json!({ "userName": name });
    let (status, made) = send(&app.organizer(), Method::POST, "/api/public/scim/Users", body).await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_last_owner_is_kept_by_the_members_api_and_by_scim_with_a_reason() {
    let app = TestApp::new().await.unwrap();
    let organizer = app.organizer();
    let id = user(&app, "ada@example.com").await;
    let role = |role: &str| json!({ "userId": id, "role": role });
    let (made, _) = send(&organizer, Method::PUT, MEMBERSHIPS, role("OWNER")).await;
    assert_eq!(made, 200);
    let person = format!("/api/public/scim/Users/{id}");
    let asleep = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
        "Operations": [{ "op": "replace", "path": "active", "value": false }],
    });
    for (method, path, body) in [
        (Method::PUT, MEMBERSHIPS, role("ADMIN")),
        (Method::DELETE, MEMBERSHIPS, json!({ "userId": id })),
        (Method::PATCH, &person, asleep.clone()),
        (Method::PUT, &person, json!({ "userName": "ada@example.com", "active": false })),
        (Method::DELETE, &person, json!({})),
    ] {
        let (status, body) = send(&organizer, method.clone(), path, body).await;
        assert_eq!(status, 409, "{method} {path}: {body}");
        let text = body.to_string();
        assert!(text.contains("active owner"), "{text}");
    }
    let other = user(&app, "bob@example.com").await;
    let give = json!({ "userId": other, "role": "OWNER" });
    assert_eq!(send(&organizer, Method::PUT, MEMBERSHIPS, give).await.0, 200);
    assert_eq!(send(&organizer, Method::PATCH, &person, asleep).await.0, 200);
    let (status, body) = send(&organizer, Method::PUT, MEMBERSHIPS, role("OWNER")).await;
    assert_eq!(status, 409, "a role does not activate: {body}");
}
