//! Verdicts, matching and bad input.

use perpend_domain::experiment::RunResults;
use perpend_domain::plugin::Digest;
use perpend_domain::score::ScoreValue;
use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::comparison::{
    Comparison, Difference, DirectionSource, InconclusiveCause, Method, NoiseSource, Verdict,
    WarningKind,
};
use perpend_experiments::options::{ItemGroups, ScoreDefinition};
use perpend_experiments::{CompareError, CompareOptions, compare};

use crate::fixtures::{numbers, options, passes, result, run, score, scored};

fn difference(comparison: &Comparison) -> &Difference {
    comparison.metrics[0].runs[1].difference.as_ref().unwrap()
}

fn verdict(runs: &[RunResults], options: &CompareOptions) -> Verdict {
    difference(&compare(runs, options).unwrap()).verdict
}

fn has_warning(comparison: &Comparison, kind: WarningKind) -> bool {
    comparison.warnings.iter().any(|warning| warning.kind == kind)
}

/// `n` items of which the first `n_passed` pass.
fn first_pass(id: &str, n: usize, n_passed: usize) -> RunResults {
    passes(id, (0..n).map(|at| at < n_passed))
}

#[test]
fn a_run_that_loses_many_items_is_worse_and_the_reverse_is_better() {
    let runs = [first_pass("a", 100, 90), first_pass("b", 100, 70)];
    let comparison = compare(&runs, &options()).unwrap();
    let found = difference(&comparison);
    assert_eq!(found.verdict, Verdict::Worse);
    assert_eq!((found.wins, found.ties, found.losses), (0, 80, 20));
    assert_eq!(found.method, Some(Method::McnemarExact));
    assert!((found.mean.unwrap() + 0.2).abs() < 1e-12);
    let options = CompareOptions { base: Some("b".to_owned()), ..options() };
    let comparison = compare(&runs, &options).unwrap();
    assert_eq!(comparison.base, "b");
    let found = comparison.metrics[0].runs[0].difference.as_ref().unwrap();
    assert_eq!((found.verdict, found.wins), (Verdict::Better, 20));
    assert!(comparison.metrics[0].runs[1].difference.is_none());
}

#[test]
fn a_direction_turns_verdicts_and_wins_but_not_numbers() {
    let runs = [first_pass("a", 100, 90), first_pass("b", 100, 70)];
    let mut options = options();
    let lower = (ScoreDirection::LowerIsBetter, DirectionSource::Request);
    options.scores.get_mut("accuracy").unwrap().direction = Some(lower);
    let comparison = compare(&runs, &options).unwrap();
    let found = difference(&comparison);
    assert_eq!((found.verdict, found.wins, found.losses), (Verdict::Better, 20, 0));
    assert!(found.mean.unwrap() < 0.0);
}

#[test]
fn without_a_direction_there_is_no_verdict() {
    let runs = [first_pass("a", 100, 90), first_pass("b", 100, 70)];
    let options = CompareOptions::default();
    let comparison = compare(&runs, &options).unwrap();
    let found = difference(&comparison);
    assert_eq!(found.verdict, Verdict::NotComparable);
    assert!(found.reason.as_ref().unwrap().contains("score config"));
    assert!(found.p.is_some() && found.p_adjusted.is_none());
    assert!(has_warning(&comparison, WarningKind::Direction));
}

#[test]
fn few_equal_items_are_inconclusive_and_many_are_equivalent() {
    for n in [1, 5, 50, 100] {
        let runs = [first_pass("a", n, n), first_pass("b", n, n)];
        assert_eq!(verdict(&runs, &options()), Verdict::Inconclusive, "{n}");
        let runs = [numbers("a", vec![0.5; n]), numbers("b", vec![0.5; n])];
        assert_eq!(verdict(&runs, &options()), Verdict::Inconclusive, "{n}");
    }
    let runs = [first_pass("a", 300, 200), first_pass("b", 300, 200)];
    assert_eq!(verdict(&runs, &options()), Verdict::Equivalent);
    let runs = [numbers("a", vec![0.5; 300]), numbers("b", vec![0.5; 300])];
    assert_eq!(verdict(&runs, &options()), Verdict::Equivalent);
}

