//! Renders trials with hostile text.

use perpend_domain::plugin::LogLine;
use perpend_domain::score::{ScoreSource, ScoreValue};
use perpend_domain::time::Timestamp;

use crate::samples_tests::*;
use crate::*;

fn score(value: &ScoreValue) -> ScoreView {
    ScoreView::new(HOSTILE, value, ScoreSource::Eval, Timestamp::from_micros(0))
        .comment(Some(HOSTILE))
}

fn row() -> TrialRow {
    let log = LogLine {
        level: "info".to_owned(),
        message: HOSTILE.to_owned(),
        fields: Some(HOSTILE.to_owned()),
    };
    TrialRow {
        kind: "observation",
        id: text(HOSTILE),
        href: Some("/p/traces/t".to_owned()),
        scores: vec![score(&ScoreValue::Numeric(0.5))],
        error: None,
        current: vec![(score(&ScoreValue::Numeric(0.25)), false)],
        people: vec![score(&ScoreValue::Boolean(true))],
        log: vec![log.into()],
        item: Some(text(HOSTILE)),
        duration: "1.2 s".to_owned(),
        cpu: "3 ms".to_owned(),
        cost: "$0.01".to_owned(),
        tokens: "10 + 20 tokens".to_owned(),
    }
}

#[test]
fn a_trial_is_inert_and_shows_scores_and_failures() {
    let failed = TrialRow {
        scores: Vec::new(),
        error: Some((text("guest_trap"), text(HOSTILE), Some("3".to_owned()))),
        href: None,
        ..row()
    };
    let form = RejectedForm {
        values: vec![
            ("try_from", "ids".to_owned()),
            ("try_target", "trace".to_owned()),
            ("try_q", typed()),
            ("try_ids", typed()),
        ],
        problems: vec![("try_q", text(HOSTILE)), ("try_ids", text(HOSTILE))],
    };
    let results = TrialResultsView {
        summary: vec![(text(HOSTILE), text("0.5 (n = 2)"))],
        rows: vec![row(), failed],
    };
    let page = EvaluatorTryPage {
        shell: shell(),
        name: text(HOSTILE),
        version: 2,
        href: "/p/evaluators/e".to_owned(),
        trial: TrialView {
            form,
            columns: vec!["name", "type"],
            estimate: Some(text(HOSTILE)),
            results: Some(results),
        },
    };
    let html = checked(&page);
    for part in ["line 3", "older version", "value=\"ids\" checked", "value=\"trace\" selected"] {
        assert!(html.contains(part), "{part}");
    }
    let empty = TrialView { results: Some(TrialResultsView::default()), ..TrialView::default() };
    let page = EvaluatorTryPage { trial: empty, ..page };
    assert!(checked(&page).contains("matches."));
}
