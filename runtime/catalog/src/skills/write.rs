//! New versions, moved labels, tags, and deletions.

use perpend_domain::ids::ProjectId;
use perpend_domain::prompt::LATEST;
use perpend_domain::prompt::compose::VersionSelector;
use perpend_domain::time::Timestamp;
use serde_json::{Value, json};

use super::{Skill, SkillFile};
use crate::prompts::refuse_protected;
use crate::{Catalog, Error, audit};
use perpend_db::in_transaction;
use perpend_db::to_json;
use perpend_db::{Arg, query_scalar};

/// A new version.
#[derive(Clone, Debug)]
pub struct NewSkill {
    /// Id of the version.
    pub id: String,
    /// Name of the skill, which the first version creates.
    pub name: String,
    /// Purpose of the skill.
    pub description: String,
    /// Front matter of its main file.
    pub frontmatter: Value,
    /// All its files, by path.
    pub files: Vec<SkillFile>,
    /// Hash and text of files that may be new.
    pub contents: Vec<(String, String)>,
    /// Note about the version.
    pub commit_message: Option<String>,
    /// Author of the version.
    pub created_by: String,
}

/// Inserts or locks the row of the skill; returns the number of the new version.
const NEXT: &str = "
    INSERT INTO skills (project_id, name, tags, last_version, created_at, updated_at)
    VALUES ($1, $2, '[]', 1, $3, $3)
    ON CONFLICT (project_id, name)
    DO UPDATE SET last_version = skills.last_version + 1, updated_at = excluded.updated_at
    RETURNING last_version";
const INSERT: &str = "
    INSERT INTO skill_versions
        (project_id, name, version, id, description, frontmatter, files, commit_message, created_by,
         created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)";
