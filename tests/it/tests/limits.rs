//! Rate limits: requests per minute of a key, and the headers that report them.

use std::time::Duration;

use anyhow::Context as _;
use axum::http::Method;
use perpend_domain::time::{Clock as _, Timestamp};
use perpend_it::{KEYS, OTLP, TestApp, Trace};
use perpend_server::client::{Answer, Client};
use serde_json::json;

const SCORES: &str = "/api/public/v3/scores";
const PROMPT: &str = "/api/public/v2/prompts/none";

/// The number in a header.
fn header(answer: &Answer, name: &str) -> Option<i64> {
    answer.headers.get(name)?.to_str().ok()?.parse().ok()
}

/// Limit, remaining.
fn standing(answer: &Answer) -> (Option<i64>, Option<i64>) {
    let number = |name| header(answer, name);
    (number("x-ratelimit-limit"), number("x-ratelimit-remaining"))
}

#[tokio::test]
async fn without_limits_nothing_is_counted() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let answer = app.client.get(SCORES).await?;
    assert_eq!(answer.status, 200);
    assert_eq!(standing(&answer), (None, None));
    app.stop().await
}

#[tokio::test]
async fn a_rate_limited_key_is_served_after_its_retry_time() -> anyhow::Result<()> {
    let app = TestApp::with(&[("limits.api_per_minute", "2")]).await?;
    app.clock.stop();
    let now = app.clock.now().as_micros() / 1_000_000;
    for left in [1, 0] {
        let answer = app.client.get(SCORES).await?;
        assert_eq!(answer.status, 200);
        assert_eq!(standing(&answer), (Some(2), Some(left)));
        let reset = header(&answer, "x-ratelimit-reset").context("no reset")?;
        assert!((now..=now + 120).contains(&reset), "{reset} at {now}");
    }
    let refused = app.client.get(SCORES).await?;
    assert_eq!(refused.status, 429);
    assert_eq!(standing(&refused), (Some(2), Some(0)));
    let wait = header(&refused, "retry-after").context("no wait")?;
    assert!((1..=30).contains(&wait), "{wait}");
    let body = refused.json();
    assert_eq!(body["code"], "rate_limited");
    assert_eq!(body["error"], "Rate limit exceeded");
    let details = &body["details"];
    assert_eq!(details["retryAfterSeconds"], wait);
    assert_eq!((&details["limit"], &details["remaining"]), (&json!(2), &json!(0)));
    let reset_at = Timestamp::parse(details["resetAt"].as_str().context("no resetAt")?)?;
    let reset = header(&refused, "x-ratelimit-reset").context("no reset")?;
    assert_eq!(reset, (reset_at.as_micros() + 999_999) / 1_000_000);

    // Other groups, and operations without a group, are not affected.
    for path in ["/api/public/v2/datasets", "/api/public/health"] {
        assert_eq!(app.client.get(path).await?.status, 200, "{path}");
    }
    assert_eq!(app.client.get(PROMPT).await?.status, 404);
    let own = app.client.get("/api/v1/plugins").await?;
    assert_eq!(own.status, 429);
    assert_eq!(own.headers["content-type"], "application/problem+json");
    assert_eq!(own.json()["limit"], 2);

    app.clock.advance(Duration::from_secs(wait.unsigned_abs()));
    assert_eq!(app.client.get(SCORES).await?.status, 200);
    assert_eq!(app.client.get(SCORES).await?.status, 429);
    app.stop().await
}

#[tokio::test]
async fn keys_are_counted_apart_and_invalid_ones_not_at_all() -> anyhow::Result<()> {
    let app = TestApp::with(&[("limits.api_per_minute", "1")]).await?;
    app.clock.stop();
    let wrong = Client::new(&app.origin).with_keys(KEYS.0, "sk-wrong");
    let public = Client::new(&app.origin).with_authorization(&format!("Bearer {}", KEYS.0));
    let other = app.other_project().await?;
    for _ in 0..3 {
        let answer = wrong.get(SCORES).await?;
        assert_eq!((answer.status.as_u16(), standing(&answer)), (401, (None, None)));
    }
    // Requests with the public key alone are counted separately.
    assert_eq!(public.get(SCORES).await?.status, 403);
    assert_eq!(public.get(SCORES).await?.status, 429);
    for client in [&app.client, &other] {
        assert_eq!(client.get(SCORES).await?.status, 200);
        assert_eq!(client.get(SCORES).await?.status, 429);
    }
    app.stop().await
}

#[tokio::test]
async fn telemetry_beyond_the_limit_is_refused_in_its_own_encoding_and_nothing_of_it_is_kept()
-> anyhow::Result<()> {
    let app = TestApp::with(&[("limits.ingestion_per_minute", "2")]).await?;
    app.clock.stop();
    app.ingest(&Trace::new(1, "first")).await?;
    let score = json!({ "traceId": perpend_it::trace_id(1), "name": "s", "value": 1 });
    let path = "/api/public/scores";
    let scored = app.client.json(Method::POST, path, &score).await?;
    assert_eq!(standing(&scored), (Some(2), Some(0)));
    let headers = [("content-type", "application/x-protobuf")];
    let body = perpend_it::protobuf(&[(&[2; 16], &[2; 8])]);
    let refused = app.client.send(Method::POST, OTLP, &headers, body).await?;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["content-type"], "application/x-protobuf");
    assert!(header(&refused, "retry-after").is_some());
    let missing = format!("/api/public/traces/{}", "02".repeat(16));
    assert_eq!(app.client.get(&missing).await?.status, 404);
    app.stop().await
}

#[tokio::test]
async fn a_page_of_another_origin_may_read_the_rate_limit_of_its_key() -> anyhow::Result<()> {
    let app = TestApp::with(&[("limits.ingestion_per_minute", "1")]).await?;
    app.clock.stop();
    let browser = Client::new(&app.origin).with_authorization(&format!("Bearer {}", KEYS.0));
    let headers = [("origin", "http://page"), ("content-type", "application/json")];
    let body = json!({ "traceId": "t", "name": "s", "value": 1 }).to_string();
    for status in [200, 429] {
        let path = "/api/public/scores";
        let answer = browser.send(Method::POST, path, &headers, body.clone()).await?;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.headers["access-control-allow-origin"], "http://page");
        let exposed = answer.headers["access-control-expose-headers"].to_str()?;
        for name in ["retry-after", "x-ratelimit-reset", "etag"] {
            assert!(exposed.contains(name), "{exposed}");
        }
    }
    // A preflight request does not count as a request of the key.
    let preflight = browser.send(Method::OPTIONS, "/api/public/scores", &headers, "");
    assert_eq!(preflight.await?.status, 204);
    app.stop().await
}