#[test]
fn an_inconclusive_verdict_has_the_smallest_effect_and_the_items_needed() {
    // 3 of 40 items become worse.
    let runs = [first_pass("a", 40, 30), first_pass("b", 40, 27)];
    let comparison = compare(&runs, &options()).unwrap();
    let found = difference(&comparison);
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert_eq!(found.cause, Some(InconclusiveCause::FewItems));
    let smallest = found.smallest_effect.unwrap();
    assert!(0.075 < smallest && smallest < 0.3, "{smallest}");
    let needed = found.n_items_needed.unwrap();
    assert!(40 < needed && needed < 400, "{needed}");
}

#[test]
fn a_difference_below_the_margin_is_not_worse() {
    // Each of 200 items is worse by 0.01 to 0.011.
    let base: Vec<f64> = (0..200).map(|at| 0.5 + f64::from(at % 7) / 100.0).collect();
    let less = |by: f64| base.iter().enumerate().map(move |(at, x)| x - by - at as f64 * 5e-6);
    let runs = [numbers("a", base.clone()), numbers("b", less(0.01).collect::<Vec<_>>())];
    assert_eq!(verdict(&runs, &options()), Verdict::Equivalent);
    let runs = [numbers("a", base.clone()), numbers("b", less(0.03).collect::<Vec<_>>())];
    assert_eq!(verdict(&runs, &options()), Verdict::Worse);
    let options = CompareOptions { margin: Some(0.005), ..options() };
    let runs = [numbers("a", base.clone()), numbers("b", less(0.01).collect::<Vec<_>>())];
    assert_eq!(verdict(&runs, &options), Verdict::Worse);
}

#[test]
fn a_difference_within_the_noise_of_a_second_baseline_is_not_worse() {
    let runs = [first_pass("a", 200, 180), first_pass("b", 200, 166)];
    assert_eq!(verdict(&runs, &options()), Verdict::Worse);
    // 20 of 200 items flip between two runs of the baseline.
    let second = passes("a2", (0..200).map(|at| (10..190).contains(&at)));
    let mut options = options();
    options.noise_runs = vec![second];
    let comparison = compare(&runs, &options).unwrap();
    let noise = comparison.metrics[0].noise.as_ref().unwrap();
    assert_eq!((noise.source, noise.n), (NoiseSource::SecondRun, 200));
    assert!((noise.flip_share - 0.1).abs() < 1e-12);
    let found = difference(&comparison);
    assert_eq!(found.verdict, Verdict::Inconclusive);
    assert_eq!(found.cause, Some(InconclusiveCause::Noise));
    // A larger difference is.
    let runs = [first_pass("a", 200, 180), first_pass("b", 200, 140)];
    assert_eq!(verdict(&runs, &options), Verdict::Worse);
}

#[test]
fn repetitions_are_reduced_before_they_are_compared_and_show_the_noise() {
    let repeated = |id: &str, passed: fn(usize, usize) -> bool| {
        let mut found = run(id);
        for item in 0..60 {
            for repetition in 0..2 {
                let mut each = result(id, &format!("i{item}"), repetition);
                let value = ScoreValue::Boolean(passed(item, repetition));
                each.scores.push(score("accuracy", value));
                found.items.push(each);
            }
        }
        found
    };
    let runs = [
        repeated("a", |item, repetition| item % 3 != 0 || repetition == 0),
        repeated("b", |_, repetition| repetition == 0),
    ];
    let comparison = compare(&runs, &options()).unwrap();
    let found = difference(&comparison);
    assert_eq!((found.n, comparison.runs[0].n_results), (60, 120));
    assert_eq!(comparison.runs[0].n_duplicate_items, 0);
    assert_eq!((found.wins, found.ties, found.losses), (0, 20, 40));
    let noise = comparison.metrics[0].noise.as_ref().unwrap();
    assert_eq!(noise.source, NoiseSource::Repetitions);
    // A third of the items of one run and all items of the other flip.
    assert!((noise.flip_share - 2.0 / 3.0).abs() < 1e-12);
}

