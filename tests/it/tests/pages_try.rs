//! Operations of the API that a page tries for its viewer, over HTTP.

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, trace_id};

use crate::pages::{FORM, OURS, Visitor};

/// The page that tries this operation.
fn path(operation: &str, values: &str) -> String {
    format!("/try/{operation}?{values}")
}

#[tokio::test]
async fn an_operation_is_tried_in_the_project_of_the_session() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    app.ingest(&Trace::new(1, "ours")).await.unwrap();
    let tagged = Trace::new(3, "tagged").attribute("langfuse.trace.tags", r#"["a","b"]"#);
    app.ingest(&tagged).await.unwrap();
    let other = app.other_project().await.unwrap();
    let theirs = Trace::new(2, "theirs").to_json();
    let sent = other.json(Method::POST, OTLP, &theirs).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
    let group = visitor.client.get("/api/reference/traces").await.unwrap();
    let form = format!("action=\"{}/try/getTraceOutline\"", visitor.base);
    assert!(group.text().contains(&form), "{}", group.text());
    let empty = visitor.page(&path("getTraceOutline", "")).await;
    assert!(empty.contains("name=\"p.traceId\""), "{empty}");
    assert!(empty.contains("Required: <code>") && !empty.contains("id=\"response\""));
    let ours = format!("p.traceId={}&p.n=1", trace_id(1));
    let ours = visitor.page(&path("getTraceOutline", &ours)).await;
    let address = format!("/api/v1/traces/{}/outline?n=1", trace_id(1));
    for what in ["Response <code>200</code>", address.as_str(), "ours", Trace::span_id(1).as_str()]
    {
        assert!(ours.contains(what), "{what}: {ours}");
    }
    // Errors are those of the API, and resources of another project are not found.
    let theirs = format!("p.traceId={}", trace_id(2));
    let theirs = visitor.page(&path("getTraceOutline", &theirs)).await;
    assert!(theirs.contains("Response <code>404</code>"), "{theirs}");
    let wrong = format!("p.traceId={}&p.n=0", trace_id(1));
    let wrong = visitor.page(&path("getTraceOutline", &wrong)).await;
    assert!(wrong.contains("Response <code>400</code>"), "{wrong}");
    // A parameter that is a list takes a value in each line.
    for (tags, n) in [("a%0D%0Ab", 1), ("a%0D%0Ac", 0)] {
        let values = format!("p.tags={tags}&p.fields=core");
        let page = visitor.page(&path("listTraces", &values)).await;
        assert!(page.contains("Response <code>200</code>"), "{page}");
        let n_found = page.matches(&trace_id(3)).count();
        assert_eq!(n_found.min(1), n, "{page}");
        assert!(page.contains("<textarea name=\"p.tags\""), "{page}");
    }
    for unknown in ["nothing", "createComment", "deleteTrace"] {
        let address = format!("{}{}", visitor.base, path(unknown, ""));
        let answer = visitor.client.get(&address).await.unwrap();
        assert_eq!(answer.status, 404, "{unknown}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_try_needs_a_session_and_truncates_long_responses() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let long = "long ".repeat(40_000);
    let trace = Trace::new(1, "long").attribute("perpend.observation.output", &long);
    app.ingest(&trace).await.unwrap();
    let values = format!("p.traceId={}", trace_id(1));
    let page = visitor.page(&path("getTrace", &values)).await;
    assert!(page.contains("64 KB"), "{}", page.len());
    assert!(page.len() < 300_000, "{}", page.len());
    // It requires a session: anonymous requests and API keys are refused.
    let address = format!("{}{}", visitor.base, path("getTrace", &values));
    for client in [app.anonymous(), app.client.clone()] {
        let client = client.with_header("accept", "text/html");
        assert_eq!(client.get(&address).await.unwrap().status, 303);
    }
    // Nor does the cookie of a session open the API.
    let api = format!("/api/public/traces/{}", trace_id(1));
    assert_eq!(visitor.client.get(&api).await.unwrap().status, 401);
    let posted = visitor.client.send(Method::POST, &address, &[FORM, OURS], String::new());
    assert_eq!(posted.await.unwrap().status, 405);
    app.stop().await.unwrap();
}
