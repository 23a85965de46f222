//! Circumstances that limit a comparison.

use std::collections::BTreeSet;

use perpend_domain::score::ScoreOrigin;

use crate::columns::{Metric, probability};
use crate::comparison::{ComparedRun, ComparisonWarning, MetricKind, WarningKind};
use crate::context::{Context, MAX_SEGMENTS, unknown_direction};
use crate::grid::GridRun;
use crate::matching::ItemMatch;
use crate::names;
use crate::number::{items, number};

/// All warnings: of runs, then of metrics.
pub(crate) fn collect(
    context: &Context<'_>,
    metrics: &[Metric],
    runs: &[ComparedRun],
) -> Vec<ComparisonWarning> {
    let mut warnings = Warnings(Vec::new());
    for (number, run) in runs.iter().enumerate() {
        of_run(&mut warnings, context, number, run);
    }
    for metric in metrics {
        of_metric(&mut warnings, context, metric);
    }
    for requested in &context.options.metrics {
        let name = names::metric(requested);
        if !metrics.iter().any(|metric| metric.name == name) {
            let message = format!("no run has a value of `{requested}`");
            warnings.add(WarningKind::UnknownMetric, None, Some(name.as_ref()), message);
        }
    }
    let n_segments = context.groups().len();
    if MAX_SEGMENTS < n_segments {
        let message = format!(
            "the {MAX_SEGMENTS} largest of {n_segments} segments are compared; the others are left out"
        );
        warnings.add(WarningKind::Segments, None, None, message);
    }
    warnings.0
}

struct Warnings(Vec<ComparisonWarning>);

impl Warnings {
    fn add(&mut self, kind: WarningKind, run: Option<&str>, metric: Option<&str>, message: String) {
        let run = run.map(str::to_owned);
        self.0.push(ComparisonWarning { kind, run, metric: metric.map(str::to_owned), message });
    }
}

fn of_run(warnings: &mut Warnings, context: &Context<'_>, number: usize, run: &ComparedRun) {
    let name = &run.name;
    let mut add = |kind, message| warnings.add(kind, Some(run.id.as_str()), None, message);
    if let Some(n) = run.n_missing_items.filter(|n| 0 < *n) {
        let message = format!("run `{name}` has no result for {} of the dataset", items(n));
        add(WarningKind::MissingItems, message);
    }
    if 0 < run.n_duplicate_items {
        let n = run.n_duplicate_items;
        let usual = context.runs()[number].n_repetitions;
        let message = format!(
            "{} of run `{name}` with more results than the usual {usual}, or with one twice",
            items(n)
        );
        add(WarningKind::Repetitions, message);
    }
    let usual = context.runs()[number].n_repetitions;
    let results = context.runs()[number].by_item.iter().map(Vec::len);
    let n_fewer = results.filter(|n| 0 < *n && *n < usual).count();
    if 0 < n_fewer {
        let message = format!(
            "{} of run `{name}` with fewer results than the usual {usual}",
            items(n_fewer as u64)
        );
        add(WarningKind::Repetitions, message);
    }
    if number == context.base {
        return;
    }
    let matching = &context.matchings[number];
    if matching.is_disjoint() {
        let message = format!(
            "no item of run `{name}` is in the baseline: means of different items are compared, which shows large differences only"
        );
        add(WarningKind::NothingMatches, message);
        return;
    }
    let n_changed = run.changed_items.len();
    if 0 < n_changed {
        let message = format!(
            "{} of run `{name}` with another expected output than in the baseline: not compared",
            items(n_changed as u64)
        );
        add(WarningKind::ExpectedOutput, message);
    }
    let (n_base, n_run) = (matching.count(ItemMatch::BaseOnly), matching.count(ItemMatch::RunOnly));
    if 0 < n_base + n_run {
        let message = format!(
            "{} in the baseline only, and {n_run} in run `{name}` only: not compared",
            items(n_base)
        );
        add(WarningKind::UnmatchedItems, message);
    }
    if 0 < matching.n_other_version {
        let n = matching.n_other_version;
        let message =
            format!("{} of run `{name}` with another version than in the baseline", items(n));
        add(WarningKind::ItemVersion, message);
    }
    let base = &context.runs()[context.base];
    let (usual, other) = (base.n_repetitions, context.runs()[number].n_repetitions);
    if usual != other {
        let message = format!(
            "results per item: {other} in run `{name}`, {usual} in the baseline; they are reduced to one value"
        );
        add(WarningKind::Repetitions, message);
    }
}

