//! Tests of one metric between two runs, without a verdict.

use perpend_stats::fisher::{self, Successes};
use perpend_stats::paired::{self, McNemar};
use perpend_stats::{Clusters, Error, Interval, bootstrap, power, weighted, welch};

use crate::comparison::Method;
use crate::sample::{Sample, weights};

/// The number of random sign flips.
const FLIPS: usize = 10_000;
/// The number of resamples.
const RESAMPLES: usize = 2_000;
/// The largest number of items that are resampled.
const MAX_RESAMPLED: usize = 500;

/// Parameters of a test.
#[derive(Clone, Copy)]
pub(crate) struct TestParams {
    pub(crate) alpha: f64,
    pub(crate) seed: u64,
}

impl TestParams {
    fn level(self) -> f64 {
        1.0 - self.alpha
    }

    fn options(self) -> paired::Options {
        paired::Options { level: self.level(), seed: self.seed, flips: FLIPS }
    }
}

/// The result of a test. `larger` and `smaller` count items.
#[derive(Clone, Debug)]
pub(crate) struct Tested {
    pub(crate) n: u64,
    pub(crate) mean: f64,
    pub(crate) interval: Option<Interval>,
    pub(crate) bootstrap: Option<Interval>,
    pub(crate) method: Method,
    pub(crate) p: f64,
    pub(crate) t_p: Option<f64>,
    pub(crate) wilcoxon_p: Option<f64>,
    pub(crate) sign_p: Option<f64>,
    pub(crate) larger: u64,
    pub(crate) smaller: u64,
    pub(crate) ties: u64,
    pub(crate) effect_size: Option<f64>,
    /// The standard error of `mean`.
    pub(crate) stderr: Option<f64>,
    /// The number of items, times which the squared standard error is the variance of one item.
    pub(crate) n_independent: f64,
    /// Number of items or clusters that differ, of `n_units`.
    pub(crate) n_moved: u64,
    /// Number of items, or of clusters.
    pub(crate) n_units: u64,
    /// Whether the interval has a width even if no item differs.
    pub(crate) has_wide_interval: bool,
}

impl Tested {
    /// Whether another p-value than 1 was possible.
    pub(crate) fn is_informative(&self) -> bool {
        self.p < 1.0 || 0 < self.larger + self.smaller
    }

    /// The smallest true difference that would have been seen.
    pub(crate) fn smallest_effect(&self, alpha: f64) -> Option<f64> {
        let stderr = self.stderr.filter(|stderr| 0.0 < *stderr)?;
        power::smallest_effect(stderr, alpha).ok()
    }

    /// Number of items that would show a true difference of `effect`.
    pub(crate) fn n_needed(&self, effect: f64, alpha: f64) -> Option<u64> {
        let stderr = self.stderr.filter(|stderr| 0.0 < *stderr)?;
        power::n_needed(stderr * self.n_independent.sqrt(), effect, alpha).ok().flatten()
    }
}

/// Compares values of the same items. If items were selected with different probabilities, each counts with the reciprocal
/// of the probability that both runs have it.
///
/// # Errors
/// For no values and values that are not finite.
pub(crate) fn paired(
    base: &Sample,
    run: &Sample,
    clusters: Option<&Clusters>,
    params: TestParams,
) -> Result<Tested, Error> {
    let options = params.options();
    let found = paired::compare(&base.values, &run.values, clusters, options)?;
    let pairs = base.values.iter().zip(&run.values);
    let differences: Vec<f64> = pairs.map(|(base, run)| run - base).collect();
    let rates = base.probabilities.iter().zip(&run.probabilities);
    let rates: Vec<f64> = rates.map(|(base, run)| base * run).collect();
    let weights = weights(&rates);
    let n = found.n as u64;
    let mut tested = Tested {
        n,
        mean: found.mean_difference,
        interval: found.interval,
        bootstrap: resampled(&differences, weights.as_deref(), clusters, params),
        method: permutation(&differences),
        p: found.permutation_p,
        t_p: found.t.map(|t| t.p),
        wilcoxon_p: found.wilcoxon.map(|wilcoxon| wilcoxon.p),
        sign_p: Some(found.sign_p),
        larger: found.wins,
        smaller: found.losses,
        ties: found.ties,
        effect_size: found.dz,
        stderr: found.stderr,
        n_independent: n as f64,
        n_moved: found.wins + found.losses,
        n_units: n,
        has_wide_interval: false,
    };
    if let Some(weights) = &weights {
        weighted_difference(&mut tested, (&differences, weights), clusters, params)?;
    }
    match (found.mcnemar, clusters) {
        (Some(mcnemar), None) if weights.is_none() => {
            pass_fail(&mut tested, mcnemar, params)?;
        }
        (Some(_), _) => tested.effect_size = Some(tested.mean),
        (None, _) => {}
    }
    if let (Some(clusters), Some(clustered)) = (clusters, found.clustered) {
        if weights.is_none() {
            tested.interval = clustered.interval;
            tested.stderr = (1 < clustered.n_clusters).then_some(clustered.stderr);
        }
        let weight = |at: usize| weights.as_ref().map_or(1.0, |weights| weights[at]);
        by_cluster(&mut tested, clusters, |at| weight(at) * differences[at], options)?;
    }
    Ok(tested)
}