#[test]
fn items_with_another_expected_output_are_excluded_and_listed() {
    let mut runs = [first_pass("a", 100, 90), first_pass("b", 100, 70)];
    for item in &mut runs[1].items[70..90] {
        item.expected_output = Some(Digest::of(b"other"));
    }
    let comparison = compare(&runs, &options()).unwrap();
    assert_eq!(comparison.runs[1].changed_items.len(), 20);
    assert_eq!(comparison.runs[1].n_matched_items, 80);
    assert!(has_warning(&comparison, WarningKind::ExpectedOutput));
    assert_eq!(difference(&comparison).losses, 0);
    assert_eq!(comparison.items.iter().filter(|item| item.is_excluded).count(), 20);
}

#[test]
fn where_nothing_matches_means_are_compared_with_a_warning() {
    let mut runs = [first_pass("a", 100, 90), first_pass("b", 100, 40)];
    for item in &mut runs[1].items {
        item.item_id = format!("other {}", item.item_id);
    }
    let comparison = compare(&runs, &options()).unwrap();
    let found = difference(&comparison);
    assert_eq!((found.verdict, found.method), (Verdict::Worse, Some(Method::Fisher)));
    assert!(has_warning(&comparison, WarningKind::NothingMatches));
    let mut runs = [
        numbers("a", (0..50).map(|at| f64::from(at % 10))),
        numbers("b", (0..50).map(|at| f64::from(at % 10) + 5.0)),
    ];
    for item in &mut runs[1].items {
        item.item_id = format!("other {}", item.item_id);
    }
    let comparison = compare(&runs, &options()).unwrap();
    let found = difference(&comparison);
    assert_eq!((found.verdict, found.method), (Verdict::Better, Some(Method::Welch)));
}

#[test]
fn a_score_of_two_types_a_text_and_an_unmapped_category_are_not_comparable() {
    let reason = |runs: &[RunResults], options: &CompareOptions| {
        let comparison = compare(runs, options).unwrap();
        let found = difference(&comparison);
        assert_eq!(found.verdict, Verdict::NotComparable);
        found.reason.clone().unwrap()
    };
    let runs = [first_pass("a", 9, 5), numbers("b", vec![0.5; 9])];
    assert!(reason(&runs, &options()).contains("several types"));
    let texts = |id, text: &str| scored(id, vec![ScoreValue::Text(text.to_owned()); 9]);
    assert!(reason(&[texts("a", "x"), texts("b", "y")], &options()).contains("order"));
    let labels = |id, label: &str| scored(id, vec![ScoreValue::Categorical(label.to_owned()); 9]);
    let runs = [labels("a", "good"), labels("b", "bad")];
    assert!(reason(&runs, &options()).contains("category `good`"));
    let mut options = options();
    let definition = options.scores.get_mut("accuracy").unwrap();
    definition.categories = [("good".to_owned(), 1.0), ("bad".to_owned(), 0.0)].into();
    assert_eq!(verdict(&runs, &options), Verdict::Worse);
}

#[test]
fn a_value_that_is_not_finite_makes_its_metric_not_comparable() {
    for value in [f64::NAN, f64::INFINITY, 1e200] {
        let mut values = vec![0.5; 20];
        values[3] = value;
        let runs = [numbers("a", vec![0.5; 20]), numbers("b", values)];
        let comparison = compare(&runs, &options()).unwrap();
        let found = difference(&comparison);
        assert_eq!(found.verdict, Verdict::NotComparable);
        assert!(found.reason.as_ref().unwrap().contains("`i3`"));
    }
}

#[test]
fn runs_that_cannot_be_compared_at_all_are_errors() {
    let good = first_pass("a", 9, 5);
    let error = |runs: &[RunResults], options: &CompareOptions| compare(runs, options).unwrap_err();
    let one = [good.clone()];
    assert_eq!(error(&one, &options()), CompareError::NumberOfRuns { n: 1 });
    let same = [good.clone(), good.clone()];
    assert_eq!(error(&same, &options()), CompareError::SameRun { id: "a".to_owned() });
    let empty = [good.clone(), run("b")];
    assert_eq!(error(&empty, &options()), CompareError::EmptyRun { id: "b".to_owned() });
    let mut other = first_pass("b", 9, 5);
    other.run.dataset_id = Some("e".to_owned());
    let found = error(&[good.clone(), other], &options());
    assert!(matches!(found, CompareError::Datasets { .. }));
    let runs = [good, first_pass("b", 9, 5)];
    let unknown = CompareOptions { base: Some("x".to_owned()), ..options() };
    assert_eq!(error(&runs, &unknown), CompareError::UnknownBase { id: "x".to_owned() });
    for alpha in [0.0, 1.0, f64::NAN] {
        let wrong = CompareOptions { alpha, ..options() };
        assert!(error(&runs, &wrong).to_string().starts_with("`alpha` must be"));
    }
}

