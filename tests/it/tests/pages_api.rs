//! *As API*: the requests that pages show, sent as they are shown.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

/// Path and query of the requests that a page shows for curl.
fn requests(page: &str) -> Vec<String> {
    let commands = page.split("curl -G -u ").skip(1);
    let request = |command: &str| {
        let (command, _) = command.split_once("</pre>").unwrap();
        let mut command = command.to_owned();
        for (entity, sign) in [("&#39;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">")] {
            command = command.replace(entity, sign);
        }
        let command = command.replace("&amp;", "&");
        let (mut path, mut query) = (String::new(), Vec::new());
        for word in command.split(" \\\n  ").skip(1) {
            let (option, quoted) = word.split_once('\'').unwrap();
            let value = quoted.strip_suffix('\'').unwrap().replace(r"'\''", "'");
            match option {
                "--data-urlencode " => {
                    let (name, value) = value.split_once('=').unwrap();
                    query.push(format!("{name}={}", encode(value)));
                }
                _ => path = format!("/api{}", value.split_once("/api").unwrap().1),
            }
        }
        format!("{path}?{}", query.join("&"))
    };
    commands.map(request).collect()
}

fn ids(answer: &Value) -> Vec<&str> {
    let rows = answer["data"].as_array().unwrap().iter();
    rows.map(|row| row["id"].as_str().unwrap()).collect()
}

async fn with_data(app: &TestApp) {
    for number in 1..=3 {
        let body = json!({
            "id": format!("t{number}"), "name": "it's \"quoted\" $HOME", "sessionId": format!("s{number}"),
            "userId": "ada", "timestamp": format!("2026-03-0{number}T10:00:00Z"),
        });
        let score = json!({
            "id": format!("c{number}"), "name": "a $b 'c'", "value": number, "traceId": format!("t{number}"),
        });
        for (path, body) in [("/api/public/traces", body), ("/api/public/scores", score)] {
            let made = app.client.json(Method::POST, path, &body).await.unwrap();
            assert!(made.status.is_success(), "{}", made.text());
        }
    }
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({}));
    app.rule(&evaluator.await.unwrap(), json!({})).await.unwrap();
}

