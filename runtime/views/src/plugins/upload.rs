//! The upload of a plug-in, with the report of the check of the component.

use askama::Template;

use crate::{Shell, Text, Tone};

/// The upload of a plug-in.
#[derive(Clone, Debug, Template)]
#[template(path = "plugin_upload.html")]
pub struct PluginUploadPage {
    /// Page frame.
    pub shell: Shell,
    /// Address of the server, for the command.
    pub origin: String,
    /// The largest component.
    pub max_size: String,
    /// Why the component was not registered.
    pub report: Option<ComponentReport>,
}

/// The report of a refused component.
#[derive(Clone, Debug)]
pub struct ComponentReport {
    /// Name of the file.
    pub file_name: Text,
    /// Summary.
    pub message: Text,
    /// Steps of the check; empty if the component was not checked.
    pub steps: Vec<ComponentStep>,
}

/// A step of the check.
#[derive(Clone, Debug)]
pub struct ComponentStep {
    /// Name and meaning.
    pub label: &'static str,
    /// `passed`, `failed` or `not reached`.
    pub status: &'static str,
    /// Colour of the status.
    pub tone: Tone,
    /// Positions and messages.
    pub problems: Vec<(Text, Text)>,
    /// Number of further problems, such as `3 more problems`; absent if there are none.
    pub omitted: Option<String>,
}
