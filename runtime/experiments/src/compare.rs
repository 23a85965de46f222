//! Compares runs with a baseline.

use std::collections::HashSet;

use perpend_domain::experiment::RunResults;
use perpend_stats::{multiple, random, reducers};

use crate::columns::{self, Metric};
use crate::comparison::{
    ComparedRun, Comparison, Difference, MetricComparison, MetricKind, RunMetric,
    SegmentComparison, Verdict,
};
use crate::context::{Context, MAX_SEGMENTS, unknown_direction};
use crate::grid::Grid;
use crate::items;
use crate::matching::{ItemMatch, Matching};
use crate::names;
use crate::noise;
use crate::options::{CompareError, CompareOptions, ItemGroups, MARGIN, MAX_RUNS};
use crate::sample::{Sample, ends, summarize as summary_of};
use crate::tested::{self, TestParams, Tested};
use crate::verdict::Judged;
use crate::warnings;

/// Compares 2 to 6 runs with one of them.
///
/// # Errors
/// [`CompareError`] for runs that have nothing to compare and for options out of their range. A single metric that
/// cannot be compared has the verdict [`Verdict::NotComparable`] with the reason.
pub fn compare(runs: &[RunResults], options: &CompareOptions) -> Result<Comparison, CompareError> {
    if runs.len() < 2 {
        return Err(CompareError::NumberOfRuns { n: runs.len() });
    }
    if let Some(run) = runs.iter().find(|run| run.items.is_empty()) {
        return Err(CompareError::EmptyRun { id: run.run.id.clone() });
    }
    summarize(runs, options)
}

/// As [`compare`], also of runs without results and of a single run, which has no differences.
///
/// # Errors
/// As [`compare`].
pub fn summarize(
    runs: &[RunResults],
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    let base = check(runs, options)?;
    let grid = Grid::new(runs, &options.noise_runs);
    let metrics = columns::metrics(&grid, options);
    let matchings: Vec<Matching> =
        grid.compared().iter().map(|run| Matching::new(&grid, &grid.runs[base], run)).collect();
    let context = Context { grid: &grid, base, matchings: &matchings, options };
    let margins: Vec<f64> = metrics.iter().map(|metric| context.margin(metric)).collect();
    let mut tests: Vec<MetricTest<'_>> = Vec::with_capacity(metrics.len());
    for (metric, margin) in metrics.iter().zip(&margins) {
        tests.push(context.test(metric, *margin, None));
    }
    let mut segments = context.segments(&metrics, &margins);
    adjust(tests.iter_mut(), options)?;
    adjust(segments.iter_mut().flat_map(|segment| &mut segment.tests), options)?;
    let metric_comparisons: Vec<MetricComparison> =
        tests.into_iter().map(|test| test.finish(&context)).collect();
    let compared: Vec<ComparedRun> = (0..runs.len()).map(|run| context.run(run)).collect();
    let warnings = warnings::collect(&context, &metrics, &compared);
    let items = items::items(&context, &metrics);
    Ok(Comparison {
        base: runs[base].run.id.clone(),
        alpha: options.alpha,
        runs: compared,
        noise_runs: options.noise_runs.iter().map(|run| run.run.id.clone()).collect(),
        warnings,
        metrics: metric_comparisons,
        segments: segments.into_iter().map(|segment| segment.finish(&context)).collect(),
        n_items: items.len() as u64,
        items,
    })
}

/// The number of the baseline.
fn check(runs: &[RunResults], options: &CompareOptions) -> Result<usize, CompareError> {
    if runs.is_empty() || MAX_RUNS < runs.len() {
        return Err(CompareError::NumberOfRuns { n: runs.len() });
    }
    let mut ids = HashSet::new();
    for run in runs {
        if !ids.insert(&run.run.id) {
            return Err(CompareError::SameRun { id: run.run.id.clone() });
        }
    }
    let base = match &options.base {
        None => 0,
        Some(id) => runs
            .iter()
            .position(|run| run.run.id == *id)
            .ok_or_else(|| CompareError::UnknownBase { id: id.clone() })?,
    };
    let dataset = &runs[base].run.dataset_id;
    for run in runs {
        let datasets = run.run.dataset_id.as_ref().zip(dataset.as_ref());
        if datasets.is_some_and(|(left, right)| left != right) {
            let left = runs[base].run.id.clone();
            return Err(CompareError::Datasets { left, right: run.run.id.clone() });
        }
    }
    check_numbers(options)?;
    check_groups(options, runs, base)?;
    Ok(base)
}

