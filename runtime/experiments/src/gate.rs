//! The gate: may this run ship?

use perpend_domain::experiment::{ItemResult, RunResults};
use perpend_stats::multiple::Correction;
use serde::{Deserialize, Serialize};

use crate::compare::summarize;
use crate::comparison::{
    ComparedRun, Comparison, DirectionSource, ItemComparison, MetricComparison, Verdict,
    WarningKind,
};
use crate::gate_config::{Confidence, Effect, GateConfig, GateCorrection, Requirement};
use crate::gate_items::{GateItemCheck, item_checks};
use crate::gate_status::{CheckStatus, holds};
use crate::names;
use crate::number::{distinct, items, number, signed};
use crate::options::{CompareError, CompareOptions};

/// The largest number of items in a report.
const MAX_ITEMS: usize = 10;

/// The outcome of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum GateOutcome {
    /// All requirements hold.
    Passed,
    /// A requirement does not hold.
    Failed,
    /// Too few items, no baseline or an inconclusive comparison.
    Undecided,
    /// The run cost more than allowed.
    OverBudget,
}

impl GateOutcome {
    /// The name of the wire value.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Undecided => "undecided",
            Self::OverBudget => "over_budget",
        }
    }

    /// The exit code of the command. 3 is an error of configuration or connection.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Undecided => 2,
            Self::OverBudget => 4,
        }
    }
}

/// The result of a gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GateReport {
    /// The outcome.
    pub outcome: GateOutcome,
    /// The run.
    pub run: ComparedRun,
    /// The baseline; `null` without one.
    pub baseline: Option<ComparedRun>,
    /// All requirements with their results.
    pub checks: Vec<GateCheck>,
    /// The checks that did not pass.
    pub failures: Vec<GateCheck>,
    /// The metrics of the requirements, of the baseline first.
    pub metrics: Vec<MetricComparison>,
    /// Circumstances that limit the comparison, as sentences.
    pub warnings: Vec<String>,
    /// The ten items that became worse by most.
    pub worst_items: Vec<ItemComparison>,
    /// Each item with each metric of the requirements; absent unless requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<GateItemCheck>,
}

/// A requirement with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GateCheck {
    /// The condition of the requirement, such as `mean_at_least`, or the limit.
    pub rule: String,
    /// The metric; `null` for limits of the run.
    pub metric: Option<String>,
    /// The result.
    pub status: CheckStatus,
    /// The number that was compared; `null` if absent.
    pub value: Option<f64>,
    /// The threshold, or the margin of a comparison.
    pub threshold: f64,
    /// The verdict of a comparison with the baseline; `null` for other conditions.
    pub verdict: Option<Verdict>,
    /// A sentence with the numbers.
    pub message: String,
}

/// The runs of a gate.
#[derive(Clone, Debug)]
pub struct GateRuns {
    /// The run.
    pub run: RunResults,
    /// The baseline.
    pub baseline: Option<RunResults>,
}

/// Checks a run, and lists its items.
///
/// # Errors
/// As [`gate`].
pub fn gate_with_items(
    config: &GateConfig,
    runs: GateRuns,
    options: &CompareOptions,
) -> Result<GateReport, CompareError> {
    let expected = runs.run.expected_items.clone().unwrap_or_default();
    let (mut report, comparison) = checked(config, runs, options)?;
    report.items = item_checks(config, &comparison, &expected);
    Ok(report)
}

/// Checks a run. `options` supply definitions of scores, clusters and further runs of the baseline; the file of the gate
/// decides the rest.
///
/// # Errors
/// [`CompareError`] if the runs cannot be compared at all.
pub fn gate(
    config: &GateConfig,
    runs: GateRuns,
    options: &CompareOptions,
) -> Result<GateReport, CompareError> {
    Ok(checked(config, runs, options)?.0)
}

fn checked(
    config: &GateConfig,
    runs: GateRuns,
    options: &CompareOptions,
) -> Result<(GateReport, Comparison), CompareError> {
    let GateRuns { run, baseline } = runs;
    let has_baseline = baseline.is_some();
    if baseline.as_ref().is_some_and(|baseline| baseline.run.id == run.run.id) {
        return Err(CompareError::OwnBaseline { id: run.run.id });
    }
    let compared: Vec<RunResults> = baseline.into_iter().chain([run]).collect();
    let comparison =
        summarize(&compared, &compare_options(config, options)).map_err(|error| match error {
            CompareError::Option { option: "clusterBy", rule } => {
                CompareError::Option { option: "stats.cluster_by", rule }
            }
            other => other,
        })?;
    let at = compared.len() - 1;
    let mut checks = limits(config, &comparison.runs[at]);
    let max_usd = config.limits.max_usd;
    checks.extend(max_usd.map(|most| cost_check(most, &compared[at].items)));
    let metrics = comparison.metrics.iter();
    checks.extend(metrics.filter_map(|metric| missing_scores(config, metric)));
    for requirement in &config.require {
        checks.extend(requirement_checks(config, requirement, &comparison, has_baseline));
    }
    Ok((report(&comparison, has_baseline, checks), comparison))
}

