//! Costs on pages over HTTP: absent, zero, unknown, and partly known.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use serde_json::{Value, json};

use crate::pages::Visitor;

const AT: &str = "2026-03-01T10:00:00Z";
const TIME: &str = "from=2026-03-01&to=2026-03-02";
/// The name of a trace, the cost of each of its model calls, and the displayed total.
const CASES: [(&str, &[Option<f64>], &str); 5] = [
    ("nothing", &[], "–"),
    ("zero", &[Some(0.0)], "$0"),
    ("unknown", &[None], "?"),
    ("part", &[Some(0.5), None], "≥ $0.5000"),
    ("whole", &[Some(1.0), Some(0.15)], "$1.15"),
];

async fn send(app: &TestApp, batch: Vec<Value>) {
    let body = json!({ "batch": batch });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &body);
    assert_eq!(sent.await.unwrap().json()["errors"], json!([]));
}

fn event(id: &str, kind: &str, body: Value) -> Value {
    json!({ "id": format!("{kind}-{id}"), "type": kind, "timestamp": AT, "body": body })
}

/// A trace for each case: a step that calls no model, and the calls below it, each trace with its own session, user and
/// model.
async fn filled() -> (TestApp, Visitor) {
    let app = TestApp::new().await.unwrap();
    let mut batch = Vec::new();
    for (name, costs, _) in CASES {
        let trace = json!({ "id": name, "name": name, "timestamp": AT,
            "sessionId": format!("s-{name}"), "userId": format!("u-{name}") });
        batch.push(event(name, "trace-create", trace));
        let root = json!({ "id": format!("{name}-root"), "traceId": name, "name": "root",
            "startTime": AT, "endTime": AT });
        batch.push(event(name, "span-create", root));
        for (n, cost) in costs.iter().enumerate() {
            let id = format!("{name}-{n}");
            let mut call = json!({ "id": id, "traceId": name, "name": "call", "startTime": AT,
                "endTime": AT, "parentObservationId": format!("{name}-root"),
                "model": format!("ours-{name}-x"), "usageDetails": { "input": 10, "output": 5 } });
            if let Some(cost) = cost {
                call["costDetails"] = json!({ "total": cost });
            }
            batch.push(event(&id, "generation-create", call));
        }
    }
    send(&app, batch).await;
    let visitor = Visitor::of(&app).await;
    (app, visitor)
}

/// The part of a page from the first of these texts to the second one after it.
fn between<'p>(page: &'p str, from: &str, to: &str) -> &'p str {
    let (_, rest) = page.split_once(from).unwrap();
    rest.split_once(to).map_or(rest, |(part, _)| part)
}

fn shows(page: &str, what: &str) {
    assert!(page.contains(what), "{what}: {page}");
}

