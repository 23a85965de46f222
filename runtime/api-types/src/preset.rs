//! Ready-made judges.

use perpend_domain::bundle::Direction;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// A ready-made judge.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct JudgePreset {
    /// Its id in this list.
    pub name: String,
    /// The name in lists and menus.
    pub title: String,
    /// What it measures.
    pub description: String,
    /// Which scores are better.
    pub direction: Direction,
    /// What a mapping fills: the variables of its prompt.
    pub variables: Vec<String>,
    /// What `POST /api/public/v2/evaluators` takes, changed or as it is.
    pub definition: PresetDefinition,
}

/// An evaluator that asks the project's default evaluation model.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PresetDefinition {
    /// `plugin`.
    #[serde(rename = "type")]
    pub kind: String,
    /// A name for the evaluator and its scores.
    pub name: String,
    /// For people.
    pub description: String,
    /// The plug-in of judges.
    pub plugin: String,
    /// Which of its evaluators.
    pub evaluator: String,
    /// Its configuration.
    #[schema(value_type = BTreeMap<String, Value>)]
    pub config: Value,
    /// What it may use.
    pub grants: Vec<String>,
}

/// All ready-made judges.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JudgePresets {
    /// In the order of their names.
    pub data: Vec<JudgePreset>,
}
