//! The list of traces over HTTP: bars over time, and the tags of a trace in the preview.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::{Visitor, rows};

const TIME: &str = "from=2026-03-01&to=2026-03-08";

/// Five traces on three days: two have an error, one is of another environment.
async fn filled() -> TestApp {
    let app = TestApp::new().await.unwrap();
    let events = [
        (1, 2, "ERROR", "default"),
        (2, 2, "DEFAULT", "default"),
        (3, 4, "DEFAULT", "default"),
        (4, 4, "ERROR", "staging"),
        (5, 7, "DEFAULT", "default"),
    ];
    let events = events.map(|(n, day, level, environment)| {
        let at = format!("2026-03-{day:02}T10:0{n}:00Z");
        let trace = json!({ "id": format!("te{n}"), "type": "trace-create", "timestamp": at, "body": {
            "id": format!("t{n}"), "timestamp": at, "name": format!("turn {n}"), "environment": environment } });
        let step = json!({ "id": format!("se{n}"), "type": "span-create", "timestamp": at, "body": {
            "id": format!("s{n}"), "traceId": format!("t{n}"), "name": "step", "startTime": at, "endTime": at,
            "level": level, "environment": environment } });
        [trace, step]
    });
    let batch = json!({ "batch": events.as_flattened() });
    let sent = app.client.json(Method::POST, "/api/public/ingestion", &batch);
    assert_eq!(sent.await.unwrap().json()["errors"], json!([]));
    app
}

/// When each bar begins, where it leads to, and its numbers.
fn bars(part: &str) -> Vec<(String, String, Vec<u64>)> {
    let rows = part.split("<tr><td><a href=\"").skip(1);
    rows.map(|row| {
        let row = row.split("</tr>").next().unwrap();
        let address = row.split('"').next().unwrap().replace("&#38;", "&");
        let (_, at) = row.split_once("datetime=\"").unwrap();
        let cells = row.split("<td class=\"num\">").skip(1);
        let numbers = cells.map(|cell| cell.split('<').next().unwrap().parse().unwrap());
        (at[..10].to_owned(), address, numbers.collect())
    })
    .collect()
}

fn n_rows(page: &str) -> u64 {
    page.matches("<a class=\"name\"").count() as u64
}

