//! Plug-ins and their versions.

use perpend_domain::ids::EvaluatorId;
use perpend_domain::plugin::{Digest, EvaluatorInfo, ItemParts, ModelSlot, PluginInfo, ScoreSpec};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::any_json::AnyJson;

/// The plug-ins that the server accepts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PluginSupport)]
pub struct PluginSupport {
    /// Supported versions of the WIT package.
    pub contracts: Vec<String>,
    /// The largest component in bytes.
    pub max_component_bytes: usize,
}

/// The registered plug-ins.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Plugins {
    /// By name and version.
    pub data: Vec<Plugin>,
    /// The plug-ins that the server accepts.
    pub meta: PluginSupport,
}

/// An evaluator of a plug-in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginEvaluator {
    id: String,
    title: String,
    description: String,
    /// JSON Schema of the configuration.
    #[schema(value_type = AnyJson)]
    config_schema: Value,
    /// Parts of the item that it reads.
    needs: Vec<String>,
    /// Models that it calls.
    slots: Vec<ModelSlot>,
    /// Scores that it gives.
    scores: Vec<ScoreSpec>,
    /// Names of scores depend on configuration or data.
    dynamic_scores: bool,
    /// Equal calls give equal scores.
    deterministic: bool,
}

fn needs(parts: ItemParts) -> Vec<String> {
    let all = [
        ("input", parts.input),
        ("output", parts.output),
        ("expectedOutput", parts.expected_output),
        ("metadata", parts.metadata),
        ("trace", parts.trace),
    ];
    let needed = all.into_iter().filter(|(_, is_needed)| *is_needed);
    needed.map(|(name, _)| name.to_owned()).collect()
}

impl From<&EvaluatorInfo> for PluginEvaluator {
    fn from(info: &EvaluatorInfo) -> Self {
        Self {
            id: info.id.clone(),
            title: info.title.clone(),
            description: info.description.clone(),
            config_schema: serde_json::from_str(&info.config_schema).unwrap_or(Value::Null),
            needs: needs(info.needs),
            slots: info.slots.clone(),
            scores: info.scores.clone(),
            dynamic_scores: info.dynamic_scores,
            deterministic: info.deterministic,
        }
    }
}

/// A plug-in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Plugin {
    name: String,
    version: String,
    digest: Digest,
    description: String,
    /// It is shipped with the server.
    is_first_party: bool,
    /// Capabilities that its component imports.
    capabilities: Vec<String>,
    size_bytes: u64,
    evaluators: Vec<PluginEvaluator>,
    created_at: Timestamp,
}

/// The stored data of a registered component.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredComponent {
    /// Its digest.
    pub digest: Digest,
    /// It is shipped with the server.
    pub is_first_party: bool,
    /// Its size.
    pub size_bytes: u64,
    /// Registration time.
    pub created_at: Timestamp,
}

impl Plugin {
    /// From the description and the stored data of a component.
    #[must_use]
    pub fn new(info: &PluginInfo, registered: RegisteredComponent) -> Self {
        let capabilities = info.capabilities.names().into_iter();
        Self {
            name: info.name.clone(),
            version: info.version.clone(),
            digest: registered.digest,
            description: info.description.clone(),
            is_first_party: registered.is_first_party,
            capabilities: capabilities.map(str::to_owned).collect(),
            size_bytes: registered.size_bytes,
            evaluators: info.evaluators.iter().map(Into::into).collect(),
            created_at: registered.created_at,
        }
    }
}

/// One version of a plug-in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginVersion {
    /// Semantic version.
    pub version: String,
    /// Its component.
    pub digest: Digest,
    /// Registration time.
    pub created_at: Timestamp,
}

/// An evaluator with versions made from a component.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PluginUser {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Its name.
    pub name: String,
    /// Those of its versions, oldest first.
    pub versions: Vec<u32>,
    /// Its newest version is among them.
    pub is_current: bool,
}

/// A plug-in with its other versions and the evaluators that use it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PluginWithUsers {
    /// The plug-in.
    #[serde(flatten)]
    pub plugin: Plugin,
    /// All versions of its name.
    pub versions: Vec<PluginVersion>,
    /// Evaluators made from it.
    pub users: Vec<PluginUser>,
}

/// A deleted plug-in.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeletedPlugin {
    /// Its component.
    pub digest: Digest,
}

/// The rollback of a plug-in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// `vendor/name`.
    pub name: String,
    /// The target version for every evaluator that uses the plug-in; when absent, evaluators on the newest registered version
    /// go back to the previous one.
    #[serde(default)]
    pub to: Option<String>,
    /// Report the changes without applying them.
    #[serde(default)]
    pub dry_run: bool,
}

/// The plug-in version of an evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorOrigin {
    /// `null` if nothing was changed.
    pub evaluator_version: Option<u32>,
    /// Version of the plug-in.
    pub plugin_version: String,
    /// Its component.
    pub digest: Digest,
}

/// The rollback of one evaluator.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RollbackMove)]
pub struct PluginMove {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Its name.
    pub name: String,
    /// The version before the rollback.
    pub before: EvaluatorOrigin,
    /// The version after the rollback.
    pub after: EvaluatorOrigin,
}

/// The result of a rollback.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollbackResponse {
    /// The affected evaluators.
    pub data: Vec<PluginMove>,
    /// Nothing was changed.
    pub dry_run: bool,
}
