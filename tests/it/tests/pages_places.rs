//! State that links between pages keep in URLs: time, environments, and scores with the same fingerprint.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace, count};
use serde_json::{Value, json};

use crate::pages::Visitor;

/// The addresses of the rail.
fn rail(page: &str) -> Vec<String> {
    let (_, rail) = page.split_once("<nav class=\"rail\"").unwrap();
    let (rail, _) = rail.split_once("</nav>").unwrap();
    let links = rail.split("href=\"").skip(1);
    let links = links.filter_map(|link| link.split('"').next());
    links.map(|link| link.replace("&#38;", "&")).collect()
}

#[tokio::test]
async fn time_and_environments_stay_from_section_to_section_and_narrow_each() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (number, environment) in [(1, "production"), (2, "staging"), (3, "sdk-experiment")] {
        let body = json!({
            "id": format!("t{number}"), "name": format!("in {environment}"), "environment": environment,
            "sessionId": format!("s{number}"), "userId": format!("u{number}"),
            "timestamp": format!("2026-03-0{number}T10:00:00Z"),
        });
        let made = app.client.json(Method::POST, "/api/public/traces", &body).await;
        assert!(made.unwrap().status.is_success());
    }
    let shows = async |path: &str, texts: [bool; 3]| {
        let page = visitor.page(path).await;
        for (text, is_there) in ["1", "2", "3"].iter().zip(texts) {
            let row = format!(
                "/{}{text}",
                if path.starts_with("/users") { "users/u" } else { "sessions/s" }
            );
            assert_eq!(page.contains(&row), is_there, "{path} {row}: {page}");
        }
        page
    };
    let focus = "from=2026-03-01&to=2026-03-04";
    for section in ["/traces", "/sessions", "/users"] {
        let own = section != "/traces";
        shows(section, [true, true, own]).await;
        shows(&format!("{section}?env=staging"), [false, true, false]).await;
        shows(&format!("{section}?env=staging,sdk-experiment"), [false, true, true]).await;
        shows(&format!("{section}?from=2026-03-02"), [false, true, own]).await;
        shows(&format!("{section}?to=2026-03-02+10%3A00"), [true, false, false]).await;
        let page = shows(&format!("{section}?{focus}&env=staging"), [false, true, false]).await;
        let base = &visitor.base;
        let kept = "from=2026-03-01T00%3A00%3A00Z&to=2026-03-04T00%3A00%3A00Z&env=staging";
        for path in [
            "",
            "/traces",
            "/observations",
            "/sessions",
            "/users",
            "/scores",
            "/rules",
            "/executions",
        ] {
            let link = format!("{base}{path}?{kept}");
            assert!(rail(&page).contains(&link), "{link}: {:?}", rail(&page));
        }
    }
    let overview = visitor.page(&format!("?{focus}")).await;
    assert!(overview.contains("<dd><b>2</b>"), "own environments are left out: {overview}");
    let overview = visitor.page(&format!("?{focus}&env=staging")).await;
    assert!(overview.contains("<dd><b>1</b>"), "{overview}");
    // A trace that was opened from a list keeps the parameters of the list.
    let list = visitor.page("/traces?env=staging").await;
    let (_, link) = list.split_once("class=\"name\" href=\"").unwrap();
    let trace = visitor.client.get(link.split('"').next().unwrap()).await.unwrap();
    let sessions = format!("{}/sessions?env=staging", visitor.base);
    assert!(rail(&trace.text()).contains(&sessions), "{:?}", rail(&trace.text()));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn pages_that_show_the_same_in_any_time_lead_on_with_it() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let body = json!({ "id": "t1", "environment": "staging", "sessionId": "s1", "userId": "u1" });
    let made = app.client.json(Method::POST, "/api/public/traces", &body).await;
    assert!(made.unwrap().status.is_success());
    let own =
        ["/rules", "/executions", "/scores", "/search?q=x", "/users/u1", "/sessions/s1", "/nope"];
    let own = own.map(|path| format!("{}{path}", visitor.base));
    let others = ["/preferences", "/api/reference", "/api/reference/scores"].map(str::to_owned);
    for path in own.iter().chain(&others) {
        let sign = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{sign}env=staging");
        let links = rail(&visitor.client.get(&path).await.unwrap().text());
        for section in ["/traces", "/rules"] {
            let link = format!("{}{section}?env=staging", visitor.base);
            assert!(links.contains(&link), "{path}: {links:?}");
        }
        assert!(links.contains(&"/preferences?env=staging".to_owned()), "{path}: {links:?}");
    }
    let users = visitor.page("/users?env=staging").await;
    assert!(users.contains("/users/u1?env=staging\""), "{users}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_empty_time_range_shows_when_matching_traces_started_and_an_invalid_one_is_reported() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for hour in [10, 12] {
        let body = json!({
            "id": format!("t{hour}"), "name": "ticket", "timestamp": format!("2026-03-01T{hour}:00:00Z"),
        });
        let made = app.client.json(Method::POST, "/api/public/traces", &body).await;
        assert!(made.unwrap().status.is_success());
    }
    let page = visitor.page("/traces?q=name%3Aticket&from=2026-04-01").await;
    assert!(page.contains("Matches at other times, from"), "{page}");
    assert!(
        page.contains(&format!("href=\"{}/traces?q=name%3Aticket\">show them", visitor.base)),
        "{page}"
    );
    let none = visitor.page("/traces?q=name%3Aother&from=2026-04-01").await;
    assert!(!none.contains("Matches at other times, from"), "{none}");
    for path in ["", "/traces", "/sessions"] {
        let page = visitor.page(&format!("{path}?from=yesterday")).await;
        assert!(page.contains("`from` must be a time"), "{path}: {page}");
    }
    for path in ["/traces", "/sessions"] {
        let page = visitor.page(&format!("{path}?from=-1h&to=-2h")).await;
        assert!(page.contains("1 hour ago to 2 hours ago"), "{page}");
        assert!(page.contains("`to` must be after `from`"), "{page}");
    }
    let turned = visitor.page("?from=2026-04-02&to=2026-04-01").await;
    assert!(turned.contains("must be after"), "{turned}");
    for text in ["Needs attention", "No paused rules", "No traces with errors in this time range"] {
        assert!(!turned.contains(text), "nothing was read: {turned}");
    }
    // The chart of a very long time range has a bar for each of a limited number of months.
    let ages = visitor.page("?from=0001-01-01&to=2999-01-01").await;
    assert!(ages.contains("must span at most 20 years"), "{ages}");
    assert!(ages.len() < 400_000, "{} bytes", ages.len());
    app.stop().await.unwrap();
}

