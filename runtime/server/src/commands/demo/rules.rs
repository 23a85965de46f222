//! What the demo measures.

use axum::http::Method;
use serde_json::{Value, json};

use crate::client::Client;

/// An evaluator, the rule that applies it, and how many scores it must give.
pub(super) struct Measure {
    evaluator: Value,
    target: &'static str,
    filter: Value,
    /// Scores expected per trace.
    pub(super) n_per_trace: usize,
}

fn named(name: &str) -> Value {
    json!([{ "type": "stringOptions", "column": "name", "operator": "any of", "value": [name] }])
}

/// Every measure.
pub(super) fn all() -> Vec<Measure> {
    let on = |name: &str, evaluator: Value| Measure {
        evaluator,
        target: "observation",
        filter: named(name),
        n_per_trace: 1,
    };
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
            n_per_trace: 1,
        },
    ]
}

impl Measure {
    /// Makes the evaluator and its rule.
    pub(super) async fn create(mut self, client: &Client) -> anyhow::Result<()> {
        self.evaluator["type"] = "plugin".into();
        let path = "/api/public/v2/evaluators";
        let made = client.json(Method::POST, path, &self.evaluator).await?;
        anyhow::ensure!(
            made.status.is_success(),
            "{}: {}",
            self.evaluator["name"],
            made.text()
        );
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
        anyhow::ensure!(
            made.status.is_success(),
            "{}: {}",
            rule["name"],
            made.text()
        );
        Ok(())
    }
}
