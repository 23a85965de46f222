//! Percentile intervals by resampling (evaluation.md 5.4), the same on every machine for one seed.

use crate::check::{self, Error};
use crate::random::SplitMix64;
use crate::{Clusters, Interval, moments};

/// Options of resampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Seed of the generator, such as [`crate::random::seed`] of run and metric.
    pub seed: u64,
    /// Number of resamples; 2 000 by default.
    pub resamples: usize,
    /// The level of the interval.
    pub level: f64,
}

/// The result of resampling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// The percentile interval.
    pub interval: Interval,
    /// The standard deviation of the resampled statistic: needs two resamples that define it.
    pub sd: Option<f64>,
    /// Number of resamples with an undefined statistic, which are excluded.
    pub n_undefined: usize,
}

/// The interval of the mean. For a paired comparison the values are the differences.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], [`Error::Lengths`], [`Error::Setting`].
pub fn mean(
    values: &[f64],
    clusters: Option<&Clusters>,
    options: Options,
) -> Result<Bootstrap, Error> {
    check::some_usable(values)?;
    let sum = |drawn: &[usize]| drawn.iter().map(|at| values[*at]).sum::<f64>();
    let found =
        statistic(values.len(), clusters, options, |drawn| Some(sum(drawn) / drawn.len() as f64))?;
    // A mean of at least one usable value is always defined.
    found.ok_or(Error::Empty)
}

/// The interval of any statistic of `n` elements, which gets the positions of those drawn: one draw for
/// each element, or whole clusters, one draw for each. `None` where no resample defined it.
///
/// # Errors
/// [`Error::Empty`] for an `n` of 0, [`Error::Lengths`] where clusters do not match `n`,
/// [`Error::Setting`] for the level or no resamples.
pub fn statistic(
    n: usize,
    clusters: Option<&Clusters>,
    options: Options,
    mut statistic: impl FnMut(&[usize]) -> Option<f64>,
) -> Result<Option<Bootstrap>, Error> {
    check::level(options.level)?;
    if n == 0 {
        return Err(Error::Empty);
    }
    if options.resamples == 0 {
        return Err(Error::Setting { name: "resamples", rule: "must be at least 1" });
    }
    let groups = match clusters {
        Some(clusters) => {
            check::same_length(n, clusters.n_values())?;
            clusters.members()
        }
        None => (0..n).map(|at| vec![at]).collect(),
    };
    let mut random = SplitMix64::new(options.seed);
    let mut drawn = Vec::with_capacity(n);
    let mut found = Vec::new();
    for _ in 0..options.resamples {
        drawn.clear();
        for _ in 0..groups.len() {
            drawn.extend(&groups[random.below(groups.len())]);
        }
        found.extend(statistic(&drawn).filter(|value| value.is_finite()));
    }
    Ok(describe(&found, options))
}

fn describe(found: &[f64], options: Options) -> Option<Bootstrap> {
    if found.is_empty() {
        return None;
    }
    let sorted = moments::sorted(found);
    let outside = (1.0 - options.level) / 2.0;
    Some(Bootstrap {
        interval: Interval {
            lower: moments::quantile(&sorted, outside),
            upper: moments::quantile(&sorted, 1.0 - outside),
        },
        sd: moments::variance(found).map(f64::sqrt),
        n_undefined: options.resamples - found.len(),
    })
}
