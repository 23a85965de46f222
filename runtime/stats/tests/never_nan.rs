//! For any numbers a result is finite or absent.

use perpend_stats::agreement::{Confusion, Weights};
use perpend_stats::fisher::{self, Successes};
use perpend_stats::krippendorff::{self, Scale};
use perpend_stats::reducers::{self, Reducer};
use perpend_stats::{
    Clusters, Error, Interval, bootstrap, correlation, drift, multiple, paired, proportion,
    summary, welch,
};
use proptest::prelude::*;

/// Scores, grades, equal values, adjacent values and extreme values.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        0.0..=1.0,
        (1_u8..=5).prop_map(f64::from),
        Just(0.1),
        Just(0.1 + f64::EPSILON),
        Just(-0.0),
        Just(1e100),
        Just(-1e100),
        Just(1e-300),
        Just(f64::MIN_POSITIVE / 8.0),
    ]
}

fn pairs() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((value(), value()), 1..30)
}

fn all_finite(values: &[Option<f64>]) -> bool {
    values.iter().flatten().all(|value| value.is_finite())
}

fn ends(interval: Option<Interval>) -> [Option<f64>; 2] {
    [interval.map(|interval| interval.lower), interval.map(|interval| interval.upper)]
}

fn is_p(p: f64) -> bool {
    (0.0..=1.0).contains(&p)
}

const OPTIONS: paired::Options = paired::Options { level: 0.95, seed: 7, flips: 50 };

