//! Judges in every language in a whole server: they are registered over HTTP and call a connected provider; scores and
//! model calls are stored. The provider is scripted.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use axum::http::Method;
use perpend_it::{TestApp, Trace};
use perpend_tests_guests::{Test, Tested, built, compiled, component, new_project, tests};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::{python, rust};

/// An evaluator of a plug-in, and its configuration.
type Wanted = (&'static str, &'static str, Value);

/// Starts a server, registers the component where one is given, and lets each evaluator judge one trace with the
/// scripted provider. The scores, each with the `modelCalls` of its execution.
fn judged(
    component: Option<&[u8]>,
    wanted: &[Wanted],
    replies: Value,
    n_scores: usize,
) -> Vec<Value> {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        // What another test has compiled is not compiled again.
        let cache = compiled().display().to_string();
        let app = TestApp::with(&[("data.plugin_cache", &cache)])
            .await
            .unwrap();
        if let Some(component) = component {
            register(&app, component).await;
        }
        let connection = json!({
            "provider": "main", "adapter": "mock", "secretKey": "sk-unused", "config": { "replies": replies },
        });
        made(&app, Method::PUT, "/api/public/llm-connections", &connection).await;
        for (plugin, evaluator, config) in wanted {
            let body = json!({
                "type": "plugin", "name": evaluator, "plugin": plugin, "evaluator": evaluator, "config": config,
                "slots": [{ "name": "judge", "model": { "provider": "main", "model": "scripted" } }],
                "grants": ["model"],
            });
            let made = made(&app, Method::POST, "/api/public/v2/evaluators", &body).await;
            app.rule(made["id"].as_str().unwrap(), json!({}))
                .await
                .unwrap();
        }
        let trace = Trace::new(1, "ticket")
            .attribute("perpend.observation.input", "Where is Paris?")
            .attribute("perpend.observation.output", "In France.")
            .attribute("perpend.experiment.id", "e1")
            .attribute("perpend.experiment.item.id", "i1")
            .attribute("perpend.experiment.item.expected_output", "France");
        app.ingest(&trace).await.unwrap();
        // Failures count too, so that one is seen and not waited for.
        let ended = |answer: &Value| {
            let all = answer["data"].as_array().into_iter().flatten();
            let has_ended = |one: &&Value| {
                let state = one["state"].as_str().unwrap_or_default();
                ["completed", "skipped", "failed", "delayed", "held"].contains(&state)
            };
            wanted.len() <= all.filter(has_ended).count()
        };
        let path = format!("/api/v1/executions?traceId={}", trace.id);
        let executions = app.wait_for(&path, ended).await.unwrap();
        let failed = executions.to_string();
        assert!(!failed.contains("\"errorClass\":\""), "{failed}");
        let mut scores = app.scores(n_scores).await.unwrap();
        for score in &mut scores {
            let execution = score["origin"]["executionId"].as_str().unwrap();
            let path = format!("/api/v1/executions/{execution}");
            let shown = app.client.get(&path).await.unwrap().json();
            score["modelCalls"] = shown["modelCalls"].clone();
        }
        app.stop().await.unwrap();
        scores
    })
}

async fn register(app: &TestApp, component: &[u8]) {
    let headers = [("content-type", "application/wasm")];
    let sent = app
        .client
        .send(Method::POST, "/api/v1/plugins", &headers, component.to_vec())
        .await
        .unwrap();
    assert_eq!(sent.status, 201, "{}", sent.text());
}

async fn made(app: &TestApp, method: Method, path: &str, body: &Value) -> Value {
    let answer = app.client.json(method, path, body).await.unwrap();
    assert!(answer.status.is_success(), "{path}: {}", answer.text());
    answer.json()
}

/// The score that the plug-in gave this name. A score alone is stored under the name of its evaluator.
fn named<'a>(scores: &'a [Value], name: &str) -> &'a Value {
    let found = scores.iter().find(|score| score["origin"]["scoreName"] == name);
    found.unwrap_or(&Value::Null)
}

