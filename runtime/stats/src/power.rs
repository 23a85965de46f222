//! What a comparison could have shown (evaluation.md 5.5).

use crate::check::Error;
use crate::distribution::normal_quantile;

/// The probability with which a comparison should show a true difference.
pub const POWER: f64 = 0.8;

/// The smallest true difference that a two-sided test at `alpha` shows with the probability [`POWER`].
/// `stderr` is the standard error of the observed difference.
///
/// # Errors
/// [`Error::Setting`] for an `alpha` outside 0 to 1 and a `stderr` that is negative or not finite.
pub fn smallest_effect(stderr: f64, alpha: f64) -> Result<f64, Error> {
    if !(0.0..f64::INFINITY).contains(&stderr) {
        return Err(Error::Setting { name: "stderr", rule: "must be finite and not negative" });
    }
    Ok(reach(alpha)? * stderr)
}

/// Number of items that show a true difference of `effect` with the probability [`POWER`], at least 2. `sd` is the
/// standard deviation of the differences of the items. `None` if the number exceeds a trillion.
///
/// # Errors
/// As [`smallest_effect`], and for an `effect` that is not greater than 0.
pub fn n_needed(sd: f64, effect: f64, alpha: f64) -> Result<Option<u64>, Error> {
    if !(0.0..f64::INFINITY).contains(&sd) {
        return Err(Error::Setting { name: "sd", rule: "must be finite and not negative" });
    }
    if effect.is_nan() || effect <= 0.0 {
        return Err(Error::Setting { name: "effect", rule: "must be greater than 0" });
    }
    let n = (reach(alpha)? * sd / effect).powi(2).ceil().max(2.0);
    Ok((n <= 1e12).then_some(n as u64))
}

/// Standard errors between 0 and a difference that is shown with the probability [`POWER`]: 2.8 at 0.05.
fn reach(alpha: f64) -> Result<f64, Error> {
    if !(0.0 < alpha && alpha < 1.0) {
        let rule = "must be between 0 and 1, both excluded";
        return Err(Error::Setting { name: "alpha", rule });
    }
    Ok(normal_quantile(alpha) + normal_quantile(2.0 * (1.0 - POWER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_effect_at_five_percent_is_2_8_standard_errors() {
        assert!((smallest_effect(1.0, 0.05).unwrap() - 2.801_585).abs() < 1e-5);
        assert_eq!(smallest_effect(0.0, 0.05), Ok(0.0));
        assert!(smallest_effect(f64::NAN, 0.05).is_err());
        assert!(smallest_effect(1.0, 1.0).is_err());
    }

    #[test]
    fn half_the_effect_needs_four_times_the_items() {
        assert_eq!(n_needed(0.5, 0.1, 0.05), Ok(Some(197)));
        assert_eq!(n_needed(0.5, 0.05, 0.05), Ok(Some(785)));
        assert_eq!(n_needed(0.0, 0.05, 0.05), Ok(Some(2)));
        assert_eq!(n_needed(1e9, 1e-9, 0.05), Ok(None));
        assert!(n_needed(0.5, 0.0, 0.05).is_err());
    }
}
