//! The older endpoints of evaluators and rules: by name and by page, over the same store.

use axum::http::Method;
use perpend_it::{TestApp, count};
use serde_json::{Value, json};

const EVALUATORS: &str = "/api/public/unstable/evaluators";
const RULES: &str = "/api/public/unstable/evaluation-rules";

async fn call(
    app: &TestApp,
    method: Method,
    path: &str,
    body: Value,
) -> anyhow::Result<(u16, Value)> {
    let answer = app.client.json(method, path, &body).await?;
    Ok((answer.status.as_u16(), answer.json()))
}

#[tokio::test]
async fn a_name_that_exists_gets_its_next_version() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let input = |mode: &str| {
        json!({
            "type": "plugin", "name": "exact", "plugin": "perpend/text", "evaluator": "exact-match",
            "config": { "ignore_key_order": mode == "loose" },
        })
    };
    let (status, first) = call(&app, Method::POST, EVALUATORS, input("strict")).await?;
    assert_eq!((status, &first["version"]), (200, &json!(1)), "{first}");
    assert_eq!((&first["variables"], &first["evaluationRuleCount"]), (&json!([]), &json!(0)));
    let (status, second) = call(&app, Method::POST, EVALUATORS, input("loose")).await?;
    assert_eq!((status, &second["version"], &second["id"]), (200, &json!(2), &first["id"]));
    let list = app.client.get(&format!("{EVALUATORS}?limit=1")).await?.json();
    assert_eq!(list["meta"], json!({ "page": 1, "limit": 1, "totalItems": 1, "totalPages": 1 }));
    assert_eq!(list["data"][0]["version"], 2);
    // The default type is a judge, and no judge can run here.
    let judge = json!({ "name": "judge", "prompt": "Is it good?" });
    let (status, refused) = call(&app, Method::POST, EVALUATORS, judge).await?;
    assert!(matches!(status, 400 | 422) && refused["code"].is_string(), "{status} {refused}");
    let one = format!("{EVALUATORS}/{}", first["id"].as_str().unwrap_or_default());
    let (status, deleted) = call(&app, Method::DELETE, &one, json!({})).await?;
    assert_eq!((status, deleted["message"].is_string()), (200, true));
    assert_eq!(app.client.get(&one).await?.status, 404);
    app.stop().await
}

#[tokio::test]
async fn a_rule_names_its_evaluators_and_is_the_same_rule_on_both_ways() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    let evaluator = app.evaluator("perpend/text", "exact-match", json!({})).await?;
    let input = json!({
        "name": "experiments", "evaluator": { "name": "exact-match", "type": "code" },
        "target": "experiment", "enabled": true, "sampling": 0.5, "mapping": null,
        "filter": [{ "type": "stringOptions", "column": "environment", "operator": "any of", "value": ["a"] }],
    });
    let (status, made) = call(&app, Method::POST, RULES, input.clone()).await?;
    assert_eq!(status, 200, "{made}");
    assert_eq!((&made["target"], &made["status"]), (&json!("experiment"), &json!("active")));
    assert_eq!(made["filter"], input["filter"], "nothing else makes it one of experiments");
    assert_eq!(made["evaluators"][0]["evaluator"]["id"], json!(evaluator));
    let id = made["id"].as_str().unwrap_or_default();
    let one = format!("{RULES}/{id}");
    let newer = app.client.get(&format!("/api/public/v2/evaluation-rules/{id}")).await?.json();
    assert_eq!(newer["target"], "experiment");
    assert_eq!(newer["filter"], input["filter"]);
    assert_eq!(newer["evaluatorAssignments"][0]["evaluatorId"], json!(evaluator));

    let (status, again) = call(&app, Method::POST, RULES, input).await?;
    assert_eq!((status, &again["details"]["reason"]), (409, &json!("name_conflict")), "{again}");
    let (status, changed) =
        call(&app, Method::PATCH, &one, json!({ "filter": [], "name": "experiments" })).await?;
    assert_eq!(
        (status, &changed["target"], &changed["filter"]),
        (200, &json!("experiment"), &json!([]))
    );
    let (_, changed) = call(&app, Method::PATCH, &one, json!({ "target": "observation" })).await?;
    assert_eq!((&changed["target"], &changed["sampling"]), (&json!("observation"), &json!(0.5)));
    assert_eq!(count(&app.client.get(RULES).await?.json()), 1);
    let other = app.other_project().await?;
    assert_eq!(other.get(&one).await?.status, 404);
    let (status, _) = call(&app, Method::DELETE, &one, json!({})).await?;
    assert_eq!(status, 200);
    assert_eq!(count(&app.client.get(RULES).await?.json()), 0);
    app.stop().await
}

#[tokio::test]
async fn errors_of_rules_have_the_form_that_older_clients_expect() -> anyhow::Result<()> {
    let app = TestApp::new().await?;
    app.evaluator("perpend/text", "exact-match", json!({})).await?;
    let rule = json!({
        "name": "rule", "evaluator": { "name": "exact-match" }, "target": "observation", "enabled": true,
    });
    let (_, made) = call(&app, Method::POST, RULES, rule).await?;
    let one = format!("{RULES}/{}", made["id"].as_str().unwrap_or_default());
    for (bad, status) in [
        (json!({ "target": "trace" }), 400),
        (json!({ "evaluator": { "name": "nobody" } }), 404),
        (
            json!({ "evaluators": [{ "evaluator": { "name": "exact-match", "type": "llm_as_judge" } }] }),
            404,
        ),
        (json!({ "evaluators": [], "evaluator": { "name": "exact-match" } }), 400),
        (json!({ "sampling": 2 }), 400),
    ] {
        let (found, body) = call(&app, Method::PATCH, &one, bad.clone()).await?;
        assert_eq!((found, body["message"].is_string()), (status, true), "{bad}: {body}");
    }
    let kept = app.client.get(&one).await?.json();
    assert_eq!((&kept["sampling"], &kept["target"]), (&json!(1.0), &json!("observation")));
    // A mapping alone is that of the only evaluator.
    let mapping = json!([{ "variable": "output", "source": "input" }]);
    let alone = json!({ "mapping": mapping });
    let (status, changed) = call(&app, Method::PATCH, &one, alone.clone()).await?;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["mapping"], mapping);
    assert_eq!(changed["evaluators"][0]["mapping"], mapping);
    assert_eq!(changed["evaluator"], kept["evaluator"]);
    let none =
        json!({ "name": "none", "target": "observation", "enabled": false, "mapping": mapping });
    let (status, refused) = call(&app, Method::POST, RULES, none).await?;
    let message = refused["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.starts_with("mapping: "), "{refused}");
    app.stop().await
}
