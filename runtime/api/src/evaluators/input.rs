//! Request bodies of evaluators.

use perpend_http_kit::extract::{from_value, must_be_one_of};
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::evaluators::Definition;
use crate::evaluators::code::SourceCode;
use crate::evaluators::judge::JudgeInput;

/// Types of evaluators.
const KINDS: [&str; 3] = ["llm_as_judge", "code", "plugin"];

/// A new evaluator.
#[derive(Debug)]
pub(super) struct EvaluatorInput {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) definition: Definition,
}

/// Changes of an evaluator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EvaluatorPatch {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    /// `llm_as_judge`, `code` or `plugin`, the current type. Required to replace the definition, which is replaced as a whole.
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    /// Number of the newest version that the sender knows; with a newer one the response is 409, and nothing is changed.
    pub(super) if_version: Option<u32>,
    #[serde(flatten)]
    pub(super) rest: serde_json::Map<String, Value>,
}

/// The definition for a `type`. Unknown members are errors.
///
/// # Errors
/// For an unknown type or an invalid member.
pub(super) fn of_kind(kind: Option<&str>, members: &Value) -> Result<Definition, Problem> {
    match kind {
        Some("plugin") => from_value(members),
        Some("code") => from_value::<SourceCode>(members)?.definition(),
        Some("llm_as_judge") => from_value::<JudgeInput>(members)?.definition(),
        Some(other) => Err(Problem::body("type", must_be_one_of(&KINDS, other))),
        None => Err(Problem::body("type", format!("is required: one of {}", KINDS.join(", ")))),
    }
}

/// Separates name and description from the definition. Unknown members are errors.
pub(super) fn split(body: Value) -> Result<EvaluatorInput, Problem> {
    #[derive(Deserialize)]
    struct Head {
        name: String,
        description: Option<String>,
    }
    let kind = body["type"].as_str().map(str::to_owned);
    // An unknown type is reported before any other error.
    let head = from_value::<Head>(&body);
    if !matches!(kind.as_deref(), Some("llm_as_judge" | "code" | "plugin")) {
        let refused = of_kind(kind.as_deref(), &Value::Null).err();
        let problems = refused.into_iter().chain(head.err().filter(|_| kind.is_none()));
        return Err(Problem::all(problems.collect()).unwrap_or_else(Problem::internal));
    }
    let mut rest = body;
    if let Some(members) = rest.as_object_mut() {
        for name in ["type", "name", "description"] {
            members.shift_remove(name);
        }
    }
    match (head, of_kind(kind.as_deref(), &rest)) {
        (Ok(head), Ok(definition)) => {
            Ok(EvaluatorInput { name: head.name, description: head.description, definition })
        }
        (head, definition) => {
            let problems = head.err().into_iter().chain(definition.err());
            Err(Problem::all(problems.collect()).unwrap_or_else(Problem::internal))
        }
    }
}
