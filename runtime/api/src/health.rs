//! `/api/public/health` and `/api/public/ready`.

use axum::extract::State;
use perpend_api_types::job::JobState;
use perpend_http_kit::answer::{Answer, Either};
use perpend_http_kit::auth::Requirement;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use utoipa::ToSchema;

use crate::jobs;
use crate::state::{App, Routes};

const HEALTH: &[Param] = &[
    param(
        "failIfDatabaseUnavailable",
        "boolean",
        "Respond with 503 when the database is unavailable.",
    ),
    param("failIfNoRecentEvents", "boolean", "Accepted and ignored."),
];

pub(super) fn routes(routes: &mut Routes) {
    let health = Operation::get(
        "getHealth",
        "/api/public/health",
        "Get the health of the server",
        Requirement::Public,
    )
    .query(HEALTH);
    routes.add(health, get_health);
    let ready = Operation::get(
        "getReadiness",
        "/api/public/ready",
        "Check that the database accepts reads and writes; 503 with `Retry-After` otherwise",
        Requirement::Public,
    );
    routes.add(ready, get_ready);
}

#[derive(Serialize, ToSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
    /// Background jobs with their last run and error.
    jobs: Vec<JobState>,
}

fn health(app: &App, status: &'static str) -> Health {
    Health { status, version: env!("CARGO_PKG_VERSION"), jobs: jobs::states(&app.jobs) }
}

async fn get_health(
    State(app): State<App>,
    params: Params,
) -> Result<Either<Answer<Health>, Answer<Health, 503>>, Problem> {
    let checks_database = params.flag("failIfDatabaseUnavailable")?.unwrap_or(false);
    params.flag("failIfNoRecentEvents")?;
    if checks_database && app.store.ping().await.is_err() {
        return Ok(Either::Other(Answer(health(&app, "database unavailable"))));
    }
    Ok(Either::One(Answer(health(&app, "OK"))))
}

async fn get_ready(State(app): State<App>) -> Result<Answer<Health>, Problem> {
    match app.store.prove_writes(app.web.clock.now()).await {
        Ok(()) => Ok(Answer(health(&app, "OK"))),
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "not ready");
            Err(Problem::unavailable("the database does not accept writes"))
        }
    }
}
