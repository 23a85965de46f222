//! New versions, moved labels, and deletions.

use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::compose::{Reference, VersionSelector};
use perpend_domain::prompt::{LATEST, PromptBody, PromptName};
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::row::labels;
use super::{Prompt, VERSION_OF_LABEL, read_prompt};
use crate::{Catalog, Error, audit};
use perpend_db::in_transaction;
use perpend_db::{Tx, query, query_scalar};
use perpend_db::{from_json, to_json};

/// A new version.
#[derive(Clone, Debug)]
pub struct NewPrompt {
    /// Id of the version.
    pub id: String,
    /// Name of the prompt, which the first version creates.
    pub name: PromptName,
    /// Text or messages.
    pub body: PromptBody,
    /// References in the body.
    pub references: Vec<Reference>,
    /// Arbitrary configuration for clients.
    pub config: Value,
    /// Labels to move to this version; `latest` moves without mention.
    pub labels: Vec<String>,
    /// New tags of the prompt; `None` keeps the current ones.
    pub tags: Option<Vec<String>>,
    /// Note about the version.
    pub commit_message: Option<String>,
    /// Author of the version.
    pub created_by: String,
}

/// Result of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptDeletion {
    /// The versions were deleted.
    Done,
    /// No version matches.
    NotFound,
    /// Versions of other prompts that include a version to be deleted.
    IncludedBy(Vec<(String, i64)>),
}

perpend_db::record! {
    struct ExistingPrompt {
        kind: String,
        tags: String,
    }
}

perpend_db::record! {
    struct VersionRow {
        version: i64,
        labels: Option<String>,
    }
}

perpend_db::record! {
    struct ReferenceRow {
        name: String,
        version: i64,
        included_version: Option<i64>,
        included_label: Option<String>,
    }
}

/// Inserts or locks the row of the prompt.
const LOCK: &str = "
    INSERT INTO prompts (project_id, name, kind, tags, created_at, updated_at)
    VALUES ($1, $2, $3, '[]', $4, $4)
    ON CONFLICT (project_id, name) DO UPDATE SET updated_at = excluded.updated_at";
const TOUCH: &str = "UPDATE prompts SET updated_at = $3 WHERE project_id = $1 AND name = $2";
const STANDING: &str = "SELECT kind, tags FROM prompts WHERE project_id = $1 AND name = $2";
const SET_TAGS: &str = "UPDATE prompts SET tags = $3 WHERE project_id = $1 AND name = $2";
const NEXT: &str = "
    SELECT COALESCE(MAX(version), 0) + 1 FROM prompt_versions WHERE project_id = $1 AND name = $2";
const INSERT: &str = "
    INSERT INTO prompt_versions
        (project_id, name, version, id, body, config, commit_message, created_by, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)";
const INSERT_REFERENCE: &str = "
    INSERT INTO prompt_references
        (project_id, name, version, included_name, included_version, included_label)
    VALUES ($1, $2, $3, $4, $5, $6)";
const MOVE_LABEL: &str = "
    INSERT INTO prompt_labels (project_id, name, label, version) VALUES ($1, $2, $3, $4)
    ON CONFLICT (project_id, name, label) DO UPDATE SET version = excluded.version";
const REMOVE_LABEL: &str = "
    DELETE FROM prompt_labels WHERE project_id = $1 AND name = $2 AND label = $3 AND version = $4";
const CHANGED: &str = "
    UPDATE prompt_versions SET updated_at = $4 WHERE project_id = $1 AND name = $2 AND version = $3";
const VERSIONS: &str = "
    SELECT v.version,
           (SELECT string_agg(l.label, ',') FROM prompt_labels l
             WHERE l.project_id = v.project_id AND l.name = v.name AND l.version = v.version) AS labels
      FROM prompt_versions v WHERE v.project_id = $1 AND v.name = $2 ORDER BY v.version";
const REFERENCES_TO: &str = "
    SELECT name, version, included_version, included_label
      FROM prompt_references WHERE project_id = $1 AND included_name = $2 ORDER BY name, version";
const DELETE_VERSION: &str = "
    DELETE FROM prompt_versions WHERE project_id = $1 AND name = $2 AND version = $3";
