//! The pages of backtests over HTTP: start, results and adoption, without script.

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use serde_json::{Value, json};

use crate::judges::generations;
use crate::pages::{Visitor, rows};

#[tokio::test]
async fn a_backtest_is_started_shown_with_its_flips_and_adopted() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "terms": ["Thank"] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config).await.unwrap();
    app.rule(&evaluator, generations()).await.unwrap();
    for n in 1..=3 {
        app.ingest(&Trace::new(n, "ticket").generation("answer", "Thank you.")).await.unwrap();
    }
    app.scores(3).await.unwrap();
    let visitor = Visitor::of(&app).await;
    let list = format!("{}/backtests", visitor.base);
    let selected = visitor.page(&format!("/backtests?evaluator={evaluator}")).await;
    assert!(selected.contains("No backtests yet"), "{selected}");
    assert!(selected.contains(&format!("value=\"{evaluator}\" selected")), "{selected}");

    let fields = |config: &str| {
        format!(
            "evaluator={evaluator}&version=&config={config}&model=&rule=&from=2026-01-01&to=&max_items=2&max_usd="
        )
    };
    let token = visitor.token(&list).await;
    let wrong = visitor.send(&list, format!("form={token}&{}", fields("5"))).await;
    assert_eq!(wrong.status, 422, "{}", wrong.text());
    assert!(wrong.text().contains("id=\"problem-config\""), "{}", wrong.text());
    let token = visitor.token(&list).await;
    let valid = fields("%7B%22terms%22%3A%5B%22Sorry%22%5D%7D");
    let estimated = visitor.send(&list, format!("form={token}&action=estimate&{valid}")).await;
    assert!(estimated.text().contains("2 targets"), "{}", estimated.text());
    let token = visitor.token(&list).await;
    let body = format!("form={token}&{valid}");
    let started = visitor.send(&list, body).await;
    assert_eq!(started.status, 303, "{}", started.text());
    let one = started.headers["location"].to_str().unwrap().to_owned();
    let id = one.rsplit('/').next().unwrap();
    let is_ended = |found: &Value| found["endedAt"].is_string();
    let found = app.wait_for(&format!("/api/v1/backtests/{id}"), is_ended).await.unwrap();
    assert_eq!((&found["state"], &found["pairCount"]), (&json!("completed"), &json!(2)), "{found}");

    let page = visitor.client.get(&one).await.unwrap().text();
    assert!(page.contains("At most 2 targets.") && page.contains("Sorry"), "{page}");
    assert_eq!(rows(&page).len(), 2, "both results differ: {page}");
    let post = async |path: &str, body: Value| {
        app.client.json(Method::POST, path, &body).await.unwrap().json()
    };
    let config = json!({ "name": "right", "dataType": "BOOLEAN" });
    let config = post("/api/public/score-configs", config).await;
    let queue = json!({ "name": "flips", "scoreConfigIds": [config["id"]] });
    let queue = post("/api/public/annotation-queues", queue).await;
    let queue = queue["id"].as_str().unwrap();
    let page = visitor.client.get(&one).await.unwrap().text();
    let (_, target) = page.split_once("name=\"observation\" form=\"choice\" value=\"").unwrap();
    let (target, _) = target.split_once('"').unwrap();
    let token = visitor.token(&one).await;
    let body = format!("form={token}&observation={target}&queue={queue}");
    let added = visitor.send(&format!("{one}/flips/queue"), body).await;
    assert_eq!(added.status, 303, "{}", added.text());
    let items = format!("/api/public/annotation-queues/{queue}/items");
    let items = app.client.get(&items).await.unwrap().json();
    let item = target.split_once(':').unwrap().1;
    assert_eq!(items["data"][0]["objectId"], item, "{items}");
    let token = visitor.token(&one).await;
    let body = format!("form={token}&observation={target}");
    let chosen = visitor.send(&format!("{one}/flips/dataset"), body).await;
    let there = chosen.headers["location"].to_str().unwrap();
    assert!(there.contains("from-traces") && there.contains(item), "{there}");
    let progress = format!("{}/_/backtests/{id}/progress", visitor.base);
    assert_eq!(visitor.client.get(&progress).await.unwrap().text().trim(), "");
    assert_eq!(rows(&visitor.page("/backtests").await), ["contains-any"]);
    let token = visitor.token(&list).await;
    let pause = visitor.send(&format!("{one}/state"), format!("form={token}&action=pause")).await;
    assert_eq!(pause.status, 409, "{}", pause.text());
    let token = visitor.token(&one).await;
    let adopted = visitor.send(&format!("{one}/adopt"), format!("form={token}")).await;
    assert_eq!(adopted.status, 303, "{}", adopted.text());
    let page = visitor.client.get(&one).await.unwrap().text();
    assert!(page.contains("Version 2") && !page.contains(&format!("{one}/adopt")), "{page}");
    app.stop().await.unwrap();
}
