//! Two lists whose items do not match one another (evaluation.md 5.5 and 6).

use crate::check::{self, Error};
use crate::distribution::t_p;
use crate::{Interval, TTest, moments, summary};

/// The difference between the means of two lists, which may spread differently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Welch {
    /// The mean of `current` minus that of `reference`.
    pub mean_difference: f64,
    /// The standard error of the difference.
    pub stderr: f64,
    /// The t interval of the difference.
    pub interval: Interval,
    /// Welch's t test; a positive `t` means that `current` is larger.
    pub t: TTest,
}

/// Compares `current` with `reference`. `None` where a list has fewer than two values, or neither spreads.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], [`Error::Setting`] for the level.
pub fn compare(reference: &[f64], current: &[f64], level: f64) -> Result<Option<Welch>, Error> {
    check::some_usable(reference)?;
    check::some_usable(current)?;
    check::level(level)?;
    let of_mean = |values| Some(moments::variance(values)? / values.len() as f64);
    let (Some(left), Some(right)) = (of_mean(reference), of_mean(current)) else {
        return Ok(None);
    };
    let stderr = (left + right).sqrt();
    if stderr == 0.0 {
        return Ok(None);
    }
    let share = left / (left + right);
    let n_free = 1.0
        / (share.powi(2) / (reference.len() as f64 - 1.0)
            + (1.0 - share).powi(2) / (current.len() as f64 - 1.0));
    let mean_difference = moments::mean(current) - moments::mean(reference);
    let t = mean_difference / stderr;
    if !t.is_finite() {
        return Ok(None);
    }
    let interval = summary::around(mean_difference, stderr, n_free, level);
    Ok(Some(Welch { mean_difference, stderr, interval, t: TTest { t, p: t_p(t, n_free) } }))
}

/// Welch's t test of `current` against `reference`; as [`compare`].
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`].
pub fn welch(reference: &[f64], current: &[f64]) -> Result<Option<TTest>, Error> {
    Ok(compare(reference, current, 0.95)?.map(|welch| welch.t))
}
