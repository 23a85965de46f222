//! Renders the pages of evaluators with hostile text.

use perpend_domain::evaluation::ExecutionState;
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::pages_tests::execution_line;
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
        means: vec![text(HOSTILE)],
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

fn definition(content: DefinitionContent) -> EvaluatorDefinition {
    EvaluatorDefinition {
        number: 1,
        is_newest: false,
        created_at: Timestamp::from_millis(0),
        content,
        facts: vec![("Model", Html::from(text(HOSTILE)))],
        mapping: vec![text(HOSTILE)],
        plugin_href: Some("/p/plugins/d".to_owned()),
        connections: vec![(text(HOSTILE), "/p/settings/connections/c".to_owned())],
        fingerprint: "ab".repeat(32),
    }
}

fn version_line(number: u32, changed: Option<Vec<Text>>) -> EvaluatorVersionLine {
    EvaluatorVersionLine {
        number,
        href: format!("/p/evaluators/e?version={number}#definition"),
        is_shown: number == 1,
        created_at: Timestamp::from_millis(0),
        fingerprint: "abababababab".to_owned(),
        diff_href: changed.is_some().then(|| "/p/evaluators/e?a=1&b=2#differences".to_owned()),
        changed,
        users: vec!["2 rules".to_owned()],
        scores: "1,200".to_owned(),
        scores_href: "/p/scores?fingerprint=abab".to_owned(),
    }
}

fn comparison() -> VersionComparison {
    let [a, b] = ["a", HOSTILE].map(|text| Payload::Text(text.to_owned()));
    let diff = Diff::new(Some(&a), Some(&b), DiffChoice::default(), 10_000);
    VersionComparison {
        a: 1,
        b: 2,
        is_same_fingerprint: false,
        in_fingerprint: vec![text(HOSTILE)],
        others: vec![text(HOSTILE)],
        diffs: vec![("Source code", diff)],
    }
}

fn evaluator_page() -> EvaluatorPage {
    let at = Timestamp::from_millis(0);
    let code = DefinitionContent::Code {
        language: "Python",
        lines: vec![Text::lines("def evaluate(ctx):"), Text::lines(HOSTILE)],
        omitted: Some("3 lines not shown".to_owned()),
    };
    EvaluatorPage {
        shell: shell(),
        name: text(HOSTILE),
        href: evaluator_href("/p", HOSTILE),
        description: Some(text(HOSTILE)),
        pause: Some(pause()),
        held: "2 executions held.".to_owned(),
        facts: vec![("Id", Html::from(text(HOSTILE)))],
        figures: EvaluatorFiguresView {
            facts: vec![("Executions", Html::from(text(HOSTILE)))],
            versions: vec![VersionTrend::new(
                2,
                typed(),
                ([1, 2, 3].map(|n| (typed(), n)).as_slice(), false),
                vec![text(HOSTILE)],
            )],
            calibration: Some(("weak".to_owned(), "waiting", text(HOSTILE))),
            people: vec![PeopleAgreement {
                name: text(HOSTILE),
                pairs: "30 pairs".to_owned(),
                sentence: text(HOSTILE),
                href: typed(),
            }],
        },
        switches: [true, true],
        definition: definition(code),
        versions: vec![version_line(2, Some(vec![text(HOSTILE)])), version_line(1, None)],
        has_more_versions: true,
        comparison: Some(comparison()),
        uses: vec![EvaluatorUseLine {
            rule: ResourceLink::new(HOSTILE, HOSTILE),
            state: "on",
            target: "trace",
            policy: "pinned:1".to_owned(),
            mapping: vec![text(HOSTILE)],
        }],
        scores_href: "/p/scores?fingerprint=abab".to_owned(),
        scored: vec![(execution_line(ExecutionState::Completed), Vec::new())],
        failures: vec![FailureLine {
            class: "timeout",
            n: "3".to_owned(),
            first_at: at,
            last_at: at,
            href: "/p/executions?state=failed&class=timeout".to_owned(),
        }],
        failed: vec![execution_line(ExecutionState::Failed)],
        failed_href: "/p/executions?state=failed".to_owned(),
        may_write: true,
    }
}

