//! Judges that call a real, small model on this machine: its verdict may be any valid score.

use anyhow::Context as _;
use axum::http::Method;
use libtest_mimic::Trial;
use perpend_it::{Child, OTLP, Trace, count, wait_for};
use perpend_server::client::Client;
use perpend_tests_sdk::{LocalModel, with_local_model};
use serde_json::{Value, json};

/// The program, with a model connected as `local`.
struct Ground {
    server: Child,
    _data: tempfile::TempDir,
}

impl Ground {
    async fn new(base_url: &str) -> anyhow::Result<Self> {
        let data = tempfile::tempdir()?;
        let folder = data.path().join("data");
        let private = ["--exports-private-endpoints", "127.0.0.1"];
        let server = Child::with(&folder, &private).await?;
        let connection = json!({
            "provider": "local", "adapter": "openai", "secretKey": "none", "baseURL": base_url,
        });
        let path = "/api/public/llm-connections";
        made(&server.client, Method::PUT, path, &connection).await?;
        Ok(Self { server, _data: data })
    }

    /// Makes the evaluator and a rule that gives it every generation.
    async fn judge(&self, evaluator: &Value) -> anyhow::Result<()> {
        let client = &self.server.client;
        let evaluators = "/api/public/v2/evaluators";
        let judge = made(client, Method::POST, evaluators, evaluator).await?;
        let generations = json!({
            "type": "stringOptions", "column": "type", "operator": "any of", "value": ["GENERATION"],
        });
        let rule = json!({
            "name": evaluator["name"], "enabled": true, "settleMs": 0, "filter": [generations],
            "evaluatorAssignments": [{ "evaluatorId": judge["id"] }],
        });
        made(client, Method::POST, "/api/public/v2/evaluation-rules", &rule).await?;
        Ok(())
    }

    /// Sends a trace and waits for its scores, each with the `modelCalls` of its execution.
    async fn scores(&self, n: usize) -> anyhow::Result<Vec<Value>> {
        let client = &self.server.client;
        let trace = Trace::new(1, "ticket").generation("answer", "Thank you for waiting.");
        made(client, Method::POST, OTLP, &trace.to_json()).await?;
        let path = "/api/public/v3/scores?fields=details,subject&limit=100";
        let listed = wait_for(client, path, |answer| n <= count(answer)).await?;
        let mut scores = listed["data"].as_array().cloned().unwrap_or_default();
        for score in &mut scores {
            let execution = score["origin"]["executionId"].as_str();
            let path = format!("/api/v1/executions/{}", execution.context("no execution")?);
            score["modelCalls"] = client.get(&path).await?.json()["modelCalls"].clone();
        }
        Ok(scores)
    }
}

async fn made(client: &Client, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
    let answer = client.json(method, path, body).await?;
    anyhow::ensure!(answer.status.is_success(), "{path}: {}", answer.text());
    Ok(answer.json())
}

/// As in the example's README.
fn politeness() -> Value {
    json!({
        "type": "llm_as_judge", "name": "politeness",
        "prompt": "How polite is this answer?\n{{output}}",
        "modelConfig": { "provider": "local", "model": "gemma-3-270m" },
        "variableMapping": [{ "variable": "output", "source": "output" }],
        "outputDefinition": { "dataType": "NUMERIC", "minValue": 0, "maxValue": 1 },
    })
}

fn thanks() -> Value {
    json!({
        "type": "plugin", "name": "thanks", "plugin": "perpend/judge", "evaluator": "judge",
        "config": {
            "prompt": "Does this answer thank the user?\n{{output}}",
            "output": { "dataType": "BOOLEAN", "score": {} },
            "temperature": 0, "seed": true, "logprobs": 5,
        },
        "slots": [{
            "name": "judge", "model": { "provider": "local", "model": "gemma-3-270m" },
            "limits": { "timeoutMs": 280_000 },
        }],
        "grants": ["model"],
    })
}

fn named<'a>(scores: &'a [Value], name: &str) -> anyhow::Result<&'a Value> {
    let found = scores.iter().find(|score| score["name"] == name);
    found.with_context(|| format!("no score {name}: {scores:?}"))
}

/// A number within the bounds, a reasoning, and a last model call that used this method and was answered.
fn check_politeness(score: &Value, method: &str) -> anyhow::Result<()> {
    let value = score["value"].as_f64().context("no number")?;
    anyhow::ensure!((0.0..=1.0).contains(&value), "{score}");
    let comment = score["comment"].as_str().unwrap_or_default();
    anyhow::ensure!(!comment.is_empty(), "{score}");
    let calls = score["modelCalls"].as_array().context("no model calls")?;
    let call = calls.last().context("no model call")?;
    anyhow::ensure!(call["method"] == method, "{score}");
    anyhow::ensure!(call["errorClass"].is_null(), "{score}");
    anyhow::ensure!(call["modelAnswered"] == "Gemma 3 270m", "{score}");
    anyhow::ensure!(call["estimated"] == false, "{score}");
    for tokens in ["inputTokens", "outputTokens"] {
        anyhow::ensure!(0 < call[tokens].as_u64().unwrap_or_default(), "{score}");
    }
    Ok(())
}

async fn scores_with_their_reasons(model: LocalModel) -> anyhow::Result<()> {
    let served = model.serve("").await?;
    let mut ground = Ground::new(&served.base_url).await?;
    ground.judge(&politeness()).await?;
    ground.judge(&thanks()).await?;
    let scores = ground.scores(2).await?;
    check_politeness(named(&scores, "politeness")?, "json_schema")?;

    let thanks = named(&scores, "thanks")?;
    let shares = thanks["metadata"]["distribution"].as_object();
    let shares = shares.with_context(|| thanks.to_string())?;
    let sum: f64 = shares.values().filter_map(Value::as_f64).sum();
    anyhow::ensure!(shares.len() == 2 && (sum - 1.0).abs() < 1e-6, "{thanks}");
    for member in ["margin", "coverage"] {
        let share = thanks["metadata"][member].as_f64();
        let is_share = share.is_some_and(|share| (0.0..=1.0).contains(&share));
        anyhow::ensure!(is_share, "{thanks}");
    }
    ground.server.terminate().await?;
    Ok(())
}

async fn the_next_method(model: LocalModel) -> anyhow::Result<()> {
    let served = model.serve("json_schema").await?;
    let mut ground = Ground::new(&served.base_url).await?;
    ground.judge(&politeness()).await?;
    let scores = ground.scores(1).await?;
    check_politeness(named(&scores, "politeness")?, "tool")?;
    ground.server.terminate().await?;
    Ok(())
}

pub(crate) fn all() -> Vec<Trial> {
    vec![
        with_local_model(
            "a_judge_scores_within_its_bounds_with_reasons_and_how_sure_it_is",
            scores_with_their_reasons,
        ),
        with_local_model("a_model_without_schemas_is_asked_for_a_call_of_a_tool", the_next_method),
    ]
}
