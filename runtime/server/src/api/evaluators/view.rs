//! How an evaluator reads.

use axum::http::HeaderMap;
use perpend_catalog::RuleUse;
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};
use serde_json::{Value, json};

use super::code;

/// Whether the caller is a generated client of the compat API, which refuses kinds it does not know.
pub(super) fn is_closed_client(headers: &HeaderMap) -> bool {
    [
        "x-fern-language",
        "x-langfuse-sdk-name",
        "x_langfuse_sdk_name",
    ]
    .iter()
    .any(|name| headers.contains_key(*name))
}

/// Merges `more` into an object.
fn extend(view: &mut Value, more: Value) {
    if let (Value::Object(view), Value::Object(more)) = (view, more) {
        view.extend(more);
    }
}

/// What a version says about how it scores.
fn definition(version: &EvaluatorVersion, is_closed: bool) -> Value {
    let mut view = json!({
        "type": "plugin",
        "plugin": {
            "name": version.plugin_name,
            "version": version.plugin_version,
            "digest": version.plugin,
        },
        "evaluator": version.plugin_evaluator,
        "config": version.config,
        "variableMapping": version.mapping,
        "grants": version.grants.names(),
        "fingerprint": version.fingerprint,
    });
    if let Some(code) = code::view(version, is_closed) {
        extend(&mut view, code);
    } else if is_closed {
        view["type"] = "code".into();
        view["sourceCodeLanguage"] = "PYTHON".into();
        view["sourceCode"] = format!(
            "# Not source code: this evaluator is the WebAssembly plug-in {}@{}\n# (sha256:{}), evaluator {:?}.\n",
            version.plugin_name, version.plugin_version, version.plugin, version.plugin_evaluator
        )
        .into();
    }
    view
}

/// Why a definition of this kind cannot take the place of a version.
pub(super) fn changes_kind(version: &EvaluatorVersion, kind: &str) -> Option<String> {
    let is = if version.runs_source() {
        "code"
    } else {
        "plugin"
    };
    // Whoever sees code as a plug-in too may replace it by one.
    (kind != is && kind != "plugin")
        .then(|| format!("the type of an evaluator cannot change: this one is {is:?}"))
}

/// One version in a list of them.
pub(super) fn version(version: &EvaluatorVersion, is_closed: bool) -> Value {
    let mut view = json!({
        "id": version.id,
        "version": version.number,
        "createdAt": version.created_at,
    });
    extend(&mut view, definition(version, is_closed));
    view
}

/// An evaluator with its newest version.
pub(super) fn evaluator(evaluator: &Evaluator, uses: &[RuleUse], is_closed: bool) -> Value {
    let paused = evaluator.paused.as_ref();
    let assignments: Vec<Value> = uses
        .iter()
        .map(|rule| {
            json!({
                "evaluationRuleId": rule.rule_id,
                "variableMappingOverride": rule.mapping,
            })
        })
        .collect();
    let mut view = json!({
        "id": evaluator.id,
        "name": evaluator.name,
        "description": evaluator.description,
        "status": if paused.is_some() { "paused" } else { "active" },
        "pausedAt": paused.map(|pause| pause.at),
        "pausedReason": paused.map(|pause| &pause.reason),
        "pausedMessage": paused.map(|pause| &pause.message),
        "evaluationRuleAssignments": assignments,
        "createdAt": evaluator.created_at,
        "updatedAt": evaluator.updated_at,
        "versionId": evaluator.version.id,
        "version": evaluator.version.number,
        "versionCreatedAt": evaluator.version.created_at,
    });
    extend(&mut view, definition(&evaluator.version, is_closed));
    view
}