#[tokio::test]
async fn lists_and_heads_tell_nothing_zero_unknown_and_a_part_apart() {
    let (app, visitor) = filled().await;
    let traces = visitor.page("/traces").await;
    let (sessions, users) = (visitor.page("/sessions").await, visitor.page("/users").await);
    for (name, _, text) in CASES {
        let figure = format!("<dt>Cost</dt><dd>{text}</dd>");
        let row = between(&traces, &format!("<tr id=\"row-{name}\""), "</tr>");
        let cell = format!("data-label=\"Cost\"><bdi>{text}</bdi>");
        shows(row, &cell);
        let row = between(&sessions, &format!("<bdi>s-{name}</bdi>"), "</tr>");
        shows(row, &cell);
        let row = between(&users, &format!("<bdi>u-{name}</bdi>"), "</tr>");
        shows(row, &cell);
        for path in
            [format!("/traces?peek={name}"), format!("/traces/{name}"), format!("/users/u-{name}")]
        {
            shows(&visitor.page(&path).await, &figure);
        }
        let session = visitor.page(&format!("/sessions/s-{name}")).await;
        shows(&session, &figure);
        shows(&session, &format!(" · {text}</span></header>"));
    }
    // Programs get numbers as before.
    for (name, total) in [("nothing", 0.0), ("unknown", 0.0), ("part", 0.5)] {
        let found = app.client.get(&format!("/api/public/traces/{name}")).await;
        assert_eq!(found.unwrap().json()["totalCost"], total, "{name}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_tree_and_its_pane_leave_free_steps_empty_and_mark_those_without_a_price() {
    let (app, visitor) = filled().await;
    let costs = |page: &str| -> Vec<String> {
        let cells = page.split("<span class=\"num cost\" role=\"gridcell\">").skip(1);
        let cells = cells.filter_map(|cell| cell.split_once("</span>"));
        cells.map(|(text, _)| text.to_owned()).collect()
    };
    for (name, expected) in [
        ("nothing", vec!["", ""]),
        ("zero", vec!["$0", "", "$0"]),
        ("unknown", vec!["?", "", "?"]),
        ("part", vec!["≥ $0.5000", "", "$0.5000", "?"]),
    ] {
        let page = visitor.page(&format!("/traces/{name}")).await;
        assert_eq!(costs(&page), expected, "{page}");
    }
    let pane = async |step: &str| {
        let (trace, _) = step.split_once('-').unwrap();
        let path = format!("/traces/{trace}?observation={step}");
        visitor.page(&path).await
    };
    let reason = "unknown: not sent, and no price found";
    let unpriced = pane("part-1").await;
    shows(&unpriced, "15 tokens · ?");
    shows(&unpriced, reason);
    for (step, text) in [("zero-0", "15 tokens · $0"), ("part-0", "15 tokens · $0.5000")] {
        let page = pane(step).await;
        shows(&page, text);
        assert!(!page.contains(reason), "{page}");
    }
    assert!(!pane("nothing-root").await.contains(reason));
    let thread = visitor.page("/traces/part?v=thread").await;
    shows(&thread, "<bdi>$0.5000</bdi>");
    shows(&thread, "<bdi>?</bdi>");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_filter_of_sessions_and_users_distinguishes_zero_from_unknown_costs() {
    let (app, visitor) = filled().await;
    for list in ["sessions", "users"] {
        for (q, wanted) in
            [("totalCost%3A0", &["zero"][..]), ("totalCost%3Anull", &["nothing", "unknown"][..])]
        {
            let page = visitor.page(&format!("/{list}?q={q}")).await;
            for (name, ..) in CASES {
                let link = format!("/{list}/{}-{name}\"", &list[..1]);
                assert_eq!(page.contains(&link), wanted.contains(&name), "{q} {link}: {page}");
            }
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_overview_counts_observations_without_a_price() {
    let (app, visitor) = filled().await;
    let overview = visitor.page(&format!("?{TIME}")).await;
    shows(&overview, "<dt>Cost</dt><dd><b>≥ $1.65</b>");
    shows(&overview, "Costs exclude 2 observations without a known price");
    let models = visitor.page(&format!("/_/trends?{TIME}&part=models")).await;
    for (name, costs, text) in CASES {
        if !costs.is_empty() {
            let row = between(&models, &format!("<bdi>ours-{name}-x</bdi>"), "</tr>");
            shows(row, &format!("<td class=\"num\">{text}</td>"));
        }
    }
    let before = visitor.page("?from=2026-02-01&to=2026-02-02").await;
    shows(&before, "<dt>Cost</dt><dd><b>–</b>");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_step_that_costs_without_tokens_hides_no_other_that_has_no_price() {
    let app = TestApp::new().await.unwrap();
    let at = "2026-04-01T10:00:00Z";
    let tool = |id: &str, model: &str, more: Value| {
        let mut body = json!({ "id": id, "traceId": "t", "name": id, "startTime": at,
            "endTime": at, "model": model });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        event(id, "tool-create", body)
    };
    let (cost, usage) = (json!({ "total": 0.5 }), json!({ "input": 10, "output": 5 }));
    let (paid, used) = (json!({ "costDetails": cost }), json!({ "usageDetails": usage }));
    let both = json!({ "costDetails": cost, "usageDetails": usage });
    send(
        &app,
        vec![
            event("t", "trace-create", json!({ "id": "t", "name": "t", "timestamp": at })),
            tool("search", "ours-part-x", paid),
            tool("rank", "ours-part-x", used.clone()),
            tool("read", "ours-whole-x", both),
            tool("write", "ours-none-x", used),
        ],
    )
    .await;
    let visitor = Visitor::of(&app).await;
    // A part of an hour is added up from the steps, a whole day from the sums by hour.
    for time in ["from=2026-04-01&to=2026-04-02", "from=2026-04-01+09:30&to=2026-04-01+10:30"] {
        let overview = visitor.page(&format!("?{time}")).await;
        shows(&overview, "<dt>Cost</dt><dd><b>≥ $1.00</b>");
        shows(&overview, "Costs exclude 2 observations without a known price");
        let models = visitor.page(&format!("/_/trends?{time}&part=models")).await;
        for (name, text) in [("part", "≥ $0.5000"), ("whole", "$0.5000"), ("none", "?")] {
            let row = between(&models, &format!("<bdi>ours-{name}-x</bdi>"), "</tr>");
            shows(row, &format!("<td class=\"num\">{text}</td>"));
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_comparison_gives_no_difference_of_costs_that_lack_prices() {
    let (app, visitor) = filled().await;
    let compared = async |a: &str, b: &str| {
        let page = visitor.page(&format!("/traces/compare?a={a}&b={b}")).await;
        between(&page, "<bdi>Cost</bdi>", "</tr>").to_owned()
    };
    let row = compared("part", "whole").await;
    for text in ["<bdi>≥ $0.5000</bdi>", "<bdi>$1.15</bdi>", "differs"] {
        shows(&row, text);
    }
    assert!(!row.contains("<b>"), "{row}");
    shows(&compared("zero", "whole").await, "<b>+$1.15</b>");
    let same = compared("unknown", "unknown").await;
    assert!(same.contains("<bdi>?</bdi>") && !same.contains(">=<"), "{same}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_price_that_comes_late_replaces_the_unknown() {
    let (app, visitor) = filled().await;
    let call = json!({ "id": "unknown-0", "traceId": "unknown", "costDetails": { "total": 0.25 } });
    send(&app, vec![event("late", "generation-update", call)]).await;
    let page = visitor.page("/traces/unknown").await;
    shows(&page, "<dt>Cost</dt><dd>$0.2500</dd>");
    assert!(!page.contains("role=\"gridcell\">?</span>"), "{page}");
    app.stop().await.unwrap();
}
