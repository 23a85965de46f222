//! The page of a dataset: items, schemas, versions, runs and code that uses it.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::datasets::editor::JsonEditor;
use crate::lists::page_links::PageLinks;
use crate::values::preview::Preview;
use crate::{RejectedForm, RunTable, Shell, Text};

/// The tabs of a dataset: parameter and label.
const TABS: [(&str, &str); 5] = [
    ("items", "Items"),
    ("schemas", "Schemas"),
    ("versions", "Versions"),
    ("experiments", "Experiments"),
    ("use", "Use"),
];

/// The part that all tabs of a dataset share.
#[derive(Clone, Debug)]
pub struct DatasetHead {
    /// Last part of the name.
    pub name: Text,
    /// Complete name.
    pub full_name: Text,
    /// Labels and URLs of the list of datasets and of its folders.
    pub crumbs: Vec<(Text, String)>,
    /// Description.
    pub description: Option<Text>,
    /// URL of the dataset.
    pub href: String,
    /// Parameter of this tab.
    pub tab: &'static str,
    /// Whether the viewer may change the dataset.
    pub may_write: bool,
    /// Whether it is archived.
    pub is_archived: bool,
    /// Invalid query parameters.
    pub faults: Vec<Text>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
}

impl DatasetHead {
    /// Labels and URLs of the tabs, and whether it is this one.
    pub(crate) fn tabs(&self) -> Vec<(&'static str, String, bool)> {
        let tabs = TABS.iter().map(|(tab, label)| {
            let href = match *tab {
                "items" => self.href.clone(),
                tab => format!("{}?tab={tab}", self.href),
            };
            (*label, href, self.tab == *tab)
        });
        tabs.collect()
    }
}

/// The items of a dataset, now or as of an instant.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_items.html")]
pub struct DatasetItemsPage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Sent filter.
    pub filter: ItemFilterView,
    /// Instant of the shown items; absent for the current state.
    pub as_of: Option<Timestamp>,
    /// Value of the parameter `asof`.
    pub as_of_text: String,
    /// Whether the schemas of this instant differ from the current ones.
    pub has_other_schemas: bool,
    /// Rows of this page.
    pub lines: Vec<ItemLine>,
    /// Ids and names of the datasets to which items can be copied; empty without the permission.
    pub targets: Vec<(String, Text)>,
    /// Whether the viewer may run experiments.
    pub may_run: bool,
    /// Such as `51 to 100 of 340 items`; empty without items.
    pub shown: String,
    /// Whether the dataset has items in any state.
    pub has_any: bool,
    /// Result of a check of the shown items against the schemas, such as `3 of 50 items do not match the schemas`.
    pub validity: Option<ValiditySummary>,
    /// URL of this page with the check; absent without schemas.
    pub check_href: Option<String>,
    /// Links to other pages.
    pub page_links: PageLinks,
}

impl DatasetItemsPage {
    /// Items on a page.
    pub const LIMIT: u32 = 50;
}

/// The result of a check of items against the schemas.
#[derive(Clone, Debug)]
pub struct ValiditySummary {
    /// Sentence.
    pub text: Text,
    /// Whether all items match.
    pub is_good: bool,
}

/// The filter of items.
#[derive(Clone, Debug, Default)]
pub struct ItemFilterView {
    /// `active`, `archived` or `all`.
    pub status: &'static str,
    /// Text in the item.
    pub text: String,
    /// Key of the metadata.
    pub key: String,
    /// Value of that key.
    pub value: String,
}

impl ItemFilterView {
    /// Values and labels of the field `status`, and whether it is selected.
    pub(crate) fn states(&self) -> [(&'static str, &'static str, bool); 3] {
        let states = [("active", "Active"), ("archived", "Archived"), ("all", "All")];
        states.map(|(value, label)| (value, label, self.status == value))
    }

    pub(crate) fn is_set(&self) -> bool {
        self.status != "active"
            || [&self.text, &self.key, &self.value].iter().any(|field| !field.is_empty())
    }
}

