//! Datasets and runs, which clients print the addresses of: what is there, and how to ask for it.

use askama::Template;

use crate::{Html, Shell, Text};

/// The datasets of a project, one of them, or a run over one.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset.html")]
pub struct DatasetPage {
    /// Around the page.
    pub shell: Shell,
    /// `Datasets`, `Dataset` or `Run`.
    pub kind: &'static str,
    /// Its name.
    pub name: Text,
    /// For people.
    pub description: Option<Text>,
    /// What is known of it, by label.
    pub facts: Vec<(&'static str, Html)>,
    /// Names of what it holds, the newest first, with their addresses.
    pub inside: Vec<(Text, String)>,
    /// What a shell runs to get all of it.
    pub requests: Vec<(&'static str, String)>,
}
