//! Reads of traces, observations and outlines that several pages share.

use std::sync::Arc;

use perpend_domain::evaluation::OWN_ENVIRONMENT;
use perpend_domain::filter::{Column, Condition, Filter, Test, find};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::list::ListPosition;
use perpend_domain::observation::Observation;
use perpend_domain::outline::Outline;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_domain::trace_list::TraceQuery;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::Bounds;

use crate::state::App;

/// Environments of traces that this server or an SDK records for evaluations, the playground and experiments.
pub(super) const INTERNAL_ENVIRONMENTS: [&str; 3] =
    [OWN_ENVIRONMENT, "perpend-playground", "sdk-experiment"];

pub(super) fn unknown_trace() -> Problem {
    Problem::not_found("trace")
}

/// Condition that excludes [`INTERNAL_ENVIRONMENTS`].
pub(super) fn exclude_internal(columns: &'static [Column]) -> Condition {
    Condition {
        column: find(columns, "environment"),
        test: Test::NoneOf(INTERNAL_ENVIRONMENTS.map(str::to_owned).to_vec()),
    }
}

/// Rounds down to the minute, so that a list with a relative time and its API request stay the same within a minute.
pub(super) fn start_of_minute(now: Timestamp) -> Timestamp {
    const MINUTE: i64 = 60_000;
    Timestamp::from_millis(now.as_millis().div_euclid(MINUTE) * MINUTE)
}

/// Traces tested for conditions that no index covers.
pub(super) const MAX_TESTED: u64 = 20_000;
/// Up to this many matches are sorted; a larger list is read in its order.
const MAX_SORTED: u64 = 5_000;
/// Bounds of a list that is not counted.
pub(super) const LIST_BOUNDS: Bounds =
    Bounds { max_tested: MAX_TESTED, max_counted: Some(MAX_SORTED) };

/// The newest matching traces, without content.
pub(super) async fn newest_traces(
    app: &App,
    project: &ProjectId,
    filter: Filter,
    limit: u32,
) -> Result<Vec<Trace>, Problem> {
    let query = TraceQuery { filter, limit, ..TraceQuery::default() };
    first_traces(app, project, query).await
}

/// The first traces of a list, within the bounds of a page.
pub(super) async fn first_traces(
    app: &App,
    project: &ProjectId,
    query: TraceQuery,
) -> Result<Vec<Trace>, Problem> {
    let telemetry = &app.store.telemetry;
    let first = ListPosition::default();
    let found = telemetry.traces_from(project, &query, &first, LIST_BOUNDS).await?;
    Ok(found.items.into_iter().map(|stored| stored.trace).collect())
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

/// A trace with input, output and metadata.
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

/// The revision and the outline of a trace; absent if the project does not have the trace.
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
    let steps = telemetry.outline_observations(project, trace).await?;
    // Sorting a large trace would block the other requests of this thread.
    let outlines = Arc::clone(&app.outlines);
    let made = tokio::task::spawn_blocking(move || outlines.make(key, version, steps)).await;
    let outline = made.map_err(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "building an outline failed");
        Problem::internal()
    })?;
    Ok(Some((version.revision, outline)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_down_to_the_minute_before_and_after_1970() {
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
