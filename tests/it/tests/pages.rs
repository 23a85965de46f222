//! The pages over HTTP, as a browser without script gets them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{KEYS, TestApp, Trace};
use perpend_server::client::{Answer, Client};
use perpend_views::encode;
use serde_json::{Value, json};

/// The headers of forms in browsers.
pub(crate) const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
/// The header of a form on a page of this server.
pub(crate) const OURS: (&str, &str) = ("sec-fetch-site", "same-origin");

/// A visitor with a session, as a browser sends it.
pub(crate) struct Visitor {
    pub(crate) client: Client,
    pub(crate) base: String,
}

impl Visitor {
    pub(crate) async fn of(app: &TestApp) -> Self {
        Self::with_keys(app, KEYS).await
    }

    /// A visitor with another key pair of the project.
    pub(crate) async fn with_keys(app: &TestApp, (public_key, secret_key): (&str, &str)) -> Self {
        let headers = [FORM, OURS];
        let form = format!("public_key={public_key}&secret_key={secret_key}");
        let visitor = app.anonymous();
        let answer = visitor.send(Method::POST, "/login", &headers, form);
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, 303, "{}", answer.text());
        let cookie = answer.headers["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap();
        let client = visitor.with_header("cookie", cookie);
        Self {
            client: client.with_header("accept", "text/html"),
            base: format!("/project/{}", app.app.home_project),
        }
    }