fn check_groups(
    options: &CompareOptions,
    runs: &[RunResults],
    base: usize,
) -> Result<(), CompareError> {
    let wrong = |option, rule: String| Err(CompareError::Option { option, rule });
    for (option, groups) in [("clusterBy", &options.clusters), ("segmentBy", &options.segments)] {
        if let Some(ItemGroups { key, .. }) =
            groups.as_ref().filter(|groups| groups.values.is_empty())
        {
            return wrong(option, format!("must be a metadata key of some item, got `{key}`"));
        }
    }
    // Of several compared runs one may be a further run of the baseline.
    let compared = if runs.len() == 2 { runs } else { &runs[base..=base] };
    let mut ids: HashSet<&str> = compared.iter().map(|run| run.run.id.as_str()).collect();
    for run in &options.noise_runs {
        let id = run.run.id.as_str();
        if !ids.insert(id) {
            let rule = format!(
                "must be different runs other than the baseline and the compared run, got `{id}`"
            );
            return wrong("noiseRuns", rule);
        }
    }
    Ok(())
}

fn check_numbers(options: &CompareOptions) -> Result<(), CompareError> {
    let wrong = |option, rule: String| Err(CompareError::Option { option, rule });
    let alpha = options.alpha;
    if !(0.0 < alpha && alpha < 1.0) {
        return wrong("alpha", format!("must be greater than 0 and less than 1, got {alpha}"));
    }
    for margin in options.margin.iter().chain(options.margins.values()) {
        if !(0.0..=1e100).contains(margin) {
            return wrong("margin", format!("must be at least 0 and finite, got {margin}"));
        }
    }
    if let Err(error) = reducers::reduce(&[1.0], options.reducer) {
        return wrong("reducer", format!("is invalid: {error}"));
    }
    Ok(())
}

/// Whether means of equal repetitions differ by the order of their sums only.
fn is_rounding(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-12 * left.abs().max(right.abs())
}

/// The items of a segment, by number.
type Mask<'m> = Option<&'m [bool]>;

fn is_in(mask: Mask<'_>, item: usize) -> bool {
    mask.is_none_or(|mask| mask[item])
}

/// A metric with its tests before p-values are adjusted.
struct MetricTest<'m> {
    metric: &'m Metric,
    margin: f64,
    mask: Option<Vec<bool>>,
    runs: Vec<RunTest>,
}

enum RunTest {
    Base,
    NotComparable(String),
    Tested { tested: Box<Tested>, p_adjusted: Option<f64>, range: f64 },
}

struct SegmentTest<'m> {
    value: Option<String>,
    n_items: u64,
    tests: Vec<MetricTest<'m>>,
}

