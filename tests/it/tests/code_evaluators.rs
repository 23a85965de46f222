//! Evaluators given as source code, through the API to the score.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use serde_json::{Value, json};

const EVALUATORS: &str = "/api/public/v2/evaluators";

async fn post(app: &TestApp, body: &Value) -> (u16, Value) {
    let answer = app.client.json(Method::POST, EVALUATORS, body).await.unwrap();
    (answer.status.as_u16(), answer.json())
}

pub(crate) fn code(language: &str, source: &str) -> Value {
    json!({ "type": "code", "name": "words", "sourceCodeLanguage": language, "sourceCode": source })
}

/// Whether the interpreter of a language is there; where it is not, the answer has to say how it
/// gets there.
pub(crate) async fn is_here(app: &TestApp, language: &str, source: &str) -> bool {
    let (status, body) = post(app, &code(language, source)).await;
    if status == 404 {
        let text = body.to_string();
        assert!(text.contains("perpend plugin add FILE"), "{text}");
        perpend_it::left_out(&format!(
            "the interpreter for {language} is not built (cargo xtask plugins)"
        ));
        return false;
    }
    assert_eq!(status, 200, "{body}");
    true
}

const TYPESCRIPT: &str = "export async function evaluate(ctx: { observation: { output: string } }) {\n  \
     const words: string[] = ctx.observation.output.split(' ');\n  \
     return { scores: [{ name: 'words', value: words.length, comment: 'counted' }, { name: 'long', value: words.length > 3, dataType: 'BOOLEAN' }] };\n}";
const PYTHON: &str = "def evaluate(ctx):\n    \
     words = ctx.observation.output.split(' ')\n    \
     return {'scores': [{'name': 'words', 'value': len(words)}]}\n";

#[tokio::test]
async fn typescript_source_becomes_an_evaluator_that_scores() {
    let app = TestApp::new().await.unwrap();
    if !is_here(&app, "TYPESCRIPT", TYPESCRIPT).await {
        return;
    }
    let (_, made) = post(&app, &code("TYPESCRIPT", TYPESCRIPT)).await;
    assert_eq!(made["type"], "code");
    assert_eq!(made["sourceCode"], TYPESCRIPT);
    assert_eq!(made["sourceCodeLanguage"], "TYPESCRIPT");
    assert_eq!(made["version"], 1);
    let id = made["id"].as_str().unwrap();
    app.rule(id, json!({})).await.unwrap();
    let trace = Trace::new(1, "ticket").generation("answer", "Your order is on its way.");
    app.ingest(&trace).await.unwrap();
    let scores = app.scores(2).await.unwrap();
    let find = |name: &str| scores.iter().find(|score| score["name"] == name).unwrap();
    assert_eq!(find("words")["value"], 6.0);
    assert_eq!(find("words")["comment"], "counted");
    assert_eq!(find("long")["dataType"], "BOOLEAN");

    let path = format!("{EVALUATORS}/{id}");
    let patch = json!({ "type": "code", "sourceCodeLanguage": "TYPESCRIPT", "sourceCode": "export const evaluate = () => ({ scores: [] });" });
    let second = app.client.json(Method::PATCH, &path, &patch).await.unwrap().json();
    assert_eq!(second["version"], 2, "{second}");
    assert_ne!(second["fingerprint"], made["fingerprint"]);
}

