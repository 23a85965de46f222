//! Values of items with the probabilities of their selection.

use perpend_stats::{Clusters, Error, Interval, proportion, summary, weighted};

use crate::comparison::{ConfidenceInterval, MetricSummary};

/// The interval as it is sent.
pub(crate) fn ends(interval: Interval) -> ConfidenceInterval {
    ConfidenceInterval { lower: interval.lower, upper: interval.upper }
}

/// Values of items with the probabilities of their selection.
#[derive(Default)]
pub(crate) struct Sample {
    pub(crate) values: Vec<f64>,
    pub(crate) probabilities: Vec<f64>,
}

impl Sample {
    pub(crate) fn extend(&mut self, value: Option<f64>, probability: f64) {
        if let Some(value) = value {
            self.values.push(value);
            self.probabilities.push(probability);
        }
    }

    /// The weights of the values; absent if all are equal.
    pub(crate) fn weights(&self) -> Option<Vec<f64>> {
        weights(&self.probabilities)
    }

    pub(crate) fn is_binary(&self) -> bool {
        self.values.iter().all(|value| *value == 0.0 || *value == 1.0)
    }
}

/// The weights of values that were selected with these probabilities: their reciprocals; absent if all are equal.
pub(crate) fn weights(probabilities: &[f64]) -> Option<Vec<f64>> {
    let is_equal = probabilities.windows(2).all(|pair| pair[0] == pair[1]);
    (!is_equal).then(|| probabilities.iter().map(|probability| 1.0 / probability).collect())
}

/// The mean and other numbers that depend on weights.
struct Estimates {
    mean: Option<f64>,
    stderr: Option<f64>,
    interval: Option<Interval>,
    median: Option<f64>,
    p95: Option<f64>,
    n_effective: f64,
}

/// Describes the values of a run; `n_missing` items have none. Values without statistics, such as those that are too large
/// for a sum, are counted only.
pub(crate) fn summarize(
    sample: &Sample,
    clusters: Option<&Clusters>,
    n_missing: u64,
    alpha: f64,
) -> MetricSummary {
    let n = sample.values.len() as u64;
    let Ok(found) = estimates(sample, clusters, 1.0 - alpha) else {
        return MetricSummary { n, n_missing, ..MetricSummary::default() };
    };
    let mut interval = found.interval;
    if let (None, true, Some(mean)) = (clusters, sample.is_binary() && 1 < n, found.mean) {
        let share = mean.clamp(0.0, 1.0);
        interval = proportion::wilson_of_share(share, found.n_effective, 1.0 - alpha).ok();
    }
    MetricSummary {
        n,
        n_missing,
        mean: found.mean,
        stderr: found.stderr,
        interval: interval.map(ends),
        median: found.median,
        p95: found.p95,
        min: sample.values.iter().copied().reduce(f64::min),
        max: sample.values.iter().copied().reduce(f64::max),
    }
}

fn estimates(sample: &Sample, clusters: Option<&Clusters>, level: f64) -> Result<Estimates, Error> {
    if let Some(weights) = sample.weights() {
        let found = weighted::summarize(&sample.values, &weights, clusters, level)?;
        return Ok(Estimates {
            mean: Some(found.mean),
            stderr: found.stderr,
            interval: found.interval,
            median: Some(found.median),
            p95: Some(found.p95),
            n_effective: found.n_effective,
        });
    }
    let found = summary::summarize(&sample.values, clusters, level)?;
    let (stderr, interval) = match found.clustered {
        Some(clustered) => {
            ((1 < clustered.n_clusters).then_some(clustered.stderr), clustered.interval)
        }
        None => (found.stderr, found.interval),
    };
    Ok(Estimates {
        mean: found.mean,
        stderr,
        interval,
        median: found.median,
        p95: found.p95,
        n_effective: found.n as f64,
    })
}
