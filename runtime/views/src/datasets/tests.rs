//! Renders the pages of datasets with hostile text.

use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use serde_json::json;

use crate::samples_tests::*;
use crate::*;

fn rejected_form() -> RejectedForm {
    RejectedForm {
        values: vec![("name", typed()), ("description", typed())],
        problems: vec![("name", text(HOSTILE)), ("input", text(HOSTILE))],
    }
}

fn dataset_head(tab: &'static str) -> DatasetHead {
    DatasetHead {
        name: text(HOSTILE),
        full_name: text(HOSTILE),
        crumbs: vec![(text(HOSTILE), format!("/p/datasets?folder={}", encode(HOSTILE)))],
        description: Some(Text::lines(HOSTILE)),
        href: "/p/datasets/d".to_owned(),
        tab,
        may_write: true,
        is_archived: true,
        faults: vec![text(HOSTILE)],
        rejected_form: rejected_form(),
    }
}

fn editor() -> JsonEditor {
    let editor = JsonEditor::of_value(("input", "Input"), &json!({ HOSTILE: [HOSTILE] }));
    editor.with_problems(&[("input", text(HOSTILE))])
}

#[test]
fn a_list_of_datasets_is_inert() {
    let page = DatasetsPage {
        shell: shell(),
        crumbs: vec![(text(HOSTILE), "/p/datasets?folder=a".to_owned())],
        folders: vec![FolderLine {
            name: text(HOSTILE),
            href: "/p/datasets?folder=a%2Fb".to_owned(),
            n_datasets: "2 datasets".to_owned(),
        }],
        datasets: vec![DatasetLine {
            name: text(HOSTILE),
            href: "/p/datasets/d".to_owned(),
            description: Some(text(HOSTILE)),
            n_items: "1,000".to_owned(),
            n_runs: "3".to_owned(),
            schemas: "input",
            changed_at: Timestamp::from_millis(0),
        }],
        has_any: true,
        shows_archived: false,
        other_state: Some(("2 archived datasets".to_owned(), "/p/datasets?archived=1".to_owned())),
        has_more: true,
        may_write: true,
        prefix: typed(),
        rejected_form: rejected_form(),
        setup: None,
    };
    checked(&page);
    let empty = DatasetsPage {
        crumbs: Vec::new(),
        folders: Vec::new(),
        datasets: Vec::new(),
        has_any: false,
        rejected_form: RejectedForm::default(),
        ..page
    };
    assert!(checked(&empty).contains("No datasets yet"));
    assert!(!checked(&DatasetsPage { may_write: false, ..empty }).contains("<textarea"));
}

fn run_table() -> RunTable {
    let run = ExperimentLine::new((HOSTILE, HOSTILE), Timestamp::from_millis(0), "/p");
    RunTable {
        runs: vec![run.clone().as_baseline(true), run],
        score_names: vec![text(HOSTILE)],
        n_more_scores: 0,
        chart: None,
        chart_links: Vec::new(),
        has_datasets: false,
        may_delete: false,
        baseline_action: Some("/p/datasets/d/baseline".to_owned()),
    }
}

#[test]
fn the_tabs_of_a_dataset_are_inert() {
    let line = ItemLine {
        id: text(HOSTILE),
        short_id: text(HOSTILE),
        href: "/p/datasets/d/items/i".to_owned(),
        input: Preview::of(HOSTILE, &["script"]),
        expected: Preview::of(HOSTILE, &[]),
        metadata: None,
        source: Some("/p/traces/t".to_owned()),
        is_archived: true,
        changed_at: Timestamp::from_millis(0),
        n_problems: Some(2),
    };
    let items = DatasetItemsPage {
        shell: shell(),
        head: dataset_head("items"),
        filter: ItemFilterView { status: "all", text: typed(), ..ItemFilterView::default() },
        as_of: None,
        as_of_text: String::new(),
        has_other_schemas: true,
        lines: vec![line.clone(), ItemLine { n_problems: Some(0), ..line }],
        targets: vec![("d2".to_owned(), text(HOSTILE))],
        may_run: true,
        shown: "2 items".to_owned(),
        has_any: true,
        validity: Some(ValiditySummary { text: text(HOSTILE), is_good: false }),
        check_href: None,
        page_links: PageLinks::default(),
    };
    let html = checked(&items);
    assert!(html.contains("2 problems") && html.contains("name=\"item\""));
    let past = DatasetItemsPage {
        as_of: Some(Timestamp::from_millis(0)),
        as_of_text: typed(),
        ..items.clone()
    };
    assert!(!checked(&past).contains("name=\"item\""), "an earlier state is read-only");
    let empty = DatasetItemsPage { lines: Vec::new(), has_any: false, ..items };
    checked(&DatasetItemsPage { filter: ItemFilterView::default(), ..empty.clone() });
    let filter = ItemFilterView { status: "active", ..ItemFilterView::default() };
    assert!(checked(&DatasetItemsPage { filter, ..empty }).contains("No items yet"));
    checked(&DatasetSchemasPage {
        shell: shell(),
        head: dataset_head("schemas"),
        editors: vec![editor()],
        impact: Some(SchemaImpactView {
            summary: text(HOSTILE),
            is_good: false,
            violations: vec![(text(HOSTILE), "/p/datasets/d/items/i".to_owned(), text(HOSTILE))],
            more: Some(text(HOSTILE)),
        }),
        note: Some(text(HOSTILE)),
    });
    checked(&DatasetRunsPage {
        shell: shell(),
        head: dataset_head("experiments"),
        notices: vec![text(HOSTILE)],
        table: run_table(),
        page_links: PageLinks::default(),
        new_href: Some("/p/experiments/new".to_owned()),
    });
    checked(&DatasetUsePage {
        shell: shell(),
        head: dataset_head("use"),
        examples: vec![("python", "Python", Text::lines(HOSTILE))],
        exports: vec![("CSV", "/p/datasets/d/export?format=csv".to_owned())],
    });
}

