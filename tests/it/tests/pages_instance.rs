//! The page of the instance, and the alarm on every page when workers stop or the database refuses writes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{KEYS, OTLP, PROCESSES, TestApp, Trace, until};
use perpend_storage::testing::fill_disk;

use crate::pages::{FORM, OURS, Visitor};

const ALARM: &str = "class=\"notice bad alarm\"";

/// Checks the server until its pages have an alarm, or have none.
async fn wait_for_alarm(app: &TestApp, visitor: &Visitor, is_expected: bool) -> String {
    let page = format!("{}/rules", visitor.base);
    let checked = async || {
        app.app.jobs.run_once().await;
        visitor.client.get(&page).await
    };
    let has_alarm = |answer: &perpend_server::client::Answer| answer.text().contains(ALARM);
    let shown = until("alarm", checked, |answer| has_alarm(answer) == is_expected).await.unwrap();
    assert_eq!(shown.status, 200, "{}", shown.text());
    shown.text()
}

#[tokio::test]
async fn stopped_workers_raise_an_alarm_on_every_page() {
    let app = TestApp::with(&[PROCESSES]).await.unwrap();
    let visitor = Visitor::of(&app).await;
    wait_for_alarm(&app, &visitor, false).await;
    app.app.engine.shutdown().await;
    let page = wait_for_alarm(&app, &visitor, true).await;
    assert!(page.contains("href=\"/instance\""), "{page}");
    let instance = visitor.client.get("/instance").await.unwrap().text();
    assert!(instance.contains("<span class=\"tag bad\">stopped</span>"), "{instance}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_database_that_refuses_writes_raises_an_alarm_until_it_accepts_them() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    wait_for_alarm(&app, &visitor, false).await;
    fill_disk(&app.app.store, true).await;
    // More than fits into the pages that the database has; the check after it writes more too.
    let text: String =
        (0..60_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let trace = Trace::new(1, "root").generation("answer", &text).to_json();
    assert_eq!(app.client.json(Method::POST, OTLP, &trace).await.unwrap().status, 503);
    wait_for_alarm(&app, &visitor, true).await;
    fill_disk(&app.app.store, false).await;
    wait_for_alarm(&app, &visitor, false).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_page_of_the_instance_has_jobs_and_refused_requests_and_is_for_the_first_project() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    app.app.jobs.run_once().await;
    let wrong = app.anonymous().with_keys(KEYS.0, "wrong");
    for _ in 0..2 {
        assert_eq!(wrong.get("/api/public/traces").await.unwrap().status, 401);
    }
    let page = visitor.client.get("/instance").await.unwrap();
    assert_eq!(page.status, 200, "{}", page.text());
    let page = page.text();
    for job in app.app.jobs.statuses() {
        assert!(page.contains(&format!("<bdi>{}</bdi>", job.name)), "{}: {page}", job.name);
    }
    let (_, refused) = page.split_once("wrong secret").unwrap();
    assert!(refused.contains(">401</td>") && refused.contains(">2</td>"), "{refused}");
    app.other_project().await.unwrap();
    let form = "public_key=pk-other&secret_key=sk-other".to_owned();
    let answer = app.anonymous().send(Method::POST, "/login", &[FORM, OURS], form).await.unwrap();
    let cookie = answer.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let other = app.anonymous().with_header("cookie", cookie).with_header("accept", "text/html");
    assert_eq!(other.get("/instance").await.unwrap().status, 403);
    app.stop().await.unwrap();
}
