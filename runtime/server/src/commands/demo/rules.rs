//! Evaluators and rules of the demo.

use axum::http::Method;
use serde_json::{Value, json};

use crate::client::Client;

/// Source code of code evaluators.
const PYTHON: &str = r#"import re


def evaluate(ctx):
    asked = set(re.findall(r"\d{4}", str(ctx.observation.input)))
    named = set(re.findall(r"\d{4}", str(ctx.observation.output)))
    missing = sorted(asked - named)
    comment = "missing: " + ", ".join(missing) if missing else "all named"
    return {"scores": [{"name": "order_named", "value": 0 if missing else 1, "comment": comment}]}
"#;
const TYPESCRIPT: &str = r#"type Context = { observation: { output: string } };

export function evaluate(ctx: Context) {
  const sentences: string[] = ctx.observation.output.split(/[.!?]+\s*/).filter((text) => text !== "");
  const words: number[] = sentences.map((text) => text.split(/\s+/).length);
  return { scores: [{ name: "longest_sentence", value: Math.max(...words), comment: `words in the longest of ${words.length} sentences` }] };
}
"#;

/// An evaluator and its rule, which create one score per trace.
pub(super) struct SampleEvaluator {
    evaluator: Value,
    target: &'static str,
    filter: Value,
}

/// The result of creating an evaluator.
pub(super) enum Creation {
    /// The evaluator and its rule were created.
    Created,
    /// The plug-in is not installed; the message of the server.
    Skipped(String),
}

/// A rule of observations.
const RIGHT_INTENT: &str = "intent is right";
/// An evaluator of answers.
const LONG_ENOUGH: &str = "answer is long enough";

/// The environment of the traces of experiments.
pub(super) const EXPERIMENTS: &str = "experiments";

fn name_filter(name: &str) -> Value {
    json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": [name] }])
}

/// An evaluator of the observations with this name.
fn on_observations(name: &str, evaluator: Value) -> SampleEvaluator {
    SampleEvaluator { evaluator, target: "observation", filter: name_filter(name) }
}

/// Starts a backfill of a rule of observations, whose targets all have a score.
pub(super) async fn backfill(client: &Client) -> anyhow::Result<()> {
    let rules = client.get("/api/public/v2/evaluation-rules?limit=100").await?.json();
    let mut rules = rules["data"].as_array().into_iter().flatten();
    let Some(rule) = rules.find(|rule| rule["name"] == RIGHT_INTENT) else {
        return Ok(());
    };
    let body = json!({ "ruleId": rule["id"], "from": "2020-01-01T00:00:00Z", "maxItems": 1_000 });
    let started = client.json(Method::POST, "/api/v1/backfills", &body).await?;
    anyhow::ensure!(started.status == 201, "a backfill of {RIGHT_INTENT:?}: {}", started.text());
    Ok(())
}

/// Starts a backtest of a smaller limit of the length of answers.
pub(super) async fn backtest(client: &Client) -> anyhow::Result<()> {
    let evaluators = client.get("/api/public/v2/evaluators?limit=100").await?.json();
    let mut evaluators = evaluators["data"].as_array().into_iter().flatten();
    let Some(evaluator) = evaluators.find(|evaluator| evaluator["name"] == LONG_ENOUGH) else {
        return Ok(());
    };
    let body = json!({
        "evaluatorId": evaluator["id"], "config": { "unit": "words", "min": 8, "max": 20 },
        "from": "2020-01-01T00:00:00Z", "maxItems": 1_000,
    });
    let started = client.json(Method::POST, "/api/v1/backtests", &body).await?;
    anyhow::ensure!(started.status == 201, "a backtest of {LONG_ENOUGH:?}: {}", started.text());
    Ok(())
}

/// The provider of the judge, with scripted replies and without network access.
const SCRIPTED: &str = "scripted";

/// Connects the scripted provider.
pub(super) async fn connect(client: &Client) -> anyhow::Result<()> {
    let reply = |word: Option<&str>, reasoning: &str, score: f64| {
        json!({
            "contains": word, "reply": { "reasoning": reasoning, "score": score },
            "usage": { "input": 120, "output": 20 },
        })
    };
    let replies = [
        reply(Some("As an AI"), "It sends the customer away.", 0.2),
        reply(Some("sorry"), "It apologises and says what happens next.", 1.0),
        reply(None, "It answers plainly, without a greeting.", 0.7),
    ];
    let connection = json!({
        "provider": SCRIPTED, "adapter": "mock", "secretKey": "none", "config": { "replies": replies },
    });
    let path = "/api/public/llm-connections";
    let response = client.json(Method::PUT, path, &connection).await?;
    anyhow::ensure!(response.status.is_success(), "{}", response.text());
    Ok(())
}

