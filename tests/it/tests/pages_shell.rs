//! Functions that all pages share, over HTTP: search, caching, preferences, the API reference, news.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use axum::http::Method;
use flate2::Compression;
use flate2::write::GzEncoder;
use perpend_it::{OTLP, TestApp, Trace};
use perpend_server::client::Answer;
use perpend_views::encode;
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
async fn resources_are_found_by_id_and_enter_opens_them() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let base = visitor.base.clone();
    let trace = Trace::new(7, "ticket")
        .generation("answer", "Thank you.")
        .attribute("langfuse.session.id", "chat <1>")
        .attribute("langfuse.user.id", "ada");
    app.ingest(&trace).await.unwrap();
    let dataset = post(&app, "/api/public/v2/datasets", json!({ "name": "tickets" })).await;
    let item = json!({ "datasetName": "tickets", "input": "x" });
    let item = post(&app, "/api/public/dataset-items", item).await;
    let link = json!({ "runName": "first", "datasetItemId": item["id"], "traceId": trace.id });
    let link = post(&app, "/api/public/dataset-run-items", link).await;
    let run = link["datasetRunId"].as_str().unwrap();
    let score = json!({ "name": "tone", "value": 1, "traceId": trace.id });
    let score = id(&post(&app, "/api/public/scores", score).await);
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({}));
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
        (run, format!("/experiments/{run}")),
        (&score, format!("/traces/{}#score-{score}", trace.id)),
        (&evaluator, format!("/evaluators/{evaluator}")),
        (&rule, format!("/rules/{rule}")),
    ] {
        let href = format!("{base}{href}");
        for prefix in ["", "#", "  "] {
            let query = encode(&format!("{prefix}{wanted}"));
            let there = format!("{base}/search?q={query}&go=1");
            assert_eq!(visitor.leads_to(&there).await, href);
        }
        let shown = visitor.page(&format!("/search?q={}", encode(wanted))).await;
        let linked = format!("href=\"{}\"", href.replace('&', "&#38;"));
        assert!(shown.contains(&linked), "{wanted}: {shown}");
        let hits = visitor.page(&format!("/_/search?q={}", encode(wanted))).await;
        assert!(hits.contains("role=\"option\"") || wanted == step, "{hits}");
        assert!(!hits.contains("<html"), "a fragment: {hits}");
    }
    // Resources of another project are not found.
    let other = app.other_project().await.unwrap();
    let body = json!({ "name": "theirs" });
    let foreign = other.json(Method::POST, "/api/public/v2/datasets", &body);
    let foreign = id(&foreign.await.unwrap().json());
    let none = visitor.page(&format!("/search?q={foreign}")).await;
    let text =
        format!("No session, user, evaluator, rule, dataset or prompt starts with “{foreign}”");
    assert!(none.contains(&text), "{none}");
    let part = format!("/_/search/contents?q={foreign}");
    let part = visitor.page(&part).await;
    assert!(part.contains(&format!("No trace contains “{foreign}”")), "{part}");
    // Where nothing is called so, traces may say it.
    let link = format!("{base}/search?q=refund+%22policy%22&go=1");
    let there = format!("{base}/traces?q=%22refund%20%5C%22policy%5C%22%22");
    assert_eq!(visitor.leads_to(&link).await, there);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn terms_of_filters_are_searched_as_text_and_ids_may_be_in_capitals() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let base = visitor.base.clone();
    for text in ["http://example.com", "foo:bar", "-dash", "level:ERROR"] {
        let link = format!("{base}/search?q={}&go=1", encode(text));
        let there = format!("{base}/traces?q={}", encode(&format!("\"{text}\"")));
        assert_eq!(visitor.leads_to(&link).await, there);
        let q = encode(text);
        let page = visitor.page(&format!("/search?q={q}")).await;
        let part = format!("/_/search/contents?q={q}");
        assert!(page.contains(&format!("data-later=\"{base}{part}\"")), "{page}");
        let part = visitor.page(&part).await;
        assert!(part.contains(&format!("No trace contains “{text}”")), "{part}");
    }
    let lettered = Trace::new(0xabc, "lettered").generation("answer", "Yes.");
    app.ingest(&lettered).await.unwrap();
    let capitals = lettered.id.to_uppercase();
    assert_ne!(capitals, lettered.id);
    assert_eq!(
        visitor.leads_to(&format!("{base}/search?q={capitals}&go=1")).await,
        format!("{base}/traces/{}", lettered.id)
    );
    app.stop().await.unwrap();
}

