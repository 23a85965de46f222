//! The pages of backfills over HTTP: estimate, start, progress and changes, without script.

use perpend_it::{TestApp, Trace};
use serde_json::json;

use crate::backfills::{disabled_rule, enable_after, ended};
use crate::pages::{Visitor, rows};

#[tokio::test]
async fn a_backfill_is_estimated_started_and_shown_until_its_end() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "terms": ["Thank"] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config).await.unwrap();
    let rule = disabled_rule(&app, &evaluator, json!({ "name": "thankful" })).await;
    for n in 1..=3 {
        let trace = Trace::new(n, "ticket");
        let trace = trace.attribute("perpend.observation.output", "Thank you.");
        app.ingest(&trace).await.unwrap();
    }
    let visitor = Visitor::of(&app).await;
    let none = visitor.page("/backfills").await;
    assert!(none.contains("No backfills yet") && !none.contains("name=\"from\""), "{none}");
    enable_after(&app, &rule, 3).await;

    let list = format!("{}/backfills", visitor.base);
    let selected = visitor.page(&format!("/backfills?rule={rule}")).await;
    assert!(selected.contains(&format!("value=\"{rule}\" selected")), "{selected}");
    let fields = |from: &str, action: &str| {
        format!("rule={rule}&mode=fill&from={from}&to=&max_items=2&max_usd=&action={action}")
    };
    let token = visitor.token(&list).await;
    let estimate =
        visitor.send(&list, format!("form={token}&{}", fields("2026-01-01", "estimate"))).await;
    assert_eq!(estimate.status, 200, "{}", estimate.text());
    assert!(estimate.text().contains("<b>2 targets</b>"), "{}", estimate.text());
    let wrong = visitor.send(&list, format!("form={token}&{}", fields("soon", "start"))).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.text().contains("id=\"problem-from\""), "{}", wrong.text());
    let wrong = visitor.send(&list, format!("form={token}&{}", fields("2026-01-01", "go"))).await;
    assert_eq!(wrong.status, 400, "{}", wrong.text());

    let token = visitor.token(&list).await;
    let body = format!("form={token}&{}", fields("2026-01-01", "start"));
    let started = visitor.send(&list, body.clone()).await;
    assert_eq!(started.status, 303, "{}", started.text());
    let one = started.headers["location"].to_str().unwrap().to_owned();
    // The same form again starts no second one.
    assert_eq!(visitor.send(&list, body).await.headers["location"], one.as_str());
    let id = one.rsplit('/').next().unwrap();
    let found = ended(&app, id).await;
    assert_eq!(found["completedCount"], 2, "{found}");
    let page = visitor.client.get(&one).await.unwrap().text();
    assert!(page.contains("completed") && page.contains("At most 2 targets."), "{page}");
    let progress = format!("{}/_/backfills/{id}/progress", visitor.base);
    assert_eq!(visitor.client.get(&progress).await.unwrap().text().trim(), "");
    assert_eq!(rows(&visitor.page("/backfills").await), ["thankful"]);
    let token = visitor.token(&list).await;
    let pause = format!("form={token}&action=pause");
    let refused = visitor.send(&format!("{one}/state"), pause).await;
    assert_eq!(refused.status, 409, "{}", refused.text());
    app.stop().await.unwrap();
}
