//! Look-up of views, dimensions and metrics by name, for queries and widgets.

use perpend_domain::metrics::{Aggregation, Dimension, Metric, MetricView};
use perpend_http_kit::extract::must_be_one_of;
use perpend_http_kit::problem::Problem;

/// Makes the problem of a field.
pub(crate) type Refuse = fn(&str, String) -> Problem;

/// All names of a table.
pub(crate) fn list<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().map(|one| name(*one)).collect()
}

/// A view, one of `allowed`.
pub(crate) fn view(
    raw: &str,
    allowed: &[MetricView],
    refuse: Refuse,
) -> Result<MetricView, Problem> {
    let found = allowed.iter().find(|view| view.as_str() == raw);
    found.copied().ok_or_else(|| {
        let message = must_be_one_of(&list(allowed, MetricView::as_str), raw);
        refuse("view", message)
    })
}

/// Distinct dimensions of a view.
pub(crate) fn dimensions<'a>(
    view: MetricView,
    fields: impl Iterator<Item = &'a str>,
    refuse: Refuse,
) -> Result<Vec<Dimension>, Problem> {
    let mut found: Vec<Dimension> = Vec::new();
    for (at, field) in fields.enumerate() {
        let Some(dimension) = view.dimension(field) else {
            let all = list(view.dimensions(), |one: Dimension| one.name);
            let message = must_be_one_of(&all, field);
            return Err(refuse(&format!("dimensions[{at}].field"), message));
        };
        if !found.contains(&dimension) {
            found.push(dimension);
        }
    }
    Ok(found)
}

/// Distinct metrics of a view: pairs of measure and aggregation. `aggregation_field` is the name of the latter field.
pub(crate) fn metrics<'a>(
    view: MetricView,
    dimensions: &[Dimension],
    inputs: impl Iterator<Item = (&'a str, &'a str)>,
    aggregation_field: &str,
    refuse: Refuse,
) -> Result<Vec<Metric>, Problem> {
    let mut found: Vec<Metric> = Vec::new();
    for (at, (measure, aggregation)) in inputs.enumerate() {
        let refuse = |name: &str, message| refuse(&format!("metrics[{at}].{name}"), message);
        let Some(measure) = view.measure(measure) else {
            let all: Vec<&str> = view.measures().iter().map(|one| one.name).collect();
            let message = must_be_one_of(&all, measure);
            return Err(refuse("measure", message));
        };
        let mut all = Aggregation::ALL.iter().copied();
        let Some(aggregation) = all.find(|one| one.as_str() == aggregation) else {
            let all = list(Aggregation::ALL, Aggregation::as_str);
            let message = must_be_one_of(&all, aggregation);
            return Err(refuse(aggregation_field, message));
        };
        let counts = matches!(aggregation, Aggregation::Count | Aggregation::Uniq);
        if !measure.is_number && !counts {
            let message = format!("must be `count` or `uniq` for the measure {}", measure.name);
            return Err(refuse(aggregation_field, message));
        }
        for (by_type, dimension) in [("costByType", "costType"), ("usageByType", "usageType")] {
            if measure.name == by_type && dimensions.iter().all(|one| one.name != dimension) {
                return Err(refuse("measure", format!("requires the dimension `{dimension}`")));
            }
        }
        let metric = Metric { measure, aggregation };
        if !found.contains(&metric) {
            found.push(metric);
        }
    }
    if found.is_empty() {
        return Err(refuse("metrics", "must contain at least one metric".to_owned()));
    }
    Ok(found)
}
