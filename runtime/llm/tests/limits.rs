//! Connections that are limited: scripted replies, no network. Times are held against lower bounds only.

mod support;

use std::time::{Duration, Instant};

use perpend_llm::{CallLimits, Class, Endpoint, Llm};
use perpend_protocol::host_call::Role;
use serde_json::json;
use support::{Recorder, choice, llm, mock, quick, request};

fn busy(latency_ms: u64) -> Endpoint {
    let mut endpoint = mock(json!({ "replies": [
        { "contains": "limit me", "error": { "status": 429, "retryAfterSeconds": 1 } },
        { "reply": "ok", "latencyMs": latency_ms },
    ] }));
    endpoint.max_in_flight = 2;
    endpoint
}

async fn limit(llm: &Llm, endpoint: &Endpoint) {
    let mut request = request();
    request.messages[1] = support::message(Role::User, "limit me");
    let limits = CallLimits::default();
    let (result, _) = support::call(llm, endpoint, &limits, &request).await;
    let failure = result
        .err()
        .map(|failure| (failure.class, failure.retry_after));
    let wait = Some(Duration::from_secs(1));
    assert_eq!(failure, Some((Class::RateLimited, wait)));
}

#[tokio::test]
async fn no_more_calls_run_than_the_connection_allows() {
    let (llm, endpoint) = (llm(), busy(60));
    let limits = CallLimits::default();
    let begun = Instant::now();
    let request = request();
    let call = || support::call(&llm, &endpoint, &limits, &request);
    let all = futures_util::future::join_all((0..6).map(|_| call())).await;
    assert!(all.iter().all(|(result, _)| result.is_ok()));
    // Three pairs, one after the other.
    assert!(Duration::from_millis(180) <= begun.elapsed());
}

#[tokio::test]
async fn a_call_that_finds_no_place_in_time_was_not_sent() {
    let (llm, endpoint) = (llm(), busy(700));
    let (long, short) = (CallLimits::default(), quick());
    let request = request();
    let call = |limits| support::call(&llm, &endpoint, limits, &request);
    let (one, two, late) = tokio::join!(call(&long), call(&long), call(&short));
    assert!(one.0.is_ok() && two.0.is_ok());
    let failure = late.0.unwrap_err();
    assert_eq!(failure.class, Class::RateLimited);
    assert!(failure.is_unsent && late.1.calls().is_empty());
}

#[tokio::test]
async fn retry_after_makes_every_call_of_the_connection_wait() {
    let (llm, endpoint) = (llm(), busy(0));
    let begun = Instant::now();
    limit(&llm, &endpoint).await;
    let at_once = CallLimits {
        timeout: Duration::from_millis(1),
        ..CallLimits::default()
    };
    let (result, _) = support::call(&llm, &endpoint, &at_once, &request()).await;
    let failure = result.unwrap_err();
    assert_eq!(failure.class, Class::RateLimited);
    assert!(failure.is_unsent);
    assert!(failure.retry_after.unwrap() <= Duration::from_secs(1));
    let (result, _) = support::call(&llm, &endpoint, &CallLimits::default(), &request()).await;
    assert!(result.is_ok());
    assert!(Duration::from_secs(1) <= begun.elapsed());
    let mut other = busy(0);
    other.connection_id = "c2".to_owned();
    limit(&llm, &endpoint).await;
    let (result, _) = support::call(&llm, &other, &CallLimits::default(), &request()).await;
    assert!(result.is_ok(), "another connection is open");
}

#[tokio::test]
async fn after_a_429_requests_start_at_the_rate_of_the_bucket() {
    let (llm, mut endpoint) = (llm(), busy(0));
    endpoint.max_in_flight = 100;
    let begun = Instant::now();
    limit(&llm, &endpoint).await;
    let limits = CallLimits::default();
    let request = request();
    let call = || support::call(&llm, &endpoint, &limits, &request);
    let all = futures_util::future::join_all((0..8).map(|_| call())).await;
    assert!(all.iter().all(|(result, _)| result.is_ok()));
    // A second closed, in which five tokens gather; three more at 5/s, a little faster with time.
    assert!(Duration::from_millis(1550) <= begun.elapsed());
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_place_back() {
    let (llm, endpoint) = (llm(), busy(60_000));
    let limits = CallLimits::default();
    for _ in 0..5 {
        let request = request();
        let call = support::call(&llm, &endpoint, &limits, &request);
        let dropped = tokio::time::timeout(Duration::from_millis(20), call).await;
        assert!(dropped.is_err());
    }
    let endpoint = busy(0);
    let patient = CallLimits {
        timeout: Duration::from_secs(10),
        ..limits
    };
    let (result, _) = support::call(&llm, &endpoint, &patient, &request()).await;
    assert!(result.is_ok());
}

#[tokio::test]
async fn a_scripted_reply_that_takes_too_long_times_out() {
    let (llm, endpoint) = (llm(), busy(60_000));
    let begun = Instant::now();
    let recorder = Recorder::default();
    let (limits, choice, request) = (quick(), choice("m"), request());
    let called = llm.complete(&endpoint, &choice, &limits, &request, &recorder);
    assert_eq!(called.await.unwrap_err().class, Class::UpstreamTimeout);
    assert!(limits.timeout <= begun.elapsed());
    assert_eq!(recorder.outcomes(), ["upstream_timeout"]);
}
