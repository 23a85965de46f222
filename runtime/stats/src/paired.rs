//! Two runs over the same items (evaluation.md 5.5): how much, how surely, and in how many items.
//!
//! `reference` is the baseline and `candidate` what is compared with it, matched by position. Numbers
//! are not turned round where lower is better; only words are.

use crate::check::{self, Error};
use crate::distribution::{at_most, chi_squared_p, normal_p, normal_quantile, t_p};
use crate::random::SplitMix64;
use crate::summary::{self, Clustered};
use crate::{Clusters, Interval, TTest, moments};

/// From this many items that are not tied on, the permutation test draws flips instead of trying all of
/// them.
const TOO_MANY_TO_ENUMERATE: usize = 13;

/// From this many disagreements on McNemar's test is approximated.
const ENOUGH_FOR_CHI_SQUARED: u64 = 25;

/// Options of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The level of the intervals.
    pub level: f64,
    /// Seed of the random sign flips.
    pub seed: u64,
    /// Number of random sign flips, if not all are tried; 10 000 by default.
    pub flips: usize,
}

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Number of compared items.
    pub n: usize,
    /// The mean of candidate minus reference.
    pub mean_difference: f64,
    /// The standard deviation of the differences: needs two items.
    pub sd: Option<f64>,
    /// The standard error of the mean difference: needs two items.
    pub stderr: Option<f64>,
    /// The t interval of the mean difference: needs two items.
    pub interval: Option<Interval>,
    /// The same with the items of a cluster taken as dependent, where clusters were given.
    pub clustered: Option<Clustered>,
    /// The effect size: mean difference in standard deviations. Needs differences that differ.
    pub dz: Option<f64>,
    /// The paired t test: needs differences that differ.
    pub t: Option<TTest>,
    /// In how many items the candidate is larger.
    pub wins: u64,
    /// In how many items the candidate is smaller.
    pub losses: u64,
    /// In how many items both are equal.
    pub ties: u64,
    /// The sign test over wins and losses, exact; 1 where all items are tied.
    pub sign_p: f64,
    /// The sign-flip permutation test of the sum of the differences: exact for up to 12 items that are
    /// not tied, and where all that are not tied differ by the same amount.
    pub permutation_p: f64,
    /// Wilcoxon's test: needs one item that is not tied.
    pub wilcoxon: Option<Wilcoxon>,
    /// McNemar's test: needs values that are all 0 or 1.
    pub mcnemar: Option<McNemar>,
}

/// Wilcoxon's signed-rank test, by the normal approximation without correction for continuity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wilcoxon {
    /// The smaller of both rank sums; tied items are left out.
    pub w: f64,
    /// Its p-value, corrected for equal ranks.
    pub p: f64,
}

/// McNemar's test of items that pass (1) or fail (0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct McNemar {
    /// Number of items that only the candidate passes.
    pub only_candidate: u64,
    /// Number of items that only the reference passes.
    pub only_reference: u64,
    /// The exact binomial p-value.
    pub exact_p: f64,
    /// χ² with correction for continuity: needs one disagreement.
    pub chi_squared_p: Option<f64>,
}

/// The interval of the difference of paired proportions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairedProportions {
    /// The standard error.
    pub stderr: f64,
    /// The interval, within -1 and 1.
    pub interval: Interval,
}

impl McNemar {
    /// The interval of the difference of proportions over `n` items, by Bonett and Price: one disagreement more
    /// on each side. Unlike the t interval, it has a width where nothing differs.
    ///
    /// # Errors
    /// [`Error::Setting`] for the level or fewer items than disagreements.
    pub fn difference(&self, n: u64, level: f64) -> Result<PairedProportions, Error> {
        check::level(level)?;
        if n < self.only_candidate + self.only_reference {
            return Err(Error::Setting { name: "n", rule: "must not be less than disagreements" });
        }
        let n = n as f64 + 2.0;
        let up = (self.only_candidate as f64 + 1.0) / n;
        let down = (self.only_reference as f64 + 1.0) / n;
        let middle = up - down;
        let stderr = ((up + down - middle * middle).max(0.0) / n).sqrt();
        let reach = normal_quantile(1.0 - level) * stderr;
        let interval =
            Interval { lower: (middle - reach).max(-1.0), upper: (middle + reach).min(1.0) };
        Ok(PairedProportions { stderr, interval })
    }

