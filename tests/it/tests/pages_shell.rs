//! What stands around the pages, over HTTP: search, caching, preferences, the API reference, what is new.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use axum::http::Method;
use flate2::Compression;
use flate2::write::GzEncoder;
use perpend_it::{TestApp, Trace};
use perpend_ui::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

async fn post(app: &TestApp, path: &str, body: Value) -> Value {
    let answer = app.client.json(Method::POST, path, &body).await.unwrap();
    assert!(answer.status.is_success(), "{}", answer.text());
    answer.json()
}

fn id(made: &Value) -> String {
    made["id"].as_str().unwrap().to_owned()
}

fn n_compressed(html: &str) -> usize {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(html.as_bytes()).unwrap();
    gzip.finish().unwrap().len()
}

#[tokio::test]
async fn whatever_has_an_id_is_found_by_it_and_one_enter_goes_there() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let base = visitor.base.clone();
    let trace = Trace::new(7, "ticket")
        .generation("answer", "Thank you.")
        .attribute("langfuse.session.id", "chat <1>")
        .attribute("langfuse.user.id", "ada");
    app.ingest(&trace).await.unwrap();
    let dataset = post(
        &app,
        "/api/public/v2/datasets",
        json!({ "name": "tickets" }),
    )
    .await;
    let item = json!({ "datasetName": "tickets", "input": "x" });
    let item = post(&app, "/api/public/dataset-items", item).await;
    let link = json!({ "runName": "first", "datasetItemId": item["id"], "traceId": trace.id });
    let link = post(&app, "/api/public/dataset-run-items", link).await;
    let run = link["datasetRunId"].as_str().unwrap();
    let score = json!({ "name": "tone", "value": 1, "traceId": trace.id });
    let score = id(&post(&app, "/api/public/scores", score).await);
    let config = json!({ "values": ["thank"] });
    let evaluator = app.evaluator("perpend/text", "contains-all", config);
    let evaluator = evaluator.await.unwrap();
    let rule = app.rule(&evaluator, json!({})).await.unwrap();
    let step = Trace::span_id(2);
    let dataset = id(&dataset);
    for (wanted, href) in [
        (trace.id.as_str(), format!("/traces/{}", trace.id)),
        (&step, format!("/traces/{}?observation={step}", trace.id)),
        ("chat <1>", "/sessions/chat%20%3C1%3E".to_owned()),
        ("ada", "/users/ada".to_owned()),
        (&dataset, format!("/datasets/{dataset}")),
        (run, format!("/datasets/{dataset}/runs/{run}")),
        (&score, format!("/traces/{}", trace.id)),
        (&evaluator, format!("/rules#evaluator-{evaluator}")),
        (&rule, format!("/rules#rule-{rule}")),
    ] {
        let href = format!("{base}{href}");
        for prefix in ["", "#", "  "] {
            let asked = encode(&format!("{prefix}{wanted}"));
            let there = format!("{base}/search?q={asked}&go=1");
            assert_eq!(visitor.leads_to(&there).await, href);
        }
        let shown = visitor.page(&format!("/search?q={}", encode(wanted))).await;
        let linked = format!("href=\"{}\"", href.replace('&', "&#38;"));
        assert!(shown.contains(&linked), "{wanted}: {shown}");
        let hits = visitor
            .page(&format!("/_/search?q={}", encode(wanted)))
            .await;
        assert!(hits.contains("role=\"option\"") || wanted == step, "{hits}");
        assert!(!hits.contains("<html"), "a fragment: {hits}");
    }
    // What stands in another project is not found.
    let other = app.other_project().await.unwrap();
    let foreign = other.json(
        Method::POST,
        "/api/public/v2/datasets",
        &json!({ "name": "theirs" }),
    );
    let foreign = id(&foreign.await.unwrap().json());
    let none = visitor.page(&format!("/search?q={foreign}&go=1")).await;
    assert!(none.contains("Nothing found"), "{none}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn names_are_found_by_their_beginning_and_a_prefix_narrows_the_search() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for n in 0..12 {
        let name = format!("Tickets of week {n} <b>{}", "long ".repeat(15));
        post(&app, "/api/public/v2/datasets", json!({ "name": name })).await;
        let trace = Trace::new(n + 1, "ticket")
            .attribute("langfuse.session.id", &format!("tickets of somebody {n}"))
            .attribute("langfuse.user.id", &format!("tickets of somebody {n}"));
        app.ingest(&trace).await.unwrap();
    }
    let prompt = json!({ "name": "tickets/answer", "prompt": "Answer {{it}}." });
    post(&app, "/api/public/v2/prompts", prompt).await;
    let page = visitor.page("/search?q=tickets&go=1").await;
    for part in [
        "Datasets",
        "Sessions",
        "Users",
        "Prompts",
        "tickets/answer",
        "The first 8 are shown",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(
        page.contains("&#60;b&#62;") && !page.contains("week 3 <b>"),
        "{page}"
    );
    let hits = visitor.page("/_/search?q=tickets").await;
    assert_eq!(hits.matches("role=\"option\"").count(), 8 * 3 + 1);
    assert!(n_compressed(&hits) <= 4 << 10, "{}", n_compressed(&hits));
    let ids = visitor.page("/search?q=%23tickets").await;
    assert!(ids.contains("Nothing found"), "{ids}");
    let pages = visitor.page("/search?q=%3Esess").await;
    assert!(
        pages.contains(&format!("href=\"{}/sessions\"", visitor.base)),
        "{pages}"
    );
    assert!(!pages.contains("Datasets</h2>"), "{pages}");
    assert!(
        visitor
            .page("/search?q=%3F")
            .await
            .contains("Exact ids only")
    );
    assert!(visitor.page("/search").await.contains("Overview</bdi>"));
    for (wrong, named) in [
        (format!("q={}", "x".repeat(801)), "800 characters"),
        ("q=x&below=yesterday".to_owned(), "older traces"),
    ] {
        let address = format!("{}/search?{wrong}", visitor.base);
        let answer = visitor.client.get(&address).await.unwrap();
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().contains(named), "{}", answer.text());
    }
    app.stop().await.unwrap();
}