const DELETE: &str = "DELETE FROM prompts WHERE project_id = $1 AND name = $2";
const UNPROTECT: &str = "DELETE FROM prompt_protected_labels WHERE project_id = $1";
const PROTECT: &str = "INSERT INTO prompt_protected_labels (project_id, label) VALUES ($1, $2)";

const PROTECTED: &str = "SELECT label FROM prompt_protected_labels WHERE project_id = $1";

/// Refuses to move or delete protected labels of the project.
pub(crate) async fn refuse_protected<'l>(
    tx: &mut Tx,
    project: &ProjectId,
    labels: impl IntoIterator<Item = &'l str> + Send,
) -> Result<(), Error> {
    let labels: Vec<&str> = labels.into_iter().collect();
    if labels.is_empty() {
        return Ok(());
    }
    let protected: Vec<String> =
        query_scalar(PROTECTED).bind(project.as_str()).fetch_all(tx).await?;
    match labels.iter().find(|label| protected.iter().any(|one| one == *label)) {
        None => Ok(()),
        Some(label) => Err(Error::Forbidden(format!(
            "the label {label} is protected: a key of the organization has to remove it from the protected labels of \
             the project first"
        ))),
    }
}

/// Labels to add to and to remove from a version.
#[derive(Clone, Copy, Debug, Default)]
pub struct LabelChange<'l> {
    /// Labels to add.
    pub added: &'l [String],
    /// Labels to remove.
    pub removed: &'l [String],
}

/// Moves labels to a version; the versions that lose them count as changed too.
async fn move_labels(
    tx: &mut Tx,
    project: &ProjectId,
    name: &PromptName,
    labels: &[&str],
    version: i64,
    now: Timestamp,
) -> Result<(), Error> {
    for label in labels.iter().copied() {
        let former: Option<i64> = query_scalar(VERSION_OF_LABEL)
            .bind(project.as_str())
            .bind(name.as_str())
            .bind(label)
            .fetch_optional(&mut *tx)
            .await?;
        if former == Some(version) {
            continue;
        }
        query(MOVE_LABEL)
            .bind(project.as_str())
            .bind(name.as_str())
            .bind(label)
            .bind(version)
            .execute(tx)
            .await?;
        for changed in former.into_iter().chain([version]) {
            query(CHANGED)
                .bind(project.as_str())
                .bind(name.as_str())
                .bind(changed)
                .bind(now.as_micros())
                .execute(tx)
                .await?;
        }
    }
    Ok(())
}

/// Removes labels from a version that has them. A label by which another prompt includes this one stays.
async fn remove_labels(
    tx: &mut Tx,
    project: &ProjectId,
    name: &PromptName,
    labels: &[&str],
    version: i64,
    now: Timestamp,
) -> Result<(), Error> {
    if labels.is_empty() {
        return Ok(());
    }
    let references: Vec<ReferenceRow> =
        query(REFERENCES_TO).bind(project.as_str()).bind(name.as_str()).fetch_all(&mut *tx).await?;
    let mut included = references.iter().filter_map(|row| row.included_label.as_deref());
    if included.any(|label| labels.contains(&label)) {
        return Err(Error::Conflict("another prompt includes this one by a label to be removed"));
    }
    for label in labels.iter().copied() {
        query(REMOVE_LABEL)
            .bind(project.as_str())
            .bind(name.as_str())
            .bind(label)
            .bind(version)
            .execute(&mut *tx)
            .await?;
    }
    query(CHANGED)
        .bind(project.as_str())
        .bind(name.as_str())
        .bind(version)
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    Ok(())
}

/// Writes the row of a version and its references.
async fn insert_version(
    tx: &mut Tx,
    project: &ProjectId,
    new: &NewPrompt,
    version: i64,
    now: Timestamp,
) -> Result<(), Error> {
    query(INSERT)
        .bind(project.as_str())
        .bind(new.name.as_str())
        .bind(version)
        .bind(&new.id)
        .bind(to_json("prompt", &new.body.to_json())?)
        .bind(to_json("prompt", &new.config)?)
        .bind(new.commit_message.as_deref())
        .bind(&new.created_by)
        .bind(now.as_micros())
        .execute(tx)
        .await?;
    for reference in &new.references {
        let (included, label) = match &reference.selector {
            VersionSelector::Version(version) => (Some(*version), None),
            VersionSelector::Label(label) => (None, Some(label.as_str())),
        };
        query(INSERT_REFERENCE)
            .bind(project.as_str())
            .bind(new.name.as_str())
            .bind(version)
            .bind(&reference.name)
            .bind(included)
            .bind(label)
            .execute(tx)
            .await?;
    }
    Ok(())
}

