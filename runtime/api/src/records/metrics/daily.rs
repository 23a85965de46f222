//! `GET /api/public/metrics/daily`: sums by day, newest first.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use perpend_api_types::list::PageMeta;
use perpend_domain::access::Permission::MetricRead;
use perpend_domain::filter::{Filter, OBSERVATIONS, TRACES};
use perpend_domain::metrics::{
    Aggregation, Granularity, Metric, MetricGroup, MetricQuery, MetricView,
};
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::{Value, json};

use super::time::metrics_problem;
use crate::records::conditions::Conditions;
use crate::records::state::{App, Routes};

const DAILY: &[Param] = &[
    page::PAGE,
    page::LIMIT,
    param("traceName", "string", "Name of the traces."),
    param("userId", "string", "Id of the user."),
    param("tags", "array", "Tags that the traces must all have; repeatable."),
    param("environment", "array", "Environments; repeatable."),
    param("fromTimestamp", "date-time", "Start, inclusive."),
    param("toTimestamp", "date-time", "End, exclusive."),
];

pub(super) fn routes(routes: &mut Routes) {
    let daily = Operation::get(
        "listDailyMetrics",
        "/api/public/metrics/daily",
        "List metrics by day, newest first",
        MetricRead,
    );
    routes.add(daily.query(DAILY), by_day);
}

/// Metrics from hourly sums.
const PER_MODEL: [(Aggregation, &str); 5] = [
    (Aggregation::Count, "count"),
    (Aggregation::Sum, "inputTokens"),
    (Aggregation::Sum, "outputTokens"),
    (Aggregation::Sum, "totalTokens"),
    (Aggregation::Sum, "totalCost"),
];
/// Metrics that require a scan of rows.
const TRACES_OF_MODEL: [(Aggregation, &str); 1] = [(Aggregation::Uniq, "traceId")];

fn filter(params: &Params, view: MetricView) -> Result<Filter, Problem> {
    let (columns, name) = match view {
        MetricView::Traces => (TRACES, "name"),
        _ => (OBSERVATIONS, "traceName"),
    };
    // This endpoint ignores `filter`.
    let mut conditions = Conditions::new(&Params::default(), columns)?;
    conditions.equals(name, params.text("traceName"));
    conditions.equals("userId", params.text("userId"));
    conditions.has_all("tags", &params.all("tags"));
    conditions.any_of("environment", &params.all("environment"));
    conditions.finish()
}

/// The range of a request without bounds.
const EVER: (i64, i64) = (0, 4_102_444_800_000);

fn metric_query(
    params: &Params,
    view: MetricView,
    dimension: &[&str],
    metrics: &[(Aggregation, &str)],
) -> Result<MetricQuery, Problem> {
    let metric = |(aggregation, name): &(Aggregation, &str)| {
        let measure = view.measure(name)?;
        Some(Metric { measure, aggregation: *aggregation })
    };
    let (from, to) = EVER;
    Ok(MetricQuery {
        view,
        with_booleans: false,
        dimensions: dimension.iter().filter_map(|name| view.dimension(name)).collect(),
        metrics: metrics.iter().filter_map(metric).collect(),
        filter: filter(params, view)?,
        from: params.time("fromTimestamp")?.unwrap_or(Timestamp::from_millis(from)),
        to: params.time("toTimestamp")?.unwrap_or(Timestamp::from_millis(to)),
        granularity: Some(Granularity::Day),
        top: None,
    })
}

/// Results of a group in the order of the metrics.
fn results(query: &MetricQuery, group: &MetricGroup) -> Vec<Value> {
    let values = group.values.iter().zip(&query.metrics);
    values.map(|(value, metric)| value.result(metric, 1)).collect()
}

#[derive(Default)]
struct Day {
    n_traces: Value,
    n_observations: u64,
    total_cost: f64,
    usage: Vec<Value>,
}

async fn by_day(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Json<Value>, Problem> {
    let paging = page::paging(&params)?;
    let count = [(Aggregation::Count, "count")];
    let traces = metric_query(&params, MetricView::Traces, &[], &count)?;
    let models =
        metric_query(&params, MetricView::Observations, &["providedModelName"], &PER_MODEL)?;
    let mut days: BTreeMap<Timestamp, Day> = BTreeMap::new();
    let found = app.store.telemetry.metrics(&caller.project, &traces).await;
    for group in found.map_err(metrics_problem)? {
        let Some(at) = group.at else { continue };
        days.entry(at).or_default().n_traces = results(&traces, &group)[0].clone();
    }
    let found = app.store.telemetry.metrics(&caller.project, &models).await;
    for group in found.map_err(metrics_problem)? {
        let Some(at) = group.at else { continue };
        let day = days.entry(at).or_default();
        let values = results(&models, &group);
        day.n_observations += values[0].as_u64().unwrap_or(0);
        day.total_cost += values[4].as_f64().unwrap_or(0.0);
        day.usage.push(json!({
            "model": group.dimensions.first(),
            "inputUsage": values[1],
            "outputUsage": values[2],
            "totalUsage": values[3],
            "totalCost": values[4],
            "countObservations": values[0],
            "countTraces": 0,
        }));
    }
    let n_total = days.len() as u64;
    let offset = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let page = days.into_iter().rev().skip(offset).take(paging.limit as usize);
    let mut page: Vec<(Timestamp, Day)> = page.collect();
    add_traces(&app, &caller, &params, &mut page).await?;
    let data: Vec<Value> = page
        .into_iter()
        .map(|(at, day)| {
            let n_traces = if day.n_traces.is_null() { json!(0) } else { day.n_traces };
            json!({
                "date": at.to_string().chars().take(10).collect::<String>(),
                "countTraces": n_traces,
                "countObservations": day.n_observations,
                "totalCost": day.total_cost,
                "usage": day.usage,
            })
        })
        .collect();
    let meta = PageMeta::new(paging, n_total);
    Ok(Json(json!({ "data": data, "meta": meta })))
}

/// Adds the number of traces of each model to the days of a page.
async fn add_traces(
    app: &App,
    caller: &Act,
    params: &Params,
    page: &mut [(Timestamp, Day)],
) -> Result<(), Problem> {
    let (Some((newest, _)), Some((oldest, _))) = (page.first(), page.last()) else {
        return Ok(());
    };
    let mut traces =
        metric_query(params, MetricView::Observations, &["providedModelName"], &TRACES_OF_MODEL)?;
    traces.from = traces.from.max(*oldest);
    traces.to = traces.to.min(Granularity::Day.next(*newest));
    let found = app.store.telemetry.metrics(&caller.project, &traces).await;
    for group in found.map_err(metrics_problem)? {
        let day = page.iter_mut().find(|(at, _)| Some(*at) == group.at);
        let Some((_, day)) = day else { continue };
        let model = json!(group.dimensions.first());
        let used = day.usage.iter_mut().find(|used| used["model"] == model);
        if let Some(used) = used {
            used["countTraces"] = results(&traces, &group).swap_remove(0);
        }
    }
    Ok(())
}