#[test]
fn a_result_that_is_listed_twice_counts_once_and_is_reported() {
    let mut runs = [first_pass("a", 100, 90), first_pass("b", 100, 70)];
    let copy = runs[1].items[0].clone();
    runs[1].items.push(copy);
    let comparison = compare(&runs, &options()).unwrap();
    assert_eq!(comparison.runs[1].n_duplicate_items, 1);
    assert_eq!(comparison.runs[1].n_results, 100);
    assert!(has_warning(&comparison, WarningKind::Repetitions));
}

#[test]
fn errors_latency_cost_and_tokens_are_metrics_of_which_less_is_better() {
    let made = |id: &str, factor: f64, n_errors: usize| {
        let mut found = run(id);
        for at in 0..120 {
            let mut each = result(id, &format!("i{at}"), 0);
            let spread = 1.0 + (at % 11) as f64 / 10.0;
            each.is_error = at < n_errors;
            each.latency_ms = Some(1_000.0 * factor * spread);
            each.cost_usd = Some(0.01 * factor * spread);
            each.n_tokens = Some((1_000.0 * factor * spread) as u64);
            found.items.push(each);
        }
        found
    };
    let runs = [made("a", 1.0, 0), made("b", 1.5, 20)];
    let comparison = compare(&runs, &CompareOptions::default()).unwrap();
    let names: Vec<&str> = comparison.metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["errors", "latency_ms", "cost_usd", "tokens"]);
    for metric in &comparison.metrics {
        let found = metric.runs[1].difference.as_ref().unwrap();
        assert_eq!(found.verdict, Verdict::Worse, "{}", metric.name);
    }
    // The latency of failed results is left out.
    assert_eq!(comparison.metrics[1].runs[1].summary.n, 100);
}

#[test]
fn dependent_items_are_compared_by_cluster() {
    // 10 conversations of 20 items; all items of three conversations become worse.
    let runs = [first_pass("a", 200, 200), passes("b", (0..200).map(|at| 60 <= at))];
    assert_eq!(verdict(&runs, &options()), Verdict::Worse);
    let values = (0..200).map(|at| (format!("i{at}"), format!("c{}", at / 20))).collect();
    let clusters = Some(ItemGroups { key: "conversation".to_owned(), values });
    let comparison = compare(&runs, &CompareOptions { clusters, ..options() }).unwrap();
    let found = difference(&comparison);
    assert_eq!(found.method, Some(Method::ClusterPermutation));
    assert_eq!((found.verdict, found.p), (Verdict::Inconclusive, Some(0.25)));
    let clusters = Some(ItemGroups { key: "topic".to_owned(), ..ItemGroups::default() });
    let error = compare(&runs, &CompareOptions { clusters, ..options() }).unwrap_err();
    assert!(error.to_string().contains("`topic`"), "{error}");
}

#[test]
fn means_of_equal_repetitions_in_another_order_are_ties() {
    let repeated = |id: &str, values: [f64; 3]| {
        let mut found = run(id);
        for at in 0..20 {
            for (repetition, value) in values.into_iter().enumerate() {
                let mut item = result(id, &format!("i{at}"), repetition);
                item.scores.push(score("accuracy", ScoreValue::Numeric(value)));
                found.items.push(item);
            }
        }
        found
    };
    let runs = [repeated("a", [0.1, 0.2, 0.3]), repeated("b", [0.3, 0.2, 0.1])];
    let found = compare(&runs, &options()).unwrap();
    let found = difference(&found);
    assert_eq!((found.wins, found.ties, found.losses), (0, 20, 0));
}

