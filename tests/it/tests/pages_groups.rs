//! The lists of sessions and users over HTTP: their filter, their scores, and the page of a user.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{OTLP, TestApp, Trace, trace_id};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::{Visitor, rows, way};

/// A trace of one span that begins so many seconds after the first one.
fn span(trace: u64, at: u64, session: &str, user: &str) -> Value {
    let attribute =
        |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
    let nanos = |at: u64| format!("{}", (1_700_000_000 + at) * 1_000_000_000);
    json!({
        "traceId": trace_id(trace), "spanId": Trace::span_id(1), "name": "turn",
        "startTimeUnixNano": nanos(at), "endTimeUnixNano": nanos(at + 1),
        "attributes": [attribute("session.id", session), attribute("user.id", user)],
    })
}

async fn send(app: &TestApp, spans: &[Value]) {
    for part in spans.chunks(1_000) {
        let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": part }] }] });
        let sent = app.client.json(Method::POST, OTLP, &body).await.unwrap();
        assert_eq!(sent.status, 200, "{}", sent.text());
    }
}

async fn score(app: &TestApp, body: Value) {
    let made = app.client.json(Method::POST, "/api/public/scores", &body);
    let made = made.await.unwrap();
    assert!(made.status.is_success(), "{}", made.text());
}

/// A list with this filter.
fn filtered(list: &str, q: &str) -> String {
    format!("/{list}?q={}", encode(q))
}

/// Where none fits, what each condition leaves alone.
async fn assert_each_condition_is_shown(visitor: &Visitor) {
    let none = visitor.page(&filtered("users", "traceCount:>9")).await;
    assert!(none.contains("No users match"), "{none}");
    let none = format!("{}&env=default&from=-1h", filtered("users", "traceCount:>9"));
    let none = visitor.page(&none).await;
    for part in [
        "<code><bdi>traceCount:&#62;9</bdi></code>: no user · <a href=",
        "Time <bdi>Last 1 hour</bdi>: no user · <a href=",
        "Environments <bdi>default</bdi>: 3 users · <a href=",
        "/users\">show all users",
    ] {
        assert!(none.contains(part), "{part}: {none}");
    }
}

