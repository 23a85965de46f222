//! The definition of a version of an evaluator.

use perpend_domain::time::Timestamp;

use crate::{Html, Text};

/// The definition of a version.
#[derive(Clone, Debug)]
pub struct EvaluatorDefinition {
    /// Number of the version.
    pub number: u32,
    /// Whether it is the newest version.
    pub is_newest: bool,
    /// Creation time.
    pub created_at: Timestamp,
    /// The part that depends on the kind.
    pub content: DefinitionContent,
    /// Labels and values of the other parts.
    pub facts: Vec<(&'static str, Html)>,
    /// Lines of the mapping; empty for the mapping by names.
    pub mapping: Vec<Text>,
    /// URL of the page of its plug-in, if the viewer may read plug-ins.
    pub plugin_href: Option<String>,
    /// Names and URLs of the connections of its models, if the viewer may read connections.
    pub connections: Vec<(Text, String)>,
    /// Fingerprint in hex.
    pub fingerprint: String,
}

/// The part of a definition that depends on the kind of the evaluator.
#[derive(Clone, Debug)]
pub enum DefinitionContent {
    /// Source code.
    Code {
        /// Name of the language.
        language: &'static str,
        /// The first lines.
        lines: Vec<Text>,
        /// Number of the lines that are not shown, such as `12 more lines`.
        omitted: Option<String>,
    },
    /// A judge.
    Judge {
        /// Roles and texts of the messages.
        messages: Vec<(Text, Text)>,
        /// Labels and values of the score.
        output: Vec<(&'static str, Text)>,
    },
    /// A function of a plug-in.
    Plugin {
        /// Configuration as JSON.
        config: Text,
    },
}
