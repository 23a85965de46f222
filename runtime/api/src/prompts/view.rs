//! Responses of prompts.

use perpend_catalog::prompts::{Prompt, PromptSummary};
use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::PRODUCTION;
use perpend_domain::prompt::compose::{ComposedPrompt, graph};
use serde_json::{Value, json};

/// A version, with its included prompts inserted if `composed` is given.
pub(super) fn prompt(
    project: &ProjectId,
    prompt: &Prompt,
    composed: Option<&ComposedPrompt>,
) -> Value {
    let body = composed.map_or(&prompt.body, |composed| &composed.body);
    json!({
        "id": prompt.id,
        "createdAt": prompt.created_at,
        "updatedAt": prompt.updated_at,
        "projectId": project,
        "createdBy": prompt.created_by,
        "name": prompt.name,
        "version": prompt.version,
        "type": prompt.kind().as_str(),
        "prompt": body.to_json(),
        "config": prompt.config,
        "labels": prompt.labels,
        "tags": prompt.tags,
        "commitMessage": prompt.commit_message,
        "isActive": prompt.labels.iter().any(|label| label == PRODUCTION),
        "resolutionGraph": composed.and_then(|composed| graph(&prompt.part(), composed)),
    })
}

/// A prompt in a list.
pub(super) fn summary(prompt: &PromptSummary) -> Value {
    json!({
        "name": prompt.name,
        "type": prompt.kind.as_str(),
        "versions": prompt.versions,
        "labels": prompt.labels,
        "tags": prompt.tags,
        "lastUpdatedAt": prompt.updated_at,
        "lastConfig": prompt.config,
    })
}