impl Context<'_> {
    /// The smallest difference that counts, in the unit of the metric.
    fn margin(&self, metric: &Metric) -> f64 {
        let mut margins = self.options.margins.iter();
        let own = margins.find(|(name, _)| names::metric(name) == metric.name.as_str());
        let set = own.map(|(_, margin)| *margin).or(self.options.margin);
        match metric.kind {
            MetricKind::Score if !metric.is_unit => set.unwrap_or(0.0),
            MetricKind::Score | MetricKind::Errors => set.unwrap_or(MARGIN),
            MetricKind::Latency | MetricKind::Cost | MetricKind::Tokens => {
                let values: Vec<f64> =
                    metric.columns[self.base].values.iter().flatten().copied().collect();
                let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
                set.unwrap_or(MARGIN) * mean.abs()
            }
        }
    }

    fn test<'m>(&self, metric: &'m Metric, margin: f64, mask: Option<Vec<bool>>) -> MetricTest<'m> {
        let runs = (0..self.runs().len()).map(|run| self.test_run(metric, run, mask.as_deref()));
        let runs = runs.collect();
        MetricTest { metric, margin, mask, runs }
    }

    fn test_run(&self, metric: &Metric, run: usize, mask: Mask<'_>) -> RunTest {
        if run == self.base {
            return RunTest::Base;
        }
        if let Some(obstacle) = &metric.obstacle {
            return RunTest::NotComparable(obstacle.clone());
        }
        let matching = &self.matchings[run];
        let is_disjoint = matching.is_disjoint();
        let (mut before, mut after) = (Sample::default(), Sample::default());
        let mut items = Vec::new();
        let columns = (&metric.columns[self.base], &metric.columns[run]);
        for item in (0..self.grid.items.len()).filter(|item| is_in(mask, *item)) {
            let (left, right) = (columns.0.values[item], columns.1.values[item]);
            let rates = (columns.0.probabilities[item], columns.1.probabilities[item]);
            if is_disjoint {
                before.extend(left, rates.0);
                after.extend(right, rates.1);
            } else if let (ItemMatch::Matched, Some(left), Some(right)) =
                (matching.items[item], left, right)
            {
                let right = if is_rounding(left, right) { left } else { right };
                before.extend(Some(left), rates.0);
                after.extend(Some(right), rates.1);
                items.push(item);
            }
        }
        let params = TestParams {
            alpha: self.options.alpha,
            seed: self.seed(self.runs()[run].id(), metric),
        };
        let name = &metric.subject;
        let tested = if before.values.is_empty() || after.values.is_empty() {
            let reason = match is_disjoint {
                true => format!("one of the runs has no values of `{name}`"),
                false => format!("no item has `{name}` in both runs with the same expected output"),
            };
            return RunTest::NotComparable(reason);
        } else if is_disjoint {
            tested::unpaired(&before, &after, params)
        } else {
            let clusters = self.clusters(&items);
            tested::paired(&before, &after, clusters.as_ref(), params).map(Some)
        };
        let range = match metric.is_unit {
            true => 1.0,
            false => {
                let values = || before.values.iter().chain(&after.values).copied();
                values().fold(0.0, f64::max) - values().fold(0.0, f64::min)
            }
        };
        match tested {
            Ok(Some(tested)) => {
                RunTest::Tested { tested: Box::new(tested), p_adjusted: None, range }
            }
            Ok(None) => RunTest::NotComparable(format!(
                "no item is in both runs, and the values of `{name}` are too few or all equal"
            )),
            Err(error) => RunTest::NotComparable(format!("`{name}`: {error}")),
        }
    }

    /// The seed of the random procedures, the same if the baseline and the run change places.
    fn seed(&self, run: &str, metric: &Metric) -> u64 {
        let mut ids = [self.runs()[self.base].id(), run];
        ids.sort_unstable();
        random::seed(&ids.join("\n"), &metric.name)
    }

    fn segments<'m>(&self, metrics: &'m [Metric], margins: &[f64]) -> Vec<SegmentTest<'m>> {
        let mut segments = Vec::new();
        for (value, members) in self.groups().into_iter().take(MAX_SEGMENTS) {
            let mut mask = vec![false; self.grid.items.len()];
            for item in &members {
                mask[*item] = true;
            }
            let tests = metrics.iter().zip(margins);
            let tests =
                tests.map(|(metric, margin)| self.test(metric, *margin, Some(mask.clone())));
            let tests = tests.collect();
            segments.push(SegmentTest { value, n_items: members.len() as u64, tests });
        }
        segments
    }

    fn run(&self, number: usize) -> ComparedRun {
        let run = &self.runs()[number];
        let matching = &self.matchings[number];
        let results = run.results;
        // A link does not count as a result before its trace has arrived.
        let has_result = |item: &usize| {
            run.by_item[*item].iter().any(|result| result.has_arrived || result.is_error)
        };
        let (present, pending): (Vec<usize>, Vec<usize>) = run.present().partition(has_result);
        let has_failed = |item: &&usize| run.by_item[**item].iter().any(|result| result.is_error);
        let n_missing_items = results.expected_items.as_ref().map(|expected| {
            let present: HashSet<&str> = present.iter().map(|at| self.grid.items[*at]).collect();
            let expected: HashSet<&str> = expected.iter().map(String::as_str).collect();
            expected.difference(&present).count() as u64
        });
        let n_pending = Some(pending.len() as u64).filter(|n| 0 < *n);
        let n_missing_items = n_missing_items.or(n_pending);
        let changed = matching.items.iter().zip(&self.grid.items);
        let changed = changed.filter(|(state, _)| **state == ItemMatch::Changed);
        ComparedRun {
            id: results.run.id.clone(),
            name: results.run.name.clone(),
            dataset_id: results.run.dataset_id.clone(),
            created_at: results.run.created_at,
            is_base: number == self.base,
            n_items: present.len() as u64,
            n_results: run.by_item.iter().map(|results| results.len() as u64).sum(),
            n_failed_items: present.iter().filter(has_failed).count() as u64,
            n_missing_items,
            n_duplicate_items: run.n_duplicates,
            n_matched_items: matching.count(ItemMatch::Matched),
            changed_items: changed.map(|(_, id)| (*id).to_owned()).collect(),
        }
    }
}

/// Adjusts the p-values of all tests that get a verdict and could show a difference.
fn adjust<'t, 'm: 't>(
    tests: impl Iterator<Item = &'t mut MetricTest<'m>>,
    options: &CompareOptions,
) -> Result<(), CompareError> {
    let mut p_values = Vec::new();
    let mut targets = Vec::new();
    for test in tests.filter(|test| test.metric.direction.is_some()) {
        for run in &mut test.runs {
            if let RunTest::Tested { tested, p_adjusted, .. } = run {
                if tested.is_informative() {
                    p_values.push(tested.p.clamp(0.0, 1.0));
                    targets.push(p_adjusted);
                } else {
                    *p_adjusted = Some(1.0);
                }
            }
        }
    }
    let adjusted = multiple::adjust(&p_values, options.correction).map_err(|error| {
        CompareError::Option { option: "correction", rule: format!("failed: {error}") }
    })?;
    for (target, adjusted) in targets.into_iter().zip(adjusted) {
        *target = Some(adjusted);
    }
    Ok(())
}

