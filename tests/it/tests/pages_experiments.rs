//! Pages of experiments over HTTP, as a browser without script gets them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use perpend_views::encode;
use serde_json::{Value, json};

use crate::pages::Visitor;

/// Number of items of the dataset.
const N_ITEMS: usize = 20;

async fn post(app: &TestApp, path: &str, body: Value) -> Value {
    let answer = app.client.json(Method::POST, path, &body).await.unwrap();
    assert!(answer.status.is_success(), "{path}: {}", answer.text());
    answer.json()
}

/// A dataset with items; the ids of the items.
async fn dataset(app: &TestApp) -> Vec<String> {
    post(app, "/api/public/v2/datasets", json!({ "name": "questions" })).await;
    let mut ids = Vec::with_capacity(N_ITEMS);
    for n in 0..N_ITEMS {
        let item = json!({
            "datasetName": "questions",
            "id": format!("item-{n:02}"),
            "input": { "question": format!("question {n}") },
            "expectedOutput": format!("answer {n}"),
            "metadata": { "tier": if n < 10 { "gold" } else { "silver" } },
        });
        let item = post(app, "/api/public/dataset-items", item).await;
        ids.push(item["id"].as_str().unwrap().to_owned());
    }
    ids
}

/// A run over all items; `n_right` of them have the expected answer and the score 1, the others 0. Returns its id.
async fn run(
    app: &TestApp,
    (name, number): (&str, u64),
    items: &[String],
    n_right: usize,
) -> String {
    let mut id = String::new();
    for (n, item) in items.iter().enumerate() {
        let is_right = n < n_right;
        let output = match is_right {
            true => format!("answer {n}"),
            false => format!("wrong answer {n} of {name}"),
        };
        let trace = Trace::new(number * 1_000 + n as u64, "answer");
        let trace = trace.attribute("perpend.observation.output", &output);
        app.ingest(&trace).await.unwrap();
        let link = json!({ "runName": name, "datasetItemId": item, "traceId": trace.id });
        let link = post(app, "/api/public/dataset-run-items", link).await;
        let value = u8::from(is_right);
        let score = json!({
            "name": "accuracy", "value": value, "traceId": trace.id, "dataType": "NUMERIC",
            "comment": format!("checked {n}"),
        });
        post(app, "/api/public/scores", score).await;
        id = link["datasetRunId"].as_str().unwrap().to_owned();
    }
    id
}

/// Larger values of the score of the runs are better.
async fn set_direction(app: &TestApp) {
    let path = "/api/v1/score-directions/accuracy";
    let direction = json!({ "direction": "higher_is_better" });
    let set = app.client.json(Method::PUT, path, &direction).await.unwrap();
    assert_eq!(set.status, 200, "{}", set.text());
}

