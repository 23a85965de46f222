//! Statistics of scores over HTTP and as pages: the distribution of one score, and the agreement of two.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, trace_id};
use perpend_server::client::Client;
use serde_json::{Value, json};

use crate::pages::Visitor;

async fn write(client: &Client, scores: &[Value]) {
    let answer = client.json(Method::POST, "/api/public/scores", &json!(scores)).await.unwrap();
    assert!(answer.status.is_success() && answer.status != 207, "{}", answer.text());
}

async fn analysis(client: &Client, query: &str) -> Value {
    let answer = client.get(&format!("/api/v1/score-analytics?{query}")).await.unwrap();
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    answer.json()
}

/// A category of a trace.
fn label(name: &str, trace: usize, category: &str) -> Value {
    json!({
        "id": format!("{name}-{trace}"), "name": name, "traceId": format!("t{trace}"), "value": category,
        "dataType": "CATEGORICAL", "timestamp": format!("2026-03-{:02}T10:00:00Z", 1 + trace),
    })
}

/// Twenty traces with both scores, one with `human` only and two with `judge` only.
fn labels() -> Vec<Value> {
    let mut all = Vec::new();
    for trace in 0..20 {
        let (human, judge) = match trace {
            0..10 => ("good", "good"),
            10..12 => ("good", "bad"),
            12..15 => ("bad", "good"),
            _ => ("bad", "bad"),
        };
        all.extend([label("human", trace, human), label("judge", trace, judge)]);
    }
    all.push(label("human", 20, "good"));
    all.extend([label("judge", 21, "good"), label("judge", 22, "bad")]);
    all
}

fn is_close(found: &Value, expected: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - expected).abs() < 1e-4)
}

/// The address of the first link after `mark`.
fn link_after(page: &str, mark: &str) -> String {
    let (_, rest) = page.split_once(mark).unwrap();
    let href = rest.split("href=\"").nth(1).unwrap().split('"').next().unwrap();
    href.replace("&#38;", "&").replace("&amp;", "&")
}

#[tokio::test]
async fn two_scores_agree_as_computed_by_hand_and_a_cell_lists_its_pairs() {
    let app = TestApp::new().await.unwrap();
    write(&app.client, &labels()).await;
    let other = app.other_project().await.unwrap();
    write(&other, &[label("human", 21, "good"), label("judge", 20, "bad")]).await;

    let found = analysis(&app.client, "a=human&b=judge&row=good&column=bad").await;
    let found = &found["comparison"];
    assert_eq!(found["nPairs"], 20);
    assert_eq!((&found["a"]["nUnpaired"], &found["b"]["nUnpaired"]), (&json!(1), &json!(2)));
    assert_eq!(found["rows"][0]["label"], "bad");
    assert_eq!(found["counts"], json!([[5, 3], [2, 10]]));
    let agreement = &found["agreement"];
    assert_eq!(agreement["agreement"]["value"], 0.75);
    // The Wilson interval of 15 of 20.
    assert!(is_close(&agreement["agreement"]["lower"], 0.5313), "{agreement}");
    assert!(is_close(&agreement["agreement"]["upper"], 0.8881), "{agreement}");
    // By chance they agree on 12/20 · 13/20 + 8/20 · 7/20 = 0.53 of the traces.
    assert!(is_close(&agreement["kappa"]["value"], 0.22 / 0.47), "{agreement}");
    assert!(agreement["kappa"]["lower"].as_f64() < agreement["kappa"]["value"].as_f64());
    assert_eq!(agreement["constant"], "good");
    assert_eq!(agreement["constantAgreement"], 0.6);
    let sentence = found["sentence"].as_str().unwrap();
    assert!(sentence.contains("75 % (53 to 89), kappa 0.47"), "{sentence}");
    let cell = &found["cell"];
    let traces: Vec<&str> = cell["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| pair["traceId"].as_str().unwrap())
        .collect();
    assert_eq!((cell["n"].as_u64(), traces), (Some(2), vec!["t11", "t10"]), "newest first");

    let sources = analysis(&app.client, "a=human&aSource=ANNOTATION&b=judge").await;
    assert_eq!(sources["comparison"]["nPairs"], 0);
    assert!(sources["comparison"]["obstacle"].is_string());
    let range =
        "a=human&b=judge&fromTimestamp=2026-03-01T00:00:00Z&toTimestamp=2026-03-11T00:00:00Z";
    let range = analysis(&app.client, range).await;
    assert_eq!(range["comparison"]["nPairs"], 10);
}

#[tokio::test]
async fn a_distribution_counts_the_scores_that_its_links_list() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    write(&app.client, &labels()).await;
    let other = app.other_project().await.unwrap();
    write(&other, &[label("human", 0, "good")]).await;
    let found = analysis(&app.client, "a=human").await;
    let found = &found["distribution"];
    assert_eq!((&found["n"], &found["dataType"]), (&json!(21), &json!("CATEGORICAL")));
    assert_eq!(found["category"], "good");
    assert!(is_close(&found["summary"]["mean"], 13.0 / 21.0), "{found}");
    let counts: Vec<&Value> =
        found["bins"].as_array().unwrap().iter().map(|bin| &bin["count"]).collect();
    assert_eq!(counts, [13, 8]);
    let n_over_time: u64 = found["overTime"]
        .as_array()
        .unwrap()
        .iter()
        .map(|period| period["summary"]["n"].as_u64().unwrap())
        .sum();
    assert_eq!(n_over_time, 21);

    let page = visitor.page("/scores/analytics?a=human").await;
    let list = link_after(&page, "<table class=\"ranked\">");
    let answer = visitor.client.get(&list).await.unwrap();
    assert_eq!(answer.text().matches("<td class=\"what\"").count(), 13, "{list}");

    let page = visitor.page("/scores/analytics?a=human&b=judge").await;
    assert!(page.contains("always answering good would agree on 60 %"), "{page}");
    let cell = link_after(&page, "<th scope=\"row\"><bdi>good</bdi></th>");
    let cell = cell.strip_suffix("#cell").unwrap();
    let listed = visitor.client.get(cell).await.unwrap().text();
    for trace in 0..23 {
        let is_listed = listed.contains(&format!("/traces/t{trace}\""));
        assert_eq!(is_listed, (10..12).contains(&trace), "t{trace}: {listed}");
    }
}

