//! The page of an item: editors, versions, runs and its source.

use askama::Template;
use perpend_domain::payload::Payload;
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::datasets::editor::JsonEditor;
use crate::values::content::{Addresses, Block};
use crate::values::diff::Diff;
use crate::{RejectedForm, Shell, Text};

/// A new or an existing item.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_item.html")]
pub struct ItemPage {
    /// Page frame.
    pub shell: Shell,
    /// Labels and URLs of the lists of datasets and of the dataset.
    pub crumbs: Vec<(Text, String)>,
    /// URL of the dataset.
    pub dataset_href: String,
    /// Action of the form.
    pub action: String,
    /// URL of the fragment with the problems of typed values.
    pub check_href: String,
    /// Whether the viewer may change items.
    pub may_write: bool,
    /// The editors of input, expected output and metadata.
    pub editors: Vec<JsonEditor>,
    /// The rejected form.
    pub rejected_form: RejectedForm,
    /// The stored item; absent for a new one.
    pub stored: Option<StoredItemView>,
    /// Hidden fields: source of a new item.
    pub hidden_fields: Vec<(&'static str, String)>,
    /// Choice of the dataset and of the mapping, for an item from a trace.
    pub source: Option<ItemSourceView>,
    /// Messages about the item, such as a change since the form was opened.
    pub notices: Vec<Text>,
}

impl ItemPage {
    /// Whether a dataset is chosen for an item from a trace.
    fn is_chosen(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.is_chosen)
    }
}

/// A stored version of an item.
#[derive(Clone, Debug)]
pub struct StoredItemView {
    /// Id.
    pub id: Text,
    /// Start of the shown version, which a change succeeds.
    pub version: String,
    /// Whether it is not the newest version.
    pub is_past: bool,
    /// Whether it is archived.
    pub is_archived: bool,
    /// Whether it is deleted.
    pub is_deleted: bool,
    /// URL of the trace or observation that it was made from.
    pub source: Option<String>,
    /// URL of the next item of the dataset.
    pub next: Option<String>,
    /// Titles of its values and the values in their display form.
    pub values: Vec<(&'static str, Block)>,
    /// Versions, newest first.
    pub versions: Vec<ItemVersionLine>,
    /// Start of the version that this one is compared with, and the differences by value.
    pub comparison: Option<(Timestamp, Vec<(&'static str, Diff)>)>,
    /// Runs of the item, newest first.
    pub runs: Vec<ItemRunLine>,
}

impl StoredItemView {
    /// The values of an item in their display form. `base` is the URL of the project, `raw` the URL of the item.
    #[must_use]
    pub fn blocks(
        base: &str,
        raw: &str,
        values: [(&'static str, &'static str, &Value); 3],
    ) -> Vec<(&'static str, Block)> {
        let blocks = values.into_iter().map(|(title, part, value)| {
            let payload = match value {
                Value::Null => None,
                value => Some(Payload::from_value(value.clone())),
            };
            let at = Addresses::of_item(base, &format!("{raw}/raw/{part}"));
            (title, Block::of(payload.as_ref(), &at))
        });
        blocks.collect()
    }
}

/// A version of an item.
#[derive(Clone, Debug)]
pub struct ItemVersionLine {
    /// Start of its validity.
    pub at: Timestamp,
    /// URL of the item in this version.
    pub href: String,
    /// `created`, `changed`, `archived`, `activated` or `deleted`.
    pub change: &'static str,
    /// Whether it is the shown version.
    pub is_current: bool,
    /// URL of the differences to the version before; absent for the first one.
    pub diff_href: Option<String>,
}

/// A run of an item.
#[derive(Clone, Debug)]
pub struct ItemRunLine {
    /// Name of the run.
    pub name: Text,
    /// URL of the run.
    pub href: String,
    /// URL of the trace that the application recorded.
    pub trace_href: String,
    /// Time of the link.
    pub at: Timestamp,
}

/// The form that chooses the dataset and the parts of a trace or an observation for a new item.
#[derive(Clone, Debug)]
pub struct ItemSourceView {
    /// Action, which also shows the preview.
    pub action: String,
    /// Ids of the trace and of the observation.
    pub hidden_fields: Vec<(&'static str, String)>,
    /// Label of the trace or observation.
    pub origin: Text,
    /// Its URL.
    pub origin_href: String,
    /// Ids and names of datasets, and whether it is selected.
    pub datasets: Vec<(String, Text, bool)>,
    /// JSONPaths of input, expected output and metadata: field, label, text and problem.
    pub paths: Vec<(&'static str, &'static str, String, Option<Text>)>,
    /// Whether a dataset is selected, so that the item can be stored.
    pub is_chosen: bool,
}

/// The problems of typed values, for scripts.
#[derive(Clone, Debug, Template)]
#[template(path = "item_problems.html")]
pub struct ItemProblemsFragment {
    /// The editors of input, expected output and metadata.
    pub editors: Vec<JsonEditor>,
}
