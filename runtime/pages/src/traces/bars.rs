//! Chart of traces over time, with those that have errors.

use perpend_domain::metrics::Granularity;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::Environments;
use perpend_views::{Chart, ChartBar, ChartPart, Text, TracesQuery, Trend};

use crate::overview;
use crate::overview::charts::buckets;
use crate::overview::queries::Range;
use crate::read;
use crate::request::viewer::Viewer;
use crate::state::App;

/// Notes on the differences between the chart and the list below it.
fn notes(viewer: &Viewer, query: &TracesQuery) -> Vec<&'static str> {
    let mut notes = Vec::new();
    notes.extend(match (viewer.focus.from, viewer.focus.to) {
        (Some(_), _) => None,
        (None, Some(_)) => Some("the last 7 days of this time range"),
        (None, None) => Some("the last 7 days"),
    });
    if !query.q.is_empty() {
        notes.push("all traces in the time range and environments");
    }
    notes
}

/// The chart above a list. Each bar links to the list with its time range.
pub(crate) async fn traces_over_time(
    app: &App,
    viewer: &Viewer,
    query: &TracesQuery,
) -> Result<Trend, Problem> {
    let now = app.web.clock.now();
    let Some(range) = overview::range::range(viewer, now) else {
        let fault = match overview::range::is_too_far_ahead(viewer, now) {
            true => "The time range must not start more than a year in the future.",
            false => "The end of the time range must be after its start.",
        };
        return Ok(Trend::Error(Text::from(fault)));
    };
    let chart = chart((app, viewer), query, range).await?;
    let mut notes = notes(viewer, query);
    if overview::range::is_cut(viewer, now) {
        notes.push("at most 20 years, and at most one year in the future");
    }
    let chart = match query.q.is_empty() {
        true => chart,
        false => chart.unfiltered(),
    };
    Ok(Trend::Chart(chart.noting(notes)))
}

/// Chart of traces by start time, with those that have errors. Each bar links to the list of its traces.
pub(crate) async fn chart(
    (app, viewer): (&App, &Viewer),
    query: &TracesQuery,
    range: Range,
) -> Result<Chart, Problem> {
    let granularity = Granularity::for_range(range.0, range.1);
    let buckets = buckets(app, range, granularity);
    let chosen: Vec<&str> = viewer.focus.environments.iter().map(String::as_str).collect();
    let environments = match chosen.as_slice() {
        [] => Environments::AllBut(&read::INTERNAL_ENVIRONMENTS),
        chosen => Environments::Only(chosen),
    };
    let stretches: Vec<_> = buckets.iter().map(|bucket| bucket.time()).collect();
    let telemetry = &app.store.telemetry;
    let began = telemetry.traces_began(&viewer.project, environments, &stretches);
    let began = began.await?;
    let base = viewer.base();
    let bars = buckets.iter().zip(began).map(|(bucket, began)| ChartBar {
        time: bucket.time(),
        value: began.traces as f64,
        part: began.with_errors as f64,
        partial: bucket.partial,
        href: bucket.rows(viewer, query.clone()).first(&base),
    });
    let bars: Vec<ChartBar> = bars.collect();
    let whole = |value: f64| perpend_views::count(value as u64);
    Ok(Chart::new(("Traces", ChartPart::Errors), granularity, &bars, whole))
}
