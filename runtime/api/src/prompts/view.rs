//! Responses of prompts.

use std::collections::BTreeMap;

use perpend_api_types::any_json::AnyJson;
use perpend_catalog::prompts::{Prompt, PromptSummary};
use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::{ComposedPrompt, IncludedPrompt};
use perpend_domain::prompt::{PRODUCTION, PromptBody, PromptKind};
use perpend_domain::time::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// A version of a prompt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Prompt)]
pub(super) struct PromptView {
    id: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    project_id: ProjectId,
    created_by: String,
    name: String,
    version: i64,
    #[serde(rename = "type")]
    kind: PromptKind,
    prompt: PromptContent,
    config: AnyJson,
    labels: Vec<String>,
    /// Tags of the prompt.
    tags: Vec<String>,
    commit_message: Option<String>,
    /// Whether the version has the label `production`.
    is_active: bool,
    /// The inserted prompts; null without such prompts.
    resolution_graph: Option<ResolutionGraph>,
}

/// The text of a `text` prompt, or the messages and placeholders of a `chat` prompt.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum PromptContent {
    Text(String),
    #[schema(value_type = Vec<BTreeMap<String, AnyJson>>)]
    Chat(Vec<Map<String, Value>>),
}

/// Which version of a prompt includes which other versions.
#[derive(Debug, Serialize, ToSchema)]
struct ResolutionGraph {
    root: IncludedVersion,
    /// Included versions by the id of the including version.
    dependencies: BTreeMap<String, Vec<IncludedVersion>>,
}

/// A version in a resolution graph.
#[derive(Debug, Serialize, ToSchema)]
struct IncludedVersion {
    id: String,
    name: String,
    version: i64,
}

/// A prompt in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PromptInList {
    name: String,
    #[serde(rename = "type")]
    kind: PromptKind,
    /// Numbers of the versions, ascending.
    versions: Vec<i64>,
    /// Labels of all versions.
    labels: Vec<String>,
    tags: Vec<String>,
    /// Time of the last change of a version.
    last_updated_at: Timestamp,
    /// Config of the newest version.
    last_config: AnyJson,
}

impl From<&PromptBody> for PromptContent {
    fn from(body: &PromptBody) -> Self {
        match body {
            PromptBody::Text(text) => Self::Text(text.clone()),
            PromptBody::Chat(messages) => Self::Chat(messages.clone()),
        }
    }
}

impl From<&IncludedPrompt> for IncludedVersion {
    fn from(part: &IncludedPrompt) -> Self {
        Self { id: part.id.clone(), name: part.name.clone(), version: part.version }
    }
}

/// A version, with its included prompts inserted if `composed` is given.
pub(super) fn prompt(
    project: &ProjectId,
    prompt: &Prompt,
    composed: Option<&ComposedPrompt>,
) -> PromptView {
    let body = composed.map_or(&prompt.body, |composed| &composed.body);
    let composed = composed.filter(|composed| !composed.included.is_empty());
    PromptView {
        id: prompt.id.clone(),
        created_at: prompt.created_at,
        updated_at: prompt.updated_at,
        project_id: project.clone(),
        created_by: prompt.created_by.clone(),
        name: prompt.name.clone(),
        version: prompt.version,
        kind: prompt.kind(),
        prompt: body.into(),
        config: (&prompt.config).into(),
        labels: prompt.labels.clone(),
        tags: prompt.tags.clone(),
        commit_message: prompt.commit_message.clone(),
        is_active: prompt.labels.iter().any(|label| label == PRODUCTION),
        resolution_graph: composed.map(|composed| graph(prompt, composed)),
    }
}

fn graph(prompt: &Prompt, composed: &ComposedPrompt) -> ResolutionGraph {
    let included = composed.included.iter();
    let dependencies = included
        .map(|(id, parts)| (id.clone(), parts.iter().map(IncludedVersion::from).collect()))
        .collect();
    ResolutionGraph { root: (&prompt.part()).into(), dependencies }
}

/// A prompt in a list.
pub(super) fn summary(prompt: &PromptSummary) -> PromptInList {
    PromptInList {
        name: prompt.name.clone(),
        kind: prompt.kind,
        versions: prompt.versions.clone(),
        labels: prompt.labels.clone(),
        tags: prompt.tags.clone(),
        last_updated_at: prompt.updated_at,
        last_config: (&prompt.config).into(),
    }
}
