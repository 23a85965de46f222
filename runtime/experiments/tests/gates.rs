//! Gates: outcomes, configuration, reports, files of results.

use perpend_experiments::CheckStatus;
use perpend_experiments::comparison::Verdict;
use perpend_experiments::gate::{GateOutcome, GateRuns};
use perpend_experiments::options::ItemGroups;
use perpend_experiments::report::{Links, MARKER, gate_junit, gate_markdown, gate_text};
use perpend_experiments::run_file::{RunFile, RunFileValue};
use perpend_experiments::{
    CompareError, CompareOptions, GateConfig, GateReport, gate, gate_with_items,
};

use crate::fixtures::{options, passes};

const NOT_WORSE: &str = "[[require]]\nmetric = \"accuracy\"\nnot_worse_than_baseline = 0.02\n";

fn checked(toml: &str, base: Option<usize>, n_passed: usize) -> GateReport {
    let config = GateConfig::from_toml(toml).unwrap();
    let made = |id: &str, n_passed: usize| passes(id, (0..100).map(|at| at < n_passed));
    let runs = GateRuns { run: made("b", n_passed), baseline: base.map(|n| made("a", n)) };
    gate(&config, runs, &options()).unwrap()
}

#[test]
fn a_run_that_is_worse_than_the_baseline_fails() {
    let report = checked(NOT_WORSE, Some(90), 70);
    assert_eq!((report.outcome, report.outcome.exit_code()), (GateOutcome::Failed, 1));
    assert_eq!(report.failures.len(), 1);
    let failure = &report.failures[0];
    assert_eq!(
        (failure.rule.as_str(), failure.verdict),
        ("not_worse_than_baseline", Some(Verdict::Worse))
    );
    assert_eq!(report.worst_items.len(), 10);
    let report = checked(NOT_WORSE, Some(90), 90);
    assert_eq!(report.outcome.exit_code(), 0);
    assert!(report.failures.is_empty() && report.worst_items.is_empty());
}

#[test]
fn an_inconclusive_comparison_passes_unless_the_file_says_otherwise() {
    assert_eq!(checked(NOT_WORSE, Some(90), 87).outcome, GateOutcome::Passed);
    let strict = format!("{NOT_WORSE}[stats]\non_inconclusive = \"fail\"\n");
    let report = checked(&strict, Some(90), 87);
    assert_eq!((report.outcome, report.outcome.exit_code()), (GateOutcome::Undecided, 2));
}

#[test]
fn a_requirement_against_a_missing_baseline_is_undecided_unless_the_file_says_otherwise() {
    assert_eq!(checked(NOT_WORSE, None, 90).outcome, GateOutcome::Undecided);
    let lenient = format!("{NOT_WORSE}[stats]\non_missing_baseline = \"pass\"\n");
    assert_eq!(checked(&lenient, None, 90).outcome, GateOutcome::Passed);
}

#[test]
fn a_run_has_to_be_better_where_the_file_requires_it() {
    let better = "[[require]]\nmetric = \"accuracy\"\nbetter_than_baseline = 0.02\n";
    assert_eq!(checked(better, Some(70), 90).outcome, GateOutcome::Passed);
    assert_eq!(checked(better, Some(90), 70).outcome, GateOutcome::Failed);
    assert_eq!(checked(better, Some(90), 88).outcome, GateOutcome::Undecided);
}

#[test]
fn thresholds_compare_the_mean_or_the_end_of_its_interval() {
    let least = "[[require]]\nmetric = \"accuracy\"\nmean_at_least = 0.85\n";
    assert_eq!(checked(least, None, 90).outcome, GateOutcome::Passed);
    assert_eq!(checked(least, None, 80).outcome, GateOutcome::Failed);
    let bound = format!("{least}[stats]\nconfidence = \"lower_bound\"\n");
    assert_eq!(checked(&bound, None, 90).outcome, GateOutcome::Failed);
    assert_eq!(checked(&bound, None, 97).outcome, GateOutcome::Passed);
    let most = "[[require]]\nmetric = \"accuracy\"\nmax_at_most = 0.5\n";
    assert_eq!(checked(most, None, 0).outcome, GateOutcome::Passed);
    assert_eq!(checked(most, None, 1).outcome, GateOutcome::Failed);
    let unknown = "[[require]]\nmetric = \"tone\"\nmean_at_least = 0.5\n";
    assert_eq!(checked(unknown, None, 90).outcome, GateOutcome::Failed);
}

