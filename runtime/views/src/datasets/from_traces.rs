//! Items from several traces, with a preview.

use askama::Template;

use crate::datasets::item::ItemSourceView;
use crate::{Shell, Text};

/// The form that adds traces to a dataset.
#[derive(Clone, Debug, Template)]
#[template(path = "dataset_from_traces.html")]
pub struct FromTracesPage {
    /// Page frame.
    pub shell: Shell,
    /// Choice of the dataset and of the mapping.
    pub source: ItemSourceView,
    /// Fields of the form that adds the items.
    pub fields: Vec<(&'static str, String)>,
    /// `traces` or `observations`, which is also the path of their list.
    pub nouns: &'static str,
    /// Label of its button, such as `Add 3 traces`.
    pub label: String,
    /// Result of the preview, such as `17 created, 3 invalid`.
    pub counts: String,
    /// Ids and URLs of traces with the result and the problems.
    pub results: Vec<FromTraceLine>,
    /// Invalid parameters.
    pub notices: Vec<Text>,
}

/// The outcome for one trace.
#[derive(Clone, Debug)]
pub struct FromTraceLine {
    /// Id of the trace.
    pub id: Text,
    /// URL of the trace.
    pub href: String,
    /// `created`, `updated`, `unchanged` or `invalid`.
    pub result: String,
    /// Problems with their pointers.
    pub problems: Vec<Text>,
    /// Beginning of the input of the item.
    pub input: Text,
    /// Beginning of its expected output.
    pub expected: Text,
}

impl FromTraceLine {
    pub(crate) fn class(&self) -> &'static str {
        match self.result.as_str() {
            "invalid" => "bad",
            "unchanged" => "",
            _ => "good",
        }
    }
}
