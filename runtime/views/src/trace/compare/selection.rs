//! The form shown unless exactly two traces are selected for comparison.

use askama::Template;

use crate::format::plural;
use crate::{Shell, Text};

/// A form to select two traces.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "compare_selection.html")]
pub struct CompareSelectionPage {
    /// Page frame.
    pub shell: Shell,
    /// The selected ids.
    pub selected: Vec<Text>,
    /// Path and query of the list that the traces were selected from, relative to the project.
    pub list: Option<String>,
}

impl CompareSelectionPage {
    fn message(&self) -> String {
        match self.selected.len() {
            0 => "No traces selected.".to_owned(),
            n => format!("{} selected. Select exactly two.", plural(n as u64, "trace")),
        }
    }

    fn id(&self, at: usize) -> Text {
        self.selected.get(at).cloned().unwrap_or_default()
    }

    fn list(&self) -> String {
        format!("{}{}", self.shell.base(), self.list.as_deref().unwrap_or("/traces"))
    }
}
