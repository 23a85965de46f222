//! Validation of configurations.

use perpend_domain::ids::ProjectId;
use perpend_http_kit::problem::{Code, Issue, Problem};
use perpend_worker_protocol::{CheckError, Mismatch, SchemaCheck, SchemaKind};
use serde_json::Value;

use crate::state::App;

/// Validates a configuration and fills in the defaults.
///
/// # Errors
/// 422 with every violation and the JSON Pointer of its value.
pub(super) async fn checked_config(
    app: &App,
    project: &ProjectId,
    schema: &str,
    config: &Value,
) -> Result<Value, Problem> {
    let check = SchemaCheck {
        schema: schema.to_owned(),
        kind: SchemaKind::Config,
        values: vec![config.to_string()],
    };
    let wrong = |found: Vec<Mismatch>| {
        let issues = found.into_iter().map(|mismatch| Issue {
            path: vec![format!("/config{}", mismatch.pointer).into()],
            message: mismatch.message,
        });
        Problem::issues(Code::InvalidConfig, issues)
    };
    let answer = app.engine.check_schema(project, check).await;
    let answer = answer.map_err(|why| match why {
        CheckError::TooMuchWork => wrong(vec![Mismatch::whole(why.to_string())]),
        _ => crate::check_error::problem(&why),
    })?;
    let held = answer.map_err(|why| wrong(vec![why]))?;
    let held = held.into_iter().next().ok_or_else(Problem::internal)?;
    match held.with_defaults {
        Some(filled) => serde_json::from_str(&filled).map_err(|_| Problem::internal()),
        None => Err(wrong(held.mismatches)),
    }
}
