//! The pages of the API reference.
//!
//! A page only shows the types reachable from its operations.

use crate::openapi::{Group, OperationParameter, Reference};
use askama::Template;

use crate::{Shell, Text};

/// The groups with their operations, or the results of a search.
#[derive(Clone, Debug, Template)]
#[template(path = "reference.html")]
pub struct ReferencePage<'r> {
    /// Page frame.
    pub shell: Shell,
    /// The API reference.
    pub reference: &'r Reference,
    /// Search words.
    pub q: String,
}

/// The page of a group of operations.
#[derive(Clone, Debug, Template)]
#[template(path = "reference_group.html")]
pub struct ReferenceGroupPage<'r> {
    /// Page frame.
    pub shell: Shell,
    reference: &'r Reference,
    group: &'r Group,
}

/// The result of calling an operation with the permissions of the viewer.
#[derive(Clone, Debug, Template)]
#[template(path = "reference_try.html")]
pub struct TryPage<'r> {
    /// Page frame.
    pub shell: Shell,
    /// Path of the operation with `{placeholders}`.
    pub path: String,
    /// Parameters with their values; list values are separated by line breaks.
    pub fields: Vec<(OperationParameter<'r>, String)>,
    /// URL, HTTP status, description of the shown part of the body, and the body; absent while required values are missing.
    pub response: Option<(Text, u16, String, Text)>,
}

impl ReferencePage<'_> {
    fn n_found(&self) -> usize {
        let found = self.reference.search(&self.q);
        found.iter().map(|(_, found)| found.len()).sum()
    }
}

impl<'r> ReferenceGroupPage<'r> {
    /// The page of the group with this URL segment.
    #[must_use]
    pub fn new(reference: &'r Reference, path: &str, shell: Shell) -> Option<Self> {
        Some(Self { shell, reference, group: reference.group(path)? })
    }
}