    /// A page of the project.
    pub(crate) async fn page(&self, path: &str) -> String {
        let address = format!("{}{path}", self.base);
        let answer = self.client.get(&address).await.unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// The token in the forms of a page.
    pub(crate) async fn token(&self, path: &str) -> String {
        let page = self.client.get(path).await.unwrap().text();
        let (_, rest) = page.split_once("name=\"form\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Sends a form, as a browser does from a page of this server.
    pub(crate) async fn send(&self, path: &str, body: String) -> Answer {
        let sent = self.client.send(Method::POST, path, &[FORM, OURS], body);
        sent.await.unwrap()
    }

    /// Sends a form of a page of the project to a path of the project, with these fields.
    pub(crate) async fn submit(&self, page: &str, action: &str, fields: &[(&str, &str)]) -> Answer {
        let page = format!("{}{page}", self.base);
        let token = self.token(&page).await;
        let own = [("form", token.as_str()), ("back", page.as_str())];
        let pairs: Vec<(&str, String)> =
            own.iter().chain(fields).map(|(name, value)| (*name, (*value).to_owned())).collect();
        let body = perpend_views::with_query("", &pairs);
        let body = body.trim_start_matches('?').to_owned();
        self.send(&format!("{}{action}", self.base), body).await
    }

    pub(crate) async fn leads_to(&self, path: &str) -> String {
        let answer = self.client.get(path).await.unwrap();
        assert_eq!(answer.status, 303, "{path}");
        answer.headers["location"].to_str().unwrap().to_owned()
    }
}

/// The texts of the first links of rows.
pub(crate) fn rows(page: &str) -> Vec<String> {
    let links = page.split("<a class=\"name\"").skip(1);
    let texts = links.filter_map(|link| link.split_once("<bdi>")?.1.split_once("</bdi>"));
    texts.map(|(text, _)| text.to_owned()).collect()
}

/// The address of a link to the page behind or before.
pub(crate) fn way(page: &str, rel: &str) -> Option<String> {
    let (_, link) = page.split_once(&format!("rel=\"{rel}\" href=\""))?;
    let (address, _) = link.split_once('"')?;
    Some(address.replace("&amp;", "&").replace("&#38;", "&"))
}

#[tokio::test]
async fn addresses_without_a_project_lead_to_the_viewers_and_others_are_not_found() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let base = &visitor.base;
    assert_eq!(visitor.leads_to("/").await, *base);
    for path in [
        "/traces?q=level%3AERROR",
        "/observations?q=level%3AERROR",
        "/sessions",
        "/users",
        "/rules",
        "/rules/r1",
        "/evaluators",
        "/evaluators/e1",
        "/backfills",
        "/backfills/b1",
        "/backtests",
        "/backtests/b1",
        "/executions?state=failed",
        "/executions/e1",
        "/search?q=x",
        "/scores?name=a",
        "/scores/analytics?a=a",
        "/scores/thresholds?name=a",
        "/datasets",
        "/datasets/d1",
        "/datasets/d1/runs/r1",
        "/datasets/d1/items/i1",
        "/settings/connections",
        "/settings/keys",
        "/settings/audit",
        "/plugins",
        "/traces/t1",
    ] {
        assert_eq!(visitor.leads_to(path).await, format!("{base}{path}"));
    }
    assert_eq!(visitor.leads_to("/trace/t1").await, format!("{base}/traces/t1"));
    let printed = format!("{base}/experiments/results?baseline=r%2F1");
    assert_eq!(visitor.leads_to(&printed).await, format!("{base}/experiments/r%2F1"));
    for path in
        ["", "/traces", "/traces/t1", "/sessions", "/users", "/rules", "/evaluators", "/executions"]
    {
        let foreign = format!("/project/another{path}");
        let answer = visitor.client.get(&foreign).await.unwrap();
        assert_eq!(answer.status, 404, "{foreign}");
        let anybody = app.anonymous().get(&foreign).await.unwrap();
        assert_eq!(anybody.status, 303, "without a session it leads to the form");
    }
    let unknown = format!("{base}/traces/none");
    assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_error_page_has_the_frame_of_the_session_and_links_out() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let base = &visitor.base;
    let unknown = format!("{base}/traces/none");
    let missing = visitor.client.get(&unknown).await.unwrap().text();
    for part in ["class=\"rail\"", "class=\"seek\"", "id=\"palette\"", "href=\"/logout\""] {
        assert!(missing.contains(part), "{part}: {missing}");
    }
    // The response is the same for every missing or foreign resource.
    for path in [
        "/nope",
        &format!("{base}/nope"),
        &format!("{base}/traces/%ff"),
        "/project/another/nope",
        "/project/another/traces/t1",
    ] {
        let answer = visitor.client.get(path).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(answer.text(), missing, "{path}");
    }
    let narrowed = format!("{base}/nope?env=staging");
    let narrowed = visitor.client.get(&narrowed).await.unwrap().text();
    assert!(narrowed.contains("/sessions?env=staging\""), "{narrowed}");
    let group = visitor.client.get("/api/reference/nope").await.unwrap();
    assert!(group.status == 404 && group.text().contains("class=\"rail\""));
    let anybody = app.anonymous().with_header("accept", "text/html");
    let nothing = anybody.get("/nope").await.unwrap();
    assert!(nothing.status == 404 && !nothing.text().contains("class=\"rail\""));
    assert_eq!(anybody.get("/logout").await.unwrap().status, 303);
    let token = visitor.token("/logout").await;
    let out = visitor.send("/logout", format!("form={token}")).await;
    assert_eq!(out.status, 303);
    assert_eq!(out.headers["location"], "/login");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_overview_waits_for_the_first_trace_and_then_shows_figures() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let waiting = visitor.page("").await;
    assert!(
        waiting.contains("data-wait") && waiting.contains("/api/public/otel/v1/traces"),
        "{waiting}"
    );
    let trace = Trace::new(1, "ticket").generation("answer", "Thank you.");
    app.ingest(&trace).await.unwrap();
    let overview = visitor.page("").await;
    assert!(!overview.contains("data-wait"), "{overview}");
    assert!(overview.contains("Needs attention"), "{overview}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn traces_of_evaluations_are_hidden_until_requested() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let own = Trace::new(1, "evaluate tone").attribute("deployment.environment", "sdk-experiment");
    app.ingest(&own).await.unwrap();
    let overview = visitor.page("").await;
    assert!(!overview.contains("data-wait"), "something was recorded: {overview}");
    let text = "Only evaluation and experiment traces have been recorded so far";
    assert!(overview.contains(text), "{overview}");
    let shown = "?env=perpend-eval%2Cperpend-playground%2Csdk-experiment\">show them</a>";
    assert!(overview.contains(shown), "{overview}");
    let alone = visitor.page("?env=sdk-experiment").await;
    assert!(alone.contains(text) && alone.contains("class=\"cards\""), "{alone}");
    let list = visitor.page("/traces").await;
    assert!(list.contains("evaluation and experiment traces hidden"), "{list}");
    assert!(!list.contains("data-wait"), "something was recorded: {list}");
    assert_eq!(rows(&list), [""; 0]);
    let all = visitor.page("/traces?q=environment%3Aset").await;
    assert_eq!(rows(&all), ["evaluate tone"]);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn pages_of_datasets_and_runs_show_their_contents_and_a_text_is_found_in_a_trace() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").generation("answer", "The REFUND takes two days.");
    app.ingest(&trace).await.unwrap();
    let post = async |path: &str, body: Value| {
        let answer = app.client.json(Method::POST, path, &body).await.unwrap();
        assert!(answer.status.is_success(), "{}", answer.text());
        answer.json()
    };
    let dataset = post("/api/public/v2/datasets", json!({ "name": "a/b <i>" })).await;
    let item = json!({ "datasetName": "a/b <i>", "input": "x" });
    let item = post("/api/public/dataset-items", item).await;
    let link = json!({
        "runName": "first run", "datasetItemId": item["id"], "traceId": trace.id,
    });
    let link = post("/api/public/dataset-run-items", link).await;
    let (dataset, run) = (&dataset["id"], &link["datasetRunId"]);
    let path = format!("/datasets/{}", dataset.as_str().unwrap());
    let page = visitor.page(&path).await;
    assert!(page.contains("a/b &#60;i&#62;") && page.contains("items/"), "{page}");
    let page = visitor.page(&format!("{path}?tab=experiments")).await;
    assert!(page.contains("first run"), "{page}");
    let printed = format!("{}{path}/runs/{}", visitor.base, run.as_str().unwrap());
    let path = format!("/experiments/{}", run.as_str().unwrap());
    assert_eq!(visitor.leads_to(&printed).await, format!("{}{path}", visitor.base));
    assert!(page.contains(&path), "the run is linked: {page}");
    let overview = visitor.page("").await;
    assert!(overview.contains("Latest experiment runs") && overview.contains(&path), "{overview}");
    let page = visitor.page(&path).await;
    assert!(page.contains("first run"), "{page}");
    let all = visitor.page("/datasets").await;
    assert!(all.contains("/datasets?folder=a\"") && all.contains("Create a dataset"), "{all}");
    let folder = visitor.page("/datasets?folder=a").await;
    let link = format!("/datasets/{}\"", dataset.as_str().unwrap());
    assert!(folder.contains(&link) && rows(&folder) == ["b &#60;i&#62;"], "{folder}");
    for unknown in ["/datasets/none", "/datasets/none/runs/none"] {
        let unknown = format!("{}{unknown}", visitor.base);
        assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404);
    }

    let path = format!("/traces/{}/find?q=refund", trace.id);
    let page = visitor.page(&path).await;
    assert!(page.contains("<mark>REFUND</mark>") && page.contains("1 observation"), "{page}");
    let none = visitor.page(&format!("/traces/{}/find?q=nothing", trace.id)).await;
    assert!(none.contains("No matches"), "{none}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_search_in_a_trace_continues_at_its_position_and_lists_each_step_once() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let mut trace = Trace::new(1, "ticket");
    for n in 0..300 {
        let text = if n < 250 { "The REFUND takes two days." } else { "No." };
        trace = trace.generation(&format!("answer {n}"), text);
    }
    app.ingest(&trace).await.unwrap();
    let path = format!("/traces/{}", trace.id);
    let mut page = visitor.page(&format!("{path}/find?q=refund")).await;
    assert!(page.contains("100 observations"), "{page}");
    assert!(page.contains("101 of 301 observations searched"), "{page}");
    let step = format!("?observation={}&find=refund", Trace::span_id(2));
    assert!(page.replace("&#38;", "&").contains(&step), "{page}");
    let mut names = rows(&page);
    let mut n_pages = 1;
    while let Some(next) = way(&page, "next") {
        page = visitor.client.get(&next).await.unwrap().text();
        names.extend(rows(&page));
        n_pages += 1;
    }
    assert!(page.contains("250 found, 201–250 on this page"), "{page}");
    assert!(!page.contains("observations searched"), "{page}");
    let all: Vec<String> = (0..250).map(|n| format!("answer {n}")).collect();
    assert_eq!((n_pages, names), (3, all));

    let odd = format!("{path}/find?q=refund&after=5.x.y");
    let odd = visitor.page(&odd).await;
    assert!(odd.contains("`after` must be a position of this search"), "{odd}");
    assert!(odd.contains("100 observations"), "{odd}");

    let of_step = visitor.page(&format!("{path}{step}")).await;
    assert!(of_step.contains("data-hits=\"") && of_step.contains("Clear search"), "{of_step}");
    let seek = format!("/_{path}/seek?what=step&from={}", Trace::span_id(200));
    let window = visitor.page(&seek).await;
    assert!(window.contains("data-selected=\"199\""), "{window}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn comments_of_scores_are_found_in_a_trace_at_their_subjects() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").generation("answer", "Two days.");
    app.ingest(&trace).await.unwrap();
    let step = Trace::span_id(2);
    for (observation, comment) in [(None, "Not a refund"), (Some(&step), "a REFUND at last")] {
        let score = json!({
            "traceId": trace.id, "observationId": observation,
            "name": "tone", "value": 1, "comment": comment,
        });
        let answer = app.client.json(Method::POST, "/api/public/scores", &score);
        let answer = answer.await.unwrap();
        assert!(answer.status.is_success(), "{}", answer.text());
    }
    let page = format!("/traces/{}/find?q=refund", trace.id);
    let page = visitor.page(&page).await;
    assert!(page.contains("1 observation and the trace"), "{page}");
    let part = "<span class=\"muted\">comment</span>";
    assert_eq!(page.matches(part).count(), 2, "{page}");
    assert_eq!(rows(&page), ["Trace", "answer"]);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_filter_searches_all_observations_and_a_faulty_term_is_named() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, text) in [(1, "The refund takes two days."), (2, "你好，世界"), (3, "<b>&\"'")] {
        let trace = Trace::new(n, &format!("ticket {n}")).generation("answer", text);
        app.ingest(&trace).await.unwrap();
    }
    for (q, found) in [
        ("%22refund+takes%22", "ticket 1"),
        ("%E4%BD%A0%E5%A5%BD", "ticket 2"),
        ("name%3A%22ticket+3%22", "ticket 3"),
    ] {
        let page = visitor.page(&format!("/traces?q={q}")).await;
        assert_eq!(rows(&page), [found], "{q}");
    }
    let page = visitor.page("/traces?q=latncy%3A%3E2+name%3A%22ticket+1%22").await;
    assert_eq!(rows(&page), ["ticket 1"], "the other condition holds");
    assert!(page.contains("latency"), "{page}");
    let none = visitor.page("/traces?q=userId%3Anobody").await;
    assert!(none.contains("No traces match"), "{none}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_text_is_found_and_shown_as_it_is_read_however_json_escapes_it() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let escaped =
        r#"{"q":"\u4f60\u597d escaped \u0645\u0631\u062d\u0628\u0627 \/ say \"quokka\""}"#;
    let trace = Trace::new(1, "escaped").attribute("perpend.observation.input", escaped);
    app.ingest(&trace).await.unwrap();
    let own = json!({ "batch": [{
        "id": "e1", "type": "trace-create", "timestamp": "2026-03-01T10:00:00.000Z",
        "body": { "id": "own", "name": "own output", "output": "The wombat is asleep." },
    }] });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &own);
    assert_eq!(sent.await.unwrap().status, 207);
    let list = visitor.page("/traces").await;
    assert!(list.contains("你好 escaped مرحبا / say ") && !list.contains("u4f60"), "{list}");
    for (text, marked, found) in [
        ("你好", "你好", "escaped"),
        ("مرحبا", "مرحبا", "escaped"),
        ("say \"QUOKKA\"", "say &#34;quokka&#34;", "escaped"),
        ("\\u4f60", "\\u4f60", "escaped"),
        ("wombat", "wombat", "own output"),
    ] {
        let word = encode(&json!(text).to_string());
        let page = visitor.page(&format!("/traces?q={word}")).await;
        assert_eq!(rows(&page), [found], "{text}");
        let mark = format!("<mark>{marked}</mark>");
        assert!(page.contains(&mark), "{text}: {page}");
        if found == "escaped" {
            let path = format!("/traces/{}/find?q={}", trace.id, encode(text));
            let page = visitor.page(&path).await;
            assert!(page.contains(&mark) && page.contains("1 observation"), "{page}");
        }
    }
    let filter = json!([{
        "type": "string", "column": "input", "operator": "contains", "value": "你好 escaped",
    }]);
    let path =
        format!("/api/public/v2/observations?fields=io&filter={}", encode(&filter.to_string()));
    let found = app.client.get(&path).await.unwrap().json();
    assert_eq!(found["data"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["data"][0]["input"], escaped, "as it was sent");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn sessions_and_users_are_walked_page_by_page_and_opened() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let session = "chat/1 <i> ü?&#";
    for n in 0..70 {
        let own = match n {
            0..10 => session.to_owned(),
            _ => format!("s{n}"),
        };
        let trace = Trace::new(100 + n, "turn")
            .attribute("perpend.observation.output", &format!("Answer {n}."))
            .attribute("langfuse.session.id", &own)
            .attribute("langfuse.user.id", "ada");
        app.ingest(&trace).await.unwrap();
    }
    let first = visitor.page("/sessions").await;
    let next = way(&first, "next").unwrap();
    let second = visitor.client.get(&next).await.unwrap().text();
    let mut all = rows(&first);
    assert_eq!(all.len(), 50);
    all.extend(rows(&second));
    let n = all.len();
    all.sort();
    all.dedup();
    assert_eq!((n, all.len()), (61, 61), "none twice, none lost");
    let back = way(&second, "prev").unwrap();
    let back = visitor.client.get(&back).await.unwrap().text();
    assert_eq!(rows(&back), rows(&first));

    let path = format!("/sessions/{}", perpend_views::encode(session));
    let page = visitor.page(&path).await;
    assert!(page.contains("Turns 1–10 of 10"), "{page}");
    assert!(page.contains("Answer 0.") && page.contains("Answer 9."), "{page}");
    assert!(!page.contains("<i> ü"), "ids are escaped");
    let by_id = format!("{}/sessions?id={}", visitor.base, perpend_views::encode(session));
    assert_eq!(visitor.leads_to(&by_id).await, format!("{}{path}", visitor.base));
    let unknown = visitor.page("/sessions?id=nobody").await;
    assert!(unknown.contains("has the id"), "{unknown}");

    let user = visitor.page("/users/ada").await;
    assert!(user.contains("All traces of this user"), "{user}");
    assert_eq!(rows(&visitor.page("/users").await), ["ada"]);
    for (list, name) in [("/sessions", "after"), ("/sessions", "before"), ("/users", "before")] {
        let page = visitor.page(&format!("{list}?{name}=yesterday")).await;
        let notice = format!("`{name}` must be a cursor of this list");
        assert!(page.contains(&notice), "{list}: {page}");
        assert_eq!(rows(&page), rows(&visitor.page(list).await), "{list}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_trace_is_also_a_timeline_a_thread_and_a_log() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").generation("answer", "Thank you.");
    app.ingest(&trace).await.unwrap();
    let path = format!("/traces/{}", trace.id);
    let of = async |query: &str| visitor.page(&format!("{path}?{query}")).await;
    let tree = of("").await;
    for view in ["time", "thread", "log"] {
        assert!(tree.contains(&format!("v={view}\"")), "{view}: {tree}");
    }
    let thread = of("v=thread").await;
    assert!(thread.contains("Calls 1–1 of 1") && thread.contains("Thank you."), "{thread}");
    let log = of("v=log").await;
    assert!(log.contains("Observations 1–2 of 2") && log.contains("Thank you."), "{log}");
    let errors = of("v=log&min=ERROR").await;
    assert!(errors.contains("2 observations below this level not shown"), "{errors}");
    let time = of("v=time").await;
    assert!(time.contains("Critical path") && time.contains("name=\"t0\""), "{time}");
    for (query, named) in
        [("v=graph", "v"), ("min=LOUD", "min"), ("v=time&t0=5&t1=2", "t0` and `t1")]
    {
        let page = of(query).await;
        let message = format!("`{named}` must be ");
        assert!(page.contains(&message), "{query}: {page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn headings_order_the_list_and_invalid_parameters_are_reported() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, tokens) in [(1, "5"), (2, "70"), (3, "9")] {
        let trace = Trace::new(n, &format!("ticket {n}"))
            .attribute("langfuse.observation.usage_details", &format!("{{\"output\": {tokens}}}"));
        app.ingest(&trace).await.unwrap();
    }
    let page = visitor.page("/traces").await;
    assert!(page.contains("aria-sort=\"descending\""), "{page}");
    let link = page.split("sort=-totalTokens\">Tokens").count();
    assert_eq!(link, 2, "the heading leads to the most tokens: {page}");
    let sorted = visitor.page("/traces?sort=-totalTokens").await;
    assert_eq!(rows(&sorted), ["ticket 2", "ticket 3", "ticket 1"]);
    assert!(sorted.contains("sort=totalTokens\">Tokens"), "and back: {sorted}");
    let sorted = visitor.page("/traces?sort=totalTokens").await;
    assert_eq!(rows(&sorted), ["ticket 1", "ticket 3", "ticket 2"]);
    let odd = visitor.page("/traces?sort=-luck&page=two").await;
    assert_eq!(rows(&odd).len(), 3, "the rest of the page works");
    assert!(odd.contains("got `-luck`"), "{odd}");
    assert!(odd.contains("-errorCount") && odd.contains("`page` must be"), "{odd}");
    let api = app.client.get("/api/public/traces?orderBy=totalTokens.asc");
    let api = api.await.unwrap().json();
    assert_eq!(api["data"][0]["name"], "ticket 1", "{api}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_list_is_ordered_by_a_score_and_a_page_after_its_end_is_reported() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, quality) in [(1, Some(0.25)), (2, None), (3, Some(0.75))] {
        let trace = Trace::new(n, &format!("ticket {n}"));
        app.ingest(&trace).await.unwrap();
        if let Some(value) = quality {
            let score =
                json!({"traceId": perpend_it::trace_id(n), "name": "quality", "value": value});
            let sent = app.client.json(Method::POST, "/api/public/scores", &score);
            assert_eq!(sent.await.unwrap().status, 200);
        }
    }
    let best = visitor.page("/traces?sort=-score.quality").await;
    assert_eq!(rows(&best), ["ticket 3", "ticket 1", "ticket 2"]);
    let worst = visitor.page("/traces?sort=score.quality").await;
    assert_eq!(rows(&worst), ["ticket 1", "ticket 3", "ticket 2"]);
    let api = app.client.get("/api/public/traces?orderBy=score.quality.desc");
    let api = api.await.unwrap().json();
    let names: Vec<_> = (0..3).map(|at| api["data"][at]["name"].clone()).collect();
    assert_eq!(names, ["ticket 3", "ticket 1", "ticket 2"]);
    for behind in ["/traces?after=_0_0", "/traces?page=9"] {
        let page = visitor.page(behind).await;
        assert!(page.contains("No traces on this page"), "{page}");
        assert!(!page.contains("No traces match"), "{page}");
    }
    // A continued search carries the number of hits of earlier pages.
    let end = "/traces?q=ticket&after=_0_0&looked=20000&found=";
    for (n, text) in [(0, "No traces match"), (3, "3 matches on earlier pages")] {
        let page = visitor.page(&format!("{end}{n}")).await;
        assert!(page.contains(text), "{page}");
        assert!(page.contains("20,000 traces searched, to the end"), "{page}");
        let canonical =
            format!("<link rel=\"canonical\" href=\"{}/traces?q=ticket\">", visitor.base);
        assert!(page.contains(&canonical), "{page}");
    }
    let odd = visitor.page("/traces?sort=-latency&after=_0_0").await;
    assert_eq!(rows(&odd).len(), 3, "the rest of the page works");
    assert!(odd.contains("`after` must be a cursor of this order"), "{odd}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn columns_of_the_list_are_chosen_in_its_address() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket")
        .attribute("langfuse.trace.metadata.tier", "gold <b>")
        .attribute("langfuse.release", "r7");
    app.ingest(&trace).await.unwrap();
    for value in [0.5, 1.0] {
        let score = json!({ "traceId": trace.id, "name": "tone, in all", "value": value });
        let answer = app.client.json(Method::POST, "/api/public/scores", &score);
        assert!(answer.await.unwrap().status.is_success());
    }
    let columns = "id,metadata.tier,release,score.\"tone, in all\",luck";
    let columns = perpend_views::encode(columns);
    let page = visitor.page(&format!("/traces?cols={columns}&n=7")).await;
    assert_eq!(rows(&page), ["ticket"], "the link to the trace is always shown");
    for shown in [
        &format!("<bdi>{}</bdi>", trace.id),
        "gold &#60;b&#62;",
        "<bdi>r7</bdi>",
        "0.75 (n = 2)",
        "`cols` has unknown columns: luck",
        "`n` must be one of 25, 50, 100; got `7`",
    ] {
        assert!(page.contains(shown), "{shown} is missing: {page}");
    }
    let (_, table) = page.split_once("<table").unwrap();
    assert!(!table.contains("User and session"), "{table}");
    assert!(page.contains("name=\"cols\" value=\"id\" checked"), "{page}");
    // The form sends a parameter for each box, and the typed value.
    let page =
        visitor.page("/traces?sort=latency&cols=trace&cols=userId&cols=metadata.tier&n=25").await;
    assert!(page.contains("gold &#60;b&#62;"), "{page}");
    let heading = page.split_once("sort=-timestamp").is_none();
    assert!(
        heading && page.contains("name=\"sort\" value=\"latency\""),
        "the order is kept: {page}"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_trace_is_previewed_next_to_the_list_with_and_without_script() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").attribute("langfuse.observation.output", "Two days <b>.");
    app.ingest(&trace).await.unwrap();
    let list = visitor.page("/traces?sort=latency").await;
    let peek_link = format!("/traces?sort=latency&#38;peek={0}#row-{0}\"", trace.id);
    assert!(list.contains(&peek_link), "each row leads to it: {list}");
    let page = visitor.page(&format!("/traces?sort=latency&peek={}", trace.id)).await;
    assert!(page.contains("Two days &#60;b&#62;.") && page.contains("Open the trace"), "{page}");
    assert!(page.contains("\" aria-current=\"true\">"), "{page}");
    let close = format!("data-close href=\"{}/traces?sort=latency\"", visitor.base);
    assert!(page.contains(&close), "{page}");
    let part = visitor.page(&format!("/_/traces/{}/peek?sort=latency&peek=x", trace.id)).await;
    assert!(part.contains(&close) && !part.contains("<html"), "{part}");
    let unknown = visitor.page("/traces?peek=nobody").await;
    assert!(unknown.contains("no trace with this id"), "{unknown}");
    let part = format!("{}/_/traces/nobody/peek", visitor.base);
    assert_eq!(visitor.client.get(&part).await.unwrap().status, 404);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn facets_count_values_and_link_to_their_traces() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, user) in [(1, "ada, \"b\""), (2, "ada, \"b\""), (3, "carl")] {
        let trace = Trace::new(n, &format!("ticket {n}")).attribute("langfuse.user.id", user);
        app.ingest(&trace).await.unwrap();
    }
    let list = visitor.page("/traces?sort=latency").await;
    let part = "/_/traces/facets?sort=latency";
    assert!(list.contains(&format!("data-later=\"{}{part}\"", visitor.base)), "{list}");
    let page = visitor.page("/traces?sort=latency&facets=1").await;
    let part = visitor.page(part).await;
    assert!(!part.contains("<html"), "{part}");
    for html in [&page, &part] {
        assert!(html.contains("Counts of 3 traces"), "{html}");
    }
    let link = |text: &str| {
        let (before, _) = part.split_once(&format!("\"><bdi>{text}</bdi>")).unwrap();
        let (_, address) = before.rsplit_once("href=\"").unwrap();
        address.replace("&#38;", "&")
    };
    let address = link("ada, &#34;b&#34;");
    assert!(address.contains("sort=latency"), "the order is kept: {address}");
    let found = visitor.client.get(&address).await.unwrap().text();
    let mut names = rows(&found);
    names.sort();
    assert_eq!(names, ["ticket 1", "ticket 2"], "{address}");
    let (_, not) = part.split_once("<bdi>ada, &#34;b&#34;</bdi>").unwrap();
    let (_, not) = not.split_once("href=\"").unwrap();
    let not = not.split('"').next().unwrap().replace("&#38;", "&");
    let found = visitor.client.get(&not).await.unwrap().text();
    assert_eq!(rows(&found), ["ticket 3"], "{not}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_empty_list_shows_the_matches_of_each_condition_alone() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for n in 1..=3 {
        let trace = Trace::new(n, "ticket").attribute("langfuse.user.id", &format!("u{n}"));
        app.ingest(&trace).await.unwrap();
    }
    let q =
        perpend_views::encode("name:ticket userId:u2 userId:u3 latncy:>2 sessionId:set nowhere");
    let page = visitor.page(&format!("/traces?q={q}")).await;
    let (_, empty) = page.split_once("No traces match").unwrap();
    for text in [
        "name:ticket</bdi></code>: 3 traces",
        "userId:u2</bdi></code>: 1 trace ",
        "latncy:&#62;2</bdi></code> has no effect",
        "sessionId:set</bdi></code>: no trace",
        "nowhere</bdi></code>: no trace",
        ">remove",
    ] {
        assert!(empty.contains(text), "{text} is missing: {empty}");
    }
    app.stop().await.unwrap();
}
