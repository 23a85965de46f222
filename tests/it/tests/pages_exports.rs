//! Downloads of the lists of traces, observations, sessions, users and scores as CSV and JSON Lines.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::TestApp;
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::pages::{Visitor, rows, way};

/// Number of traces, sessions and scores: more than one page of a list and of a download.
const N: usize = 130;
/// Number of users.
const N_USERS: usize = 3;
/// Metadata of the newest trace.
const NOTE: &str = "=1+1,\"quoted\"\r\nsecond line";

async fn filled() -> TestApp {
    let app = TestApp::new().await.unwrap();
    let events = (0..N).map(|n| {
        let at = format!("2026-03-01T10:{:02}:{:02}Z", n / 60, n % 60);
        let note = if n + 1 == N { json!(NOTE) } else { json!(-1) };
        let trace = json!({
            "id": format!("t{n}"), "timestamp": at, "name": format!("turn {n}"),
            "sessionId": format!("s{n}"), "userId": format!("u{}", n % N_USERS),
            "metadata": { "note": note },
        });
        let score = json!({
            "id": format!("c{n}"), "traceId": format!("t{n}"), "name": format!("tone {n}"),
            "value": 0.5, "comment": "@a",
        });
        let step = json!({
            "id": format!("o{n}"), "traceId": format!("t{n}"), "name": format!("step {n}"),
            "startTime": at, "endTime": at,
        });
        [
            json!({ "id": format!("oe{n}"), "type": "span-create", "timestamp": at, "body": step }),
            json!({ "id": format!("te{n}"), "type": "trace-create", "timestamp": at, "body": trace }),
            json!({ "id": format!("ce{n}"), "type": "score-create", "timestamp": at, "body": score }),
        ]
    });
    let events: Vec<[Value; 3]> = events.collect();
    let batch = json!({ "batch": events.as_flattened() });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &batch);
    assert_eq!(sent.await.unwrap().json()["errors"], json!([]));
    app
}

/// The response of a download that succeeds.
async fn export(visitor: &Visitor, path: &str) -> Answer {
    let answer = visitor.client.get(&format!("{}/export/{path}", visitor.base)).await.unwrap();
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer
}

async fn json_rows(visitor: &Visitor, path: &str) -> Vec<Value> {
    let text = export(visitor, path).await.text();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The cells of a CSV file, by RFC 4180.
fn csv_rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, is_quoted) {
            ('"', true) if chars.peek() == Some(&'"') => cell.extend(chars.next()),
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => row.push(std::mem::take(&mut cell)),
            ('\r', false) => {
                assert_eq!(chars.next(), Some('\n'));
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            (c, _) => cell.push(c),
        }
    }
    assert!(cell.is_empty() && row.is_empty() && !is_quoted, "the last line is incomplete");
    rows
}

/// The texts of the rows on all pages of a list.
async fn listed(visitor: &Visitor, path: &str, of_page: fn(&str) -> Vec<String>) -> Vec<String> {
    let mut page = visitor.page(path).await;
    let mut all = of_page(&page);
    while let Some(next) = way(&page, "next") {
        page = visitor.client.get(&next).await.unwrap().text();
        all.extend(of_page(&page));
    }
    all
}

fn score_names(page: &str) -> Vec<String> {
    let rows = page.split("<td class=\"what\"><bdi").skip(1);
    let names = rows.filter_map(|row| row.split_once('>')?.1.split("</bdi>").next());
    names.map(str::to_owned).collect()
}

