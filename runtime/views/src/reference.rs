//! The pages of the API reference.
//!
//! A page shows the types that its own operations lead to, and no others.

use crate::openapi::{Group, OperationParameter, Reference};
use askama::Template;

use crate::{Shell, Text};

/// The groups with the titles of their operations, or the operations that a search finds.
#[derive(Clone, Debug, Template)]
#[template(path = "reference.html")]
pub struct ReferencePage<'r> {
    /// Around the page.
    pub shell: Shell,
    /// What it shows.
    pub reference: &'r Reference,
    /// The words that are looked for.
    pub q: String,
}

/// One group.
#[derive(Clone, Debug, Template)]
#[template(path = "reference_group.html")]
pub struct ReferenceGroupPage<'r> {
    /// Around the page.
    pub shell: Shell,
    reference: &'r Reference,
    group: &'r Group,
}

/// What an operation answers to the viewer of the page.
#[derive(Clone, Debug, Template)]
#[template(path = "reference_try.html")]
pub struct TryPage<'r> {
    /// Around the page.
    pub shell: Shell,
    /// The path of the operation, with `{names}`.
    pub path: String,
    /// Its parameters with their values; of a list one in each line.
    pub fields: Vec<(OperationParameter<'r>, String)>,
    /// The address that was asked, the status, how much of the body is shown, and the body; none while values are missing.
    pub answer: Option<(Text, u16, String, Text)>,
}

impl ReferencePage<'_> {
    fn n_found(&self) -> usize {
        let found = self.reference.search(&self.q);
        found.iter().map(|(_, found)| found.len()).sum()
    }
}

impl<'r> ReferenceGroupPage<'r> {
    /// The page of the group with this last part of its address.
    #[must_use]
    pub fn new(reference: &'r Reference, path: &str, shell: Shell) -> Option<Self> {
        Some(Self { shell, reference, group: reference.group(path)? })
    }
}