/// Matches in contents are counted apart from names, and a long text is repeated in part.
async fn assert_contents_are_counted(visitor: &Visitor) {
    let long = "x".repeat(300);
    let page_of_long = visitor.page(&format!("/search?q={long}")).await;
    let cut = |start: &str| format!("{start} “{}…”", "x".repeat(60));
    assert!(page_of_long.contains(&cut("Traces that contain")), "{page_of_long}");
    let counted = visitor.page(&format!("/_/search/contents?q={long}")).await;
    assert!(counted.contains(&cut("No trace contains")), "{counted}");
    assert!(!counted.contains("href="), "what no trace says is not linked: {counted}");
    let some = visitor.page("/_/search/contents?q=ticket").await;
    assert!(
        some.contains("12 traces contain “ticket”") && some.contains("/traces?q=ticket\""),
        "{some}"
    );
    assert_eq!(visitor.page("/_/search/contents?q=%3F").await.trim(), "");
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
    for part in
        ["Datasets", "Sessions", "Users", "Prompts", "tickets/answer", "Showing the first 8"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("&#60;b&#62;") && !page.contains("week 3 <b>"), "{page}");
    let hits = visitor.page("/_/search?q=tickets").await;
    // And where contents are searched for it.
    assert_eq!(hits.matches("role=\"option\"").count(), 8 * 3 + 1 + 1);
    let contents = format!("href=\"{}/traces?q=tickets\"", visitor.base);
    assert!(hits.contains(&contents), "{hits}");
    // It comes first; the count is loaded separately.
    let places =
        ["Traces that contain “tickets”", "<h2 id=\"group-0\">"].map(|part| page.find(part));
    assert!(places[0].is_some() && places[0] < places[1], "{page}");
    assert!(n_compressed(&hits) <= 4 << 10, "{}", n_compressed(&hits));
    assert_contents_are_counted(&visitor).await;
    let ids = visitor.page("/search?q=%23tickets").await;
    assert!(ids.contains("No object has the id “tickets”"), "{ids}");
    let pages = visitor.page("/search?q=sess").await;
    assert!(pages.contains("<bdi>Sessions</bdi>"), "{pages}");
    let commands = visitor.page("/search?q=%3Esess").await;
    assert!(
        !commands.contains("<bdi>Sessions</bdi>")
            && commands.contains("actions of the current page"),
        "{commands}"
    );
    assert!(visitor.page("/search?q=%3F").await.contains("Exact ids only"));
    assert!(visitor.page("/search").await.contains("Overview</bdi>"));
    let long = "x".repeat(801);
    let kept = format!("value=\"{long}\"");
    for (wrong, named) in [
        (format!("q={long}"), "800 characters"),
        (format!("q={long}"), kept.as_str()),
        ("q=x&below=yesterday".to_owned(), "older traces"),
    ] {
        let address = format!("{}/search?{wrong}", visitor.base);
        let answer = visitor.client.get(&address).await.unwrap();
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().contains(named), "{}", answer.text());
    }
    app.stop().await.unwrap();
}

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    let value = answer.headers.get(name);
    value.map_or("", |value| value.to_str().unwrap())
}

async fn get_with(visitor: &Visitor, path: &str, headers: &[(&str, &str)]) -> Answer {
    let address = format!("{}{path}", visitor.base);
    let answer = visitor.client.send(Method::GET, &address, headers, "");
    answer.await.unwrap()
}

