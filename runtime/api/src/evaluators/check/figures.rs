//! Statistics of pairs of a label and a verdict.

use std::collections::{BTreeMap, BTreeSet};

use perpend_api_types::judge_check::{
    Agreement, CalibrationStatus, Correlation, Figure, LabelFigures, Repeatability,
};
use perpend_http_kit::problem::{Code, Problem};
use perpend_stats::agreement::{Confusion, Weights};
use perpend_stats::correlation::correlate;
use perpend_stats::{bootstrap, random};

use super::labels::{LabelledItem, Verdict};

/// Least pairs for a calibrated evaluator (evaluation.md 3.12).
const LEAST_PAIRS: usize = 30;
/// Least lower bound of the confidence interval (evaluation.md 6).
const LEAST_KAPPA: f64 = 0.6;
const LEAST_RHO: f64 = 0.7;
/// Most distinct labels: the matrix has a cell for each pair.
const MAX_DISTINCT: usize = 50;
const RESAMPLES: usize = 2_000;
const LEVEL: f64 = 0.95;

/// Labels and verdicts of the items with a verdict.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ComparedPairs {
    Labels {
        expected: Vec<String>,
        actual: Vec<String>,
        /// Distinct labels.
        all: Vec<String>,
    },
    Numbers {
        expected: Vec<f64>,
        actual: Vec<f64>,
    },
}

/// Statistics of the pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) agreement: Option<Agreement>,
    pub(super) correlation: Option<Correlation>,
}

/// The pairs of the items that have a verdict. `offered` are the categories of the evaluator, if they are
/// known.
pub(super) fn compare(
    labelled: &[LabelledItem],
    verdicts: &[Option<Verdict>],
    offered: &[String],
) -> Result<ComparedPairs, Problem> {
    let both = labelled.iter().zip(verdicts);
    let both: Vec<(&Verdict, &Verdict)> =
        both.filter_map(|(one, actual)| Some((&one.expected, actual.as_ref()?))).collect();
    let unlike = |actual: &str, expected: &str| {
        let message = format!("the evaluator returns {actual}, but the labels are {expected}");
        Problem::new(Code::Unprocessable, message).with("field", "against")
    };
    let is_number = |verdict: &Verdict| matches!(verdict, Verdict::Number(_));
    if both.iter().any(|(_, actual)| is_number(actual)) {
        let numbers = both.iter().filter_map(|(expected, actual)| {
            let actual = actual.number()?;
            Some(expected.number().map(|expected| (expected, actual)))
        });
        let numbers: Option<Vec<(f64, f64)>> = numbers.collect();
        let numbers = numbers.ok_or_else(|| unlike("numbers", "categories"))?;
        let (expected, actual) = numbers.into_iter().unzip();
        return Ok(ComparedPairs::Numbers { expected, actual });
    }
    let actual = both.iter().filter_map(|(_, actual)| actual.label(true));
    let actual: Vec<String> = actual.collect();
    let are_truths = actual.iter().all(|label| ["true", "false"].contains(&label.as_str()));
    let expected = both.iter().map(|(expected, _)| expected.label(are_truths));
    let expected: Option<Vec<String>> = expected.collect();
    let expected = expected.ok_or_else(|| unlike("categories", "numbers"))?;
    let truths = ["true".to_owned(), "false".to_owned()];
    let possible = match are_truths && !actual.is_empty() {
        true => truths.as_slice(),
        false => offered,
    };
    check_labels(&expected, &actual, possible)?;
    let mut values: BTreeSet<&String> = expected.iter().chain(&actual).collect();
    if are_truths && !actual.is_empty() {
        values.extend(&truths);
    }
    if MAX_DISTINCT < values.len() {
        let message =
            format!("at most {MAX_DISTINCT} distinct labels can be compared, got {}", values.len());
        return Err(Problem::new(Code::Unprocessable, message).with("field", "against"));
    }
    let all = values.into_iter().cloned().collect();
    Ok(ComparedPairs::Labels { expected, actual, all })
}