/// Asserts the number of model calls of a score, each with structured output from the scripted model.
fn assert_model_calls(score: &Value, n_times: usize) {
    let calls = score["modelCalls"].as_array().unwrap();
    assert_eq!(calls.len(), n_times, "{score}");
    for call in calls {
        assert_eq!(
            (&call["provider"], &call["model"]),
            (&json!("main"), &json!("scripted")),
            "{score}"
        );
        assert_eq!(call["errorClass"], Value::Null, "{score}");
        assert_ne!(call["method"], "none", "{score}");
        assert!(0 < call["outputTokens"].as_u64().unwrap(), "{score}");
    }
}

fn vote() -> Value {
    let reply = json!({ "reason": "It names the country.", "answered": true });
    json!([{ "contains": "Where is Paris?", "reply": reply, "usage": { "input": 30, "output": 9 } }])
}

fn a_judge_in_rust_scores_live_traces_with_a_connected_model() -> Tested {
    let component = &rust::judge()?.component;
    let wanted = ("example/judge", "answers", json!({ "votes": 3 }));
    let scores = judged(Some(component), &[wanted], vote(), 1);
    let score = named(&scores, "answered");
    assert_eq!(score["value"], 1.0, "{scores:?}");
    assert_model_calls(score, 3);
    Ok(())
}

fn a_judge_in_typescript_scores_live_traces_with_a_connected_model() -> Tested {
    let judge = built("a judge in TypeScript", || {
        let project = new_project("typescript");
        let source = include_str!("server/judge.ts");
        std::fs::write(project.dir().join("plugin.ts"), source).unwrap();
        project
    })?;
    let wanted = ("acme/typed-judge", "answered", json!({}));
    let scores = judged(Some(&judge.component), &[wanted], vote(), 1);
    let score = named(&scores, "answered");
    assert_eq!(score["value"], 1.0, "{scores:?}");
    let reasons = "It names the country.\nIt names the country.";
    assert_eq!(score["comment"], reasons);
    assert_model_calls(score, 2);
    Ok(())
}

fn a_judge_in_python_scores_live_traces_with_a_connected_model() -> Tested {
    let component = &python::sdk::plugin()?.component;
    let reply = json!({ "verdict": "good" });
    let replies = json!([{ "reply": reply, "usage": { "input": 30, "output": 9 } }]);
    let scores = judged(Some(component), &[("acme/all", "judge", json!({}))], replies, 2);
    let verdict = named(&scores, "verdict");
    assert_eq!(verdict["value"], "good", "{scores:?}");
    assert_eq!(named(&scores, "agreement")["value"], 3.0, "{scores:?}");
    assert_model_calls(verdict, 4);
    Ok(())
}

/// The published judges of a library: one with its own prompt, and one with a prompt of the user's.
fn library(plugin: &'static str, template: &str, choices: &str) -> Tested {
    component(plugin)?;
    let mut own = json!({ "name": "Tone" });
    own[template] = json!("How does {{output}} sound?");
    own[choices] = json!({ "A": 0, "B": 0.25 });
    let wanted = [(plugin, "factuality", json!({})), (plugin, "llm-classifier", own)];
    let choice = |letter: &str| json!({ "reasons": "It fits.", "choice": letter });
    let usage = json!({ "input": 90, "output": 12 });
    let replies = json!([
        { "contains": "sound?", "reply": choice("B"), "usage": usage },
        { "contains": "Where is Paris?", "reply": choice("C"), "usage": usage },
    ]);
    let scores = judged(None, &wanted, replies, 2);
    for (name, value) in [("Factuality", 1.0), ("Tone", 0.25)] {
        let score = named(&scores, name);
        assert_eq!(score["value"], value, "{scores:?}");
        assert_eq!(score["comment"], "It fits.", "{scores:?}");
        assert_model_calls(score, 1);
    }
    Ok(())
}

fn the_judges_of_autoevals_for_python_score_live_traces_with_a_connected_model() -> Tested {
    library("perpend/autoevals-py", "prompt_template", "choice_scores")
}

fn the_judges_of_autoevals_for_javascript_score_live_traces_with_a_connected_model() -> Tested {
    library("perpend/autoevals-js", "promptTemplate", "choiceScores")
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        a_judge_in_python_scores_live_traces_with_a_connected_model,
        a_judge_in_rust_scores_live_traces_with_a_connected_model,
        a_judge_in_typescript_scores_live_traces_with_a_connected_model,
        the_judges_of_autoevals_for_python_score_live_traces_with_a_connected_model,
        the_judges_of_autoevals_for_javascript_score_live_traces_with_a_connected_model,
    ]
}
