//! Rules that comparisons keep for any values.

use perpend_domain::experiment::RunResults;
use perpend_domain::score::ScoreValue;
use perpend_experiments::comparison::{ConfidenceInterval, Difference, Verdict};
use perpend_experiments::{CompareOptions, compare};
use proptest::prelude::*;

use crate::fixtures::{options, result, run, score};

/// The values of an item in both runs; absent where a run lacks it.
type Pair = (Option<f64>, Option<f64>);

fn value(is_binary: bool) -> BoxedStrategy<f64> {
    match is_binary {
        true => prop_oneof![Just(0.0), Just(1.0)].boxed(),
        false => prop_oneof![0.0..=1.0, Just(0.5), Just(0.1), Just(0.3)].boxed(),
    }
}

fn maybe(is_binary: bool) -> impl Strategy<Value = Option<f64>> {
    prop_oneof![1 => Just(None), 9 => value(is_binary).prop_map(Some)]
}

/// Items of two runs that often differ in one direction.
fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let of = |is_binary| prop::collection::vec((maybe(is_binary), maybe(is_binary)), 1..60);
    let biased = prop::collection::vec(
        (value(false), 0.0..0.2)
            .prop_map(|(value, less)| (Some(value), Some(value - less * value))),
        1..60,
    );
    let broken = prop::collection::vec(
        prop_oneof![3 => Just((1.0, 1.0)), 1 => Just((1.0, 0.0)), 1 => Just((0.0, 0.0))]
            .prop_map(|(before, after)| (Some(before), Some(after))),
        1..60,
    );
    prop_oneof![of(true), of(false), biased, broken]
}

fn made(pairs: &[Pair]) -> [RunResults; 2] {
    let side = |id: &str, pick: fn(&Pair) -> Option<f64>| {
        let mut found = run(id);
        for (at, pair) in pairs.iter().enumerate() {
            let Some(value) = pick(pair) else { continue };
            let mut item = result(id, &format!("i{at}"), 0);
            item.scores.push(score("accuracy", ScoreValue::Numeric(value)));
            found.items.push(item);
        }
        found
    };
    [side("a", |pair| pair.0), side("b", |pair| pair.1)]
}

fn difference(runs: &[RunResults], options: &CompareOptions) -> Option<Difference> {
    let comparison = compare(runs, options).ok()?;
    let runs = comparison.metrics.into_iter().next()?.runs.into_iter();
    runs.filter_map(|run| run.difference).next()
}

fn close(left: Option<f64>, right: Option<f64>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => (left - right).abs() <= 1e-9 * left.abs().max(1.0),
        _ => left == right,
    }
}

fn is_mirrored(left: Option<ConfidenceInterval>, right: Option<ConfidenceInterval>) -> bool {
    let ends = |interval: Option<ConfidenceInterval>| {
        (interval.map(|each| each.lower), interval.map(|each| each.upper))
    };
    let (left, right) = (ends(left), ends(right));
    close(left.0, right.1.map(|end| -end)) && close(left.1, right.0.map(|end| -end))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn runs_that_change_places_mirror_the_difference(pairs in pairs()) {
        let [a, b] = made(&pairs);
        let forth = difference(&[a.clone(), b.clone()], &options());
        let back = difference(&[b, a], &options());
        prop_assert_eq!(forth.is_some(), back.is_some());
        let (Some(forth), Some(back)) = (forth, back) else { return Ok(()) };
        prop_assert!(close(forth.mean, back.mean.map(|mean| -mean)));
        prop_assert!(is_mirrored(forth.interval, back.interval));
        prop_assert!(is_mirrored(forth.bootstrap_interval, back.bootstrap_interval));
        prop_assert_eq!((forth.wins, forth.losses), (back.losses, back.wins));
        prop_assert!(close(forth.p, back.p), "{:?} {:?}", forth.p, back.p);
        prop_assert!(close(forth.smallest_effect, back.smallest_effect));
        let mirrored = match forth.verdict {
            Verdict::Better => Verdict::Worse,
            Verdict::Worse => Verdict::Better,
            other => other,
        };
        prop_assert_eq!(mirrored, back.verdict);
    }

    #[test]
    fn the_order_of_results_changes_nothing(
        (pairs, order) in pairs().prop_flat_map(|pairs| {
            let order = Just((0..pairs.len()).collect::<Vec<usize>>()).prop_shuffle();
            (Just(pairs), order)
        })
    ) {
        let runs = made(&pairs);
        let mut shuffled = runs.clone();
        for run in &mut shuffled {
            let place = |id: &str| order.iter().position(|at| id == format!("i{at}"));
            run.items.sort_by_key(|item| place(&item.item_id));
        }
        prop_assert_eq!(compare(&runs, &options()), compare(&shuffled, &options()));
    }

    #[test]
    fn an_item_with_equal_values_never_makes_an_inconclusive_run_worse(
        pairs in pairs(),
        margin in prop_oneof![Just(0.0), Just(0.02), 0.0..0.3],
    ) {
        let options = CompareOptions { margin: Some(margin), ..options() };
        let more = pairs.iter().copied().chain([(Some(1.0), Some(1.0))]);
        let more: Vec<Pair> = more.collect();
        let before = difference(&made(&pairs), &options);
        let after = difference(&made(&more), &options);
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        if before.verdict == Verdict::Inconclusive {
            prop_assert_ne!(after.verdict, Verdict::Worse);
        }
        if after.verdict == Verdict::Worse && 0 < before.n {
            prop_assert_eq!(before.verdict, Verdict::Worse);
        }
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused_with_its_item(pairs in pairs(), at in any::<prop::sample::Index>()) {
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut pairs = pairs.clone();
            let at = at.index(pairs.len());
            pairs[at] = (Some(0.5), Some(wrong));
            let found = difference(&made(&pairs), &options()).unwrap();
            prop_assert_eq!(found.verdict, Verdict::NotComparable);
            let item = format!("`i{at}`");
            prop_assert!(found.reason.is_some_and(|reason| reason.contains(&item)));
        }
    }
}