const KEEP: &str = "
    INSERT INTO skill_contents (project_id, sha256, content, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (project_id, sha256) DO NOTHING";
const TOUCH: &str = "UPDATE skills SET updated_at = $3 WHERE project_id = $1 AND name = $2";
const SET_TAGS: &str = "
    UPDATE skills SET updated_at = $3, tags = $4 WHERE project_id = $1 AND name = $2";
/// Also checks the existence of the version.
const CHANGED: &str = "
    UPDATE skill_versions SET updated_at = $4 WHERE project_id = $1 AND name = $2 AND version = $3";
/// Versions that lose a label have changed too.
const ROBBED: &str = "
    UPDATE skill_versions SET updated_at = $4
     WHERE project_id = $1 AND name = $2 AND version <> $5
       AND version = (SELECT l.version FROM skill_labels l
                       WHERE l.project_id = $1 AND l.name = $2 AND l.label = $3)";
const LABELS_OF: &str = "
    SELECT label FROM skill_labels WHERE project_id = $1 AND name = $2 AND version = $3";
const UNLABEL: &str = "
    DELETE FROM skill_labels WHERE project_id = $1 AND name = $2 AND version = $3";
const LABEL: &str = "
    INSERT INTO skill_labels (project_id, name, label, version) VALUES ($1, $2, $3, $4)
    ON CONFLICT (project_id, name, label) DO UPDATE SET version = excluded.version";
const DELETE: &str = "
    DELETE FROM skill_versions WHERE project_id = $1 AND name = $2 AND version = $3";
/// Deletes a skill without versions.
const DELETE_EMPTY: &str = "
    DELETE FROM skills WHERE project_id = $1 AND name = $2
       AND NOT EXISTS (SELECT 1 FROM skill_versions v WHERE v.project_id = $1 AND v.name = $2)";

/// Kind of the object in the audit trail.
const AUDITED: &str = "skill";

impl Catalog {
    /// Creates the next version of a skill, and the skill with its first one.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn create_skill(
        &self,
        project: &ProjectId,
        new: &NewSkill,
        now: Timestamp,
    ) -> Result<Skill, Error> {
        let (project_id, name) = (Arg::from(project.as_str()), Arg::from(new.name.as_str()));
        let at = Arg::from(now.as_micros());
        let (frontmatter, files) =
            (to_json("skill", &new.frontmatter)?, to_json("skill", &new.files)?);
        let lock = [project_id.clone(), name.clone(), at.clone()];
        let version = in_transaction!(&self.pool, |tx| {
            let version: i64 = query_scalar(NEXT).bind_all(&lock).fetch_one(&mut tx).await?;
            audit::note(AUDITED, &new.name, None, Some(json!({ "version": version })));
            let row: [Arg<'_>; 10] = [
                project_id.clone(),
                name.clone(),
                version.into(),
                new.id.as_str().into(),
                new.description.as_str().into(),
                frontmatter.as_str().into(),
                files.as_str().into(),
                new.commit_message.as_deref().into(),
                new.created_by.as_str().into(),
                at.clone(),
            ];
            tx.execute(INSERT, &row).await?;
            for (hash, content) in &new.contents {
                let row =
                    [project_id.clone(), hash.as_str().into(), content.as_str().into(), at.clone()];
                tx.execute(KEEP, &row).await?;
            }
            version
        });
        self.existing_skill(project, &new.name, &VersionSelector::Version(version)).await
    }

    async fn existing_skill(
        &self,
        project: &ProjectId,
        name: &str,
        which: &VersionSelector,
    ) -> Result<Skill, Error> {
        let found = self.skill(project, name, which).await?;
        found.ok_or(Error::NotFound)
    }

    /// Replaces the tags of a skill; returns its newest version.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such skill.
    pub async fn tag_skill(
        &self,
        project: &ProjectId,
        name: &str,
        tags: &[String],
        now: Timestamp,
    ) -> Result<Skill, Error> {
        let new_tags = tags;
        let tags = to_json("skill", &tags)?;
        let args: [Arg<'_>; 4] =
            [project.as_str().into(), name.into(), now.as_micros().into(), tags.as_str().into()];
        audit::note(AUDITED, name, None, Some(json!({ "tags": new_tags })));
        self.pool.change(SET_TAGS, &args).await?;
        self.existing_skill(project, name, &VersionSelector::Label(LATEST.to_owned())).await
    }

    /// Sets the labels of a version; other versions of the skill lose them. `latest` is not moved.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the project has no such version, [`Error::Forbidden`] when a protected label would move.
    pub async fn label_skill(
        &self,
        project: &ProjectId,
        name: &str,
        version: i64,
        labels: &[String],
        now: Timestamp,
    ) -> Result<Skill, Error> {
        let (project_id, skill) = (Arg::from(project.as_str()), Arg::from(name));
        let at = Arg::from(now.as_micros());
        let lock = [project_id.clone(), skill.clone(), at.clone()];
        let this: [Arg<'_>; 4] = [project_id.clone(), skill.clone(), version.into(), at.clone()];
        in_transaction!(&self.pool, |tx| {
            tx.execute(TOUCH, &lock).await?;
            if tx.execute(CHANGED, &this).await? == 0 {
                return Err(Error::NotFound);
            }
            let former: Vec<String> =
                query_scalar(LABELS_OF).bind_all(&this[..3]).fetch_all(&mut tx).await?;
            let after = json!({ "version": version, "labels": labels });
            audit::note(AUDITED, name, Some(json!({ "labels": former })), Some(after));
            let added = labels.iter().filter(|label| !former.contains(label));
            let removed = former.iter().filter(|label| !labels.contains(label));
            let changed = added.chain(removed).map(String::as_str);
            refuse_protected(&mut tx, project, changed).await?;
            tx.execute(UNLABEL, &this[..3]).await?;
            for label in labels {
                let label = Arg::from(label.as_str());
                let of = [project_id.clone(), skill.clone(), label, at.clone(), version.into()];
                tx.execute(ROBBED, &of).await?;
                let [project_id, skill, label, _, version] = of;
                tx.execute(LABEL, &[project_id, skill, label, version]).await?;
            }
        });
        self.existing_skill(project, name, &VersionSelector::Version(version)).await
    }

    /// Deletes a version, and the skill with its last one. When the newest is deleted, the version before it
    /// becomes the latest.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the project has no such version, [`Error::Forbidden`] if it has a protected
    /// label.
    pub async fn delete_skill(
        &self,
        project: &ProjectId,
        name: &str,
        version: i64,
        now: Timestamp,
    ) -> Result<(), Error> {
        let lock: [Arg<'_>; 3] = [project.as_str().into(), name.into(), now.as_micros().into()];
        let this: [Arg<'_>; 3] = [project.as_str().into(), name.into(), version.into()];
        in_transaction!(&self.pool, |tx| {
            tx.execute(TOUCH, &lock).await?;
            let labels: Vec<String> =
                query_scalar(LABELS_OF).bind_all(&this).fetch_all(&mut tx).await?;
            refuse_protected(&mut tx, project, labels.iter().map(String::as_str)).await?;
            let before = json!({ "version": version, "labels": labels });
            audit::note(AUDITED, name, Some(before), None);
            if tx.execute(DELETE, &this).await? == 0 {
                return Err(Error::NotFound);
            }
            tx.execute(DELETE_EMPTY, &this[..2]).await?;
        });
        Ok(())
    }
}
