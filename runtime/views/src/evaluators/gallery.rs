//! The gallery of evaluators: source code, presets of judges, and functions of plug-ins.

use askama::Template;

use crate::{Shell, Text};

/// The starting points of a new evaluator.
#[derive(Clone, Debug, Template)]
#[template(path = "evaluator_gallery.html")]
pub struct EvaluatorGalleryPage {
    /// Page frame.
    pub shell: Shell,
    /// Only entries with these words are listed.
    pub words: String,
    /// Groups, such as the functions of one plug-in.
    pub groups: Vec<GalleryGroup>,
}

/// Entries of one origin.
#[derive(Clone, Debug)]
pub struct GalleryGroup {
    /// Title.
    pub title: Text,
    /// Description.
    pub description: Option<Text>,
    /// Its entries.
    pub entries: Vec<GalleryEntry>,
}

/// Something that an evaluator can be made of.
#[derive(Clone, Debug)]
pub struct GalleryEntry {
    /// Title.
    pub title: Text,
    /// Id of the function or preset.
    pub id: Text,
    /// Description.
    pub description: Option<Text>,
    /// Labels and values, such as the parts of an item that it reads.
    pub facts: Vec<(&'static str, Text)>,
    /// Names and descriptions of the members of its configuration.
    pub settings: Vec<(Text, Text)>,
    /// The source, or the body of a request that creates the evaluator.
    pub example: Text,
    /// URL of the form with these values.
    pub href: String,
}
