//! Projects of organizations.
//!
//! A deleted project is inaccessible from the commit of the deletion: its keys are deleted, and no statement
//! finds it. Its data are deleted afterwards, in steps (`sweep`).

use perpend_domain::ids::{OrganizationId, ProjectId};
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value, json};

use super::keys::LOCK_ORGANIZATION;
use super::projects::{ProjectRow, select_projects};
use super::revision::RAISE;
use super::{Organization, Project};
use crate::{Catalog, Error, audit};
use perpend_db::in_transaction;
use perpend_db::{Arg, Tx, query};
use perpend_db::{checked, to_json};

/// Maximum of projects of an organization: their list has no pages.
pub const MAX_PROJECTS: u32 = 1_000;

/// A new project of an organization.
#[derive(Clone, Debug, PartialEq)]
pub struct NewProject {
    /// Its id.
    pub id: ProjectId,
    /// Its name, unique in the organization.
    pub name: String,
    /// Arbitrary metadata of clients.
    pub metadata: Map<String, Value>,
    /// Retention of traces in days; 0 for unlimited.
    pub retention_days: u32,
}

/// Changes of a project; absent fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectPatch {
    /// New name.
    pub name: Option<String>,
    /// New metadata, which replaces all of it.
    pub metadata: Option<Map<String, Value>>,
    /// New retention of traces in days; 0 for unlimited.
    pub retention_days: Option<u32>,
}

/// Kind of the object in the audit trail.
const AUDITED: &str = "project";
const NAME_TAKEN: Error = Error::Conflict("the organization has a project of this name");
const FULL: Error = Error::Conflict("the organization has 1000 projects; delete one first");

const NAME: &str = "SELECT name FROM organizations WHERE id = $1";
const LIST: &str = select_projects!("p.organization_id = $1 ORDER BY p.created_at, p.id");
const GET: &str = select_projects!("p.organization_id = $1 AND p.id = $2");
const ORGANIZATIONS: &str = "SELECT id, name FROM organizations ORDER BY created_at, id LIMIT $1";
const COUNT: &str = "
    SELECT COUNT(*), COUNT(CASE WHEN name = $2 AND id <> $3 THEN 1 END)
      FROM projects WHERE organization_id = $1 AND deleted_at IS NULL";
const INSERT: &str = "
    INSERT INTO projects (organization_id, id, name, metadata, retention_days, created_at, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $6)";
const UPDATE: &str = "
    UPDATE projects
       SET name = COALESCE($3, name), metadata = COALESCE($4, metadata),
           retention_days = COALESCE($5, retention_days), updated_at = $6
     WHERE organization_id = $1 AND id = $2 AND deleted_at IS NULL";
const DELETE: &str = "
    UPDATE projects SET deleted_at = $3
     WHERE organization_id = $1 AND id = $2 AND deleted_at IS NULL";
const DELETE_KEYS: &str = "DELETE FROM api_keys WHERE project_id = $1";
const DELETE_MEMBERS: &str = "DELETE FROM project_members WHERE project_id = $1";
const STOP_RULES: &str = "UPDATE rules SET enabled = 0 WHERE project_id = $1 AND enabled = 1";

/// Locks the organization, so that names and counts are stable until the commit, and counts its projects:
/// all, and those other than `id` with this name.
async fn lock_and_count(
    tx: &mut Tx,
    organization: &OrganizationId,
    name: Option<&str>,
    id: &ProjectId,
) -> Result<(i64, i64), Error> {
    let n_locked = query(LOCK_ORGANIZATION).bind(organization.as_str()).execute(tx).await?;
    if n_locked == 0 {
        return Err(Error::NotFound);
    }
    query(COUNT).bind(organization.as_str()).bind(name).bind(id.as_str()).fetch_one(tx).await
}