#[tokio::test]
async fn sessions_and_users_are_filtered_by_sums_and_unknown_columns_are_marked() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let hostile = "a\"b\\ <i>:, (x) null ü";
    let mut failed = span(7, 900, "late", "eve");
    failed["status"] = json!({ "code": 2, "message": "no" });
    let spans = [
        span(1, 0, "chat", "ada"),
        span(2, 10, "chat", "ada"),
        span(3, 20, "chat", "eve"),
        span(4, 30, hostile, "ada"),
        span(5, 40, hostile, "ada"),
        span(6, 50, "single", "bob"),
        failed,
    ];
    send(&app, &spans).await;
    let escaped = "a&#34;b\\ &#60;i&#62;:, (x) null ü";
    let by_id = format!("id:={}", json!(hostile));
    for (list, q, wanted) in [
        ("sessions", "traceCount:>1", [escaped, "chat"].as_slice()),
        ("sessions", "traceCount:>1 -userId:eve", &[escaped]),
        ("sessions", "userId:eve", &["late", "chat"]),
        ("sessions", "userId:=ada duration:>15", &["chat"]),
        ("sessions", "latency:<5", &["late", "single"]),
        ("sessions", "ING", &["single"]),
        ("sessions", by_id.as_str(), &[escaped]),
        ("sessions", "sessionId:chat,late", &["late", "chat"]),
        ("sessions", "totalTokens:null", &["late", "single", escaped, "chat"]),
        ("sessions", "lastSeen:>2100-01-01", &[]),
        ("users", "errorCount:>0", &["eve"]),
        ("users", "sessionId:chat", &["eve", "ada"]),
        ("users", "environment:default traceCount:1", &["bob"]),
        ("users", "id:^a", &["ada"]),
    ] {
        let page = visitor.page(&filtered(list, q)).await;
        assert_eq!(rows(&page), wanted, "{list} {q}: {page}");
        assert!(!page.contains("has no effect") && !page.contains("is ignored."));
    }
    let page = visitor.page(&filtered("sessions", "traceCuont:>5 userId:bob")).await;
    assert_eq!(rows(&page), ["single"], "the other condition applies: {page}");
    assert!(page.contains("class=\"chip bad\""), "{page}");
    assert!(page.contains("<code>traceCount</code>? The other conditions apply."), "{page}");
    assert!(page.contains("/sessions?q=userId%3Abob\" aria-label=\"Remove"), "{page}");
    assert_each_condition_is_shown(&visitor).await;
    let elsewhere = format!("{}&from=-1h", filtered("sessions", "traceCount:>1"));
    let elsewhere = visitor.page(&elsewhere).await;
    let (_, text) = elsewhere.split_once("Matches at other times, from ").unwrap();
    let href = text.split("href=\"").nth(1).unwrap();
    let href = href.split('"').next().unwrap().replace("&#38;", "&");
    let there = visitor.client.get(&href).await.unwrap().text();
    assert_eq!(rows(&there), [escaped, "chat"], "{href}");
    // The focus survives a change of the filter, and the filter a change of the focus.
    let page = format!("{}&env=default", filtered("sessions", "traceCount:>2"));
    let page = visitor.page(&page).await;
    assert_eq!(rows(&page), ["chat"]);
    assert!(page.contains("/sessions?env=default\">Clear"), "{page}");
    assert!(page.contains("name=\"q\" value=\"traceCount:&#62;2\""), "{page}");
    assert!(page.contains("The API does not filter sessions"), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn pages_of_a_filtered_list_repeat_and_lose_none_over_equal_times() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    // All at one time; every other session has two traces.
    let spans = (0..240).map(|n| {
        let session = if n % 2 == 0 { n / 2 } else { n / 4 * 2 };
        span(1 + n, 0, &format!("s{session:03}"), "ada")
    });
    send(&app, &spans.collect::<Vec<_>>()).await;
    let first = visitor.page(&filtered("sessions", "traceCount:>1")).await;
    let mut pages = vec![first];
    while let Some(next) = way(pages.last().unwrap(), "next") {
        pages.push(visitor.client.get(&next).await.unwrap().text());
    }
    let all: Vec<String> = pages.iter().flat_map(|page| rows(page)).collect();
    let wanted: Vec<String> = (0..60).map(|n| format!("s{:03}", 2 * n)).collect();
    assert_eq!(all, wanted);
    assert_eq!(pages.len(), 2);
    let back = way(&pages[1], "prev").unwrap();
    let back = visitor.client.get(&back).await.unwrap().text();
    assert_eq!(rows(&back), rows(&pages[0]));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_search_for_sessions_that_stops_is_reported_and_can_be_continued() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let mut spans: Vec<Value> = (1..=2_300).map(|n| span(n, n, &format!("s{n}"), "ada")).collect();
    spans.push(span(3_000, 1, "s1", "ada"));
    send(&app, &spans).await;
    let first = visitor.page(&filtered("sessions", "traceCount:>1")).await;
    let text = "The search stopped: 2,050 sessions searched, 0 found.";
    assert!(first.contains(text), "{first}");
    assert!(!first.contains("No sessions match"), "{first}");
    let on = way(&first, "next").unwrap();
    let second = visitor.client.get(&on).await.unwrap().text();
    assert_eq!(rows(&second), ["s1"]);
    assert!(!second.contains("The search stopped"), "{second}");
    let back = way(&second, "prev").unwrap();
    let back = visitor.client.get(&back).await.unwrap().text();
    assert!(back.contains(text), "{back}");
    let on = way(&back, "prev").unwrap();
    let end = visitor.client.get(&on).await.unwrap().text();
    assert!(end.contains("No more results"), "{end}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn sessions_and_users_show_their_scores_and_a_user_the_traces_with_low_ones() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let spans = [1, 2, 3].map(|n| span(n, n, "a&b", "ada"));
    send(&app, &spans).await;
    let of = |n: u64, value: f64| json!({ "traceId": trace_id(n), "name": "is \"good\"", "value": value });
    for body in [
        of(1, 0.25),
        of(2, 1.0),
        json!({ "sessionId": "a&b", "name": "whole", "value": 0.5 }),
        json!({ "traceId": trace_id(3), "name": "safe", "value": 0, "dataType": "BOOLEAN" }),
        json!({ "traceId": trace_id(3), "name": "length", "value": 120 }),
    ] {
        score(&app, body).await;
    }
    let sessions = visitor.page("/sessions").await;
    let chips = |page: &str| {
        let chips = page.split("<a class=\"chip\"").skip(1);
        let chip_texts = chips.filter_map(|chip| {
            let (tag, text) = chip.split_once('>')?;
            let (name, rest) = text.split_once("<bdi>")?.1.split_once("</bdi>")?;
            let value = rest.split_once("<bdi>")?.1.split_once("</bdi>")?.0;
            tag.contains(" title=").then(|| format!("{name} {value}"))
        });
        chip_texts.collect::<Vec<_>>()
    };
    let of_traces = ["safe false", "is &#34;good&#34; 0.625 (n = 2)", "length 120"];
    assert_eq!(chips(&sessions), [&["whole 0.5"][..], &of_traces].concat());
    assert!(sessions.contains("/sessions/a%26b#pane-scores"), "{sessions}");
    let users = visitor.page("/users").await;
    assert_eq!(chips(&users), of_traces);
    assert!(users.contains("data-label=\"Traces in 30 days\">0</td>"), "{users}");
    let user = visitor.page("/users/ada").await;
    let (_, low) = user.split_once("id=\"low\"").unwrap();
    assert_eq!(low.matches("<td class=\"what\"").count(), 2, "{low}");
    let position = |n: u64| low.find(&format!("/traces/{}", trace_id(n)));
    assert!(position(3) < position(1) && position(2).is_none(), "{low}");
    let (_, more) = low.split_once("All traces with a low score by name: ").unwrap();
    let href = more.split_once("is &#34;good&#34;").unwrap().0;
    let href = href.rsplit_once("href=\"").unwrap().1.split('"').next().unwrap();
    let list = visitor.client.get(&href.replace("&#38;", "&")).await.unwrap();
    assert_eq!(list.text().matches("<td class=\"what\"").count(), 1);
    for (list, q, wanted) in [
        ("sessions", "errorC", "errorCount:"),
        ("sessions", "id:a", "id:a&#38;b "),
        ("users", "sessionId:a", "sessionId:a&#38;b "),
        ("users", "id:ad", "id:ada "),
    ] {
        let path = format!("/_/{list}/suggest?q={}", encode(q));
        let page = visitor.page(&path).await;
        assert!(page.contains(&format!("data-whole=\"{wanted}\"")), "{q}: {page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_page_of_a_user_is_about_the_chosen_time_and_its_charts_lead_to_the_traces_of_a_day() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    // The first of them begins on 2023-11-14 at 22:13:20.
    let spans = [
        span(1, 0, "a", "ada"),
        span(2, 10, "a", "ada"),
        span(3, 86_400, "b", "ada"),
        span(4, 20, "b", "bob"),
    ];
    send(&app, &spans).await;
    let whole = visitor.page("/users/ada").await;
    assert!(whole.contains("<dt>Traces</dt><dd>3</dd>"), "{whole}");
    assert!(whole.contains("/_/users/ada/trends\""), "{whole}");
    let day = visitor.page("/users/ada?from=2023-11-14&to=2023-11-15").await;
    assert!(day.contains("<dt>Traces</dt><dd>2</dd>"), "{day}");
    assert!(!day.contains(&trace_id(3)), "{day}");
    for outside in ["from=2024-01-01&to=2024-01-02", "env=staging"] {
        let page = visitor.page(&format!("/users/ada?{outside}")).await;
        assert!(page.contains("No traces of this user in this time range"), "{page}");
    }
    let nobody = format!("{}/users/nobody?env=staging", visitor.base);
    assert_eq!(visitor.client.get(&nobody).await.unwrap().status, 404);
    let time = "from=2023-11-12&to=2023-11-17";
    let charts = visitor.page(&format!("/_/users/ada/trends?{time}")).await;
    let on = "<time datetime=\"2023-11-14\">2023-11-14</time></a>";
    let (before, behind) = charts.split_once(on).unwrap();
    assert!(behind.starts_with("</td><td class=\"num\">2</td>"), "{charts}");
    let href = before.rsplit_once("href=\"").unwrap().1;
    let href = href.split('"').next().unwrap().replace("&#38;", "&");
    let list = visitor.client.get(&href).await.unwrap().text();
    assert_eq!(list.matches("<td class=\"what\"").count(), 2, "{list}");
    // A day without a trace has no latency, which is no zero.
    let (_, latency) = charts.split_once("Latency, p95").unwrap();
    let (_, none) = latency.split_once(">2023-11-16</time></a>").unwrap();
    assert!(none.starts_with("</td><td class=\"num\">–</td>"), "{charts}");
    let with_charts = visitor.page(&format!("/users/ada?{time}&trends=1")).await;
    assert!(with_charts.contains(on), "{with_charts}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn lists_of_sessions_users_and_scores_and_a_session_report_new_rows() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    send(&app, &[span(1, 0, "chat", "ada")]).await;
    score(&app, json!({ "traceId": trace_id(1), "name": "tone", "value": 1 })).await;
    let mut addresses = Vec::new();
    for (path, text) in [
        ("/sessions", "2 sessions with new traces · show"),
        ("/users?q=traceCount%3A%3E0", "1 user with new traces (may not match the filter)"),
        ("/sessions/chat", "1 new trace · show"),
        ("/sessions?env=staging", ""),
        ("/scores", "1 new score · show"),
        ("/scores?to=2020-01-01", ""),
    ] {
        let page = visitor.page(path).await;
        let sources = page.split("data-from=\"").skip(1);
        let mut sources = sources.filter_map(|rest| rest.split('"').next());
        let address = sources.find(|address| address.contains("/news"));
        let address = address.unwrap().replace("&#38;", "&");
        // The first answer names the instant alone.
        let first = visitor.client.get(&address).await.unwrap();
        assert_eq!((first.status.as_u16(), first.text().trim()), (200, ""));
        let now = first.headers["perpend-now"].to_str().unwrap();
        addresses.push((format!("{address}&received={}", encode(now)), path, text));
    }
    send(&app, &[span(2, 5, "chat", "ada"), span(3, 6, "other", "ada")]).await;
    score(&app, json!({ "traceId": trace_id(2), "name": "tone", "value": 0 })).await;
    for (address, path, text) in addresses {
        let news = visitor.client.get(&address).await.unwrap().text();
        assert!(news.contains(text), "{path}: {news}");
        assert_eq!(news.trim().is_empty(), text.is_empty(), "{path}: {news}");
        let href = format!("href=\"{}{path}\"", visitor.base);
        assert!(text.is_empty() || news.contains(&href), "{path}: {news}");
    }
    app.stop().await.unwrap();
}

/// The links of the page of a user show the counted traces, in every environment.
#[tokio::test]
async fn links_of_users_and_sessions_show_the_traces_that_these_count() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let spans = [span(1, 0, "chat", "ada"), span(2, 10, "chat", "ada")];
    let resource = |environment: &str, span: &Value| {
        let value = json!({ "stringValue": environment });
        let attribute = json!({ "key": "deployment.environment", "value": value });
        json!({ "resource": { "attributes": [attribute] }, "scopeSpans": [{ "spans": [span] }] })
    };
    let sent = json!({ "resourceSpans": [
        resource("sdk-experiment", &spans[0]), resource("prod", &spans[1]),
    ]});
    let sent = app.client.json(Method::POST, OTLP, &sent).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
    let user = visitor.page("/users/ada").await;
    assert!(user.contains("<dt>Traces</dt><dd>2</dd>"), "{user}");
    let to = |page: &str, behind: &str| {
        let before = page.split_once(behind).unwrap().0;
        let href = before.rsplit_once("href=\"").unwrap().1;
        href.split('"').next().unwrap().replace("&#38;", "&")
    };
    let all = to(&user, "\">All traces of this user");
    let charts = visitor.page("/_/users/ada/trends?from=2023-11-12&to=2023-11-17").await;
    let day = to(&charts, "<time datetime=\"2023-11-14\">");
    let found = visitor.page("/sessions/chat?find=turn").await;
    for href in [all, day] {
        let list = visitor.client.get(&href).await.unwrap().text();
        assert_eq!(list.matches("<td class=\"what\"").count(), 2, "{href}");
    }
    assert!(to(&found, "\">Show in the list of traces").contains("environment%3Aset"));
    // Nothing is hidden there, as the field of the environments shows.
    for (path, usual) in [
        ("/users", "all"),
        ("/users/ada", "all"),
        ("/sessions", "all"),
        ("/traces", "all except evaluations"),
    ] {
        let page = visitor.page(path).await;
        let text = format!("placeholder=\"{usual}\"");
        assert!(page.contains(&text), "{path}: {page}");
    }
    app.stop().await.unwrap();
}

/// The link of the pager that is called so.
fn end(page: &str, label: &str) -> Option<String> {
    let (before, _) = page.split_once(&format!(">{label}</a>"))?;
    let href = before.rsplit_once("href=\"")?.1.split('"').next()?;
    Some(href.replace("&#38;", "&"))
}

#[tokio::test]
async fn lists_of_sessions_users_and_scores_are_counted_and_lead_to_their_ends() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let spans: Vec<Value> =
        (1..=60).map(|n| span(n, n, &format!("s{n:02}"), &format!("u{n:02}"))).collect();
    // The first user came again: the last one of the list is another one.
    send(&app, &[spans, vec![span(61, 61, "s61", "u01")]].concat()).await;
    for n in 1..=60 {
        score(
            &app,
            json!({ "id": format!("c{n:02}"), "traceId": trace_id(n), "name": "tone", "value": n }),
        )
        .await;
    }
    for (list, n_all, last) in [("sessions", 61, "s01"), ("users", 60, "u02")] {
        let first = visitor.page(&format!("/{list}?n=25")).await;
        assert!(first.contains(&format!(">1–25 of {n_all}</span>")), "{first}");
        assert_eq!(end(&first, "⇤ First"), None, "{first}");
        let there = end(&first, "Last ⇥").unwrap();
        let there = visitor.client.get(&there).await.unwrap().text();
        let of_last = rows(&there);
        assert_eq!((of_last.len(), of_last[24].as_str()), (25, last), "{there}");
        assert!(there.contains(&format!(">25 of {n_all}</span>")), "{there}");
        assert_eq!((way(&there, "next"), end(&there, "Last ⇥")), (None, None));
        let before = visitor.client.get(&way(&there, "prev").unwrap()).await;
        let before = rows(&before.unwrap().text());
        assert!(before.len() == 25 && !before.contains(&of_last[0]), "{before:?}");
        let back = end(&there, "⇤ First").unwrap();
        let back = visitor.client.get(&back).await.unwrap().text();
        assert_eq!(rows(&back), rows(&first));
        let all = visitor.page(&format!("/{list}?n=100&q=traceCount%3A%3E0")).await;
        assert!(all.contains(&format!(">1–{n_all} of {n_all}</span>")), "{all}");
    }
    let first = visitor.page("/scores?n=25").await;
    assert!(first.contains(">1–25 of 60</span>"), "{first}");
    let there = end(&first, "Last ⇥").unwrap();
    let there = visitor.client.get(&there).await.unwrap().text();
    assert_eq!(there.matches("<td class=\"what\"").count(), 25, "{there}");
    assert_eq!((way(&there, "next"), end(&there, "Last ⇥")), (None, None));
    assert!(end(&there, "⇤ First").is_some() && way(&there, "prev").is_some());
    // Filtered results are not counted.
    let some = visitor.page("/scores?n=25&q=value%3A%3E1").await;
    assert!(some.contains(">1–25 shown</span>"), "{some}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_session_or_a_trace_that_has_nothing_but_scores_opens_with_them() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let given = |about: Value| {
        let mut score = json!({ "name": "tone", "value": 0.5, "comment": "as heard" });
        for (key, value) in about.as_object().unwrap() {
            score[key] = value.clone();
        }
        score
    };
    for about in [
        json!({ "sessionId": "only scored" }),
        json!({ "traceId": "own" }),
        json!({ "traceId": "of-step", "observationId": "o" }),
    ] {
        score(&app, given(about)).await;
    }
    for (path, text) in [
        ("/sessions/only%20scored", "No turns recorded"),
        ("/traces/own", "No observations recorded"),
    ] {
        let page = visitor.page(path).await;
        assert!(page.contains(text) && page.contains("as heard"), "{page}");
        assert!(page.contains("/api/public/v2/scores"), "{page}");
    }
    let of_step = visitor.page("/traces/of-step").await;
    assert!(of_step.contains("/scores?trace=of-step\""), "{of_step}");
    let opened = format!("{}/sessions?id=only+scored", visitor.base);
    let there = visitor.leads_to(&opened).await;
    assert_eq!(there, format!("{}/sessions/only%20scored", visitor.base));
    for unknown in ["/sessions/nobody", "/traces/nothing"] {
        let path = format!("{}{unknown}", visitor.base);
        assert_eq!(visitor.client.get(&path).await.unwrap().status, 404);
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn lists_of_sessions_users_and_scores_follow_their_parameters_or_report_them() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let spans: Vec<Value> =
        (1..=30).map(|n| span(n, n, &format!("s{n}"), &format!("u{n}"))).collect();
    send(&app, &spans).await;
    for list in ["sessions", "users"] {
        let some = visitor.page(&format!("/{list}?n=25")).await;
        assert_eq!(some.matches("<td class=\"what\"").count(), 25, "{some}");
        let next = some.split("rel=\"next\" href=\"").nth(1).unwrap();
        assert!(next.split('"').next().unwrap().contains("n=25"), "{some}");
    }
    for list in ["sessions", "users", "scores"] {
        let odd = visitor.page(&format!("/{list}?n=abc&sort=foo&cols=luck")).await;
        for text in [
            "`cols` has unknown columns: luck",
            "`n` must be one of 25, 50, 100; got `abc`",
            "`sort` is not supported by this list, got `foo`",
        ] {
            assert!(odd.contains(text), "{list}: {odd}");
        }
    }
    app.stop().await.unwrap();
}