#[tokio::test]
async fn numbers_correlate_and_an_undefined_statistic_has_a_reason() {
    let app = TestApp::new().await.unwrap();
    let number = |name: &str, trace: usize, value: f64| json!({ "id": format!("{name}-{trace}"), "name": name, "traceId": format!("t{trace}"), "value": value });
    let mut scores = Vec::new();
    for trace in 0..20 {
        let value = trace as f64;
        scores.extend([
            number("length", trace, value),
            number("twice", trace, 2.0 * value),
            number("constant", trace, 5.0),
        ]);
    }
    scores.push(number("single", 0, 1.5));
    scores.push(label("judge", 0, "good"));
    write(&app.client, &scores).await;
    let found = analysis(&app.client, "a=length&b=twice").await;
    let correlation = &found["comparison"]["correlation"];
    for name in ["pearson", "spearman"] {
        assert!(is_close(&correlation[name]["value"], 1.0), "{name}: {correlation}");
    }
    // The mean of 0 to 19.
    assert_eq!((&correlation["bias"]["value"], &correlation["mae"]), (&json!(9.5), &json!(9.5)));
    let counts = found["comparison"]["counts"].as_array().unwrap();
    let n: u64 =
        counts.iter().flat_map(|row| row.as_array().unwrap()).filter_map(Value::as_u64).sum();
    assert_eq!(n, 20);
    for (query, reason) in [
        ("a=length&b=constant", "every value of constant is 5"),
        ("a=length&b=single", "there is only one pair"),
    ] {
        let found = analysis(&app.client, query).await;
        let pearson = &found["comparison"]["correlation"]["pearson"];
        assert_eq!((&pearson["value"], &pearson["undefined"]), (&Value::Null, &json!(reason)));
    }
    let found = analysis(&app.client, "a=length&b=judge").await;
    assert!(
        found["comparison"]["obstacle"].is_string() && found["comparison"]["agreement"].is_null()
    );
    for (query, field) in [
        ("", "a"),
        ("a=length&b=length", "b"),
        ("a=length&b=length&bSource=API", "b"),
        ("a=length&row=1&column=1", "row"),
        ("a=length&b=twice&row=1", "row"),
        ("a=length&aSource=NOBODY", "aSource"),
    ] {
        let answer = app.client.get(&format!("/api/v1/score-analytics?{query}")).await.unwrap();
        assert_eq!(answer.status, 400, "{query}: {}", answer.text());
        assert!(answer.text().contains(&format!("\"{field}\"")), "{query}: {}", answer.text());
    }
    for n in 1..=2 {
        app.ingest(&Trace::new(n, "ticket").generation("answer", "Yes.")).await.unwrap();
    }
    let kept = json!({ "id": "kept", "name": "kept", "traceId": trace_id(1), "value": 1.0 });
    write(&app.client, &[kept]).await;
    let missing = json!({ "nTraces": 2, "nMissing": 1, "share": 0.5 });
    let is_counted = |found: &Value| found["distribution"]["missing"] == missing;
    app.wait_for("/api/v1/score-analytics?a=kept", is_counted).await.unwrap();
    let path = "/api/v1/score-thresholds?name=length";
    let found = app.client.get(&format!("{path}&threshold=5,10.5")).await.unwrap().json();
    let passed: Vec<&Value> =
        found["thresholds"].as_array().unwrap().iter().map(|each| &each["nPassed"]).collect();
    assert_eq!((passed, &found["n"]), (vec![&json!(15), &json!(9)], &json!(20)), "{found}");
    for (more, field) in [("&threshold=much", "threshold"), ("&positive=good", "positive")] {
        let answer = app.client.get(&format!("{path}{more}")).await.unwrap();
        assert!(answer.status == 400 && answer.text().contains(field), "{}", answer.text());
    }
    let visitor = Visitor::of(&app).await;
    let page = visitor.page("/scores/thresholds?name=length&threshold=10").await;
    assert!(page.contains("50 % ("), "{page}");
    let page = visitor.page("/scores/analytics?a=length&b=constant").await;
    assert!(page.contains("undefined because"), "{page}");
    let page = visitor.page("/scores/analytics?a=length&b=length").await;
    assert!(page.contains("role=\"alert\""), "{page}");
}
