//! What the host finds wrong with a configuration, as a problem of the API.

use serde_json::Value;

use crate::problem::{Code, Issue, Problem};

/// The configuration as it is stored: checked, with defaults filled in.
///
/// # Errors
/// 422 with every problem, each with the JSON Pointer of the value at fault.
pub(in crate::api) fn checked_config(schema: &str, config: Value) -> Result<Value, Problem> {
    assay_host::check_config(schema, config).map_err(|issues| {
        let issues = issues.into_iter().map(|issue| Issue {
            path: vec![format!("/config{}", issue.pointer).into()],
            message: issue.message,
        });
        Problem::issues(Code::InvalidConfig, issues.collect())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_problem_is_listed_with_its_pointer_from_the_definition() {
        let schema = json!({
            "type": "object",
            "properties": { "min": { "type": "integer" } },
            "required": ["mode"],
        });
        let problem = checked_config(&schema.to_string(), json!({ "min": "x" })).unwrap_err();
        assert_eq!(problem.code(), Code::InvalidConfig);
        let text = format!("{problem:?}");
        for part in ["/config/min", "mode"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
