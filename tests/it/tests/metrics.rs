//! Metrics through HTTP: rows, order, gaps, limits, and queries that are refused.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use serde_json::{Value, json};

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

async fn ask(app: &TestApp, path: &str, query: &Value) -> (u16, Value) {
    let path = format!("{path}?query={}", encoded(&query.to_string()));
    let answer = app.client.get(&path).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

async fn rows(app: &TestApp, query: &Value) -> Value {
    let (status, answer) = ask(app, "/api/public/v2/metrics", query).await;
    assert_eq!(status, 200, "{query}: {answer}");
    answer["data"].clone()
}

/// Three days of generations, the second without any.
async fn filled() -> TestApp {
    let app = TestApp::new().await.unwrap();
    let generation = |n: u32, day: u32, model: &str, tokens: u32| {
        let start = format!("2026-03-{day:02}T10:{n:02}:00Z");
        let end = format!("2026-03-{day:02}T10:{n:02}:{:02}Z", n + 1);
        json!({ "id": format!("e{n}"), "type": "generation-create", "timestamp": start, "body": {
            "id": format!("g{n}"), "traceId": format!("t{day}"), "name": "answer", "model": model,
            "startTime": start, "endTime": end,
            "usageDetails": { "input": tokens, "output": 1 }, "costDetails": { "total": 0.5 } } })
    };
    let trace = |day: u32, user: &str| {
        let at = format!("2026-03-{day:02}T10:00:00Z");
        json!({ "id": format!("te{day}"), "type": "trace-create", "timestamp": at,
                "body": { "id": format!("t{day}"), "timestamp": at, "userId": user, "name": "chat" } })
    };
    let score = json!({ "id": "se", "type": "score-create", "timestamp": "2026-03-02T10:00:00Z",
        "body": { "traceId": "t2", "name": "ok", "value": 1, "dataType": "BOOLEAN" } });
    let batch = json!({ "batch": [trace(2, "ann"), trace(4, "bob"), generation(1, 2, "m1", 10),
        generation(2, 2, "m2", 20), generation(3, 4, "m1", 30), generation(4, 4, "m1", 40), score] });
    let answer = app.client.json(Method::POST, "/api/public/ingestion", &batch).await.unwrap();
    assert_eq!(answer.json()["errors"], json!([]));
    app
}

fn base() -> Value {
    json!({ "view": "observations", "metrics": [{ "measure": "count", "aggregation": "count" }],
            "fromTimestamp": "2026-03-02T00:00:00Z", "toTimestamp": "2026-03-05T00:00:00Z" })
}

fn with(changes: Value) -> Value {
    let mut query = base();
    for (key, value) in changes.as_object().unwrap() {
        query[key] = value.clone();
    }
    query
}

#[tokio::test]
async fn rows_by_day_and_model_are_ordered_and_gaps_are_filled() {
    let app = filled().await;
    let query = with(json!({
        "dimensions": [{ "field": "providedModelName" }],
        "metrics": [{ "measure": "count", "aggregation": "count" }, { "measure": "totalCost", "aggregation": "sum" },
                    { "measure": "inputTokens", "aggregation": "avg" }],
        "timeDimension": { "granularity": "day" }, "orderBy": null,
    }));
    let day = |d: u32| format!("2026-03-{d:02}T00:00:00.000Z");
    let row = |d: u32, model: Value, n: u32, cost: Value, avg: u32| {
        json!({ "time_dimension": day(d), "providedModelName": model, "count_count": n,
                "sum_totalCost": cost, "avg_inputTokens": avg })
    };
    let expected = json!([
        row(2, json!("m1"), 1, json!(0.5), 10),
        row(2, json!("m2"), 1, json!(0.5), 20),
        row(3, Value::Null, 0, json!(0), 0),
        row(4, json!("m1"), 2, json!(1), 35),
    ]);
    assert_eq!(rows(&app, &query).await, expected);
    let top = with(json!({ "dimensions": [{ "field": "providedModelName" }] }));
    let top = rows(&app, &top).await;
    assert_eq!(top[0], json!({ "providedModelName": "m1", "count_count": 3 }));
    let ascending = with(json!({ "dimensions": [{ "field": "providedModelName" }],
        "orderBy": [{ "field": "count_count", "direction": "asc" }], "config": { "row_limit": 1 } }));
    let ascending = rows(&app, &ascending).await;
    assert_eq!(ascending, json!([{ "providedModelName": "m2", "count_count": 1 }]));
}

#[tokio::test]
async fn percentiles_histograms_filters_and_wide_dimensions_work_together() {
    let app = filled().await;
    let query = with(json!({
        "metrics": [{ "measure": "latency", "aggregation": "p50" }, { "measure": "inputTokens", "aggregation": "histogram" },
                    { "measure": "traceId", "aggregation": "uniq" }],
        "filters": [{ "type": "string", "column": "providedModelName", "operator": "=", "value": "m1" }],
        "config": { "bins": 2 },
    }));
    let answer = rows(&app, &query).await;
    assert_eq!(
        answer,
        json!([{ "p50_latency": 4000, "histogram_inputTokens": [[10, 25, 1], [25, 40, 2]], "uniq_traceId": 2 }])
    );
    let by_user = with(
        json!({ "dimensions": [{ "field": "userId" }], "config": { "row_limit": 5 },
        "orderBy": [{ "field": "count_count", "direction": "desc" }],
        "filters": [{ "type": "stringObject", "column": "metadata", "key": "x", "operator": "is not set", "value": "" }] }),
    );
    let by_user = rows(&app, &by_user).await;
    assert_eq!(by_user.as_array().unwrap().len(), 2);
    let scores = with(
        json!({ "view": "scores-boolean", "metrics": [{ "measure": "value", "aggregation": "avg" }],
        "dimensions": [{ "field": "name" }] }),
    );
    assert_eq!(rows(&app, &scores).await, json!([{ "name": "ok", "avg_value": 1 }]));
    let traces = with(json!({ "view": "traces", "dimensions": [{ "field": "userId" }],
        "metrics": [{ "measure": "observationsCount", "aggregation": "sum" }, { "measure": "scoresCount", "aggregation": "sum" }] }));
    let (status, answer) = ask(&app, "/api/public/metrics", &traces).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(
        answer["data"],
        json!([
        { "userId": "ann", "sum_observationsCount": 2, "sum_scoresCount": 1 },
        { "userId": "bob", "sum_observationsCount": 2, "sum_scoresCount": 0 }])
    );
    let theirs = app.other_project().await.unwrap();
    let path = format!("/api/public/v2/metrics?query={}", encoded(&base().to_string()));
    let answer = theirs.get(&path).await.unwrap().json();
    assert_eq!(answer["data"], json!([]));
}

#[tokio::test]
async fn queries_that_make_no_sense_are_refused_naming_the_field() {
    let app = TestApp::new().await.unwrap();
    for (wrong, field) in [
        (with(json!({ "view": "traces" })), "query.view"),
        (with(json!({ "view": "odd" })), "query.view"),
        (with(json!({ "metrics": [] })), "query.metrics"),
        (
            with(json!({ "metrics": [{ "measure": "odd", "aggregation": "sum" }] })),
            "query.metrics[0].measure",
        ),
        (
            with(json!({ "metrics": [{ "measure": "count", "aggregation": "odd" }] })),
            "query.metrics[0].aggregation",
        ),
        (
            with(json!({ "metrics": [{ "measure": "traceId", "aggregation": "sum" }] })),
            "query.metrics[0].aggregation",
        ),
        (
            with(json!({ "metrics": [{ "measure": "costByType", "aggregation": "sum" }] })),
            "query.metrics[0].measure",
        ),
        (with(json!({ "dimensions": [{ "field": "odd" }] })), "query.dimensions[0].field"),
        (with(json!({ "dimensions": [{ "field": "userId" }] })), "query.dimensions"),
        (
            with(
                json!({ "filters": [{ "type": "string", "column": "odd", "operator": "=", "value": "x" }] }),
            ),
            "filter[0].column",
        ),
        (with(json!({ "toTimestamp": "2026-03-02T00:00:00Z" })), "query.toTimestamp"),
        (with(json!({ "fromTimestamp": "yesterday" })), "query.fromTimestamp"),
        (
            with(json!({ "timeDimension": { "granularity": "year" } })),
            "query.timeDimension.granularity",
        ),
        (
            with(json!({ "orderBy": [{ "field": "odd", "direction": "asc" }] })),
            "query.orderBy[0].field",
        ),
        (
            with(json!({ "orderBy": [{ "field": "count_count", "direction": "up" }] })),
            "query.orderBy[0].direction",
        ),
        (with(json!({ "config": { "bins": 0 } })), "query.config.bins"),
        (with(json!({ "config": { "row_limit": 1001 } })), "query.config.row_limit"),
        (json!([]), "query"),
    ] {
        let (status, answer) = ask(&app, "/api/public/v2/metrics", &wrong).await;
        assert_eq!(status, 400, "{wrong}: {answer}");
        assert!(answer["message"].as_str().unwrap().starts_with(field), "{wrong}: {answer}");
    }
    for path in ["/api/public/v2/metrics", "/api/public/v2/metrics?query=no"] {
        assert_eq!(app.client.get(path).await.unwrap().status, 400);
    }
    let minutes = with(
        json!({ "toTimestamp": "2036-03-02T00:00:00Z", "timeDimension": { "granularity": "minute" } }),
    );
    assert_eq!(ask(&app, "/api/public/v2/metrics", &minutes).await.0, 400);
}

#[tokio::test]
async fn sums_by_day_come_newest_first() {
    let app = filled().await;
    let answer = app.client.get("/api/public/metrics/daily").await.unwrap().json();
    let days = answer["data"].as_array().unwrap();
    assert_eq!((days.len(), &answer["meta"]["totalItems"]), (2, &json!(2)));
    assert_eq!((&days[0]["date"], &days[1]["date"]), (&json!("2026-03-04"), &json!("2026-03-02")));
    assert_eq!((&days[1]["countTraces"], &days[1]["countObservations"]), (&json!(1), &json!(2)));
    assert_eq!(days[1]["totalCost"], 1.0);
    assert_eq!(days[0]["usage"][0]["inputUsage"], 70);
    let answer =
        app.client.get("/api/public/metrics/daily?userId=ann&limit=1").await.unwrap().json();
    assert_eq!(answer["meta"]["totalItems"], 1);
    assert_eq!(answer["data"][0]["usage"].as_array().unwrap().len(), 2);
}

fn has_figure(part: &str, label: &str, value: &str) -> bool {
    let mut figures = part.split("<dt>");
    let value = format!("<b>{value}</b>");
    figures.any(|figure| figure.contains(label) && figure.contains(&value))
}

/// One tile opens the slowest trace itself, another the list that begins with it.
fn slowest_is_opened(part: &str) {
    let tile = |label: &str| part.split("<dt>").find(|tile| tile.contains(label)).unwrap();
    let slowest = tile("Slowest trace");
    assert!(slowest.contains("/traces/t") && !slowest.contains("sort="), "{slowest}");
    assert!(tile("p95 latency").contains("sort=-latency"), "{part}");
}

#[tokio::test]
async fn figures_of_a_time_stand_with_their_change_against_the_same_time_before() {
    let app = filled().await;
    let visitor = crate::pages::Visitor::of(&app).await;
    let p95 = async |from: &str, to: &str| {
        let question = with(json!({ "view": "traces", "fromTimestamp": from, "toTimestamp": to,
            "metrics": [{ "measure": "latency", "aggregation": "p95" }] }));
        let (_, answer) = ask(&app, "/api/public/metrics", &question).await;
        answer["data"][0]["p95_latency"].as_f64().unwrap()
    };
    let was = p95("2026-03-02T00:00:00Z", "2026-03-04T00:00:00Z").await;
    let is = p95("2026-03-04T00:00:00Z", "2026-03-06T00:00:00Z").await;
    let change = perpend_views::percent_change(is, was).unwrap();
    assert!(change.ends_with(" %"), "{change}");
    let time = "from=2026-03-04&to=2026-03-06";
    let part = visitor.page(&format!("/_/trends?{time}&part=figures")).await;
    let took = perpend_views::duration((is * 1e3) as i64);
    let shown = format!("<b>{took}</b> <span class=\"muted change\">{change}</span>");
    assert!(part.contains(&shown), "{shown}: {part}");
    let overview = visitor.page(&format!("?{time}")).await;
    assert!(
        overview.contains("<b>1</b> <span class=\"muted change\">unchanged</span>"),
        "{overview}"
    );
    assert!(overview.contains("Changes are relative to the previous period"), "{overview}");
    let first = visitor.page("?from=2026-03-02&to=2026-03-03").await;
    assert!(first.contains("No data in the previous period"), "{first}");
}

/// The overview agrees with the metrics: each figure of its slower part is the result of a query.
#[tokio::test]
async fn the_overview_shows_the_figures_of_the_metrics() {
    let app = filled().await;
    let visitor = crate::pages::Visitor::of(&app).await;
    let numeric = |name: &str, n: u32, value: f64| {
        json!({ "id": format!("{name}{n}"), "type": "score-create", "timestamp": "2026-03-02T10:00:00Z",
                "body": { "traceId": "t2", "name": name, "value": value, "dataType": "NUMERIC" } })
    };
    let judged = |n, value| numeric("quality", n, value);
    let exact = |n, value| numeric("exact", n, value);
    let tone = |n: u32, value: &str| {
        json!({ "id": format!("c{n}"), "type": "score-create", "timestamp": "2026-03-02T10:00:00Z",
                "body": { "traceId": "t2", "name": "tone", "value": value, "dataType": "CATEGORICAL" } })
    };
    let batch = json!({ "batch": [judged(1, 0.2), judged(2, 0.4), judged(3, 0.6),
        exact(1, 1.0), exact(2, 1.0), exact(3, 0.0), exact(4, 1.0), exact(5, 1.0),
        tone(1, "warm"), tone(2, "warm"), tone(3, "cold"), tone(4, "warm")] });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &batch);
    assert_eq!(sent.await.unwrap().json()["errors"], json!([]));
    let time = "from=2026-03-02&to=2026-03-05";
    let mut part = String::new();
    for name in ["figures", "traces", "latency", "models", "scores"] {
        part += &visitor.page(&format!("/_/trends?{time}&part={name}")).await;
    }
    let shows = |what: &str| assert!(part.contains(what), "{what}: {part}");

    let question = with(json!({ "view": "traces", "metrics": [
        { "measure": "latency", "aggregation": "p50" }, { "measure": "latency", "aggregation": "p95" },
        { "measure": "latency", "aggregation": "max" },
        { "measure": "uniqueUserIds", "aggregation": "uniq" }] }));
    let (status, metrics) = ask(&app, "/api/public/metrics", &question).await;
    assert_eq!(status, 200, "{metrics}");
    let metrics = &metrics["data"];
    for (label, measure) in [
        ("Median latency", "p50_latency"),
        ("p95 latency", "p95_latency"),
        ("Slowest trace", "max_latency"),
    ] {
        let ms = metrics[0][measure].as_f64().unwrap();
        let took = perpend_views::duration((ms * 1e3) as i64);
        assert!(has_figure(&part, label, &took), "{label}: {took}: {part}");
    }
    slowest_is_opened(&part);
    shows(&format!("<b>{}</b>", metrics[0]["uniq_uniqueUserIds"]));
    // Three calls of m1 before one of m2, at half a dollar each.
    let order = ["<bdi>m1</bdi>", "$1.50", "<bdi>m2</bdi>", "$0.50"];
    let places: Vec<_> = order.iter().map(|what| part.find(what).unwrap()).collect();
    assert!(places.is_sorted(), "{part}");
    // One interval of a mean by hand: 0.4 and 4.303 times 0.2 divided by the root of three on both sides.
    // The scale from 0 to 1 ends it.
    shows("<bdi>0.40</bdi></a> <span class=\"muted\">(0.00–0.90)</span>");
    shows("<bdi>80 %</bdi></a> <span class=\"muted\">(38–96)</span>");
    shows("<bdi>75 % warm</bdi>");
    shows("<bdi>100 % true</bdi>");
    shows(
        "/scores?from=2026-03-02T00%3A00%3A00Z&#38;to=2026-03-05T00%3A00%3A00Z&#38;own=0&#38;name=quality\"",
    );

    // Without a script a link leads to the page with the same in it.
    let overview = visitor.page(&format!("?{time}")).await;
    assert!(overview.contains("data-later=") && !overview.contains("75 % warm"));
    let (_, link) = overview.split_once("data-later=").unwrap();
    let (_, link) = link.split_once("<a href=\"").unwrap();
    let link = link.split('"').next().unwrap().replace("&#38;", "&").replace("&amp;", "&");
    let whole = visitor.client.get(&link).await.unwrap().text();
    assert!(whole.contains("75 % warm") && !whole.contains("data-later="));
    // Nothing there is nothing, and not zero.
    let empty = "?from=2020-01-01&to=2020-01-02&trends=1";
    let empty = visitor.page(empty).await;
    assert!(empty.contains("<b>–</b>") && empty.contains("No scores in this range"));
    for odd in ["part=all", "part=scores&from=2026-03-02&to=2026-03-01", "part=scores&part=models"]
    {
        let odd = format!("{}/_/trends?{odd}", visitor.base);
        assert_eq!(visitor.client.get(&odd).await.unwrap().status, 400);
    }
    // Where no time is chosen, the users are those of the time that is shown.
    let usual = visitor.page("/_/trends?part=figures").await;
    let users = format!("{}/users?from=-7d", visitor.base);
    assert!(usual.contains(&users), "{usual}");
    app.stop().await.unwrap();
}
