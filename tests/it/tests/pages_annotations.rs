//! Scores, corrected outputs and comments by people on the page of a trace, without a script.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{KEYS, TestApp, Trace};
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::pages::Visitor;

/// A trace with a generation, and a visitor of its page.
struct AnnotationTest {
    app: TestApp,
    visitor: Visitor,
    trace: String,
}

impl AnnotationTest {
    async fn new() -> Self {
        let app = TestApp::new().await.unwrap();
        let visitor = Visitor::of(&app).await;
        let trace = Trace::new(1, "ticket").generation("answer", "wrong");
        app.ingest(&trace).await.unwrap();
        Self { app, visitor, trace: trace.id }
    }

    fn page(&self) -> String {
        format!("/traces/{}", self.trace)
    }

    /// Sends a form of the page about the generation.
    async fn submit(&self, action: &str, fields: &[(&str, &str)]) -> Answer {
        let step = Trace::span_id(2);
        let page = format!("{}?observation={step}", self.page());
        let own = [("observation", step.as_str())];
        let fields: Vec<(&str, &str)> = own.iter().chain(fields).copied().collect();
        self.visitor.submit(&page, &format!("{}{action}", self.page()), &fields).await
    }

    async fn score_config(&self, body: Value) -> String {
        let path = "/api/public/score-configs";
        let made = self.app.client.json(Method::POST, path, &body).await.unwrap();
        assert_eq!(made.status, 200, "{}", made.text());
        made.json()["id"].as_str().unwrap().to_owned()
    }

    /// The scores of the trace over REST.
    async fn scores(&self) -> Vec<Value> {
        let path = format!("/api/public/v2/scores?traceId={}", self.trace);
        let found = self.app.client.get(&path).await.unwrap().json();
        found["data"].as_array().unwrap().clone()
    }

    /// The page of the generation.
    async fn shown(&self) -> String {
        self.visitor.page(&format!("{}?observation={}", self.page(), Trace::span_id(2))).await
    }
}

