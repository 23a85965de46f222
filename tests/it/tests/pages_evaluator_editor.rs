//! The gallery of evaluators and the forms that create and change them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, count};
use perpend_server::client::Answer;
use serde_json::{Value, json};

use crate::pages::Visitor;

const EVALUATORS: &str = "/api/public/v2/evaluators";
const NEW_PLUGIN: &str = "/evaluators/new/plugin";
const NEW_CODE: &str = "/evaluators/new/code";

/// The id of the evaluator that a saved form leads to.
fn saved(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    let location = answer.headers["location"].to_str().unwrap();
    location.rsplit('/').next().unwrap().to_owned()
}

async fn evaluator(app: &TestApp, id: &str) -> Value {
    app.client.get(&format!("{EVALUATORS}/{id}")).await.unwrap().json()
}

#[tokio::test]
async fn an_evaluator_of_a_plugin_is_created_from_the_gallery_with_problems_at_their_fields() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let gallery = visitor.page("/evaluators/new").await;
    for part in ["Python", "Factuality", "perpend/text", "contains-any"] {
        assert!(gallery.contains(part), "{part}: {gallery}");
    }
    let found = visitor.page("/evaluators/new?q=contains-any").await;
    assert!(found.contains("contains-any") && !found.contains("TypeScript"), "{found}");
    let (_, link) = found.split_once(&format!("{}{NEW_PLUGIN}?", visitor.base)).unwrap();
    let query = link.split('"').next().unwrap().replace("&amp;", "&").replace("&#38;", "&");
    let page = format!("{NEW_PLUGIN}?{query}");
    let form = visitor.page(&page).await;
    assert!(
        form.contains("name=\"config.terms\"") && form.contains("config.ignore_case"),
        "{form}"
    );

    let send = async |name: &str, terms: &str, ignore_case: &str| {
        let fields = [
            ("plugin", "perpend/text"),
            ("function", "contains-any"),
            ("name", name),
            ("config.terms", terms),
            ("config.ignore_case", ignore_case),
            ("action", "save"),
        ];
        visitor.submit(&page, NEW_PLUGIN, &fields).await
    };
    // Not JSON, or not an array: the form and the schema report these.
    for terms in ["[\"hello\"", "7"] {
        let refused = send("greets", terms, "true").await;
        let text = refused.text();
        assert_eq!(refused.status, 422, "{text}");
        assert!(text.contains("id=\"config-problem-") && text.contains("terms: "), "{text}");
        assert!(text.contains("value=\"greets\""), "the values are kept: {text}");
    }
    let refused = send(" ", "[\"hello\"]", "").await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("id=\"problem-name\""), "{}", refused.text());
    assert_eq!(count(&app.client.get(EVALUATORS).await.unwrap().json()), 0);

    let fields = [
        ("plugin", "perpend/text"),
        ("function", "contains-any"),
        ("name", ""),
        ("config.terms", "[\"hello\"]"),
        ("try_from", "item"),
        ("try_item", "{\"output\": \"hello there\"}"),
        ("action", "try"),
    ];
    let tried = visitor.submit(&page, NEW_PLUGIN, &fields).await;
    let text = tried.text();
    assert_eq!(tried.status, 200, "{text}");
    assert!(text.contains("id=\"try-results\"") && text.contains("contains_any"), "{text}");
    assert!(text.contains("[&#34;hello&#34;]"), "the values are kept: {text}");
    assert_eq!(count(&app.client.get(EVALUATORS).await.unwrap().json()), 0);

    let id = saved(&send("greets", "[\"hello\"]", "true").await);
    let stored = evaluator(&app, &id).await;
    assert_eq!(stored["config"], json!({ "ignore_case": true, "terms": ["hello"] }), "{stored}");
    let edit = visitor.page(&format!("/evaluators/{id}/edit")).await;
    assert!(edit.contains("hello") && edit.contains("value=\"greets\""), "{edit}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn a_function_that_calls_models_is_refused_at_its_models_without_a_connection() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let gallery = visitor.page("/evaluators/new?q=factuality").await;
    assert!(gallery.contains("/evaluators/new/judge?preset=factuality"), "{gallery}");
    let page = format!("{NEW_PLUGIN}?plugin=perpend%2Fjudge&function=judge");
    let form = visitor.page(&page).await;
    assert!(form.contains("name=\"connection.judge\""), "{form}");
    let fields = [
        ("plugin", "perpend/judge"),
        ("function", "judge"),
        ("name", "truth"),
        ("config.prompt", "\"Is {{output}} true?\""),
        ("config.choice_scores", "{\"Yes\": 1, \"No\": 0}"),
        ("connection.judge", "default"),
    ];
    let refused = visitor.submit(&page, NEW_PLUGIN, &fields).await;
    assert_eq!(refused.status, 422, "{}", refused.text());
    assert!(refused.text().contains("id=\"problem-models\""), "{}", refused.text());
    let unknown = format!("{}{NEW_PLUGIN}?plugin=perpend%2Fnone&function=judge", visitor.base);
    assert_eq!(visitor.client.get(&unknown).await.unwrap().status, 404);
    app.stop().await.unwrap();
}

