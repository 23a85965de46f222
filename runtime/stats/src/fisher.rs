//! Fisher's exact test: two lists of items that pass or fail and do not match one another (evaluation.md 5.5).

use statrs::function::factorial::ln_binomial;

use crate::Interval;
use crate::check::{self, Error};
use crate::distribution::normal_quantile;

/// Successes and trials of one list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successes {
    /// Number of successes.
    pub k: u64,
    /// Number of trials.
    pub n: u64,
}

/// The difference between the proportions of two lists.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Proportions {
    /// The proportion of `current` minus that of `reference`.
    pub difference: f64,
    /// The standard error by Agresti and Caffo: one success and one failure more in each list.
    pub stderr: f64,
    /// Their interval, within -1 and 1.
    pub interval: Interval,
    /// The p-value of Fisher's exact test.
    pub p: f64,
}

/// Compares `current` with `reference`.
///
/// # Errors
/// [`Error::Empty`] for a list without trials, [`Error::Setting`] for more successes than trials or the level.
pub fn compare(reference: Successes, current: Successes, level: f64) -> Result<Proportions, Error> {
    check::level(level)?;
    for list in [reference, current] {
        if list.n == 0 {
            return Err(Error::Empty);
        }
        if list.n < list.k {
            return Err(Error::Setting { name: "k", rule: "must not be larger than n" });
        }
    }
    let share = |list: Successes| list.k as f64 / list.n as f64;
    let adjusted = |list: Successes| {
        let n = list.n as f64 + 2.0;
        let share = (list.k as f64 + 1.0) / n;
        (share, share * (1.0 - share) / n)
    };
    let (before, after) = (adjusted(reference), adjusted(current));
    let middle = after.0 - before.0;
    let stderr = (before.1 + after.1).sqrt();
    let reach = normal_quantile(1.0 - level) * stderr;
    Ok(Proportions {
        difference: share(current) - share(reference),
        stderr,
        interval: Interval { lower: (middle - reach).max(-1.0), upper: (middle + reach).min(1.0) },
        p: exact_p(reference, current),
    })
}

/// The probability of all tables with the same margins that are at most as likely as this one.
fn exact_p(reference: Successes, current: Successes) -> f64 {
    let n_passed = reference.k + current.k;
    let lowest = n_passed.saturating_sub(current.n);
    let highest = n_passed.min(reference.n);
    let all = ln_binomial(reference.n + current.n, n_passed);
    let ln_probability = |passed: u64| {
        ln_binomial(reference.n, passed) + ln_binomial(current.n, n_passed - passed) - all
    };
    // Equally likely tables may differ in their last bits.
    let bar = ln_probability(reference.k) + 1e-7;
    let tables = (lowest..=highest).map(ln_probability);
    tables.filter(|probability| *probability <= bar).map(f64::exp).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(reference: (u64, u64), current: (u64, u64)) -> f64 {
        let list = |(k, n)| Successes { k, n };
        compare(list(reference), list(current), 0.95).unwrap().p
    }

    #[test]
    fn the_tea_of_the_lady_has_the_published_p() {
        // 3 of 4 against 1 of 4: 34 / 70.
        assert!((p((1, 4), (3, 4)) - 34.0 / 70.0).abs() < 1e-12);
        assert!((p((0, 4), (4, 4)) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p((2, 4), (2, 4)) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn equal_proportions_have_an_interval_with_a_width() {
        let all = Successes { k: 5, n: 5 };
        let found = compare(all, all, 0.95).unwrap();
        assert_eq!(found.difference, 0.0);
        assert!(0.3 < found.interval.upper);
        assert_eq!(compare(all, Successes { k: 0, n: 0 }, 0.95).unwrap_err(), Error::Empty);
    }
}