#[tokio::test]
async fn the_request_that_a_list_shows_gives_the_rows_of_the_list() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    with_data(&app).await;
    let quoted = encode(&format!("name:={}", json!("it's \"quoted\" $HOME")));
    for (path, wanted) in [
        (format!("/traces?q={quoted}&sort=timestamp&n=25"), ["t1", "t2", "t3"].as_slice()),
        ("/traces?q=nothing".to_owned(), &[]),
        ("/traces?from=2026-03-02".to_owned(), &["t3", "t2"]),
        ("/traces?sort=-score.%22a%20%24b%20'c'%22".to_owned(), &["t3", "t2", "t1"]),
        ("/sessions".to_owned(), &["s3", "s2", "s1"]),
        ("/sessions?env=staging".to_owned(), &[]),
        ("/users/ada".to_owned(), &["t3", "t2", "t1"]),
        ("/scores?name=a+%24b+'c'&to=2100-01-01".to_owned(), &["c3", "c2", "c1"]),
        ("/scores?trace=t2&env=default".to_owned(), &["c2"]),
        ("/scores?q=value%3A%3E1+source%3AAPI+traceId%3At3".to_owned(), &["c3"]),
    ] {
        let page = visitor.page(&path).await;
        let shown = requests(&page);
        assert_eq!(shown.len(), 1, "{path}: {page}");
        let answer = app.client.get(&shown[0]).await.unwrap();
        assert_eq!(answer.status, 200, "{}: {}", shown[0], answer.text());
        let mut found = answer.json();
        if path.starts_with("/scores") {
            // They were made one after the other, in less than what tells them apart.
            let rows = found["data"].as_array_mut().unwrap();
            rows.sort_by_key(|row| std::cmp::Reverse(row["id"].to_string()));
        }
        assert_eq!(ids(&found), wanted, "{path}: {}", shown[0]);
    }
    for path in ["/rules", "/evaluators"] {
        let shown = requests(&visitor.page(path).await);
        assert_eq!(shown.len(), 1, "{shown:?}");
        let found = app.client.get(&shown[0]).await.unwrap().json();
        assert_eq!(ids(&found).len(), 1, "{shown:?}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_conditions_of_a_list_are_shown_as_its_request_sends_them() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    with_data(&app).await;
    let page = visitor.page("/traces?q=name%3A~quoted&from=2026-03-02").await;
    let (_, json) = page.split_once("id=\"filter-json\" tabindex=\"0\">").unwrap();
    let (json, _) = json.split_once("</pre>").unwrap();
    let mut json = json.to_owned();
    for (entity, sign) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#60;", "<"),
        ("&#62;", ">"),
        ("&#34;", "\""),
    ] {
        json = json.replace(entity, sign);
    }
    let sent = format!("filter={}", encode(&json));
    assert!(requests(&page)[0].contains(&sent), "{json}");
    let path = format!("/api/public/traces?{sent}");
    let answer = app.client.get(&path).await.unwrap().json();
    assert_eq!(ids(&answer).len(), 2, "{json}");
    // The lists of the API have no such filter.
    for path in ["/sessions?q=errorCount%3A%3E0", "/scores?q=value%3A%3E1"] {
        assert!(!visitor.page(path).await.contains("filter-json"), "{path}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_request_that_a_page_shows_gives_its_thing_and_one_without_has_none() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    with_data(&app).await;
    for (path, id) in [
        ("/traces/t1", "t1"),
        ("/traces/t1?v=thread", "t1"),
        ("/traces/t1?v=log", "t1"),
        ("/sessions/s2", "s2"),
    ] {
        let shown = requests(&visitor.page(path).await);
        assert_eq!(shown.len(), 1, "{path}");
        let found = app.client.get(&shown[0]).await.unwrap().json();
        assert_eq!(found["id"], id, "{}", shown[0]);
    }
    let print = "ab".repeat(32);
    for path in [
        "/users?before=end".to_owned(),
        format!("/scores?fingerprint={print}"),
        "/scores?q=-name%3Aa".to_owned(),
    ] {
        let page = visitor.page(&path).await;
        assert!(!page.contains("API request</summary>"), "{path}: {page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_request_of_the_list_of_users_gives_the_sums_of_its_rows() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, user) in [(1, "ada"), (2, "ada"), (3, "it's \"bob\"")] {
        let trace = Trace::new(n, "turn")
            .attribute("langfuse.session.id", &format!("s{n}"))
            .attribute("langfuse.user.id", user);
        app.ingest(&trace).await.unwrap();
    }
    app.ingest(&Trace::new(4, "nobody's")).await.unwrap();
    for path in ["/users", "/users?env=default&from=2001-01-01", "/users?q=id%3Aada"] {
        let page = visitor.page(path).await;
        let shown = requests(&page);
        assert_eq!(shown.len(), 1, "{path}: {page}");
        let answer = app.client.get(&shown[0]).await.unwrap();
        assert_eq!(answer.status, 200, "{}: {}", shown[0], answer.text());
        let rows = answer.json()["data"].clone();
        let rows = rows.as_array().unwrap().iter();
        let sums = rows.map(|row| (row["userId"].clone(), row["uniq_uniqueSessionIds"].clone()));
        let wanted = [(json!("ada"), json!(2)), (json!("it's \"bob\""), json!(1))];
        assert_eq!(sums.collect::<Vec<_>>(), wanted, "{path}");
        assert_eq!(page.contains("It does not filter users"), path.contains("q="));
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_order_that_is_a_command_stays_one_word_of_the_request() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let page =
        visitor.page("/traces?sort=-score.%22x%24(touch+%2Ftmp%2Fpwned)%60id%60'%20b%22").await;
    let word =
        "--data-urlencode &#39;orderBy=score.x$(touch /tmp/pwned)`id`&#39;\\&#39;&#39; b.desc&#39;";
    assert!(page.contains(word), "{page}");
    app.stop().await.unwrap();
}
