//! The plug-ins shipped with the program. They differ from other plug-ins only in the origin of their bytes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plugin::Digest;

/// The plug-ins and presets shipped with the program.
#[derive(Clone, Copy, Debug)]
pub struct Bundle {
    /// Embedded in the program; registered at each start.
    pub first_party: &'static [Component],
    /// Names of the interpreters and scorer libraries. Their components are separate files, which an installation may
    /// lack.
    pub optional: &'static [&'static str],
    /// Ready-made judges, one JSON document each: see [`Bundle::presets`].
    pub presets: &'static [&'static str],
}

/// A ready-made configuration of a judge, used as a template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Unique: 1 to 64 of `a-z`, `0-9` and `-`.
    pub name: String,
    /// The name in lists and menus.
    pub title: String,
    /// The measured property, in plain text.
    pub description: String,
    /// The evaluator of `perpend/judge` that it configures.
    pub evaluator: String,
    /// The variables of its prompt.
    pub variables: Vec<String>,
    /// Which scores are better.
    pub direction: Direction,
    /// The configuration, which satisfies the schema of the evaluator.
    pub config: Value,
}

/// Which scores of a preset are better.
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Higher ones, or `true`.
    Higher,
    /// Lower ones, or `false`.
    Lower,
    /// Neither: the score describes and does not rate.
    Neutral,
}

/// An embedded plug-in.
#[derive(Clone, Copy)]
pub struct Component {
    /// The name in its description, such as `perpend/text`.
    pub name: &'static str,
    /// The WebAssembly component.
    pub bytes: &'static [u8],
    /// Its digest, computed at build time: a start does not read components that are registered.
    pub digest: Digest,
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.bytes.len())
    }
}

impl Bundle {
    /// The ready-made judges, in the order of their names.
    ///
    /// # Errors
    /// When a document is not a preset; a test of the bundle excludes this.
    pub fn presets(&self) -> Result<Vec<Preset>, serde_json::Error> {
        let documents = self.presets.iter();
        documents.map(|text| serde_json::from_str(text)).collect()
    }

    /// The embedded plug-in of this name.
    #[must_use]
    pub fn first_party(&self, name: &str) -> Option<&'static Component> {
        self.first_party.iter().find(|plugin| plugin.name == name)
    }
}
