//! What the pages of traces ask the store.

use perpend_domain::filter::Filter;
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::telemetry::TraceQuery;
use perpend_domain::trace::Trace;
use perpend_web::problem::Problem;

use crate::state::App;

/// A page of the list of traces.
pub(super) struct Found {
    pub(super) traces: Vec<Trace>,
    pub(super) n_total: u64,
}

/// The latest traces that fit, without content.
pub(super) async fn traces(
    app: &App,
    project: &ProjectId,
    filter: Filter,
    page: u32,
    limit: u32,
) -> Result<Found, Problem> {
    let query = TraceQuery {
        filter,
        page,
        limit,
        ..TraceQuery::default()
    };
    let found = app.store.telemetry.traces(project, &query).await?;
    Ok(Found {
        traces: found.items.into_iter().map(|stored| stored.trace).collect(),
        n_total: found.n_total,
    })
}

/// A trace with all its observations, none of them with content.
pub(super) async fn trace_with_steps(
    app: &App,
    project: &ProjectId,
    id: &TraceId,
) -> Result<Option<(Trace, Vec<Observation>)>, Problem> {
    let store = &app.store;
    let Some(stored) = store.telemetry.trace(project, id, false).await? else {
        return Ok(None);
    };
    let steps = store
        .telemetry
        .trace_observations(project, id, false)
        .await?;
    let steps = steps.into_iter().map(|stored| stored.observation).collect();
    Ok(Some((stored.trace, steps)))
}

/// A trace with its input, output and metadata.
pub(super) async fn whole(
    app: &App,
    project: &ProjectId,
    id: &TraceId,
) -> Result<Option<Trace>, Problem> {
    let stored = app.store.telemetry.trace(project, id, true).await?;
    Ok(stored.map(|stored| stored.trace))
}

/// An observation with its content.
pub(super) async fn step(
    app: &App,
    project: &ProjectId,
    trace: &TraceId,
    id: &ObservationId,
) -> Result<Option<Observation>, Problem> {
    let stored = app
        .store
        .telemetry
        .observation_of(project, trace, id)
        .await?;
    Ok(stored.map(|stored| stored.observation))
}
