//! The list of the observations of all traces over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::{Visitor, rows, way};

/// Number of observations: more than two pages.
const N: usize = 60;

fn event(kind: &str, id: &str, body: &Value) -> Value {
    let at = "2026-03-01T10:00:00Z";
    json!({ "id": format!("e-{kind}-{id}"), "type": kind, "timestamp": at, "body": body })
}

async fn send(app: &TestApp, events: &[Value]) {
    let batch = json!({ "batch": events });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &batch).await.unwrap();
    assert_eq!(sent.json()["errors"], json!([]));
}

/// Observations `step 0` to `step 59` in seven traces, one per second.
async fn send_steps(app: &TestApp) {
    let span = |n: usize| {
        let at = format!("2026-03-01T10:00:{n:02}Z");
        let body = json!({
            "id": format!("o{n}"), "traceId": format!("t{}", n % 7), "name": format!("step {n}"),
            "startTime": at, "endTime": at,
        });
        event("span-create", &format!("o{n}"), &body)
    };
    let trace = event("trace-create", "t0", &json!({ "id": "t0", "name": "first" }));
    let events: Vec<Value> = (0..N).map(span).chain([trace]).collect();
    send(app, &events).await;
}

/// A trace with a model call, a tool call that failed, and an evaluation that is hidden by default.
async fn send_kinds(app: &TestApp) {
    let generation = json!({
        "id": "call", "traceId": "t1", "name": "ask", "model": "small", "input": "Where is it?",
        "output": { "role": "assistant", "content": "In the <b>cellar</b>." },
        "startTime": "2026-03-01T10:00:00Z", "completionStartTime": "2026-03-01T10:00:01Z",
        "endTime": "2026-03-01T10:00:04Z",
        "usageDetails": { "input": 1200, "output": 34 }, "costDetails": { "total": 0.5 },
    });
    let tool = json!({
        "id": "tool", "traceId": "t1", "name": "<script>alert(1)</script>", "level": "ERROR",
        "statusMessage": "cut off", "startTime": "2026-03-01T10:00:02Z",
        "endTime": "2026-03-01T10:00:03Z",
    });
    let own = json!({
        "id": "own", "traceId": "t2", "name": "judge", "environment": "sdk-experiment",
        "startTime": "2026-03-01T10:00:05Z", "endTime": "2026-03-01T10:00:06Z",
    });
    let trace = json!({ "id": "t1", "name": "support", "userId": "ada", "sessionId": "chat" });
    let score = json!({
        "id": "s1", "traceId": "t1", "observationId": "call", "name": "tone", "value": 0.25,
    });
    send(
        app,
        &[
            event("trace-create", "t1", &trace),
            event("generation-create", "call", &generation),
            event("span-create", "tool", &tool),
            event("span-create", "own", &own),
            event("score-create", "s1", &score),
        ],
    )
    .await;
}

