//! What the demo measures.

use axum::http::Method;
use serde_json::{Value, json};

use crate::client::Client;

/// What people paste into a form: the Python of a team, and its TypeScript.
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

/// An evaluator and the rule that applies it. It gives one score to a trace.
pub(super) struct Measure {
    evaluator: Value,
    target: &'static str,
    filter: Value,
}

/// What became of a measure.
pub(super) enum Made {
    /// Each trace gets its score.
    Yes,
    /// The plug-in is not installed, as the server says.
    LeftOut(String),
}

fn named(name: &str) -> Value {
    json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": [name] }])
}

/// A measure of the observations with this name.
fn on(name: &str, evaluator: Value) -> Measure {
    Measure { evaluator, target: "observation", filter: named(name) }
}

/// The provider of the demo's judge: its answers are written here, and no network is used.
const SCRIPTED: &str = "scripted";

/// Connects the scripted provider.
pub(super) async fn connect(client: &Client) -> anyhow::Result<()> {
    let says = |word: Option<&str>, reasoning: &str, score: f64| {
        json!({
            "contains": word, "reply": { "reasoning": reasoning, "score": score },
            "usage": { "input": 120, "output": 20 },
        })
    };
    let replies = [
        says(Some("As an AI"), "It sends the customer away.", 0.2),
        says(Some("sorry"), "It apologises and says what happens next.", 1.0),
        says(None, "It answers plainly, without a greeting.", 0.7),
    ];
    let connection = json!({
        "provider": SCRIPTED, "adapter": "mock", "secretKey": "none", "config": { "replies": replies },
    });
    let path = "/api/public/llm-connections";
    let made = client.json(Method::PUT, path, &connection).await?;
    anyhow::ensure!(made.status.is_success(), "{}", made.text());
    Ok(())
}

/// A judge on the scripted provider.
fn judge() -> Measure {
    on(
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

/// Every measure.
pub(super) fn all() -> Vec<Measure> {
    vec![
        on(
            "classify intent",
            json!({
                "name": "intent is right",
                "plugin": "perpend/text",
                "evaluator": "exact-match",
                "variableMapping": [
                    { "variable": "output", "source": "output" },
                    { "variable": "expected_output", "source": "metadata", "jsonPath": "$.expected_intent" },
                ],
            }),
        ),
        on(
            "look up order",
            json!({ "name": "tool answered JSON", "plugin": "perpend/json", "evaluator": "valid-json" }),
        ),
        on(
            "write answer",
            json!({
                "name": "answer speaks of the order",
                "plugin": "perpend/text",
                "evaluator": "contains-any",
                "config": { "terms": ["order"] },
            }),
        ),
        on(
            "write answer",
            json!({
                "name": "answer is long enough",
                "plugin": "perpend/text",
                "evaluator": "length",
                "config": { "unit": "words", "min": 8, "max": 60 },
            }),
        ),
        Measure {
            evaluator: json!({
                "name": "no refusal",
                "plugin": "perpend/text",
                "evaluator": "contains-none",
                "config": { "terms": ["As an AI", "I cannot"] },
                "variableMapping": [{ "variable": "output", "source": "trace.output" }],
            }),
            target: "trace",
            filter: json!([]),
        },
        on(
            "write answer",
            json!({
                "type": "code",
                "name": "sentences are short",
                "sourceCodeLanguage": "TYPESCRIPT",
                "sourceCode": TYPESCRIPT,
            }),
        ),
        on(
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
        on(
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

impl Measure {
    /// The evaluator's name.
    pub(super) fn name(&self) -> &str {
        self.evaluator["name"].as_str().unwrap_or_default()
    }

    /// Makes the evaluator and its rule.
    pub(super) async fn create(mut self, client: &Client) -> anyhow::Result<Made> {
        if self.evaluator.get("type").is_none() {
            self.evaluator["type"] = "plugin".into();
        }
        let path = "/api/public/v2/evaluators";
        let made = client.json(Method::POST, path, &self.evaluator).await?;
        if made.status == 404 {
            let why = made.json()["message"].as_str().map(str::to_owned);
            return Ok(Made::LeftOut(why.unwrap_or_else(|| made.text())));
        }
        anyhow::ensure!(made.status.is_success(), "{}: {}", self.evaluator["name"], made.text());
        let rule = json!({
            "name": self.evaluator["name"],
            "enabled": true,
            "target": self.target,
            "filter": self.filter,
            // The demo sends each trace whole: there is nothing to wait for.
            "settleMs": 0,
            "evaluatorAssignments": [{ "evaluatorId": made.json()["id"] }],
        });
        let path = "/api/public/v2/evaluation-rules";
        let made = client.json(Method::POST, path, &rule).await?;
        anyhow::ensure!(made.status.is_success(), "{}: {}", rule["name"], made.text());
        Ok(Made::Yes)
    }
}
