//! Values that were sampled with different probabilities (evaluation.md 5.4): each one is weighted with the reciprocal of its
//! probability.

use crate::check::{self, Error};
use crate::distribution::t_p;
use crate::summary::around;
use crate::{Clusters, Interval, TTest, Welch, moments};

/// A summary of weighted values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weighted {
    /// Number of values.
    pub n: usize,
    /// The number of equally weighted values with the same precision (Kish); at most `n`.
    pub n_effective: f64,
    /// The weighted mean.
    pub mean: f64,
    /// The standard deviation of the values: needs two values.
    pub sd: Option<f64>,
    /// The standard error of the mean, by linearization of the ratio of sums: needs two values, or two clusters.
    pub stderr: Option<f64>,
    /// The t interval of the mean, with one degree of freedom less than effective values or clusters.
    pub interval: Option<Interval>,
    /// The quantile 0.5.
    pub median: f64,
    /// The quantile 0.95.
    pub p95: f64,
}

/// Describes `values`. With equal weights the results are those of [`crate::summary::summarize`].
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`] for values, [`Error::Lengths`] if there is not one weight and one cluster key for
/// each value, [`Error::Setting`] for the level and for weights that are not greater than 0 and finite.
pub fn summarize(
    values: &[f64],
    weights: &[f64],
    clusters: Option<&Clusters>,
    level: f64,
) -> Result<Weighted, Error> {
    check::some_usable(values)?;
    check::level(level)?;
    check::same_length(values.len(), weights.len())?;
    if let Some(clusters) = clusters {
        check::same_length(values.len(), clusters.n_values())?;
    }
    if !weights.iter().all(|weight| 0.0 < *weight && weight.is_finite()) {
        return Err(Error::Setting { name: "weight", rule: "must be greater than 0 and finite" });
    }
    // Only ratios of weights count; the largest is 1, so that sums stay finite.
    let largest = weights.iter().copied().fold(0.0, f64::max);
    let weights: Vec<f64> = weights.iter().map(|weight| weight / largest).collect();
    let total: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    let n_effective = (total * total / squares).min(values.len() as f64);
    let mean = match moments::is_constant(values) {
        true => values[0],
        false => sum(values, &weights) / total,
    };
    let n = values.len();
    let n_free = n as f64 - 1.0;
    let spread: f64 =
        values.iter().zip(&weights).map(|(value, weight)| weight * (value - mean).powi(2)).sum();
    let sd = (1 < n).then(|| (spread / total * n as f64 / n_free).sqrt());
    let moved = || values.iter().zip(&weights).map(|(value, weight)| weight * (value - mean));
    let (parts, n_units): (Vec<f64>, f64) = match clusters {
        Some(clusters) => (clusters.sums(moved()), clusters.count() as f64),
        None => (moved().collect(), n_effective),
    };
    let n_parts = parts.len() as f64;
    let stderr = (1 < parts.len()).then(|| {
        let squares: f64 = parts.iter().map(|part| part * part).sum();
        (n_parts / (n_parts - 1.0) * squares).sqrt() / total
    });
    let interval = stderr.map(|stderr| around(mean, stderr, (n_units - 1.0).max(1.0), level));
    let sorted = Sorted::new(values, &weights);
    let (median, p95) = (sorted.quantile(0.5), sorted.quantile(0.95));
    Ok(Weighted { n, n_effective, mean, sd, stderr, interval, median, p95 })
}

/// The weighted sum.
fn sum(values: &[f64], weights: &[f64]) -> f64 {
    values.iter().zip(weights).map(|(value, weight)| value * weight).sum()
}

/// Values in ascending order with the place of each between 0 and 1.
struct Sorted(Vec<(f64, f64)>);

impl Sorted {
    /// The distance between neighbours is the mean of their weights: with equal weights the places are those of type 7.
    fn new(values: &[f64], weights: &[f64]) -> Self {
        let mut pairs: Vec<(f64, f64)> =
            values.iter().copied().zip(weights.iter().copied()).collect();
        pairs.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1)));
        let mut place = 0.0;
        let mut before = None;
        let mut placed = Vec::with_capacity(pairs.len());
        for (value, weight) in pairs {
            place += before.map_or(0.0, |before: f64| f64::midpoint(before, weight));
            before = Some(weight);
            placed.push((value, place));
        }
        if 0.0 < place {
            for (_, at) in &mut placed {
                *at /= place;
            }
        }
        Self(placed)
    }

    /// The quantile `p`, linear between neighbours.
    fn quantile(&self, p: f64) -> f64 {
        let above = self.0.partition_point(|(_, place)| *place < p).min(self.0.len() - 1);
        let (value, place) = self.0[above];
        let Some((below, start)) = above.checked_sub(1).map(|below| self.0[below]) else {
            return value;
        };
        let width = place - start;
        if width <= 0.0 { value } else { below + ((p - start) / width).min(1.0) * (value - below) }
    }
}

/// The difference between the means of two lists with weights. `None` if a list has fewer than two values, or neither
/// spreads.
#[must_use]
pub fn difference(reference: &Weighted, current: &Weighted, level: f64) -> Option<Welch> {
    check::level(level).ok()?;
    let (left, right) = (reference.stderr?.powi(2), current.stderr?.powi(2));
    let stderr = (left + right).sqrt();
    if stderr == 0.0 {
        return None;
    }
    let free = |list: &Weighted| (list.n_effective - 1.0).max(1.0);
    let share = left / (left + right);
    let n_free = 1.0 / (share.powi(2) / free(reference) + (1.0 - share).powi(2) / free(current));
    let mean_difference = current.mean - reference.mean;
    let t = mean_difference / stderr;
    t.is_finite().then(|| Welch {
        mean_difference,
        stderr,
        interval: around(mean_difference, stderr, n_free, level),
        t: TTest { t, p: t_p(t, n_free) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary;

    const VALUES: [f64; 6] = [0.3, 0.9, 0.4, 0.4, 0.75, 0.1];

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    #[test]
    fn equal_weights_change_nothing() {
        let clusters = Clusters::by_key([1, 1, 2, 3, 3, 3]);
        for clusters in [None, Some(&clusters)] {
            let plain = summary::summarize(&VALUES, clusters, 0.95).unwrap();
            for weight in [1.0, 20.0] {
                let found = summarize(&VALUES, &[weight; 6], clusters, 0.95).unwrap();
                assert!(close(found.n_effective, 6.0));
                assert!(close(found.mean, plain.mean.unwrap()));
                assert!(close(found.sd.unwrap(), plain.sd.unwrap()));
                assert!(close(found.median, plain.median.unwrap()));
                assert!(close(found.p95, plain.p95.unwrap()));
                let (stderr, interval) = match plain.clustered {
                    Some(clustered) => (clustered.stderr, clustered.interval),
                    None => (plain.stderr.unwrap(), plain.interval),
                };
                assert!(close(found.stderr.unwrap(), stderr));
                assert!(close(found.interval.unwrap().lower, interval.unwrap().lower));
                assert!(close(found.interval.unwrap().upper, interval.unwrap().upper));
            }
        }
    }

    #[test]
    fn a_value_that_was_sampled_at_a_tenth_counts_for_ten() {
        let found = summarize(&[1.0, 0.0], &[10.0, 1.0], None, 0.95).unwrap();
        assert!(close(found.mean, 10.0 / 11.0));
        assert!(close(found.n_effective, 121.0 / 101.0));
        assert!(found.stderr.unwrap().is_finite());
    }

    #[test]
    fn the_mean_of_equal_values_is_the_value() {
        let found = summarize(&[0.1; 3], &[1.0, 3.0, 7.0], None, 0.95).unwrap();
        assert_eq!((found.mean, found.stderr), (0.1, Some(0.0)));
        assert_eq!((found.median, found.p95), (0.1, 0.1));
        let one = summarize(&[0.1], &[3.0], None, 0.95).unwrap();
        assert_eq!((one.mean, one.stderr, one.interval), (0.1, None, None));
    }

    #[test]
    fn a_weight_that_is_not_positive_and_finite_is_an_error() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let found = summarize(&[1.0, 2.0], &[1.0, weight], None, 0.95);
            assert!(matches!(found, Err(Error::Setting { name: "weight", .. })), "{weight}");
        }
        assert_eq!(summarize(&[], &[], None, 0.95), Err(Error::Empty));
        let short = summarize(&[1.0, 2.0], &[1.0], None, 0.95);
        assert_eq!(short, Err(Error::Lengths { left: 2, right: 1 }));
    }

    #[test]
    fn the_difference_of_equally_weighted_lists_is_that_of_welch() {
        let other = [0.2, 0.5, 0.9, 0.9];
        let welch = crate::welch::compare(&VALUES, &other, 0.95).unwrap().unwrap();
        let list =
            |values: &[f64]| summarize(values, &vec![1.0; values.len()], None, 0.95).unwrap();
        let found = difference(&list(&VALUES), &list(&other), 0.95).unwrap();
        assert!(close(found.mean_difference, welch.mean_difference));
        assert!(close(found.stderr, welch.stderr) && close(found.t.p, welch.t.p));
        assert_eq!(difference(&list(&[1.0, 1.0]), &list(&[2.0, 2.0]), 0.95), None);
    }
}
