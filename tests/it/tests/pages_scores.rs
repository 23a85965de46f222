//! The list of scores over HTTP: filter, pages in both directions, columns, and superseded scores.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

/// The names of the scores on a page, in its order.
fn names(page: &str) -> Vec<&str> {
    let rows = page.split("<td class=\"what\"><bdi").skip(1);
    let names = rows.filter_map(|row| row.split_once('>')?.1.split("</bdi>").next());
    names.collect()
}

/// Where a link of the page leads.
fn way(page: &str, begins: &str) -> Option<String> {
    let (_, link) = page.split_once(begins)?;
    let link = link.split("href=\"").nth(1)?.split('"').next()?;
    Some(link.replace("&#38;", "&"))
}

/// Of one time, so that their ids alone tell their order.
const AT: &str = "2026-03-02T10:00:00Z";

async fn give(app: &TestApp, scores: &[Value]) {
    let event = |score: &Value| {
        let id = format!("event {}", score["id"]);
        json!({ "id": id, "type": "score-create", "timestamp": AT, "body": score })
    };
    let events: Vec<Value> = scores.iter().map(event).collect();
    let batch = json!({ "batch": events });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &batch);
    assert_eq!(sent.await.unwrap().json()["errors"], json!([]));
}

/// The matches of each condition alone, and the time range of matches at other times.
async fn assert_an_empty_list_explains_itself(visitor: &Visitor) {
    let q = encode("name:tone value:>0.5 dataType:CATEGORICAL");
    let none = visitor.page(&format!("/scores?q={q}&env=staging")).await;
    for text in [
        "name:tone</bdi></code>: 1 score ",
        "value:&#62;0.5</bdi></code>: 1 score ",
        "Environments <bdi>staging</bdi>: 1 score ",
    ] {
        assert!(none.contains(text), "{text}: {none}");
    }
    let none = visitor.page("/scores?q=value%3A%3E0&from=2020-01-01&to=2020-01-02").await;
    assert!(none.contains("to 2020-01-02T00:00:00Z</bdi>: no score "), "{none}");
    assert!(none.contains("Matches at other times, from <time"), "{none}");
    let none = visitor.page("/scores?name=nosuch&trace=t1").await;
    assert!(none.contains("<bdi>name: nosuch</bdi></code> · <a href="), "{none}");
    assert!(none.contains("/scores?trace=t1\">remove"), "{none}");
}

