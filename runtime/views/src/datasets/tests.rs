//! Renders the pages of datasets with hostile text.

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
        lines: vec![line.clone(), ItemLine { n_problems: Some(0), ..line }],
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
        runs: vec![(text(HOSTILE), "/p/datasets/d/runs/r".to_owned())],
        experiments_href: "/p/experiments?dataset=d".to_owned(),
    });
    checked(&DatasetUsePage {
        shell: shell(),
        head: dataset_head("use"),
        examples: vec![("python", "Python", Text::lines(HOSTILE))],
        exports: vec![("CSV", "/p/datasets/d/export?format=csv".to_owned())],
    });
}
