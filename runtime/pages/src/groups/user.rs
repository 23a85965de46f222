//! `GET P/users/{user}`: totals, charts, sessions, latest traces and low scores of a user in the selected time range and
//! environments.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use perpend_domain::cost::CostSum;
use perpend_domain::filter::{Condition, Filter, TRACES, Test, find};
use perpend_domain::metrics::Granularity;
use perpend_domain::telemetry::{GroupKey, GroupQuery};
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;
use perpend_http_kit::problem::Problem;
use perpend_telemetry::IntervalTotals;
use perpend_views::{
    CellContext, Chart, ChartBar, ChartPart, DeferredTrend, FocusView, GroupLine, Section, Text,
    TraceLine, TracesQuery, Trend, TrendPage, UserPage, decode_segment, href, segment,
    session_table,
};
use serde::Deserialize;

use crate::groups;
use crate::overview;
use crate::overview::charts::{Bucket, buckets};
use crate::overview::queries::MetricReader;
use crate::overview::trends;
use crate::read;
use crate::reference;
use crate::request::query::Query;
use crate::request::reply::page;
use crate::request::viewer::Viewer;
use crate::state::App;
use crate::traces::lines;

/// Rows in each of the lists of sessions, latest traces and low scores.
const MAX_ROWS: u32 = 20;