#[test]
fn an_item_may_move_by_the_whole_range_of_negative_and_positive_values() {
    let values = || (0..200).map(|at| if at % 2 == 0 { -5.0 } else { 5.0 });
    let runs = [numbers("a", values()), numbers("b", values())];
    let with = |margin| CompareOptions { margin: Some(margin), ..options() };
    assert_eq!(verdict(&runs, &with(0.1)), Verdict::Inconclusive);
    assert_eq!(verdict(&runs, &with(0.2)), Verdict::Equivalent);
}

#[test]
fn an_item_with_fewer_results_than_the_others_is_a_warning() {
    let repeated = |id: &str, n_last: usize| {
        let mut found = run(id);
        for at in 0..3 {
            let n_results = if at == 2 { n_last } else { 2 };
            for repetition in 0..n_results {
                let mut item = result(id, &format!("i{at}"), repetition);
                item.scores.push(score("accuracy", ScoreValue::Numeric(0.5)));
                found.items.push(item);
            }
        }
        found
    };
    let warned = |n_last| {
        let compared = compare(&[repeated("a", 2), repeated("b", n_last)], &options()).unwrap();
        has_warning(&compared, WarningKind::Repetitions)
    };
    assert!(warned(1) && !warned(2));
}

#[test]
fn neither_the_baseline_nor_the_only_compared_run_measures_noise() {
    let runs = [first_pass("a", 20, 20), first_pass("b", 20, 10)];
    for at in [0, 1] {
        let noise_runs = vec![runs[at].clone()];
        let error = compare(&runs, &CompareOptions { noise_runs, ..options() }).unwrap_err();
        assert!(error.to_string().contains("noiseRuns"), "{error}");
    }
    let three = [&runs[..], &[first_pass("a2", 20, 19)]].concat();
    let noise_runs = vec![three[2].clone()];
    assert!(compare(&three, &CompareOptions { noise_runs, ..options() }).is_ok());
}

#[test]
fn a_regression_in_one_segment_is_found_there() {
    let runs = [first_pass("a", 200, 200), passes("b", (0..200).map(|at| 30 <= at))];
    let language = |at: usize| if at < 60 { "de" } else { "en" };
    let values = (0..200).map(|at| (format!("i{at}"), language(at).to_owned())).collect();
    let segments = Some(ItemGroups { key: "language".to_owned(), values });
    let comparison = compare(&runs, &CompareOptions { segments, ..options() }).unwrap();
    let found: Vec<(Option<&str>, u64, Verdict)> = comparison
        .segments
        .iter()
        .map(|segment| {
            let found = segment.metrics[0].runs[1].difference.as_ref().unwrap();
            (segment.value.as_deref(), segment.n_items, found.verdict)
        })
        .collect();
    assert_eq!(found[1], (Some("de"), 60, Verdict::Worse));
    assert_eq!(found[0], (Some("en"), 140, Verdict::Equivalent));
}

#[test]
fn the_first_items_are_the_largest_regressions() {
    let runs = [numbers("a", [0.9, 0.9, 0.5, 0.5]), numbers("b", [0.8, 0.1, 0.5, 0.9])];
    let comparison = compare(&runs, &options()).unwrap();
    let ids: Vec<&str> = comparison.items.iter().map(|item| item.item_id.as_str()).collect();
    assert_eq!(ids, ["i1", "i0", "i2", "i3"]);
    assert!(comparison.items[0].is_regressed && comparison.items[3].is_improved);
    assert!(!comparison.items[2].is_changed);
    assert_eq!(comparison.items[0].runs[1].as_ref().unwrap().values, [Some(0.1)]);
}