#[tokio::test]
async fn observations_are_listed_newest_first_with_cursors_in_both_directions() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let empty = visitor.page("/observations").await;
    assert!(empty.contains("No observations yet"), "{empty}");
    send_steps(&app).await;
    let expected: Vec<String> = (0..N).rev().map(|n| format!("step {n}")).collect();
    let mut page = visitor.page("/observations?n=25").await;
    assert!(page.contains("1–25 of 60"), "{page}");
    assert_eq!(way(&page, "prev"), None);
    let first = rows(&page);
    let mut all = first.clone();
    while let Some(next) = way(&page, "next") {
        page = visitor.client.get(&next).await.unwrap().text();
        all.extend(rows(&page));
    }
    assert_eq!(all, expected);
    while let Some(previous) = way(&page, "prev") {
        page = visitor.client.get(&previous).await.unwrap().text();
    }
    assert_eq!(rows(&page), first);
    let last = visitor.page("/observations?n=25&before=end").await;
    assert_eq!(rows(&last), expected[N - 25..]);
    let odd = visitor.page("/observations?after=x&sort=latency&cols=luck").await;
    for name in ["`after` ", "`sort` ", "`cols` "] {
        assert!(odd.contains(&format!("role=\"alert\">{name}")), "{name}: {odd}");
    }
    let twice = format!("{}/observations?q=a&q=b", visitor.base);
    assert_eq!(visitor.client.get(&twice).await.unwrap().status, 400);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn observations_are_filtered_by_any_column_and_an_empty_list_counts_each_condition() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    send_kinds(&app).await;
    let hostile = "&#60;script&#62;alert(1)&#60;/script&#62;";
    for (q, expected) in [
        ("", [hostile, "ask"].as_slice()),
        ("environment:set", &["judge", hostile, "ask"]),
        ("type:GENERATION model:small", &["ask"]),
        ("level:ERROR", &[hostile]),
        ("statusMessage:~off", &[hostile]),
        ("latency:>3", &["ask"]),
        ("timeToFirstToken:>=1", &["ask"]),
        ("totalTokens:>1000 totalCost:0.5", &["ask"]),
        ("score.tone:<0.5", &["ask"]),
        ("score.tone:>0.5", &[]),
        ("cellar", &["ask"]),
        ("traceName:support userId:ada sessionId:chat", &[hostile, "ask"]),
        ("level:ERROR model:small", &[]),
    ] {
        let page = visitor.page(&format!("/observations?q={}", encode(q))).await;
        assert_eq!(rows(&page), expected, "{q}");
        assert!(!page.contains("<script>alert") && !page.contains("<b>cellar"), "{page}");
        assert_eq!(page.contains("No observations match"), expected.is_empty(), "{q}");
    }
    let none = visitor.page("/observations?q=level%3AERROR+model%3Asmall").await;
    assert_eq!(none.matches(": 1 observation ").count(), 2, "{none}");
    let elsewhere = visitor.page("/observations?q=level%3AERROR&to=2020-01-01").await;
    assert!(elsewhere.contains("Matches at other times"), "{elsewhere}");
    let q = encode("score.tone:<0.5");
    let traces = visitor.page(&format!("/traces?q={q}")).await;
    assert!(traces.contains("No traces match"), "{traces}");
    let href = format!("href=\"{}/observations?q={q}\"", visitor.base);
    assert!(
        traces.contains(&href),
        "the list of observations finds scores of observations: {traces}"
    );
    let wrong = visitor.page("/observations?q=latncy%3A%3E2").await;
    assert!(wrong.contains("latency") && wrong.contains("role=\"alert\""), "{wrong}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_row_leads_to_the_observation_in_its_trace_and_shows_the_chosen_columns() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    send_kinds(&app).await;
    let page = visitor.page("/observations?q=type%3AGENERATION").await;
    for part in [
        "generation",
        "support",
        "small",
        "4.00 s",
        "1.00 s",
        "1,234",
        "$0.5",
        "tone",
        "/export/observations?format=csv",
        "/api/public/v2/observations",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let (_, link) = page.split_once("class=\"name\" href=\"").unwrap();
    let link = link.split('"').next().unwrap().replace("&#38;", "&");
    assert_eq!(link, format!("{}/traces/t1?observation=call", visitor.base));
    let trace = visitor.client.get(&link).await.unwrap();
    assert_eq!(trace.status, 200);
    assert!(trace.text().contains("Where is it?"));
    let chosen = visitor.page("/observations?cols=userId&cols=sessionId,level").await;
    let headings = chosen.split("data-column=\"").skip(1);
    let headings: Vec<&str> = headings.filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(headings, ["name", "userId", "sessionId", "level"]);
    assert!(chosen.contains("/users/ada\"") && chosen.contains("/sessions/chat\""), "{chosen}");
    assert!(chosen.contains("cols=name%2CuserId%2CsessionId%2Clevel"), "links keep the columns");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn observations_that_arrive_after_a_page_are_counted() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    send_kinds(&app).await;
    let page = visitor.page("/observations?cols=name,level").await;
    let addresses = page.split("data-from=\"").skip(1);
    let mut addresses = addresses.filter_map(|rest| rest.split('"').next());
    let address = addresses.find(|address| address.contains("/news")).unwrap();
    let address = address.replace("&#38;", "&");
    let first = visitor.client.get(&address).await.unwrap();
    assert_eq!((first.status.as_u16(), first.text().trim()), (200, ""));
    let now = first.headers["perpend-now"].to_str().unwrap().to_owned();
    send_steps(&app).await;
    let news = format!("{address}&received={}", encode(&now));
    let news = visitor.client.get(&news).await.unwrap().text();
    assert!(news.contains("60 new observations"), "{news}");
    assert!(news.contains("/observations?cols=name%2Clevel\""), "{news}");
    let suggested = visitor.page("/_/observations/suggest?q=type%3AGEN").await;
    assert!(suggested.contains("GENERATION"), "{suggested}");
    app.stop().await.unwrap();
}
