//! Tails and quantiles of the distributions that the tests need. The special functions are those of
//! `statrs`; its inverses are not used, because they stop early or do not converge for large samples.

use statrs::function::beta::beta_reg;
use statrs::function::erf::{erfc, erfc_inv};
use statrs::function::factorial::ln_binomial;

/// The two-sided quantile of the standard normal distribution.
pub(crate) fn normal_quantile(p_outside: f64) -> f64 {
    std::f64::consts::SQRT_2 * erfc_inv(p_outside)
}

/// The probability of a standard normal value at least this far from 0.
pub(crate) fn normal_p(z: f64) -> f64 {
    erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The probability of a chi-squared value of one degree of freedom at least this large.
pub(crate) fn chi_squared_p(value: f64) -> f64 {
    normal_p(value.max(0.0).sqrt())
}

/// The probability of a t value at least this far from 0.
pub(crate) fn t_p(t: f64, n_free: f64) -> f64 {
    beta_reg(n_free / 2.0, 0.5, n_free / (n_free + t * t)).clamp(0.0, 1.0)
}

/// The two-sided quantile of the t distribution, for at least one degree of freedom.
pub(crate) fn t_quantile(p_outside: f64, n_free: f64) -> f64 {
    let mut high = 1.0;
    while p_outside < t_p(high, n_free) && high < 1e300 {
        high *= 2.0;
    }
    root(0.0, high, |t| t_p(t, n_free) <= p_outside)
}

/// The probability of at most `k` successes in `n` trials that succeed with probability `p`,
/// which is neither 0 nor 1.
pub(crate) fn at_most(k: u64, n: u64, p: f64) -> f64 {
    if n as f64 * p < k as f64 {
        return 1.0 - at_least(k + 1, n, p);
    }
    // From `k` downwards the terms only shrink.
    let odds = (1.0 - p) / p;
    let ratios = (1..=k).rev().map(|at| at as f64 / (n - at + 1) as f64 * odds);
    tail(binomial(k, n, p), ratios)
}

/// The probability of at least `k` successes; as [`at_most`].
pub(crate) fn at_least(k: u64, n: u64, p: f64) -> f64 {
    if n < k {
        return 0.0;
    }
    if 0 < k && (k as f64) < n as f64 * p {
        return 1.0 - at_most(k - 1, n, p);
    }
    let odds = p / (1.0 - p);
    let ratios = (k..n).map(|at| (n - at) as f64 / (at + 1) as f64 * odds);
    tail(binomial(k, n, p), ratios)
}

/// The probability of exactly `k` successes.
fn binomial(k: u64, n: u64, p: f64) -> f64 {
    (ln_binomial(n, k) + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()).exp()
}

/// The first term and those that follow from it by `ratios`, until they no longer count.
fn tail(first: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let mut term = first;
    let mut sum = first;
    for ratio in ratios {
        term *= ratio;
        sum += term;
        // One term may be the mode, where the next is as large; behind it they fall.
        if ratio < 1.0 && term <= sum * 1e-18 {
            break;
        }
    }
    sum.min(1.0)
}

/// The point between `low` and `high` at which `is_beyond` becomes true, to the last bit.
pub(crate) fn root(mut low: f64, mut high: f64, is_beyond: impl Fn(f64) -> bool) -> f64 {
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || high <= middle {
            return middle;
        }
        if is_beyond(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_t_quantile_of_a_large_sample_is_that_of_the_normal_distribution() {
        for n_free in [1e4, 1e5, 1e6, 1e7] {
            let z = normal_quantile(0.05);
            // The first term of the expansion of t in 1/n.
            let expected = z + (z.powi(3) + z) / (4.0 * n_free);
            assert!((t_quantile(0.05, n_free) - expected).abs() < 1e-7);
        }
    }

    #[test]
    fn the_t_distribution_of_one_degree_is_that_of_cauchy() {
        assert!((t_quantile(0.05, 1.0) - 12.706_204_736_432_1).abs() < 1e-9);
        assert!((t_p(1.0, 1.0) - 0.5).abs() < 1e-14);
    }

    #[test]
    fn both_binomial_tails_make_one() {
        for (k, n, p) in [(3, 10, 0.5), (0, 4, 0.1), (700, 1_000, 0.69), (500_300, 1_000_000, 0.5)]
        {
            let sum = at_most(k, n, p) + at_least(k + 1, n, p);
            assert!((sum - 1.0).abs() < 1e-8, "{k} of {n}: {sum}");
        }
        assert_eq!(at_least(0, 4, 0.5), 1.0);
        // The normal approximation with the correction for continuity.
        let p = at_most(499_000, 1_000_000, 0.5);
        let approximate = normal_p((499_000.5 - 500_000.0) / 500.0) / 2.0;
        assert!((p - approximate).abs() < 1e-6, "{p} {approximate}");
    }
}
