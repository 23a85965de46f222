//! Metrics: aggregations (v2 and v1), and sums by day.

mod daily;
pub(super) mod names;
mod query;
mod time;

use axum::extract::State;
use perpend_api_types::any_json::AnyJson;
use perpend_domain::access::Permission::MetricRead;
use perpend_domain::metrics::MetricGroup;
use perpend_domain::time::Timestamp;
use perpend_http_kit::answer::Answer;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::records::metrics::time::TIME;
use crate::records::metrics::time::metrics_problem;
use crate::records::state::{App, Routes};
use query::{MetricParams, Version};

const QUERY: &[Param] = &[param(
    "query",
    "string",
    "JSON object: view, dimensions, metrics, filters, timeDimension, fromTimestamp, toTimestamp, orderBy, config.",
)
.required()];

/// Rows of one response, including those for empty buckets.
const MAX_ROWS: usize = 10_000;

pub(super) fn routes(routes: &mut Routes) {
    let v2 = Operation::get("queryMetrics", "/api/public/v2/metrics", "Query metrics", MetricRead);
    routes.add(v2.query(QUERY), |app, caller, params| metrics(app, caller, params, Version::V2));
    let v1 = Operation::get(
        "queryMetricsV1",
        "/api/public/metrics",
        "Query metrics, with a view of traces (v1)",
        MetricRead,
    );
    routes.add(v1.query(QUERY), |app, caller, params| metrics(app, caller, params, Version::V1));
    daily::routes(routes);
}

/// Rows of a metric query. Each has a member per dimension and metric of the query, and
/// `time_dimension` if requested.
#[derive(Debug, Serialize, ToSchema)]
struct MetricRows {
    #[schema(value_type = Vec<BTreeMap<String, AnyJson>>)]
    data: Vec<Value>,
}

async fn metrics(
    State(app): State<App>,
    caller: Act,
    params: Params,
    version: Version,
) -> Result<Answer<MetricRows>, Problem> {
    let request = MetricParams::read(&params, version)?;
    let groups = app.store.telemetry.metrics(&caller.project, &request.query).await;
    let groups = groups.map_err(metrics_problem)?;
    let mut rows: Vec<Value> = groups.iter().map(|group| row(&request, group)).collect();
    if request.order.is_empty() && request.query.granularity.is_some() {
        fill(&request, &mut rows)?;
    }
    sort(&request, &mut rows);
    rows.truncate(request.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS));
    Ok(Answer(MetricRows { data: rows }))
}

fn row(request: &MetricParams, group: &MetricGroup) -> Value {
    let mut row = Map::new();
    if let Some(at) = group.at {
        row.insert(TIME.to_owned(), json!(at));
    }
    let dimensions = request.query.dimensions.iter();
    for (dimension, value) in dimensions.zip(&group.dimensions) {
        row.insert(dimension.name.to_owned(), json!(value));
    }
    for (metric, value) in request.query.metrics.iter().zip(&group.values) {
        row.insert(metric.key(), value.result(metric, request.bins));
    }
    Value::Object(row)
}

/// Adds a row of zeros for each bucket without one.
fn fill(request: &MetricParams, rows: &mut Vec<Value>) -> Result<(), Problem> {
    let Some(granularity) = request.query.granularity else {
        return Ok(());
    };
    let known: std::collections::HashSet<String> =
        rows.iter().filter_map(|row| row[TIME].as_str().map(str::to_owned)).collect();
    let mut at = granularity.start(request.query.from);
    let mut n_buckets = 0;
    while at < request.query.to {
        n_buckets += 1;
        if n_buckets > MAX_ROWS {
            let message =
                format!("the time range must have at most {MAX_ROWS} buckets of a {granularity}");
            return Err(Problem::query("query", message));
        }
        if !known.contains(&at.to_string()) {
            rows.push(empty(request, at));
        }
        at = granularity.next(at);
    }
    Ok(())
}

fn empty(request: &MetricParams, at: Timestamp) -> Value {
    let mut row = Map::from_iter([(TIME.to_owned(), json!(at))]);
    for dimension in &request.query.dimensions {
        row.insert(dimension.name.to_owned(), Value::Null);
    }
    for metric in &request.query.metrics {
        row.insert(metric.key(), json!(0));
    }
    Value::Object(row)
}

fn compare(a: &Value, b: &Value) -> std::cmp::Ordering {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.as_str().unwrap_or_default().cmp(b.as_str().unwrap_or_default()),
    }
}

/// Sorts by `orderBy`, otherwise by time, or by the first metric in descending order. Equal rows keep
/// the order of the store, by dimensions.
fn sort(request: &MetricParams, rows: &mut [Value]) {
    let mut order = request.order.clone();
    if order.is_empty() {
        match (request.query.granularity, request.query.metrics.first()) {
            (Some(_), _) => order.push((TIME.to_owned(), false)),
            (None, Some(metric)) => order.push((metric.key(), true)),
            (None, None) => {}
        }
    }
    rows.sort_by(|a, b| {
        let by = |(field, descending): &(String, bool)| {
            let (a, b) = (&a[field.as_str()], &b[field.as_str()]);
            // Null comes last in both directions.
            let ordering = a.is_null().cmp(&b.is_null());
            ordering.then_with(|| match descending {
                true => compare(b, a),
                false => compare(a, b),
            })
        };
        let orderings = order.iter().map(by);
        orderings.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
}