#[tokio::test]
async fn ctx_has_the_tool_calls_of_the_observation_and_the_item_of_the_experiment() {
    let app = TestApp::new().await.unwrap();
    let source = "export function evaluate(ctx) { return { scores: [{ name: 'ctx', value: 1, comment: JSON.stringify(ctx) }] }; }";
    if !is_here(&app, "TYPESCRIPT", source).await {
        return;
    }
    let (_, made) = post(&app, &code("TYPESCRIPT", source)).await;
    app.rule(made["id"].as_str().unwrap(), json!({})).await.unwrap();
    let output = json!({ "role": "assistant", "tool_calls": [{ "id": "c1", "function": { "name": "search", "arguments": "{\"q\":1}" } }] });
    let trace = Trace::new(1, "ticket")
        .attribute("perpend.observation.output", &output.to_string())
        .attribute("perpend.experiment.id", "e1")
        .attribute("perpend.experiment.item.id", "i1")
        .attribute("perpend.experiment.item.expected_output", "yes")
        .attribute("perpend.experiment.item.metadata", "{\"level\":3}");
    app.ingest(&trace).await.unwrap();
    let scores = app.scores(1).await.unwrap();
    let ctx: Value = serde_json::from_str(scores[0]["comment"].as_str().unwrap()).unwrap();
    let call = &ctx["observation"]["toolCalls"][0];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("search"), &json!({ "q": 1 })),
        "{ctx}"
    );
    assert_eq!(ctx["observation"]["metadata"].get("perpend.tool_calls"), None, "{ctx}");
    let experiment = json!({ "itemExpectedOutput": "yes", "itemMetadata": { "level": 3 } });
    assert_eq!(ctx["experiment"], experiment, "{ctx}");
}

#[tokio::test]
async fn python_source_becomes_an_evaluator() {
    let app = TestApp::new().await.unwrap();
    if !is_here(&app, "PYTHON", PYTHON).await {
        return;
    }
    let (_, made) = post(&app, &code("PYTHON", PYTHON)).await;
    assert_eq!((&made["type"], &made["sourceCodeLanguage"]), (&json!("code"), &json!("PYTHON")));
    app.rule(made["id"].as_str().unwrap(), json!({})).await.unwrap();
    let trace = Trace::new(1, "ticket").generation("answer", "one two");
    app.ingest(&trace).await.unwrap();
    assert_eq!(app.scores(1).await.unwrap()[0]["value"], 2.0);
}

#[tokio::test]
async fn a_source_that_cannot_work_is_refused_with_its_line() {
    let app = TestApp::new().await.unwrap();
    let large = "x".repeat((256 << 10) + 1);
    let wrong = [
        (code("TYPESCRIPT", " "), 400, "INVALID_SOURCE"),
        (code("TYPESCRIPT", &large), 400, "SOURCE_TOO_LARGE"),
        (code("RUBY", "def evaluate; end"), 400, "TYPESCRIPT"),
        (json!({ "type": "code", "name": "n", "sourceCode": "x" }), 400, "sourceCodeLanguage"),
        (json!({ "type": "llm", "name": "n" }), 400, "llm"),
    ];
    for (body, status, part) in wrong {
        let (answered, answer) = post(&app, &body).await;
        assert_eq!(answered, status, "{answer}");
        assert!(answer.to_string().contains(part), "{part}: {answer}");
    }
    if !is_here(&app, "TYPESCRIPT", TYPESCRIPT).await {
        return;
    }
    let broken =
        code("TYPESCRIPT", "const x = 1;\nexport function evaluate(ctx) {\n  const = 1;\n}");
    let (status, answer) = post(&app, &broken).await;
    assert_eq!(status, 422, "{answer}");
    let text = answer.to_string();
    for part in ["INVALID_SOURCE", "line 3", "/source"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let endless = code("TYPESCRIPT", "for (;;) {}\nexport function evaluate() {}");
    let (status, answer) = post(&app, &endless).await;
    assert_eq!(status, 422, "{answer}");
    assert!(answer.to_string().contains("fuel_exhausted"), "{answer}");
}

#[tokio::test]
async fn a_trial_of_a_source_that_fails_has_the_line_and_the_log() {
    let app = TestApp::new().await.unwrap();
    if !is_here(&app, "TYPESCRIPT", TYPESCRIPT).await {
        return;
    }
    let source = "export function evaluate(ctx) {\n  console.log('checking');\n  throw new Error('broken');\n}";
    let trial = json!({ "evaluator": code("TYPESCRIPT", source), "item": { "output": "x" } });
    let answer = app.client.json(Method::POST, "/api/v1/evaluations/trial", &trial).await.unwrap();
    let tried = answer.json();
    assert_eq!(answer.status, 200, "{tried}");
    let result = &tried["data"][0];
    assert_eq!(result["errorLine"], 3, "{tried}");
    assert_eq!(result["log"][0]["message"], "checking", "{tried}");
    app.stop().await.unwrap();
}
