//! Agreement of any number of raters (evaluation.md 6): Krippendorff's α with gaps, Fleiss' κ without.
//!
//! Ratings come as `ratings[rater][unit]`; `None` is a unit that a rater left out.

use crate::check::{self, Error};
use crate::moments;

/// The distance of two ratings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal or not.
    Nominal,
    /// By the ratings that lie between them.
    Ordinal,
    /// By their difference.
    Interval,
}

/// Krippendorff's α, at most 1; units with fewer than two ratings are left out. `None` where the
/// ratings that remain do not differ, or none remain.
///
/// # Errors
/// [`Error::Lengths`] where raters do not have the same units, [`Error::Unusable`].
pub fn alpha(ratings: &[Vec<Option<f64>>], scale: Scale) -> Result<Option<f64>, Error> {
    let mut units = units(ratings)?;
    units.retain(|unit| 2 <= unit.len());
    if scale == Scale::Ordinal {
        rank(&mut units);
    }
    let all: Vec<f64> = units.iter().flatten().copied().collect();
    let overall = disagreement(&all, scale);
    if overall == 0.0 {
        return Ok(None);
    }
    let within = units.iter().map(|unit| disagreement(unit, scale) / (unit.len() as f64 - 1.0));
    Ok(Some(1.0 - (all.len() as f64 - 1.0) * within.sum::<f64>() / overall))
}

/// Fleiss' κ, at most 1. `None` where a rating is missing, there are fewer than two raters, or only one
/// rating was ever given.
///
/// # Errors
/// As [`alpha`].
pub fn fleiss_kappa(ratings: &[Vec<Option<f64>>]) -> Result<Option<f64>, Error> {
    let units = units(ratings)?;
    let n_raters = ratings.len() as f64;
    let is_complete = units.iter().all(|unit| unit.len() == ratings.len());
    let all: Vec<f64> = units.iter().flatten().copied().collect();
    if ratings.len() < 2 || !is_complete || moments::is_constant(&all) {
        return Ok(None);
    }
    let pairs_of_unit = n_raters * (n_raters - 1.0);
    let agreements =
        units.iter().map(|unit| 1.0 - disagreement(unit, Scale::Nominal) / pairs_of_unit);
    let observed = agreements.sum::<f64>() / units.len() as f64;
    let sizes = group_sizes(&all).into_iter();
    let by_chance: f64 = sizes.map(|size| (size / all.len() as f64).powi(2)).sum();
    Ok(Some((observed - by_chance) / (1.0 - by_chance)))
}

/// The ratings of each unit.
fn units(ratings: &[Vec<Option<f64>>]) -> Result<Vec<Vec<f64>>, Error> {
    let n_units = ratings.first().map_or(0, Vec::len);
    let mut units = vec![Vec::new(); n_units];
    for rater in ratings {
        check::same_length(n_units, rater.len())?;
        for (at, rating) in rater.iter().enumerate() {
            let Some(rating) = rating else { continue };
            check::usable(&[*rating]).map_err(|_| Error::Unusable { at })?;
            // Both zeros are one rating.
            units[at].push(rating + 0.0);
        }
    }
    Ok(units)
}

/// Puts in place of each rating its mean rank among all of them. The ordinal distance of two ratings,
/// those between them and half of both, is then the difference of their ranks.
fn rank(units: &mut [Vec<f64>]) {
    let all: Vec<f64> = units.iter().flatten().copied().collect();
    let (ranks, _) = moments::ranks(&all);
    for (rating, rank) in units.iter_mut().flatten().zip(ranks) {
        *rating = rank;
    }
}

/// The sum of the squared distances of all ordered pairs, without a table of pairs.
fn disagreement(ratings: &[f64], scale: Scale) -> f64 {
    let n = ratings.len() as f64;
    match scale {
        Scale::Nominal => {
            let equal = group_sizes(ratings).into_iter().map(|size| size * size);
            n * n - equal.sum::<f64>()
        }
        Scale::Ordinal | Scale::Interval => 2.0 * n * moments::squared_deviations(ratings),
    }
}

/// The frequency of each rating.
fn group_sizes(ratings: &[f64]) -> Vec<f64> {
    let sorted = moments::sorted(ratings);
    let groups = sorted.chunk_by(|left, right| left == right);
    groups.map(|group| group.len() as f64).collect()
}
