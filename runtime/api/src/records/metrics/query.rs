//! Validation of the parameter `query`.

use perpend_domain::filter::Filter;
use perpend_domain::metrics::{Dimension, Granularity, Metric, MetricQuery, MetricView, TopGroups};
use perpend_domain::time::Timestamp;
use perpend_http_kit::extract::{MISSING, Params, from_json, must_be_one_of};
use perpend_http_kit::filters::filter_problem;
use perpend_http_kit::problem::Problem;
use serde::Deserialize;
use serde_json::Value;

use super::names;
use super::time::{TIME, auto_granularity};

/// Version of the endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryInput {
    view: String,
    dimensions: Option<Vec<DimensionInput>>,
    metrics: Vec<MetricInput>,
    filters: Option<Vec<Value>>,
    time_dimension: Option<TimeInput>,
    from_timestamp: String,
    to_timestamp: String,
    order_by: Option<Vec<OrderInput>>,
    config: Option<ConfigInput>,
}

#[derive(Debug, Deserialize)]
struct DimensionInput {
    field: String,
}

#[derive(Debug, Deserialize)]
struct MetricInput {
    measure: String,
    aggregation: String,
}

#[derive(Debug, Deserialize)]
struct TimeInput {
    granularity: String,
}

#[derive(Debug, Deserialize)]
struct OrderInput {
    field: String,
    direction: String,
}

#[derive(Debug, Default, Deserialize)]
struct ConfigInput {
    bins: Option<u32>,
    row_limit: Option<u32>,
}

/// A validated query with the options of its response.
#[derive(Debug)]
pub(super) struct MetricParams {
    pub(super) query: MetricQuery,
    /// Keys to sort by; true for descending.
    pub(super) order: Vec<(String, bool)>,
    /// Bins of histograms.
    pub(super) bins: usize,
    /// Most rows.
    pub(super) limit: Option<usize>,
}

/// Default limit of rows of v2 without time buckets.
const DEFAULT_ROWS: usize = 100;

fn invalid(field: &str, message: impl Into<String>) -> Problem {
    let field = match field.is_empty() {
        true => "query".to_owned(),
        false => format!("query.{field}"),
    };
    Problem::query(&field, message)
}

impl QueryInput {
    fn view(&self, version: Version) -> Result<MetricView, Problem> {
        let all = MetricView::ALL.iter().copied();
        let allowed: Vec<MetricView> =
            all.filter(|view| version == Version::V1 || *view != MetricView::Traces).collect();
        names::view(&self.view, &allowed, invalid)
    }

    fn dimensions(&self, view: MetricView) -> Result<Vec<Dimension>, Problem> {
        let fields = self.dimensions.iter().flatten();
        names::dimensions(view, fields.map(|one| one.field.as_str()), invalid)
    }

    fn metrics(&self, view: MetricView, dimensions: &[Dimension]) -> Result<Vec<Metric>, Problem> {
        let inputs = self.metrics.iter();
        let inputs = inputs.map(|one| (one.measure.as_str(), one.aggregation.as_str()));
        names::metrics(view, dimensions, inputs, "aggregation", invalid)
    }

    fn time(&self, field: &str, text: &str) -> Result<Timestamp, Problem> {
        Timestamp::parse(text).map_err(|error| invalid(field, error.to_string()))
    }

    fn granularity(&self, from: Timestamp, to: Timestamp) -> Result<Option<Granularity>, Problem> {
        let Some(TimeInput { granularity }) = &self.time_dimension else {
            return Ok(None);
        };
        if granularity == "auto" {
            return Ok(Some(auto_granularity(from, to)));
        }
        let found = Granularity::ALL.iter().find(|one| one.as_str() == granularity);
        found.copied().map(Some).ok_or_else(|| {
            let mut all = vec!["auto"];
            all.extend(names::list(Granularity::ALL, Granularity::as_str));
            invalid("timeDimension.granularity", must_be_one_of(&all, granularity))
        })
    }

