//! Renders the pages of backfills with hostile text.

use perpend_domain::time::Timestamp;

use crate::samples_tests::*;
use crate::*;

fn line(reason: Option<&'static str>) -> BackfillLine {
    BackfillLine {
        href: "/p/backfills/b".to_owned(),
        rule: text(HOSTILE),
        mode: "fill",
        state: "running",
        tone: "waiting",
        reason,
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
fn a_list_of_backfills_is_inert() {
    let rejected_form = RejectedForm {
        values: vec![("from", typed()), ("mode", "rescore".to_owned())],
        problems: vec![("from", text(HOSTILE)), ("rule", text(HOSTILE))],
    };
    let page = BackfillsPage {
        shell: shell(),
        backfills: vec![line(Some("the rule is disabled")), line(None)],
        has_more: true,
        rules: vec![(typed(), text(HOSTILE), true)],
        may_write: true,
        rejected_form,
        estimate: Some(JobEstimateView {
            is_rough: true,
            items: "12 targets".to_owned(),
            left_out: "3 targets with a result".to_owned(),
            executions: Some("12 executions".to_owned()),
            cost: "unknown".to_owned(),
            duration: "2 s".to_owned(),
        }),
    };
    let html = checked(&page);
    assert!(html.contains("value=\"rescore\" selected") && html.contains("12 executions"));
    let read_only = BackfillsPage { may_write: false, ..page.clone() };
    assert!(!checked(&read_only).contains("<select"));
    let empty = BackfillsPage {
        backfills: Vec::new(),
        rules: Vec::new(),
        rejected_form: RejectedForm::default(),
        ..page
    };
    assert!(checked(&empty).contains("No backfills yet"));
}

#[test]
fn a_backfill_is_inert_and_its_progress_is_shown_while_it_runs() {
    let page = BackfillPage {
        shell: shell(),
        line: line(Some("the rule is disabled")),
        rule_href: "/p/rules#rule-r".to_owned(),
        counts: vec![("Examined", "12".to_owned())],
        limits: vec!["At most 12 targets.".to_owned()],
        conditions: vec![text(HOSTILE)],
        percent: Some(40),
        progress: "12 of 30 examined".to_owned(),
        progress_href: "/p/_/backfills/b/progress".to_owned(),
        href: "/p/backfills/b".to_owned(),
        changes: vec![("pause", "Pause")],
        failed_href: Some("/p/executions".to_owned()),
    };
    assert!(checked(&page).contains("<progress max=\"100\" value=\"40\""));
    let ended = BackfillPage { percent: None, changes: Vec::new(), ..page.clone() };
    assert!(!checked(&ended).contains("<progress"));
    let (href, progress) = (page.href, page.progress);
    let percent = page.percent;
    let fragment = JobProgressFragment { noun: "backfill", href, percent, progress };
    assert!(fragment.render().unwrap().contains("12 of 30 examined"));
    let ended = JobProgressFragment { percent: None, ..fragment };
    assert_eq!(ended.render().unwrap().trim(), "");
}
