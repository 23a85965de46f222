//! Tests of one metric between two runs, without a verdict.

use perpend_stats::fisher::{self, Successes};
use perpend_stats::paired::{self, McNemar};
use perpend_stats::{Clusters, Error, Interval, bootstrap, power, proportion, summary, welch};

use crate::comparison::{ConfidenceInterval, Method, MetricSummary};

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

/// Compares values of the same items.
///
/// # Errors
/// For no values and values that are not finite.
pub(crate) fn paired(
    base: &[f64],
    run: &[f64],
    clusters: Option<&Clusters>,
    params: TestParams,
) -> Result<Tested, Error> {
    let options = paired::Options { level: params.level(), seed: params.seed, flips: FLIPS };
    let found = paired::compare(base, run, clusters, options)?;
    let differences: Vec<f64> = base.iter().zip(run).map(|(base, run)| run - base).collect();
    let n = found.n as u64;
    let mut tested = Tested {
        n,
        mean: found.mean_difference,
        interval: found.interval,
        bootstrap: resampled(&differences, clusters, params),
        method: permutation(found.wins + found.losses),
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
    if let Some(mcnemar) = found.mcnemar {
        tested.effect_size = Some(found.mean_difference);
        if clusters.is_none() {
            pass_fail(&mut tested, mcnemar, params)?;
        }
    }
    if let (Some(clusters), Some(clustered)) = (clusters, found.clustered) {
        let members = clusters.members();
        let sum = |members: &Vec<usize>| members.iter().map(|at| differences[*at]).sum::<f64>();
        let sums: Vec<f64> = members.iter().map(sum).collect();
        let zeros = vec![0.0; sums.len()];
        tested.method = Method::ClusterPermutation;
        tested.p = paired::compare(&zeros, &sums, None, options)?.permutation_p;
        tested.interval = clustered.interval;
        tested.stderr = (1 < clustered.n_clusters).then_some(clustered.stderr);
        tested.n_moved = sums.iter().filter(|sum| **sum != 0.0).count() as u64;
        tested.n_units = sums.len() as u64;
        // Tests that take items as independent.
        (tested.t_p, tested.wilcoxon_p, tested.sign_p) = (None, None, None);
    }
    Ok(tested)
}

fn permutation(n_moved: u64) -> Method {
    // As many as `paired::compare` tries all patterns of.
    if n_moved <= 12 { Method::PermutationExact } else { Method::Permutation }
}

fn pass_fail(tested: &mut Tested, mcnemar: McNemar, params: TestParams) -> Result<(), Error> {
    let difference = mcnemar.difference(tested.n, params.level())?;
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
    clusters: Option<&Clusters>,
    params: TestParams,
) -> Option<Interval> {
    if differences.len() < 2 || MAX_RESAMPLED < differences.len() {
        return None;
    }
    let options =
        bootstrap::Options { seed: params.seed, resamples: RESAMPLES, level: params.level() };
    bootstrap::mean(differences, clusters, options).ok().map(|found| found.interval)
}

/// Compares values of different items.
///
/// # Errors
/// For no values and values that are not finite.
pub(crate) fn unpaired(
    base: &[f64],
    run: &[f64],
    params: TestParams,
) -> Result<Option<Tested>, Error> {
    let is_bit = |value: &f64| *value == 0.0 || *value == 1.0;
    let n_base = base.len() as f64;
    let n_run = run.len() as f64;
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
    if base.iter().chain(run).all(is_bit) {
        let successes = |values: &[f64]| Successes {
            k: values.iter().filter(|value| **value == 1.0).count() as u64,
            n: values.len() as u64,
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
    let Some(found) = welch::compare(base, run, params.level())? else { return Ok(None) };
    tested.mean = found.mean_difference;
    tested.interval = Some(found.interval);
    tested.p = found.t.p;
    tested.t_p = Some(found.t.p);
    tested.stderr = Some(found.stderr);
    Ok(Some(tested))
}

/// Describes the values of a run; `n_missing` items have none.
pub(crate) fn summarize(
    values: &[f64],
    clusters: Option<&Clusters>,
    n_missing: u64,
    alpha: f64,
) -> MetricSummary {
    let level = 1.0 - alpha;
    let n = values.len() as u64;
    let Ok(found) = summary::summarize(values, clusters, level) else {
        return MetricSummary { n, n_missing, ..MetricSummary::default() };
    };
    let is_bit = |value: &f64| *value == 0.0 || *value == 1.0;
    let mut interval = found.interval;
    let mut stderr = found.stderr;
    if let Some(clustered) = found.clustered {
        interval = clustered.interval;
        stderr = (1 < clustered.n_clusters).then_some(clustered.stderr);
    } else if values.iter().all(is_bit) {
        let k = values.iter().filter(|value| **value == 1.0).count() as u64;
        interval = proportion::wilson(k, n, level).ok();
    }
    MetricSummary {
        n,
        n_missing,
        mean: found.mean,
        stderr,
        interval: interval.map(ends),
        median: found.median,
        p95: found.p95,
        min: found.min,
        max: found.max,
    }
}

/// The interval as it is sent.
pub(crate) fn ends(interval: Interval) -> ConfidenceInterval {
    ConfidenceInterval { lower: interval.lower, upper: interval.upper }
}
