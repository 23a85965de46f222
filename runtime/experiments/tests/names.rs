//! Scores with the names of measures.

use perpend_domain::experiment::RunResults;
use perpend_domain::score::ScoreValue;
use perpend_domain::score_config::ScoreDirection;
use perpend_experiments::CheckStatus;
use perpend_experiments::comparison::{DirectionSource, MetricKind, Verdict};
use perpend_experiments::gate::{GateOutcome, GateRuns};
use perpend_experiments::options::ScoreDefinition;
use perpend_experiments::{CompareOptions, GateConfig, compare, gate};

use crate::fixtures::{result, run, score};

/// Half of the results fail. The score `errors` is 0 for each.
fn made(id: &str) -> RunResults {
    let mut found = run(id);
    for at in 0..40 {
        let mut each = result(id, &format!("i{at}"), 0);
        each.is_error = at % 2 == 0;
        each.scores.push(score("errors", ScoreValue::Numeric(0.0)));
        found.items.push(each);
    }
    found
}

fn report(requirement: &str) -> perpend_experiments::GateReport {
    let toml = format!("{requirement}\n[limits]\nmax_failed_items = 40\n");
    let config = GateConfig::from_toml(&toml).unwrap();
    gate(&config, GateRuns { run: made("b"), baseline: None }, &CompareOptions::default()).unwrap()
}

#[test]
fn a_score_does_not_hide_the_measure_of_its_name() {
    let measure = report("[[require]]\nmetric = \"errors\"\nmean_at_most = 0.1\n");
    assert_eq!(measure.outcome, GateOutcome::Failed);
    let failure = &measure.failures[0];
    assert_eq!((failure.value, failure.metric.as_deref()), (Some(0.5), Some("errors")));
    let score = report("[[require]]\nmetric = \"score:errors\"\nmean_at_most = 0.1\n");
    assert_eq!(score.outcome, GateOutcome::Passed);
    let check = score.checks.last().unwrap();
    assert_eq!((check.value, check.status), (Some(0.0), CheckStatus::Passed));
    let both = compare(&[made("a"), made("b")], &CompareOptions::default()).unwrap();
    let names = both.metrics.iter().map(|metric| (metric.name.as_str(), metric.kind));
    let expected = [("score:errors", MetricKind::Score), ("errors", MetricKind::Errors)];
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert_eq!(both.metrics[0].score(), Some("errors"));
    assert_eq!(both.metrics[1].score(), None);
}

#[test]
fn the_direction_of_a_score_with_the_name_of_a_measure_is_kept_by_the_score() {
    let direction = Some((ScoreDirection::LowerIsBetter, DirectionSource::ScoreConfig));
    let definition = ScoreDefinition { direction, ..ScoreDefinition::default() };
    let scores = [("errors".to_owned(), definition)].into();
    let metrics = vec!["score:errors".to_owned()];
    let options = CompareOptions { scores, metrics, ..CompareOptions::default() };
    let both = compare(&[made("a"), made("b")], &options).unwrap();
    let [metric] = &both.metrics[..] else { unreachable!("one metric") };
    let difference = metric.runs[1].difference.as_ref().unwrap();
    assert_eq!(difference.verdict, Verdict::Inconclusive);
    assert_eq!(metric.direction, Some(ScoreDirection::LowerIsBetter));
}

#[test]
fn a_direction_of_a_measure_is_an_error_of_the_file() {
    let require = "[[require]]\nmetric = \"score:errors\"\nnot_worse_than_baseline = 0.1\n";
    let error =
        GateConfig::from_toml(&format!("{require}[directions]\nerrors = \"lower_is_better\"\n"));
    assert!(error.unwrap_err().to_string().contains("score:errors"));
    let toml = format!("{require}[directions]\n\"score:errors\" = \"lower_is_better\"\n");
    let config = GateConfig::from_toml(&toml).unwrap();
    let runs = GateRuns { run: made("b"), baseline: Some(made("a")) };
    let report = gate(&config, runs, &CompareOptions::default()).unwrap();
    assert_eq!(report.metrics[0].direction, Some(ScoreDirection::LowerIsBetter));
    assert_eq!(report.metrics[0].margin, 0.1);
    let twice = format!(
        "{require}[[require]]\nmetric = \"accuracy\"\nnot_worse_than_baseline = 0.1\n[[require]]\nmetric = \"score:accuracy\"\nbetter_than_baseline = 0.2\n"
    );
    assert!(GateConfig::from_toml(&twice).is_err());
}