    /// Whether [`McNemar::p`] is exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.only_candidate + self.only_reference < ENOUGH_FOR_CHI_SQUARED
    }

    /// The p-value to show: exact with fewer than 25 disagreements, otherwise χ².
    #[must_use]
    pub fn p(&self) -> f64 {
        let approximate = self.chi_squared_p.filter(|_| !self.is_exact());
        approximate.unwrap_or(self.exact_p)
    }
}

/// Compares `candidate` with `reference`, item by item.
///
/// # Errors
/// [`Error::Empty`], [`Error::Unusable`], [`Error::Lengths`] where items or clusters do not match,
/// [`Error::Setting`] for the level or no flips.
pub fn compare(
    reference: &[f64],
    candidate: &[f64],
    clusters: Option<&Clusters>,
    options: Options,
) -> Result<Comparison, Error> {
    check::some_usable(reference)?;
    check::some_usable(candidate)?;
    check::same_length(reference.len(), candidate.len())?;
    check::level(options.level)?;
    if options.flips == 0 {
        return Err(Error::Setting { name: "flips", rule: "must be at least 1" });
    }
    if let Some(clusters) = clusters {
        check::same_length(reference.len(), clusters.n_values())?;
    }
    let pairs = || reference.iter().zip(candidate);
    let differences: Vec<f64> = pairs().map(|(before, after)| after - before).collect();
    let n = differences.len();
    let mean = moments::mean(&differences);
    let sd = spread(&differences, reference, candidate);
    let stderr = sd.map(|sd| sd / (n as f64).sqrt());
    let n_free = n as f64 - 1.0;
    let interval = stderr.map(|stderr| summary::around(mean, stderr, n_free, options.level));
    let t = stderr.filter(|stderr| 0.0 < *stderr).map(|stderr| {
        let t = mean / stderr;
        let p = t_p(t, n_free);
        TTest { t, p }
    });
    let wins = count(&differences, |difference| 0.0 < difference);
    let losses = count(&differences, |difference| difference < 0.0);
    Ok(Comparison {
        n,
        mean_difference: mean,
        sd,
        stderr,
        interval,
        clustered: clusters
            .and_then(|clusters| summary::clustered(&differences, clusters, options.level)),
        dz: sd.filter(|sd| 0.0 < *sd).map(|sd| mean / sd),
        t,
        wins,
        losses,
        ties: n as u64 - wins - losses,
        sign_p: even_odds_p(wins, losses),
        permutation_p: permutation_p(&differences, options),
        wilcoxon: wilcoxon(&differences),
        mcnemar: mcnemar(reference, candidate),
    })
}

fn count(differences: &[f64], holds: impl Fn(f64) -> bool) -> u64 {
    differences.iter().filter(|each| holds(**each)).count() as u64
}

/// The standard deviation of the differences; 0 where they differ by the rounding of the subtraction
/// only, which would otherwise make an effect size of millions.
fn spread(differences: &[f64], reference: &[f64], candidate: &[f64]) -> Option<f64> {
    let sd = moments::variance(differences)?.sqrt();
    let values = reference.iter().chain(candidate);
    let scale = values.fold(0.0_f64, |scale, value| scale.max(value.abs()));
    Some(if sd <= 4.0 * f64::EPSILON * scale { 0.0 } else { sd })
}

/// The probability of an at least equally uneven split if both sides are equally likely.
fn even_odds_p(left: u64, right: u64) -> f64 {
    match left + right {
        0 => 1.0,
        n => (2.0 * at_most(left.min(right), n, 0.5)).min(1.0),
    }
}