impl Catalog {
    /// The oldest organizations of the installation. Crosses tenants: for its operator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organizations(&self, limit: u32) -> Result<Vec<Organization>, Error> {
        let rows: Vec<(String, String)> =
            self.pool.select(ORGANIZATIONS, &[i64::from(limit).into()]).await?;
        let organization = |(id, name): (String, String)| {
            let id = checked("organization", &id)?;
            Ok(Organization { id, name })
        };
        rows.into_iter().map(organization).collect()
    }

    /// The name of an organization.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organization_name(&self, id: &OrganizationId) -> Result<Option<String>, Error> {
        let rows: Vec<(String,)> = self.pool.select(NAME, &[id.as_str().into()]).await?;
        Ok(rows.into_iter().next().map(|(name,)| name))
    }

    /// The projects of an organization, oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organization_projects(
        &self,
        organization: &OrganizationId,
    ) -> Result<Vec<Project>, Error> {
        let rows: Vec<ProjectRow> = self.pool.select(LIST, &[organization.as_str().into()]).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// A project of this organization.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn organization_project(
        &self,
        organization: &OrganizationId,
        project: &ProjectId,
    ) -> Result<Option<Project>, Error> {
        let args: [Arg<'_>; 2] = [organization.as_str().into(), project.as_str().into()];
        let rows: Vec<ProjectRow> = self.pool.select(GET, &args).await?;
        rows.into_iter().next().map(TryInto::try_into).transpose()
    }

    /// Creates a project.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the organization has a project with this name, or [`MAX_PROJECTS`];
    /// [`Error::NotFound`] if the organization does not exist.
    pub async fn create_project(
        &self,
        organization: &OrganizationId,
        project: &NewProject,
        now: Timestamp,
    ) -> Result<(), Error> {
        let metadata = to_json("project", &project.metadata)?;
        in_transaction!(&self.pool, |tx| {
            let (n_all, n_named) =
                lock_and_count(&mut tx, organization, Some(project.name.as_str()), &project.id)
                    .await?;
            if 0 < n_named {
                return Err(NAME_TAKEN);
            }
            if i64::from(MAX_PROJECTS) <= n_all {
                return Err(FULL);
            }
            query(INSERT)
                .bind(organization.as_str())
                .bind(project.id.as_str())
                .bind(&project.name)
                .bind(&metadata)
                .bind(i64::from(project.retention_days))
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            let after = json!({ "name": project.name, "retentionDays": project.retention_days });
            audit::note(AUDITED, project.id.as_str(), None, Some(after));
        });
        Ok(())
    }

    /// Applies a patch and returns the new project.
    ///
    /// # Errors
    /// [`Error::NotFound`] if the organization has no such project, [`Error::Conflict`] if another one has
    /// the new name.
    pub async fn update_project(
        &self,
        organization: &OrganizationId,
        project: &ProjectId,
        patch: &ProjectPatch,
        now: Timestamp,
    ) -> Result<Project, Error> {
        let metadata = patch.metadata.as_ref();
        let metadata = metadata.map(|all| to_json("project", all)).transpose()?;
        let before = self.organization_project(organization, project).await?;
        in_transaction!(&self.pool, |tx| {
            let (_, n_named) =
                lock_and_count(&mut tx, organization, patch.name.as_deref(), project).await?;
            if 0 < n_named {
                return Err(NAME_TAKEN);
            }
            let n_changed = query(UPDATE)
                .bind(organization.as_str())
                .bind(project.as_str())
                .bind(patch.name.as_deref())
                .bind(metadata.as_deref())
                .bind(patch.retention_days.map(i64::from))
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_changed == 0 {
                return Err(Error::NotFound);
            }
            if let Some(mut after) = before.clone() {
                after.name = patch.name.clone().unwrap_or(after.name);
                after.metadata = patch.metadata.clone().unwrap_or(after.metadata);
                after.retention_days = patch.retention_days.unwrap_or(after.retention_days);
                let before = before.as_ref().map(audit::objects::project);
                let after = audit::objects::project(&after);
                audit::note(AUDITED, project.as_str(), before, Some(after));
            }
        });
        let found = self.organization_project(organization, project).await?;
        found.ok_or(Error::NotFound)
    }

    /// Deletes a project: its keys and rules stop with the commit, and it is no longer found. Its rows are
    /// deleted by the sweep.
    ///
    /// # Errors
    /// [`Error::NotFound`] when the organization has no such project.
    pub async fn delete_project(
        &self,
        organization: &OrganizationId,
        project: &ProjectId,
        now: Timestamp,
    ) -> Result<(), Error> {
        let before = self.organization_project(organization, project).await?;
        in_transaction!(&self.pool, |tx| {
            query(RAISE).execute(&mut tx).await?;
            let n_deleted = query(DELETE)
                .bind(organization.as_str())
                .bind(project.as_str())
                .bind(now.as_micros())
                .execute(&mut tx)
                .await?;
            if n_deleted == 0 {
                return Err(Error::NotFound);
            }
            for sql in [DELETE_KEYS, DELETE_MEMBERS, STOP_RULES] {
                query(sql).bind(project.as_str()).execute(&mut tx).await?;
            }
            let before = before.as_ref().map(audit::objects::project);
            audit::note(AUDITED, project.as_str(), before, None);
        });
        Ok(())
    }
}
