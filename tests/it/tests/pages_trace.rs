//! The page of a trace over HTTP: its head, live updates, and the parameters of its URL.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{OTLP, TestApp, trace_id};
use serde_json::{Value, json};

use crate::pages::Visitor;

/// Sends events of the batch API.
async fn send(app: &TestApp, events: &[(&str, Value)]) {
    let events = events.iter().enumerate().map(|(n, (kind, body))| {
        let at = "2026-03-01T10:00:00.000Z";
        let id = body["id"].as_str().unwrap_or_default();
        json!({ "id": format!("{kind}-{n}-{id}"), "type": kind, "timestamp": at, "body": body })
    });
    let body = json!({ "batch": events.collect::<Vec<_>>() });
    let answer = app.client.json(Method::POST, "/api/public/ingestion", &body).await.unwrap();
    assert_eq!(answer.status, 207, "{}", answer.text());
    assert_eq!(answer.json()["errors"], json!([]), "{}", answer.text());
}

/// An agent that still runs, with a generation that has ended.
async fn running(app: &TestApp) {
    let root = json!({ "id": "root", "traceId": "run", "name": "agent", "startTime": "2026-03-01T10:00:00.000Z" });
    let answer = json!({ "id": "answer", "traceId": "run", "parentObservationId": "root", "name": "answer",
        "model": "gpt-4o", "startTime": "2026-03-01T10:00:01.000Z",
        "completionStartTime": "2026-03-01T10:00:01.120Z", "endTime": "2026-03-01T10:00:02.000Z",
        "usageDetails": { "input": 900, "input_cached_tokens": 50, "output": 100 } });
    send(app, &[("span-create", root), ("generation-create", answer)]).await;
}

