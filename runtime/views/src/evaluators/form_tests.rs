//! Renders the gallery and the forms of evaluators with hostile text.

use crate::samples_tests::*;
use crate::*;

fn about() -> PluginEvaluatorView {
    PluginEvaluatorView {
        id: text(HOSTILE),
        title: text(HOSTILE),
        description: Some(text(HOSTILE)),
        needs: text("output"),
        scores: text(HOSTILE),
        slots: None,
        schema: text(HOSTILE),
    }
}

fn field(control: ConfigControl) -> ConfigField {
    ConfigField {
        name: format!("config.{}", typed()),
        label: text(HOSTILE),
        hint: Some(text(HOSTILE)),
        is_required: false,
        control,
        value: typed(),
        problem: None,
    }
}

fn form(definition: EvaluatorDefinitionFields) -> EvaluatorFormPage {
    let fields = ["name", "description", "function", "config", "others", "models", "grants"];
    let more = ["mapping", "language", "source"];
    let problems = fields.into_iter().chain(more).map(|field| (field, text(HOSTILE)));
    EvaluatorFormPage {
        shell: shell(),
        changed: Some((text(HOSTILE), evaluator_href("/p", HOSTILE))),
        action: "/p/evaluators/e/edit".to_owned(),
        head: EvaluatorHeadFields {
            name: typed(),
            description: typed(),
            version: "3".to_owned(),
            stored_name: typed(),
            stored_description: typed(),
        },
        definition,
        conflict: Some(EvaluatorConflict {
            version: 4,
            fields: vec![DefinitionChange {
                member: text(HOSTILE),
                before: text(HOSTILE),
                after: text(HOSTILE),
            }],
        }),
        trial: TrialView::default(),
        is_sent: true,
        code_editor: Some("/assets/0-code-editor.js".to_owned()),
        rejected_form: RejectedForm { values: Vec::new(), problems: problems.collect() },
    }
}

#[test]
fn the_form_of_a_plugin_has_a_control_for_each_member_and_is_inert() {
    let controls = [
        ConfigControl::Text,
        ConfigControl::Number("any"),
        ConfigControl::Choice(vec![(typed(), text(HOSTILE)), ("true".to_owned(), text("true"))]),
        ConfigControl::Json,
    ];
    let refused = ConfigField { problem: Some(text(HOSTILE)), ..field(ConfigControl::Json) };
    let required = ConfigField { is_required: true, hint: None, ..field(ConfigControl::Text) };
    let config = controls.into_iter().map(field).chain([refused, required]);
    let fields = PluginFields {
        reference: typed(),
        function: typed(),
        plugin: text(HOSTILE),
        plugin_href: "/p/plugins/d".to_owned(),
        about: about(),
        config: config.collect(),
        others: Some(typed()),
        models: vec![ModelField {
            name: typed(),
            description: text(HOSTILE),
            connections: vec![
                (String::new(), text("not used"), false),
                (typed(), text(HOSTILE), true),
            ],
            model: typed(),
        }],
        grants: vec![PluginGrant { name: "model", is_granted: true, is_required: true }],
        mapping: typed(),
    };
    let page = form(EvaluatorDefinitionFields::Plugin(Box::new(fields)));
    let html = checked(&page);
    assert!(html.contains("step=\"any\"") && html.contains("id=\"config-6\""), "{html}");
    let new = EvaluatorFormPage {
        changed: None,
        conflict: None,
        rejected_form: RejectedForm::default(),
        ..page
    };
    let html = checked(&new);
    assert!(html.contains("Create"));
    assert!(!html.contains("code-editor.js") && !html.contains("drafts.js"), "{html}");
}

#[test]
fn the_form_of_source_code_shows_the_lines_of_problems_and_is_inert() {
    let fields = CodeFields {
        languages: vec![("PYTHON", "Python", true), ("TYPESCRIPT", "TypeScript", false)],
        source: typed(),
        problems: vec![SourceProblem {
            lines: vec![(6, text(HOSTILE), false), (7, text(HOSTILE), true)],
            message: text(HOSTILE),
        }],
        limits: vec!["The source has at most 256 KiB.".to_owned()],
    };
    let page = form(EvaluatorDefinitionFields::Code(fields));
    let html = checked(&page);
    assert!(html.contains("<b>7 │") && html.contains("256 KiB"), "{html}");
    assert!(html.contains("data-problem-line=\"7\""), "{html}");
    assert!(html.contains("src=\"/assets/0-code-editor.js\"") && !html.contains("-lines.js"));
    let html = checked(&EvaluatorFormPage { code_editor: None, ..page });
    assert!(!html.contains("code-editor.js") && html.contains("-lines.js"), "{html}");
}

#[test]
fn the_gallery_is_inert() {
    let entry = GalleryEntry {
        title: text(HOSTILE),
        id: text(HOSTILE),
        description: Some(text(HOSTILE)),
        facts: vec![("Reads", text(HOSTILE))],
        settings: vec![(text(HOSTILE), text(HOSTILE))],
        example: text(HOSTILE),
        href: "/p/evaluators/new/code".to_owned(),
    };
    let page = EvaluatorGalleryPage {
        shell: shell(),
        words: typed(),
        groups: vec![GalleryGroup {
            title: text(HOSTILE),
            description: Some(text(HOSTILE)),
            entries: vec![entry.clone(), GalleryEntry { description: None, ..entry }],
        }],
    };
    assert!(checked(&page).contains("/p/evaluators/new/code"));
    let nothing = EvaluatorGalleryPage { groups: Vec::new(), ..page };
    assert!(!checked(&nothing).contains("/p/evaluators/new/code"));
}
