//! Drift of scores from a reference (evaluation.md 6).

use crate::check::{self, Error};
use crate::welch::welch;
use crate::{TTest, moments};

/// Smoothing of each bin, so that an empty bin does not make a distance infinite.
const SMOOTHING: f64 = 0.5;

/// The distances between two lists of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Kolmogorov and Smirnov: the largest distance of both distribution functions, in `0..=1`.
    pub ks: f64,
    /// The population stability index over the bins: 0 and up, 0.1 is a warning, 0.25 an alarm.
    pub psi: f64,
    /// Jensen and Shannon over the bins, in bits, in `0..=1`.
    pub js_divergence_bits: f64,
    /// The mean of current minus reference.
    pub mean_shift: f64,
    /// Welch's test of that shift, where it is defined.
    pub welch: Option<TTest>,
}

/// Compares `current` with `reference`. Bins lie between ascending `edges`, of which the first and the
/// last may be infinite; see [`histogram`].
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], [`Error::OutsideBins`], [`Error::Setting`] for the edges.
pub fn drift(reference: &[f64], current: &[f64], edges: &[f64]) -> Result<Drift, Error> {
    check::some_usable(reference)?;
    check::some_usable(current)?;
    let (before, after) = (histogram(reference, edges)?, histogram(current, edges)?);
    Ok(Drift {
        ks: ks(reference, current)?,
        psi: psi(&before, &after)?,
        js_divergence_bits: js_divergence_bits(&before, &after)?,
        mean_shift: moments::mean(current) - moments::mean(reference),
        welch: welch(reference, current)?,
    })
}

/// The number of values in each bin. A bin includes its lower edge and excludes its upper one, except the last, which
/// includes both. A value outside of all bins is an error, because ignoring it would hide drift.
///
/// # Errors
/// [`Error::Unusable`], [`Error::OutsideBins`], [`Error::Setting`] where there are fewer than two edges
/// or they do not ascend.
pub fn histogram(values: &[f64], edges: &[f64]) -> Result<Vec<u64>, Error> {
    check::usable(values)?;
    let ascends = edges.windows(2).all(|pair| pair[0] < pair[1]);
    if edges.len() < 2 || !ascends {
        return Err(Error::Setting {
            name: "edges",
            rule: "must be at least two numbers in ascending order",
        });
    }
    let n_bins = edges.len() - 1;
    let mut counts = vec![0; n_bins];
    for (at, value) in values.iter().enumerate() {
        let n_below = edges.partition_point(|edge| edge <= value);
        let bin = match n_below {
            0 => return Err(Error::OutsideBins { at }),
            n if n_bins < n && edges[n_bins] < *value => return Err(Error::OutsideBins { at }),
            n => n.min(n_bins) - 1,
        };
        counts[bin] += 1;
    }
    Ok(counts)
}

/// Kolmogorov's and Smirnov's distance of two samples, in `0..=1`.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`].
pub fn ks(reference: &[f64], current: &[f64]) -> Result<f64, Error> {
    check::some_usable(reference)?;
    check::some_usable(current)?;
    let (reference, current) = (moments::sorted(reference), moments::sorted(current));
    let share =
        |sorted: &[f64], at: f64| sorted.partition_point(|x| *x <= at) as f64 / sorted.len() as f64;
    let steps = reference.iter().chain(&current);
    Ok(steps.fold(0.0, |largest: f64, at| {
        largest.max((share(&reference, *at) - share(&current, *at)).abs())
    }))
}

/// The population stability index of two histograms over the same bins, each bin smoothed by one half.
///
/// # Errors
/// [`Error::Empty`] without bins, [`Error::Lengths`].
pub fn psi(reference: &[u64], current: &[u64]) -> Result<f64, Error> {
    let parts = smoothed(reference, current)?;
    let distances = parts.map(|(before, after)| (after - before) * (after / before).ln());
    Ok(distances.sum())
}

/// Jensen's and Shannon's divergence in bits of two histograms over the same bins or categories, each
/// smoothed by one half.
///
/// # Errors
/// [`Error::Empty`] without bins, [`Error::Lengths`].
pub fn js_divergence_bits(reference: &[u64], current: &[u64]) -> Result<f64, Error> {
    let parts = smoothed(reference, current)?;
    let distances = parts.map(|(before, after)| {
        let middle = (before + after) / 2.0;
        (before * (before / middle).log2() + after * (after / middle).log2()) / 2.0
    });
    Ok(distances.sum::<f64>().clamp(0.0, 1.0))
}

/// The shares of each bin in both histograms, none of them 0.
fn smoothed(reference: &[u64], current: &[u64]) -> Result<impl Iterator<Item = (f64, f64)>, Error> {
    check::same_length(reference.len(), current.len())?;
    if reference.is_empty() {
        return Err(Error::Empty);
    }
    let shares = |counts: &[u64]| -> Vec<f64> {
        let smooth = |count: &u64| *count as f64 + SMOOTHING;
        let all: f64 = counts.iter().map(smooth).sum();
        counts.iter().map(|count| smooth(count) / all).collect()
    };
    Ok(shares(reference).into_iter().zip(shares(current)))
}