/// Versions to delete, and versions that include one of them.
struct DeletionPlan {
    gone: Vec<i64>,
    newest_left: Option<i64>,
    takes_latest: bool,
    including: Vec<(String, i64)>,
}

impl DeletionPlan {
    fn new(
        name: &PromptName,
        versions: &[VersionRow],
        references: Vec<ReferenceRow>,
        which: Option<&VersionSelector>,
    ) -> Self {
        let goes = |row: &&VersionRow| match which {
            None => true,
            Some(VersionSelector::Version(version)) => row.version == *version,
            Some(VersionSelector::Label(label)) => labels(row.labels.as_deref()).contains(label),
        };
        let gone: Vec<i64> = versions.iter().filter(goes).map(|row| row.version).collect();
        let left = versions.iter().filter(|row| !gone.contains(&row.version));
        let newest_left = left.map(|row| row.version).max();
        let mut gone_labels: Vec<String> = Vec::new();
        for row in versions.iter().filter(|row| gone.contains(&row.version)) {
            gone_labels.extend(labels(row.labels.as_deref()));
        }
        let takes_latest = gone_labels.iter().any(|label| label == LATEST);
        if newest_left.is_some() {
            // `latest` moves to another version, which including prompts then get.
            gone_labels.retain(|label| label != LATEST);
        }
        let is_included = |row: &ReferenceRow| {
            let is_gone = row.name == name.as_str() && gone.contains(&row.version);
            let needs = row.included_version.is_some_and(|version| gone.contains(&version))
                || row.included_label.as_ref().is_some_and(|label| gone_labels.contains(label));
            needs && !is_gone
        };
        let including = references.into_iter().filter(is_included);
        let mut including: Vec<_> = including.map(|row| (row.name, row.version)).collect();
        including.dedup();
        Self { gone, newest_left, takes_latest, including }
    }
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "prompt";

impl Catalog {
    /// Creates the next version of a prompt, and the prompt with its first one.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the prompt is of the other kind, [`Error::Forbidden`] if one of the labels is
    /// protected.
    pub async fn create_prompt(
        &self,
        project: &ProjectId,
        new: &NewPrompt,
        now: Timestamp,
    ) -> Result<Prompt, Error> {
        let name = new.name.as_str();
        Ok(in_transaction!(&self.pool, |tx| {
            query(LOCK)
                .bind(project.as_str())
                .bind(name)
                .bind(new.body.kind().as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let existing: ExistingPrompt =
                query(STANDING).bind(project.as_str()).bind(name).fetch_one(&mut tx).await?;
            if existing.kind != new.body.kind().as_str() {
                return Err(Error::Conflict("all versions of a prompt are text, or all are chat"));
            }
            let former: Vec<String> = from_json("prompt", &existing.tags)?;
            if let Some(tags) = new.tags.as_ref().filter(|tags| **tags != former) {
                query(SET_TAGS)
                    .bind(project.as_str())
                    .bind(name)
                    .bind(to_json("prompt", tags)?)
                    .execute(&mut tx)
                    .await?;
            }
            let version: i64 =
                query_scalar(NEXT).bind(project.as_str()).bind(name).fetch_one(&mut tx).await?;
            insert_version(&mut tx, project, new, version, now).await?;
            let mut labels: Vec<&str> = new.labels.iter().map(String::as_str).collect();
            labels.retain(|label| *label != LATEST);
            refuse_protected(&mut tx, project, labels.iter().copied()).await?;
            labels.push(LATEST);
            move_labels(&mut tx, project, &new.name, &labels, version, now).await?;
            let after = json!({ "version": version, "labels": labels, "tags": new.tags });
            audit::note(AUDITED, name, None, Some(after));
            read_prompt(&mut tx, project, name, &VersionSelector::Version(version))
                .await?
                .ok_or(Error::NotFound)?
        }))
    }

    /// Moves labels to a version; other versions of the prompt lose them. Existing labels of the version
    /// stay.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the project has no such version, [`Error::Forbidden`] if a label is protected
    /// and on another version, or on none.
    pub async fn label_prompt(
        &self,
        project: &ProjectId,
        name: &PromptName,
        version: i64,
        change: LabelChange<'_>,
        now: Timestamp,
    ) -> Result<Prompt, Error> {
        let selector = VersionSelector::Version(version);
        Ok(in_transaction!(&self.pool, |tx| {
            query(TOUCH)
                .bind(project.as_str())
                .bind(name.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let existing = read_prompt(&mut tx, project, name.as_str(), &selector).await?;
            let existing = existing.ok_or(Error::NotFound)?;
            let labels: Vec<&str> = change.added.iter().map(String::as_str).collect();
            let added = labels
                .iter()
                .copied()
                .filter(|label| existing.labels.iter().all(|own| own != label));
            let removed: Vec<&str> = change
                .removed
                .iter()
                .map(String::as_str)
                .filter(|label| existing.labels.iter().any(|own| own == label))
                .collect();
            let changed = added.chain(removed.iter().copied());
            refuse_protected(&mut tx, project, changed).await?;
            remove_labels(&mut tx, project, name, &removed, version, now).await?;
            move_labels(&mut tx, project, name, &labels, version, now).await?;
            let changed = read_prompt(&mut tx, project, name.as_str(), &selector).await?;
            let changed = changed.ok_or(Error::NotFound)?;
            let before = json!({ "labels": existing.labels });
            let after = json!({ "version": version, "labels": changed.labels });
            audit::note(AUDITED, name.as_str(), Some(before), Some(after));
            changed
        }))
    }

    /// Deletes versions of a prompt: those in `which`, or all. When the newest is deleted, `latest` moves to
    /// the newest remaining version.
    ///
    /// # Errors
    /// [`Error::Forbidden`] if one of the versions has a protected label.
    pub async fn delete_prompt(
        &self,
        project: &ProjectId,
        name: &PromptName,
        which: Option<&VersionSelector>,
        now: Timestamp,
    ) -> Result<PromptDeletion, Error> {
        Ok(in_transaction!(&self.pool, |tx| {
            query(TOUCH)
                .bind(project.as_str())
                .bind(name.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let versions: Vec<VersionRow> = query(VERSIONS)
                .bind(project.as_str())
                .bind(name.as_str())
                .fetch_all(&mut tx)
                .await?;
            let references: Vec<ReferenceRow> = query(REFERENCES_TO)
                .bind(project.as_str())
                .bind(name.as_str())
                .fetch_all(&mut tx)
                .await?;
            let plan = DeletionPlan::new(name, &versions, references, which);
            if plan.gone.is_empty() {
                return Ok(PromptDeletion::NotFound);
            }
            let gone = versions.iter().filter(|row| plan.gone.contains(&row.version));
            let gone: Vec<String> = gone.flat_map(|row| labels(row.labels.as_deref())).collect();
            refuse_protected(&mut tx, project, gone.iter().map(String::as_str)).await?;
            if !plan.including.is_empty() {
                return Ok(PromptDeletion::IncludedBy(plan.including));
            }
            let before = json!({ "versions": plan.gone, "labels": gone });
            audit::note(AUDITED, name.as_str(), Some(before), None);
            for version in &plan.gone {
                query(DELETE_VERSION)
                    .bind(project.as_str())
                    .bind(name.as_str())
                    .bind(*version)
                    .execute(&mut tx)
                    .await?;
            }
            match plan.newest_left {
                None => {
                    query(DELETE)
                        .bind(project.as_str())
                        .bind(name.as_str())
                        .execute(&mut tx)
                        .await?;
                }
                Some(version) if plan.takes_latest => {
                    move_labels(&mut tx, project, name, &[LATEST], version, now).await?;
                }
                Some(_) => {}
            }
            PromptDeletion::Done
        }))
    }

    /// Replaces the list of protected labels.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn protect_labels(
        &self,
        project: &ProjectId,
        labels: &[String],
    ) -> Result<(), Error> {
        let before = json!({ "labels": self.protected_labels(project).await? });
        let after = json!({ "labels": labels });
        audit::note("protected-labels", project.as_str(), Some(before), Some(after));
        in_transaction!(&self.pool, |tx| {
            query(UNPROTECT).bind(project.as_str()).execute(&mut tx).await?;
            for label in labels {
                query(PROTECT).bind(project.as_str()).bind(label).execute(&mut tx).await?;
            }
        });
        Ok(())
    }
}