/// Refuses labels and verdicts without a common value.
fn check_labels(
    expected: &[String],
    actual: &[String],
    possible: &[String],
) -> Result<(), Problem> {
    let labels: BTreeSet<&String> = expected.iter().collect();
    let verdicts: BTreeSet<&String> = actual.iter().chain(possible).collect();
    // With unknown categories, a single label and another verdict may be a disagreement.
    let is_known = !possible.is_empty() || (1 < labels.len() && 1 < verdicts.len());
    if labels.is_empty() || !is_known || !labels.is_disjoint(&verdicts) {
        return Ok(());
    }
    let list = |values: BTreeSet<&String>| {
        let shown: Vec<String> = values.iter().take(5).map(|value| format!("{value:?}")).collect();
        let more = if shown.len() < values.len() { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    };
    let message = format!(
        "the labels do not match the evaluator: it returns {}, but the labels are {}",
        list(verdicts),
        list(labels)
    );
    Err(Problem::new(Code::Unprocessable, message).with("field", "against"))
}

impl ComparedPairs {
    pub(super) const fn n_pairs(&self) -> usize {
        match self {
            Self::Labels { expected, .. } => expected.len(),
            Self::Numbers { expected, .. } => expected.len(),
        }
    }

    /// The verdict farthest from this one; `None` without another.
    pub(super) fn other_than(&self, verdict: &Verdict) -> Option<Verdict> {
        match (self, verdict) {
            (Self::Labels { all, .. }, Verdict::Label(label)) => {
                let other = all.iter().find(|value| *value != label);
                other.cloned().map(Verdict::Label)
            }
            (Self::Numbers { expected, actual }, Verdict::Number(number)) => {
                let all = expected.iter().chain(actual);
                let distance = |value: &&f64| (**value - number).abs();
                let farthest = all.max_by(|a, b| distance(a).total_cmp(&distance(b)));
                let farthest = farthest.filter(|value| 0.0 < distance(value));
                farthest.copied().map(Verdict::Number)
            }
            _ => None,
        }
    }
}

fn figure(evaluator: &str, metric: &str, n: usize, of: impl Fn(&[usize]) -> Option<f64>) -> Figure {
    let whole: Vec<usize> = (0..n).collect();
    let options = bootstrap::Options {
        seed: random::seed(evaluator, metric),
        resamples: RESAMPLES,
        level: LEVEL,
    };
    let value = of(&whole);
    let resampled = bootstrap::statistic(n, None, options, of).ok().flatten();
    Figure {
        value,
        lower: resampled.as_ref().map(|found| found.interval.lower),
        upper: resampled.as_ref().map(|found| found.interval.upper),
    }
}

/// The statistics of the pairs. Resampling takes a fraction of a second.
pub(super) fn figures(evaluator: &str, judged: &ComparedPairs) -> Figures {
    match judged {
        ComparedPairs::Labels { expected, actual, all } => {
            Figures { agreement: agreement(evaluator, expected, actual, all), correlation: None }
        }
        ComparedPairs::Numbers { expected, actual } => {
            Figures { agreement: None, correlation: correlation(evaluator, expected, actual) }
        }
    }
}

fn agreement(
    evaluator: &str,
    expected: &[String],
    actual: &[String],
    labels: &[String],
) -> Option<Agreement> {
    let drawn = |at: &[usize]| {
        let pick = |from: &[String]| at.iter().map(|at| from[*at].clone()).collect::<Vec<_>>();
        Confusion::count(&pick(expected), &pick(actual), labels).ok()
    };
    let confusion = Confusion::count(expected, actual, labels).ok()?;
    let n = expected.len();
    let counts = confusion.counts().to_vec();
    let of_right = |at: usize| counts[at].iter().sum::<u64>();
    let of_given = |at: usize| counts.iter().map(|row| row[at]).sum::<u64>();
    let qualities = labels.iter().zip(confusion.labels()).enumerate();
    // The first of equally frequent labels.
    let constant = (0..labels.len()).rev().max_by_key(|at| of_right(*at))?;
    Some(Agreement {
        agreement: figure(evaluator, "agreement", n, |at| Some(drawn(at)?.agreement())),
        kappa: figure(evaluator, "kappa", n, |at| drawn(at)?.kappa(Weights::Equal)),
        gwet_ac1: confusion.gwet_ac1(),
        scott_pi: confusion.scott_pi(),
        macro_f1: confusion.macro_f1(),
        balanced_accuracy: confusion.balanced_accuracy(),
        matthews: confusion.matthews(),
        labels: qualities
            .map(|(at, (label, quality))| LabelFigures {
                label: label.clone(),
                reference_count: of_right(at),
                judge_count: of_given(at),
                precision: quality.precision,
                recall: quality.recall,
                f1: quality.f1,
            })
            .collect(),
        constant_label: labels[constant].clone(),
        constant_agreement: of_right(constant) as f64 / n as f64,
        confusion: counts,
    })
}

fn correlation(evaluator: &str, expected: &[f64], actual: &[f64]) -> Option<Correlation> {
    let found = correlate(expected, actual).ok()?;
    let spearman = figure(evaluator, "spearman", expected.len(), |at| {
        let pick = |from: &[f64]| at.iter().map(|at| from[*at]).collect::<Vec<_>>();
        correlate(&pick(expected), &pick(actual)).ok()?.spearman
    });
    let n = expected.len() as f64;
    let mean = expected.iter().sum::<f64>() / n;
    Some(Correlation {
        spearman,
        pearson: found.pearson,
        kendall_tau_b: found.kendall_tau_b,
        mae: found.mae,
        rmse: found.rmse,
        bias: found.bias,
        constant_value: mean,
        constant_mae: expected.iter().map(|one| (one - mean).abs()).sum::<f64>() / n,
    })
}

impl Figures {
    /// The calibration of the evaluator and its reason.
    pub(super) fn badge(&self, n_pairs: usize) -> (CalibrationStatus, String) {
        let (name, figure, least) = match (&self.agreement, &self.correlation) {
            (Some(agreement), _) => ("Cohen's kappa", agreement.kappa, LEAST_KAPPA),
            (None, Some(correlation)) => ("Spearman's rho", correlation.spearman, LEAST_RHO),
            (None, None) => {
                let reason = "No item has both a label and a verdict.";
                return (CalibrationStatus::Uncalibrated, reason.to_owned());
            }
        };
        if n_pairs < LEAST_PAIRS {
            let reason = format!(
                "A calibration requires {LEAST_PAIRS} items with a label and a verdict; this check has {n_pairs}. The figures \
                 are preliminary."
            );
            return (CalibrationStatus::Uncalibrated, reason);
        }
        let (Some(value), Some(lower), Some(upper)) = (figure.value, figure.lower, figure.upper)
        else {
            let reason = format!("{name} is undefined: the labels or the verdicts are constant.");
            return (CalibrationStatus::Weak, reason);
        };
        let is_enough = least <= lower;
        let badge = if is_enough { CalibrationStatus::Calibrated } else { CalibrationStatus::Weak };
        let reason = format!(
            "{name} is {value:.2}, between {lower:.2} and {upper:.2} with 95 % confidence; the lower bound {} the required \
             {least}.",
            if is_enough { "reaches" } else { "does not reach" }
        );
        (badge, reason)
    }
}

/// Agreement of the runs, over the items with a verdict in each run.
pub(super) fn repeatability(runs: &[Vec<Option<Verdict>>]) -> Repeatability {
    let mut items: BTreeMap<usize, Vec<&Verdict>> = BTreeMap::new();
    for run in runs {
        for (index, verdict) in run.iter().enumerate() {
            items.entry(index).or_default().extend(verdict);
        }
    }
    items.retain(|_, verdicts| verdicts.len() == runs.len());
    let n = items.len();
    let mean = |sum: f64| (0 < n).then(|| sum / n as f64);
    let is_equal = |verdicts: &&Vec<&Verdict>| verdicts.iter().all(|one| *one == verdicts[0]);
    let n_equal = items.values().filter(is_equal).count();
    let spread = |verdicts: &Vec<&Verdict>| {
        let numbers = || {
            verdicts.iter().filter_map(|one| match one {
                Verdict::Number(number) => Some(*number),
                Verdict::Label(_) => None,
            })
        };
        let lowest = numbers().reduce(f64::min)?;
        Some(numbers().fold(lowest, f64::max) - lowest)
    };
    let spreads: Vec<f64> = items.values().filter_map(spread).collect();
    Repeatability {
        item_count: n as u64,
        equal_share: mean(n_equal as f64),
        spread: mean(spreads.iter().sum()).filter(|_| !spreads.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use perpend_scheduler::TrialSubject;

    use super::*;

    fn labelled(expected: Vec<Verdict>) -> Vec<LabelledItem> {
        let one = |expected| LabelledItem { on: TrialSubject::Written(Box::default()), expected };
        expected.into_iter().map(one).collect()
    }

    fn label(text: &str) -> Verdict {
        Verdict::Label(text.to_owned())
    }

    fn of(expected: Vec<Verdict>, actual: Vec<Verdict>) -> ComparedPairs {
        let actual: Vec<_> = actual.into_iter().map(Some).collect();
        compare(&labelled(expected), &actual, &[]).unwrap()
    }

    #[test]
    fn a_judge_that_always_agrees_is_calibrated_from_thirty_labels_on() {
        for (n, expected) in
            [(29, CalibrationStatus::Uncalibrated), (30, CalibrationStatus::Calibrated)]
        {
            let verdicts: Vec<Verdict> =
                (0..n).map(|at| label(if at % 2 == 0 { "good" } else { "bad" })).collect();
            let judged = of(verdicts.clone(), verdicts);
            let figures = figures("e", &judged);
            assert_eq!(figures.badge(judged.n_pairs()).0, expected, "{n}");
            let agreement = figures.agreement.unwrap();
            assert_eq!(agreement.agreement.value, Some(1.0));
            assert_eq!(agreement.kappa.lower, Some(1.0));
        }
    }

    #[test]
    fn a_judge_with_a_constant_verdict_agrees_often_and_is_weak() {
        let expected = (0..100).map(|at| label(if at < 90 { "good" } else { "bad" }));
        let judged = of(expected.collect(), vec![label("good"); 100]);
        let figures = figures("e", &judged);
        assert_eq!(figures.badge(100).0, CalibrationStatus::Weak);
        let agreement = figures.agreement.unwrap();
        assert_eq!(agreement.agreement.value, Some(0.9));
        assert_eq!(agreement.constant_label, "good");
        assert_eq!(agreement.constant_agreement, 0.9);
        assert_eq!(agreement.kappa.value, Some(0.0));
    }

    #[test]
    fn booleans_are_compared_with_zero_and_one_on_either_side() {
        let truths = vec![label("true"), label("false")];
        let numbers = vec![Verdict::Number(1.0), Verdict::Number(0.0)];
        let judged = of(numbers.clone(), truths.clone());
        assert_eq!(figures("e", &judged).agreement.unwrap().agreement.value, Some(1.0));
        let judged = of(truths, numbers);
        assert_eq!(figures("e", &judged).correlation.unwrap().mae, 0.0);
    }

    #[test]
    fn categories_and_numbers_are_not_compared() {
        let actual = vec![Some(Verdict::Number(0.3))];
        assert!(compare(&labelled(vec![label("good")]), &actual, &[]).is_err());
        let actual = vec![Some(label("good"))];
        assert!(compare(&labelled(vec![Verdict::Number(0.3)]), &actual, &[]).is_err());
    }

    #[test]
    fn labels_outside_the_categories_of_the_evaluator_are_refused() {
        let is_refused = |expected: &[&str], actual: &[&str], offered: &[&str]| {
            let expected = expected.iter().map(|text| label(text)).collect();
            let actual: Vec<_> = actual.iter().map(|text| Some(label(text))).collect();
            let offered: Vec<String> = offered.iter().map(|&text| text.to_owned()).collect();
            compare(&labelled(expected), &actual, &offered).is_err()
        };
        assert!(is_refused(&["good"], &["kind"], &["kind", "rude"]));
        assert!(is_refused(&["yes", "no"], &["true", "true"], &[]));
        assert!(is_refused(&["good", "bad"], &["kind", "rude"], &[]));
        assert!(!is_refused(&["good", "kind"], &["rude", "rude"], &["kind", "rude"]));
        assert!(!is_refused(&["good"], &["bad"], &[]));
        assert!(!is_refused(&["true"], &["false"], &[]));
    }

    #[test]
    fn the_other_verdict_is_the_farthest_one() {
        let judged = of(
            vec![Verdict::Number(0.0), Verdict::Number(1.0)],
            vec![Verdict::Number(0.2), Verdict::Number(0.9)],
        );
        let other = |number| judged.other_than(&Verdict::Number(number));
        assert_eq!(other(0.2), Some(Verdict::Number(1.0)));
        assert_eq!(other(0.9), Some(Verdict::Number(0.0)));
        let truths = of(vec![label("true")], vec![label("true")]);
        assert_eq!(truths.other_than(&label("true")), Some(label("false")));
        let ones = of(vec![Verdict::Number(1.0)], vec![Verdict::Number(1.0)]);
        assert_eq!(ones.other_than(&Verdict::Number(1.0)), None);
    }

    #[test]
    fn the_spread_covers_items_with_a_verdict_in_every_run() {
        let number = |number| Some(Verdict::Number(number));
        let runs =
            [vec![number(0.5), number(0.2), number(0.9)], vec![number(0.5), number(0.4), None]];
        let found = repeatability(&runs);
        assert_eq!((found.item_count, found.equal_share), (2, Some(0.5)));
        assert!((found.spread.unwrap() - 0.1).abs() < 1e-12);
    }
}