proptest! {
    #[test]
    fn a_summary_is_finite(values in prop::collection::vec(value(), 0..30), n_keys in 1_usize..5) {
        let clusters = Clusters::by_key((0..values.len()).map(|at| at % n_keys));
        let found = summary::summarize(&values, Some(&clusters), 0.95).unwrap();
        prop_assert!(all_finite(&[found.mean, found.sd, found.stderr, found.min, found.max]));
        prop_assert!(all_finite(&[found.median, found.p25, found.p75, found.p95]));
        prop_assert!(all_finite(&ends(found.interval)));
        prop_assert_eq!(found.clustered.is_some(), !values.is_empty());
        if let Some(clustered) = found.clustered {
            prop_assert!(clustered.stderr.is_finite() && all_finite(&ends(clustered.interval)));
        }
    }

    #[test]
    fn a_comparison_is_finite(pairs in pairs()) {
        let (reference, candidate): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let found = paired::compare(&reference, &candidate, None, OPTIONS).unwrap();
        prop_assert!(all_finite(&[Some(found.mean_difference), found.sd, found.stderr, found.dz]));
        prop_assert!(all_finite(&ends(found.interval)));
        prop_assert!(is_p(found.sign_p) && is_p(found.permutation_p));
        prop_assert!(found.t.is_none_or(|t| t.t.is_finite() && is_p(t.p)));
        prop_assert!(found.wilcoxon.is_none_or(|wilcoxon| is_p(wilcoxon.p)));
        prop_assert_eq!(found.wins + found.losses + found.ties, found.n as u64);
        let welch = welch::welch(&reference, &candidate).unwrap();
        prop_assert!(welch.is_none_or(|t| t.t.is_finite() && is_p(t.p)));
    }

    #[test]
    fn coefficients_stay_within_one(pairs in pairs()) {
        let (human, judge): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        let found = correlation::correlate(&human, &judge).unwrap();
        for coefficient in [found.pearson, found.spearman, found.kendall_tau_b] {
            prop_assert!(coefficient.is_none_or(|value| (-1.0..=1.0).contains(&value)));
        }
        prop_assert!(all_finite(&[Some(found.mae), Some(found.rmse), Some(found.bias)]));
        let ratings = [human, judge].map(|side| side.into_iter().map(Some).collect());
        for scale in [Scale::Nominal, Scale::Ordinal, Scale::Interval] {
            let alpha = krippendorff::alpha(&ratings, scale).unwrap();
            prop_assert!(alpha.is_none_or(|alpha| alpha.is_finite() && alpha <= 1.0));
        }
        let kappa = krippendorff::fleiss_kappa(&ratings).unwrap();
        prop_assert!(kappa.is_none_or(|kappa| kappa.is_finite() && kappa <= 1.0));
    }

    #[test]
    fn kendall_counted_by_merging_is_kendall_counted_pair_by_pair(pairs in prop::collection::vec((0_u8..6, 0_u8..6), 2..40)) {
        let (mut agree, mut left, mut right) = (0, 0, 0);
        for (at, one) in pairs.iter().enumerate() {
            for other in &pairs[at + 1..] {
                let (a, b) = (one.0.cmp(&other.0) as i64, one.1.cmp(&other.1) as i64);
                agree += a * b;
                left += a.abs();
                right += b.abs();
            }
        }
        let side = |pick: fn(&(u8, u8)) -> u8| -> Vec<f64> { pairs.iter().map(|pair| f64::from(pick(pair))).collect() };
        let found = correlation::correlate(&side(|pair| pair.0), &side(|pair| pair.1)).unwrap();
        let size = (left as f64 * right as f64).sqrt();
        match found.kendall_tau_b {
            Some(tau) => prop_assert!((tau - agree as f64 / size).abs() < 1e-12),
            None => prop_assert_eq!(size, 0.0),
        }
    }

    #[test]
    fn agreement_is_finite(pairs in prop::collection::vec((0_u8..4, 0_u8..4), 1..40)) {
        let (human, judge): (Vec<u8>, Vec<u8>) = pairs.into_iter().unzip();
        let found = Confusion::count(&human, &judge, &[0, 1, 2, 3]).unwrap();
        let kappas = [Weights::Equal, Weights::Linear, Weights::Quadratic].map(|weights| found.kappa(weights));
        prop_assert!(all_finite(&kappas));
        prop_assert!(all_finite(&[found.gwet_ac1(), found.scott_pi()]));
        let numbers = [found.macro_f1(), found.balanced_accuracy(), found.matthews(), found.agreement()];
        prop_assert!(all_finite(&numbers.map(Some)));
    }

    #[test]
    fn intervals_of_a_share_hold_it(n in 1_u64..3_000, part in 0.0..=1.0, level in 0.5..0.999) {
        let k = (n as f64 * part) as u64;
        let share = k as f64 / n as f64;
        for interval in [proportion::wilson(k, n, level).unwrap(), proportion::clopper_pearson(k, n, level).unwrap()] {
            prop_assert!(0.0 <= interval.lower && interval.upper <= 1.0);
            prop_assert!(interval.lower <= share && share <= interval.upper);
        }
    }

    #[test]
    fn differences_of_proportions_are_within_their_intervals(
        lists in [(0_u64..300, 1_u64..300), (0_u64..300, 1_u64..300)],
        disagreements in (0_u64..200, 0_u64..200),
        level in 0.8..0.999,
    ) {
        let list = |(k, n): (u64, u64)| Successes { k: k.min(n), n };
        let found = fisher::compare(list(lists[0]), list(lists[1]), level).unwrap();
        prop_assert!(is_p(found.p) && found.stderr.is_finite());
        prop_assert!(-1.0 <= found.interval.lower && found.interval.upper <= 1.0);
        prop_assert!(found.interval.lower <= found.interval.upper);
        let (only_candidate, only_reference) = disagreements;
        let n = only_candidate + only_reference + lists[0].1;
        let mcnemar = paired::McNemar {
            only_candidate, only_reference, exact_p: 1.0, chi_squared_p: None,
        };
        let found = mcnemar.difference(n, level).unwrap();
        let share = (only_candidate as f64 - only_reference as f64) / n as f64;
        prop_assert!(found.interval.lower <= share && share <= found.interval.upper);
        prop_assert!(0.0 < found.stderr);
    }

    #[test]
    fn drift_is_finite(reference in prop::collection::vec(value(), 1..30), current in prop::collection::vec(value(), 1..30)) {
        let edges = [f64::NEG_INFINITY, 0.2, 0.6, 1.0, f64::INFINITY];
        let found = drift::drift(&reference, &current, &edges).unwrap();
        prop_assert!(found.psi.is_finite() && found.mean_shift.is_finite());
        prop_assert!(is_p(found.ks) && is_p(found.js_divergence_bits));
    }
}

