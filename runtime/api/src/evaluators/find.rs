//! Look-up of evaluators, and validation of their names.

use perpend_domain::evaluation::Evaluator;
use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_http_kit::problem::Problem;

use crate::state::App;

pub(crate) fn parse_id(id: &str) -> Result<EvaluatorId, Problem> {
    EvaluatorId::new(id).map_err(|_| Problem::not_found("evaluator"))
}

pub(crate) async fn find(app: &App, project: &ProjectId, id: &str) -> Result<Evaluator, Problem> {
    let found = app.store.catalog.evaluator(project, &parse_id(id)?).await?;
    found.ok_or_else(|| Problem::not_found("evaluator"))
}

pub(crate) fn checked_name(name: &str) -> Result<String, Problem> {
    let name = name.trim();
    if name.is_empty() || name.chars().count() > 200 || name.chars().any(char::is_control) {
        return Err(Problem::body(
            "name",
            "must have 1 to 200 characters, without control characters",
        ));
    }
    Ok(name.to_owned())
}
