//! Renders the pages of experiments with hostile text.

use perpend_domain::payload::Payload;
use perpend_domain::score::ScoreValue;
use perpend_domain::time::Timestamp;

use crate::samples_tests::{HOSTILE, checked, shell, text, typed};
use crate::*;

fn estimate(mean: f64) -> Estimate {
    Estimate { mean, interval: Some([mean - 0.1, mean + 0.1]), n: 20, unit: Unit::Number }
}

fn score() -> RunScoreLine {
    RunScoreLine::new(HOSTILE, &ScoreValue::Text(HOSTILE.to_owned()), Some(HOSTILE))
}

fn list(runs: Vec<ExperimentLine>) -> ExperimentsPage {
    let points = [0.5, 0.7].map(|mean| RunPoint {
        name: text(HOSTILE),
        href: typed(),
        estimate: Some(estimate(mean)),
    });
    ExperimentsPage {
        shell: shell(),
        notices: vec![text(HOSTILE)],
        q: typed(),
        datasets: vec![(typed(), text(HOSTILE), true)],
        page_links: PageLinks::default(),
        is_filtered: false,
        is_later: false,
        new_href: Some(typed()),
        exports: vec![("CSV", typed())],
        setup: runs.is_empty().then(|| Setup {
            origin: "https://perpend.example".to_owned(),
            project: "p".to_owned(),
            public_key: "pk".to_owned(),
            refused: None,
        }),
        example_dataset: typed(),
        table: RunTable {
            score_names: vec![text(HOSTILE), text("exact")],
            n_more_scores: 2,
            chart: (!runs.is_empty()).then(|| RunChart::new(HOSTILE, &points)),
            chart_links: vec![(text(HOSTILE), typed(), true), (text("exact"), typed(), false)],
            has_datasets: true,
            may_delete: true,
            baseline_action: None,
            runs,
        },
    }
}

#[test]
fn the_list_of_runs_is_inert_and_shows_means_with_intervals() {
    let run = ExperimentLine::new((HOSTILE, HOSTILE), Timestamp::from_millis(0), "/project/p")
        .of_dataset((HOSTILE, HOSTILE), "/project/p")
        .with_items(
            ItemCounts { n_expected: Some(20), n_seen: 18, n_failed: 1, n_missing: 2 },
            vec![Some(estimate(0.5)), None],
        )
        .with_figures(Some(0.5), Some(1_500.0));
    let html = checked(&list(vec![run.clone(), run]));
    for part in ["18 / 20", "0.50 <span", "(0.40–0.60)", "$0.5000", "1.50 s", "id=\"choice\""] {
        assert!(html.contains(part), "{part} in {html}");
    }
    let empty = checked(&list(Vec::new()));
    assert!(empty.contains("run_experiment") && empty.contains("https://perpend.example"));
    assert!(!empty.contains("id=\"choice\""));
    checked(&DeleteExperimentPage {
        shell: shell(),
        name: text(HOSTILE),
        href: "/project/p/experiments/r".to_owned(),
        n_items: 2,
    });
    checked(&RenameExperimentPage {
        shell: shell(),
        name: text(HOSTILE),
        href: "/project/p/experiments/r".to_owned(),
        entered: typed(),
        problem: Some(text(HOSTILE)),
    });
}