#[tokio::test]
async fn the_head_shows_the_progress_tokens_and_scores_of_a_trace() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    running(&app).await;
    let score = json!({ "id": "s1", "traceId": "run", "name": "helpful", "value": 0.5 });
    send(&app, &[("score-create", score)]).await;
    for view in ["tree", "time", "thread", "log"] {
        let page = visitor.page(&format!("/traces/run?v={view}")).await;
        for text in [
            "1 observation not ended",
            "<dt>First token</dt><dd>120 ms",
            "900 input · 50 cached · 100 output",
            "#score-s1\" title=\"Score of the trace\">",
            "<bdi>helpful</bdi> <b><bdi>0.5</bdi></b></a>",
        ] {
            assert!(page.contains(text), "{view}: {text}: {page}");
        }
    }
    let end = json!({ "id": "root", "traceId": "run", "endTime": "2026-03-01T10:00:03.000Z" });
    send(&app, &[("span-update", end)]).await;
    let page = visitor.page("/traces/run").await;
    assert!(!page.contains("observation not ended") && page.contains("<dd>settling"), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_page_of_a_running_trace_learns_of_each_change() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    running(&app).await;
    let version = |page: &str| {
        let (_, rest) = page.split_once("data-version=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let state = "/_/traces/run/state";
    let shown = version(&visitor.page("/traces/run").await);
    let first = visitor.page(state).await;
    assert!(version(&first) == shown && first.contains(" data-live"), "{first}");
    let child = json!({ "id": "child", "traceId": "run", "parentObservationId": "root", "name": "late",
        "startTime": "2026-03-01T10:00:02.000Z", "endTime": "2026-03-01T10:00:02.500Z" });
    send(&app, &[("span-create", child)]).await;
    let second = visitor.page(state).await;
    assert_ne!(version(&second), shown, "{second}");
    let page = visitor.page("/traces/run").await;
    assert_eq!(version(&page), version(&second));
    // So it does of scores, in each view.
    let score = json!({ "id": "s2", "traceId": "run", "observationId": "child", "name": "late", "value": 1 });
    send(&app, &[("score-create", score)]).await;
    let third = version(&visitor.page(state).await);
    assert_ne!(third, version(&second));
    for view in ["tree", "time", "thread", "log"] {
        let page = visitor.page(&format!("/traces/run?v={view}")).await;
        assert_eq!(version(&page), third, "{view}");
        assert!(page.contains("-follow.js\""), "{view}");
    }
    let unknown = format!("{}/_/traces/none/state", visitor.base);
    assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn rows_requested_by_a_page_of_an_older_revision_are_those_around_its_anchor() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    running(&app).await;
    let attribute = |page: &str, name: &str| {
        let (_, rest) = page.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let revision = attribute(&visitor.page("/traces/run").await, "data-revision");
    let rows = format!("/_/traces/run/rows?trace&at=1&n=1&anchor=answer&revision={revision}");
    let same = visitor.page(&rows).await;
    assert_eq!(attribute(&same, "data-revision"), revision);
    assert_eq!(same.matches("role=\"row\"").count(), 1, "{same}");
    // Two that began before the anchor.
    for n in 1..=2 {
        let child = json!({ "id": format!("early-{n}"), "traceId": "run", "parentObservationId": "root", "name": "early",
            "startTime": format!("2026-03-01T10:00:00.{n}00Z"), "endTime": "2026-03-01T10:00:00.900Z" });
        send(&app, &[("span-create", child)]).await;
    }
    let other = visitor.page(&rows).await;
    assert_ne!(attribute(&other, "data-revision"), revision);
    assert_eq!(attribute(&other, "data-at"), "0");
    assert_eq!(attribute(&other, "data-anchor"), "3");
    assert_eq!(other.matches("role=\"row\"").count(), 4, "{other}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn every_view_of_a_trace_shows_the_kinds_that_its_address_names() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    running(&app).await;
    let root = "observation=root";
    for view in ["tree", "time", "thread", "log"] {
        // A form sends one parameter for each box.
        let query = "kinds=GENERATION&kinds=TOOL";
        let page = visitor.page(&format!("/traces/run?v={view}&{query}")).await;
        assert!(page.contains("kinds=GENERATION%2CTOOL"), "{view}: {page}");
        assert!(page.contains("observation=answer"), "{view}: {page}");
    }
    let log = visitor.page("/traces/run?v=log&kinds=GENERATION").await;
    assert!(!log.contains(root) && log.contains("1 observation of other kinds not shown"), "{log}");
    // The ancestors of matching steps are shown.
    let tree = visitor.page("/traces/run?kinds=GENERATION").await;
    assert!(tree.contains(root) && !tree.contains("of other kinds"), "{tree}");
    let tree = visitor.page("/traces/run?kinds=SPAN").await;
    assert!(tree.contains("1 observation of other kinds not shown"), "{tree}");
    let odd = visitor.page("/traces/run?kinds=SPOON").await;
    assert!(odd.contains("`kinds` must be a list of"), "{odd}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_time_window_is_kept_by_other_views_and_an_invalid_one_is_reported_at_its_field() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    running(&app).await;
    for view in ["tree", "time", "thread", "log"] {
        let page = visitor.page(&format!("/traces/run?v={view}&t0=100&t1=900")).await;
        for other in ["?trace", "?trace&#38;v=time", "?trace&#38;v=log"] {
            let link = format!("href=\"{other}&#38;t0=100&#38;t1=900\"");
            assert!(page.contains(&link), "{view}: {link}: {page}");
        }
    }
    let tree = visitor.page("/traces/run?t0=100&t1=900").await;
    assert_eq!(tree.matches(" width=\"0\"").count(), 0, "{tree}");
    let odd = visitor.page("/traces/run?v=time&t0=foo&t1=60").await;
    for text in [
        "value=\"foo\" aria-invalid=\"true\" aria-describedby=\"problem-t0\"",
        "<span id=\"problem-t0\" class=\"problem\">Must be a duration",
    ] {
        assert!(odd.contains(text), "{text}: {odd}");
    }
    assert!(!odd.contains("problem-t1"), "{odd}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_link_to_a_missing_observation_opens_the_trace_and_reports_it() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    running(&app).await;
    for view in ["tree", "time", "thread", "log"] {
        let of = async |step: &str| {
            let path = format!("/traces/run?v={view}&observation={step}");
            visitor.page(&path).await
        };
        let page = of("%3Cb%3Egone").await;
        let text = "This trace has no observation &#60;b&#62;gone, or it has not arrived yet.";
        assert!(page.contains(text), "{view}: {page}");
        assert!(!page.contains("?observation=%3Cb"), "{view}: {page}");
        assert!(!of("answer").await.contains("This trace has no observation"));
    }
    let tree = visitor.page("/traces/run?observation=gone").await;
    let selected = "aria-level=\"1\" aria-selected=\"true\"";
    assert!(tree.contains(selected), "{tree}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn events_and_links_of_an_observation_have_a_section() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let (trace, other) = (trace_id(1), trace_id(2));
    let attribute = json!([{ "key": "queue", "value": { "stringValue": "orders" } }]);
    let span = json!({
        "traceId": trace, "spanId": "00000000000000aa", "name": "work",
        "startTimeUnixNano": "1770000000000000000", "endTimeUnixNano": "1770000001000000000",
        "events": [{ "name": "retried", "timeUnixNano": "1770000000250000000", "attributes": attribute }],
        "links": [{ "traceId": other, "spanId": "00000000000000bb" }],
    });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let answer = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let path = format!("/traces/{trace}?observation=00000000000000aa");
    let page = visitor.page(&path).await;
    for text in [
        "<b><bdi>retried</bdi></b> <span class=\"muted num\">+250 ms</span>",
        "1 attribute</summary>",
        &format!("/traces/{other}?observation=00000000000000bb\">Trace <code>{other}</code>"),
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    // The metadata do not repeat them.
    assert_eq!(page.matches("retried").count(), 1, "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_exception_precedes_the_content_and_the_scores_of_its_observation() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = trace_id(1);
    let text = |key: &str, text: &str| json!({ "key": key, "value": { "stringValue": text } });
    let attributes = [
        text("exception.type", "TimeoutError"),
        text("exception.message", "the <model> did not answer"),
        text("exception.stacktrace", "File \"agent.py\", line 12"),
    ];
    let span = json!({
        "traceId": trace, "spanId": "00000000000000aa", "name": "work",
        "startTimeUnixNano": "1770000000000000000", "endTimeUnixNano": "1770000001000000000",
        "status": { "code": 2, "message": "it failed" },
        "events": [{ "name": "exception", "timeUnixNano": "1770000000250000000", "attributes": attributes }],
    });
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    let answer = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let path = format!("/traces/{trace}?observation=00000000000000aa");
    let page = visitor.page(&path).await;
    let (_, pane) = page.split_once("id=\"detail\"").unwrap();
    let (head, _) = pane.split_once("id=\"pane-scores\"").unwrap();
    let places = [
        "it failed",
        "<b><bdi>TimeoutError</bdi></b>",
        "the &#60;model&#62; did not answer",
        "agent.py",
        "<h3>Input",
    ];
    let places = places.map(|text| head.find(text));
    assert!(places.iter().all(Option::is_some), "{places:?} {head}");
    assert!(places.is_sorted(), "{places:?} {head}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn rules_beyond_the_first_fifty_are_a_link_away() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 }));
    let evaluator = evaluator.await.unwrap();
    for n in 0..52 {
        let more = json!({ "name": format!("off {n}"), "enabled": false });
        app.rule(&evaluator, more).await.unwrap();
    }
    running(&app).await;
    let step = "/traces/run?observation=answer";
    let first = visitor.page(step).await;
    assert!(first.contains("Rules 1–50 of 52 shown"), "{first}");
    let way = "?observation=answer&#38;rules=50#pane-scores";
    assert!(first.contains(way), "{first}");
    assert_eq!(first.matches("<article class=\"verdict\">").count(), 50);
    for part in ["/traces/run", "/_/traces/run/detail"] {
        let path = format!("{part}?observation=answer&rules=50");
        let rest = visitor.page(&path).await;
        assert!(rest.contains("Rules 51–52 of 52 shown"), "{rest}");
        assert_eq!(rest.matches("<article class=\"verdict\">").count(), 2);
    }
    app.stop().await.unwrap();
}
