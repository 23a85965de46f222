//! Spans that arrive right after a change of a rule meet the rule as it is then.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use futures_util::future::join_all;
use perpend_it::{TestApp, Trace};
use perpend_sql::DatabaseUrl;
use perpend_store::testing::TempDatabase;
use serde_json::{Value, json};

use crate::judges::{call, generations};

const N_CLIENTS: u64 = 4;
const N_ROUNDS: u64 = 2;

/// What a client sent right after a change.
struct Sent {
    rule: String,
    trace: Trace,
    /// The rule was disabled before.
    is_off: bool,
}

/// Makes, disables and enables rules, and sends a trace right after each change.
async fn client(app: &TestApp, evaluator: &str, number: u64) -> Vec<Sent> {
    let mut sent = Vec::new();
    let mut n = number * 1_000;
    let mut send = async |rule: &str, is_off| {
        n += 1;
        let trace = Trace::new(n, "ticket").generation("answer", "Your order is here.");
        app.ingest(&trace).await.unwrap();
        sent.push(Sent {
            rule: rule.to_owned(),
            trace,
            is_off,
        });
    };
    for _ in 0..N_ROUNDS {
        let rule = app.rule(evaluator, generations()).await.unwrap();
        send(&rule, false).await;
        for enabled in [false, true, false] {
            let path = format!("/api/public/v2/evaluation-rules/{rule}");
            let body = json!({ "enabled": enabled });
            let (status, said) = call(app, Method::PATCH, &path, body).await;
            assert_eq!(status, 200, "{said}");
            send(&rule, !enabled).await;
        }
    }
    sent
}

async fn story(settings: &[(&'static str, &str)]) {
    let app = TestApp::with(settings).await.unwrap();
    let config = json!({ "terms": ["order"] });
    let evaluator = app
        .evaluator("perpend/text", "contains-any", config)
        .await
        .unwrap();
    let clients = (1..=N_CLIENTS).map(|number| client(&app, &evaluator, number));
    let all = join_all(clients).await;
    // Those of rules that were enabled first: after them no span is undecided.
    let (off, on): (Vec<&Sent>, Vec<&Sent>) = all.iter().flatten().partition(|sent| sent.is_off);
    for Sent {
        rule,
        trace,
        is_off,
    } in on.into_iter().chain(off)
    {
        let path = format!("/api/v1/executions?traceId={}&limit=100", trace.id);
        let n_made = |answer: &Value| {
            let made = answer["data"].as_array().unwrap().iter();
            made.filter(|made| made["evaluationRuleId"] == **rule)
                .count()
        };
        let expected = usize::from(!is_off);
        app.wait_for(&path, |answer| n_made(answer) == expected)
            .await
            .unwrap();
    }
    let mut rules: Vec<&String> = all.iter().flatten().map(|sent| &sent.rule).collect();
    rules.dedup();
    for rule in rules {
        let path = format!("/api/v1/evaluation-rules/{rule}/counters");
        let counters = app.client.get(&path).await.unwrap().json();
        let counted = |reason: &str| {
            let counts = counters["data"].as_array().unwrap().iter();
            let counts = counts.filter(|count| count["reason"] == reason);
            counts
                .filter_map(|count| count["count"].as_u64())
                .sum::<u64>()
        };
        assert!(2 <= counted("made"), "{counters}");
        assert!(2 <= counted("rule_inactive"), "{counters}");
    }
    app.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_span_that_arrives_after_a_change_of_a_rule_is_decided_by_the_rule_as_it_is_then() {
    story(&[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_postgresql_each_span_is_decided_by_the_rule_as_it_is_when_it_arrives() {
    let Some(database) = TempDatabase::postgres().await else {
        return;
    };
    let DatabaseUrl::Postgres(url) = database.url() else {
        unreachable!("PostgreSQL was asked for");
    };
    story(&[("database.url", url.as_str())]).await;
}
