//! Pages of datasets, items and runs, some of whose URLs clients print.

pub(crate) mod dataset;
pub(crate) mod editor;
pub(crate) mod list;
#[cfg(test)]
mod tests;

use askama::Template;

use crate::{Html, Shell, Text};

/// The list of datasets, a dataset or a run.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset.html")]
pub struct DatasetPage {
    /// Page frame.
    pub shell: Shell,
    /// `Datasets`, `Dataset` or `Run`.
    pub kind: &'static str,
    /// Name.
    pub name: Text,
    /// Description.
    pub description: Option<Text>,
    /// Labels and values.
    pub facts: Vec<(&'static str, Html)>,
    /// Names and URLs of its datasets or runs, newest first.
    pub inside: Vec<(Text, String)>,
    /// Labels and shell commands of API requests.
    pub requests: Vec<(&'static str, String)>,
}