/// Replaces the numbers that depend on weights, and leaves out tests that have none.
fn weighted_difference(
    tested: &mut Tested,
    (differences, weights): (&[f64], &[f64]),
    clusters: Option<&Clusters>,
    params: TestParams,
) -> Result<(), Error> {
    let found = weighted::summarize(differences, weights, clusters, params.level())?;
    let products: Vec<f64> =
        differences.iter().zip(weights).map(|(difference, weight)| difference * weight).collect();
    let zeros = vec![0.0; products.len()];
    tested.mean = found.mean;
    tested.interval = found.interval;
    tested.stderr = found.stderr;
    tested.effect_size = found.sd.filter(|sd| 0.0 < *sd).map(|sd| found.mean / sd);
    tested.method = permutation(&products);
    tested.p = paired::compare(&zeros, &products, None, params.options())?.permutation_p;
    tested.n_units = found.n_effective as u64;
    (tested.t_p, tested.wilcoxon_p, tested.sign_p) = (None, None, None);
    Ok(())
}

/// Replaces the test by one of the sums of clusters, and leaves out tests that take items as independent.
fn by_cluster(
    tested: &mut Tested,
    clusters: &Clusters,
    difference: impl Fn(usize) -> f64,
    options: paired::Options,
) -> Result<(), Error> {
    let members = clusters.members();
    let sum = |members: &Vec<usize>| members.iter().map(|at| difference(*at)).sum::<f64>();
    let sums: Vec<f64> = members.iter().map(sum).collect();
    let zeros = vec![0.0; sums.len()];
    tested.method = Method::ClusterPermutation;
    tested.p = paired::compare(&zeros, &sums, None, options)?.permutation_p;
    tested.n_moved = sums.iter().filter(|sum| **sum != 0.0).count() as u64;
    tested.n_units = sums.len() as u64;
    (tested.t_p, tested.wilcoxon_p, tested.sign_p) = (None, None, None);
    Ok(())
}

/// The permutation test that `paired::compare` makes: of all patterns if few items differ, or all by the same amount.
fn permutation(differences: &[f64]) -> Method {
    let moved: Vec<f64> =
        differences.iter().map(|each| each.abs()).filter(|each| *each != 0.0).collect();
    let is_one_amount = moved.windows(2).all(|pair| pair[0] == pair[1]);
    if moved.len() <= 12 || is_one_amount { Method::PermutationExact } else { Method::Permutation }
}

fn pass_fail(tested: &mut Tested, mcnemar: McNemar, params: TestParams) -> Result<(), Error> {
    let difference = mcnemar.difference(tested.n, params.level())?;
    tested.effect_size = Some(tested.mean);
    tested.p = mcnemar.p();
    tested.method = match mcnemar.is_exact() {
        true => Method::McnemarExact,
        false => Method::McnemarChiSquared,
    };
    tested.interval = Some(difference.interval);
    tested.stderr = Some(difference.stderr);
    tested.n_independent = tested.n as f64 + 2.0;
    tested.has_wide_interval = true;
    Ok(())
}

fn resampled(
    differences: &[f64],
    weights: Option<&[f64]>,
    clusters: Option<&Clusters>,
    params: TestParams,
) -> Option<Interval> {
    if differences.len() < 2 || MAX_RESAMPLED < differences.len() {
        return None;
    }
    let options =
        bootstrap::Options { seed: params.seed, resamples: RESAMPLES, level: params.level() };
    let Some(weights) = weights else {
        return bootstrap::mean(differences, clusters, options).ok().map(|found| found.interval);
    };
    let mean = |drawn: &[usize]| {
        let total: f64 = drawn.iter().map(|at| weights[*at]).sum();
        let sum: f64 = drawn.iter().map(|at| weights[*at] * differences[*at]).sum();
        Some(sum / total)
    };
    let found = bootstrap::statistic(differences.len(), clusters, options, mean);
    found.ok().flatten().map(|found| found.interval)
}

/// Compares values of different items.
///
/// # Errors
/// For no values and values that are not finite.
pub(crate) fn unpaired(
    base: &Sample,
    run: &Sample,
    params: TestParams,
) -> Result<Option<Tested>, Error> {
    let n_base = base.values.len() as f64;
    let n_run = run.values.len() as f64;
    let n = 2.0 / (1.0 / n_base + 1.0 / n_run);
    let mut tested = Tested {
        n: 0,
        mean: 0.0,
        interval: None,
        bootstrap: None,
        method: Method::Welch,
        p: 1.0,
        t_p: None,
        wilcoxon_p: None,
        sign_p: None,
        larger: 0,
        smaller: 0,
        ties: 0,
        effect_size: None,
        stderr: None,
        n_independent: n,
        n_moved: 0,
        n_units: 0,
        has_wide_interval: true,
    };
    let is_weighted = base.weights().is_some() || run.weights().is_some();
    if base.is_binary() && run.is_binary() && !is_weighted {
        let successes = |sample: &Sample| Successes {
            k: sample.values.iter().filter(|value| **value == 1.0).count() as u64,
            n: sample.values.len() as u64,
        };
        let found = fisher::compare(successes(base), successes(run), params.level())?;
        tested.mean = found.difference;
        tested.interval = Some(found.interval);
        tested.method = Method::Fisher;
        tested.p = found.p;
        tested.effect_size = Some(found.difference);
        tested.stderr = Some(found.stderr);
        return Ok(Some(tested));
    }
    let found = match is_weighted {
        false => welch::compare(&base.values, &run.values, params.level())?,
        true => {
            let summary = |sample: &Sample| {
                let weights = sample.weights().unwrap_or_else(|| vec![1.0; sample.values.len()]);
                weighted::summarize(&sample.values, &weights, None, params.level())
            };
            weighted::difference(&summary(base)?, &summary(run)?, params.level())
        }
    };
    let Some(found) = found else { return Ok(None) };
    tested.mean = found.mean_difference;
    tested.interval = Some(found.interval);
    tested.p = found.t.p;
    tested.t_p = Some(found.t.p);
    tested.stderr = Some(found.stderr);
    Ok(Some(tested))
}