#[tokio::test]
async fn a_score_from_a_config_is_by_its_person_on_the_page_and_over_rest() {
    let test = AnnotationTest::new().await;
    let config = json!({ "name": "quality", "dataType": "NUMERIC", "minValue": 0, "maxValue": 1 });
    let config = test.score_config(config).await;
    let fields =
        [("which", "x"), ("config", config.as_str()), ("value", "0.75"), ("comment", "well put")];
    let sent = test.submit("/scores", &fields).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let score = test.scores().await.remove(0);
    for (member, expected) in [
        ("name", json!("quality")),
        ("value", json!(0.75)),
        ("source", json!("ANNOTATION")),
        ("comment", json!("well put")),
        ("configId", json!(config)),
        ("observationId", json!(Trace::span_id(2))),
        ("authorUserId", json!(KEYS.0)),
    ] {
        assert_eq!(score[member], expected, "{member}");
    }
    let id = score["id"].as_str().unwrap();
    let page = test.shown().await;
    assert!(page.contains(&format!("name=\"score\" value=\"{id}\"")), "{page}");
    assert!(page.contains("well put") && page.contains(KEYS.0), "{page}");
    let changed = [("score", id), ("value", "0.5"), ("comment", "")];
    assert_eq!(test.submit("/scores", &changed).await.status, 303);
    let scores = test.scores().await;
    let first = (&scores[0]["id"], &scores[0]["value"], &scores[0]["comment"]);
    assert_eq!((scores.len(), first), (1, (&json!(id), &json!(0.5), &Value::Null)));
    let renamed = format!("/api/public/score-configs/{config}");
    let renamed = test.app.client.json(Method::PATCH, &renamed, &json!({ "name": "style" })).await;
    assert_eq!(renamed.unwrap().status, 200);
    let changed = [("score", id), ("value", "0.25")];
    assert_eq!(test.submit("/scores", &changed).await.status, 303);
    assert_eq!(test.scores().await[0]["name"], "style");
    assert_eq!(test.submit("/scores/delete", &[("score", id)]).await.status, 303);
    assert!(test.scores().await.is_empty());
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_value_that_the_config_does_not_allow_is_a_problem_at_its_field() {
    let test = AnnotationTest::new().await;
    let number = json!({ "name": "quality", "dataType": "NUMERIC", "minValue": 0, "maxValue": 1 });
    let number = test.score_config(number).await;
    let categories = json!([{ "value": 1, "label": "good" }, { "value": 0, "label": "bad" }]);
    let category = json!({ "name": "tone", "dataType": "CATEGORICAL", "categories": categories });
    let category = test.score_config(category).await;
    for (config, value, field) in [
        (number.as_str(), "2", "value"),
        (&number, "many", "value"),
        (&category, "angry", "value"),
        ("none", "1", "config"),
    ] {
        let which = format!("config:{config}");
        let fields = [("which", which.as_str()), ("config", config), ("value", value)];
        let sent = test.submit("/scores", &fields).await;
        assert_eq!(sent.status, 422, "{config} {value}: {}", sent.text());
        let page = sent.text();
        assert!(page.contains(&format!("href=\"#field-{field}\"")), "{page}");
        assert_eq!(page.contains("id=\"field-value\""), field == "value", "{page}");
    }
    let free = [("which", "free"), ("score_name", ""), ("data_type", "NUMERIC"), ("value", "1")];
    let sent = test.submit("/scores", &free).await;
    assert_eq!(sent.status, 422);
    assert!(sent.text().contains("id=\"field-score_name\""), "{}", sent.text());
    assert!(test.scores().await.is_empty());
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_free_score_and_a_corrected_output_need_no_config() {
    let test = AnnotationTest::new().await;
    let free =
        [("score_name", "helpful"), ("data_type", "BOOLEAN"), ("value", "true"), ("comment", "")];
    assert_eq!(test.submit("/scores", &free).await.status, 303);
    let correction = [("correction", "1"), ("value", "right\r\nanswer")];
    assert_eq!(test.submit("/scores", &correction).await.status, 303);
    let scores = test.scores().await;
    let of_name = |name: &str| scores.iter().find(|score| score["name"] == name).unwrap();
    assert_eq!(of_name("helpful")["value"], 1);
    assert_eq!(of_name("output")["dataType"], "CORRECTION");
    assert_eq!(of_name("output")["source"], "ANNOTATION");
    assert_eq!(of_name("output")["stringValue"], "right\nanswer");
    assert!(test.shown().await.contains("right\nanswer"));
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn only_its_author_changes_a_score() {
    let mut test = AnnotationTest::new().await;
    let free = [("score_name", "helpful"), ("data_type", "NUMERIC"), ("value", "0.5")];
    assert_eq!(test.submit("/scores", &free).await.status, 303);
    let id = test.scores().await[0]["id"].as_str().unwrap().to_owned();
    let keys = format!("/api/public/projects/{}/apiKeys", test.app.app.home_project.as_str());
    let made = test.app.organizer().json(Method::POST, &keys, &json!({})).await.unwrap().json();
    let pair = (made["publicKey"].as_str().unwrap(), made["secretKey"].as_str().unwrap());
    test.visitor = Visitor::with_keys(&test.app, pair).await;
    let sent = test.submit("/scores", &[("score", id.as_str()), ("value", "0.25")]).await;
    assert_eq!(sent.status, 403, "{}", sent.text());
    let scores = test.scores().await;
    assert_eq!((&scores[0]["value"], &scores[0]["authorUserId"]), (&json!(0.5), &json!(KEYS.0)));
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn a_comment_has_its_author_and_can_be_deleted() {
    let test = AnnotationTest::new().await;
    let sent = test.submit("/comments", &[("which", "comment"), ("content", "")]).await;
    assert_eq!(sent.status, 422, "{}", sent.text());
    assert!(sent.text().contains("id=\"field-content\""), "{}", sent.text());
    let sent = test.submit("/comments", &[("which", "comment"), ("content", "look here")]).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let path =
        format!("/api/public/comments?objectType=OBSERVATION&objectId={}", Trace::span_id(2));
    let found = test.app.client.get(&path).await.unwrap().json();
    let comment = &found["data"][0];
    assert_eq!(
        (&comment["content"], &comment["authorUserId"]),
        (&json!("look here"), &json!(KEYS.0))
    );
    let id = comment["id"].as_str().unwrap();
    let page = test.shown().await;
    assert!(page.contains(&format!("id=\"comment-{id}\"")), "{page}");
    assert!(
        !test.visitor.page(&test.page()).await.contains("look here"),
        "only at its observation"
    );
    let another = Trace::new(7, "another");
    test.app.ingest(&another).await.unwrap();
    let comment = json!({
        "projectId": test.app.app.home_project.as_str(), "objectType": "TRACE", "objectId": another.id, "content": "x",
    });
    let path_of_comments = "/api/public/comments";
    let made = test.app.client.json(Method::POST, path_of_comments, &comment).await.unwrap().json();
    for elsewhere in [made["id"].as_str().unwrap(), "none"] {
        let sent = test.submit("/comments/delete", &[("comment", elsewhere)]).await;
        assert_eq!(sent.status, 404, "{elsewhere}");
    }
    assert_eq!(test.submit("/comments/delete", &[("comment", id)]).await.status, 303);
    let found = test.app.client.get(&path).await.unwrap().json();
    assert_eq!(found["data"], json!([]));
    test.app.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_not_of_the_project_or_not_by_a_person_is_not_found() {
    let test = AnnotationTest::new().await;
    let other = test.app.other_project().await.unwrap();
    let theirs = Trace::new(9, "theirs");
    let sent = other.json(Method::POST, perpend_it::OTLP, &theirs.to_json()).await.unwrap();
    assert_eq!(sent.status, 200);
    let score = json!({ "traceId": test.trace, "name": "sent", "value": 1 });
    let by_client = test.app.client.json(Method::POST, "/api/public/scores", &score).await.unwrap();
    let by_client = by_client.json()["id"].as_str().unwrap().to_owned();
    let score = json!({ "traceId": theirs.id, "name": "sent", "value": 1 });
    let foreign = other.json(Method::POST, "/api/public/scores", &score).await.unwrap();
    let foreign = foreign.json()["id"].as_str().unwrap().to_owned();
    for id in [by_client.as_str(), &foreign, "none"] {
        for action in ["/scores", "/scores/delete"] {
            let sent = test.submit(action, &[("score", id), ("value", "0")]).await;
            assert_eq!(sent.status, 404, "{action} {id}");
        }
    }
    let free = [("score_name", "helpful"), ("data_type", "NUMERIC"), ("value", "1")];
    let foreign = format!("/traces/{}", theirs.id);
    let sent = test.visitor.submit(&test.page(), &format!("{foreign}/scores"), &free).await;
    assert_eq!(sent.status, 404);
    let comment = [("content", "x")];
    let sent = test.visitor.submit(&test.page(), &format!("{foreign}/comments"), &comment).await;
    assert_eq!(sent.status, 404);
    test.app.stop().await.unwrap();
}
