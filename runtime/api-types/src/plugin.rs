//! Plug-ins: what evaluators can be made from.

use perpend_domain::ids::EvaluatorId;
use perpend_domain::plugin::{Digest, EvaluatorInfo, ItemParts, ModelSlot, PluginInfo, ScoreSpec};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What the server takes as a plug-in.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PluginSupport)]
pub struct PluginSupport {
    /// Versions of the WIT package.
    pub contracts: Vec<String>,
    /// The largest component.
    pub max_component_bytes: usize,
}

/// Plug-ins, and what else can be registered.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Plugins {
    /// By name and version.
    pub data: Vec<Plugin>,
    /// What the server takes.
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
    /// It comes with the server.
    is_first_party: bool,
    /// What its component can ask the server for.
    capabilities: Vec<String>,
    size_bytes: u64,
    evaluators: Vec<PluginEvaluator>,
    created_at: Timestamp,
}

/// What is known of a component besides what it says about itself.
#[derive(Clone, Copy, Debug)]
pub struct RegisteredComponent {
    /// Its digest.
    pub digest: Digest,
    /// It comes with the server.
    pub is_first_party: bool,
    /// Its size.
    pub size_bytes: u64,
    /// Registered at.
    pub created_at: Timestamp,
}

impl Plugin {
    /// What a component says about itself, and what is known of it besides.
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
    /// Registered at.
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

/// A plug-in with its other versions and who uses it.
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

/// A plug-in that is no more.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeletedPlugin {
    /// Its component.
    pub digest: Digest,
}

/// Which plug-in goes back, and where to.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rollback {
    /// `vendor/name`.
    pub name: String,
    /// The version to go to, for every evaluator that uses the plug-in; when absent, those that use the newest
    /// registered version go to the one before it.
    #[serde(default)]
    pub to: Option<String>,
    /// Say what would change, and change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What an evaluator is made from.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvaluatorOrigin {
    /// `null` where nothing was changed.
    pub evaluator_version: Option<u32>,
    /// Version of the plug-in.
    pub plugin_version: String,
    /// Its component.
    pub digest: Digest,
}

/// An evaluator that goes back.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RollbackMove)]
pub struct PluginMove {
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// Its name.
    pub name: String,
    /// Until now.
    pub before: EvaluatorOrigin,
    /// From now on.
    pub after: EvaluatorOrigin,
}

/// Evaluators that went back, or would.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollbackResponse {
    /// Each of them.
    pub data: Vec<PluginMove>,
    /// Nothing was changed.
    pub dry_run: bool,
}
