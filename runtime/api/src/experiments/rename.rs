//! `PATCH /api/v1/experiments/{experimentId}`.

use axum::extract::{Path, State};
use perpend_domain::experiment::unescaped_run_id;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::{Code, Problem};
use serde::Deserialize;
use utoipa::ToSchema;

use super::report::{ExperimentReport, report_of};
use crate::datasets::write::name_of;
use crate::state::App;

/// A change of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExperimentPatch {
    /// The new name, 1 to 800 characters. No other run over the dataset may have it, or have had it when it was created.
    name: String,
}

pub(super) async fn patch_experiment(
    State(app): State<App>,
    caller: Act,
    Path(id): Path<String>,
    Body(input): Body<ExperimentPatch>,
) -> Result<Answer<ExperimentReport>, Problem> {
    let (project, telemetry) = (&caller.project, &app.store.telemetry);
    let id = unescaped_run_id(&id);
    let name = name_of(&input.name)?;
    let run = telemetry.experiment_run(project, id).await?;
    let run = run.ok_or_else(|| Problem::not_found("experiment"))?;
    if run.name != name.as_str()
        && !telemetry.rename_run(project, &run, name.as_str(), app.web.clock.now()).await?
    {
        let message = format!("another run over the dataset has the name {:?}", name.as_str());
        return Err(Problem::new(Code::NameConflict, message).with("field", "name"));
    }
    report_of(&app, project, id).await
}
