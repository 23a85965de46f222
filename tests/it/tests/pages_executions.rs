//! The list of executions and the page of one execution over HTTP.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use axum::http::Method;
use perpend_db::{DatabaseUrl, Options, Pool};
use perpend_it::{TestApp, Trace, count};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::{FORM, OURS, Visitor, rows, way};

const FAILED: &str = "/api/v1/failed-executions?limit=100";

/// A rule with its evaluator.
struct Scoring {
    rule: String,
    evaluator: String,
}

/// `n` traces, each with a failed execution over the root, which has no output, and a completed one over the generation.
async fn score_traces(app: &TestApp, n: u64, rule_name: &str) -> Scoring {
    let evaluator = app.evaluator("perpend/text", "length", json!({ "max": 1000 })).await.unwrap();
    let rule = app.rule(&evaluator, json!({ "name": rule_name })).await.unwrap();
    for at in 0..n {
        app.ingest(&Trace::new(at + 1, "root").generation("answer", "x")).await.unwrap();
    }
    let n = usize::try_from(n).unwrap();
    app.wait_for(FAILED, |answer| count(answer) == n).await.unwrap();
    app.scores(n).await.unwrap();
    Scoring { rule, evaluator }
}

/// The ids of the failed executions, the last failed first.
async fn failed_ids(app: &TestApp) -> Vec<String> {
    let failed = app.client.get(FAILED).await.unwrap().json();
    let failed = failed["data"].as_array().unwrap();
    failed.iter().map(|each| each["id"].as_str().unwrap().to_owned()).collect()
}

/// Waits until an execution has failed in this number of attempts.
async fn wait_for_attempts(app: &TestApp, id: &str, n: usize) {
    let has_failed = |answer: &Value| {
        answer["state"] == "failed" && answer["failedAttempts"].as_array().unwrap().len() == n
    };
    app.wait_for(&format!("/api/v1/executions/{id}"), has_failed).await.unwrap();
}

/// A visitor of the second project.
async fn other_visitor(app: &TestApp) -> Visitor {
    app.other_project().await.unwrap();
    let form = "public_key=pk-other&secret_key=sk-other".to_owned();
    let answer = app.anonymous().send(Method::POST, "/login", &[FORM, OURS], form).await.unwrap();
    assert_eq!(answer.status, 303, "{}", answer.text());
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let client = app.anonymous().with_header("cookie", cookie.split(';').next().unwrap());
    let client = client.with_header("accept", "text/html");
    let visitor = Visitor { client, base: String::new() };
    let base = visitor.leads_to("/").await;
    Visitor { base, ..visitor }
}

