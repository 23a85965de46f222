//! Responses of evaluators.

use axum::http::HeaderMap;
use perpend_api_types::evaluator::{
    self as contract, EvaluatorDetails, EvaluatorSource, EvaluatorUse,
};
use perpend_catalog::RuleUse;
use perpend_domain::evaluation::{Evaluator, EvaluatorVersion};

use super::judge;

/// Whether the caller is a generated client of the compat API, which refuses unknown types.
pub(super) fn is_closed_client(headers: &HeaderMap) -> bool {
    ["x-fern-language", "x-langfuse-sdk-name", "x_langfuse_sdk_name"]
        .iter()
        .any(|name| headers.contains_key(*name))
}

/// The type-specific members of a version. A client of the closed union gets a plug-in as source code with a comment
/// that names it.
fn details(version: &EvaluatorVersion, is_closed: bool) -> EvaluatorDetails {
    if version.is_judge() {
        return EvaluatorDetails::Judge(judge::view(&version.config, &version.slots));
    }
    let own = own_source(version, is_closed);
    let comment = || EvaluatorSource {
        language: "PYTHON",
        code: format!(
            "# Not source code: this evaluator is the WebAssembly plug-in {}@{}\n# (sha256:{}), evaluator {:?}.\n",
            version.plugin_name, version.plugin_version, version.plugin, version.plugin_evaluator
        ),
    };
    let source = own.or_else(|| is_closed.then(comment));
    source.map_or(EvaluatorDetails::Plugin, EvaluatorDetails::Code)
}

/// The error for a definition of another type than that of a version.
pub(super) fn changes_kind(version: &EvaluatorVersion, kind: &str) -> Option<String> {
    let is = match (version.is_judge(), version.runs_source()) {
        (true, _) => "llm_as_judge",
        (_, true) => "code",
        _ => "plugin",
    };
    // Judges and code are plug-ins too and may be replaced by one.
    (kind != is && kind != "plugin")
        .then(|| format!("must be `{is}`, the type of the evaluator, got `{kind}`"))
}

/// A version in a list.
pub(super) fn version(version: &EvaluatorVersion, is_closed: bool) -> contract::EvaluatorVersion {
    contract::EvaluatorVersion::new(version, details(version, is_closed))
}

/// An evaluator with its newest version.
pub(super) fn evaluator(
    evaluator: &Evaluator,
    uses: Vec<RuleUse>,
    is_closed: bool,
) -> contract::Evaluator {
    let assigned = |rule: RuleUse| EvaluatorUse {
        evaluation_rule_id: rule.rule_id,
        variable_mapping_override: rule.mapping,
    };
    let uses = uses.into_iter().map(assigned).collect();
    contract::Evaluator::new(evaluator, uses, details(&evaluator.version, is_closed))
}

/// The source code of a version; `None` for other plug-ins.
fn own_source(version: &EvaluatorVersion, is_closed: bool) -> Option<EvaluatorSource> {
    let (language, code) = version.source()?;
    let language = match language {
        // The closed union has no JavaScript, which is valid TypeScript.
        "JAVASCRIPT" if is_closed => "TYPESCRIPT",
        language => language,
    };
    Some(EvaluatorSource { code: code.to_owned(), language })
}