fn difference() -> VersionDifference {
    VersionDifference {
        summary: "1 item added, 0 changed, 0 removed".to_owned(),
        settings: vec!["description", "metadata"],
        items: vec![("added", "good", text(HOSTILE), "/p/datasets/d/items/i".to_owned())],
        page_links: PageLinks::default(),
    }
}

#[test]
fn the_versions_and_the_settings_of_a_dataset_are_inert() {
    let log = DatasetVersionsPage {
        shell: shell(),
        head: dataset_head("versions"),
        changes: vec![ChangeLine {
            at: Timestamp::from_millis(0),
            summary: "3 items added".to_owned(),
            as_of_href: "/p/datasets/d?asof=x".to_owned(),
            diff_href: Some("/p/datasets/d?tab=versions&a=x&b=y".to_owned()),
            schemas_href: Some("/p/datasets/d?tab=schemas&asof=x".to_owned()),
        }],
        instants: [typed(), typed()],
        difference: None,
        page_links: PageLinks::default(),
    };
    checked(&log);
    checked(&DatasetVersionsPage { difference: Some(difference()), ..log });
    checked(&DatasetEditPage {
        shell: shell(),
        head: dataset_head("edit"),
        name: typed(),
        description: typed(),
        deleted: "2 items and 1 run".to_owned(),
    });
}

fn stored_item() -> StoredItemView {
    let before = Payload::from_value(json!({ "a": HOSTILE }));
    let after = Payload::from_value(json!({ "a": 1 }));
    let diff = Diff::new(Some(&before), Some(&after), DiffChoice::default(), 1_000);
    let picture = "@@@langfuseMedia:type=image/png|id=abc|source=bytes@@@";
    let part = json!({ "type": "text", "text": picture });
    let value =
        json!([{ "role": "user", "content": [part] }, { "role": "user", "content": HOSTILE }]);
    StoredItemView {
        id: text(HOSTILE),
        version: "2026-01-31T12:00:00.000000Z".to_owned(),
        is_past: false,
        is_archived: true,
        is_deleted: false,
        source: Some("/p/traces/t".to_owned()),
        next: Some("/p/datasets/d/items/j".to_owned()),
        values: StoredItemView::blocks(
            "",
            "/p/datasets/d/items/i/versions/v",
            [
                ("Input", "input", &value),
                ("Expected output", "output", &json!(HOSTILE)),
                ("Metadata", "metadata", &json!(null)),
            ],
        ),
        versions: vec![ItemVersionLine {
            at: Timestamp::from_millis(0),
            href: "/p/datasets/d/items/i?version=v".to_owned(),
            change: "changed",
            is_current: true,
            diff_href: Some("/p/datasets/d/items/i?version=v&compare=u".to_owned()),
        }],
        comparison: Some((Timestamp::from_millis(0), vec![("Input", diff)])),
        runs: vec![ItemRunLine {
            name: text(HOSTILE),
            href: "/p/datasets/d/runs/r".to_owned(),
            trace_href: "/p/traces/t".to_owned(),
            at: Timestamp::from_millis(0),
        }],
    }
}

fn source(is_chosen: bool) -> ItemSourceView {
    ItemSourceView {
        action: "/p/dataset-items/new".to_owned(),
        hidden_fields: vec![("trace", typed())],
        origin: text(HOSTILE),
        origin_href: "/p/traces/t".to_owned(),
        datasets: vec![("d".to_owned(), text(HOSTILE), true)],
        paths: vec![("input", "Input", typed(), Some(text(HOSTILE)))],
        is_chosen,
    }
}