#[test]
fn many_metrics_are_corrected_together() {
    let made = |id: &str, worse: bool| {
        let mut found = run(id);
        for at in 0..40 {
            let mut each = result(id, &format!("i{at}"), 0);
            for name in ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7"] {
                let is_lost = worse && name == "m0" && at < 6;
                let is_flipped = worse && name != "m0" && (at == 7 || at == 8);
                let value = !is_lost && (is_flipped == (at == 8));
                each.scores.push(score(name, ScoreValue::Boolean(value || (!worse && at != 8))));
            }
            found.items.push(each);
        }
        found
    };
    let mut options = CompareOptions::default();
    for at in 0..8 {
        let direction = Some((ScoreDirection::HigherIsBetter, DirectionSource::ScoreConfig));
        let definition = ScoreDefinition { direction, ..ScoreDefinition::default() };
        options.scores.insert(format!("m{at}"), definition);
    }
    let runs = [made("a", false), made("b", true)];
    let comparison = compare(&runs, &options).unwrap();
    let found = difference(&comparison);
    // Six of six alone are significant, but not among eight metrics.
    assert!(found.p.unwrap() < 0.05 && 0.05 < found.p_adjusted.unwrap());
    assert_eq!(found.verdict, Verdict::Inconclusive);
    options.metrics = vec!["m0".to_owned()];
    assert_eq!(verdict(&runs, &options), Verdict::Worse);
}

#[test]
fn the_same_runs_give_the_same_bits() {
    let values = |by: f64| (0..80).map(move |at| f64::from(at * 37 % 19) / 19.0 * by);
    let runs = [numbers("a", values(1.0)), numbers("b", values(0.9))];
    let options = options();
    assert_eq!(compare(&runs, &options), compare(&runs, &options));
}

#[test]
fn equal_runs_without_a_margin_lack_the_margin_and_not_items() {
    let with = |margin| CompareOptions { margin, ..options() };
    for n in [1, 20, 400] {
        let runs = [first_pass("a", n, n / 2), first_pass("b", n, n / 2)];
        let grades = [numbers("a", vec![4.0; n]), numbers("b", vec![4.0; n])];
        for (runs, margin) in [(&runs, Some(0.0)), (&grades, Some(0.0)), (&grades, None)] {
            let comparison = compare(runs, &with(margin)).unwrap();
            let found = difference(&comparison);
            assert_eq!(found.verdict, Verdict::Inconclusive, "{n}");
            assert_eq!(found.cause, Some(InconclusiveCause::NoMargin), "{n}");
            assert!(found.reason.as_ref().unwrap().contains("margin"));
            assert_eq!(found.n_items_needed, None);
        }
    }
    let grades = [numbers("a", vec![4.0; 400]), numbers("b", vec![4.0; 400])];
    assert_eq!(verdict(&grades, &with(Some(0.1))), Verdict::Equivalent);
    // Items that differ by chance are too few.
    let runs = [first_pass("a", 20, 10), first_pass("b", 20, 9)];
    let comparison = compare(&runs, &with(Some(0.0))).unwrap();
    assert_eq!(difference(&comparison).cause, Some(InconclusiveCause::FewItems));
}

#[test]
fn equal_small_costs_are_equivalent_by_their_own_size() {
    let made = |id: &str| {
        let mut found = run(id);
        for at in 0..400 {
            let mut each = result(id, &format!("i{at}"), 0);
            each.cost_usd = Some(0.002);
            found.items.push(each);
        }
        found
    };
    let options = CompareOptions { metrics: vec!["cost_usd".to_owned()], ..options() };
    let comparison = compare(&[made("a"), made("b")], &options).unwrap();
    assert_eq!(difference(&comparison).verdict, Verdict::Equivalent);
}

#[test]
fn a_further_run_with_other_values_measures_no_noise_and_spoils_nothing() {
    let runs = [first_pass("a", 100, 90), first_pass("b", 100, 70)];
    for further in [numbers("a2", vec![0.5; 100]), numbers("a2", vec![f64::NAN; 100])] {
        let with = CompareOptions { noise_runs: vec![further], ..options() };
        let comparison = compare(&runs, &with).unwrap();
        assert_eq!(difference(&comparison).verdict, Verdict::Worse);
        assert_eq!(comparison.metrics[0].noise, None);
    }
}

#[test]
fn a_requested_metric_that_no_run_has_is_a_warning() {
    let runs = [first_pass("a", 20, 10), first_pass("b", 20, 9)];
    let metrics = vec!["accuracy".to_owned(), "acuracy".to_owned()];
    let comparison = compare(&runs, &CompareOptions { metrics, ..options() }).unwrap();
    assert_eq!(comparison.metrics.len(), 1);
    let warning = comparison.warnings.iter().find(|each| each.kind == WarningKind::UnknownMetric);
    assert!(warning.unwrap().message.contains("`acuracy`"));
    let metrics = vec!["acuracy".to_owned()];
    let comparison = compare(&runs, &CompareOptions { metrics, ..options() }).unwrap();
    assert!(comparison.metrics.is_empty() && comparison.n_items == 20);
}