#[tokio::test]
async fn a_page_is_sent_again_only_when_it_changed_and_a_secret_is_never_kept() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").generation("answer", "Thank you.");
    app.ingest(&trace).await.unwrap();
    let first = get_with(&visitor, "/traces", &[]).await;
    assert_eq!(header(&first, "cache-control"), "private, no-cache");
    let tag = header(&first, "etag").to_owned();
    assert!(tag.starts_with('"') && tag.len() == 34, "{tag}");
    let gzip = ("accept-encoding", "gzip");
    let small = get_with(&visitor, "/traces", &[gzip]).await;
    assert_eq!(header(&small, "etag"), format!("W/{tag}"), "other bytes");
    for known in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let again = get_with(&visitor, "/traces", &[gzip, ("if-none-match", &known)]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0), "{known}");
        assert!(header(&again, "etag").ends_with(&tag), "{known}");
        assert_eq!(header(&again, "cache-control"), "private, no-cache");
        assert!(header(&again, "content-security-policy").contains("media-src 'self'"));
    }
    app.ingest(&Trace::new(2, "another")).await.unwrap();
    let changed = get_with(&visitor, "/traces", &[("if-none-match", &tag)]).await;
    assert_eq!(changed.status, 200);
    assert!(header(&changed, "etag") != tag && changed.text().contains("another"));

    for path in ["/login", "/login?token=wrong"] {
        let answer = app.anonymous().get(path).await.unwrap();
        assert_eq!(header(&answer, "cache-control"), "no-store", "{path}");
        assert_eq!(header(&answer, "etag"), "", "{path}");
    }
    for path in ["/traces/none", "/search?q=x&below=y"] {
        let answer = get_with(&visitor, path, &[]).await;
        assert_eq!(header(&answer, "cache-control"), "private, no-store", "{path}");
    }
    let raw = get_with(&visitor, &format!("/traces/{}/raw/metadata", trace.id), &[]).await;
    assert_eq!(raw.status, 200);
    assert_eq!(header(&raw, "cache-control"), "private, no-store");
    let policy = header(&first, "permissions-policy");
    assert!(policy.contains("camera=()") && policy.contains("geolocation=()"), "{policy}");
    let token = visitor.token("/preferences").await;
    let out = visitor.send("/logout", format!("form={token}")).await;
    assert_eq!(header(&out, "clear-site-data"), "\"cache\", \"storage\"");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn every_page_responds_to_head_with_the_headers_of_the_page() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").attribute("langfuse.session.id", "s");
    app.ingest(&trace).await.unwrap();
    let of_trace = format!("/traces/{}", trace.id);
    let paths = [
        "",
        "/traces",
        &of_trace,
        "/observations",
        "/sessions",
        "/sessions/s",
        "/users",
        "/executions",
        "/search?q=s",
    ];
    let own = paths.map(|path| format!("{}{path}", visitor.base));
    let others = ["/logout", "/preferences", "/api/reference"].map(str::to_owned);
    for path in own.iter().chain(&others) {
        let page = visitor.client.get(path).await.unwrap();
        assert_eq!(page.status, 200, "{path}");
        let head = visitor.client.send(Method::HEAD, path, &[], "").await.unwrap();
        assert_eq!((head.status, head.body.len()), (page.status, 0), "{path}");
        for name in ["etag", "content-type", "content-length", "cache-control"] {
            assert_eq!(header(&head, name), header(&page, name), "{name} of {path}");
        }
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_page_is_titled_by_thing_section_and_project_and_has_one_address() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").attribute("langfuse.session.id", "s");
    let trace = trace.attribute("langfuse.user.id", "ada");
    app.ingest(&trace).await.unwrap();
    let of_trace = format!("/traces/{}", trace.id);
    let between = |page: &str, (before, behind): (&str, &str)| {
        let (_, rest) = page.split_once(before).unwrap();
        rest.split(behind).next().unwrap().replace("&#38;", "&")
    };
    for (path, title, own) in [
        ("", "Overview", ""),
        ("/traces?n=25&after=_5_a", "Traces", "/traces?n=25"),
        (
            &format!("{of_trace}?in=%2Ftraces&min=ERROR"),
            "ticket · Traces",
            &format!("{of_trace}?min=ERROR"),
        ),
        (
            &format!("{of_trace}?v=thread"),
            "ticket · Thread · Traces",
            &format!("{of_trace}?v=thread"),
        ),
        (
            "/observations?n=25&after=1.a&cols=name,level",
            "Observations",
            "/observations?n=25&cols=name,level",
        ),
        ("/sessions?before=1.a&view=v", "Sessions", "/sessions"),
        ("/sessions/s", "s · Sessions", "/sessions/s"),
        ("/users/ada", "ada · Users", "/users/ada"),
        ("/scores?name=a&after=1.a", "Scores", "/scores?name=a"),
        ("/rules", "Rules", "/rules"),
        ("/evaluators", "Evaluators", "/evaluators"),
        ("/executions?state=failed&after=1.a", "Executions", "/executions?state=failed"),
        ("/search?q=x", "x · Search", "/search?q=x"),
    ] {
        let page = visitor.page(path).await;
        let project = between(&page, ("Project: </span><bdi>", "</bdi>"));
        let wanted = format!("{title} · {project} · Perpend");
        assert_eq!(between(&page, ("<title>", "</title>")), wanted, "{path}");
        let address = between(&page, ("rel=\"canonical\" href=\"", "\""));
        assert_eq!(address, format!("{}{own}", visitor.base), "{path}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn opening_a_fragment_of_a_page_redirects_to_the_page() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket");
    app.ingest(&trace).await.unwrap();
    for (part, page) in [
        (format!("/_/traces/{}/detail?trace", trace.id), format!("/traces/{}?trace", trace.id)),
        ("/_/search?q=x".to_owned(), "/search?q=x".to_owned()),
    ] {
        let opened = get_with(&visitor, &part, &[("sec-fetch-dest", "document")]).await;
        assert_eq!(opened.status, 303, "{part}");
        assert_eq!(header(&opened, "location"), format!("{}{page}", visitor.base));
        let fetched = get_with(&visitor, &part, &[("sec-fetch-dest", "empty")]).await;
        assert_eq!(fetched.status, 200, "{part}");
        assert!(!fetched.text().contains("<html"), "{part}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn preferences_are_set_by_a_form_and_hold_for_one_browser() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let token = visitor.token("/preferences").await;
    let send =
        async |body: &str| visitor.send("/preferences", format!("form={token}&{body}")).await;
    let usual = visitor.page("/traces").await;
    assert!(usual.contains("<html lang=\"en\" data-zone=\"browser\">"), "{usual}");
    let chosen = "keys=off&theme=dark&density=compact&zone=utc&rail=letters";
    let saved = send(chosen).await;
    assert_eq!(saved.status, 303);
    assert_eq!(header(&saved, "location"), "/preferences?saved=1");
    // The button at the rail leads back to where it is.
    for (back, to) in [
        ("/project/p/traces?q=a", "/project/p/traces?q=a"),
        ("//elsewhere.example", "/preferences?saved=1"),
        ("/preferences?saved=1", "/preferences?saved=1"),
    ] {
        let back = encode(back);
        let sent = send(&format!("{chosen}&back={back}")).await;
        assert_eq!(header(&sent, "location"), to);
    }
    let cookie = header(&saved, "set-cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    // A browser without a session: the login form is dark too.
    let browser = app.anonymous().with_header("cookie", cookie);
    for path in ["/login", "/preferences", "/api/reference"] {
        let page = browser.get(path).await.unwrap().text();
        for part in [
            "data-keys=\"off\"",
            "data-theme=\"dark\"",
            "-dark.css\"",
            "data-density=\"compact\"",
            "data-rail=\"letters\"",
        ] {
            assert!(page.contains(part), "{part} in {path}: {page}");
        }
        assert!(!page.contains("data-zone"), "{path}: {page}");
    }
    let form = browser.get("/preferences").await.unwrap().text();
    assert!(form.contains("value=\"dark\" checked"), "{form}");
    let back = send("keys=on&theme=system").await;
    assert!(header(&back, "set-cookie").contains("Max-Age=0"), "all as usual: no cookie");
    let wrong = send("theme=pink").await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().contains("aria-describedby=\"problem-theme\""));
    assert!(wrong.text().contains("theme") && wrong.text().contains("system, light, dark"));
    let large = send(&"x".repeat(2_000)).await;
    assert_eq!(large.status, 413);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_reference_has_a_small_page_for_each_group_and_finds_operations_by_words() {
    let app = TestApp::new().await.unwrap();
    let anybody = app.anonymous();
    let index = anybody.get("/api/reference").await.unwrap().text();
    let groups = index.split("<h2><a href=\"/api/reference/").skip(1);
    let groups: Vec<&str> = groups.filter_map(|rest| rest.split('"').next()).collect();
    assert!(30 < groups.len(), "{groups:?}");
    for group in &groups {
        let address = format!("/api/reference/{group}");
        let page = anybody.get(&address).await.unwrap();
        assert_eq!(page.status, 200, "{group}");
        let html = page.text();
        let n = n_compressed(&html);
        assert!(n <= 45 << 10, "{group}: {n}");
        // The targets of all links within the page exist.
        for target in html.split("href=\"#").skip(1) {
            let target = target.split('"').next().unwrap();
            assert!(html.contains(&format!("id=\"{target}\"")), "{group}: {target}");
        }
        assert!(html.contains("$HOST") && html.contains("internal_error"), "{group}");
    }
    assert!(n_compressed(&index) <= 45 << 10, "{}", n_compressed(&index));
    let found = anybody.get("/api/reference?q=POST+Queue").await.unwrap().text();
    assert!(
        found.contains("Create an annotation queue") && !found.contains("List prompts"),
        "{found}"
    );
    let none = anybody.get("/api/reference?q=%3Cb%3E").await.unwrap().text();
    assert!(none.contains("No operation contains all these words"), "{none}");
    let long = format!("/api/reference?q={}", "x".repeat(201));
    assert_eq!(anybody.get(&long).await.unwrap().status, 400);
    assert_eq!(anybody.get("/api/reference/none").await.unwrap().status, 404);
    app.stop().await.unwrap();
}

/// Sends a trace with its start shifted by so many seconds.
async fn send_later(app: &TestApp, trace: &Trace, seconds: u64) {
    let mut body = trace.to_json();
    let span = &mut body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    for name in ["startTimeUnixNano", "endTimeUnixNano"] {
        let sent: u64 = span[name].as_str().unwrap().parse().unwrap();
        span[name] = json!((sent + seconds * 1_000_000_000).to_string());
    }
    let sent = app.client.json(Method::POST, OTLP, &body).await.unwrap();
    assert_eq!(sent.status, 200, "{}", sent.text());
}

#[tokio::test]
async fn new_traces_are_counted_without_evaluations() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    app.ingest(&Trace::new(1, "ticket")).await.unwrap();
    let address = |page: &str| {
        let addresses = page.split("data-from=\"").skip(1);
        let mut addresses = addresses.filter_map(|rest| rest.split('"').next());
        let address = addresses.find(|address| address.contains("/_/news"));
        let address = address.unwrap().to_owned();
        address.strip_prefix(&visitor.base).unwrap().to_owned()
    };
    let (list, overview) = (visitor.page("/traces").await, visitor.page("").await);
    let since = address(&list);
    assert_eq!(address(&overview), since, "both show the newest trace");
    assert_eq!(get_with(&visitor, &since, &[]).await.text().trim(), "");
    for (n, environment) in [(2, "production"), (3, "sdk-experiment"), (4, "staging")] {
        let later = Trace::new(n, "later").attribute("deployment.environment", environment);
        send_later(&app, &later, n).await;
    }
    let news = get_with(&visitor, &since, &[]).await.text();
    assert!(news.contains("2 new traces") && news.contains("<a href="), "{news}");
    // A list with a time or environments counts within them.
    let narrowed = |within: &str| format!("{since}&{within}");
    for (within, text) in [
        ("env=staging", "1 new trace ·"),
        ("env=production,sdk-experiment", "2 new traces"),
        ("from=2020-01-01", "2 new traces"),
        ("to=2020-01-01", ""),
    ] {
        let news = get_with(&visitor, &narrowed(within), &[]).await.text();
        assert!(
            news.contains(text) && (!text.is_empty() || news.trim().is_empty()),
            "{within}: {news}"
        );
        assert_eq!(news.contains("href=\""), !text.is_empty(), "{within}: {news}");
    }
    let own = visitor.page("/traces?env=staging&from=2020-01-01").await;
    let own = address(&own);
    assert!(own.contains("&env=staging") || own.contains("&#38;env=staging"), "{own}");
    let behind = visitor.page("/traces?page=2").await;
    assert!(!behind.contains("/_/news"), "{behind}");
    // In another order new rows are not at the start: the link leads to them.
    let slowest = address(&visitor.page("/traces?sort=-latency").await);
    let slowest = slowest.replace("&#38;", "&");
    assert!(slowest.contains("since=9999") && slowest.contains("&sort=-latency"), "{slowest}");
    let sorted = format!("{since}&sort=-latency");
    let news = get_with(&visitor, &sorted, &[]).await.text();
    assert!(news.contains("/traces\">2 new traces · show the newest first"), "{news}");
    for (wrong, named) in [
        ("/_/news", "since"),
        ("/_/news?since=yesterday", "since"),
        ("/_/news?since=2026-03-01T00:00:00Z&received=now", "received"),
    ] {
        let answer = get_with(&visitor, wrong, &[]).await;
        assert_eq!(answer.status, 400, "{wrong}");
        assert!(answer.text().contains(named), "{}", answer.text());
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_filtered_list_reports_late_arrivals_that_started_before_its_rows() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    app.ingest(&Trace::new(1, "ticket")).await.unwrap();
    // It started later than the filtered rows, and existed before the page.
    send_later(&app, &Trace::new(3, "other"), 9).await;
    let page = visitor.page("/traces?q=name%3Aticket").await;
    let (_, rest) = page.split_once("id=\"news\"").unwrap();
    let (_, rest) = rest.split_once("data-from=\"").unwrap();
    let address = rest.split('"').next().unwrap().replace("&#38;", "&");
    let address = address.strip_prefix(&visitor.base).unwrap().to_owned();
    let first = get_with(&visitor, &address, &[]).await;
    let now = header(&first, "perpend-now").to_owned();
    assert_eq!(first.text().trim(), "");
    app.ingest(&Trace::new(2, "late")).await.unwrap();
    let news = get_with(&visitor, &format!("{address}&received={now}"), &[]).await;
    let news = news.text();
    assert!(
        news.contains("1 new trace (may not match the filter)") && news.contains("q=name"),
        "{news}"
    );
    app.stop().await.unwrap();
}

/// The response to a login form: the location, and the new cookie.
async fn logged_in(visitor: &Visitor, form: &str) -> (String, String) {
    let answer = visitor.send("/login", form.to_owned()).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    let cookie = answer.headers["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let there = answer.headers["location"].to_str().unwrap();
    (there.to_owned(), cookie)
}

#[tokio::test]
async fn a_browser_is_in_several_projects_and_goes_from_one_to_another() {
    let app = TestApp::new().await.unwrap();
    app.other_project().await.unwrap();
    let own = Visitor::of(&app).await;
    let before = own.page("/sessions?env=prod").await;
    assert!(before.contains("href=\"/login?more=1\""), "{before}");
    let form = own.client.get("/login?more=1").await.unwrap().text();
    assert!(form.contains("Log in to another project"), "{form}");
    let (there, cookie) = logged_in(&own, "public_key=pk-other&secret_key=sk-other").await;
    assert_eq!(there, "/");
    let both = Visitor {
        client: app
            .anonymous()
            .with_header("cookie", &cookie)
            .with_header("accept", "text/html,*/*"),
        base: own.base.clone(),
    };
    // Without a project an address is of the one that was used last.
    let other = both.leads_to("/").await;
    assert_ne!(other, own.base);
    assert_eq!(both.leads_to("/traces").await, format!("{other}/traces"));
    // The section, the time and the environments stay.
    let page = both.page("/sessions?env=prod").await;
    let link = format!("<a href=\"{other}/sessions?env=prod\"><bdi>Other</bdi></a>");
    assert!(page.contains(&link), "{page}");
    let there = format!("{other}/sessions?env=prod");
    let there = both.client.get(&there).await.unwrap();
    let back = format!("<a href=\"{}/sessions?env=prod\">", own.base);
    assert!(there.text().contains(&back), "{}", there.text());
    assert!(there.headers.get("set-cookie").is_none());
    // Opening a page of the other project makes it the last used one; background requests of a page do not.
    let part = format!("{}/_/news?received=1", own.base);
    let part = both.client.get(&part).await.unwrap();
    assert!(part.headers.get("set-cookie").is_none(), "{}", part.text());
    let opened = format!("{}/traces", own.base);
    let by_script = both.client.clone().with_header("sec-fetch-mode", "cors");
    let by_script = by_script.get(&opened).await.unwrap();
    assert!(by_script.headers.get("set-cookie").is_none());
    let opened = both.client.get(&opened).await.unwrap();
    let moved = opened.headers["set-cookie"].to_str().unwrap();
    let moved = moved.split(';').next().unwrap();
    let again = app.anonymous().with_header("cookie", moved);
    let start = again.get("/").await.unwrap();
    assert_eq!(start.headers["location"].to_str().unwrap(), own.base);
    // Forms of a page that was open before are still good.
    let token = before.split_once("name=\"form\" value=\"").unwrap().1;
    let token = token.split('"').next().unwrap();
    let sent = both.send("/preferences", format!("form={token}&theme=dark"));
    assert_eq!(sent.await.status, 303);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_project_that_is_not_logged_in_to_is_like_none_until_it_is() {
    let app = TestApp::new().await.unwrap();
    app.other_project().await.unwrap();
    let own = Visitor::of(&app).await;
    let other = app.anonymous();
    let stranger = Visitor { client: other, base: own.base.clone() };
    let (_, cookie) = logged_in(&stranger, "public_key=pk-other&secret_key=sk-other").await;
    let other = app.anonymous().with_header("cookie", &cookie);
    let there = other.get("/").await.unwrap();
    let there = there.headers["location"].to_str().unwrap().to_owned();
    let closed = format!("{there}/traces");
    let [one, two] = [closed.as_str(), "/project/none/traces"];
    let [one, two] = [own.client.get(one), own.client.get(two)];
    let [one, two] = [one.await.unwrap(), two.await.unwrap()];
    assert_eq!((one.status.as_u16(), one.text()), (404, two.text()));
    assert!(one.text().contains("href=\"/login?more=1\""));
    // The form that this leads to leads back, after a wrong secret too.
    let from = format!("{}{closed}", app.origin);
    let from_sign_in = own.client.clone().with_header("referer", &from);
    let form = from_sign_in.get("/login?more=1").await.unwrap().text();
    assert!(form.contains(&format!("name=\"next\" value=\"{closed}\"")), "{form}");
    let wrong = format!("public_key=pk-other&secret_key=wrong&more=1&next={closed}");
    let wrong = own.send("/login", wrong).await;
    assert!(wrong.status == 401 && wrong.text().contains("to another project"), "{}", wrong.text());
    let right = format!("public_key=pk-other&secret_key=sk-other&next={closed}");
    let (led, _) = logged_in(&own, &right).await;
    assert_eq!(led, closed);
    app.stop().await.unwrap();
}