fn of_metric(warnings: &mut Warnings, context: &Context<'_>, metric: &Metric) {
    let name = Some(metric.name.as_str());
    if metric.direction.is_none() && metric.obstacle.is_none() {
        warnings.add(WarningKind::Direction, None, name, unknown_direction(&metric.subject));
    }
    for (number, run) in context.runs().iter().enumerate() {
        let id = Some(run.id());
        let column = &metric.columns[number];
        if 0 < column.n_several {
            let message = format!(
                "{} results of run `{}` have several scores `{}`; they are averaged",
                column.n_several, run.results.run.name, metric.subject
            );
            warnings.add(WarningKind::SeveralScores, id, name, message);
        }
        let missing = run.present().filter(|item| column.values[*item].is_none());
        let missing = missing.filter(|item| metric.is_expected(run, *item)).count();
        if 0 < missing && metric.obstacle.is_none() {
            let message = format!(
                "{} of run `{}` without a value of `{}`; the comparison is about the others",
                items(missing as u64),
                run.results.run.name,
                metric.subject
            );
            warnings.add(WarningKind::MissingValues, id, name, message);
        }
        if number != context.base && metric.kind == MetricKind::Score {
            of_score(warnings, &context.runs()[context.base], run, metric);
        }
    }
}

fn of_score(warnings: &mut Warnings, base: &GridRun<'_>, run: &GridRun<'_>, metric: &Metric) {
    let score = metric.subject.as_str();
    let (before, after) = (Origins::of(base, score), Origins::of(run, score));
    if before.is_empty() || after.is_empty() {
        return;
    }
    let names = (&base.results.run.name, &run.results.run.name);
    let (id, metric) = (Some(run.id()), Some(metric.name.as_str()));
    let is_weighted = 1 < before.rates.len().max(after.rates.len());
    let weighted = if is_weighted { "; items count with the reciprocal of their rate" } else { "" };
    if before.evaluators != after.evaluators {
        let message = format!(
            "`{score}` was made by {} in run `{}` and by {} in run `{}`",
            list(&before.evaluators),
            names.0,
            list(&after.evaluators),
            names.1
        );
        warnings.add(WarningKind::Evaluator, id, metric, message);
    }
    if before.rates != after.rates {
        let message = format!(
            "`{score}` was sampled at {} in run `{}` and at {} in run `{}`{weighted}",
            list(&before.rates),
            names.0,
            list(&after.rates),
            names.1
        );
        warnings.add(WarningKind::Sampling, id, metric, message);
    } else if is_weighted {
        let rates = list(&after.rates);
        let message = format!("`{score}` was sampled at {rates} in both runs{weighted}");
        warnings.add(WarningKind::Sampling, id, metric, message);
    }
}

/// The evaluators and sampling rates of a score in a run, in words.
#[derive(Default)]
struct Origins {
    evaluators: BTreeSet<String>,
    rates: BTreeSet<String>,
}

impl Origins {
    fn of(run: &GridRun<'_>, score: &str) -> Self {
        let mut origins = Self::default();
        // Consecutive scores usually have the same origin.
        let mut last: Option<&ScoreOrigin> = None;
        let mut is_first = true;
        let results = run.by_item.iter().flatten();
        for each in results.flat_map(|result| &result.scores).filter(|each| each.name == score) {
            let origin = each.origin.as_ref();
            if !is_first && is_same(last, origin) {
                continue;
            }
            (is_first, last) = (false, origin);
            match origin {
                None => {
                    origins.evaluators.insert("clients or people".to_owned());
                    origins.rates.insert("1".to_owned());
                }
                Some(origin) => {
                    let fingerprint = origin.fingerprint.to_string();
                    let version = origin.evaluator_version_id.as_str();
                    let short = fingerprint.get(..12).unwrap_or_default();
                    origins
                        .evaluators
                        .insert(format!("evaluator version `{version}` (fingerprint {short})"));
                    origins.rates.insert(number(probability(each)));
                }
            }
        }
        origins
    }

    fn is_empty(&self) -> bool {
        self.evaluators.is_empty()
    }
}

fn is_same(left: Option<&ScoreOrigin>, right: Option<&ScoreOrigin>) -> bool {
    match (left, right) {
        (None, None) => true,
        (Some(left), Some(right)) => {
            left.fingerprint == right.fingerprint
                && left.evaluator_version_id == right.evaluator_version_id
                && left.inclusion_probability == right.inclusion_probability
        }
        _ => false,
    }
}

fn list(texts: &BTreeSet<String>) -> String {
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts.join(" and ")
}