#[test]
fn incomplete_runs_fail_by_default() {
    let config = "[[require]]\nmetric = \"accuracy\"\nmean_at_least = 0.5\n";
    let outcome = |change: &dyn Fn(&mut perpend_domain::experiment::RunResults), toml: &str| {
        let mut run = passes("b", vec![true; 50]);
        change(&mut run);
        let config = GateConfig::from_toml(toml).unwrap();
        gate(&config, GateRuns { run, baseline: None }, &options()).unwrap().outcome
    };
    assert_eq!(outcome(&|_| (), config), GateOutcome::Passed);
    assert_eq!(outcome(&|run| run.items[0].is_error = true, config), GateOutcome::Failed);
    assert_eq!(outcome(&|run| run.items[0].scores.clear(), config), GateOutcome::Failed);
    let expects_more = |run: &mut perpend_domain::experiment::RunResults| {
        run.expected_items = Some((0..51).map(|at| format!("i{at}")).collect());
    };
    assert_eq!(outcome(&expects_more, config), GateOutcome::Failed);
    let repeats = |run: &mut perpend_domain::experiment::RunResults| {
        let copy = run.items[0].clone();
        run.items.push(copy);
    };
    assert_eq!(outcome(&repeats, config), GateOutcome::Failed);
    let lenient = format!("{config}[limits]\nmax_missing_items = 1\n");
    assert_eq!(outcome(&expects_more, &lenient), GateOutcome::Passed);
    let many = format!("{config}[limits]\nmin_items = 60\n");
    assert_eq!(outcome(&|_| (), &many), GateOutcome::Undecided);
    let costs = |run: &mut perpend_domain::experiment::RunResults| {
        run.items[0].cost_usd = Some(6.0);
    };
    let cheap = format!("{config}[limits]\nmax_usd = 5\n");
    assert_eq!(outcome(&costs, &cheap).exit_code(), 4);
    assert_eq!(outcome(&|_| (), &cheap), GateOutcome::Undecided);
    let costs_of = |n: usize| {
        move |run: &mut perpend_domain::experiment::RunResults| {
            for item in &mut run.items[..n] {
                item.cost_usd = Some(0.1);
            }
        }
    };
    assert_eq!(outcome(&costs_of(50), &cheap), GateOutcome::Passed);
    assert_eq!(outcome(&costs_of(49), &cheap), GateOutcome::Undecided);
    let pending = |run: &mut perpend_domain::experiment::RunResults| {
        run.items[0].has_arrived = false;
    };
    assert_eq!(outcome(&pending, config), GateOutcome::Failed);
}

#[test]
fn an_item_without_latency_fails_unless_it_is_a_failed_item() {
    let config = "[[require]]\nmetric = \"latency_ms\"\np95_at_most = 100\n";
    let config = format!("{config}[limits]\nmax_failed_items = 1\n");
    let outcome = |is_error: bool| {
        let mut run = passes("b", vec![true; 50]);
        for item in &mut run.items[1..] {
            item.latency_ms = Some(10.0);
        }
        run.items[0].is_error = is_error;
        let config = GateConfig::from_toml(&config).unwrap();
        gate(&config, GateRuns { run, baseline: None }, &options()).unwrap().outcome
    };
    assert_eq!(outcome(true), GateOutcome::Passed);
    assert_eq!(outcome(false), GateOutcome::Failed);
}

#[test]
fn an_unknown_key_or_a_wrong_value_of_the_file_is_an_error_that_names_it() {
    let error = |toml: &str| GateConfig::from_toml(toml).unwrap_err().to_string();
    let require = "[[require]]\nmetric = \"accuracy\"\nmean_at_least = 0.5\n";
    assert!(error(&format!("{require}mean_atleast = 1.0\n")).contains("mean_atleast"));
    assert!(error(&format!("{require}[limit]\nmin_items = 1\n")).contains("limit"));
    assert!(error(&format!("{require}[stats]\nalpha = 2.0\n")).contains("stats.alpha"));
    assert!(error("[[require]]\nmetric = \"accuracy\"\n").contains("require[0]"));
    assert!(error("require = []\n").contains("require"));
    let config = GateConfig::from_toml(&format!("{require}[limits]\nmax_usd = 5\n")).unwrap();
    assert_eq!(GateConfig::from_toml(&config.to_toml().unwrap()), Ok(config));
    let margins = format!("{NOT_WORSE}{NOT_WORSE}better_than_baseline = 0.1\n");
    assert!(error(&margins).contains("require[1].better_than_baseline"));
    let negative = "[[require]]\nmetric = \"a\"\nnot_worse_than_baseline = -0.1\n";
    assert!(error(negative).contains("not_worse_than_baseline"));
}