fn report(comparison: &Comparison, has_baseline: bool, checks: Vec<GateCheck>) -> GateReport {
    let failures: Vec<GateCheck> =
        checks.iter().filter(|check| check.status != CheckStatus::Passed).cloned().collect();
    let has = |status| failures.iter().any(|check| check.status == status);
    let outcome = if has(CheckStatus::OverBudget) {
        GateOutcome::OverBudget
    } else if has(CheckStatus::Failed) {
        GateOutcome::Failed
    } else if has(CheckStatus::Undecided) {
        GateOutcome::Undecided
    } else {
        GateOutcome::Passed
    };
    let mut runs = comparison.runs.clone();
    let is_worse = |item: &&ItemComparison| item.is_regressed && item.change < 0.0;
    let worst = comparison.items.iter().filter(is_worse).take(MAX_ITEMS);
    // Requirements report the others.
    let is_shown = |kind| !matches!(kind, WarningKind::Direction | WarningKind::UnknownMetric);
    let warnings = comparison.warnings.iter().filter(|warning| is_shown(warning.kind));
    GateReport {
        outcome,
        baseline: has_baseline.then(|| runs.remove(0)),
        run: runs.remove(0),
        checks,
        failures,
        metrics: comparison.metrics.clone(),
        warnings: warnings.map(|warning| warning.message.clone()).collect(),
        worst_items: if has_baseline { worst.cloned().collect() } else { Vec::new() },
        items: Vec::new(),
    }
}

fn compare_options(config: &GateConfig, options: &CompareOptions) -> CompareOptions {
    let mut options = options.clone();
    options.base = None;
    options.alpha = config.stats.alpha;
    options.correction = match config.stats.correction {
        GateCorrection::Holm => Correction::Holm,
        GateCorrection::Bh => Correction::BenjaminiHochberg,
        GateCorrection::Bonferroni => Correction::Bonferroni,
    };
    options.metrics = config.require.iter().map(|each| each.metric.clone()).collect();
    options.segments = None;
    for requirement in &config.require {
        if let Some(margin) = requirement.margin() {
            options.margins.insert(requirement.metric.clone(), margin);
        }
    }
    for (metric, direction) in &config.directions {
        let Some(score) = names::score_of_metric(metric) else { continue };
        let definition = options.scores.entry(score.to_owned()).or_default();
        definition.direction = Some((*direction, DirectionSource::Request));
    }
    options
}

fn limits(config: &GateConfig, run: &ComparedRun) -> Vec<GateCheck> {
    let limits = &config.limits;
    let few = run.n_items < limits.min_items;
    let at_most = |rule: &str, n: u64, most: u64, what: &str| {
        let status = if n <= most { CheckStatus::Passed } else { CheckStatus::Failed };
        let message = format!("{} {what}, at most {most} allowed", items(n));
        check(rule, status, Some(n as f64), most as f64, message)
    };
    vec![
        check(
            "min_items",
            if few { CheckStatus::Undecided } else { CheckStatus::Passed },
            Some(run.n_items as f64),
            limits.min_items as f64,
            format!("{}, at least {} required", items(run.n_items), limits.min_items),
        ),
        at_most(
            "max_failed_items",
            run.n_failed_items,
            limits.max_failed_items,
            "with a failed result",
        ),
        at_most(
            "max_missing_items",
            run.n_missing_items.unwrap_or_default(),
            limits.max_missing_items,
            "without a result",
        ),
        at_most(
            "max_duplicate_items",
            run.n_duplicate_items,
            limits.max_duplicate_items,
            "with more results than the others",
        ),
    ]
}

fn cost_check(most: f64, results: &[ItemResult]) -> GateCheck {
    let costs = || results.iter().filter_map(|result| result.cost_usd);
    let total = costs().reduce(|a, b| a + b);
    let n_unknown = results.len() - costs().count();
    let status = match total {
        Some(usd) if !holds(usd, most, false) => CheckStatus::OverBudget,
        Some(_) if n_unknown == 0 => CheckStatus::Passed,
        _ => CheckStatus::Undecided,
    };
    let unknown = format!("cost of {n_unknown} of {} results unknown", results.len());
    let cost = match total {
        Some(usd) if n_unknown == 0 => format!("{} USD", number(usd)),
        Some(usd) => format!("{} USD, {unknown}", number(usd)),
        None => unknown,
    };
    let message = format!("{cost}, at most {} USD allowed", number(most));
    check("max_usd", status, total, most, message)
}

fn check(
    rule: &str,
    status: CheckStatus,
    value: Option<f64>,
    threshold: f64,
    message: String,
) -> GateCheck {
    let rule = rule.to_owned();
    GateCheck { rule, metric: None, status, value, threshold, verdict: None, message }
}

