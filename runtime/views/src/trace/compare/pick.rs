//! What is asked for where there are not two traces to compare.

use askama::Template;

use crate::format::many;
use crate::{Shell, Text};

/// Asks for two traces.
#[derive(Clone, Debug, Default, Template)]
#[template(path = "compare_pick.html")]
pub struct CompareSelectionPage {
    /// Around the page.
    pub shell: Shell,
    /// The ids that were given.
    pub given: Vec<Text>,
    /// The list that they were chosen from, below the address of the project.
    pub list: Option<String>,
}

impl CompareSelectionPage {
    fn said(&self) -> String {
        match self.given.len() {
            0 => "None is chosen yet.".to_owned(),
            n => format!("{} chosen: choose exactly two.", many(n as u64, "trace")),
        }
    }

    fn id(&self, at: usize) -> Text {
        self.given.get(at).cloned().unwrap_or_default()
    }

    fn list(&self) -> String {
        format!("{}{}", self.shell.base(), self.list.as_deref().unwrap_or("/traces"))
    }
}
