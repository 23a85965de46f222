//! How an evaluator reads.

use axum::http::HeaderMap;
use perpend_catalog::RuleUse;
use perpend_contract::evaluator::{self as contract, Source, UseOfEvaluator};
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion, PYTHON_INTERPRETER};

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

/// The source that a version is shown with: its own, or for a client that knows code alone a comment that says
/// what it really is.
fn source(version: &EvaluatorVersion, is_closed: bool) -> Option<Source> {
    let own = own_source(version, is_closed);
    let comment = || Source {
        language: "PYTHON",
        code: format!(
            "# Not source code: this evaluator is the WebAssembly plug-in {}@{}\n# (sha256:{}), evaluator {:?}.\n",
            version.plugin_name, version.plugin_version, version.plugin, version.plugin_evaluator
        ),
    };
    own.or_else(|| is_closed.then(comment))
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
pub(super) fn version(version: &EvaluatorVersion, is_closed: bool) -> contract::EvaluatorVersion {
    contract::EvaluatorVersion::new(version, source(version, is_closed))
}

/// An evaluator with its newest version.
pub(super) fn evaluator(
    evaluator: &Evaluator,
    uses: Vec<RuleUse>,
    is_closed: bool,
) -> contract::Evaluator {
    let shown = |rule: RuleUse| UseOfEvaluator {
        evaluation_rule_id: rule.rule_id,
        variable_mapping_override: rule.mapping,
    };
    let uses = uses.into_iter().map(shown).collect();
    contract::Evaluator::new(evaluator, uses, source(&evaluator.version, is_closed))
}

/// What a version runs that runs source. `None` for any other.
fn own_source(version: &EvaluatorVersion, is_closed: bool) -> Option<Source> {
    if !version.runs_source() {
        return None;
    }
    let language = match version.plugin_name.as_str() {
        PYTHON_INTERPRETER => "PYTHON",
        // Closed clients know no JavaScript; all of it is TypeScript.
        _ if is_closed || version.config["language"] == "typescript" => "TYPESCRIPT",
        _ => "JAVASCRIPT",
    };
    let code = version.config["source"].as_str().unwrap_or_default();
    Some(Source {
        code: code.to_owned(),
        language,
    })
}