fn requirement_checks(
    config: &GateConfig,
    requirement: &Requirement,
    comparison: &Comparison,
    has_baseline: bool,
) -> Vec<GateCheck> {
    let name = &requirement.metric;
    let mut checks = Vec::new();
    match comparison.metric(name) {
        None => {
            let is_empty = comparison.runs.last().is_none_or(|run| run.n_items == 0);
            let status = if is_empty { CheckStatus::Undecided } else { CheckStatus::Failed };
            for (rule, threshold) in requirement.conditions() {
                let message = format!("the run has no values of `{name}`");
                checks.push(check(rule, status, None, threshold, message));
            }
        }
        Some(metric) => {
            for (rule, threshold) in requirement.conditions() {
                checks.push(match rule {
                    "not_worse_than_baseline" | "better_than_baseline" => {
                        against_baseline(config, metric, rule, threshold, has_baseline)
                    }
                    _ => threshold_check(config, metric, rule, threshold),
                });
            }
        }
    }
    for check in &mut checks {
        check.metric = Some(name.clone());
    }
    checks
}

fn missing_scores(config: &GateConfig, metric: &MetricComparison) -> Option<GateCheck> {
    let summary = &metric.runs.last()?.summary;
    let n_missing = summary.n_missing;
    let n = summary.n + n_missing;
    let share = n_missing as f64 / n.max(1) as f64;
    let most = config.limits.max_missing_scores;
    let status = if share <= most { CheckStatus::Passed } else { CheckStatus::Failed };
    let message = format!(
        "{n_missing} of {} without a value ({} %), at most {} % allowed",
        items(n),
        number(share * 100.0),
        number(most * 100.0)
    );
    let mut check = check("max_missing_scores", status, Some(share), most, message);
    check.metric = Some(metric.name.clone());
    Some(check)
}

fn threshold_check(
    config: &GateConfig,
    metric: &MetricComparison,
    rule: &str,
    threshold: f64,
) -> GateCheck {
    let Some(run) = metric.runs.last() else {
        return check(rule, CheckStatus::Undecided, None, threshold, "no run".to_owned());
    };
    let summary = &run.summary;
    let is_bound = config.stats.confidence == Confidence::LowerBound;
    let (value, what) = match rule {
        "mean_at_least" if is_bound => {
            (summary.interval.map(|interval| interval.lower), "lower end of the mean")
        }
        "mean_at_most" if is_bound => {
            (summary.interval.map(|interval| interval.upper), "upper end of the mean")
        }
        "mean_at_least" | "mean_at_most" => (summary.mean, "mean"),
        "min_at_least" => (summary.min, "smallest value"),
        "max_at_most" => (summary.max, "largest value"),
        _ => (summary.p95, "95th percentile"),
    };
    let is_least = rule.ends_with("at_least");
    let relation = if is_least { "at least" } else { "at most" };
    let Some(value) = value else {
        let message = match (&metric.obstacle, summary.n) {
            (Some(obstacle), _) => obstacle.clone(),
            (None, 0) => "the run has no values".to_owned(),
            (None, 1) => "one value has no interval".to_owned(),
            (None, n) => format!("{n} values have no interval"),
        };
        return check(rule, CheckStatus::Undecided, None, threshold, message);
    };
    let status =
        if holds(value, threshold, is_least) { CheckStatus::Passed } else { CheckStatus::Failed };
    let (shown, required) = distinct(value, threshold);
    let message = format!("{what} {shown}, {relation} {required} required");
    check(rule, status, Some(value), threshold, message)
}

fn against_baseline(
    config: &GateConfig,
    metric: &MetricComparison,
    rule: &str,
    margin: f64,
    has_baseline: bool,
) -> GateCheck {
    let effect = |effect| match effect {
        Effect::Pass => CheckStatus::Passed,
        Effect::Fail => CheckStatus::Undecided,
    };
    let difference = metric.runs.last().and_then(|run| run.difference.as_ref());
    let Some(difference) = difference.filter(|_| has_baseline) else {
        let status = effect(config.stats.on_missing_baseline);
        return check(rule, status, None, margin, "no baseline".to_owned());
    };
    let must_be_better = rule == "better_than_baseline";
    let status = match difference.verdict {
        Verdict::Better => CheckStatus::Passed,
        Verdict::Worse => CheckStatus::Failed,
        Verdict::Equivalent if must_be_better => CheckStatus::Failed,
        Verdict::Equivalent => CheckStatus::Passed,
        Verdict::Inconclusive if must_be_better => CheckStatus::Undecided,
        Verdict::Inconclusive => effect(config.stats.on_inconclusive),
        Verdict::NotComparable => CheckStatus::Undecided,
    };
    let mut message = difference.verdict.as_str().to_owned();
    if let Some(mean) = difference.mean {
        message.push_str(&format!(": difference {}", signed(mean)));
    }
    if let Some(interval) = difference.interval {
        let ends = (signed(interval.lower), signed(interval.upper));
        message.push_str(&format!(" ({} to {})", ends.0, ends.1));
    }
    if let Some(reason) = &difference.reason {
        message.push_str(&format!("; {reason}"));
    }
    let mut check = check(rule, status, difference.mean, margin, message);
    check.verdict = Some(difference.verdict);
    check
}
