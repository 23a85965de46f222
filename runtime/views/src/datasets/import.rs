//! Imports of files into a dataset: upload, mapping with a preview, progress and result.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::datasets::dataset::DatasetHead;
use crate::{Shell, Text};

/// The form that uploads a file or a text, and earlier imports.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_import.html")]
pub struct ImportPage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Typed text of a rejected form.
    pub text: String,
    /// Earlier imports, newest first.
    pub imports: Vec<ImportLine>,
}

/// An import in the list.
#[derive(Clone, Debug)]
pub struct ImportLine {
    /// Name of its file.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// Its state, such as `completed`.
    pub state: &'static str,
    /// Such as `997 created, 3 invalid`.
    pub counts: String,
    /// Time of the upload.
    pub at: Timestamp,
}

/// An import: mapping and preview, or progress and result.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_import_state.html")]
pub struct ImportStatePage {
    /// Page frame.
    pub shell: Shell,
    /// The dataset.
    pub head: DatasetHead,
    /// Name of the file.
    pub name: Text,
    /// URL of the import and of its forms.
    pub href: String,
    /// Its state.
    pub state: &'static str,
    /// Why it failed.
    pub error: Option<Text>,
    /// Such as `997 created, 3 invalid`; empty before the first stage.
    pub counts: String,
    /// Completed percentage of a running stage.
    pub percent: Option<u32>,
    /// URL of the progress as a fragment.
    pub progress_href: String,
    /// Settings, unless the import has ended or is running.
    pub settings: Option<ImportSettingsView>,
    /// The first rejected rows.
    pub rejects: Vec<ImportRejectLine>,
    /// Number of rejected rows.
    pub n_rejected: u64,
}

/// The progress of a running import; empty if it does not run.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_import_progress.html")]
pub struct ImportProgressFragment {
    /// URL of the import.
    pub href: String,
    /// Its state.
    pub state: &'static str,
    /// Such as `997 created, 3 invalid`; empty before the first rows.
    pub counts: String,
    /// Completed percentage of a running stage.
    pub percent: Option<u32>,
}

/// The settings of an import as a form.
#[derive(Clone, Debug)]
pub struct ImportSettingsView {
    /// `csv`, `tsv`, `jsonl` or `json`.
    pub format: &'static str,
    /// Label of the character encoding.
    pub encoding: String,
    /// Separator of the cells of a table; `\t` for a tab.
    pub delimiter: String,
    /// Whether the file has lines of cells, so that delimiter and header apply.
    pub is_table: bool,
    /// Whether the first line has the names of the columns.
    pub has_header: bool,
    /// Values and labels of the treatment of existing ids, and whether it is selected.
    pub duplicates: Vec<(&'static str, &'static str, bool)>,
    /// Columns with their targets.
    pub columns: Vec<ImportColumnView>,
    /// The first rows as cells by column, or the problem of a row that cannot be read.
    pub rows: Vec<Result<Vec<Text>, Text>>,
}

/// A column of a file, and the target of its values in items.
#[derive(Clone, Debug)]
pub struct ImportColumnView {
    /// Name of the column.
    pub name: String,
    /// Values and labels of members of items, and whether it is selected.
    pub targets: Vec<(&'static str, &'static str, bool)>,
    /// Keys within the member, separated by dots.
    pub path: String,
    /// Types of values, and whether it is selected.
    pub types: Vec<(&'static str, bool)>,
}

/// A problem of a row.
#[derive(Clone, Debug)]
pub struct ImportRejectLine {
    /// Number of the row, from 1.
    pub row: u64,
    /// Name of the column.
    pub column: Text,
    /// JSON Pointer from the item.
    pub pointer: Text,
    /// Reason.
    pub reason: Text,
}
