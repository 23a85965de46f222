//! Error rates of verdicts over simulated runs. The seeds are fixed, so that the counts are always the same.

use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::comparison::{DirectionSource, Verdict};
use perpend_experiments::options::ScoreDefinition;
use perpend_experiments::{CompareOptions, compare};
use perpend_stats::random::SplitMix64;

use crate::fixtures::{numbers, options, passes, result, run, score};

fn uniform(random: &mut SplitMix64) -> f64 {
    random.next_u64() as f64 / u64::MAX as f64
}

/// A value of the standard normal distribution, nearly.
fn normal(random: &mut SplitMix64) -> f64 {
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

/// The largest count of `n` events of probability `p` that chance explains: three standard deviations.
fn most(n: u32, p: f64) -> f64 {
    let n = f64::from(n);
    n * p + 3.0 * (n * p * (1.0 - p)).sqrt()
}

#[test]
fn equal_runs_that_pass_or_fail_are_worse_at_most_as_often_as_alpha() {
    let mut random = SplitMix64::new(1);
    let mut n_worse = 0_u32;
    for _ in 0..1_000 {
        let chances: Vec<f64> = (0..60).map(|_| uniform(&mut random)).collect();
        let mut draw =
            |id| passes(id, chances.iter().map(|p| uniform(&mut random) < *p).collect::<Vec<_>>());
        let runs = [draw("a"), draw("b")];
        let comparison = compare(&runs, &options()).unwrap();
        let found = comparison.metrics[0].runs[1].difference.as_ref().unwrap();
        n_worse += u32::from(found.verdict == Verdict::Worse);
    }
    assert!(f64::from(n_worse) <= most(1_000, 0.05), "{n_worse}");
}

#[test]
fn equal_runs_of_numbers_are_worse_at_most_as_often_as_alpha() {
    for n in [8, 40] {
        let mut random = SplitMix64::new(n);
        let mut n_worse = 0_u32;
        for _ in 0..1_000 {
            let levels: Vec<f64> = (0..n).map(|_| uniform(&mut random)).collect();
            let mut draw = |id| {
                // Skewed: most values near the level, some far below.
                let value = |level: &f64| level - 0.2 * normal(&mut random).powi(2);
                numbers(id, levels.iter().map(value).collect::<Vec<_>>())
            };
            let runs = [draw("a"), draw("b")];
            let comparison = compare(&runs, &options()).unwrap();
            let found = comparison.metrics[0].runs[1].difference.as_ref().unwrap();
            n_worse += u32::from(found.verdict == Verdict::Worse);
        }
        assert!(f64::from(n_worse) <= most(1_000, 0.05), "{n}: {n_worse}");
    }
}

#[test]
fn one_of_several_metrics_of_equal_runs_is_worse_at_most_as_often_as_alpha() {
    let names = ["m0", "m1", "m2", "m3", "m4", "m5"];
    let mut options = CompareOptions::default();
    for name in names {
        let direction = Some((ScoreDirection::HigherIsBetter, DirectionSource::ScoreConfig));
        let definition = ScoreDefinition { direction, ..ScoreDefinition::default() };
        options.scores.insert(name.to_owned(), definition);
    }
    let mut random = SplitMix64::new(7);
    let mut n_any = 0_u32;
    for _ in 0..300 {
        let mut draw = |id: &str| {
            let mut found = run(id);
            for at in 0..30 {
                let mut each = result(id, &format!("i{at}"), 0);
                for name in names {
                    let value = perpend_domain::score::ScoreValue::Numeric(normal(&mut random));
                    each.scores.push(score(name, value));
                }
                found.items.push(each);
            }
            found
        };
        let runs = [draw("a"), draw("b")];
        let comparison = compare(&runs, &options).unwrap();
        let differences = comparison.metrics.iter().map(|metric| &metric.runs[1].difference);
        let is_any = differences.flatten().any(|found| found.verdict == Verdict::Worse);
        n_any += u32::from(is_any);
    }
    assert!(f64::from(n_any) <= most(300, 0.05), "{n_any}");
}

#[test]
fn a_difference_as_large_as_the_smallest_effect_is_found_in_four_of_five_comparisons() {
    let (n, sd) = (200_u32, 0.2);
    let effect = 2.801_6 * sd / f64::from(n).sqrt();
    let options = CompareOptions { margin: Some(0.0), ..options() };
    let mut random = SplitMix64::new(3);
    let mut n_worse = 0_u32;
    let mut smallest = 0.0;
    for _ in 0..300 {
        let base: Vec<f64> = (0..n).map(|_| normal(&mut random)).collect();
        let less = base.iter().map(|value| value - effect + sd * normal(&mut random));
        let runs = [numbers("a", base.clone()), numbers("b", less.collect::<Vec<_>>())];
        let comparison = compare(&runs, &options).unwrap();
        let found = comparison.metrics[0].runs[1].difference.as_ref().unwrap();
        n_worse += u32::from(found.verdict == Verdict::Worse);
        smallest += found.smallest_effect.unwrap() / 300.0;
    }
    // 80 % of 300 are 240, with a standard deviation of 7.
    assert!((219..=261).contains(&n_worse), "{n_worse}");
    assert!((smallest / effect - 1.0).abs() < 0.05, "{smallest} {effect}");
}

#[test]
fn a_real_regression_is_never_called_better_and_usually_worse() {
    let mut random = SplitMix64::new(11);
    let (mut n_worse, mut n_better) = (0_u32, 0_u32);
    for _ in 0..200 {
        let base: Vec<bool> = (0..150).map(|_| uniform(&mut random) < 0.8).collect();
        // A sixth of the items breaks.
        let broken = base.iter().map(|passed| *passed && uniform(&mut random) < 0.83);
        let runs = [passes("a", base.clone()), passes("b", broken.collect::<Vec<_>>())];
        let comparison = compare(&runs, &options()).unwrap();
        let found = comparison.metrics[0].runs[1].difference.as_ref().unwrap();
        n_worse += u32::from(found.verdict == Verdict::Worse);
        n_better += u32::from(found.verdict == Verdict::Better);
    }
    assert_eq!(n_better, 0);
    assert!(195 <= n_worse, "{n_worse}");
}
