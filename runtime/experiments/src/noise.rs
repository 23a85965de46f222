//! The difference between identical runs.

use crate::columns::{Column, Metric};
use crate::comparison::{MetricKind, NoiseFloor, NoiseSource};
use crate::grid::Grid;
use crate::matching::{ItemMatch, Matching};
use crate::sample::weights;

/// The largest number of repetitions of an item that are compared with one another.
const MAX_REPETITIONS: usize = 64;

/// The noise floor of a metric, of all items or of those of a segment: from further runs of the baseline, or else from
/// repetitions. `base` is the number of the baseline.
pub(crate) fn floor(
    metric: &Metric,
    grid: &Grid<'_>,
    base: usize,
    margin: f64,
    mask: Option<&[bool]>,
) -> Option<NoiseFloor> {
    if metric.obstacle.is_some() {
        return None;
    }
    let measured = Measured { metric, grid, margin, mask };
    measured.second_runs(base).or_else(|| measured.repetitions())
}

/// A metric of which the noise is measured.
struct Measured<'m, 'g> {
    metric: &'m Metric,
    grid: &'m Grid<'g>,
    margin: f64,
    /// The items of a segment, by number.
    mask: Option<&'m [bool]>,
}

/// The changes of items between identical runs.
#[derive(Default)]
struct Moves {
    /// By item, the share of its pairs of values that differ by at least the margin.
    flips: Vec<f64>,
    /// By item, the mean absolute difference of its pairs of values.
    absolute: Vec<f64>,
    /// By item, the probability with which the pair of values was selected.
    probabilities: Vec<f64>,
}

impl Moves {
    fn push(&mut self, (flips, absolute): (f64, f64), probability: f64) {
        self.flips.push(flips);
        self.absolute.push(absolute);
        self.probabilities.push(probability);
    }

    fn append(&mut self, mut other: Self) {
        self.flips.append(&mut other.flips);
        self.absolute.append(&mut other.absolute);
        self.probabilities.append(&mut other.probabilities);
    }

    /// The mean absolute difference of an item.
    fn difference(&self) -> Option<f64> {
        weighted_mean(&self.absolute, &self.probabilities)
    }

    fn noise(&self, source: NoiseSource, floor: Option<f64>) -> Option<NoiseFloor> {
        let flip_share = weighted_mean(&self.flips, &self.probabilities)?;
        let n = self.flips.len() as u64;
        Some(NoiseFloor { source, n, flip_share, floor: floor? })
    }
}

/// The mean of values of items, each weighted with the reciprocal of its probability.
fn weighted_mean(values: &[f64], probabilities: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let Some(weights) = weights(probabilities) else {
        return Some(values.iter().sum::<f64>() / values.len() as f64);
    };
    let sum: f64 = values.iter().zip(&weights).map(|(value, weight)| value * weight).sum();
    Some(sum / weights.iter().sum::<f64>())
}

/// Whether a difference between two values counts; differences by rounding do not.
fn is_flip(left: f64, right: f64, margin: f64) -> bool {
    let difference = (left - right).abs();
    let rounding = 1e-12 * left.abs().max(right.abs());
    rounding < difference && margin <= difference + rounding
}

impl Measured<'_, '_> {
    /// Measures spread widely over items, while their means hardly differ.
    fn is_score(&self) -> bool {
        matches!(self.metric.kind, MetricKind::Score | MetricKind::Errors)
    }

    fn has(&self, item: usize) -> bool {
        self.mask.is_none_or(|mask| mask[item])
    }

    fn second_runs(&self, base: usize) -> Option<NoiseFloor> {
        let (metric, grid) = (self.metric, self.grid);
        let mut moves = Moves::default();
        let mut means = Vec::new();
        for further in grid.n_compared..grid.runs.len() {
            let matching = Matching::new(grid, &grid.runs[base], &grid.runs[further]);
            let (before, after) = (&metric.columns[base], &metric.columns[further]);
            let (mut differences, mut probabilities) = (Vec::new(), Vec::new());
            for (at, (left, right)) in before.values.iter().zip(&after.values).enumerate() {
                let (Some(left), Some(right)) = (left, right) else { continue };
                if self.has(at) && matching.items[at] == ItemMatch::Matched {
                    let probability = before.probabilities[at] * after.probabilities[at];
                    let flip = f64::from(u8::from(is_flip(*left, *right, self.margin)));
                    moves.push((flip, (left - right).abs()), probability);
                    differences.push(right - left);
                    probabilities.push(probability);
                }
            }
            means.extend(weighted_mean(&differences, &probabilities).map(f64::abs));
        }
        let floor = match self.is_score() {
            true => moves.difference(),
            false => means.into_iter().reduce(f64::max),
        };
        moves.noise(NoiseSource::SecondRun, floor)
    }

    fn repetitions(&self) -> Option<NoiseFloor> {
        let compared = self.grid.compared();
        let mut moves = Moves::default();
        let mut floors: Vec<f64> = Vec::new();
        // Values of items are means of repetitions; the run with the fewest moves by most.
        let n_means = compared.iter().map(|run| run.n_repetitions).min().unwrap_or(1).max(1);
        for (column, run) in self.metric.columns.iter().zip(compared) {
            if run.n_repetitions < 2 {
                continue;
            }
            let mut own = Moves::default();
            let repeated = column.repetitions.iter().zip(&column.probabilities).enumerate();
            for (at, (values, probability)) in repeated {
                if self.has(at) && 1 < values.len() {
                    let values = &values[..values.len().min(MAX_REPETITIONS)];
                    own.push(pairs(values, self.margin), *probability);
                }
            }
            let of_one = match self.is_score() {
                true => own.difference().unwrap_or(0.0),
                false => self.spread_of_means(column, run.n_repetitions),
            };
            floors.push(of_one / (n_means as f64).sqrt());
            moves.append(own);
        }
        let floor = floors.iter().copied().fold(0.0, f64::max);
        moves.noise(NoiseSource::Repetitions, Some(floor))
    }

    /// The largest difference between the means of two repetitions over the items that have all of them.
    fn spread_of_means(&self, column: &Column, n_repetitions: usize) -> f64 {
        let items = column.repetitions.iter().enumerate();
        let complete: Vec<&Vec<f64>> = items
            .filter(|(at, values)| self.has(*at) && values.len() == n_repetitions)
            .map(|(_, values)| values)
            .collect();
        if complete.is_empty() {
            return 0.0;
        }
        let mean = |at: usize| {
            complete.iter().map(|values| values[at]).sum::<f64>() / complete.len() as f64
        };
        let means: Vec<f64> = (0..n_repetitions).map(mean).collect();
        let largest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = means.iter().copied().fold(f64::INFINITY, f64::min);
        largest - smallest
    }
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
