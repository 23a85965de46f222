//! `GET /api/public/metrics/daily`: sums by day, newest first.

use std::collections::BTreeMap;

use axum::extract::State;
use perpend_api_types::list::{NumberedList, PageMeta};
use perpend_domain::access::Permission::MetricRead;
use perpend_domain::filter::{Filter, OBSERVATIONS, TRACES};
use perpend_domain::metrics::{
    Aggregation, Granularity, Metric, MetricGroup, MetricQuery, MetricView,
};
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::page;
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

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
    usage: Vec<DailyUsage>,
}

/// Metrics of a day.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DailyMetrics {
    /// `YYYY-MM-DD` in UTC.
    #[schema(format = Date)]
    date: String,
    #[schema(value_type = u64)]
    count_traces: Value,
    count_observations: u64,
    /// US dollars.
    total_cost: f64,
    usage: Vec<DailyUsage>,
}

/// Metrics of a model on a day.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DailyUsage {
    /// Null for observations without a model.
    model: Option<String>,
    #[schema(value_type = f64)]
    input_usage: Value,
    #[schema(value_type = f64)]
    output_usage: Value,
    #[schema(value_type = f64)]
    total_usage: Value,
    /// US dollars.
    #[schema(value_type = f64)]
    total_cost: Value,
    #[schema(value_type = u64)]
    count_observations: Value,
    #[schema(value_type = u64)]
    count_traces: Value,
}

async fn by_day(
    State(app): State<App>,
    caller: Act,
    params: Params,
) -> Result<Answer<NumberedList<DailyMetrics>>, Problem> {
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
        let mut values = results(&models, &group).into_iter();
        let mut next = || values.next().unwrap_or_default();
        let (n_observations, input, output, total, cost) = (next(), next(), next(), next(), next());
        day.n_observations += n_observations.as_u64().unwrap_or(0);
        day.total_cost += cost.as_f64().unwrap_or(0.0);
        day.usage.push(DailyUsage {
            model: group.dimensions.first().cloned().flatten(),
            input_usage: input,
            output_usage: output,
            total_usage: total,
            total_cost: cost,
            count_observations: n_observations,
            count_traces: json!(0),
        });
    }
    let n_total = days.len() as u64;
    let offset = usize::try_from(paging.offset()).unwrap_or(usize::MAX);
    let page = days.into_iter().rev().skip(offset).take(paging.limit as usize);
    let mut page: Vec<(Timestamp, Day)> = page.collect();
    add_traces(&app, &caller, &params, &mut page).await?;
    let view = |(at, day): (Timestamp, Day)| DailyMetrics {
        date: at.to_string().chars().take(10).collect(),
        count_traces: if day.n_traces.is_null() { json!(0) } else { day.n_traces },
        count_observations: day.n_observations,
        total_cost: day.total_cost,
        usage: day.usage,
    };
    let meta = PageMeta::new(paging, n_total);
    Ok(Answer(NumberedList { data: page.into_iter().map(view).collect(), meta }))
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
        let model = group.dimensions.first().cloned().flatten();
        let used = day.usage.iter_mut().find(|used| used.model == model);
        if let Some(used) = used {
            used.count_traces = results(&traces, &group).swap_remove(0);
        }
    }
    Ok(())
}
