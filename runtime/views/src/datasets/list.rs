//! The list of datasets by folders.

use askama::Template;
use perpend_domain::time::Timestamp;

use crate::layout::setup::Setup;
use crate::{RejectedForm, Shell, Text};

/// The datasets of a folder.
#[derive(Clone, Debug, Template)]
#[template(path = "datasets.html")]
pub struct DatasetsPage {
    /// Page frame.
    pub shell: Shell,
    /// Labels and URLs of the folders from the root to this one; empty for the root.
    pub crumbs: Vec<(Text, String)>,
    /// Folders in this folder.
    pub folders: Vec<FolderLine>,
    /// Datasets in this folder.
    pub datasets: Vec<DatasetLine>,
    /// Whether the project has datasets in any folder.
    pub has_any: bool,
    /// Whether archived datasets are listed instead of active ones.
    pub shows_archived: bool,
    /// Label and URL of the other one of these lists; absent if this folder has no archived dataset.
    pub other_state: Option<(String, String)>,
    /// Whether the project has more datasets than the page considers.
    pub has_more: bool,
    /// Whether the viewer may create datasets.
    pub may_write: bool,
    /// Beginning of the names of datasets in this folder, such as `a/b/`.
    pub prefix: String,
    /// The rejected form that creates a dataset.
    pub rejected_form: RejectedForm,
    /// Values for example commands, if there are no datasets.
    pub setup: Option<Setup>,
}

impl DatasetsPage {
    /// Maximum number of datasets that the page considers.
    pub const LIMIT: u32 = 2_000;

    /// The rejected name, or the beginning of names in this folder.
    pub(crate) fn typed_name(&self) -> &str {
        match self.rejected_form.problems.is_empty() {
            true => &self.prefix,
            false => self.rejected_form.value("name"),
        }
    }
}

/// A folder.
#[derive(Clone, Debug)]
pub struct FolderLine {
    /// Last part of its path.
    pub name: Text,
    /// URL of the list of its datasets.
    pub href: String,
    /// Number of datasets in it and in its folders, such as `3 datasets`.
    pub n_datasets: String,
}

/// A dataset.
#[derive(Clone, Debug)]
pub struct DatasetLine {
    /// Last part of its name.
    pub name: Text,
    /// URL of its page.
    pub href: String,
    /// Description.
    pub description: Option<Text>,
    /// Number of active items.
    pub n_items: String,
    /// Number of runs.
    pub n_runs: String,
    /// `input`, `expected output`, `both` or `none`.
    pub schemas: &'static str,
    /// Time of the last change of the dataset or of its items.
    pub changed_at: Timestamp,
}