#[tokio::test]
async fn each_condition_narrows_the_list_and_an_unknown_column_is_named() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    give(
        &app,
        &[
            json!({ "id": "1", "name": "tone", "value": 0.2, "traceId": "t1",
                    "comment": "rather rude", "metadata": { "by": "ann" } }),
            json!({ "id": "2", "name": "quality", "value": 0.9, "traceId": "t1",
                    "environment": "staging", "observationId": "o1" }),
            json!({ "id": "3", "name": "label", "value": "warm", "dataType": "CATEGORICAL",
                    "sessionId": "talk" }),
        ],
    )
    .await;
    for (q, expected) in [
        ("", vec!["label", "quality", "tone"]),
        ("name:tone", vec!["tone"]),
        ("name:tone,label", vec!["label", "tone"]),
        ("-name:tone", vec!["label", "quality"]),
        ("TON", vec!["tone"]),
        ("value:<0.5", vec!["tone"]),
        ("value:0.2..0.9", vec!["quality", "tone"]),
        ("value:null", vec!["label"]),
        ("stringValue:warm", vec!["label"]),
        ("dataType:CATEGORICAL", vec!["label"]),
        ("source:API", vec!["label", "quality", "tone"]),
        ("source:EVAL", vec![]),
        ("environment:staging", vec!["quality"]),
        ("timestamp:<2026-03-02", vec![]),
        ("timestamp:>=2026-03-02", vec!["label", "quality", "tone"]),
        ("traceId:t1", vec!["quality", "tone"]),
        ("traceId:t1 observationId:null", vec!["tone"]),
        ("observationId:o1", vec!["quality"]),
        ("sessionId:talk", vec!["label"]),
        ("executionId:set", vec![]),
        ("fingerprint:null", vec!["label", "quality", "tone"]),
        ("authorUserId:nobody", vec![]),
        ("configId:none", vec![]),
        ("comment:~rude", vec!["tone"]),
        ("metadata.by:ann", vec!["tone"]),
        ("nme:tone value:<0.5", vec!["tone"]),
    ] {
        let page = visitor.page(&format!("/scores?q={}", encode(q))).await;
        assert_eq!(names(&page), expected, "{q}: {page}");
        let is_faulty = q.starts_with("nme");
        assert_eq!(page.contains("unknown column"), is_faulty, "{q}");
        assert_eq!(page.contains("No scores match"), expected.is_empty(), "{q}");
    }
    assert_an_empty_list_explains_itself(&visitor).await;
    // Parameters of older URLs apply in addition to the filter, and are kept when it changes.
    let both = visitor.page("/scores?name=tone&trace=t1&q=value%3A%3C0.5").await;
    assert_eq!(names(&both), ["tone"], "{both}");
    for (name, value) in [("name", "tone"), ("trace", "t1")] {
        let field = format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">");
        assert!(both.contains(&field), "{both}");
    }
    assert!(both.contains(">Comment</th>"), "{both}");
    for absent in ["Author", "Config", "Execution", "Fingerprint"] {
        let named = [format!(">{absent}</th>"), format!("<dt>{absent}</dt>")];
        assert!(named.iter().all(|name| !both.contains(name)), "{both}");
    }
    let odd = visitor.page("/scores?before=x&superseded=yes").await;
    assert!(odd.contains("`before` ") && odd.contains("`superseded` "), "{odd}");
    assert_eq!(names(&odd).len(), 3, "{odd}");
    let many: Vec<String> = (0..=100).map(|n| n.to_string()).collect();
    let long = format!("/scores?q=-name%3A{}", many.join("%2C"));
    let long = visitor.page(&long).await;
    assert!(long.contains("at most 100") && names(&long).len() == 3);
    // Suggestions for a filter.
    let suggested = visitor.page("/_/scores/suggest?q=sour").await;
    assert!(suggested.contains("source"), "{suggested}");
    // Scores have environments that no trace has.
    let suggested = visitor.page("/_/scores/suggest?q=environment%3A").await;
    let offered = "data-whole=\"environment:staging \"";
    assert!(suggested.contains(offered), "{suggested}");
    assert!(suggested.contains("1 of 3"), "{suggested}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_long_value_shows_its_displayed_part_and_an_id_links_to_the_card_of_its_score() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket");
    app.ingest(&trace).await.unwrap();
    let long = json!({ "id": "an-essay", "name": "essay", "value": "é".repeat(100),
        "dataType": "CATEGORICAL", "traceId": trace.id.to_string() });
    give(&app, &[long]).await;
    let list = visitor.page("/scores").await;
    assert!(list.contains("60 of 100 characters"), "{list}");
    let address = format!("{}/search?q=an-essay", visitor.base);
    let found = visitor.client.get(&address).await.unwrap();
    let there = found.headers.get("location");
    let there = there.map_or_else(|| found.text(), |there| there.to_str().unwrap().to_owned());
    assert!(there.contains(&format!("/traces/{}#score-an-essay", trace.id)), "{there}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_list_goes_forth_and_back_over_equal_times_and_repeats_nothing() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let scores: Vec<Value> = (0..120)
        .map(|n| {
            json!({ "id": format!("s:{n:03} &%ü"), "name": format!("n{n:03}"), "value": n, "traceId": "t" })
        })
        .collect();
    give(&app, &scores).await;
    let expected: Vec<String> = (0..120).rev().map(|n| format!("n{n:03}")).collect();
    for path in ["/scores", "/scores?q=comment%3Anull", "/scores?trace=t"] {
        let mut pages = vec![visitor.page(path).await];
        while let Some(next) = way(pages.last().unwrap(), "rel=\"next\" ") {
            let next = visitor.client.get(&next).await.unwrap();
            assert_eq!(next.status, 200);
            pages.push(next.text());
        }
        let forth: Vec<&str> = pages.iter().flat_map(|page| names(page)).collect();
        assert_eq!((pages.len(), forth), (3, expected.iter().map(String::as_str).collect()));
        assert!(!pages[0].contains("rel=\"prev\""), "{path}");
        assert!(pages[2].contains("⇤ First"), "{path}");
        // The part before the last one is the second again, and the one before that the first.
        for at in [1, 0] {
            let previous = way(&pages[at + 1], "rel=\"prev\" ").unwrap();
            assert!(previous.contains("before="), "{previous}");
            let again = visitor.client.get(&previous).await.unwrap().text();
            assert_eq!(names(&again), names(&pages[at]), "{path}");
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn superseded_scores_are_counted_and_shown_next_to_their_successors() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let made = app.evaluator("perpend/text", "length", json!({ "max": 10 }));
    let rescores = json!({
        "target": "trace", "settleMs": 0, "quietMs": 0, "late": "rescore", "onMissing": "empty",
    });
    app.rule(&made.await.unwrap(), rescores).await.unwrap();
    let trace = Trace::new(1, "ticket")
        .attribute("perpend.observation.output", "Monday.")
        .generation("answer", "On Monday.");
    app.ingest(&trace).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(1));
    let first = app.scores(1).await.unwrap();
    let page = visitor.page("/scores").await;
    assert!(!page.contains("superseded score"), "{page}");
    for column in ["Execution", "Fingerprint"] {
        assert!(page.contains(&format!("<dt>{column}</dt>")), "{page}");
    }
    app.ingest(&trace.generation("late", "Or on Tuesday.")).await.unwrap();
    app.clock.advance(std::time::Duration::from_secs(1));
    let list = "/api/public/v3/scores?fields=details,subject&limit=100";
    let is_new = |answer: &Value| {
        let all = answer["data"].as_array().unwrap();
        matches!(all.as_slice(), [one] if one["id"] != first[0]["id"])
    };
    app.wait_for(list, is_new).await.unwrap();
    let page = visitor.page("/scores").await;
    assert_eq!(names(&page).len(), 1, "{page}");
    assert!(page.contains("1 superseded score hidden"), "{page}");
    let shown = way(&page, "1 superseded score hidden").unwrap();
    assert!(shown.ends_with("/scores?superseded=1"), "{shown}");
    let shown = visitor.client.get(&shown).await.unwrap().text();
    assert_eq!(names(&shown), ["length", "length"], "{shown}");
    assert_eq!(shown.matches("<tr class=\"older\">").count(), 1, "{shown}");
    assert!(shown.contains("current: "), "{shown}");
    assert!(shown.contains("1 superseded score shown"), "{shown}");
    // Another filter keeps them shown.
    let field = "<input type=\"hidden\" name=\"superseded\" value=\"1\">";
    assert!(shown.contains(field), "{shown}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_score_names_its_trace_and_leads_to_its_target() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "refund <1>").generation("answer", "x");
    app.ingest(&trace).await.unwrap();
    let id = trace.id.as_str();
    give(
        &app,
        &[
            json!({ "id": "1", "name": "tone", "value": 1, "traceId": id }),
            json!({ "id": "2", "name": "tone", "value": 1, "traceId": id, "observationId": "o1" }),
            json!({ "id": "3", "name": "tone", "value": 1, "traceId": "not-sent" }),
        ],
    )
    .await;
    let page = visitor.page("/scores").await;
    let link = format!(
        "href=\"{}/traces/{id}\" title=\"{id}\"><bdi>refund &#60;1&#62;</bdi></a>",
        visitor.base
    );
    assert!(page.contains(&format!("trace <a class=\"name\" {link}")), "{page}");
    let link =
        format!("/traces/{id}?observation=o1\" title=\"o1\"><bdi>refund &#60;1&#62;</bdi></a>");
    assert!(page.contains("observation in <a") && page.contains(&link), "{page}");
    assert!(page.contains("title=\"not-sent\"><code><bdi>not-sent</bdi></code></a>"), "{page}");
    app.stop().await.unwrap();
}
