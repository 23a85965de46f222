//! The difference between identical runs.

use crate::columns::{Column, Metric};
use crate::comparison::{MetricKind, NoiseFloor, NoiseSource};
use crate::grid::Grid;
use crate::matching::{ItemMatch, Matching};

/// The largest number of repetitions of an item that are compared with one another.
const MAX_REPETITIONS: usize = 64;

/// The noise floor of a metric: from further runs of the baseline, or else from repetitions. `base` is the number of the
/// baseline.
pub(crate) fn floor(
    metric: &Metric,
    grid: &Grid<'_>,
    base: usize,
    margin: f64,
) -> Option<NoiseFloor> {
    if metric.obstacle.is_some() {
        return None;
    }
    let is_score = matches!(metric.kind, MetricKind::Score | MetricKind::Errors);
    second_runs(metric, grid, base, margin, is_score)
        .or_else(|| repetitions(metric, grid, margin, is_score))
}

/// Sums over compared pairs of values.
#[derive(Default)]
struct Moves {
    n_items: u64,
    flips: f64,
    absolute: f64,
}

impl Moves {
    /// The floor of the metric is `floor`, or the mean absolute difference if absent.
    fn noise(&self, source: NoiseSource, floor: Option<f64>) -> Option<NoiseFloor> {
        if self.n_items == 0 {
            return None;
        }
        let n = self.n_items as f64;
        let floor = floor.unwrap_or(self.absolute / n);
        Some(NoiseFloor { source, n: self.n_items, flip_share: self.flips / n, floor })
    }
}

/// Whether a difference between two values counts; differences by rounding do not.
fn is_flip(left: f64, right: f64, margin: f64) -> bool {
    let difference = (left - right).abs();
    let rounding = 1e-12 * left.abs().max(right.abs());
    rounding < difference && margin <= difference + rounding
}

fn second_runs(
    metric: &Metric,
    grid: &Grid<'_>,
    base: usize,
    margin: f64,
    is_score: bool,
) -> Option<NoiseFloor> {
    let mut moves = Moves::default();
    let mut means = Vec::new();
    for further in grid.n_compared..grid.runs.len() {
        let matching = Matching::new(grid, &grid.runs[base], &grid.runs[further]);
        let columns = (&metric.columns[base].values, &metric.columns[further].values);
        let (mut sum, mut n) = (0.0, 0_u64);
        for (at, (left, right)) in columns.0.iter().zip(columns.1).enumerate() {
            let (Some(left), Some(right)) = (left, right) else { continue };
            if matching.items[at] == ItemMatch::Matched {
                moves.flips += f64::from(u8::from(is_flip(*left, *right, margin)));
                moves.absolute += (left - right).abs();
                sum += right - left;
                n += 1;
            }
        }
        moves.n_items += n;
        if 0 < n {
            means.push((sum / n as f64).abs());
        }
    }
    // Measures spread widely over items, while their means hardly differ.
    let floor = (!is_score).then(|| means.iter().copied().fold(0.0, f64::max));
    moves.noise(NoiseSource::SecondRun, floor)
}

fn repetitions(
    metric: &Metric,
    grid: &Grid<'_>,
    margin: f64,
    is_score: bool,
) -> Option<NoiseFloor> {
    let mut moves = Moves::default();
    let mut floors: Vec<f64> = Vec::new();
    // Values of items are means of repetitions; the run with the fewest moves by most.
    let n_means = grid.compared().iter().map(|run| run.n_repetitions).min().unwrap_or(1).max(1);
    for (column, run) in metric.columns.iter().zip(grid.compared()) {
        if run.n_repetitions < 2 {
            continue;
        }
        let mut absolute = 0.0;
        let mut n = 0_u64;
        for values in column.repetitions.iter().filter(|values| 1 < values.len()) {
            let values = &values[..values.len().min(MAX_REPETITIONS)];
            let (flips, difference) = pairs(values, margin);
            moves.flips += flips;
            absolute += difference;
            n += 1;
        }
        moves.n_items += n;
        moves.absolute += absolute;
        let of_one = match is_score {
            true if 0 < n => absolute / n as f64,
            true => 0.0,
            false => spread_of_means(column, run.n_repetitions),
        };
        floors.push(of_one / (n_means as f64).sqrt());
    }
    let floor = floors.iter().copied().fold(0.0, f64::max);
    moves.noise(NoiseSource::Repetitions, Some(floor))
}

/// The share of pairs that differ, and their mean absolute difference.
fn pairs(values: &[f64], margin: f64) -> (f64, f64) {
    let (mut flips, mut absolute, mut n) = (0.0, 0.0, 0.0);
    for (at, left) in values.iter().enumerate() {
        for right in &values[at + 1..] {
            flips += f64::from(u8::from(is_flip(*left, *right, margin)));
            absolute += (left - right).abs();
            n += 1.0;
        }
    }
    (flips / n, absolute / n)
}

/// The largest difference between the means of two repetitions over the items that have all of them.
fn spread_of_means(column: &Column, n_repetitions: usize) -> f64 {
    let complete: Vec<&Vec<f64>> =
        column.repetitions.iter().filter(|values| values.len() == n_repetitions).collect();
    if complete.is_empty() {
        return 0.0;
    }
    let mean =
        |at: usize| complete.iter().map(|values| values[at]).sum::<f64>() / complete.len() as f64;
    let means: Vec<f64> = (0..n_repetitions).map(mean).collect();
    let largest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = means.iter().copied().fold(f64::INFINITY, f64::min);
    largest - smallest
}
