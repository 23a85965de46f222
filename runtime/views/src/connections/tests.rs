//! Renders the pages of connections with hostile text.

use perpend_domain::time::Timestamp;

use crate::samples_tests::*;
use crate::*;

fn rejected_form() -> RejectedForm {
    RejectedForm {
        values: vec![("provider", typed())],
        problems: vec![("provider", text(HOSTILE)), ("model", text(HOSTILE))],
    }
}

fn line(key: Option<Text>) -> ConnectionLine {
    ConnectionLine {
        name: text(HOSTILE),
        href: "/p/settings/connections/c".to_owned(),
        adapter: text(HOSTILE),
        address: Some(text(HOSTILE)),
        key,
        default_model: Some(text(HOSTILE)),
        calls: "12".to_owned(),
        failed: Some("2 failed".to_owned()),
        cost: "$1.20".to_owned(),
        evaluators: "3 evaluators".to_owned(),
        paused: Some("1 paused".to_owned()),
    }
}

#[test]
fn a_list_of_connections_is_inert() {
    let page = ConnectionsPage {
        shell: shell(),
        connections: vec![line(Some(text(HOSTILE))), line(None)],
        has_more: true,
        default_model: DefaultModelForm {
            providers: vec![(typed(), true), ("b".to_owned(), false)],
            model: typed(),
            params: typed(),
            is_set: true,
        },
        may_write: true,
        rejected_form: rejected_form(),
        setup: None,
    };
    let html = checked(&page);
    assert!(html.contains("no key") && html.contains("value=\"remove\""));
    let unset = DefaultModelForm { is_set: false, ..page.default_model.clone() };
    let read_only = ConnectionsPage { may_write: false, default_model: unset, ..page.clone() };
    assert!(!checked(&read_only).contains("<select"));
    let rejected_form = RejectedForm::default();
    let setup = Some(Setup {
        origin: "https://perpend.example".to_owned(),
        project: typed(),
        public_key: typed(),
        refused: None,
    });
    let empty = ConnectionsPage { connections: Vec::new(), rejected_form, setup, ..page };
    let empty = checked(&empty);
    assert!(empty.contains("No connections yet") && empty.contains("https://perpend.example"));
}

fn test(passed: bool) -> ConnectionTestView {
    ConnectionTestView {
        passed,
        model: text(HOSTILE),
        failure: (!passed).then(|| (text("auth_invalid"), text(HOSTILE))),
        remedy: (!passed).then_some("Enter the key again."),
        calls: match passed {
            true => vec![ConnectionTestCall {
                model: text(HOSTILE),
                method: text(HOSTILE),
                latency: "12 ms".to_owned(),
                tokens: "10 tokens".to_owned(),
                cost: "?".to_owned(),
                outcome: text(HOSTILE),
            }],
            false => Vec::new(),
        },
        learned: passed.then(|| text(HOSTILE)),
        resumed: passed.then(|| "2 evaluators resumed.".to_owned()),
    }
}

#[test]
fn a_connection_is_inert_with_and_without_a_test() {
    let evaluator = |pause| ConnectionEvaluatorLine {
        evaluator: ResourceLink::new(HOSTILE, HOSTILE),
        models: text(HOSTILE),
        pause,
        waiting: Some("3 executions held".to_owned()),
    };
    let pause = EvaluatorPauseView {
        reason: text(HOSTILE),
        message: text(HOSTILE),
        since: Timestamp::from_millis(0),
        is_of_connection: false,
    };
    let model = |learned| ConnectionModelLine {
        name: text(HOSTILE),
        calls: "12".to_owned(),
        failed: Some("2 failed".to_owned()),
        cost: "$1".to_owned(),
        learned,
    };
    let page = ConnectionPage {
        shell: shell(),
        name: text(HOSTILE),
        href: "/p/settings/connections/c".to_owned(),
        facts: vec![("Address", text(HOSTILE))],
        has_key: false,
        closed: Some(text(HOSTILE)),
        costs: vec![("Cost", "$1".to_owned())],
        models: vec![model(None), model(Some(text(HOSTILE)))],
        evaluators: vec![evaluator(Some(pause)), evaluator(None)],
        resumable: Some("1 evaluator".to_owned()),
        failures: vec![ConnectionFailureLine {
            at: Timestamp::from_millis(0),
            model: text(HOSTILE),
            class: text(HOSTILE),
            message: text(HOSTILE),
        }],
        test_model: typed(),
        test: Some(test(true)),
        rejected_form: rejected_form(),
        may_write: true,
    };
    let html = checked(&page);
    assert!(html.contains("passed") && html.contains("value=\"resume\""));
    let failed = ConnectionPage { test: Some(test(false)), has_key: true, ..page.clone() };
    assert!(checked(&failed).contains("No request was sent"));
    let read_only = ConnectionPage { test: None, may_write: false, ..page };
    assert!(!checked(&read_only).contains("name=\"model\""));
}

#[test]
fn the_forms_of_a_connection_are_inert() {
    let fields = ConnectionFields {
        provider: typed(),
        adapter: "openai".to_owned(),
        base_url: typed(),
        custom_models: typed(),
        with_default_models: true,
        headers: typed(),
        config: typed(),
        max_in_flight: typed(),
        use_responses_api: true,
        updated_at: typed(),
    };
    let names = ["adapter", "base_url", "secret_key", "headers", "config", "max_in_flight"];
    let problems = names.iter().map(|name| (*name, text(HOSTILE)));
    let page = ConnectionFormPage {
        shell: shell(),
        changed: Some((text(HOSTILE), "/p/settings/connections/c".to_owned())),
        fields,
        adapters: &["anthropic", "openai"],
        key: Some(text(HOSTILE)),
        conflicts: vec![ConnectionConflict {
            label: "Address",
            stored: text(HOSTILE),
            sent: text(HOSTILE),
        }],
        rejected_form: RejectedForm { values: Vec::new(), problems: problems.collect() },
    };
    let html = checked(&page);
    assert!(html.contains("<option value=\"openai\" selected>"), "{html}");
    let new = ConnectionFormPage { changed: None, key: None, conflicts: Vec::new(), ..page };
    assert!(checked(&new).contains("name=\"provider\""));
    let delete = |evaluators, is_default| DeleteConnectionPage {
        shell: shell(),
        name: text(HOSTILE),
        href: "/p/settings/connections/c".to_owned(),
        evaluators,
        is_default,
    };
    checked(&delete(vec![ResourceLink::new(HOSTILE, HOSTILE)], true));
    checked(&delete(Vec::new(), false));
}
