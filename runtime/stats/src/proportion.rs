//! Intervals of a share: `k` successes of `n` (evaluation.md 5.4).

use crate::Interval;
use crate::check::{self, Error};
use crate::distribution::{at_least, at_most, normal_quantile, root};

/// Wilson's interval, which Perpend shows: right on average, and never outside `0..=1`.
///
/// # Errors
/// [`Error::Empty`] for an `n` of 0, [`Error::Setting`] for more successes than trials or the level.
pub fn wilson(k: u64, n: u64, level: f64) -> Result<Interval, Error> {
    check_counts(k, n, level)?;
    Ok(around(k as f64, n as f64, level))
}

/// Wilson's interval of a share that is known from `n` effective values, which need not be a whole number.
///
/// # Errors
/// [`Error::Empty`] unless `n` is greater than 0 and finite, [`Error::Setting`] for a share outside `0..=1` or the level.
pub fn wilson_of_share(share: f64, n: f64, level: f64) -> Result<Interval, Error> {
    check::level(level)?;
    if !(0.0 < n && n.is_finite()) {
        return Err(Error::Empty);
    }
    if !(0.0..=1.0).contains(&share) {
        return Err(Error::Setting { name: "share", rule: "must be within 0 and 1" });
    }
    let k = if share == 1.0 { n } else { share * n };
    Ok(around(k, n, level))
}

fn around(k: f64, n: f64, level: f64) -> Interval {
    let z = normal_quantile(1.0 - level);
    let middle = (k + z * z / 2.0) / (n + z * z);
    let reach = z / (n + z * z) * (k * (n - k) / n + z * z / 4.0).sqrt();
    Interval {
        // The ends are known there, and rounding would miss them.
        lower: if k == 0.0 { 0.0 } else { middle - reach },
        upper: if k == n { 1.0 } else { middle + reach },
    }
}

/// The exact interval of Clopper and Pearson: it covers at least `level`, and is wider for it.
///
/// # Errors
/// As [`wilson`].
pub fn clopper_pearson(k: u64, n: u64, level: f64) -> Result<Interval, Error> {
    check_counts(k, n, level)?;
    let outside = (1.0 - level) / 2.0;
    let share = k as f64 / n as f64;
    let lower = match k {
        0 => 0.0,
        _ => root(0.0, share, |p| outside <= at_least(k, n, p)),
    };
    let upper = match n - k {
        0 => 1.0,
        _ => root(share, 1.0, |p| at_most(k, n, p) <= outside),
    };
    Ok(Interval { lower, upper })
}

fn check_counts(k: u64, n: u64, level: f64) -> Result<(), Error> {
    check::level(level)?;
    if n == 0 {
        return Err(Error::Empty);
    }
    if n < k {
        return Err(Error::Setting { name: "k", rule: "must not be larger than n" });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_that_of_its_count() {
        for (k, n) in [(0, 7), (3, 7), (7, 7)] {
            let share = k as f64 / n as f64;
            let (found, counted) =
                (wilson_of_share(share, n as f64, 0.95).unwrap(), wilson(k, n, 0.95).unwrap());
            assert!((found.lower - counted.lower).abs() < 1e-12);
            assert!((found.upper - counted.upper).abs() < 1e-12);
        }
        assert_eq!(wilson_of_share(0.5, 0.0, 0.95), Err(Error::Empty));
        assert!(wilson_of_share(f64::NAN, 5.0, 0.95).is_err());
    }
}
