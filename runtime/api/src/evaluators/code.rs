//! `type: "code"`: source code that runs in the interpreter plug-in of its language.

use perpend_domain::evaluation::{JAVASCRIPT_INTERPRETER, PYTHON_INTERPRETER, SOURCE_EVALUATOR};
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use serde_json::json;
use utoipa::ToSchema;

use super::definition::Definition;

const MAX_SOURCE_BYTES: usize = 256 << 10;

/// Source code of a module with a function `evaluate(ctx)`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SourceCode {
    /// At most 256 KiB.
    source_code: String,
    source_code_language: Language,
}

/// Language of source code.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
enum Language {
    #[serde(rename = "PYTHON")]
    Python,
    #[serde(rename = "TYPESCRIPT")]
    TypeScript,
    /// As `TYPESCRIPT`, without type annotations.
    #[serde(rename = "JAVASCRIPT")]
    JavaScript,
}

impl SourceCode {
    /// The plug-in evaluator that runs it.
    ///
    /// # Errors
    /// When the source is empty or too large.
    pub(super) fn definition(self) -> Result<Definition, Problem> {
        let Self { source_code: source, source_code_language: language } = self;
        if source.trim().is_empty() {
            let message = "INVALID_SOURCE: must be the source of a function evaluate(ctx)";
            return Err(Problem::body("sourceCode", message));
        }
        if MAX_SOURCE_BYTES < source.len() {
            let message = format!(
                "SOURCE_TOO_LARGE: must have at most {MAX_SOURCE_BYTES} bytes, got {}",
                source.len()
            );
            return Err(Problem::body("sourceCode", message));
        }
        let (plugin, config) = match language {
            Language::Python => (PYTHON_INTERPRETER, json!({ "source": source })),
            Language::TypeScript => {
                (JAVASCRIPT_INTERPRETER, json!({ "source": source, "language": "typescript" }))
            }
            Language::JavaScript => {
                (JAVASCRIPT_INTERPRETER, json!({ "source": source, "language": "javascript" }))
            }
        };
        Ok(Definition::of(plugin, SOURCE_EVALUATOR, config))
    }
}
