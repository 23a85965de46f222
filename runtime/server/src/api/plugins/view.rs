//! Plug-ins as JSON.

use perpend_catalog::{Plugin, PluginUser};
use perpend_domain::plugin::{EvaluatorInfo, ItemParts};
use serde_json::{Value, json};

use super::upload::MAX_COMPONENT_BYTES;

/// What this server takes: says so where plug-ins are listed and where one is refused.
pub(super) fn offer() -> Value {
    json!({
        "contracts": [perpend_author::contract_version()],
        "maxComponentBytes": MAX_COMPONENT_BYTES,
    })
}

fn needs(parts: ItemParts) -> Vec<&'static str> {
    let all = [
        ("input", parts.input),
        ("output", parts.output),
        ("expectedOutput", parts.expected_output),
        ("metadata", parts.metadata),
        ("trace", parts.trace),
    ];
    all.into_iter()
        .filter(|(_, is_needed)| *is_needed)
        .map(|(name, _)| name)
        .collect()
}

fn evaluator(info: &EvaluatorInfo) -> Value {
    let schema: Value = serde_json::from_str(&info.config_schema).unwrap_or(Value::Null);
    json!({
        "id": info.id,
        "title": info.title,
        "description": info.description,
        "configSchema": schema,
        "needs": needs(info.needs),
        "slots": info.slots,
        "scores": info.scores,
        "dynamicScores": info.dynamic_scores,
        "deterministic": info.deterministic,
    })
}

/// As it stands in lists.
pub(super) fn plugin(plugin: &Plugin) -> Value {
    let evaluators: Vec<Value> = plugin.info.evaluators.iter().map(evaluator).collect();
    json!({
        "name": plugin.info.name,
        "version": plugin.info.version,
        "digest": plugin.digest,
        "description": plugin.info.description,
        "isFirstParty": plugin.owner.is_none(),
        "capabilities": plugin.info.capabilities.names(),
        "sizeBytes": plugin.size_bytes,
        "evaluators": evaluators,
        "createdAt": plugin.created_at,
    })
}

/// With the other versions of its name, and the evaluators made from it.
pub(super) fn detailed(one: &Plugin, all: &[Plugin], users: &[PluginUser]) -> Value {
    let versions = all.iter().filter(|other| other.info.name == one.info.name);
    let versions: Vec<Value> = versions
        .map(|other| {
            json!({
                "version": other.info.version,
                "digest": other.digest,
                "createdAt": other.created_at,
            })
        })
        .collect();
    let users: Vec<Value> = users.iter().map(user).collect();
    let mut shown = plugin(one);
    shown["versions"] = versions.into();
    shown["users"] = users.into();
    shown
}

pub(super) fn user(user: &PluginUser) -> Value {
    json!({
        "evaluatorId": user.evaluator,
        "name": user.name,
        "versions": user.versions,
        "isCurrent": user.is_current,
    })
}
