//! Metrics: one question over many rows, v2 and the older v1, and sums by day.

mod daily;
pub(super) mod names;
mod query;
mod shared;

use axum::Json;
use axum::extract::State;
use perpend_domain::access::Permission::MetricRead;
use perpend_domain::metrics::MetricGroup;
use perpend_domain::time::Timestamp;
use perpend_http_kit::auth::Act;
use perpend_http_kit::extract::{Param, Params, param};
use perpend_http_kit::problem::Problem;
use perpend_http_kit::routes::Operation;
use serde_json::{Map, Value, json};

use crate::records::metrics::shared::TIME;
use crate::records::metrics::shared::refused;
use crate::records::state::{App, Routes};
use query::{Asked, Version};

const QUERY: &[Param] = &[param(
    "query",
    "string",
    "JSON object: view, dimensions, metrics, filters, timeDimension, fromTimestamp, toTimestamp, orderBy, config.",
)
.required()];

/// Rows of one answer, those that fill gaps included.
const MAX_ROWS: usize = 10_000;

pub(super) fn routes(routes: &mut Routes) {
    let v2 = Operation::get(
        "queryMetrics",
        "/api/public/v2/metrics",
        "Answer a question over many rows",
        MetricRead,
    );
    routes.add(v2.query(QUERY), |app, caller, params| metrics(app, caller, params, Version::V2));
    let v1 = Operation::get(
        "queryMetricsV1",
        "/api/public/metrics",
        "The same, with a view of traces",
        MetricRead,
    );
    routes.add(v1.query(QUERY), |app, caller, params| metrics(app, caller, params, Version::V1));
    daily::routes(routes);
}

async fn metrics(
    State(app): State<App>,
    caller: Act,
    params: Params,
    version: Version,
) -> Result<Json<Value>, Problem> {
    let asked = Asked::read(&params, version)?;
    let groups = app.store.telemetry.metrics(&caller.project, &asked.question).await;
    let groups = groups.map_err(refused)?;
    let mut rows: Vec<Value> = groups.iter().map(|group| row(&asked, group)).collect();
    if asked.order.is_empty() && asked.question.granularity.is_some() {
        fill(&asked, &mut rows)?;
    }
    sort(&asked, &mut rows);
    rows.truncate(asked.limit.unwrap_or(MAX_ROWS).min(MAX_ROWS));
    Ok(Json(json!({ "data": rows })))
}

fn row(asked: &Asked, group: &MetricGroup) -> Value {
    let mut row = Map::new();
    if let Some(at) = group.at {
        row.insert(TIME.to_owned(), json!(at));
    }
    let dimensions = asked.question.dimensions.iter();
    for (dimension, value) in dimensions.zip(&group.dimensions) {
        row.insert(dimension.name.to_owned(), json!(value));
    }
    for (metric, value) in asked.question.metrics.iter().zip(&group.values) {
        row.insert(metric.key(), value.result(metric, asked.bins));
    }
    Value::Object(row)
}

/// Adds a row of zeros for each bucket without one.
fn fill(asked: &Asked, rows: &mut Vec<Value>) -> Result<(), Problem> {
    let Some(granularity) = asked.question.granularity else {
        return Ok(());
    };
    let known: std::collections::HashSet<String> =
        rows.iter().filter_map(|row| row[TIME].as_str().map(str::to_owned)).collect();
    let mut at = granularity.start(asked.question.from);
    let mut n_buckets = 0;
    while at < asked.question.to {
        n_buckets += 1;
        if n_buckets > MAX_ROWS {
            let message = format!("the range has more than {MAX_ROWS} buckets of a {granularity}");
            return Err(Problem::query("query", message));
        }
        if !known.contains(&at.to_string()) {
            rows.push(empty(asked, at));
        }
        at = granularity.next(at);
    }
    Ok(())
}

fn empty(asked: &Asked, at: Timestamp) -> Value {
    let mut row = Map::from_iter([(TIME.to_owned(), json!(at))]);
    for dimension in &asked.question.dimensions {
        row.insert(dimension.name.to_owned(), Value::Null);
    }
    for metric in &asked.question.metrics {
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

/// By what was asked for; else by time, or the first metric with the largest first. Equal rows stand in
/// the order of their dimensions, which the store gives.
fn sort(asked: &Asked, rows: &mut [Value]) {
    let mut order = asked.order.clone();
    if order.is_empty() {
        match (asked.question.granularity, asked.question.metrics.first()) {
            (Some(_), _) => order.push((TIME.to_owned(), false)),
            (None, Some(metric)) => order.push((metric.key(), true)),
            (None, None) => {}
        }
    }
    rows.sort_by(|a, b| {
        let by = |(field, descending): &(String, bool)| {
            let (a, b) = (&a[field.as_str()], &b[field.as_str()]);
            // What has no value stands last, whichever way the others run.
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
