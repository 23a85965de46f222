//! `PUT /api/v1/evaluators/{evaluatorId}/grants`: the capabilities of an evaluator, as a new version of it.

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use perpend_api_types::evaluator as contract;
use perpend_catalog::Successor;
use perpend_domain::access::Permission::EvaluatorWrite;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::Body;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Deserialize;
use utoipa::ToSchema;

use super::{Definition, evaluator_view, find};
use crate::state::{App, Routes};

/// The capabilities of an evaluator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EvaluatorGrants {
    /// `model`, `trace`. Must include those that the evaluator requires.
    grants: Vec<String>,
}

pub(crate) fn routes(routes: &mut Routes) {
    let put = Operation::put(
        "putEvaluatorGrants",
        "/api/v1/evaluators/{evaluatorId}/grants",
        "Set the capabilities of an evaluator by a new version; the same capabilities change nothing",
        EvaluatorWrite,
    );
    routes.add(put.body::<EvaluatorGrants>(), put_grants);
}

async fn put_grants(
    State(app): State<App>,
    caller: Act,
    headers: HeaderMap,
    Path(id): Path<String>,
    Body(input): Body<EvaluatorGrants>,
) -> Result<Answer<contract::Evaluator>, Problem> {
    let project = &caller.project;
    let catalog = &app.store.catalog;
    let mut evaluator = find(&app, project, &id).await?;
    let current = &evaluator.version;
    let plugin = catalog.plugin(project, &current.plugin).await?;
    let plugin = plugin.ok_or_else(|| Problem::not_found("plug-in"))?;
    let definition = Definition::on_plugin(current, &plugin, current.config.clone());
    let version = definition.with_grants(input.grants).check(&app, project).await?;
    if version.grants != current.grants {
        // After a concurrent change nothing is written.
        let successor =
            Successor { evaluator: evaluator.id.clone(), follows: current.number, version };
        catalog.add_successors(project, &[successor], app.web.clock.now()).await?;
        evaluator = find(&app, project, &id).await?;
    }
    evaluator_view(&app, project, &evaluator, &headers).await.map(Answer)
}