/// A list, its query, the reader of its rows, the column that names them, and their number.
type Case = (&'static str, &'static str, fn(&str) -> Vec<String>, &'static str, usize);

#[tokio::test]
async fn a_download_has_the_rows_of_all_pages_of_its_list_in_their_order() {
    let app = filled().await;
    let visitor = Visitor::of(&app).await;
    let cases: [Case; 8] = [
        ("traces", "", rows, "name", N),
        ("traces", "q=name%3A~2&sort=timestamp", rows, "name", 31),
        ("observations", "", rows, "name", N),
        ("observations", "q=name%3A%5Estep+id%3A%7E2&cols=userId", rows, "name", 31),
        ("sessions", "", rows, "id", N),
        ("users", "", rows, "id", N_USERS),
        ("users", "q=id%3Au1", rows, "id", 1),
        ("scores", "q=name%3A~tone", score_names, "name", N),
    ];
    for (list, query, of_page, member, n) in cases {
        let on_pages = listed(&visitor, &format!("/{list}?{query}"), of_page).await;
        let path = format!("{list}?format=jsonl&{query}");
        let exported = json_rows(&visitor, &path).await;
        let texts = exported.iter().map(|row| row[member].as_str().unwrap().to_owned());
        assert_eq!(texts.collect::<Vec<_>>(), on_pages, "{path}");
        assert_eq!(on_pages.len(), n, "{path}");
        let table = csv_rows(&export(&visitor, &format!("{list}?format=csv&{query}")).await.text());
        assert_eq!(table.len(), n + 1, "{path}: headings and rows");
        assert!(table.iter().all(|row| row.len() == table[0].len()), "{path}");
        let page = visitor.page(&format!("/{list}?{query}")).await;
        for format in ["csv", "jsonl"] {
            assert!(page.contains(&format!("/export/{list}?format={format}")), "{page}");
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn cells_survive_a_csv_parser_and_formulas_are_neutralized() {
    let app = filled().await;
    let visitor = Visitor::of(&app).await;
    let path = "traces?cols=trace,metadata.note,score.tone%20129";
    let answer = export(&visitor, &format!("{path}&format=csv")).await;
    assert_eq!(answer.headers["content-type"], "text/csv; charset=utf-8");
    let disposition = answer.headers["content-disposition"].to_str().unwrap();
    assert!(disposition.starts_with("attachment; filename=\"traces-"), "{disposition}");
    assert_eq!(answer.headers["perpend-row-limit"], "100000");
    let table = csv_rows(&answer.text());
    let neutralized = format!("'{NOTE}");
    assert_eq!(table[1], ["t129", "turn 129", neutralized.as_str(), "0.5"]);
    assert_eq!(table[2], ["t128", "turn 128", "-1", ""], "a number is not text");
    let exported = json_rows(&visitor, &format!("{path}&format=jsonl")).await;
    let expected = json!({
        "id": "t129", "name": "turn 129", "metadata.note": NOTE, "score.tone 129": 0.5,
    });
    assert_eq!(exported[0], expected);
    let scores = csv_rows(&export(&visitor, "scores?format=csv").await.text());
    let comment = scores[0].iter().position(|heading| heading == "Comment").unwrap();
    assert!(scores[1..].iter().all(|row| row[comment] == "'@a"), "{scores:?}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_download_rejects_invalid_parameters_and_other_projects() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for list in ["traces", "observations", "sessions", "users", "scores"] {
        for query in [
            "",
            "format=",
            "format=%3Cscript%3Ealert(1)%3C/script%3E",
            "format=csv&format=jsonl",
            "format=csv&q=nosuch%3A1",
            "format=csv&from=nonsense",
            "format=csv&sort=nonsense",
        ] {
            let path = format!("{}/export/{list}?{query}", visitor.base);
            let answer = visitor.client.get(&path).await.unwrap();
            assert_eq!(answer.status, 400, "{path}: {}", answer.text());
            assert!(!answer.text().contains("<script>alert"), "{path}");
        }
        let foreign = format!("/project/another/export/{list}?format=csv");
        assert_eq!(visitor.client.get(&foreign).await.unwrap().status, 404, "{foreign}");
        let own = format!("{}/export/{list}?format=csv", visitor.base);
        assert_eq!(app.anonymous().get(&own).await.unwrap().status, 303, "{own}");
        assert_eq!(csv_rows(&visitor.client.get(&own).await.unwrap().text()).len(), 1, "{own}");
    }
    app.stop().await.unwrap();
}
