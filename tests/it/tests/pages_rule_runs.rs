//! A rule applied to rows that are selected in a list, without script.

use perpend_it::{TestApp, Trace};
use serde_json::json;

use crate::pages::Visitor;

#[tokio::test]
async fn a_rule_scores_the_rows_that_are_selected_in_a_list() {
    let app = TestApp::new().await.unwrap();
    let config = json!({ "terms": ["Thank"] });
    let evaluator = app.evaluator("perpend/text", "contains-any", config).await.unwrap();
    let visitor = Visitor::of(&app).await;
    let trace = Trace::new(1, "ticket").attribute("perpend.observation.output", "Thank you.");
    app.ingest(&trace.attribute("session.id", "s1")).await.unwrap();
    for list in ["/observations", "/traces", "/sessions"] {
        let page = visitor.page(list).await;
        assert!(page.contains(&format!("formaction=\"{}/rule-runs\"", visitor.base)), "{list}");
    }
    let trace = Trace::new(1, "ticket").id;
    let selected = format!("{trace}:{}", Trace::span_id(1));
    let form = format!("/rule-runs?observation={selected}&in=%2Fobservations%3Fq%3Dticket");
    let without_rules = visitor.page(&form).await;
    assert!(without_rules.contains("No enabled rule"), "{without_rules}");

    // The rule matches nothing by itself.
    let filter =
        json!([{ "type": "string", "column": "name", "operator": "=", "value": "nothing" }]);
    let rule = app.rule(&evaluator, json!({ "filter": filter, "name": "polite" })).await.unwrap();
    let page = visitor.page(&form).await;
    assert!(
        page.contains(&format!("value=\"{rule}\"")) && page.contains("1 observation"),
        "{page}"
    );
    let nothing = visitor.page("/rule-runs?in=%2Fsessions").await;
    assert!(nothing.contains("Nothing selected") && nothing.contains("/sessions\""), "{nothing}");

    let fields = |mode: &'static str| {
        [("observation", selected.as_str()), ("rule", rule.as_str()), ("mode", mode)]
    };
    let refused = visitor.submit(&form, "/rule-runs", &fields("all")).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("id=\"problem-mode\""), "{}", refused.text());
    let run = visitor.submit(&form, "/rule-runs", &fields("fill")).await;
    assert_eq!(run.status, 303, "{}", run.text());
    let href = format!("{}/rules/{rule}", visitor.base);
    assert_eq!(run.headers["location"], href.as_str());
    let cookie = run.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap();
    let client = visitor.client.clone().with_header("cookie", cookie);
    let page = client.get(&href).await.unwrap().text();
    assert!(page.contains("1 target queued (1 execution)"), "{page}");
    let scores = app.scores(1).await.unwrap();
    assert_eq!(scores[0]["value"], 1.0, "{scores:?}");
    app.stop().await.unwrap();
}