#[derive(Debug, Deserialize)]
pub(crate) struct UserPath {
    user: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct UserPageParams {
    /// `1` includes the charts in the page.
    trends: String,
}

fn user_filter(user: &str) -> Filter {
    Filter { conditions: vec![groups::lines::group_condition((GroupKey::User, user))] }
}

/// The list of a user's traces in the selected time range and environments.
fn traces_of_user(viewer: &Viewer, user: &str) -> TracesQuery {
    groups::lines::trace_list_query(&viewer.focus, user_filter(user).conditions)
}

pub(crate) async fn user_page(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<UserPath>,
    Query(params): Query<UserPageParams>,
) -> Result<Response, Problem> {
    let user = decode_segment(&path.user).to_owned();
    let (telemetry, project) = (&app.store.telemetry, &viewer.project);
    let query = groups::lines::group_query((&app, &viewer), GroupKey::User, MAX_ROWS);
    let chosen = telemetry.trace_group(project, &query, &user).await?;
    let is_outside = chosen.is_none();
    let group = match chosen {
        Some(group) => Some(group),
        None => {
            let any = GroupQuery::new(GroupKey::User, 1);
            telemetry.trace_group(project, &any, &user).await?
        }
    };
    let group = group.ok_or_else(|| Problem::not_found("user"))?;
    let address = href(&viewer.base(), GroupKey::User, &user);
    let focus = (address, viewer.unknown_parameters());
    let base = viewer.base();
    let context = CellContext::new(&base, &viewer.focus, viewer.form_context());
    let mut view = UserPage {
        shell: viewer
            .shell(Section::Users)
            .with_api([reference::equivalent_requests::user(&viewer, &query, &user)]),
        focus: FocusView::new(&viewer.focus, focus, ("All time", true)).in_all_environments(),
        notices: viewer.faults.clone(),
        line: GroupLine::new(GroupKey::User, group),
        is_outside,
        charts: None,
        has_more_sessions: false,
        sessions: session_table(&[], &context),
        traces: Vec::new(),
        all_traces: traces_of_user(&viewer, &user).first(&viewer.base()),
        low: Vec::new(),
        low_names: Vec::new(),
    };
    if is_outside {
        return page(StatusCode::OK, &view);
    }
    view.charts = Some(deferred_charts(&app, &viewer, &user, params.trends == "1").await?);
    let mut of_sessions = groups::lines::group_query((&app, &viewer), GroupKey::Session, MAX_ROWS);
    of_sessions.of = Some(user.clone());
    let sessions = telemetry.trace_groups(project, &of_sessions).await?;
    view.has_more_sessions = sessions.older.is_some();
    let rows = groups::lines::group_rows(&app, &viewer, &of_sessions, sessions.items).await?;
    view.sessions = session_table(&rows, &context);
    let mut newest = user_filter(&user);
    let now = app.web.clock.now();
    newest.conditions.extend(viewer.focus.conditions(TRACES, now));
    let traces = read::newest_traces(&app, project, newest, MAX_ROWS).await?;
    view.traces = lines::trace_lines(&app, project, &traces).await?;
    (view.low, view.low_names) = low_scores(&app, &viewer, &query, &user).await?;
    page(StatusCode::OK, &view)
}

/// The charts, or the URL to load them from.
async fn deferred_charts(
    app: &App,
    viewer: &Viewer,
    user: &str,
    is_whole: bool,
) -> Result<DeferredTrend, Problem> {
    let base = viewer.base();
    let part = format!("{base}/_/users/{}/trends", segment(user));
    let whole = href(&base, GroupKey::User, user);
    let label = "Traces, cost and latency over time";
    let place = trends::deferred_trend(viewer, label, (&part, &whole), None);
    let shown = match is_whole {
        true => Some(charts(app, viewer, user).await?),
        false => None,
    };
    Ok(DeferredTrend { trend: shown, ..place })
}

/// `GET P/_/users/{user}/trends`: the charts, with the query parameters of the page.
pub(crate) async fn trends_fragment(
    State(app): State<App>,
    viewer: Viewer,
    Path(path): Path<UserPath>,
) -> Result<Response, Problem> {
    let trend = charts(&app, &viewer, decode_segment(&path.user)).await?;
    page(StatusCode::OK, &TrendPage { trend })
}

/// Traces, cost and latency in the selected time range. Each bar links to the traces of the user in its period.
async fn charts(app: &App, viewer: &Viewer, user: &str) -> Result<Trend, Problem> {
    let Some(range) = overview::range::daily_range(viewer, app.web.clock.now()) else {
        let fault = "No charts: the end of the time range must be after its start, and the start at most a year in the future.";
        return Ok(Trend::Error(Text::from(fault)));
    };
    let reader = MetricReader { app, viewer, range, user: Some(user) };
    let granularity = reader.granularity();
    let buckets = buckets(app, range, granularity);
    let by_time = by_time(reader, granularity).await?;
    let own = |bucket: &Bucket| by_time.get(&bucket.start).copied().unwrap_or_default();
    let base = viewer.base();
    let rows = traces_of_user(viewer, user);
    let (_, latency) = trends::latency_over_time(reader, &rows).await?;
    let bars = |value: fn(TraceSums) -> (f64, f64)| {
        let bar = |bucket: &Bucket| {
            let (value, part) = value(own(bucket));
            ChartBar {
                time: bucket.time(),
                value,
                part,
                partial: bucket.partial,
                href: bucket.rows(viewer, rows.clone()).first(&base),
            }
        };
        buckets.iter().map(bar).collect::<Vec<_>>()
    };
    let traces = bars(|sums| (sums.n_traces as f64, sums.n_failed as f64));
    let costs: Vec<CostSum> = buckets.iter().map(|bucket| own(bucket).cost).collect();
    let whole = |value: f64| perpend_views::count(value as u64);
    let dollars = bars(|sums| (sums.cost.dollars, 0.0));
    let of_time = match (viewer.focus.from, viewer.focus.to) {
        (Some(_), _) => Vec::new(),
        (None, None) => vec!["the last 30 days"],
        (None, Some(_)) => vec!["the last 30 days of this time range"],
    };
    let titled = |title| (title, ChartPart::Errors);
    let mut charts = vec![
        Chart::new(titled("Traces"), granularity, &traces, whole),
        Chart::new(titled("Cost"), granularity, &dollars, perpend_views::dollars)
            .of_costs(&costs, false),
    ];
    charts.extend(latency);
    let noted = charts.into_iter().map(|chart| chart.noting(of_time.clone()));
    Ok(Trend::Charts(noted.collect()))
}

/// Totals of the traces of a period.
#[derive(Clone, Copy, Default)]
struct TraceSums {
    n_traces: u64,
    n_failed: u64,
    cost: CostSum,
}

/// Totals of the periods with traces, by start time.
async fn by_time(
    reader: MetricReader<'_>,
    granularity: Granularity,
) -> Result<BTreeMap<Timestamp, TraceSums>, Problem> {
    let MetricReader { app, viewer, range: (from, to), user } = reader;
    let query = GroupQuery {
        started: (Some(from), Some(to)),
        ..groups::lines::group_query((app, viewer), GroupKey::User, MAX_ROWS)
    };
    // Weeks and months are added up from days.
    let unit = match granularity {
        Granularity::Minute | Granularity::Hour => granularity,
        _ => Granularity::Day,
    };
    let first = unit.start(from);
    let parts = (first, unit.next(first).micros_since(first));
    let telemetry = &app.store.telemetry;
    let found =
        telemetry.user_interval_totals(&viewer.project, &query, user.unwrap_or_default(), parts);
    let mut all: BTreeMap<Timestamp, TraceSums> = BTreeMap::new();
    for IntervalTotals { at, n_traces, n_failed, cost } in found.await? {
        let sums = all.entry(granularity.start(at)).or_default();
        sums.n_traces += n_traces;
        sums.n_failed += n_failed;
        sums.cost = sums.cost + cost;
    }
    Ok(all)
}

/// The traces of a user with the lowest scores, and the score names with links to all traces that are low in them.
async fn low_scores(
    app: &App,
    viewer: &Viewer,
    query: &GroupQuery,
    user: &str,
) -> Result<(Vec<TraceLine>, Vec<(Text, String)>), Problem> {
    let telemetry = &app.store.telemetry;
    let lowest = telemetry.low_scores(&viewer.project, query, user).await?;
    let base = viewer.base();
    let mut ids: Vec<String> = Vec::new();
    let mut names: Vec<(Text, String)> = Vec::new();
    for score in &lowest {
        let id = score.trace.to_string();
        if ids.len() < MAX_ROWS as usize && !ids.contains(&id) {
            ids.push(id);
        }
        let list =
            groups::lines::low_score_query(&viewer.focus, user, (&score.name, score.is_truth));
        let list = list.first(&base);
        if names.iter().all(|(_, other)| *other != list) {
            names.push((Text::from(score.name.as_str()), list));
        }
    }
    if ids.is_empty() {
        return Ok((Vec::new(), names));
    }
    let place = |trace: &Trace| ids.iter().position(|id| *id == trace.id.to_string());
    let among = Filter {
        conditions: vec![Condition { column: find(TRACES, "id"), test: Test::AnyOf(ids.clone()) }],
    };
    let mut traces = read::newest_traces(app, &viewer.project, among, MAX_ROWS).await?;
    traces.sort_by_key(place);
    Ok((lines::trace_lines(app, &viewer.project, &traces).await?, names))
}