#[test]
fn an_undefined_result_is_an_error_with_a_reason() {
    let options = bootstrap::Options { seed: 1, resamples: 10, level: 0.95 };
    assert_eq!(reducers::reduce(&[], Reducer::Mean).unwrap_err(), Error::Empty);
    assert_eq!(
        summary::summarize(&[1.0, f64::NAN], None, 0.95).unwrap_err(),
        Error::Unusable { at: 1 }
    );
    assert_eq!(summary::summarize(&[1e101], None, 0.95).unwrap_err(), Error::Unusable { at: 0 });
    assert_eq!(bootstrap::mean(&[], None, options).unwrap_err(), Error::Empty);
    assert_eq!(
        paired::compare(&[1.0], &[1.0, 2.0], None, OPTIONS).unwrap_err(),
        Error::Lengths { left: 1, right: 2 }
    );
    assert_eq!(proportion::wilson(0, 0, 0.95).unwrap_err(), Error::Empty);
    assert_eq!(
        proportion::wilson(2, 1, 0.95).unwrap_err().to_string(),
        "k must not be larger than n"
    );
    assert_eq!(
        Confusion::count(&["a", "b"], &["a", "c"], &["a", "b"]).unwrap_err(),
        Error::UnknownLabel { at: 1 }
    );
    assert_eq!(
        drift::histogram(&[0.5, 2.0], &[0.0, 1.0]).unwrap_err(),
        Error::OutsideBins { at: 1 }
    );
    assert!(multiple::adjust(&[f64::NAN], multiple::Correction::Holm).is_err());
}

#[test]
fn equal_differences_make_no_effect_of_millions() {
    // 0.3 - 0.2 and 0.8 - 0.7 differ in their last bits.
    let found = paired::compare(&[0.2, 0.7, 0.5], &[0.3, 0.8, 0.6], None, OPTIONS).unwrap();
    assert_eq!((found.sd, found.dz, found.t), (Some(0.0), None, None));
    assert_eq!(found.wins, 3);
}

#[test]
fn more_items_than_can_be_enumerated_are_flipped_by_the_seed() {
    let reference: Vec<f64> = (0..40).map(f64::from).collect();
    let p = |seed, more: fn(&f64) -> f64| {
        let candidate: Vec<f64> = reference.iter().map(|value| value + more(value)).collect();
        let options = paired::Options { seed, flips: 10_000, ..OPTIONS };
        let found = paired::compare(&reference, &candidate, None, options);
        found.unwrap().permutation_p
    };
    // All differences are positive: no other pattern drawn is as far, so only the observed one counts.
    let spread = |value: &f64| 1.0 + value / 100.0;
    assert_eq!(p(1, spread), 1.0 / 10_001.0);
    assert_eq!(p(1, spread), p(1, spread));
    // Of equal differences only the number with each sign counts, which needs no draws.
    assert!((p(1, |_| 1.0) - 0.5_f64.powi(39)).abs() < 1e-20);
}

#[test]
fn a_large_sample_has_an_exact_interval() {
    let interval = proportion::clopper_pearson(500_000, 1_000_000, 0.95).unwrap();
    // The normal approximation plus its first correction.
    assert!((interval.upper - 0.500_980_48).abs() < 1e-6);
    assert!((interval.lower + interval.upper - 1.0).abs() < 1e-9);
}