#[test]
fn a_file_of_results_has_the_results_of_the_run() {
    let mut run = passes("a", [true, false]);
    run.items[1].is_error = true;
    run.items[1].cost_usd = Some(0.25);
    let file = RunFile::of(&run);
    let text = serde_json::to_string(&file).unwrap();
    let read = RunFile::from_json(&text).unwrap();
    assert_eq!(read, file);
    let results = read.results().unwrap();
    assert_eq!(results.items, run.items);
    run.items[0].has_arrived = false;
    assert_eq!(RunFile::of(&run).items.len(), 1);
    let by_hand = r#"{"format": "perpend-run/1", "id": "r", "items": [
        {"itemId": "a", "scores": [{"name": "accuracy", "value": 0.5}]},
        {"itemId": "b", "scores": [{"name": "tone", "value": "good"}]}]}"#;
    assert_eq!(RunFile::from_json(by_hand).unwrap().results().unwrap().items.len(), 2);
    let error = |text: &str| RunFile::from_json(text).unwrap_err().to_string();
    assert!(error(r#"{"format": "other", "id": "r", "items": []}"#).contains("format"));
    assert!(error(r#"{"format": "perpend-run/1", "id": "r", "item": []}"#).contains("item"));
}

#[test]
fn reports_have_the_verdict_and_escape_names() {
    let config = GateConfig::from_toml(NOT_WORSE).unwrap();
    let made = |id: &str, n: usize| passes(id, (0..100).map(|at| at < n));
    let mut run = made("b", 70);
    run.run.name = "new | <b>&\"".to_owned();
    let runs = GateRuns { run, baseline: Some(made("a", 90)) };
    let report = gate(&config, runs, &options()).unwrap();
    let links = Links { project: "http://h/project/p".to_owned() };
    let markdown = gate_markdown(&report, Some(&links));
    assert!(markdown.starts_with(MARKER));
    assert!(markdown.contains("worse") && !markdown.contains("<b>"));
    assert!(markdown.contains("http://h/project/p/traces/a-i70-0"));
    assert!(markdown.contains("http://h/project/p/traces/b-i70-0"));
    let junit = gate_junit(&report);
    assert!(junit.contains("name=\"new | &lt;b&gt;&amp;&quot;\""));
    assert_eq!(junit.matches("<testcase").count(), report.checks.len());
    assert_eq!(junit.matches("<failure").count(), 1);
    let mut named = report.clone();
    named.run.name = "new\u{1b}[2J\nrun".to_owned();
    named.warnings = vec!["\u{1b}]0;title\u{7}".to_owned()];
    assert!(!gate_text(&named).contains(['\u{1b}', '\u{7}']));
    let text = gate_text(&report);
    assert!(text.contains("failed") && text.contains("not_worse_than_baseline"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["failures"][0]["metric"], "accuracy");
    assert_eq!(serde_json::from_value::<GateReport>(json).unwrap(), report);
}

#[test]
fn a_direction_in_the_file_replaces_an_unknown_one() {
    let config = format!("{NOT_WORSE}[directions]\naccuracy = \"lower_is_better\"\n");
    let config = GateConfig::from_toml(&config).unwrap();
    let made = |id: &str, n: usize| passes(id, (0..100).map(|at| at < n));
    let runs = || GateRuns { run: made("b", 90), baseline: Some(made("a", 70)) };
    let report = gate(&config, runs(), &CompareOptions::default()).unwrap();
    assert_eq!(report.outcome, GateOutcome::Failed);
    let unknown = GateConfig::from_toml(NOT_WORSE).unwrap();
    let report = gate(&unknown, runs(), &CompareOptions::default()).unwrap();
    assert_eq!(report.outcome, GateOutcome::Undecided);
    assert_eq!(report.failures[0].status, CheckStatus::Undecided);
}

#[test]
fn junit_has_a_case_for_each_item_and_metric_if_items_are_requested() {
    let config = "[[require]]\nmetric = \"accuracy\"\nmin_at_least = 1\nmean_at_least = 0.5\n";
    let config = GateConfig::from_toml(config).unwrap();
    let mut run = passes("b", [true, false, true, true]);
    run.items[2].scores.clear();
    run.items[3].item_id = "<i>".to_owned();
    run.expected_items = Some(vec!["i0".to_owned(), "gone".to_owned()]);
    let runs = || GateRuns { run: run.clone(), baseline: None };
    let report = gate_with_items(&config, runs(), &options()).unwrap();
    let found: Vec<(&str, CheckStatus)> =
        report.items.iter().map(|item| (item.item_id.as_str(), item.status)).collect();
    let expected = [
        ("<i>", CheckStatus::Passed),
        ("i0", CheckStatus::Passed),
        ("i1", CheckStatus::Failed),
        ("i2", CheckStatus::Undecided),
        ("gone", CheckStatus::Undecided),
    ];
    assert_eq!(found, expected);
    let junit = gate_junit(&report);
    assert_eq!(junit.matches("<testcase").count(), report.checks.len() + 5);
    assert!(junit.contains(&format!("tests=\"{}\"", report.checks.len() + 5)));
    assert_eq!(junit.matches("<skipped").count(), 2);
    assert!(junit.contains("classname=\"accuracy\" name=\"&lt;i&gt;\""));
    let short = gate(&config, runs(), &options()).unwrap();
    assert!(short.items.is_empty());
    let json = serde_json::to_value(&short).unwrap();
    assert!(json.get("items").is_none());
    assert_eq!(short, GateReport { items: Vec::new(), ..report });
}

#[test]
fn an_empty_run_is_undecided() {
    let config = GateConfig::from_toml(NOT_WORSE).unwrap();
    for baseline in [None, Some(passes("a", [true; 9]))] {
        let runs = GateRuns { run: passes("b", []), baseline };
        let report = gate(&config, runs, &options()).unwrap();
        let few = report.checks.iter().find(|check| check.rule == "min_items").unwrap();
        assert_eq!(few.status, CheckStatus::Undecided);
        assert_eq!(report.outcome, GateOutcome::Undecided);
    }
    let empty = GateRuns { run: passes("b", [true; 9]), baseline: Some(passes("a", [])) };
    assert_eq!(gate(&config, empty, &options()).unwrap().outcome, GateOutcome::Undecided);
}

#[test]
fn a_run_is_never_its_own_baseline_and_a_wrong_cluster_key_is_named_as_in_the_file() {
    let config = GateConfig::from_toml(NOT_WORSE).unwrap();
    let made = || passes("b", [true; 9]);
    let same = GateRuns { run: made(), baseline: Some(made()) };
    let error = gate(&config, same, &options()).unwrap_err();
    assert_eq!(error, CompareError::OwnBaseline { id: "b".to_owned() });
    let clusters = Some(ItemGroups { key: "topic".to_owned(), ..ItemGroups::default() });
    let options = CompareOptions { clusters, ..options() };
    let error = gate(&config, GateRuns { run: made(), baseline: None }, &options).unwrap_err();
    assert!(error.to_string().starts_with("`stats.cluster_by` must"), "{error}");
}

#[test]
fn an_expected_item_that_is_listed_twice_is_missing_once() {
    let mut run = passes("b", [true; 9]);
    run.expected_items = Some(vec!["gone".to_owned(); 2]);
    let config = GateConfig::from_toml(NOT_WORSE).unwrap();
    let report = gate(&config, GateRuns { run, baseline: None }, &options()).unwrap();
    assert_eq!(report.run.n_missing_items, Some(1));
}

#[test]
fn a_threshold_is_compared_without_rounding_and_shown_with_the_digits_that_differ() {
    let config = "[[require]]\nmetric = \"accuracy\"\nmean_at_most = 0.3\n";
    let config = GateConfig::from_toml(config).unwrap();
    let checked = |values: [f64; 2]| {
        let runs = GateRuns { run: crate::fixtures::numbers("b", values), baseline: None };
        gate(&config, runs, &options()).unwrap()
    };
    // The sum of both is 0.6000000000000001.
    assert_eq!(checked([0.1 + 0.2, 0.3]).outcome, GateOutcome::Passed);
    let report = checked([0.3, 0.300_1]);
    assert_eq!(report.outcome, GateOutcome::Failed);
    assert!(report.failures[0].message.contains("0.30005"), "{}", report.failures[0].message);
}

#[test]
fn a_value_that_cannot_be_read_is_named_in_the_result_of_a_threshold() {
    let config = "[[require]]\nmetric = \"accuracy\"\nmean_at_least = 0.3\n";
    let config = GateConfig::from_toml(config).unwrap();
    let run = crate::fixtures::numbers("b", [0.5, f64::INFINITY]);
    let report = gate(&config, GateRuns { run, baseline: None }, &options()).unwrap();
    let check = report.checks.iter().find(|check| check.rule == "mean_at_least").unwrap();
    assert_eq!(check.status, CheckStatus::Undecided);
    assert!(check.message.contains("`i1`"), "{}", check.message);
}

#[test]
fn a_number_of_a_file_that_is_not_usable_is_an_error_that_names_its_place() {
    let mut file = RunFile::of(&passes("a", [true, false]));
    let error = |file: &RunFile| file.results().unwrap_err().to_string();
    for latency in [f64::NAN, f64::INFINITY, -1.0] {
        file.items[1].latency_ms = Some(latency);
        assert!(error(&file).starts_with("`items[1].latencyMs` must be"), "{}", error(&file));
    }
    file.items[1].latency_ms = None;
    file.items[1].cost_usd = Some(f64::NAN);
    assert!(error(&file).contains("costUsd"));
    file.items[1].cost_usd = None;
    file.items[0].scores[0].value = RunFileValue::Number(f64::NEG_INFINITY);
    assert!(error(&file).contains("`items[0].scores[0].value`"));
    file.items[0].scores[0].value = RunFileValue::Number(0.5);
    for rate in [0.0, 1.5, f64::NAN] {
        file.items[0].scores[0].inclusion_probability = Some(rate);
        assert!(error(&file).contains("inclusionProbability"));
    }
}