#[tokio::test]
async fn executions_are_listed_newest_first_with_cursors_in_both_directions() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let empty = visitor.page("/executions").await;
    assert!(empty.contains("No executions yet"), "{empty}");
    score_traces(&app, 13, "long").await;
    let first = visitor.page("/executions?n=25").await;
    assert_eq!(rows(&first).len(), 25, "{first}");
    assert_eq!(way(&first, "prev"), None);
    let older = way(&first, "next").unwrap();
    let second = visitor.client.get(&older).await.unwrap().text();
    assert_eq!(rows(&second).len(), 1, "{second}");
    assert_eq!(way(&second, "next"), None);
    let all: BTreeSet<String> = rows(&first).into_iter().chain(rows(&second)).collect();
    assert_eq!(all.len(), 26);
    let newer = way(&second, "prev").unwrap();
    let back = visitor.client.get(&newer).await.unwrap().text();
    assert_eq!(rows(&back), rows(&first));
    let last = visitor.page("/executions?n=25&before=end").await;
    assert_eq!((rows(&last).len(), rows(&last).pop()), (25, rows(&second).pop()));
    let odd = visitor.page("/executions?before=x").await;
    assert!(odd.contains("`before` ") && rows(&odd).len() == 26, "{odd}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn executions_are_filtered_by_state_class_rule_and_evaluator() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let Scoring { rule, evaluator } = score_traces(&app, 2, "long").await;
    let failed = app.client.get(FAILED).await.unwrap().json();
    let class = failed["data"][0]["errorClass"].as_str().unwrap();
    for (filter, n) in [
        (String::new(), 4),
        ("?state=failed".to_owned(), 2),
        ("?state=completed".to_owned(), 2),
        ("?state=held".to_owned(), 0),
        (format!("?class={class}"), 2),
        ("?class=plugin_trap".to_owned(), 0),
        (format!("?rule={rule}"), 4),
        ("?rule=another".to_owned(), 0),
        (format!("?evaluator={evaluator}&state=completed"), 2),
        (format!("?evaluator=another&rule={rule}"), 0),
        ("?state=odd".to_owned(), 4),
    ] {
        let page = visitor.page(&format!("/executions{filter}")).await;
        assert_eq!(rows(&page).len(), n, "{filter}: {page}");
        assert_eq!(page.contains("No executions match"), n == 0, "{filter}");
        assert_eq!(page.contains("`state` must be"), filter.contains("odd"), "{filter}");
    }
    // Both links keep the filter.
    let page = visitor.page(&format!("/executions?state=failed&rule={rule}")).await;
    assert!(page.contains("/failed-executions/requeue\""), "{page}");
    let option = format!("<option value=\"{rule}\" selected>long</option>");
    assert!(page.contains(&option), "{page}");
    let rules = visitor.page("/rules").await;
    assert!(rules.contains(&format!("/executions?state=failed&amp;rule={rule}\"")), "{rules}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_page_of_an_execution_has_attempts_log_lines_and_scores_and_no_active_content() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let hostile = "<script>alert(1)</script>\u{202e}";
    let Scoring { rule, .. } = score_traces(&app, 1, "<script>alert(2)</script>").await;
    let database = DatabaseUrl::Sqlite(app.data_dir().join("perpend.db"));
    let pool = Pool::open(&database, &Options::default()).await.unwrap();
    let lines = json!([{ "level": "warn", "message": hostile, "fields": "{\"a\":\"<b>\"}" }]);
    let log = "INSERT INTO execution_logs (execution_seq, project_id, logged_at, lines) \
               SELECT seq, project_id, created_at, $1 FROM executions WHERE state = 6";
    pool.change(log, &[lines.to_string().into()]).await.unwrap();
    pool.close().await;
    let id = failed_ids(&app).await.remove(0);
    let one = app.client.get(&format!("/api/v1/executions/{id}")).await.unwrap().json();
    let page = visitor.page(&format!("/executions/{id}")).await;
    let requeue = format!("action=\"{}/executions/{id}/requeue\"", visitor.base);
    let target = one["traceId"].as_str().unwrap();
    for part in [
        one["errorClass"].as_str().unwrap(),
        "&#60;script&#62;alert(1)&#60;/script&#62;[U+202E]",
        "&#60;script&#62;alert(2)",
        &format!("/traces/{target}?observation="),
        &format!("/rules/{}", encode(&rule)),
        "no current scores",
        &requeue,
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script>alert") && !page.contains("<b>\""), "{page}");
    let list = visitor.page("/executions").await;
    assert!(!list.contains("<script>alert"), "{list}");

    let scores = app.scores(1).await.unwrap();
    let scored = visitor.page("/scores").await;
    let href = format!("{}/executions/", visitor.base);
    let (_, rest) = scored.split_once(&href).unwrap();
    let completed = rest.split('"').next().unwrap();
    let page = visitor.page(&format!("/executions/{completed}")).await;
    assert!(page.contains("class=\"card-score\"") && page.contains("Fingerprint"), "{page}");
    assert!(page.contains(scores[0]["name"].as_str().unwrap()), "{page}");
    assert!(!page.contains(">Requeue</button>"), "only failed executions are requeued: {page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn failed_executions_are_requeued_one_by_one_and_by_rule() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let Scoring { rule, .. } = score_traces(&app, 2, "long").await;
    let [one, other]: [String; 2] = failed_ids(&app).await.try_into().unwrap();
    let address = format!("{}/executions/{one}", visitor.base);
    let body = format!("form={}&back={}", visitor.token(&address).await, encode(&address));
    let sent = visitor.send(&format!("{address}/requeue"), body).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    assert_eq!(sent.headers["location"].to_str().unwrap(), address);
    wait_for_attempts(&app, &one, 2).await;
    wait_for_attempts(&app, &other, 1).await;
    let page = visitor.page(&format!("/executions/{one}")).await;
    assert_eq!(page.matches("data-label=\"CPU time\"").count(), 2, "{page}");

    let list = format!("{}/executions?state=failed&rule={rule}", visitor.base);
    let token = visitor.token(&list).await;
    let all = format!("{}/failed-executions/requeue", visitor.base);
    let body = |rule: &str| format!("form={token}&rule={rule}&back={}", encode(&list));
    assert_eq!(visitor.send(&all, body("another")).await.status, 303);
    let sent = visitor.send(&all, body(&rule)).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    wait_for_attempts(&app, &one, 3).await;
    wait_for_attempts(&app, &other, 2).await;
    let wrong = format!("form={token}&class=odd");
    assert!(visitor.send(&all, wrong).await.status.is_client_error());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn executions_of_another_project_are_not_found() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    score_traces(&app, 1, "long").await;
    let id = failed_ids(&app).await.remove(0);
    let stranger = other_visitor(&app).await;
    assert_ne!(stranger.base, visitor.base);
    let list = stranger.page("/executions").await;
    assert!(list.contains("No executions yet"), "{list}");
    for base in [&stranger.base, &visitor.base] {
        let answer = stranger.client.get(&format!("{base}/executions/{id}")).await.unwrap();
        assert_eq!(answer.status, 404, "{base}");
    }
    let token = stranger.token(&format!("{}/executions", stranger.base)).await;
    let all = format!("{}/failed-executions/requeue", stranger.base);
    assert_eq!(stranger.send(&all, format!("form={token}")).await.status, 303);
    wait_for_attempts(&app, &id, 1).await;
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_list_of_executions_is_exported_with_its_filter_and_columns() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let Scoring { rule, evaluator } = score_traces(&app, 2, "long").await;
    let export = async |query: &str| {
        let path = format!("{}/export/executions?{query}", visitor.base);
        visitor.client.get(&path).await.unwrap()
    };
    let answer = export("format=jsonl&state=failed").await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = answer.text();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{text}");
    for row in &rows {
        assert_eq!((&row["state"], &row["rule"]), (&json!("failed"), &json!("long")), "{row}");
        assert_eq!((&row["ruleId"], &row["evaluatorId"]), (&json!(rule), &json!(evaluator)));
        assert_eq!(row["target"], "observation", "{row}");
        assert!(row["errorClass"].is_string() && row["traceId"].is_string(), "{row}");
        assert!(row["attempts"].as_u64() > Some(0) && row["finished"].is_string(), "{row}");
    }
    let narrow = export("format=jsonl&cols=attempts").await.text();
    let first: Value = serde_json::from_str(narrow.lines().next().unwrap()).unwrap();
    let names: Vec<&String> = first.as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "attempts"]);
    let table = export("format=csv").await.text();
    assert_eq!(table.lines().count(), 5, "headings and rows: {table}");
    for query in ["", "format=csv&state=odd", "format=csv&sort=x", "format=csv&cols=luck"] {
        assert_eq!(export(query).await.status, 400, "{query}");
    }
    let page = visitor.page("/executions?state=failed").await;
    let href = format!("{}/export/executions?format=csv&", visitor.base);
    assert!(page.replace("&#38;", "&").contains(&href), "{page}");
    app.stop().await.unwrap();
}
