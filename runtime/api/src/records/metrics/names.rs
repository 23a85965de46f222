//! Names that clients send, looked up in the tables of the views: for queries and for widgets alike.

use perpend_domain::metrics::{Aggregation, Dimension, Metric, MetricView};
use perpend_http_kit::problem::Problem;

/// Says what is wrong with a field.
pub(crate) type Refuse = fn(&str, String) -> Problem;

/// All names of a table.
pub(crate) fn list<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> String {
    let names: Vec<&str> = all.iter().map(|one| name(*one)).collect();
    names.join(", ")
}

/// One of `allowed`.
pub(crate) fn view(
    raw: &str,
    allowed: &[MetricView],
    refuse: Refuse,
) -> Result<MetricView, Problem> {
    let found = allowed.iter().find(|view| view.as_str() == raw);
    found.copied().ok_or_else(|| {
        let message = format!("{raw:?} is none of {}", list(allowed, MetricView::as_str));
        refuse("view", message)
    })
}

/// Dimensions of a view, each once.
pub(crate) fn dimensions<'a>(
    view: MetricView,
    fields: impl Iterator<Item = &'a str>,
    refuse: Refuse,
) -> Result<Vec<Dimension>, Problem> {
    let mut found: Vec<Dimension> = Vec::new();
    for (at, field) in fields.enumerate() {
        let Some(dimension) = view.dimension(field) else {
            let all = list(view.dimensions(), |one: Dimension| one.name);
            let message = format!("{field:?} is none of {all}");
            return Err(refuse(&format!("dimensions[{at}].field"), message));
        };
        if !found.contains(&dimension) {
            found.push(dimension);
        }
    }
    Ok(found)
}

/// Metrics of a view, each once: pairs of measure and aggregation, the latter in a field of this name.
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
            let message = format!("{measure:?} is none of {}", all.join(", "));
            return Err(refuse("measure", message));
        };
        let mut all = Aggregation::ALL.iter().copied();
        let Some(aggregation) = all.find(|one| one.as_str() == aggregation) else {
            let all = list(Aggregation::ALL, Aggregation::as_str);
            let message = format!("{aggregation:?} is none of {all}");
            return Err(refuse(aggregation_field, message));
        };
        let counts = matches!(aggregation, Aggregation::Count | Aggregation::Uniq);
        if !measure.is_number && !counts {
            let message = format!("{} has no numbers: count and uniq are possible", measure.name);
            return Err(refuse(aggregation_field, message));
        }
        for (by_type, needed) in [("costByType", "costType"), ("usageByType", "usageType")] {
            if measure.name == by_type && dimensions.iter().all(|one| one.name != needed) {
                return Err(refuse("measure", format!("needs the dimension {needed}")));
            }
        }
        let metric = Metric { measure, aggregation };
        if !found.contains(&metric) {
            found.push(metric);
        }
    }
    if found.is_empty() {
        return Err(refuse("metrics", "at least one is expected".to_owned()));
    }
    Ok(found)
}