#[test]
fn items_from_traces_are_inert_and_a_dataset_is_chosen_first() {
    let page = |is_chosen| FromTracesPage {
        shell: shell(),
        source: source(is_chosen),
        fields: vec![("trace", typed())],
        nouns: "traces",
        label: "Add 1 trace".to_owned(),
        counts: "Would give: 1 invalid.".to_owned(),
        results: vec![FromTraceLine {
            id: text(HOSTILE),
            href: "/p/traces/t".to_owned(),
            result: "invalid".to_owned(),
            problems: vec![text(HOSTILE)],
            input: text(HOSTILE),
            expected: text(HOSTILE),
        }],
        notices: Vec::new(),
    };
    assert!(checked(&page(true)).contains("Add 1 trace"));
    assert!(!checked(&page(false)).contains("Add 1 trace"));
    checked(&FromTracesPage { notices: vec![text(HOSTILE)], ..page(true) });
}

#[test]
fn an_item_is_inert_and_an_earlier_version_can_only_be_restored() {
    let page = |stored: Option<StoredItemView>| ItemPage {
        shell: shell(),
        crumbs: vec![(text(HOSTILE), "/p/datasets".to_owned())],
        dataset_href: "/p/datasets/d".to_owned(),
        action: "/p/datasets/d/items/i".to_owned(),
        check_href: "/p/_/datasets/d/check".to_owned(),
        may_write: true,
        editors: vec![editor()],
        rejected_form: rejected_form(),
        stored,
        hidden_fields: vec![("trace", typed())],
        source: None,
        notices: vec![text(HOSTILE)],
    };
    let html = checked(&page(Some(stored_item())));
    assert!(html.contains("value=\"save\"") && html.contains("value=\"activate\""));
    assert!(html.contains("/media/abc"), "a reference to a medium is shown: {html}");
    let past = StoredItemView { is_past: true, comparison: None, ..stored_item() };
    let html = checked(&page(Some(past)));
    assert!(html.contains("value=\"restore\"") && !html.contains("value=\"save\""));
    let new = page(None);
    assert!(checked(&new).contains("Add item"));
    let unchosen = ItemPage { source: Some(source(false)), ..new };
    assert!(!checked(&unchosen).contains("<textarea"), "a dataset is chosen first");
    checked(&ItemProblemsFragment { editors: vec![editor()] });
}

#[test]
fn an_import_is_inert_in_each_state() {
    let upload = ImportPage {
        shell: shell(),
        head: dataset_head("import"),
        text: typed(),
        imports: vec![ImportLine {
            name: text(HOSTILE),
            href: "/p/datasets/d/imports/i".to_owned(),
            state: "completed",
            counts: "3 rows: 3 created".to_owned(),
            at: Timestamp::from_millis(0),
        }],
    };
    checked(&upload);
    let settings = ImportSettingsView {
        format: "csv",
        encoding: typed(),
        delimiter: ",".to_owned(),
        is_table: true,
        has_header: true,
        duplicates: vec![("update", "get a new version", true)],
        columns: vec![ImportColumnView {
            name: typed(),
            targets: vec![("", "not imported", false), ("input", "input", true)],
            path: typed(),
            types: vec![("text", true), ("json", false)],
        }],
        rows: vec![Ok(vec![text(HOSTILE)]), Err(text(HOSTILE))],
    };
    let state = ImportStatePage {
        shell: shell(),
        head: dataset_head("import"),
        name: text(HOSTILE),
        href: "/p/datasets/d/imports/i".to_owned(),
        state: "checked",
        error: Some(text(HOSTILE)),
        counts: "3 rows: 2 created, 1 invalid".to_owned(),
        percent: None,
        progress_href: "/p/_/datasets/d/imports/i/progress".to_owned(),
        settings: Some(settings),
        rejects: vec![ImportRejectLine {
            row: 2,
            column: text(HOSTILE),
            pointer: text(HOSTILE),
            reason: text(HOSTILE),
        }],
        n_rejected: 1,
    };
    let html = checked(&state);
    assert!(html.contains("Nothing was imported yet") && html.contains("name=\"target\""));
    let running =
        ImportStatePage { state: "importing", percent: Some(40), settings: None, ..state.clone() };
    assert!(checked(&running).contains("40 %"));
    let progress = ImportProgressFragment {
        href: "/p/datasets/d/imports/i".to_owned(),
        state: "importing",
        counts: "3 rows: 3 created".to_owned(),
        percent: Some(40),
    };
    assert!(checked(&progress).contains("value=\"40\""));
    assert_eq!(checked(&ImportProgressFragment { percent: None, ..progress }).trim(), "");
    let done = ImportStatePage { state: "completed", settings: None, ..state };
    assert!(checked(&done).contains("Show the items"));
}
