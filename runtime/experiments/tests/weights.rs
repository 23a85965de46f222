//! Scores that were sampled with different probabilities.

use perpend_domain::experiment::{ItemResult, RunResults};
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ExecutionId, RuleId};
use perpend_domain::plugin::Digest;
use perpend_domain::score::{ScoreOrigin, ScoreValue};
use perpend_experiments::comparison::{Comparison, Difference, Method, NoiseSource, WarningKind};
use perpend_experiments::run_summary::score_summaries;
use perpend_experiments::{CompareOptions, compare};

use crate::fixtures::{options, result, run, score};

fn origin(probability: f64) -> ScoreOrigin {
    ScoreOrigin {
        execution_id: ExecutionId::new("execution").unwrap(),
        evaluator_id: EvaluatorId::new("evaluator").unwrap(),
        evaluator_version_id: EvaluatorVersionId::new("version").unwrap(),
        rule_id: RuleId::new("rule").unwrap(),
        fingerprint: Digest::of(b"evaluator"),
        inclusion_probability: probability,
        score_name: "accuracy".to_owned(),
    }
}

/// A run whose items have one score each, with its probability.
fn sampled(id: &str, values: impl IntoIterator<Item = (ScoreValue, f64)>) -> RunResults {
    let mut found = run(id);
    for (at, (value, probability)) in values.into_iter().enumerate() {
        let mut item: ItemResult = result(id, &format!("i{at}"), 0);
        let mut score = score("accuracy", value);
        score.origin = Some(origin(probability));
        item.scores.push(score);
        found.items.push(item);
    }
    found
}

fn compared(runs: &[RunResults], options: &CompareOptions) -> (Comparison, Difference) {
    let comparison = compare(runs, options).unwrap();
    let difference = comparison.metrics[0].runs[1].difference.clone().unwrap();
    (comparison, difference)
}

/// Of 40 frequent items, scored at 0.1, 10 pass; of 60 others, all of them scored, 50 pass.
fn mixed(id: &str, n_frequent: usize) -> RunResults {
    let values = (0..100).map(|at| match at {
        0..40 => (ScoreValue::Boolean(at < n_frequent), 0.1),
        _ => (ScoreValue::Boolean(at < 90), 1.0),
    });
    sampled(id, values)
}

#[test]
fn a_mean_counts_items_with_the_reciprocal_of_their_probability() {
    // 10 · 10 and 50 · 1 of 40 · 10 and 60 · 1.
    let expected = 150.0 / 460.0;
    let [summary] = &score_summaries(&mixed("a", 10))[..] else { unreachable!("one score") };
    assert!((summary.values.mean.unwrap() - expected).abs() < 1e-12);
    let plain = 60.0 / 100.0;
    let interval = summary.values.interval.unwrap();
    assert!(interval.lower < expected && expected < interval.upper && interval.upper < plain);
    let (comparison, difference) = compared(&[mixed("a", 10), mixed("b", 20)], &options());
    let means = comparison.metrics[0].runs.iter().map(|run| run.summary.mean.unwrap());
    let means: Vec<f64> = means.collect();
    assert!((means[0] - expected).abs() < 1e-12 && (means[1] - 250.0 / 460.0).abs() < 1e-12);
    // A pair of frequent items is in both samples with 0.01.
    assert!((difference.mean.unwrap() - 1_000.0 / 4_060.0).abs() < 1e-12);
    assert_eq!(difference.method, Some(Method::PermutationExact));
    assert!(difference.interval.unwrap().lower < difference.mean.unwrap());
    assert_eq!((difference.n, difference.wins, difference.losses), (100, 10, 0));
    let warning = comparison.warnings.iter().find(|each| each.kind == WarningKind::Sampling);
    assert!(warning.unwrap().message.contains("reciprocal"));
}

#[test]
fn one_rate_for_all_items_changes_nothing() {
    let at = |id: &str, rate: f64, n: usize| {
        sampled(id, (0..60).map(|at| (ScoreValue::Boolean(at < n), rate)))
    };
    let (plain, difference) = compared(&[at("a", 1.0, 40), at("b", 1.0, 20)], &options());
    let (tenth, of_tenth) = compared(&[at("a", 0.1, 40), at("b", 0.1, 20)], &options());
    assert_eq!(difference, of_tenth);
    assert_eq!(plain.metrics[0].runs, tenth.metrics[0].runs);
    assert_eq!(difference.method, Some(Method::McnemarExact));
}

#[test]
fn runs_without_common_items_are_weighted_as_well() {
    let mut runs = [mixed("a", 10), mixed("b", 10)];
    for item in &mut runs[1].items {
        item.item_id = format!("other {}", item.item_id);
    }
    let (comparison, difference) = compared(&runs, &options());
    assert_eq!(difference.method, Some(Method::Welch));
    assert!(difference.mean.unwrap().abs() < 1e-12 && 0.9 < difference.p.unwrap());
    assert!(comparison.warnings.iter().any(|each| each.kind == WarningKind::NothingMatches));
}

#[test]
fn the_noise_of_a_second_run_counts_items_with_the_reciprocal_of_their_probability() {
    // Between the runs of the baseline 4 of 40 items move that were scored at 0.1, and none of the other 60.
    let noise_runs = vec![mixed("second", 14)];
    let (comparison, _) =
        compared(&[mixed("a", 10), mixed("b", 13)], &CompareOptions { noise_runs, ..options() });
    let noise = comparison.metrics[0].noise.as_ref().unwrap();
    assert_eq!((noise.source, noise.n), (NoiseSource::SecondRun, 100));
    let expected = 400.0 / 4_060.0;
    assert!((noise.flip_share - expected).abs() < 1e-12, "{}", noise.flip_share);
    assert!((noise.floor - expected).abs() < 1e-12, "{}", noise.floor);
}

#[test]
fn the_noise_of_repetitions_counts_items_with_the_reciprocal_of_their_probability() {
    // Twice each: 40 items scored at 0.1, of which 4 differ from themselves, and 60 that do not.
    let twice = |id: &str| {
        let mut found = mixed(id, 10);
        for (at, again) in mixed(id, 14).items.into_iter().enumerate() {
            let trace_id = result(id, &format!("i{at}"), 1).trace_id;
            found.items.push(ItemResult { trace_id, ..again });
        }
        found
    };
    let (comparison, _) = compared(&[twice("a"), twice("b")], &options());
    let noise = comparison.metrics[0].noise.as_ref().unwrap();
    assert_eq!((noise.source, noise.n), (NoiseSource::Repetitions, 200));
    let expected = 40.0 / 460.0;
    assert!((noise.flip_share - expected).abs() < 1e-12, "{}", noise.flip_share);
    assert!((noise.floor - expected / 2.0_f64.sqrt()).abs() < 1e-12, "{}", noise.floor);
}

#[test]
fn an_unknown_probability_counts_as_one() {
    let values = |rate: f64| (0..20).map(move |at| (ScoreValue::Boolean(at < 9), rate));
    let means = |rate| score_summaries(&sampled("a", values(rate)))[0].values.mean;
    for rate in [0.0, f64::NAN, 2.0] {
        assert_eq!(means(rate), means(1.0));
    }
}