/// The share of sign patterns whose sum is at least as far from 0 as the one observed, which counts
/// itself. Differences of 0 have no sign and change no share.
fn permutation_p(differences: &[f64], options: Options) -> f64 {
    let moved: Vec<f64> = differences.iter().copied().filter(|each| *each != 0.0).collect();
    let size: f64 = moved.iter().map(|each| each.abs()).sum();
    let observed = moved.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order may differ in their last bits.
    let bar = observed - size * 1e-12;
    if moved.len() < TOO_MANY_TO_ENUMERATE {
        let n_patterns = 1_u32 << moved.len();
        let is_as_far = |pattern: &u32| bar <= signed_sum(&moved, *pattern).abs();
        let n_as_far = (0..n_patterns).filter(is_as_far).count();
        return n_as_far as f64 / f64::from(n_patterns);
    }
    if moved.windows(2).all(|pair| pair[0].abs() == pair[1].abs()) {
        // Only their number with each sign counts.
        let n_up = count(&moved, |each| 0.0 < each);
        return even_odds_p(n_up, moved.len() as u64 - n_up);
    }
    let sums = SignedSums::of(&moved);
    let mut random = SplitMix64::new(options.seed);
    let n_as_far = (0..options.flips).filter(|_| bar <= sums.draw(&mut random).abs()).count();
    (n_as_far + 1) as f64 / (options.flips + 1) as f64
}

/// The sum of values whose bit in `pattern` is 0, minus the sum of the others.
fn signed_sum(values: &[f64], pattern: u32) -> f64 {
    let signed = values.iter().enumerate().map(|(at, value)| match pattern >> at & 1 {
        0 => *value,
        _ => -value,
    });
    signed.sum()
}

/// The sums of all sign patterns of four values at a time: a draw adds a quarter as many numbers.
struct SignedSums(Vec<[f64; 16]>);

impl SignedSums {
    fn of(values: &[f64]) -> Self {
        let table = |four: &[f64]| {
            let mut table = [0.0; 16];
            for (sum, pattern) in table.iter_mut().zip(0..) {
                *sum = signed_sum(four, pattern);
            }
            table
        };
        Self(values.chunks(4).map(table).collect())
    }

    /// The sum with random signs: one bit for each value.
    fn draw(&self, random: &mut SplitMix64) -> f64 {
        let mut total = 0.0;
        for tables in self.0.chunks(16) {
            let mut bits = random.next_u64();
            let mut part = 0.0;
            for table in tables {
                part += table[(bits & 15) as usize];
                bits >>= 4;
            }
            total += part;
        }
        total
    }
}

fn wilcoxon(differences: &[f64]) -> Option<Wilcoxon> {
    let moved: Vec<f64> =
        differences.iter().copied().filter(|difference| *difference != 0.0).collect();
    if moved.is_empty() {
        return None;
    }
    let sizes: Vec<f64> = moved.iter().map(|difference| difference.abs()).collect();
    let (ranks, ties) = moments::ranks(&sizes);
    let n = moved.len() as f64;
    let up: f64 = ranks
        .iter()
        .zip(&moved)
        .filter(|(_, difference)| 0.0 < **difference)
        .map(|(rank, _)| rank)
        .sum();
    let w = up.min(n * (n + 1.0) / 2.0 - up);
    let variance = (n * (n + 1.0) * (2.0 * n + 1.0) - ties / 2.0) / 24.0;
    let z = (w - n * (n + 1.0) / 4.0) / variance.sqrt();
    Some(Wilcoxon { w, p: normal_p(z) })
}

fn mcnemar(reference: &[f64], candidate: &[f64]) -> Option<McNemar> {
    let is_bit = |value: &f64| *value == 0.0 || *value == 1.0;
    if !reference.iter().chain(candidate).all(is_bit) {
        return None;
    }
    let only = |winner: &[f64], loser: &[f64]| {
        let pairs = winner.iter().zip(loser);
        pairs.filter(|(winner, loser)| loser < winner).count() as u64
    };
    let only_candidate = only(candidate, reference);
    let only_reference = only(reference, candidate);
    let n = (only_candidate + only_reference) as f64;
    let apart = only_candidate.abs_diff(only_reference) as f64;
    Some(McNemar {
        only_candidate,
        only_reference,
        exact_p: even_odds_p(only_candidate, only_reference),
        chi_squared_p: (0.0 < n).then(|| chi_squared_p((apart - 1.0).powi(2) / n)),
    })
}
