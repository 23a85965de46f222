//! Correlation of the numbers of a judge and a human (evaluation.md 6).

use crate::check::{self, Error};
use crate::moments;

/// The correlation of two lists. The coefficients are in `-1..=1`, and `None` if one list is constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correlation {
    /// Number of pairs.
    pub n: usize,
    /// Pearson's r.
    pub pearson: Option<f64>,
    /// Spearman's ρ: Pearson's r of the ranks.
    pub spearman: Option<f64>,
    /// Kendall's τ-b: concordant minus discordant pairs, corrected for ties.
    pub kendall_tau_b: Option<f64>,
    /// The mean absolute error.
    pub mae: f64,
    /// The root of the mean squared error.
    pub rmse: f64,
    /// The mean of judge minus human.
    pub bias: f64,
}

/// Compares `judge` with `human`, matched by position.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], [`Error::Lengths`].
pub fn correlate(human: &[f64], judge: &[f64]) -> Result<Correlation, Error> {
    check::some_usable(human)?;
    check::some_usable(judge)?;
    check::same_length(human.len(), judge.len())?;
    let errors = || human.iter().zip(judge).map(|(human, judge)| judge - human);
    let n = human.len();
    let mean = |sum: f64| sum / n as f64;
    Ok(Correlation {
        n,
        pearson: pearson(human, judge),
        spearman: pearson(&moments::ranks(human).0, &moments::ranks(judge).0),
        kendall_tau_b: kendall_tau_b(human, judge),
        mae: mean(errors().map(f64::abs).sum()),
        rmse: mean(errors().map(|error| error * error).sum()).sqrt(),
        bias: mean(errors().sum()),
    })
}

/// Pearson's r alone, for resampling. `None` if one list is constant.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], [`Error::Lengths`].
pub fn pearson_of(left: &[f64], right: &[f64]) -> Result<Option<f64>, Error> {
    check::some_usable(left)?;
    check::some_usable(right)?;
    check::same_length(left.len(), right.len())?;
    Ok(pearson(left, right))
}

/// The rank of each value from 1; equal values share the mean of their ranks.
///
/// # Errors
/// [`Error::Unusable`].
pub fn ranks(values: &[f64]) -> Result<Vec<f64>, Error> {
    check::usable(values)?;
    Ok(moments::ranks(values).0)
}

fn pearson(left: &[f64], right: &[f64]) -> Option<f64> {
    let size = |values| moments::squared_deviations(values).sqrt();
    let size = size(left) * size(right);
    let (left_mean, right_mean) = (moments::mean(left), moments::mean(right));
    let together: f64 =
        left.iter().zip(right).map(|(left, right)| (left - left_mean) * (right - right_mean)).sum();
    (0.0 < size).then(|| (together / size).clamp(-1.0, 1.0))
}

/// After Knight: sorting by one list, the swaps that sort the other one are the discordant pairs.
fn kendall_tau_b(left: &[f64], right: &[f64]) -> Option<f64> {
    // Adding 0 makes both zeros one value.
    let mut pairs: Vec<(f64, f64)> =
        left.iter().zip(right).map(|(left, right)| (left + 0.0, right + 0.0)).collect();
    pairs.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    let n_left_ties = tied_pairs(pairs.chunk_by(|one, other| one.0 == other.0));
    let n_both_ties = tied_pairs(pairs.chunk_by(|one, other| one == other));
    let mut order: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    let n_swaps = sort_counting(&mut order);
    let n_right_ties = tied_pairs(order.chunk_by(|one, other| one == other));
    let n_all = pairs_of(pairs.len());
    let (left_apart, right_apart) = (n_all - n_left_ties, n_all - n_right_ties);
    let concordant_minus_discordant =
        left_apart - n_right_ties + n_both_ties - 2.0 * n_swaps as f64;
    let size = left_apart.sqrt() * right_apart.sqrt();
    (0.0 < size).then(|| (concordant_minus_discordant / size).clamp(-1.0, 1.0))
}

fn pairs_of(n: usize) -> f64 {
    n as f64 * (n as f64 - 1.0) / 2.0
}

fn tied_pairs<'a, T: 'a>(groups: impl Iterator<Item = &'a [T]>) -> f64 {
    groups.map(|group| pairs_of(group.len())).sum()
}

/// Sorts by merging and returns how many pairs were in descending order.
fn sort_counting(values: &mut Vec<f64>) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let mut upper = values.split_off(values.len() / 2);
    let mut n_swaps = sort_counting(values) + sort_counting(&mut upper);
    let lower = std::mem::take(values);
    let mut upper = upper.into_iter().peekable();
    for (at, value) in lower.iter().enumerate() {
        while let Some(smaller) = upper.next_if(|other| other < value) {
            values.push(smaller);
            n_swaps += (lower.len() - at) as u64;
        }
        values.push(*value);
    }
    values.extend(upper);
    n_swaps
}
