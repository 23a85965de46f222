//! Items over the runs, largest regression first.

use crate::columns::Metric;
use crate::comparison::{ItemComparison, ItemRun, MetricKind};
use crate::context::Context;
use crate::matching::ItemMatch;

/// All items of the compared runs.
pub(crate) fn items(context: &Context<'_>, metrics: &[Metric]) -> Vec<ItemComparison> {
    let ranges: Vec<f64> = metrics.iter().map(|metric| range(metric, context)).collect();
    let numbers = 0..context.grid.items.len();
    let mut items: Vec<ItemComparison> =
        numbers.map(|number| item(context, metrics, &ranges, number)).collect();
    items.sort_by(|left, right| {
        left.change.total_cmp(&right.change).then_with(|| left.item_id.cmp(&right.item_id))
    });
    items
}

/// The range of the values of a metric: 1 if they are within 0 and 1.
fn range(metric: &Metric, context: &Context<'_>) -> f64 {
    if metric.is_unit {
        return 1.0;
    }
    let columns = &metric.columns[..context.grid.n_compared];
    let values = || columns.iter().flat_map(|column| column.values.iter().flatten().copied());
    let largest = values().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values().fold(f64::INFINITY, f64::min);
    let range = largest - smallest;
    if range.is_finite() && 0.0 < range { range } else { 1.0 }
}

fn item(
    context: &Context<'_>,
    metrics: &[Metric],
    ranges: &[f64],
    number: usize,
) -> ItemComparison {
    let mut item = ItemComparison {
        item_id: context.grid.items[number].to_owned(),
        change: 0.0,
        is_regressed: false,
        is_improved: false,
        is_changed: false,
        has_error: false,
        is_missing: false,
        disagrees: false,
        is_excluded: false,
        runs: Vec::with_capacity(context.runs().len()),
    };
    let mut changes: Vec<f64> = Vec::new();
    for run in 0..context.runs().len() {
        item.runs.push(item_run(context, metrics, run, number));
        let state = context.matchings[run].items[number];
        item.is_missing |= context.runs()[run].by_item[number].is_empty();
        item.is_excluded |= state == ItemMatch::Changed;
        if run != context.base && state == ItemMatch::Matched {
            let change = Change::between(context, metrics, ranges, (run, number));
            item.is_regressed |= change.is_worse;
            item.is_improved |= change.is_better;
            item.is_changed |= change.is_changed;
            item.disagrees |= change.is_worse && change.is_better;
            changes.push(change.sum);
        }
    }
    item.has_error = item.runs.iter().flatten().any(|run| 0 < run.n_errors);
    item.change = changes.into_iter().reduce(f64::min).unwrap_or(0.0);
    item
}

fn item_run(
    context: &Context<'_>,
    metrics: &[Metric],
    run: usize,
    number: usize,
) -> Option<ItemRun> {
    let results = &context.runs()[run].by_item[number];
    let first = results.first()?;
    let columns = || metrics.iter().map(|metric| &metric.columns[run]);
    Some(ItemRun {
        trace_id: first.trace_id.clone(),
        observation_id: first.observation_id.clone(),
        n_results: results.len() as u64,
        n_errors: results.iter().filter(|result| result.is_error).count() as u64,
        values: columns().map(|column| column.values[number]).collect(),
        labels: columns().map(|column| column.labels[number].clone()).collect(),
    })
}

/// The change of an item between the baseline and a run.
#[derive(Default)]
struct Change {
    sum: f64,
    is_worse: bool,
    is_better: bool,
    is_changed: bool,
}

impl Change {
    /// `at` is the run and the item. Latency, cost and tokens differ always and are not part of the change.
    fn between(
        context: &Context<'_>,
        metrics: &[Metric],
        ranges: &[f64],
        at: (usize, usize),
    ) -> Self {
        let (run, number) = at;
        let mut change = Self::default();
        for (metric, range) in metrics.iter().zip(ranges) {
            if !matches!(metric.kind, MetricKind::Score | MetricKind::Errors) {
                continue;
            }
            let (before, after) = (&metric.columns[context.base], &metric.columns[run]);
            change.is_changed |= before.labels[number] != after.labels[number];
            let (Some(left), Some(right)) = (before.values[number], after.values[number]) else {
                continue;
            };
            let difference = (right - left) / range;
            if difference.abs() <= 1e-9 || metric.obstacle.is_some() {
                continue;
            }
            change.is_changed = true;
            if let Some(sign) = metric.sign() {
                change.sum += sign * difference;
                change.is_worse |= sign * difference < 0.0;
                change.is_better |= 0.0 < sign * difference;
            }
        }
        change
    }
}