#[test]
fn an_evaluator_of_each_kind_is_inert() {
    let page = evaluator_page();
    let html = checked(&page);
    assert!(html.contains("pinned:1") && html.contains("class=timeout"), "{html}");
    assert!(html.contains("id=\"line-2\"") && html.contains("/delete\""), "{html}");
    for content in [
        DefinitionContent::Judge {
            messages: vec![(text(HOSTILE), Text::lines(HOSTILE))],
            output: vec![("Data type", text(HOSTILE))],
        },
        DefinitionContent::Plugin { config: Text::lines(HOSTILE) },
    ] {
        checked(&EvaluatorPage { definition: definition(content), ..page.clone() });
    }
    let new = EvaluatorPage {
        pause: None,
        versions: vec![version_line(1, None)],
        comparison: None,
        uses: Vec::new(),
        failures: Vec::new(),
        failed: Vec::new(),
        scored: Vec::new(),
        may_write: false,
        ..page
    };
    let new = checked(&new);
    assert!(new.contains("No rule uses this evaluator") && !new.contains("/delete\""), "{new}");
    assert!(!new.contains("name=\"a\""), "one version is not compared: {new}");
}

#[test]
fn the_form_proposes_the_newest_versions_or_the_compared_ones() {
    let page = evaluator_page();
    assert_eq!(checked(&page).matches(" selected>").count(), 2);
    assert!(page.is_compared(&1, true) && page.is_compared(&2, false));
    let none = EvaluatorPage { comparison: None, ..page };
    assert!(none.is_compared(&1, true) && none.is_compared(&2, false));
}

#[test]
fn the_deletion_of_an_evaluator_names_its_rules() {
    let link = || vec![ResourceLink::new(HOSTILE, HOSTILE)];
    let page = DeleteEvaluatorPage {
        shell: shell(),
        name: text(HOSTILE),
        href: evaluator_href("/p", HOSTILE),
        remaining: link(),
        disabled: link(),
    };
    assert_eq!(checked(&page).matches("/rules/").count(), 2);
    let unused = DeleteEvaluatorPage { remaining: Vec::new(), disabled: Vec::new(), ..page };
    assert!(checked(&unused).contains("No rule uses it"));
}

fn judge_editor() -> JudgeEditorPage {
    let difference =
        DefinitionChange { member: text(HOSTILE), before: text(HOSTILE), after: text("5") };
    JudgeEditorPage {
        shell: shell(),
        stored: Some((text(HOSTILE), typed())),
        action: typed(),
        fields: JudgeFields {
            name: typed(),
            messages: vec![JudgeMessage { role: "user".to_owned(), content: typed() }],
            mapping: typed(),
            output: "QUESTIONS".to_owned(),
            categories: typed(),
            questions: typed(),
            connection: typed(),
            model: typed(),
            config: typed(),
            ..JudgeFields::default()
        },
        variables: vec![(text(HOSTILE), false)],
        connections: vec![JudgeConnection { name: "main".to_owned(), models: vec![typed()] }],
        default_model: Some(text(HOSTILE)),
        presets: vec![(typed(), text(HOSTILE), true)],
        rejected_form: RejectedForm {
            values: Vec::new(),
            problems: vec![("messages", text(HOSTILE)), ("others", text(HOSTILE))],
        },
        conflict: Some(JudgeConflict { version: 3, members: vec![difference] }),
        preview: Some(PromptPreview {
            target: Some((text(HOSTILE), typed())),
            problem: None,
            messages: vec![PromptMessageView {
                role: text("user"),
                parts: vec![(None, text(HOSTILE)), (Some(text(HOSTILE)), text(HOSTILE))],
            }],
            missing: vec![text(HOSTILE)],
            has_marks: true,
            models: vec![text(HOSTILE)],
            facts: vec![("Requests of an evaluation", "2".to_owned())],
        }),
        choices: vec![MappingChoice { line: typed(), value: text(HOSTILE) }],
        trial: TrialView { estimate: Some(text(HOSTILE)), ..TrialView::default() },
        is_sent: true,
    }
}

#[test]
fn the_editor_of_a_judge_is_inert_and_shows_the_prompt_and_both_versions_of_a_conflict() {
    let html = checked(&judge_editor());
    for part in ["Stored", "Yours", "value=\"add-message\"", "does not exist", "<mark title="] {
        assert!(html.contains(part), "{part}: {html}");
    }
    assert!(html.contains("data-drafts data-sent>") && !html.contains("code-editor.js"), "{html}");
    let new = JudgeEditorPage {
        is_sent: false,
        stored: None,
        conflict: None,
        preview: None,
        default_model: None,
        rejected_form: RejectedForm::default(),
        ..judge_editor()
    };
    let html = checked(&new);
    assert!(html.contains("<h1>New judge</h1>") && html.contains("data-drafts>"), "{html}");
}
