//! Renders the page of a rule and its editor with hostile texts.

use perpend_domain::time::Timestamp;

use crate::pages_tests::{HOSTILE, checked, shell, text, typed};
use crate::*;

fn change() -> DefinitionChange {
    DefinitionChange { member: text(HOSTILE), before: text(HOSTILE), after: text("5") }
}

fn at() -> Timestamp {
    Timestamp::from_millis(60_000)
}

fn schedule() -> RuleScheduleView {
    RuleScheduleView {
        cron: Some(text(HOSTILE)),
        timezone: Some(text(HOSTILE)),
        next: vec!["Sun 2026-03-29 03:00 +02:00".to_owned()],
        missed: "2".to_owned(),
        firings: vec![FiringLine {
            fired_at: at(),
            from: at(),
            late: Some("3 h 00 min".to_owned()),
            missed: "2".to_owned(),
            executions: vec![("scored", "7".to_owned())],
        }],
    }
}

fn rule_page() -> RulePage {
    RulePage {
        shell: shell(),
        id: text("r1"),
        name: text(HOSTILE),
        href: rule_href("/p", HOSTILE),
        state: "paused",
        tone: Tone::Waiting,
        is_enabled: true,
        may_write: true,
        pauses: vec![PauseView {
            evaluator: Some(ResourceLink::new(HOSTILE, HOSTILE)),
            reason: text(HOSTILE),
            message: text(HOSTILE),
            since: at(),
            until: Some(at()),
            held: "3 executions held".to_owned(),
            end_condition: "It ends.",
            connections_href: Some(typed()),
            may_resume: true,
        }],
        facts: vec![("Target", Html::text(HOSTILE))],
        conditions: vec![text(HOSTILE)],
        assignments: vec![AssignmentLine {
            evaluator: ResourceLink::new(HOSTILE, HOSTILE),
            version: "pinned:2".to_owned(),
            mapping: vec![text(HOSTILE)],
        }],
        periods: vec![("24 hours", typed(), true)],
        funnel: vec![FunnelStep {
            title: "Targets",
            label: "arrived",
            total: "10".to_owned(),
            parts: vec![FunnelPart {
                label: "not matched",
                n: "9".to_owned(),
                href: Some(typed()),
                tone: Tone::Bad,
            }],
            difference: Some("1".to_owned()),
        }],
        funnel_href: typed(),
        schedule: Some(schedule()),
        failures: vec![FailureLine {
            class: "plugin_trap",
            n: "2".to_owned(),
            first_at: at(),
            last_at: at(),
            href: typed(),
        }],
        failed_href: typed(),
        failed: Vec::new(),
        scored: Vec::new(),
        changes: vec![RuleChangeLine {
            at: at(),
            author: Some(text(HOSTILE)),
            is_oldest: false,
            members: vec![change()],
        }],
        explained_id: typed(),
        id_label: "Id of a trace",
        explanation: Some(RuleExplanation {
            step: text("taken"),
            sentence: text(HOSTILE),
            facts: vec![("Found", text(HOSTILE))],
            target_kind: "trace",
            target_id: text(HOSTILE),
            target_href: typed(),
            executions: vec![(text(HOSTILE), text("failed"), typed())],
        }),
        explain_problem: Some(text(HOSTILE)),
        rejected_form: RejectedForm {
            values: Vec::new(),
            problems: vec![("funnel", text(HOSTILE))],
        },
    }
}

#[test]
fn the_page_of_a_rule_is_inert_and_has_the_sum_of_each_step() {
    let html = checked(&rule_page());
    assert!(html.contains("differs by 1"), "{html}");
    checked(&RuleFunnelFragment { funnel: rule_page().funnel });
    let exact = FunnelStep { difference: None, ..rule_page().funnel.remove(0) };
    let reader = RulePage { may_write: false, funnel: vec![exact], ..rule_page() };
    let html = checked(&reader);
    assert!(html.contains("✓ 10") && !html.contains("/enabled\""), "{html}");
}

#[test]
fn the_editor_of_a_rule_is_inert_and_shows_both_versions_of_a_conflict() {
    let page = RuleEditorPage {
        shell: shell(),
        name: Some(text(HOSTILE)),
        href: typed(),
        action: typed(),
        is_enabled: false,
        fields: RuleFields {
            name: typed(),
            q: typed(),
            conditions: typed(),
            budget: typed(),
            cron: typed(),
            timezone: typed(),
            ..RuleFields::default()
        },
        targets: vec![("trace", "traces", true)],
        evaluators: vec![EvaluatorChoice {
            id: "e1".to_owned(),
            name: text(HOSTILE),
            note: text(HOSTILE),
            is_selected: true,
            mapping: typed(),
            version: typed(),
        }],
        others: vec![("r2".to_owned(), text(HOSTILE), true)],
        columns: vec!["name"],
        next_firings: vec!["Sun 2026-03-29 03:00 +02:00".to_owned()],
        notices: vec![text(HOSTILE)],
        rejected_form: RejectedForm { values: Vec::new(), problems: vec![("q", text(HOSTILE))] },
        conflict: Some(RuleConflict { at: at(), members: vec![change()] }),
        preview: Some(RulePreviewView {
            last_day: "1 match, 1 in the sample".to_owned(),
            last_week: "2 match, 1 in the sample".to_owned(),
            note: Some(text(HOSTILE)),
            examples: vec![RulePreviewExampleView {
                name: text(HOSTILE),
                href: typed(),
                at: at(),
                item: Some(text(HOSTILE)),
                problem: Some(text(HOSTILE)),
            }],
            missing: vec![(text(HOSTILE), text(HOSTILE), "3".to_owned())],
            n_checked: "9".to_owned(),
            cost: "$1.15".to_owned(),
            estimates: vec![(text(HOSTILE), "$1.15".to_owned(), "no model", String::new())],
            overlaps: vec![(text(HOSTILE), typed())],
        }),
    };
    let html = checked(&page);
    for part in ["Stored", "Yours", "Save and switch on", "value=\"preview\"", "in 3 of 9"] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let new = RuleEditorPage { name: None, conflict: None, preview: None, ..page };
    let html = checked(&new);
    assert!(html.contains("<h1>New rule</h1>") && !html.contains("/delete\""), "{html}");
}

#[test]
fn a_run_of_a_rule_is_inert_and_needs_rows_and_a_rule() {
    let page = RuleRunPage {
        shell: shell(),
        action: "/p/rule-runs".to_owned(),
        selected: "2 traces".to_owned(),
        is_empty: false,
        list: ("Traces", "/p/traces".to_owned()),
        target: "trace",
        fields: vec![("trace", typed())],
        rules: vec![(typed(), text(HOSTILE), true)],
        rejected_form: RejectedForm {
            values: vec![("mode", "rescore".to_owned())],
            problems: vec![("rule", text(HOSTILE))],
        },
    };
    assert!(checked(&page).contains("value=\"rescore\" selected"));
    let without_rules = RuleRunPage { rules: Vec::new(), ..page.clone() };
    assert!(checked(&without_rules).contains("/rules/new?target=trace"));
    assert!(checked(&RuleRunPage { is_empty: true, ..page }).contains("Nothing selected"));
}