/// An item in the list.
#[derive(Clone, Debug)]
pub struct ItemLine {
    /// Id.
    pub id: Text,
    /// Beginning of the id.
    pub short_id: Text,
    /// URL of its page.
    pub href: String,
    /// Beginnings of input, expected output and metadata.
    pub input: Option<Preview>,
    /// Beginning of the expected output.
    pub expected: Option<Preview>,
    /// Beginning of the metadata.
    pub metadata: Option<Preview>,
    /// URL of the trace or observation that it was made from.
    pub source: Option<String>,
    /// Whether it is archived.
    pub is_archived: bool,
    /// Start of the version.
    pub changed_at: Timestamp,
    /// Number of violations of the schemas, if it was checked.
    pub n_problems: Option<usize>,
}

/// The schemas of a dataset.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_schemas.html")]
pub struct DatasetSchemasPage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// The editors of the schemas of inputs and of expected outputs.
    pub editors: Vec<JsonEditor>,
    /// Items that the typed schemas would break.
    pub impact: Option<SchemaImpactView>,
    /// Origin of the texts if they are not those of the dataset, such as `Inferred from 120 items`.
    pub note: Option<Text>,
}

/// Items that do not match schemas.
#[derive(Clone, Debug)]
pub struct SchemaImpactView {
    /// Such as `12 of 340 items do not match`.
    pub summary: Text,
    /// Whether all items match.
    pub is_good: bool,
    /// Ids and URLs of items with the path and the message of a violation.
    pub violations: Vec<(Text, String, Text)>,
    /// Number of items with violations that are not listed.
    pub more: Option<Text>,
}

/// The log of changes of a dataset, and the differences of two instants.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_versions.html")]
pub struct DatasetVersionsPage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Changes, newest first.
    pub changes: Vec<ChangeLine>,
    /// Compared instants as sent: `a` and `b`.
    pub instants: [String; 2],
    /// Differences of the instants.
    pub difference: Option<VersionDifference>,
    /// Links to other pages.
    pub page_links: PageLinks,
}

/// Changes of a dataset within a minute.
#[derive(Clone, Debug)]
pub struct ChangeLine {
    /// Time of the last change.
    pub at: Timestamp,
    /// Such as `3 items added, schemas or description changed`.
    pub summary: String,
    /// URL of the items as of this time.
    pub as_of_href: String,
    /// URL of the differences to the state before; absent for the oldest change.
    pub diff_href: Option<String>,
    /// URL of the schemas as of this time; absent unless settings changed.
    pub schemas_href: Option<String>,
}

/// Differences of two instants.
#[derive(Clone, Debug)]
pub struct VersionDifference {
    /// Numbers of added, changed and removed items.
    pub summary: String,
    /// Fields of the dataset that differ, such as `input schema`.
    pub settings: Vec<&'static str>,
    /// `added`, `changed` or `removed`, CSS class, id and URL of each item.
    pub items: Vec<(&'static str, &'static str, Text, String)>,
    /// Links to other pages of items.
    pub page_links: PageLinks,
}

/// The runs of a dataset.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_runs.html")]
pub struct DatasetRunsPage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Invalid query parameters, and scores that are not shown.
    pub notices: Vec<Text>,
    /// The runs of the page, newest first.
    pub table: RunTable,
    /// Links to other pages.
    pub page_links: PageLinks,
    /// URL of the page that starts a run by the server; absent without the permission.
    pub new_href: Option<String>,
}

/// The name and the description of a dataset, and its deletion.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_edit.html")]
pub struct DatasetEditPage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Value of the field with the name.
    pub name: String,
    /// Value of the field with the description.
    pub description: String,
    /// Such as `340 items` and `3 runs`, which a deletion includes.
    pub deleted: String,
}

/// Code that uses a dataset.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_use.html")]
pub struct DatasetUsePage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Ids, labels and code of the examples.
    pub examples: Vec<(&'static str, &'static str, Text)>,
    /// Labels and URLs of exports.
    pub exports: Vec<(&'static str, String)>,
}
