//! `GET /metrics`: access, and its values after telemetry and evaluations.

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, until};
use perpend_server::client::Client;
use serde_json::json;

const TOKEN: &str = "token-of-the-scraper-of-a-test";
const PATH: &str = "/metrics";

fn scraper(app: &TestApp, token: &str) -> Client {
    app.anonymous().with_authorization(&format!("Bearer {token}"))
}

/// The sum of the series with this name and these labels; further labels may have any value.
fn value(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let mut sum = None;
    for line in page.lines() {
        let rest = line.strip_prefix(name).unwrap_or_default();
        let has = |(key, text): &(&str, &str)| rest.contains(&format!("{key}=\"{text}\""));
        if rest.starts_with(['{', ' ']) && labels.iter().all(has) {
            let value: f64 = rest.rsplit(' ').next()?.parse().ok()?;
            sum = Some(sum.unwrap_or(0.0) + value);
        }
    }
    sum
}

/// A metric, its labels and the least by which it increases.
type Increase<'l> = (&'l str, &'l [(&'l str, &'l str)], f64);

#[tokio::test]
async fn without_the_setting_there_are_no_metrics() {
    let app = TestApp::new().await.unwrap();
    for client in [app.anonymous(), scraper(&app, TOKEN), app.client.clone()] {
        assert_eq!(client.get(PATH).await.unwrap().status, 404);
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn metrics_require_the_token() {
    let app = TestApp::with(&[("metrics.token", TOKEN)]).await.unwrap();
    let wrong = TOKEN.replace("test", "best");
    for client in [app.anonymous(), scraper(&app, &wrong), app.client.clone(), app.organizer()] {
        let refused = client.get(PATH).await.unwrap();
        assert_eq!(refused.status, 401, "{}", refused.text());
        assert!(!refused.text().contains("perpend_"), "{}", refused.text());
    }
    let page = scraper(&app, TOKEN).get(PATH).await.unwrap();
    assert_eq!(page.status, 200);
    assert_eq!(page.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    app.stop().await.unwrap();
}

// All servers of this process share its metrics, so that only increases can be expected.
#[tokio::test]
async fn telemetry_and_evaluations_are_counted_without_naming_the_project() {
    let app = TestApp::with(&[("metrics.token", TOKEN)]).await.unwrap();
    let scraper = scraper(&app, TOKEN);
    let before = scraper.get(PATH).await.unwrap().text();
    let evaluator =
        app.evaluator("perpend/text", "contains-any", json!({ "terms": ["order"] })).await.unwrap();
    app.rule(&evaluator, json!({})).await.unwrap();
    let trace = Trace::new(1, "ticket").generation("answer", "Your order is on its way.");
    app.ingest(&trace).await.unwrap();
    app.scores(1).await.unwrap();
    let headers = [("content-type", "application/json")];
    let malformed = app.client.send(Method::POST, OTLP, &headers, "{").await.unwrap();
    assert_eq!(malformed.status, 400, "{}", malformed.text());
    let unknown = format!("/no/{}", trace.id);
    assert_eq!(app.anonymous().get(&unknown).await.unwrap().status, 404);
    app.app.jobs.run_once().await;

    let signal = [("signal", "traces")];
    let increases: [Increase; 12] = [
        (
            "perpend_http_requests_total",
            &[("route", OTLP), ("method", "POST"), ("status", "200")],
            1.0,
        ),
        ("perpend_http_requests_total", &[("route", "unmatched"), ("status", "404")], 1.0),
        ("perpend_http_request_seconds_count", &[("route", OTLP)], 2.0),
        ("perpend_ingest_requests_total", &signal, 2.0),
        ("perpend_ingest_bytes_total", &signal, 100.0),
        ("perpend_ingest_spans_total", &[], 2.0),
        ("perpend_ingest_rejected_total", &[("signal", "traces"), ("reason", "invalid_body")], 1.0),
        ("perpend_commit_seconds_count", &[], 1.0),
        ("perpend_commit_seconds_bucket", &[("le", "+Inf")], 1.0),
        ("perpend_executions_finished_total", &[("outcome", "completed")], 1.0),
        ("perpend_job_runs_total", &[("job", "metrics"), ("outcome", "success")], 1.0),
        ("perpend_job_runs_total", &[("job", "expiry"), ("outcome", "success")], 1.0),
    ];
    let missing = |page: &str| -> Vec<String> {
        let is_missing = |(name, labels, least): &&Increase<'_>| {
            let increase = value(page, name, labels).unwrap_or_default()
                - value(&before, name, labels).unwrap_or_default();
            increase < *least
        };
        increases.iter().filter(is_missing).map(|one| format!("{one:?}")).collect()
    };
    // An execution is counted after its scores are committed.
    let scrape = async || scraper.get(PATH).await;
    let page = until("the metrics", scrape, |page| missing(&page.text()).is_empty()).await.unwrap();
    let page = page.text();
    for state in ["pending", "running", "delayed", "held"] {
        assert!(value(&page, "perpend_executions", &[("state", state)]).is_some(), "{page}");
    }
    for name in ["perpend_evaluation_lag_seconds", "perpend_ingest_in_flight_bytes"] {
        assert!(value(&page, name, &[]).is_some_and(|value| 0.0 <= value), "{name}: {page}");
    }
    let succeeded_at = value(&page, "perpend_job_last_success_seconds", &[("job", "metrics")]);
    assert!(succeeded_at.is_some_and(|at| 1.7e9 < at), "{page}");
    assert_eq!(value(&page, "perpend_build_info", &[]), Some(1.0));
    for id in [app.app.home_project.as_str(), &trace.id, &evaluator] {
        assert!(!page.contains(id), "{id}: {page}");
    }
    app.stop().await.unwrap();
}
