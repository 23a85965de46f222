//! The report of a comparison as Markdown, in the form of a gate's report.

use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::comparison::{Comparison, ItemComparison, MetricComparison, Verdict};
use perpend_experiments::gate::{GateOutcome, GateReport};
use perpend_experiments::report::{Links, gate_markdown};

/// Items of each report.
const MAX_ITEMS: usize = 10;

/// The reports of all runs but the baseline.
pub(super) fn comparison_markdown(comparison: &Comparison, links: &Links) -> String {
    let base = comparison.runs.iter().position(|run| run.is_base).unwrap_or_default();
    let others = (0..comparison.runs.len()).filter(|at| *at != base);
    let reports = others.map(|at| gate_markdown(&report(comparison, [base, at]), Some(links)));
    reports.collect::<Vec<_>>().join("\n")
}

/// The comparison of two of the runs as the report of a gate without requirements: a metric that became worse fails.
fn report(comparison: &Comparison, places: [usize; 2]) -> GateReport {
    let [base, at] = places;
    let metrics: Vec<MetricComparison> = comparison
        .metrics
        .iter()
        .filter(|metric| metric.runs.iter().any(|run| 0 < run.summary.n))
        .map(|metric| MetricComparison { runs: pair(&metric.runs, places), ..metric.clone() })
        .collect();
    let has = |verdict: Verdict| {
        let differences = metrics.iter().flat_map(|metric| &metric.runs);
        differences.filter_map(|run| run.difference.as_ref()).any(|one| one.verdict == verdict)
    };
    let outcome = if has(Verdict::Worse) {
        GateOutcome::Failed
    } else if has(Verdict::Inconclusive) || has(Verdict::NotComparable) {
        GateOutcome::Undecided
    } else {
        GateOutcome::Passed
    };
    let worst = comparison.items.iter().filter(|item| is_worse(comparison, item, places));
    let worst = worst.take(MAX_ITEMS).map(|item| {
        // The values are in the order of all metrics, the report in that of the metrics with values.
        let mut item = ItemComparison { runs: pair(&item.runs, places), ..item.clone() };
        for run in item.runs.iter_mut().flatten() {
            run.values = entries_with_values(comparison, &run.values);
            run.labels = entries_with_values(comparison, &run.labels);
        }
        item
    });
    GateReport {
        outcome,
        run: comparison.runs[at].clone(),
        baseline: Some(comparison.runs[base].clone()),
        checks: Vec::new(),
        failures: Vec::new(),
        worst_items: worst.collect(),
        warnings: comparison.warnings.iter().map(|warning| warning.message.clone()).collect(),
        metrics,
        items: Vec::new(),
    }
}

fn pair<T: Clone>(all: &[T], places: [usize; 2]) -> Vec<T> {
    places.iter().filter_map(|at| all.get(*at).cloned()).collect()
}

/// The entries of the metrics that any run has values of.
fn entries_with_values<T: Clone>(comparison: &Comparison, entries: &[T]) -> Vec<T> {
    let metrics = comparison.metrics.iter().zip(entries);
    let with_values = metrics.filter(|(metric, _)| metric.runs.iter().any(|run| 0 < run.summary.n));
    with_values.map(|(_, entry)| entry.clone()).collect()
}

/// Whether a metric of the item became worse from the first to the second run.
fn is_worse(comparison: &Comparison, item: &ItemComparison, [base, at]: [usize; 2]) -> bool {
    let run = |at: usize| item.runs.get(at).and_then(Option::as_ref);
    let (Some(before), Some(after)) = (run(base), run(at)) else {
        return false;
    };
    let mut values = before.values.iter().zip(&after.values).zip(&comparison.metrics);
    item.is_regressed
        && values.any(|((before, after), metric)| {
            let difference = after.zip(*before).map(|(after, before)| after - before);
            let floor = metric.noise.as_ref().map_or(0.0, |noise| noise.floor);
            match (metric.direction, difference) {
                (Some(direction), Some(difference)) if floor < difference.abs() => {
                    (direction == ScoreDirection::HigherIsBetter) == (difference < 0.0)
                }
                _ => false,
            }
        })
}
