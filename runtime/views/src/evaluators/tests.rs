//! Renders the pages of evaluators with hostile text.

use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::samples_tests::*;
use crate::*;

fn pause() -> EvaluatorPauseSummary {
    EvaluatorPauseSummary {
        reason: text(HOSTILE),
        message: text(HOSTILE),
        since: Timestamp::from_millis(0),
        end_condition: "It ends when the connection is saved.",
        connections_href: Some("/p/settings/connections".to_owned()),
    }
}

#[test]
fn a_list_of_evaluators_is_inert_and_an_empty_one_has_an_example_of_each_kind() {
    let line = |pause| EvaluatorLine {
        name: text(HOSTILE),
        href: evaluator_href("/p", HOSTILE),
        kind: "judge",
        implementation: text(HOSTILE),
        version: 2,
        pause,
        rules: vec![
            (ResourceLink::new(HOSTILE, HOSTILE), true),
            (ResourceLink::new(HOSTILE, HOSTILE), false),
        ],
        scores: "1,200".to_owned(),
        scores_href: "/p/scores?fingerprint=abab".to_owned(),
        failed: Some("3 failed".to_owned()),
        failed_href: "/p/executions?state=failed".to_owned(),
        cost: "$1.15".to_owned(),
    };
    let page = EvaluatorsPage {
        shell: shell(),
        evaluators: vec![line(Some(pause())), line(None)],
        has_more: true,
        setup: None,
        may_write: true,
    };
    let html = checked(&page);
    assert!(html.contains("Showing the newest 200") && html.contains("settings/connections"));
    let setup = Setup {
        origin: "http://127.0.0.1:4717".to_owned(),
        project: "p".to_owned(),
        public_key: typed(),
        refused: None,
    };
    let empty = EvaluatorsPage { shell: shell(), setup: Some(setup), ..EvaluatorsPage::default() };
    let empty = checked(&empty);
    let command = "\"http://127.0.0.1:4717/api/public/v2/evaluators\"";
    assert_eq!(empty.matches(command).count(), 3, "{empty}");
}

fn evaluator_page() -> EvaluatorPage {
    let at = Timestamp::from_millis(0);
    EvaluatorPage {
        shell: shell(),
        name: text(HOSTILE),
        href: evaluator_href("/p", HOSTILE),
        version: 2,
        description: Some(text(HOSTILE)),
        pause: Some(pause()),
        held: "2 executions held.".to_owned(),
        facts: vec![("Id", Html::from(text(HOSTILE)))],
        plugin_href: Some("/p/plugins/d".to_owned()),
        uses: vec![EvaluatorUseLine {
            rule: ResourceLink::new(HOSTILE, HOSTILE),
            state: "on",
            target: "trace",
            policy: "pinned:1".to_owned(),
            mapping: vec![text(HOSTILE)],
        }],
        scores_href: "/p/scores?fingerprint=abab".to_owned(),
        failures: vec![FailureLine {
            class: "timeout",
            n: "3".to_owned(),
            first_at: at,
            last_at: at,
            href: "/p/executions?state=failed&class=timeout".to_owned(),
        }],
        failed_href: "/p/executions?state=failed".to_owned(),
        may_write: true,
    }
}

#[test]
fn an_evaluator_is_inert() {
    let html = checked(&evaluator_page());
    assert!(html.contains("pinned:1") && html.contains("class=timeout"), "{html}");
    let unused =
        EvaluatorPage { pause: None, uses: Vec::new(), failures: Vec::new(), ..evaluator_page() };
    assert!(checked(&unused).contains("No rule uses this evaluator"));
}