#[test]
fn a_run_is_inert_and_accounts_for_its_items() {
    let item = RunItem {
        id: text(HOSTILE),
        trace_href: Some(typed()),
        input: Some(text(HOSTILE)),
        expected: Some(text(HOSTILE)),
        output: Some(text(HOSTILE)),
        scores: vec![score()],
        latency_ms: Some(12.0),
        cost_usd: Some(0.25),
        n_tokens: Some(1_200),
        is_error: true,
        is_missing: false,
        message: Some(text(HOSTILE)),
    };
    let missing = RunItem { id: text("gone"), is_missing: true, ..RunItem::default() };
    let numbers =
        ScoreSummary::new(HOSTILE, [18, 2]).with_mean(estimate(0.5), Some(0.05), &[0.0, 0.5, 1.0]);
    let categories = ScoreSummary::new(HOSTILE, [18, 0]).with_categories(&[(typed(), 9)]);
    let html = checked(&RunPage {
        shell: shell(),
        notices: vec![text(HOSTILE)],
        id: text(HOSTILE),
        name: text(HOSTILE),
        href: "/project/p/experiments/r".to_owned(),
        description: Some(text(HOSTILE)),
        dataset: Some((text(HOSTILE), typed())),
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(0),
        counts: ItemCounts { n_expected: Some(20), n_seen: 18, n_failed: 1, n_missing: 2 },
        n_results: 36,
        is_complete: false,
        account_notes: vec![text(HOSTILE)],
        cost_usd: None,
        n_tokens: Some(36_000),
        latency: Some(Estimate { unit: Unit::Milliseconds, ..estimate(120.0) }),
        metadata: Some(Text::lines(typed())),
        scores: vec![numbers, categories],
        run_scores: vec![score()],
        evaluators: vec![EvaluatorCountLine {
            evaluator: ResourceLink::new(HOSTILE, HOSTILE),
            n_scored: 17,
            n_missing: 1,
        }],
        items: vec![missing, item],
        position: "1–2 of 2".to_owned(),
        page_links: PageLinks::default(),
        views: vec![("Worst first", typed(), true)],
        others: vec![(text(HOSTILE), typed())],
        may_change: true,
        news_href: Some(typed()),
        progress: Some((text(HOSTILE), text(HOSTILE))),
        changes: vec![("pause", "Pause"), ("cancel", "Cancel")],
        rule: Some(ResourceLink::new(HOSTILE, HOSTILE)),
        baseline: Some((text(HOSTILE), typed())),
    });
    for part in [
        "incomplete",
        "36 results",
        "36,000",
        "1,200",
        "± 0.05",
        "100 % (n = 9)",
        ">missing<",
        ">error<",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
}

fn compared_run(is_base: bool) -> ComparedRun {
    ComparedRun {
        name: text(HOSTILE),
        id: text(HOSTILE),
        href: typed(),
        is_base,
        base_href: typed(),
        without_href: Some(typed()),
        items: "20 items".to_owned(),
    }
}

fn cell(output: OutputView) -> ItemCell {
    ItemCell {
        run: text(HOSTILE),
        trace_href: Some(typed()),
        output,
        is_error: true,
        message: Some(text(HOSTILE)),
        scores: vec![ItemScoreChip {
            score: score(),
            difference: Some("−0.50".to_owned()),
            is_better: Some(false),
        }],
        n_results: Some(3),
    }
}

fn changed() -> OutputView {
    let [a, b] = ["a b c", HOSTILE].map(|value| Payload::Text(value.to_owned()));
    let choice = DiffChoice { is_inline: true, ignores_space: false };
    OutputView::Changed(Box::new(Diff::new(Some(&a), Some(&b), choice, 2_000)))
}

fn verdicts() -> Vec<MetricVerdicts> {
    let row = VerdictRow::new(VerdictInput {
        run: text(HOSTILE),
        estimate: Some(estimate(0.7)),
        unit: Unit::Number,
        difference: Some(0.02),
        interval: Some([-0.05, 0.09]),
        reach: 0.1,
        verdict: "inconclusive",
        tone: Tone::Waiting,
        adjusted_p: Some(0.4),
        method: text(HOSTILE),
        tally: Some([4, 12, 4]),
        effect_size: Some(0.1),
        notes: vec![text(HOSTILE)],
    });
    vec![MetricVerdicts {
        name: text(HOSTILE),
        direction: "higher is better",
        noise: Some(text(HOSTILE)),
        base: Some(estimate(0.5)),
        rows: vec![row.clone(), row],
    }]
}

#[test]
fn a_comparison_is_inert_and_never_says_that_there_is_no_difference() {
    let item = ComparedItem {
        id: text(HOSTILE),
        href: typed(),
        tags: vec![("regressed", "bad")],
        is_regressed: true,
        is_improved: false,
        input: Some(text(HOSTILE)),
        expected: Some(text(HOSTILE)),
        cells: vec![cell(OutputView::Equal(text(HOSTILE))), cell(changed())],
    };
    let html = checked(&RunComparisonPage {
        shell: shell(),
        notices: vec![text(HOSTILE)],
        runs: vec![compared_run(true), compared_run(false)],
        differences: vec![(text(HOSTILE), vec![text(HOSTILE), text("–")])],
        warnings: vec![text(HOSTILE)],
        level: "95 %".to_owned(),
        metrics: verdicts(),
        charts: DeltaChart::new((HOSTILE, HOSTILE), vec![-0.5, 1.0], (Unit::Number, Some(true)))
            .into_iter()
            .collect(),
        undirected: vec![DirectionForm {
            name: text(HOSTILE),
            encoded: encode(HOSTILE),
            data_type: "NUMERIC",
        }],
        may_set_direction: true,
        method_fields: vec![("runs", typed())],
        corrections: vec![("holm", "Holm", true)],
        reducers: vec![("mean", "mean", true)],
        segment_links: vec![(text(HOSTILE), typed(), true)],
        segments: vec![SegmentVerdicts {
            value: Some(text(HOSTILE)),
            n_items: 4,
            metrics: verdicts(),
        }],
        selections: vec![("Regressed", typed(), "1".to_owned(), true)],
        diff_links: RunsQuery::default().diff_links(|_| typed()),
        items: vec![item],
        position: "1–1 of 1".to_owned(),
        order: "largest regression first",
        page_links: PageLinks::default(),
        markdown: Text::lines(HOSTILE),
        command: typed(),
    });
    for part in ["inconclusive", "+0.02", "4 / 12 / 4", "0.400", "−0.50", "data-item=\"regressed\""]
    {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(!html.to_lowercase().contains("no difference"));
    checked(&RunSelectionPage {
        shell: shell(),
        message: text(HOSTILE),
        runs: vec![(text(HOSTILE), typed(), true)],
    });
}

#[test]
fn an_item_in_all_runs_is_inert() {
    let payload = Payload::Text(HOSTILE.to_owned());
    let at = Addresses::new("/project/p", "t", None, "output");
    let block = || Block::of(Some(&payload), &at);
    let side = |output, whole| ItemSide {
        run: compared_run(false),
        cell: cell(output),
        output: whole,
        comments: vec![(text(HOSTILE), Text::lines(HOSTILE))],
        latency: "1 ms".to_owned(),
        cost: "$0".to_owned(),
        repetitions: vec![(typed(), text(HOSTILE)), (typed(), text(HOSTILE))],
    };
    let html = checked(&ComparedItemPage {
        shell: shell(),
        notices: vec![text(HOSTILE)],
        id: text(HOSTILE),
        comparison_href: typed(),
        item_href: Some(typed()),
        diff_links: RunsQuery::default().diff_links(|_| typed()),
        input: block(),
        expected: Block::Absent,
        sides: vec![
            side(OutputView::Absent, Some(block())),
            side(changed(), None),
            side(OutputView::Absent, None),
        ],
        previous: Some(typed()),
        next: Some(typed()),
        position: "2 of 3".to_owned(),
        warnings: vec![text(HOSTILE)],
    });
    assert!(html.contains("rel=\"next\"") && html.contains("2 results"), "{html}");
}

#[test]
fn a_gate_is_inert_and_shows_the_exit_code() {
    let html = checked(&GatePage {
        shell: shell(),
        notices: vec![text(HOSTILE)],
        name: text(HOSTILE),
        href: "/project/p/experiments/r".to_owned(),
        config: typed(),
        baselines: vec![(text(HOSTILE), typed(), true)],
        outcome: Some(GateOutcome {
            word: "failed",
            tone: Tone::Bad,
            exit_code: 1,
            requirements: vec![GateRequirementLine {
                name: text(HOSTILE),
                word: "failed",
                tone: Tone::Bad,
                detail: text(HOSTILE),
            }],
            markdown: Text::lines(HOSTILE),
        }),
        command: typed(),
        history: vec![GateRecordLine {
            at: Timestamp::from_millis(0),
            word: text(HOSTILE),
            tone: Tone::Good,
            exit_code: 0,
            baseline: text(HOSTILE),
            href: typed(),
        }],
        may_evaluate: true,
    });
    assert!(html.contains("exit code 1"), "{html}");
}

#[test]
fn the_form_of_a_new_experiment_is_inert_and_shows_its_estimate() {
    let html = checked(&NewExperimentPage {
        shell: shell(),
        datasets: vec![(typed(), true)],
        prompts: vec![text(HOSTILE)],
        connections: vec![text(HOSTILE)],
        rejected_form: RejectedForm {
            values: vec![("prompts", typed()), ("name", typed())],
            problems: vec![("prompts", text(HOSTILE))],
        },
        estimate: Some(ExperimentEstimate {
            items: "3 items".to_owned(),
            calls: "6 calls".to_owned(),
            cost: "$0.0100".to_owned(),
            duration: "2.00 s".to_owned(),
            runs: vec![RunEstimateLine {
                name: text(HOSTILE),
                calls: "6 calls".to_owned(),
                cost: "$0.0100".to_owned(),
                unfilled: Some("1 item".to_owned()),
                unfilled_items: vec![(text(HOSTILE), text(HOSTILE))],
            }],
        }),
    });
    for part in ["6 calls", "without a value", "problem-prompts"] {
        assert!(html.contains(part), "{part} in {html}");
    }
}
