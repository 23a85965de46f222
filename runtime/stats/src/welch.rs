//! Two lists whose items do not match one another (evaluation.md 5.5 and 6).

use crate::check::{self, Error};
use crate::distribution::t_p;
use crate::{TTest, moments};

/// Welch's t test of `current` against `reference`, which may spread differently; a positive `t` means
/// that `current` is larger. `None` where a list has fewer than two values, or neither spreads.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`].
pub fn welch(reference: &[f64], current: &[f64]) -> Result<Option<TTest>, Error> {
    check::some_usable(reference)?;
    check::some_usable(current)?;
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
    let t = (moments::mean(current) - moments::mean(reference)) / stderr;
    let p = t_p(t, n_free);
    Ok(t.is_finite().then_some(TTest { t, p }))
}
