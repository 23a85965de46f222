//! What the demo asks to be scored: evaluators from the first-party plug-ins, and a rule for each.

use anyhow::Context;
use serde_json::{Value, json};

use super::client::Client;
use super::story::{EXCUSES, N_TRACES, ORDER_NUMBER};

/// One evaluator with the rule that applies it.
struct Check {
    name: &'static str,
    description: &'static str,
    plugin: &'static str,
    evaluator: &'static str,
    config: fn() -> Value,
    mapping: fn() -> Value,
    /// The observations it looks at; `None`: whole traces.
    observation: Option<&'static str>,
}

fn no_mapping() -> Value {
    json!([])
}

const CHECKS: &[Check] = &[
    Check {
        name: "intent is right",
        description: "The classifier says what the application knows to be right.",
        plugin: "assay/text",
        evaluator: "exact-match",
        config: || json!({}),
        mapping: || {
            json!([
                {"variable": "output", "source": "output"},
                {"variable": "expected_output", "source": "metadata", "jsonPath": "$.expected_intent"},
            ])
        },
        observation: Some("classify"),
    },
    Check {
        name: "order is well formed",
        description: "The extraction step writes JSON that says which order and what to do.",
        plugin: "assay/json",
        evaluator: "valid-json",
        config: || {
            let text = json!({"type": "string"});
            json!({"schema": {
                "type": "object",
                "required": ["order", "action"],
                "properties": {"order": text, "action": text},
            }})
        },
        mapping: no_mapping,
        observation: Some("extract-order"),
    },
    Check {
        name: "no excuses",
        description: "The answer does not hide behind being a machine.",
        plugin: "assay/text",
        evaluator: "contains-none",
        config: || json!({"terms": EXCUSES, "ignore_case": true}),
        mapping: no_mapping,
        observation: Some("answer"),
    },
    Check {
        name: "answer is short",
        description: "At most 160 characters; longer ones lose a hundredth per character.",
        plugin: "assay/text",
        evaluator: "length",
        config: || json!({"unit": "chars", "max": 160, "slope": 0.01}),
        mapping: no_mapping,
        observation: Some("answer"),
    },
    Check {
        name: "turn names the order",
        description: "Over the whole trace: the customer is told which order it is about.",
        plugin: "assay/text",
        evaluator: "regex",
        config: || json!({"pattern": ORDER_NUMBER}),
        mapping: no_mapping,
        observation: None,
    },
];

/// Scores that must come: each check has one target in each trace.
pub(super) const N_SCORES: usize = CHECKS.len() * N_TRACES;

/// Makes the evaluators and rules.
pub(super) async fn create(client: &mut Client) -> anyhow::Result<()> {
    for check in CHECKS {
        let mut evaluator = json!({
            "type": "plugin",
            "name": check.name,
            "description": check.description,
            "plugin": check.plugin,
            "evaluator": check.evaluator,
            "config": (check.config)(),
        });
        let mapping = (check.mapping)();
        if mapping != no_mapping() {
            evaluator["variableMapping"] = mapping;
        }
        let made = client.post("/api/public/v2/evaluators", &evaluator).await?;
        let id = made["id"].as_str().context("the new evaluator has no id")?;
        let filter = check.observation.map_or_else(
            || json!([]),
            |name| json!([{"type": "stringOptions", "column": "name", "operator": "any of", "value": [name]}]),
        );
        let rule = json!({
            "name": check.name,
            "enabled": true,
            "target": if check.observation.is_some() { "observation" } else { "trace" },
            "sampling": 1,
            "filter": filter,
            "evaluatorAssignments": [{"evaluatorId": id}],
            // The story is told at once: there is no need to wait for more spans.
            "settleMs": 0,
        });
        client.post("/api/public/v2/evaluation-rules", &rule).await?;
    }
    Ok(())
}