impl MetricTest<'_> {
    fn finish(self, context: &Context<'_>) -> MetricComparison {
        let metric = self.metric;
        let mask = self.mask.as_deref();
        let noise = noise::floor(metric, context.grid, context.base, self.margin, mask);
        let mut runs = Vec::with_capacity(self.runs.len());
        for (number, test) in self.runs.into_iter().enumerate() {
            let summary = summary(context, metric, number, self.mask.as_deref());
            let difference = match test {
                RunTest::Base => None,
                RunTest::NotComparable(reason) => Some(not_comparable(reason)),
                RunTest::Tested { tested, p_adjusted, range } => {
                    let judged = Judged {
                        tested: &tested,
                        p: p_adjusted.unwrap_or(1.0),
                        sign: metric.sign().unwrap_or(1.0),
                        alpha: context.options.alpha,
                        margin: self.margin,
                        range,
                        noise: noise.as_ref(),
                    };
                    Some(difference(metric, &judged, p_adjusted))
                }
            };
            runs.push(RunMetric {
                run: context.runs()[number].id().to_owned(),
                summary,
                difference,
            });
        }
        MetricComparison {
            name: metric.name.clone(),
            kind: metric.kind,
            data_type: metric.data_type,
            obstacle: metric.obstacle.clone(),
            direction: metric.direction.map(|(direction, _)| direction),
            direction_source: metric.direction.map(|(_, source)| source),
            margin: self.margin,
            noise,
            runs,
        }
    }
}

impl SegmentTest<'_> {
    fn finish(self, context: &Context<'_>) -> SegmentComparison {
        let key = context.options.segments.as_ref().map(|segments| segments.key.clone());
        SegmentComparison {
            key: key.unwrap_or_default(),
            value: self.value,
            n_items: self.n_items,
            metrics: self.tests.into_iter().map(|test| test.finish(context)).collect(),
        }
    }
}

fn summary(
    context: &Context<'_>,
    metric: &Metric,
    number: usize,
    mask: Mask<'_>,
) -> crate::comparison::MetricSummary {
    let run = &context.runs()[number];
    let column = &metric.columns[number];
    let present = run.present().filter(|item| is_in(mask, *item));
    let (items, missing): (Vec<usize>, Vec<usize>) =
        present.partition(|item| column.values[*item].is_some());
    let n_missing = missing.iter().filter(|item| metric.is_expected(run, **item)).count() as u64;
    let mut sample = Sample::default();
    if metric.obstacle.is_some() {
        return summary_of(&sample, None, n_missing, context.options.alpha);
    }
    for item in &items {
        sample.extend(column.values[*item], column.probabilities[*item]);
    }
    let clusters = context.clusters(&items);
    summary_of(&sample, clusters.as_ref(), n_missing, context.options.alpha)
}

fn difference(metric: &Metric, judged: &Judged<'_>, p_adjusted: Option<f64>) -> Difference {
    let tested = judged.tested;
    let is_lower_better = metric.sign().is_some_and(|sign| sign < 0.0);
    let (wins, losses) = match is_lower_better {
        true => (tested.smaller, tested.larger),
        false => (tested.larger, tested.smaller),
    };
    let mut difference = Difference {
        n: tested.n,
        mean: Some(tested.mean),
        interval: tested.interval.map(ends),
        bootstrap_interval: tested.bootstrap.map(ends),
        method: Some(tested.method),
        p: Some(tested.p),
        p_adjusted,
        t_p: tested.t_p,
        wilcoxon_p: tested.wilcoxon_p,
        sign_p: tested.sign_p,
        wins,
        ties: tested.ties,
        losses,
        effect_size: tested.effect_size,
        smallest_effect: judged.smallest_effect(),
        n_items_needed: judged.n_needed(),
        ..not_comparable(unknown_direction(&metric.subject))
    };
    if metric.direction.is_some() {
        let decision = judged.decide();
        difference.verdict = decision.verdict;
        difference.cause = decision.cause;
        difference.reason = decision.reason;
    }
    difference
}

fn not_comparable(reason: String) -> Difference {
    Difference {
        verdict: Verdict::NotComparable,
        reason: Some(reason),
        cause: None,
        n: 0,
        mean: None,
        interval: None,
        bootstrap_interval: None,
        method: None,
        p: None,
        p_adjusted: None,
        t_p: None,
        wilcoxon_p: None,
        sign_p: None,
        wins: 0,
        ties: 0,
        losses: 0,
        effect_size: None,
        smallest_effect: None,
        n_items_needed: None,
    }
}
