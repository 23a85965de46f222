//! Renders the pages of plug-ins with hostile text.

use perpend_domain::time::Timestamp;

use crate::samples_tests::*;
use crate::*;

#[test]
fn a_list_of_plugins_is_inert() {
    let line = |is_first_party| PluginLine {
        name: text(HOSTILE),
        href: "/p/plugins/d".to_owned(),
        version: text(HOSTILE),
        others: Some("2 other versions".to_owned()),
        description: Some(text(HOSTILE)),
        is_first_party,
        evaluators: "3 evaluators".to_owned(),
        capabilities: text("model, trace"),
        users: "1 evaluator".to_owned(),
        size: "1 MB".to_owned(),
        created_at: Timestamp::from_millis(0),
    };
    let plugins = vec![line(true), line(false)];
    let page = PluginsPage { shell: shell(), plugins, may_write: true };
    assert!(checked(&page).contains("/plugins/new"));
    assert!(!checked(&PluginsPage { may_write: false, ..page }).contains("/plugins/new"));
}

fn plugin_page() -> PluginPage {
    let user = |grants: Vec<PluginGrant>| PluginUserLine {
        evaluator: ResourceLink::new(HOSTILE, HOSTILE),
        id: typed(),
        function: (!grants.is_empty()).then(|| text(HOSTILE)),
        versions: "1, 2".to_owned(),
        grants,
    };
    let grant = |name, is_granted| PluginGrant { name, is_granted, is_required: is_granted };
    let version = |is_current| PluginVersionLine {
        version: text(HOSTILE),
        digest: "0123456789ab".to_owned(),
        href: "/p/plugins/e".to_owned(),
        is_current,
        created_at: Timestamp::from_millis(0),
    };
    PluginPage {
        shell: shell(),
        name: text(HOSTILE),
        version: text(HOSTILE),
        href: "/p/plugins/d".to_owned(),
        description: Some(text(HOSTILE)),
        facts: vec![("Digest", text(HOSTILE))],
        evaluators: vec![PluginEvaluatorView {
            id: text(HOSTILE),
            title: text(HOSTILE),
            description: Some(text(HOSTILE)),
            needs: text("input"),
            scores: text(HOSTILE),
            slots: Some(text(HOSTILE)),
            schema: Text::lines(HOSTILE),
        }],
        versions: vec![version(true), version(false)],
        changes: Some(PluginChanges { since: text(HOSTILE), lines: vec![text(HOSTILE)] }),
        capabilities: vec!["model", "trace"],
        users: vec![user(vec![grant("model", true), grant("trace", false)]), user(Vec::new())],
        targets: vec![(typed(), true), (typed(), false)],
        moves: Some(vec![PluginMoveLine {
            name: text(HOSTILE),
            before: text(HOSTILE),
            after: text(HOSTILE),
        }]),
        rejected_form: RejectedForm {
            values: Vec::new(),
            problems: vec![("grants", text(HOSTILE))],
        },
        is_deletable: true,
        may_write: true,
        may_grant: true,
    }
}

#[test]
fn a_plugin_is_inert_and_grants_are_a_form_only_with_the_permission() {
    let page = plugin_page();
    let html = checked(&page);
    assert!(html.contains("name=\"grant\" value=\"model\" checked"), "{html}");
    let read_only = PluginPage { may_write: false, may_grant: false, ..page.clone() };
    let read_only = checked(&read_only);
    assert!(!read_only.contains("name=\"grant\"") && read_only.contains("model: granted"));
    assert!(!read_only.contains("/rollback"));
    let without = PluginPage {
        users: Vec::new(),
        changes: Some(PluginChanges { since: text(HOSTILE), lines: Vec::new() }),
        moves: Some(Vec::new()),
        ..page
    };
    let without = checked(&without);
    assert!(without.contains("are the same") && without.contains("No evaluator would change"));
    checked(&DeletePluginPage {
        shell: shell(),
        name: text(HOSTILE),
        href: "/p/plugins/d".to_owned(),
    });
}

#[test]
fn a_report_of_a_component_is_inert() {
    let step = |status, tone, problems| ComponentStep {
        label: "Compilation",
        status,
        tone,
        problems,
        omitted: Some("3 more problems".to_owned()),
    };
    let failed = vec![(text(HOSTILE), text(HOSTILE))];
    let report =
        |steps| ComponentReport { file_name: text(HOSTILE), message: text(HOSTILE), steps };
    let page = |report| PluginUploadPage {
        shell: shell(),
        origin: "https://perpend.example".to_owned(),
        max_size: "64 MiB".to_owned(),
        report,
    };
    let steps = vec![
        step("passed", Tone::Good, Vec::new()),
        step("failed", Tone::Bad, failed),
        step("not reached", Tone::Plain, Vec::new()),
    ];
    assert!(checked(&page(Some(report(steps)))).contains("not reached"));
    checked(&page(Some(report(Vec::new()))));
    assert!(!checked(&page(None)).contains("Not registered"));
}