#[test]
fn six_runs_have_five_differences_and_one_of_six_is_worse() {
    let ids = ["a", "b", "c", "d", "e", "f"];
    let runs = ids.map(|id| first_pass(id, 200, if id == "e" { 140 } else { 180 }));
    let comparison = compare(&runs, &options()).unwrap();
    let metric = &comparison.metrics[0];
    let differences = metric.runs.iter().filter_map(|run| run.difference.as_ref());
    assert_eq!(differences.count(), 5);
    for run in &metric.runs[1..] {
        let is_worse = run.difference.as_ref().unwrap().verdict == Verdict::Worse;
        assert_eq!(is_worse, run.run == "e", "{}", run.run);
    }
    let seven = ["a", "b", "c", "d", "e", "f", "g"].map(|id| first_pass(id, 9, 5));
    assert_eq!(compare(&seven, &options()), Err(CompareError::NumberOfRuns { n: 7 }));
}

#[test]
fn the_noise_of_a_segment_is_that_of_its_items() {
    let runs = [first_pass("a", 200, 180), first_pass("b", 200, 166)];
    // Between the runs of the baseline 20 of the first 100 items flip, and none of the others.
    let second = passes("a2", (0..200).map(|at| (20..180).contains(&at)));
    let half = |at: usize| if at < 100 { "first" } else { "second" };
    let values = (0..200).map(|at| (format!("i{at}"), half(at).to_owned())).collect();
    let segments = Some(ItemGroups { key: "half".to_owned(), values });
    let with = CompareOptions { segments, noise_runs: vec![second], ..options() };
    let comparison = compare(&runs, &with).unwrap();
    let mut found: Vec<(Option<&str>, u64, f64)> = comparison
        .segments
        .iter()
        .map(|segment| {
            let noise = segment.metrics[0].noise.as_ref().unwrap();
            (segment.value.as_deref(), noise.n, noise.flip_share)
        })
        .collect();
    found.sort_by_key(|(value, ..)| *value);
    assert_eq!(found, [(Some("first"), 100, 0.2), (Some("second"), 100, 0.0)]);
}

#[test]
fn a_segment_with_one_item_is_inconclusive() {
    let runs = [numbers("a", vec![0.5; 60]), numbers("b", vec![0.4; 60])];
    let values = (0..60).map(|at| (format!("i{at}"), if at == 0 { "x" } else { "y" }.to_owned()));
    let segments = Some(ItemGroups { key: "kind".to_owned(), values: values.collect() });
    let comparison = compare(&runs, &CompareOptions { segments, ..options() }).unwrap();
    let of = |at: usize| {
        let segment = &comparison.segments[at];
        let found = segment.metrics[0].runs[1].difference.as_ref().unwrap();
        (segment.value.as_deref(), found.n, found.verdict, found.reason.clone())
    };
    let (value, n, verdict, reason) = of(1);
    assert_eq!((value, n, verdict), (Some("x"), 1, Verdict::Inconclusive));
    assert!(!reason.unwrap().contains("with 1 items"));
    assert_eq!(of(0).2, Verdict::Worse);
}

#[test]
fn a_metadata_key_that_no_item_has_is_an_error() {
    let runs = [first_pass("a", 9, 5), first_pass("b", 9, 5)];
    let groups = || Some(ItemGroups { key: "topic".to_owned(), ..ItemGroups::default() });
    let error = |options: CompareOptions| compare(&runs, &options).unwrap_err().to_string();
    let segments = error(CompareOptions { segments: groups(), ..options() });
    assert_eq!(segments, "`segmentBy` must be a metadata key of some item, got `topic`");
    let clusters = error(CompareOptions { clusters: groups(), ..options() });
    assert_eq!(clusters, "`clusterBy` must be a metadata key of some item, got `topic`");
}
