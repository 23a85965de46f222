//! The audit trail over the API and on its page.

use axum::http::Method;
use perpend_it::{KEYS, TestApp};
use serde_json::{Value, json};

use crate::pages::Visitor;

#[tokio::test]
async fn a_rule_that_was_switched_off_names_who_did_it_when_and_from_where() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({})).await?;
    let rule = app.rule(&evaluator, json!({})).await?;
    let path = format!("/api/public/v2/evaluation-rules/{rule}");
    let off = app.client.json(Method::PATCH, &path, &json!({ "enabled": false })).await?;
    assert_eq!(off.status, 200, "{}", off.text());
    let request = off.headers["x-request-id"].to_str()?;

    let query = format!("objectKind=evaluation-rule&objectId={rule}&operation=updateRule");
    let list = app.client.get(&format!("/api/v1/audit?{query}")).await?.json();
    let record = &list["data"][0];
    assert_eq!(record["before"], json!({ "enabled": true }), "{list}");
    assert_eq!(record["after"], json!({ "enabled": false }));
    assert_eq!(record["actor"], json!({ "kind": "key", "name": KEYS.0 }));
    assert_eq!((&record["requestId"], &record["address"]), (&json!(request), &json!("127.0.0.1")));
    let changes = format!("/api/v1/evaluation-rules/{rule}/changes");
    let changes = app.client.get(&changes).await?.json();
    assert_eq!(changes["data"][0]["author"], KEYS.0, "{changes}");

    let file = app.client.get(&format!("/api/v1/audit/export?format=csv&{query}")).await?.text();
    assert_eq!(file.lines().count(), 2, "{file}");
    let exports = app.client.get("/api/v1/audit?operation=exportAudit").await?.json();
    assert_eq!(exports["data"].as_array().map(Vec::len), Some(1), "{exports}");
    let of_organization = app.organizer().get("/api/v1/organization/audit?limit=100").await?.json();
    let mut ours = of_organization["data"].as_array().into_iter().flatten();
    assert!(ours.any(|other| other == record), "{of_organization}");

    let visitor = Visitor::of(&app).await;
    let page = visitor.page(&format!("/settings/audit?kind=evaluation-rule&object={rule}")).await;
    assert!(page.contains("updateRule") && page.contains("enabled: true → false"), "{page}");
    assert!(!page.contains("createEvaluator"), "{page}");
    let rule_page = visitor.page(&format!("/rules/{rule}")).await;
    assert!(rule_page.contains("/settings/audit?kind=evaluation-rule"), "{rule_page}");
    app.stop().await
}

#[tokio::test]
async fn a_denied_change_and_a_sign_in_are_recorded_and_reads_are_not() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let body = json!({ "name": "Other project" });
    let denied = app.client.json(Method::POST, "/api/public/projects", &body).await?;
    assert_eq!(denied.status, 403);
    let visitor = Visitor::of(&app).await;
    visitor.page("/rules").await;
    app.client.get("/api/public/v2/evaluation-rules").await?;
    let list = app.client.get("/api/v1/audit").await?.json();
    let rows = list["data"].as_array().into_iter().flatten();
    let rows: Vec<[&Value; 3]> =
        rows.map(|row| [&row["operation"], &row["result"], &row["actor"]["name"]]).collect();
    let wanted = [
        [&json!("POST /login"), &json!("done"), &json!(KEYS.0)],
        [&json!("createProject"), &json!("denied"), &json!(KEYS.0)],
    ];
    assert_eq!(rows, wanted, "{list}");
    app.stop().await
}
