//! Datasets and runs, which clients print the addresses of: what is there, and how to ask for it.

use askama::Template;

use crate::{Html, Shell, Text};

/// A dataset, or a run over one.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset.html")]
pub struct DatasetPage {
    /// Around the page.
    pub shell: Shell,
    /// `Dataset` or `Run`.
    pub kind: &'static str,
    /// Its name.
    pub name: Text,
    /// For people.
    pub description: Option<Text>,
    /// What is known of it, by label.
    pub facts: Vec<(&'static str, Html)>,
    /// Names of the newest runs of a dataset, with their addresses.
    pub runs: Vec<(Text, String)>,
    /// What a shell runs to get all of it.
    pub requests: Vec<(&'static str, String)>,
}
