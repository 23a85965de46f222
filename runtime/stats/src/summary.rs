//! The numbers that describe one metric of one run (evaluation.md 5.4).

use crate::check::{self, Error};
use crate::distribution::t_quantile;
use crate::{Clusters, Interval, moments};

/// A summary of values. Members are `None` if there are too few values.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// The arithmetic mean.
    pub mean: Option<f64>,
    /// The standard deviation with `n - 1`: needs two values.
    pub sd: Option<f64>,
    /// The standard error of the mean: needs two values.
    pub stderr: Option<f64>,
    /// The smallest value.
    pub min: Option<f64>,
    /// The largest value.
    pub max: Option<f64>,
    /// The quantile 0.5. All quantiles are linear between neighbours (type 7).
    pub median: Option<f64>,
    /// The quantile 0.25.
    pub p25: Option<f64>,
    /// The quantile 0.75.
    pub p75: Option<f64>,
    /// The quantile 0.95.
    pub p95: Option<f64>,
    /// The t interval of the mean: needs two values.
    pub interval: Option<Interval>,
    /// The same with values of one cluster taken as dependent, where clusters were given.
    pub clustered: Option<Clustered>,
}

/// The precision of a mean of clustered values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustered {
    /// Number of clusters.
    pub n_clusters: usize,
    /// The standard error of the mean; 0 with one cluster.
    pub stderr: f64,
    /// The t interval with one degree of freedom less than clusters: needs two clusters.
    pub interval: Option<Interval>,
}

/// Describes `values`, with intervals of `level`. No values are a summary too: its `n` is 0.
///
/// # Errors
/// [`Error::Unusable`], [`Error::Setting`] for the level, [`Error::Lengths`] where there is not one
/// cluster key for each value.
pub fn summarize(
    values: &[f64],
    clusters: Option<&Clusters>,
    level: f64,
) -> Result<Summary, Error> {
    check::usable(values)?;
    check::level(level)?;
    if let Some(clusters) = clusters {
        check::same_length(values.len(), clusters.n_values())?;
    }
    let sorted = moments::sorted(values);
    let quantile = |p| (!sorted.is_empty()).then(|| moments::quantile(&sorted, p));
    let mean = (!values.is_empty()).then(|| moments::mean(values));
    let sd = moments::variance(values).map(f64::sqrt);
    let stderr = sd.map(|sd| sd / (values.len() as f64).sqrt());
    let interval = mean.zip(stderr).map(|(mean, stderr)| {
        let n_free = values.len() as f64 - 1.0;
        around(mean, stderr, n_free, level)
    });
    Ok(Summary {
        n: values.len(),
        mean,
        sd,
        stderr,
        min: sorted.first().copied(),
        max: sorted.last().copied(),
        median: quantile(0.5),
        p25: quantile(0.25),
        p75: quantile(0.75),
        p95: quantile(0.95),
        interval,
        clustered: clusters.and_then(|clusters| clustered(values, clusters, level)),
    })
}

/// The t interval around a mean.
pub(crate) fn around(mean: f64, stderr: f64, n_free: f64, level: f64) -> Interval {
    let reach = t_quantile(1.0 - level, n_free) * stderr;
    Interval { lower: mean - reach, upper: mean + reach }
}

/// The clustered precision of the mean; `None` of nothing. Lengths and level were checked before.
pub(crate) fn clustered(values: &[f64], clusters: &Clusters, level: f64) -> Option<Clustered> {
    if values.is_empty() {
        return None;
    }
    let mean = moments::mean(values);
    let sums = clusters.sums(values.iter().map(|value| value - mean));
    let n_clusters = clusters.count();
    if n_clusters < 2 {
        return Some(Clustered { n_clusters, stderr: 0.0, interval: None });
    }
    let n_free = n_clusters as f64 - 1.0;
    let squares: f64 = sums.iter().map(|sum| sum * sum).sum();
    let stderr = (n_clusters as f64 / n_free * squares).sqrt() / values.len() as f64;
    Some(Clustered { n_clusters, stderr, interval: Some(around(mean, stderr, n_free, level)) })
}
