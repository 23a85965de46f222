//! Judge presets.

use perpend_domain::bundle::Direction;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// A judge preset.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgePreset {
    /// Its id in this list.
    pub name: String,
    /// The name in lists and menus.
    pub title: String,
    /// The measured property.
    pub description: String,
    /// Which scores are better.
    pub direction: Direction,
    /// The variables of its prompt.
    pub variables: Vec<String>,
    /// A body for `POST /api/public/v2/evaluators`.
    pub definition: PresetDefinition,
}

/// An evaluator that uses the project's default evaluation model.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PresetDefinition {
    /// `plugin`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A name for the evaluator and its scores.
    pub name: String,
    /// Free text.
    pub description: String,
    /// The plug-in of judges.
    pub plugin: String,
    /// The id of the evaluator in it.
    pub evaluator: String,
    /// Its configuration.
    #[schema(value_type = BTreeMap<String, AnyJson>)]
    pub config: Value,
    /// Granted capabilities.
    pub grants: Vec<String>,
}

/// All judge presets.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JudgePresets {
    /// In the order of their names.
    pub data: Vec<JudgePreset>,
}