    fn order(&self, query: &MetricQuery) -> Result<Vec<(String, bool)>, Problem> {
        let mut order = Vec::new();
        for (at, input) in self.order_by.iter().flatten().enumerate() {
            let is_key = query.metrics.iter().any(|metric| metric.key() == input.field);
            let is_dimension = query.dimensions.iter().any(|one| one.name == input.field);
            let is_time = input.field == TIME && query.granularity.is_some();
            if !(is_key || is_dimension || is_time) {
                let message =
                    "must be a dimension, the time bucket or {aggregation}_{measure} of this query";
                return Err(invalid(&format!("orderBy[{at}].field"), message));
            }
            let descending = match input.direction.as_str() {
                "asc" => false,
                "desc" => true,
                other => {
                    let field = format!("orderBy[{at}].direction");
                    return Err(invalid(&field, must_be_one_of(&["asc", "desc"], other)));
                }
            };
            order.push((input.field.clone(), descending));
        }
        Ok(order)
    }
}

impl MetricParams {
    pub(super) fn read(params: &Params, version: Version) -> Result<Self, Problem> {
        let text = params.text("query").ok_or_else(|| invalid("", MISSING))?;
        let input: QueryInput = from_json(text.as_bytes())
            .map_err(|problem| invalid("", problem.message().to_owned()))?;
        let view = input.view(version)?;
        let dimensions = input.dimensions(view)?;
        let metrics = input.metrics(view, &dimensions)?;
        let from = input.time("fromTimestamp", &input.from_timestamp)?;
        let to = input.time("toTimestamp", &input.to_timestamp)?;
        if from >= to {
            return Err(invalid("toTimestamp", "must be after fromTimestamp"));
        }
        let conditions = input.filters.clone().unwrap_or_default();
        let filter = Filter::parse(&conditions, view.columns()).map_err(filter_problem)?;
        let mut query = MetricQuery {
            view,
            with_booleans: version == Version::V2,
            granularity: input.granularity(from, to)?,
            dimensions,
            metrics,
            filter,
            from,
            to,
            top: None,
        };
        let order = input.order(&query)?;
        let config = input.config.unwrap_or_default();
        let within = |field: &str, value: Option<u32>, max: u32| match value {
            Some(value) if !(1..=max).contains(&value) => {
                Err(invalid(field, format!("must be from 1 to {max}, got {value}")))
            }
            value => Ok(value.map(|value| value as usize)),
        };
        let bins = within("config.bins", config.bins, 100)?.unwrap_or(10);
        let row_limit = within("config.row_limit", config.row_limit, 1_000)?;
        if version == Version::V2 {
            check_wide(&query, &order, row_limit.is_some())?;
        }
        let limit = match (row_limit, query.granularity, version) {
            (None, None, Version::V2) => Some(DEFAULT_ROWS),
            (limit, _, _) => limit,
        };
        query.top = top(&query, &order, limit);
        Ok(Self { query, order, bins, limit })
    }
}

/// The largest groups, which are sufficient for a response that is ordered by one metric.
fn top(query: &MetricQuery, order: &[(String, bool)], limit: Option<usize>) -> Option<TopGroups> {
    let metric = match order {
        [] => 0,
        [(field, true)] => query.metrics.iter().position(|one| one.key() == *field)?,
        _ => return None,
    };
    limit.map(|n| TopGroups { metric, n })
}

/// Refuses dimensions with about as many values as rows, except for the top rows by a metric.
fn check_wide(
    query: &MetricQuery,
    order: &[(String, bool)],
    has_limit: bool,
) -> Result<(), Problem> {
    let Some(wide) = query.dimensions.iter().find(|one| one.is_wide) else {
        return Ok(());
    };
    let is_by_metric = order.first().is_some_and(|(field, descending)| {
        *descending && query.metrics.iter().any(|metric| metric.key() == *field)
    });
    if has_limit && is_by_metric && query.granularity.is_none() {
        return Ok(());
    }
    let message = format!(
        "{} has about as many values as rows: it requires config.row_limit, orderBy on a metric \
         with desc, and no timeDimension",
        wide.name
    );
    Err(invalid("dimensions", message))
}
