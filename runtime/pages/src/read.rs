//! What the pages of traces ask the store.

use std::sync::Arc;

use perpend_domain::evaluation::OWN_ENVIRONMENT;
use perpend_domain::filter::{Column, Condition, Filter, Test, find};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::observation::Observation;
use perpend_domain::outline::Outline;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::Bounds;

use crate::state::App;

/// Environments that what this server, or an SDK, records of evaluations and experiments stands in.
pub(super) const OWN: [&str; 3] = [OWN_ENVIRONMENT, "perpend-playground", "sdk-experiment"];

/// For a trace that the project does not have.
pub(super) fn unknown_trace() -> Problem {
    Problem::not_found("trace")
}

/// Leaves out what evaluations and experiments record of themselves.
pub(super) fn exclude_internal(columns: &'static [Column]) -> Condition {
    Condition {
        column: find(columns, "environment"),
        test: Test::NoneOf(OWN.map(str::to_owned).to_vec()),
    }
}

/// The start of the minute: a list whose time goes with the clock, and the request that gives the same, stay the same for
/// that long.
pub(super) fn start_of_minute(now: Timestamp) -> Timestamp {
    const MINUTE: i64 = 60_000;
    Timestamp::from_millis(now.as_millis().div_euclid(MINUTE) * MINUTE)
}

/// Traces that are tested for what no index can tell.
pub(super) const MAX_TESTED: u64 = 20_000;
/// If no more fit than this, they are put in order; else the list is walked in its order.
const FEW: u64 = 5_000;

/// The latest traces that fit, without content.
pub(super) async fn newest_traces(
    app: &App,
    project: &ProjectId,
    filter: Filter,
    limit: u32,
) -> Result<Vec<Trace>, Problem> {
    let query = TraceQuery { filter, limit, ..TraceQuery::default() };
    first_traces(app, project, query).await
}

/// The first traces of a list, as far as it can be told within the bounds of a page.
pub(super) async fn first_traces(
    app: &App,
    project: &ProjectId,
    query: TraceQuery,
) -> Result<Vec<Trace>, Problem> {
    let bounds = Bounds { max_tested: MAX_TESTED, max_counted: Some(FEW) };
    let telemetry = &app.store.telemetry;
    let found = telemetry.traces_from(project, &query, None, bounds).await?;
    Ok(found.traces.into_iter().map(|stored| stored.trace).collect())
}

/// A trace without content.
pub(super) async fn trace_without_content(
    app: &App,
    project: &ProjectId,
    id: &TraceId,
) -> Result<Option<Trace>, Problem> {
    let stored = app.store.telemetry.trace(project, id, false).await?;
    Ok(stored.map(|stored| stored.trace))
}

/// A trace with its input, output and metadata.
pub(super) async fn trace_with_content(
    app: &App,
    project: &ProjectId,
    id: &TraceId,
) -> Result<Option<Trace>, Problem> {
    let stored = app.store.telemetry.trace(project, id, true).await?;
    Ok(stored.map(|stored| stored.trace))
}

/// An observation with its content.
pub(super) async fn observation_with_content(
    app: &App,
    project: &ProjectId,
    trace: &TraceId,
    id: &ObservationId,
) -> Result<Option<Observation>, Problem> {
    let stored = app.store.telemetry.observation_of(project, trace, id).await?;
    Ok(stored.map(|stored| stored.observation))
}

/// The outline of a trace as it is stored now, with its revision; none when the project has no such trace.
pub(super) async fn trace_outline(
    app: &App,
    project: &ProjectId,
    trace: &TraceId,
) -> Result<Option<(i64, Arc<Outline>)>, Problem> {
    let telemetry = &app.store.telemetry;
    // Read before the observations.
    let Some(version) = telemetry.trace_version(project, trace).await? else {
        return Ok(None);
    };
    let key = (project.clone(), trace.clone());
    if let Some(outline) = app.outlines.get(&key, version) {
        return Ok(Some((version.revision, outline)));
    }
    let steps = telemetry.steps_of_trace(project, trace).await?;
    // Sorting a large trace takes longer than other requests should wait for this thread.
    let outlines = Arc::clone(&app.outlines);
    let made = tokio::task::spawn_blocking(move || outlines.make(key, version, steps)).await;
    let outline = made.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "outline not made");
        Problem::internal()
    })?;
    Ok(Some((version.revision, outline)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_begins_at_its_first_instant_also_before_1970() {
        for (at, start) in [
            ("2026-03-01T10:00:59.999Z", "2026-03-01T10:00:00Z"),
            ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
            ("1969-12-31T23:59:01Z", "1969-12-31T23:59:00Z"),
        ] {
            let [at, start] = [at, start].map(|text| Timestamp::parse(text).unwrap());
            assert_eq!(start_of_minute(at), start);
        }
    }
}
