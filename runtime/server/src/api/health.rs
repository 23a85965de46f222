//! `/api/public/health` and `/api/public/ready`.

use crate::auth::Needs;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::extract::{Param, Params, param};
use crate::problem::Problem;
use crate::routes::{Operation, Routes};

const HEALTH: &[Param] = &[
    param(
        "failIfDatabaseUnavailable",
        "boolean",
        "Answer 503 when the database does not answer.",
    ),
    param("failIfNoRecentEvents", "boolean", "Accepted and ignored."),
];

pub(super) fn routes(routes: &mut Routes) {
    let health = Operation::get(
        "getHealth",
        "/api/public/health",
        "Whether the server is up",
        Needs::Nobody,
    )
    .query(HEALTH)
    .answers::<Health>();
    routes.add(health, get_health);
    let ready = Operation::get(
        "getReadiness",
        "/api/public/ready",
        "Whether the server can take requests",
        Needs::Nobody,
    )
    .answers::<Health>();
    routes.add(ready, get_ready);
}

#[derive(Serialize, ToSchema)]
struct Health {
    status: &'static str,
    version: &'static str,
}

const fn health(status: &'static str) -> Json<Health> {
    Json(Health {
        status,
        version: env!("CARGO_PKG_VERSION"),
    })
}

async fn get_health(
    State(app): State<App>,
    params: Params,
) -> Result<(StatusCode, Json<Health>), Problem> {
    let asks_database = params.flag("failIfDatabaseUnavailable")?.unwrap_or(false);
    params.flag("failIfNoRecentEvents")?;
    if asks_database && app.store.ping().await.is_err() {
        return Ok((
            StatusCode::SERVICE_UNAVAILABLE,
            health("database unavailable"),
        ));
    }
    Ok((StatusCode::OK, health("OK")))
}

async fn get_ready(State(app): State<App>) -> (StatusCode, Json<Health>) {
    match app.store.ping().await {
        Ok(()) => (StatusCode::OK, health("OK")),
        Err(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            health("database unavailable"),
        ),
    }
}
