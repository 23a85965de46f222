//! `POST P/executions/{execution}/requeue`: requeues a failed execution with the same function as
//! `POST /api/v1/executions/{executionId}/requeue`.

use axum::extract::{Path, State};
use axum::response::Response;
use perpend_domain::ids::ExecutionId;
use perpend_http_kit::problem::{Code, Problem};
use serde::Deserialize;

use crate::request::forms::SubmittedForm;
use crate::request::submissions::SubmissionOutcome;
use crate::state::App;

#[derive(Debug, Deserialize)]
pub(crate) struct ExecutionPath {
    execution: String,
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
