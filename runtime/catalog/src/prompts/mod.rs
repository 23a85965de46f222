//! Prompts in versions, with labels that move.
//!
//! Invariants:
//! - **A version is immutable** except for its labels; a label is on one version of a prompt.
//! - **`latest` is maintained.** It is on the version with the highest number after every write.
//! - **Included versions stay.** A version that others include cannot be deleted.
//! - **Protected labels stay.** Each transaction that moves or deletes labels of prompts or skills calls
//!   `refuse_protected`.

mod ids;
mod list;
mod row;
#[cfg(test)]
mod tests;
mod write;

use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::{IncludedPrompt, Reference, VersionSelector};
use perpend_domain::prompt::{PromptBody, PromptKind, PromptName};
use perpend_domain::time::Timestamp;
use serde_json::Value;

use crate::{Catalog, Error};
use perpend_db::{Source, query, query_scalar};

pub use list::{PromptQuery, PromptSummary};
pub(crate) use write::refuse_protected;
pub use write::{LabelChange, NewPrompt, PromptDeletion};

/// A version of a prompt, with the fields of the prompt as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    /// Id of the version.
    pub id: String,
    /// Name of the prompt.
    pub name: String,
    /// Number of the version, from 1.
    pub version: i64,
    /// Text or messages.
    pub body: PromptBody,
    /// Arbitrary configuration for clients.
    pub config: Value,
    /// Labels of this version, sorted.
    pub labels: Vec<String>,
    /// Tags of the prompt.
    pub tags: Vec<String>,
    /// Note about the version.
    pub commit_message: Option<String>,
    /// Author of the version.
    pub created_by: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change of labels.
    pub updated_at: Timestamp,
}

impl Prompt {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> PromptKind {
        self.body.kind()
    }

    /// The part that composition reads.
    #[must_use]
    pub fn part(&self) -> IncludedPrompt {
        IncludedPrompt {
            id: self.id.clone(),
            name: self.name.clone(),
            version: self.version,
            body: self.body.clone(),
        }
    }
}

const BY_VERSION: &str = "
    SELECT v.id, v.name, v.version, v.body, v.config, v.commit_message, v.created_by, v.created_at,
           v.updated_at, p.tags,
           (SELECT string_agg(l.label, ',') FROM prompt_labels l
             WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version) AS labels
      FROM prompt_versions v JOIN prompts p ON p.project_id = v.project_id AND p.name = v.name
     WHERE v.project_id = $1 AND v.name = $2 AND v.version = $3";
const VERSION_OF_LABEL: &str = "
    SELECT version FROM prompt_labels WHERE project_id = $1 AND name = $2 AND label = $3";
const BY_LABEL: &str = "
    SELECT v.id, v.name, v.version, v.body, v.config, v.commit_message, v.created_by, v.created_at,
           v.updated_at, p.tags,
           (SELECT string_agg(l.label, ',') FROM prompt_labels l
             WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version) AS labels
      FROM prompt_labels of
      JOIN prompt_versions v
        ON v.project_id = of.project_id AND v.name = of.name AND v.version = of.version
      JOIN prompts p ON p.project_id = v.project_id AND p.name = v.name
     WHERE of.project_id = $1 AND of.name = $2 AND of.label = $3";
const PROTECTED: &str = "
    SELECT label FROM prompt_protected_labels WHERE project_id = $1 ORDER BY label";

/// Reads one version.
async fn read_prompt(
    source: impl Into<Source<'_>>,
    project: &ProjectId,
    name: &str,
    selector: &VersionSelector,
) -> Result<Option<Prompt>, Error> {
    let found = match selector {
        VersionSelector::Version(version) => {
            query(BY_VERSION).bind(project.as_str()).bind(name).bind(*version)
        }
        VersionSelector::Label(label) => {
            query(BY_LABEL).bind(project.as_str()).bind(name).bind(label)
        }
    };
    let row: Option<row::PromptRow> = found.fetch_optional(source).await?;
    row.map(Prompt::try_from).transpose()
}

impl Catalog {
    /// A version of a prompt.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn prompt(
        &self,
        project: &ProjectId,
        name: &PromptName,
        selector: &VersionSelector,
    ) -> Result<Option<Prompt>, Error> {
        read_prompt(&self.pool, project, name.as_str(), selector).await
    }

    /// The version to which a reference in another prompt refers.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn included_prompt(
        &self,
        project: &ProjectId,
        reference: &Reference,
    ) -> Result<Option<IncludedPrompt>, Error> {
        let found = read_prompt(&self.pool, project, &reference.name, &reference.selector).await?;
        Ok(found.map(|prompt| prompt.part()))
    }

    /// The protected labels of a project, sorted.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn protected_labels(&self, project: &ProjectId) -> Result<Vec<String>, Error> {
        query_scalar(PROTECTED).bind(project.as_str()).fetch_all(&self.pool).await
    }
}