/// A judge on the scripted provider.
fn judge() -> SampleEvaluator {
    on_observations(
        "write answer",
        json!({
            "type": "llm_as_judge",
            "name": "polite (scripted)",
            "prompt": "How polite is this answer to a customer?\n{{output}}",
            "modelConfig": { "provider": SCRIPTED, "model": "none" },
            "variableMapping": [{ "variable": "output", "source": "output" }],
            "outputDefinition": { "dataType": "NUMERIC", "minValue": 0, "maxValue": 1 },
            "fence": true,
        }),
    )
}

/// An evaluator of the items of experiments.
pub(super) fn of_experiments() -> SampleEvaluator {
    SampleEvaluator {
        evaluator: json!({
            "name": "right intent",
            "plugin": "perpend/text",
            "evaluator": "exact-match",
            "variableMapping": [
                { "variable": "output", "source": "output" },
                { "variable": "expected_output", "source": "expected_output" },
            ],
        }),
        target: "experiment",
        filter: json!([]),
    }
}

fn no_refusal() -> SampleEvaluator {
    SampleEvaluator {
        evaluator: json!({
            "name": "no refusal",
            "plugin": "perpend/text",
            "evaluator": "contains-none",
            "config": { "terms": ["As an AI", "I cannot"] },
            "variableMapping": [{ "variable": "output", "source": "trace.output" }],
        }),
        target: "trace",
        // The traces of experiments have scores of their own.
        filter: json!([{
            "type": "stringOptions", "column": "environment", "operator": "none of",
            "value": [EXPERIMENTS],
        }]),
    }
}

/// All evaluators.
pub(super) fn all() -> Vec<SampleEvaluator> {
    vec![
        on_observations(
            "classify intent",
            json!({
                "name": RIGHT_INTENT,
                "plugin": "perpend/text",
                "evaluator": "exact-match",
                "variableMapping": [
                    { "variable": "output", "source": "output" },
                    { "variable": "expected_output", "source": "metadata", "jsonPath": "$.expected_intent" },
                ],
            }),
        ),
        on_observations(
            "look up order",
            json!({ "name": "tool answered JSON", "plugin": "perpend/json", "evaluator": "valid-json" }),
        ),
        on_observations(
            "write answer",
            json!({
                "name": "answer speaks of the order",
                "plugin": "perpend/text",
                "evaluator": "contains-any",
                "config": { "terms": ["order"] },
            }),
        ),
        on_observations(
            "write answer",
            json!({
                "name": LONG_ENOUGH,
                "plugin": "perpend/text",
                "evaluator": "length",
                "config": { "unit": "words", "min": 8, "max": 60 },
            }),
        ),
        no_refusal(),
        on_observations(
            "write answer",
            json!({
                "type": "code",
                "name": "sentences are short",
                "sourceCodeLanguage": "TYPESCRIPT",
                "sourceCode": TYPESCRIPT,
            }),
        ),
        on_observations(
            "classify intent",
            json!({
                "name": "intent is close",
                "plugin": "perpend/autoevals-js",
                "evaluator": "levenshtein",
                "variableMapping": [
                    { "variable": "output", "source": "output" },
                    { "variable": "expected_output", "source": "metadata", "jsonPath": "$.expected_intent" },
                ],
            }),
        ),
        on_observations(
            "write answer",
            json!({
                "type": "code",
                "name": "answer names the order number",
                "sourceCodeLanguage": "PYTHON",
                "sourceCode": PYTHON,
            }),
        ),
        judge(),
    ]
}

impl SampleEvaluator {
    /// The evaluator's name.
    pub(super) fn name(&self) -> &str {
        self.evaluator["name"].as_str().unwrap_or_default()
    }

    /// Creates the evaluator and its rule.
    pub(super) async fn create(mut self, client: &Client) -> anyhow::Result<Creation> {
        if self.evaluator.get("type").is_none() {
            self.evaluator["type"] = "plugin".into();
        }
        let path = "/api/public/v2/evaluators";
        let created = client.json(Method::POST, path, &self.evaluator).await?;
        if created.status == 404 {
            let reason = created.json()["message"].as_str().map(str::to_owned);
            return Ok(Creation::Skipped(reason.unwrap_or_else(|| created.text())));
        }
        anyhow::ensure!(
            created.status.is_success(),
            "{}: {}",
            self.evaluator["name"],
            created.text()
        );
        let rule = json!({
            "name": self.evaluator["name"],
            "enabled": true,
            "target": self.target,
            "filter": self.filter,
            // The demo sends complete traces.
            "settleMs": 0,
            "evaluatorAssignments": [{ "evaluatorId": created.json()["id"] }],
        });
        let path = "/api/public/v2/evaluation-rules";
        let created = client.json(Method::POST, path, &rule).await?;
        anyhow::ensure!(created.status.is_success(), "{}: {}", rule["name"], created.text());
        Ok(Creation::Created)
    }
}