fn rows_of(scores: &str) -> usize {
    scores.matches("<td data-label=\"Value\">").count()
}

#[tokio::test]
async fn a_score_leads_to_those_with_its_fingerprint_and_the_list_is_walked() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for max in [10, 20] {
        let made = app.evaluator("perpend/text", "length", json!({ "max": max }));
        app.rule(&made.await.unwrap(), json!({})).await.unwrap();
    }
    for number in 1..=2 {
        let trace = Trace::new(number, "ticket").generation("answer", "On Monday.");
        app.ingest(&trace).await.unwrap();
    }
    let scores = "/api/public/v3/scores?source=EVAL&fields=details,subject&limit=100";
    let all = app.wait_for(scores, |answer| count(answer) == 4).await.unwrap();
    let trace = Trace::new(1, "ticket");
    let step = format!("/traces/{}?observation={}", trace.id, Trace::span_id(2));
    let page = visitor.page(&step).await;
    let (_, link) = page.split_once("/scores?fingerprint=").unwrap();
    let fingerprint = link.split('"').next().unwrap();
    assert_eq!(fingerprint.len(), 64, "{page}");
    let max = "<bdi class=\"muted\">max</bdi> <bdi>";
    for bound in [10, 20] {
        let bound_text = format!("{max}{bound}");
        assert!(page.contains(&bound_text), "what the score was held against: {page}");
    }
    let evaluators = visitor.page("/evaluators").await;
    let its = format!("/scores?fingerprint={fingerprint}\">2</a>");
    assert!(evaluators.contains(&its), "{evaluators}");
    let same = visitor.page(&format!("/scores?fingerprint={fingerprint}")).await;
    assert_eq!(rows_of(&same), 2, "one of each trace: {same}");
    assert_eq!(same.matches(">Scores with this fingerprint</a>").count(), 2, "{same}");
    let list = visitor.page("/scores").await;
    assert_eq!((rows_of(&list), count(&all)), (4, 4), "{list}");
    assert!(list.contains("/traces/") && list.contains(">v1</span>"), "{list}");
    let none = visitor.page("/scores?name=other").await;
    assert!(none.contains("No scores match") && rows_of(&none) == 0, "{none}");
    let odd = visitor.page("/scores?fingerprint=x&after=y&trace=").await;
    assert!(
        odd.contains("`fingerprint` ") && odd.contains("`after` ") && rows_of(&odd) == 4,
        "{odd}"
    );
    let of_trace = visitor.page(&format!("/scores?trace={}", trace.id)).await;
    assert_eq!(rows_of(&of_trace), 2, "{of_trace}");
    let now = visitor.page("/scores?from=-1h&env=default").await;
    assert_eq!(rows_of(&now), 4, "{now}");
    for none in ["to=2020-01-01", "env=staging"] {
        let none = visitor.page(&format!("/scores?{none}")).await;
        assert!(none.contains("No scores match") && rows_of(&none) == 0, "{none}");
    }
    // The trace names the scores of its steps, and leads to each.
    let whole = visitor.page(&format!("/traces/{}", trace.id)).await;
    let lead = format!("?observation={}#score-", Trace::span_id(2));
    assert_eq!(whole.matches(&lead).count(), 2, "{whole}");
    assert!(whole.contains("0 scores, 2 on observations"), "{whole}");
    // Both have one name: the list of traces shows them together.
    let listed = visitor.page("/traces").await;
    let together = format!("/scores?trace={}&#38;name=length", trace.id);
    assert_eq!(listed.matches(&together).count(), 1, "{listed}");
    assert_eq!(listed.matches("2 scores of observations").count(), 2);
    let both = visitor.page(&format!("/scores?trace={}&name=length", trace.id)).await;
    assert_eq!(rows_of(&both), 2, "{both}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_list_of_scores_is_paged_for_any_ids_and_keeps_its_filter() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").generation("answer", "On Monday.");
    app.ingest(&trace).await.unwrap();
    // Of one time, so that their ids alone tell where a page ends.
    let at = "2026-03-02T10:00:00Z";
    let given = |number: u32| {
        json!({ "id": format!("e{number}"), "type": "score-create", "timestamp": at, "body": {
            "id": format!("given:{number:02} a.b%&ü"), "name": "given", "value": f64::from(number),
            "traceId": trace.id } })
    };
    let batch: Vec<Value> = (0..60).map(given).collect();
    let batch = json!({ "batch": batch });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &batch);
    assert_eq!(sent.await.unwrap().json()["errors"], json!([]));
    let first = visitor.page("/scores?name=given").await;
    assert_eq!(rows_of(&first), 50, "{first}");
    let (_, next) = first.split_once("rel=\"next\" href=\"").unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    let second = visitor.client.get(&next).await.unwrap().text();
    assert_eq!(rows_of(&second), 10, "{second}");
    // A search for a name stays within the trace and the time that the list has.
    let within =
        visitor.page(&format!("/scores?name=given&trace={}&from=-1h&own=0", trace.id)).await;
    for kept in ["trace", "from", "own"] {
        let field = format!("<input type=\"hidden\" name=\"{kept}\"");
        assert!(within.contains(&field), "{kept}: {within}");
    }
    // A score may come before its step.
    let early =
        json!({ "name": "early", "value": 1, "traceId": trace.id, "observationId": "not yet" });
    let made = app.client.json(Method::POST, "/api/public/scores", &early);
    assert!(made.await.unwrap().status.is_success());
    let whole = visitor.page(&format!("/traces/{}", trace.id)).await;
    assert!(whole.contains(", 1 on observations") && whole.contains("not yet"), "{whole}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_list_has_a_chip_for_each_name_those_of_the_trace_first() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").generation("answer", "On Monday.");
    let trace = trace.attribute("langfuse.session.id", "chat");
    app.ingest(&trace).await.unwrap();
    let step = Trace::span_id(2);
    for (name, value, of_step) in [
        ("overlap", 0.25, true),
        ("overlap", 0.5, true),
        ("quality", 0.75, true),
        ("quality", 1.0, false),
        ("tone", 0.1, true),
    ] {
        let mut score = json!({ "name": name, "value": value, "traceId": trace.id });
        if of_step {
            score["observationId"] = json!(step);
        }
        let made = app.client.json(Method::POST, "/api/public/scores", &score).await;
        assert!(made.unwrap().status.is_success());
    }
    for path in ["/traces", "/sessions/chat"] {
        let page = visitor.page(path).await;
        let chips = page.split("<a class=\"chip ").skip(1);
        let shown_scores: Vec<String> = chips
            .map(|chip| {
                let texts = chip.split("<bdi>").skip(1).take(2);
                let texts = texts.filter_map(|text| text.split("</bdi>").next());
                texts.collect::<Vec<_>>().join(" ")
            })
            .collect();
        assert_eq!(shown_scores, ["quality 1", "tone 0.1"], "{page}");
        assert!(page.contains(">+1</a>"), "{page}");
        assert!(page.contains("aria-label=\"API\""), "{page}");
        assert!(page.contains("Score of the trace; 1 of observations not included"));
        assert!(page.contains("Score of an observation: filters by score name test"));
        let card = format!("observation={step}#score-");
        assert_eq!(page.matches(&card).count(), 1, "{page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_overview_shows_the_share_of_traces_with_errors_and_hidden_traces() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for number in 1..=8 {
        let trace = Trace::new(number, "ticket")
            .attribute("langfuse.observation.level", if number == 1 { "ERROR" } else { "DEFAULT" });
        app.ingest(&trace).await.unwrap();
    }
    let own = Trace::new(9, "evaluate")
        .attribute("langfuse.observation.level", "ERROR")
        .attribute("deployment.environment", "sdk-experiment");
    app.ingest(&own).await.unwrap();
    let focus = "from=2026-02-01";
    let page = visitor.page(&format!("?{focus}&to=2026-03-01")).await;
    assert!(page.contains("<b>12.5 %</b> <span class=\"muted\">1 of 8</span>"), "{page}");
    assert!(page.contains("Evaluation and experiment traces are hidden"), "{page}");
    let (_, link) = page.split_once("hidden. <a href=\"").unwrap();
    let link = link.split('"').next().unwrap().replace("&#38;", "&");
    assert!(link.contains(focus) && link.contains("sdk-experiment"));
    // The last bar of a chart ends with the time.
    let part = visitor.page(&format!("?{focus}&to=2026-02-28T12:30:00Z&trends=1")).await;
    let last = "from=2026-02-28T00%3A00%3A00Z&#38;to=2026-02-28T12%3A30%3A00Z";
    assert!(part.contains(last), "{part}");
    let alone = visitor.client.get(&link).await.unwrap().text();
    assert!(alone.contains("<b>100.0 %</b> <span class=\"muted\">1 of 1</span>"), "{alone}");
    assert!(!alone.contains("experiment traces are hidden"), "{alone}");
    app.stop().await.unwrap();
}