/// The rows of the table of compared items: the ids in the order of the page.
fn shown_items(page: &str) -> Vec<String> {
    let links = page.split("/experiments/compare/items/").skip(1);
    links.map(|link| link.split('?').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn runs_are_listed_with_their_means_and_selected_ones_lead_to_the_comparison() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let empty = visitor.page("/experiments").await;
    assert!(empty.contains("No experiments yet") && empty.contains("run_experiment"), "{empty}");
    let items = dataset(&app).await;
    let first = run(&app, ("first version", 1), &items, 18).await;
    app.clock.advance(std::time::Duration::from_secs(60));
    let second = run(&app, ("second version", 2), &items, 5).await;
    let page = visitor.page("/experiments").await;
    for part in ["first version", "second version", "20 / 20", "0.90 <span", "0.25 <span"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let filtered = visitor.page("/experiments?q=SECOND").await;
    assert!(filtered.contains("second version") && !filtered.contains("first version"));
    let none = visitor.page("/experiments?dataset=unknown").await;
    assert!(none.contains("No experiments match"), "{none}");
    let form = format!("{}/experiments/compare?run={second}&run={first}", visitor.base);
    let there = format!("{}/experiments/compare?runs={first},{second}", visitor.base);
    assert_eq!(visitor.leads_to(&form).await, there);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_baseline_of_a_dataset_is_compared_first_also_if_it_is_newer() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let first = run(&app, ("first version", 1), &items[..4], 2).await;
    app.clock.advance(std::time::Duration::from_secs(60));
    let second = run(&app, ("second version", 2), &items[..4], 4).await;
    let stored = app.client.get("/api/v1/datasets/questions").await.unwrap().json();
    let path = format!("/datasets/{}", stored["id"].as_str().unwrap());
    let tab = format!("{}{path}?tab=experiments", visitor.base);
    let page = visitor.page(&format!("{path}?tab=experiments")).await;
    for part in ["first version", "0.50 <span", "1.00 <span", "Set as baseline"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let token = visitor.token(&tab).await;
    let body = format!("form={token}&back={}&run={second}", encode(&tab));
    let set = visitor.send(&format!("{}{path}/baseline", visitor.base), body).await;
    assert_eq!(set.status, 303, "{}", set.text());
    let stored = app.client.get("/api/v1/datasets/questions").await.unwrap().json();
    assert_eq!(stored["baselineRunId"], second.as_str());
    let page = visitor.page(&format!("{path}?tab=experiments")).await;
    assert!(page.contains("Remove baseline"), "{page}");
    let form = format!("{}/experiments/compare?run={second}&run={first}", visitor.base);
    let there = format!("{}/experiments/compare?runs={second},{first}", visitor.base);
    assert_eq!(visitor.leads_to(&form).await, there);
    let wrong = json!({ "baselineRunId": "none" });
    let wrong = app.client.json(Method::PATCH, "/api/v1/datasets/questions", &wrong).await.unwrap();
    assert!(wrong.status == 400 && wrong.text().contains("baselineRunId"), "{}", wrong.text());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_page_of_a_run_has_the_numbers_of_the_api_and_its_worst_items_first() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let id = run(&app, ("first version", 1), &items[..18], 12).await;
    let report = app.client.get(&format!("/api/v1/experiments/{id}")).await.unwrap().json();
    let page = visitor.page(&format!("/experiments/{id}")).await;
    let card = |label: &str, value: &Value| format!("<dt>{label}</dt><dd><b>{value}</b>");
    for (label, member) in [
        ("Expected items", "nExpected"),
        ("Items seen", "nSeen"),
        ("Failed", "nFailed"),
        ("Missing", "nMissing"),
    ] {
        let expected = card(label, &report["account"][member]);
        assert!(page.contains(&expected), "{expected} in {page}");
    }
    let mean = report["scores"][0]["values"]["mean"].as_f64().unwrap();
    assert!(page.contains(&format!(">{mean:.2}</td>")), "{mean} in {page}");
    assert!(page.contains("<b>incomplete</b>") && page.contains("wrong answer 12"), "{page}");
    let position = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} in {page}"));
    assert!(position(">missing</span>") < position("wrong answer 12"));
    assert!(position("wrong answer 12") < position("answer 0<"));
    let missing = visitor.page(&format!("/experiments/{id}?show=missing")).await;
    assert!(missing.contains("1–2 of 2") && !missing.contains("wrong answer"), "{missing}");
    let odd = visitor.page(&format!("/experiments/{id}?show=odd&at=x")).await;
    assert!(odd.contains("`show` must be one of"), "{odd}");
    let unknown = format!("{}/experiments/none", visitor.base);
    assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404);
    let news = format!("{}/_/experiments/{id}/news?n=17", visitor.base);
    let news = visitor.client.get(&news).await.unwrap();
    assert!(news.text().contains("1 new result"), "{}", news.text());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_score_has_a_verdict_once_its_direction_is_set_and_regressions_come_first() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let first = run(&app, ("first version", 1), &items, 20).await;
    let second = run(&app, ("second version", 2), &items, 6).await;
    let path = format!("/experiments/compare?runs={first},{second}");
    let undirected = visitor.page(&path).await;
    assert!(undirected.contains("Which values are better?"), "{undirected}");
    assert!(undirected.contains("not comparable"), "{undirected}");
    let address = format!("{}{path}", visitor.base);
    let token = visitor.token(&address).await;
    let body = format!(
        "form={token}&back={}&score=accuracy&type=NUMERIC&direction=higher",
        encode(&address)
    );
    let direction = format!("{}/experiments/direction", visitor.base);
    assert_eq!(visitor.send(&direction, body).await.status, 303);
    let page = visitor.page(&path).await;
    assert!(!page.contains("Which values are better?"), "{page}");
    for part in [">worse</span>", "−0.70", "higher is better", "0 / 6 / 14", "Regressed"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    // Words of the output that differ from the baseline.
    assert!(page.contains("<ins>") && page.contains("wrong"), "{page}");
    assert!(!page.to_lowercase().contains("no difference"), "{page}");
    let shown = shown_items(&page);
    assert_eq!(shown.len(), N_ITEMS);
    let regressed = visitor.page(&format!("{path}&show=regressed")).await;
    assert_eq!(shown_items(&regressed), shown[..14], "regressions come first");
    let improved = visitor.page(&format!("{path}&show=improved")).await;
    assert!(improved.contains("No items in this selection"), "{improved}");

    let swapped = visitor.page(&format!("{path}&base={second}")).await;
    assert!(swapped.contains(">better</span>") && swapped.contains("+0.70"), "{swapped}");
    assert!(swapped.contains("14 / 6 / 0"), "{swapped}");
    let segments = visitor.page(&format!("{path}&segment=tier")).await;
    assert!(segments.contains("<bdi>gold</bdi>") && segments.contains("<bdi>silver</bdi>"));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_difference_that_could_not_have_been_seen_is_inconclusive() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    set_direction(&app).await;
    let first = run(&app, ("first version", 1), &items, 15).await;
    let second = run(&app, ("second version", 2), &items, 16).await;
    let page = visitor.page(&format!("/experiments/compare?runs={first},{second}")).await;
    for part in
        [">inconclusive</span>", "Smallest detectable difference", "Needed for a verdict: about"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.to_lowercase().contains("no difference"), "{page}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn an_item_shows_the_output_of_each_run_and_leads_to_the_next_item_of_the_comparison() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    set_direction(&app).await;
    let first = run(&app, ("first version", 1), &items, 20).await;
    let second = run(&app, ("second version", 2), &items, 6).await;
    let query = format!("runs={first},{second}");
    let list = visitor.page(&format!("/experiments/compare?{query}")).await;
    let order = shown_items(&list);
    let page = visitor.page(&format!("/experiments/compare/items/{}?{query}", order[0])).await;
    assert!(page.contains("1 of 20") && page.contains("first version"), "{page}");
    assert!(page.contains("<del>") && page.contains("<ins>"), "{page}");
    assert!(page.contains("checked "), "comments of scores are shown: {page}");
    let next =
        format!("rel=\"next\" href=\"{}/experiments/compare/items/{}?", visitor.base, order[1]);
    assert!(page.contains(&next) && !page.contains("rel=\"prev\""), "{next} in {page}");
    let whole = format!("/experiments/compare/items/{}?{query}&diff=off", order[0]);
    let whole = visitor.page(&whole).await;
    assert!(!whole.contains("<ins>") && whole.contains("of second version"), "{whole}");
    let unknown = format!("{}/experiments/compare/items/none?{query}", visitor.base);
    assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404);
    app.stop().await.unwrap();
}

#[tokio::test]
async fn runs_that_cannot_be_compared_are_named_with_the_reason() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let id = run(&app, ("first version", 1), &items[..2], 1).await;
    for (query, message) in [
        ("", "`runs` must name 2 to 6 runs, got 0"),
        (&*format!("?runs={id}"), "got 1"),
        (&*format!("?runs={id},none"), "unknown run `none`"),
        (&*format!("?runs={id},{id}"), "twice"),
    ] {
        let page = visitor.page(&format!("/experiments/compare{query}")).await;
        assert!(page.contains(message) && page.contains("Select 2 to 6 runs"), "{page}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_renamed_run_is_found_by_its_id_and_by_both_names() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let id = run(&app, ("first version", 1), &items[..2], 1).await;
    run(&app, ("second version", 2), &items[..1], 1).await;
    let rename = format!("{}/experiments/{id}/rename", visitor.base);
    let token = visitor.token(&rename).await;
    let back = encode(&format!("{}/experiments/{id}", visitor.base));
    let taken = format!("form={token}&back={back}&name=second+version");
    let refused = visitor.send(&rename, taken).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("problem-name"), "{}", refused.text());
    let sent = visitor.send(&rename, format!("form={token}&back={back}&name=before")).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let page = visitor.page(&format!("/experiments/{id}")).await;
    assert!(page.contains("<bdi>before</bdi>"), "{page}");
    // A client that continues the run under its first name adds to it.
    assert_eq!(run(&app, ("first version", 1), &items[..3], 1).await, id);
    for name in ["before", "first%20version"] {
        let path = format!("/api/public/datasets/questions/runs/{name}");
        let found = app.client.get(&path).await.unwrap().json();
        assert_eq!((&found["id"], &found["name"]), (&json!(id), &json!("before")), "{found}");
    }
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_run_is_deleted_after_a_confirmation_and_its_traces_stay() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let id = run(&app, ("first version", 1), &items[..2], 1).await;
    let delete = format!("{}/experiments/{id}/delete", visitor.base);
    let page = visitor.page(&format!("/experiments/{id}/delete")).await;
    assert!(page.contains("first version") && page.contains("2 items"), "{page}");
    let token = visitor.token(&delete).await;
    let back = encode(&format!("{}/experiments", visitor.base));
    let sent = visitor.send(&delete, format!("form={token}&back={back}")).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let gone = format!("{}/experiments/{id}", visitor.base);
    assert_eq!(visitor.client.get(&gone).await.unwrap().status, 404);
    let traces = app.client.get("/api/public/traces").await.unwrap().json();
    assert_eq!(traces["data"].as_array().map(Vec::len), Some(2), "{traces}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_gate_shows_the_outcome_of_each_requirement_and_earlier_outcomes() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let first = run(&app, ("first version", 1), &items, 20).await;
    let second = run(&app, ("second version", 2), &items, 6).await;
    let gate = format!("{}/experiments/{second}/gate", visitor.base);
    let page = visitor.page(&format!("/experiments/{second}/gate")).await;
    assert!(page.contains("metric = &#34;accuracy&#34;") && page.contains("perpend gate --run"));
    assert!(page.contains("was not evaluated yet"), "{page}");
    let token = visitor.token(&gate).await;
    let send = async |config: &str| {
        let body = format!("form={token}&baseline={first}&config={}", encode(config));
        visitor.send(&gate, body).await
    };
    let refused = send("[[require]]\nmetrics = \"typed\"\n").await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("metrics = &#34;typed&#34;"), "{}", refused.text());
    let config = "[[require]]\nmetric = \"accuracy\"\nnot_worse_than_baseline = 0.02\n\
                  [[require]]\nmetric = \"accuracy\"\nmean_at_least = 0.1\n\
                  [directions]\naccuracy = \"higher_is_better\"\n";
    let sent = send(config).await;
    assert_eq!(sent.status, 303, "{}", sent.text());
    let page = visitor.page(&format!("/experiments/{second}/gate")).await;
    for part in [">failed</span>", "exit code 1", ">passed</span>", "-0.7", "| accuracy |"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(page.contains("<bdi>first version</bdi>"), "the history names the baseline: {page}");
    // The comparison has the same table.
    let path = format!("/experiments/compare?runs={first},{second}");
    set_direction(&app).await;
    let comparison = visitor.page(&path).await;
    let row = |page: &str| {
        let (_, row) = page.split_once("| accuracy |").unwrap();
        row.lines().next().unwrap().to_owned()
    };
    assert_eq!(row(&comparison), row(&page));
    app.stop().await.unwrap();
}

#[tokio::test]
async fn scores_of_different_evaluator_versions_are_warned_about_with_the_difference() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let items = dataset(&app).await;
    let config = |term: &str| json!({ "terms": [term] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config("answer")).await.unwrap();
    app.rule(&evaluator, json!({ "target": "experiment" })).await.unwrap();
    let first = run(&app, ("first version", 1), &items[..2], 1).await;
    // Two scores of the application and two of the evaluator.
    app.scores(4).await.unwrap();
    let next = json!({
        "type": "plugin", "plugin": "perpend/text", "evaluator": "contains-any",
        "config": config("wrong"),
    });
    let path = format!("/api/public/v2/evaluators/{evaluator}");
    let saved = app.client.json(Method::PATCH, &path, &next).await.unwrap();
    assert_eq!(saved.status, 200, "{}", saved.text());
    let second = run(&app, ("second version", 2), &items[..2], 1).await;
    app.scores(8).await.unwrap();
    let page = visitor.page(&format!("/experiments/compare?runs={first},{second}")).await;
    assert!(page.contains(">Warnings</h2>"), "{page}");
    assert!(page.contains("`contains-any` was made by"), "{page}");
    let of_run = visitor.page(&format!("/experiments/{first}")).await;
    assert!(of_run.contains("2 scored, 0 missing"), "{of_run}");
    let list = format!("{}/export/experiments?format=csv", visitor.base);
    let list = visitor.client.get(&list).await.unwrap();
    assert!(list.text().starts_with("Id,Run,Dataset"), "{}", list.text());
    assert_eq!(list.text().lines().count(), 3, "{}", list.text());
    app.stop().await.unwrap();
}

#[tokio::test]
async fn runs_whose_ids_are_words_of_addresses_have_pages_of_their_own() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    for (n, id) in ["compare", "new", "results", "~new"].into_iter().enumerate() {
        let trace = Trace::new(n as u64 + 1, "answer")
            .attribute("langfuse.experiment.id", id)
            .attribute("langfuse.experiment.name", &format!("the run {id}"))
            .attribute("langfuse.experiment.item.id", "item")
            .attribute("langfuse.experiment.item.root_observation_id", &Trace::span_id(1));
        app.ingest(&trace).await.unwrap();
    }
    let list = visitor.page("/experiments").await;
    for (id, segment) in
        [("compare", "~compare"), ("new", "~new"), ("results", "~results"), ("~new", "~~new")]
    {
        assert!(list.contains(&format!("/experiments/{segment}\"")), "{segment} in {list}");
        let page = visitor.page(&format!("/experiments/{segment}")).await;
        assert!(page.contains(&format!("the run {id}<")), "{page}");
        visitor.page(&format!("/experiments/{segment}/gate")).await;
    }
    let by_client = format!("{}/experiments/results?baseline=compare", visitor.base);
    let page = format!("{}/experiments/~compare", visitor.base);
    assert_eq!(visitor.leads_to(&by_client).await, page);
    let found = app.client.get("/api/v1/experiments/~compare").await.unwrap();
    assert_eq!((found.status.as_u16(), &found.json()["id"]), (200, &json!("compare")));
    app.stop().await.unwrap();
}
