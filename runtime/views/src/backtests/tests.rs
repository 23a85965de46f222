//! Renders the pages of backtests with hostile text.

use perpend_domain::time::Timestamp;

use crate::samples_tests::*;
use crate::*;

fn line() -> BacktestLine {
    BacktestLine {
        href: "/p/backtests/b".to_owned(),
        evaluator: text(HOSTILE),
        tested: "draft".to_owned(),
        state: "completed",
        tone: "good",
        reason: Some("The maximum number of targets is reached."),
        from: Timestamp::from_micros(0),
        to: Timestamp::from_micros(1_000_000),
        examined: "40 %".to_owned(),
        items: "12".to_owned(),
        failed: Some("2 failed".to_owned()),
        cost: "$1.20".to_owned(),
        created_at: Timestamp::from_micros(1_000_000),
    }
}

#[test]
fn a_list_of_backtests_is_inert() {
    let rejected_form = RejectedForm {
        values: vec![("from", typed()), ("config", typed())],
        problems: vec![("from", text(HOSTILE)), ("config", text(HOSTILE))],
    };
    let page = BacktestsPage {
        shell: shell(),
        backtests: vec![line()],
        has_more: true,
        evaluators: vec![(typed(), text(HOSTILE), true)],
        rules: vec![(typed(), text(HOSTILE), false)],
        may_write: true,
        rejected_form,
        estimate: Some(JobEstimateView {
            is_rough: true,
            items: "12 targets".to_owned(),
            left_out: "3 targets without a live score".to_owned(),
            executions: None,
            cost: "unknown".to_owned(),
            duration: "2 s".to_owned(),
        }),
    };
    assert!(checked(&page).contains("2 failed"));
    let read_only = BacktestsPage { may_write: false, ..page.clone() };
    assert!(!checked(&read_only).contains("<select"));
    let empty = BacktestsPage {
        backtests: Vec::new(),
        evaluators: Vec::new(),
        rejected_form: RejectedForm::default(),
        ..page
    };
    assert!(checked(&empty).contains("No backtests yet"));
}

#[test]
fn a_backtest_is_inert_with_its_results() {
    let page = BacktestPage {
        shell: shell(),
        line: line(),
        evaluator_href: "/p/evaluators/e".to_owned(),
        rule_href: Some("/p/rules/r".to_owned()),
        tested: vec![("Configuration", text(HOSTILE))],
        counts: vec![("Examined targets", "12".to_owned())],
        limits: vec!["At most 12 targets.".to_owned()],
        conditions: vec![text(HOSTILE)],
        percent: Some(40),
        progress: "12 of 30 targets examined".to_owned(),
        progress_href: "/p/_/backtests/b/progress".to_owned(),
        href: "/p/backtests/b".to_owned(),
        changes: vec![("pause", "Pause")],
        may_adopt: true,
        adopted: None,
        failures: vec![("2".to_owned(), "missing_variable".to_owned(), text(HOSTILE))],
        scores: vec![BacktestScoreView {
            name: text(HOSTILE),
            sentence: "10 of 12 values are equal.".to_owned(),
            figures: vec![("Cohen's kappa", "0.7".to_owned())],
            labels: vec![text(HOSTILE)],
            matrix: vec![(text(HOSTILE), vec!["12".to_owned()])],
            segments: vec![BacktestSegmentLine {
                by: "Model",
                value: text(HOSTILE),
                pairs: "12".to_owned(),
                flips: "2".to_owned(),
                agreement: "83 %".to_owned(),
            }],
        }],
        calls: vec![("Cost for each target", "$1".to_owned(), "$2".to_owned())],
        flips: vec![FlipLine {
            choice: ("observation", typed()),
            href: "/p/traces/t".to_owned(),
            target: text(HOSTILE),
            name: text(HOSTILE),
            live: text(HOSTILE),
            live_comment: Some(text(HOSTILE)),
            tested: text(HOSTILE),
            tested_comment: None,
        }],
        next_flips: Some("/p/backtests/b?flips=x#flips".to_owned()),
        may_add_to_dataset: true,
        queues: vec![(typed(), text(HOSTILE))],
    };
    assert!(checked(&page).contains("<progress max=\"100\" value=\"40\""));
    let adopted =
        BacktestPage { percent: None, may_adopt: false, adopted: Some(3), ..page.clone() };
    assert!(checked(&adopted).contains("Version 3"));
}