const BROKEN: &str =
    "def evaluate(ctx):\n    words = ctx.observation.output.split(\n    return 1\n";
const MENDED: &str = "def evaluate(ctx):\n    words = ctx.observation.output.split()\n    \
     return {'scores': [{'name': 'words', 'value': len(words)}]}\n";

#[tokio::test]
async fn a_python_evaluator_with_a_syntax_error_shows_its_line_and_is_mended() {
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let page = format!("{NEW_CODE}?language=PYTHON");
    let form = visitor.page(&page).await;
    assert!(form.contains("def evaluate(ctx):") && form.contains("256 KiB"), "{form}");
    let send = async |source: &str| {
        let fields = [("name", "words"), ("language", "PYTHON"), ("source", source)];
        visitor.submit(&page, NEW_CODE, &fields).await
    };
    let empty = send(" ").await;
    assert_eq!(empty.status, 422, "{}", empty.text());
    assert!(empty.text().contains("INVALID_SOURCE"), "{}", empty.text());
    let refused = send(BROKEN).await;
    let text = refused.text();
    assert_eq!(refused.status, 422, "{text}");
    if text.contains("perpend plugin add FILE") {
        assert!(text.contains("id=\"problem-language\""), "{text}");
        perpend_it::left_out("the interpreter for PYTHON is not built (cargo xtask plugins)");
        app.stop().await.unwrap();
        return;
    }
    assert!(text.contains("<b>2 │") && text.contains("SyntaxError"), "{text}");
    assert!(text.contains("words = ctx.observation.output.split("), "the source is kept: {text}");
    let id = saved(&send(MENDED).await);
    assert_eq!(evaluator(&app, &id).await["sourceCode"], MENDED);
    let edit = visitor.page(&format!("/evaluators/{id}/edit")).await;
    assert!(edit.contains("output.split()"), "{edit}");
    app.stop().await.unwrap();
}

#[tokio::test]
async fn the_second_of_two_windows_that_edit_an_evaluator_gets_both_versions_and_replaces_nothing()
{
    let app = TestApp::new().await.unwrap();
    let visitor = Visitor::of(&app).await;
    let id =
        app.evaluator("perpend/text", "contains-any", json!({ "terms": ["a"] })).await.unwrap();
    let page = format!("/evaluators/{id}/edit");
    let save = async |version: &str, name: &str, terms: &str| {
        let fields = [
            ("version", version),
            ("stored_name", "contains-any"),
            ("name", name),
            ("config.terms", terms),
            ("config.ignore_case", "false"),
        ];
        visitor.submit(&page, &page, &fields).await
    };
    assert_eq!(saved(&save("1", "contains-any", "[\"first\"]").await), id);
    let refused = save("1", "contains-any", "[\"second\"]").await;
    let text = refused.text();
    assert_eq!(refused.status, 409, "{text}");
    assert!(text.contains("first") && text.contains("second"), "{text}");
    assert!(text.contains("name=\"version\" value=\"2\""), "{text}");
    let stored = evaluator(&app, &id).await;
    assert_eq!((&stored["version"], &stored["config"]["terms"]), (&json!(2), &json!(["first"])));

    // With the version of the response the form overwrites the stored one; a new name alone creates no version.
    saved(&save("2", "contains-any", "[\"second\"]").await);
    saved(&save("3", "renamed", "[\"second\"]").await);
    let stored = evaluator(&app, &id).await;
    assert_eq!((&stored["version"], &stored["name"]), (&json!(3), &json!("renamed")), "{stored}");
    let other = save("3", "another name", "[\"second\"]").await;
    assert_eq!(other.status, 409, "{}", other.text());
    assert_eq!(evaluator(&app, &id).await["name"], "renamed");

    // The API checks the version too.
    let stale = json!({
        "type": "plugin", "plugin": "perpend/text", "evaluator": "contains-any", "ifVersion": 2,
    });
    let path = format!("{EVALUATORS}/{id}");
    assert_eq!(app.client.json(Method::PATCH, &path, &stale).await.unwrap().status, 409);
    assert_eq!(evaluator(&app, &id).await["version"], 3);
    app.stop().await.unwrap();
}