#[tokio::test]
async fn bars_agree_with_the_metrics_and_each_lists_exactly_its_traces() {
    let app = filled().await;
    let visitor = Visitor::of(&app).await;
    let part = visitor.page(&format!("/_/traces/bars?{TIME}")).await;
    assert!(!part.contains("<html"), "{part}");
    let all = bars(&part);
    assert_eq!(all.len(), 7, "a bar for each day: {part}");
    let numbers = |day: &str| all.iter().find(|(at, ..)| at.ends_with(day)).unwrap().2.clone();
    assert_eq!(
        ["-02", "-03", "-04", "-07"].map(numbers),
        [vec![2, 1], vec![0, 0], vec![2, 1], vec![1, 0]]
    );
    let question = json!({ "view": "traces", "metrics": [{ "measure": "count", "aggregation": "count" }],
        "timeDimension": { "granularity": "day" }, "orderBy": null,
        "fromTimestamp": "2026-03-01T00:00:00Z", "toTimestamp": "2026-03-08T00:00:00Z" });
    let metrics = format!("/api/public/metrics?query={}", encode(&question.to_string()));
    let metrics = app.client.get(&metrics).await.unwrap().json();
    for day in metrics["data"].as_array().unwrap() {
        let at = &day["time_dimension"].as_str().unwrap()[..10];
        let found = all.iter().find(|(own, ..)| own == at).unwrap();
        assert_eq!(Value::from(found.2[0]), day["count_count"], "{at}");
    }
    for (at, address, numbers) in &all {
        let list = visitor.client.get(address).await.unwrap().text();
        assert_eq!(n_rows(&list), numbers[0], "{at}: {address}");
    }
    // An environment narrows them, and stays in their addresses.
    let part = visitor.page(&format!("/_/traces/bars?{TIME}&env=staging")).await;
    let total: u64 = bars(&part).iter().map(|(.., numbers)| numbers[0]).sum();
    assert_eq!(total, 1, "{part}");
    for (_, address, numbers) in bars(&part) {
        let list = visitor.client.get(&address).await.unwrap().text();
        assert_eq!(n_rows(&list), numbers[0], "{address}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn bars_are_part_of_the_page_without_script_and_report_ignored_conditions() {
    let app = filled().await;
    let visitor = Visitor::of(&app).await;
    let list = visitor.page(&format!("/traces?{TIME}")).await;
    let parameters = "from=2026-03-01T00%3A00%3A00Z&to=2026-03-08T00%3A00%3A00Z";
    let part = format!("data-later=\"{}/_/traces/bars?{parameters}\"", visitor.base);
    let list = list.replace("&#38;", "&");
    assert!(list.contains(&part), "{part}: {list}");
    assert!(list.contains(&format!("/traces?{parameters}&bars=1\"")), "{list}");
    let whole = visitor.page(&format!("/traces?{TIME}&bars=1")).await;
    assert_eq!(bars(&whole).len(), 7, "{whole}");
    let note = ">Not filtered<";
    assert!(!whole.contains(note) && !whole.contains("the last 7 days"));

    let filtered = visitor.page(&format!("/_/traces/bars?q=name%3Anone&{TIME}")).await;
    assert!(filtered.contains(note), "{filtered}");
    let (_, address, numbers) = bars(&filtered).swap_remove(1);
    assert_eq!(numbers, [2, 1]);
    assert!(address.contains("q=name%3Anone"), "the filter stays: {address}");
    let usual = visitor.page("/_/traces/bars").await;
    assert!(usual.contains("the last 7 days"), "{usual}");
    let turned = visitor.page("/_/traces/bars?from=2026-03-08&to=2026-03-01").await;
    assert!(turned.contains("must be after its start"), "{turned}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_tag_is_added_in_the_preview_and_its_problems_are_reported_there() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket");
    app.ingest(&trace).await.unwrap();
    let list = format!("{}/traces?peek={}", visitor.base, trace.id);
    let action = format!("{}/traces/{}", visitor.base, trace.id);
    let peek = format!("/_/traces/{}/peek", trace.id);
    let part = visitor.page(&peek).await;
    assert!(
        part.contains(&format!("action=\"{action}\"")) && part.contains("name=\"add\""),
        "{part}"
    );
    let send = async |typed: &str| {
        let token = visitor.token(&list).await;
        let body = format!("form={token}&back={}&add={typed}", encode(&list));
        visitor.send(&action, body).await
    };
    let done = send("golden").await;
    assert_eq!(done.status, 303, "{}", done.text());
    assert_eq!(done.headers["location"].to_str().unwrap(), list);
    let page = visitor.client.get(&list).await.unwrap().text();
    assert!(page.contains("aria-label=\"Remove the tag golden\""), "{page}");
    let found = visitor.page("/traces?q=tags%3Agolden").await;
    assert_eq!(n_rows(&found), 1, "{found}");
    let refused = send("%20").await;
    let html = refused.text();
    assert_eq!(refused.status, 422, "{html}");
    assert!(
        html.contains("<h1>Traces</h1>") && html.contains("aria-describedby=\"problem-add\""),
        "{html}"
    );
    app.stop().await.unwrap();
}

#[tokio::test]
async fn traces_are_found_by_properties_of_their_steps_which_are_columns_of_the_list() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, model) in [(1, "small"), (2, "large"), (3, "large")] {
        let trace = Trace::new(n, &format!("ticket {n}"))
            .attribute("langfuse.observation.type", "generation")
            .attribute("gen_ai.request.model", model)
            .attribute("langfuse.observation.prompt.name", "greet <b>");
        app.ingest(&trace).await.unwrap();
    }
    let plain = Trace::new(4, "ticket 4").attribute("langfuse.observation.type", "tool");
    app.ingest(&plain).await.unwrap();
    let found = async |q: &str| {
        let path = format!("/traces?q={}", encode(q));
        let mut names = rows(&visitor.page(&path).await);
        names.sort();
        names
    };
    for (q, names) in [
        ("models:large", &["ticket 2", "ticket 3"][..]),
        ("model:small", &["ticket 1"]),
        ("-models:large", &["ticket 1", "ticket 4"]),
        ("kind:TOOL", &["ticket 4"]),
        ("kinds:GENERATION models:any(small,large)", &["ticket 1", "ticket 2", "ticket 3"]),
        ("prompts:\"greet <b>\" name:\"ticket 2\"", &["ticket 2"]),
    ] {
        assert_eq!(found(q).await, names, "{q}");
    }
    let wrong = format!("/traces?q={}", encode("kinds:CALL"));
    let wrong = visitor.page(&wrong).await;
    assert!(wrong.contains("GENERATION"), "the allowed values are named: {wrong}");
    let part = visitor.page("/_/traces/facets?").await;
    for group in ["Model", "Observation kind", "Prompt"] {
        assert!(part.contains(&format!("<h3>{group}</h3>")), "{part}");
    }
    assert!(part.contains("q=models%3Alarge\"><bdi>large</bdi></a>"), "{part}");
    let list = visitor.page("/traces?cols=trace,models,kinds,prompts").await;
    for text in ["large", "<bdi>generation</bdi>", "greet &#60;b&#62;"] {
        assert!(list.contains(text), "{text}: {list}");
    }
    let filter =
        r#"[{"type":"arrayOptions","column":"models","operator":"none of","value":["large"]}]"#;
    let path = format!("/api/public/traces?filter={}", encode(filter));
    let answer = app.client.get(&path).await.unwrap().json();
    assert_eq!(answer["meta"]["totalItems"], 2, "{answer}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_empty_list_names_its_time_and_its_environments_and_drops_each() {
    let app = filled().await;
    let visitor = Visitor::of(&app).await;
    let page = visitor.page("/traces?q=level%3AERROR&from=2026-03-05&env=staging").await;
    let list = format!("{}/traces", visitor.base);
    for text in [
        "level:ERROR</bdi></code>: 2 traces".to_owned(),
        format!(
            "Time <bdi>From 2026-03-05T00:00:00Z</bdi>: 1 trace · \
             <a href=\"{list}?q=level%3AERROR&#38;env=staging\">remove"
        ),
        format!(
            "Environments <bdi>staging</bdi>: 1 trace · \
             <a href=\"{list}?q=level%3AERROR&#38;from=2026-03-05T00%3A00%3A00Z\">remove"
        ),
        format!("<a href=\"{list}\">show all traces"),
    ] {
        assert!(page.contains(&text), "{text} is missing: {page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn unknown_parameters_are_kept_in_links_and_forms() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(7, "ticket")
        .generation("answer", "Thank you.")
        .attribute("langfuse.session.id", "chat")
        .attribute("langfuse.user.id", "ada");
    app.ingest(&trace).await.unwrap();
    let score = json!({ "name": "tone", "value": 1, "traceId": trace.id });
    let sent = app.client.json(Method::POST, "/api/public/scores", &score);
    assert!(sent.await.unwrap().status.is_success());
    let field = "<input type=\"hidden\" name=\"ref\" value=\"a b\">";
    let of_trace = format!("/traces/{}", trace.id);
    for path in ["", "/traces", "/sessions", "/users", "/scores", &of_trace] {
        let page = visitor.page(&format!("{path}?n=25&ref=a+b")).await;
        assert!(page.contains(field), "{path}: {page}");
        let links = page.split("<a ").filter_map(|link| link.split('>').next());
        let n_kept = links.filter(|link| link.contains("ref=a%20b")).count();
        assert!(2 < n_kept, "{path}: {n_kept} links: {page}");
        let (_, canonical) = page.split_once("rel=\"canonical\" href=\"").unwrap();
        let canonical = canonical.split('"').next().unwrap();
        assert!(!canonical.contains("ref="), "{canonical}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn traces_with_and_without_a_score_of_a_name_are_listed_by_the_filter() {
    let app = filled().await;
    let visitor = Visitor::of(&app).await;
    for (trace, value) in [("t1", json!("kind")), ("t2", json!(0.5))] {
        let score = json!({ "name": "tone: deep", "value": value, "traceId": trace });
        let sent = app.client.json(Method::POST, "/api/public/scores", &score);
        assert!(sent.await.unwrap().status.is_success());
    }
    for (filter, n) in [
        ("score.\"tone: deep\":set", 2),
        ("-score.\"tone: deep\":null", 2),
        ("score.\"tone: deep\":null", 3),
        ("-score.\"tone: deep\":set", 3),
        ("score.other:set", 0),
    ] {
        let page = visitor.page(&format!("/traces?q={}", encode(filter))).await;
        assert_eq!(n_rows(&page), n, "{filter}: {page}");
    }
    app.stop().await.unwrap();
}
