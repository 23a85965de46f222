//! `POST P/executions/{execution}/requeue` and `POST P/failed-executions/requeue`: requeue one failed execution, or all of a
//! class and rule, with the functions of the API operations with these paths.

use axum::extract::{Path, State};
use axum::response::Response;
use perpend_domain::evaluation::EndReason;
use perpend_domain::ids::{ExecutionId, RuleId};
use perpend_executions::FailedExecutionFilter;
use perpend_http_kit::problem::{Code, Problem};
use perpend_views::plural;
use serde::Deserialize;

use crate::request::forms::SubmittedForm;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

/// Executions requeued by one form.
pub(crate) const MAX_REQUEUED: u32 = 1_000;

#[derive(Debug, Deserialize)]
pub(crate) struct ExecutionPath {
    pub(crate) execution: String,
}

pub(crate) async fn requeue_execution(
    State(app): State<App>,
    Path(path): Path<ExecutionPath>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let missing = || Problem::not_found("execution");
    let id = ExecutionId::new(&path.execution).map_err(|_| missing())?;
    let (ledger, project) = (&app.store.ledger, &form.viewer.project);
    let act = async {
        let now = app.web.clock.now();
        match ledger.requeue_execution(project, &id, now).await.map_err(Problem::from) {
            Ok(()) => app.scheduler.wake(),
            Err(problem) if problem.code() == Code::NotFound => {
                let execution = ledger.execution(project, &id).await?.ok_or_else(missing)?;
                let state = execution.state.as_str();
                let words =
                    format!("Only a failed execution can be requeued; this one is {state}.");
                return Ok(SubmissionOutcome::new(words));
            }
            Err(problem) => return Err(problem),
        }
        Ok(SubmissionOutcome::new("Requeued. This cannot be undone."))
    };
    form.run_once(&app, act).await
}

pub(crate) async fn requeue_failed(
    State(app): State<App>,
    form: SubmittedForm,
) -> Result<Response, Problem> {
    let class = form.fields.text("class").map(str::parse::<EndReason>).transpose();
    let class = class.map_err(|_| Problem::body("class", "must be an error class"))?;
    let rule = form.fields.text("rule").map(str::parse::<RuleId>).transpose();
    let rule = rule.map_err(|_| Problem::body("rule", "must be the id of a rule"))?;
    let failed = FailedExecutionFilter { class, rule };
    let act = async {
        let (ledger, now) = (&app.store.ledger, app.web.clock.now());
        let project = &form.viewer.project;
        let n = ledger.requeue_failed(project, &failed, MAX_REQUEUED, now).await?;
        app.scheduler.wake();
        let words = format!("{} requeued. This cannot be undone.", plural(n, "execution"));
        Ok::<_, Problem>(SubmissionOutcome::new(words))
    };
    form.run_once(&app, act).await
}
