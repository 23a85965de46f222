//! Rules with a cron schedule, over REST and on pages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use axum::http::Method;
use perpend_it::{TestApp, Trace, count};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

const RULES: &str = "/api/public/v2/evaluation-rules";

async fn patched(app: &TestApp, rule: &str, body: Value) -> (u16, Value) {
    let path = format!("{RULES}/{rule}");
    let answer = app.client.json(Method::PATCH, &path, &body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

/// A rule of generations, and the clock stopped.
async fn hourly_rule(app: &TestApp) -> String {
    app.clock.stop();
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let filter = json!([{
        "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"]
    }]);
    let more = json!({ "name": "hourly", "cron": "0 * * * *", "filter": filter });
    app.rule(&evaluator, more).await.unwrap()
}

#[tokio::test]
async fn a_rule_evaluates_at_its_firing_and_counts_those_that_it_missed() {
    let app = TestApp::new().await.unwrap();
    let rule = hourly_rule(&app).await;
    let stored = app.client.get(&format!("{RULES}/{rule}")).await.unwrap().json();
    assert_eq!(
        (&stored["schedule"], &stored["cron"], &stored["timezone"]),
        (&json!("cron"), &json!("0 * * * *"), &json!("UTC"))
    );
    let trace = Trace::new(1, "root").generation("answer", "x");
    app.ingest(&trace).await.unwrap();
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    app.wait_for(&counters, |counters| counters["funnel"]["made"] == 1).await.unwrap();
    let firings = format!("/api/v1/evaluation-rules/{rule}/firings");
    let before = app.client.get(&firings).await.unwrap().json();
    assert_eq!(before["next"].as_array().map(Vec::len), Some(5), "{before}");
    assert_eq!((count(&before), &before["missedCount"]), (0, &json!(0)), "{before}");
    let explain = format!(
        "/api/v1/evaluation-rules/{rule}/explain?traceId={}&observationId={}",
        trace.id,
        Trace::span_id(2)
    );
    let explained = app.client.get(&explain).await.unwrap().json();
    assert_eq!(explained["step"], "waiting_for_firing", "{explained}");
    assert_eq!(explained["details"]["firingAt"], before["next"][0], "{explained}");

    // Three firings pass at once.
    app.clock.advance(Duration::from_secs(3 * 3_600));
    app.scores(1).await.unwrap();
    let is_recorded = |answer: &Value| answer["data"][0]["completedCount"] == 1;
    let after = app.wait_for(&firings, is_recorded).await.unwrap();
    assert_eq!((count(&after), &after["missedCount"]), (1, &json!(2)), "{after}");
    assert_eq!(after["data"][0]["firedAt"], before["next"][2], "{after}");
    assert_eq!(after["data"][0]["executionCount"], 1, "{after}");

    let (status, changed) = patched(&app, &rule, json!({ "timezone": "Europe/Berlin" })).await;
    assert_eq!((status, &changed["cron"]), (200, &json!("0 * * * *")), "{changed}");
    assert_eq!(changed["timezone"], "Europe/Berlin", "{changed}");
    let (status, wrong) = patched(&app, &rule, json!({ "cron": "0 0 30 2 *" })).await;
    assert_eq!(status, 400, "{wrong}");
    assert!(wrong.to_string().contains("never fire"), "{wrong}");

    app.ingest(&Trace::new(2, "root").generation("answer", "y")).await.unwrap();
    app.wait_for(&counters, |counters| counters["funnel"]["made"] == 2).await.unwrap();
    let (status, changed) = patched(&app, &rule, json!({ "schedule": "continuous" })).await;
    assert_eq!((status, &changed["schedule"]), (200, &json!("continuous")), "{changed}");
    assert!(changed.get("cron").is_none(), "{changed}");
    app.scores(2).await.unwrap();
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_editor_sets_a_schedule_and_pages_show_next_and_past_firings() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let rule = hourly_rule(&app).await;
    app.ingest(&Trace::new(1, "root").generation("answer", "x")).await.unwrap();
    let counters = format!("/api/v1/evaluation-rules/{rule}/counters");
    app.wait_for(&counters, |counters| counters["funnel"]["made"] == 1).await.unwrap();
    app.clock.advance(Duration::from_secs(3_600));
    let firings = format!("/api/v1/evaluation-rules/{rule}/firings");
    let is_recorded = |answer: &Value| answer["data"][0]["completedCount"] == 1;
    app.wait_for(&firings, is_recorded).await.unwrap();
    let page = visitor.page(&format!("/rules/{rule}")).await;
    assert!(page.contains("id=\"schedule\"") && page.contains("Table of firings"), "{page}");
    assert!(visitor.page("/rules").await.contains("0 * * * * UTC"));

    let action = format!("{}/rules/{rule}/edit", visitor.base);
    let editor = visitor.client.get(&action).await.unwrap().text();
    assert!(
        editor.contains("Next firings: ") && editor.contains("value=\"0 * * * *\""),
        "{editor}"
    );
    let (_, revision) = editor.split_once("name=\"revision\" value=\"").unwrap();
    let revision = revision.split('"').next().unwrap();
    let (_, evaluator) = editor.split_once("name=\"evaluator\" value=\"").unwrap();
    let evaluator = evaluator.split('"').next().unwrap();
    let token = visitor.token(&action).await;
    let send = async |cron: &str, timezone: &str, button: &str| {
        let fields = [
            ("form", token.as_str()),
            ("revision", revision),
            ("name", "hourly"),
            ("target", "observation"),
            ("q", "type:GENERATION"),
            ("sampling", "100"),
            ("on_missing", "fail"),
            ("late", "ignore"),
            ("settle_ms", "0"),
            ("evaluator", evaluator),
            ("cron", cron),
            ("timezone", timezone),
            ("action", button),
        ];
        let fields = fields.map(|(name, value)| format!("{name}={}", encode(value)));
        visitor.send(&action, fields.join("&")).await
    };
    for (cron, timezone, field) in [
        ("0 3 * *", "UTC", "problem-cron"),
        ("*/10 * * * * *", "UTC", "problem-cron"),
        ("0 3 * * *", "Europe/Bonn", "problem-timezone"),
    ] {
        let refused = send(cron, timezone, "save").await;
        assert_eq!(refused.status, 422, "{}", refused.text());
        assert!(refused.text().contains(&format!("id=\"{field}\"")), "{}", refused.text());
    }
    let preview = send("30 2 * * SUN", "Europe/Berlin", "preview").await;
    assert_eq!(preview.status, 200, "{}", preview.text());
    let shown = preview.text();
    let (_, next) = shown.split_once("Next firings: ").unwrap();
    assert_eq!(next.split("</p>").next().unwrap().matches("Sun ").count(), 5, "{next}");

    let saved = send("30 2 * * SUN", "Europe/Berlin", "save").await;
    assert_eq!(saved.status, 303, "{}", saved.text());
    let stored = app.client.get(&format!("{RULES}/{rule}")).await.unwrap().json();
    assert_eq!(
        (&stored["cron"], &stored["timezone"]),
        (&json!("30 2 * * SUN"), &json!("Europe/Berlin"))
    );
    app.stop().await.unwrap();
}
