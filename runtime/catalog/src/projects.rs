//! Organizations and projects, and their creation at the first start.

use perpend_domain::ids::{OrganizationId, ProjectId};
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value};

use super::keys::{claim_public_key, insert_key};
use super::{KeyOwner, NewApiKey};
use crate::{Catalog, Error};
use perpend_db::in_transaction;
use perpend_db::{Arg, checked, from_json, value_list};
use perpend_db::{query, query_scalar};

/// The owner of projects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organization {
    /// Its id.
    pub id: OrganizationId,
    /// Its name.
    pub name: String,
}

/// A tenant.
#[derive(Clone, Debug, PartialEq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// Its owner.
    pub organization: Organization,
    /// Arbitrary metadata of clients.
    pub metadata: Map<String, Value>,
    /// Retention of traces in days; 0 for unlimited.
    pub retention_days: u32,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Initial objects of an installation. The ids are used only for objects that do not exist.
#[derive(Clone, Debug)]
pub struct Init {
    /// Id of the organization.
    pub organization_id: OrganizationId,
    /// Name of the organization.
    pub organization_name: String,
    /// Id of the project.
    pub project_id: ProjectId,
    /// Name of the project.
    pub project_name: String,
    /// Key of the project.
    pub key: NewApiKey,
}

perpend_db::record! {
    pub(super) struct ProjectRow {
        id: String,
        name: String,
        metadata: String,
        retention_days: i64,
        created_at: i64,
        updated_at: i64,
        organization_id: String,
        organization_name: String,
    }
}

impl TryFrom<ProjectRow> for Project {
    type Error = Error;

    fn try_from(row: ProjectRow) -> Result<Self, Error> {
        Ok(Self {
            id: checked("project", &row.id)?,
            name: row.name,
            organization: Organization {
                id: checked("project", &row.organization_id)?,
                name: row.organization_name,
            },
            metadata: from_json("project", &row.metadata)?,
            retention_days: u32::try_from(row.retention_days).unwrap_or(0),
            created_at: Timestamp::from_micros(row.created_at),
            updated_at: Timestamp::from_micros(row.updated_at),
        })
    }
}

/// Projects that are not deleted, with their organizations.
macro_rules! select_projects {
    ($rest:literal) => {
        concat!(
            "SELECT p.id, p.name, p.metadata, p.retention_days, p.created_at, p.updated_at,
                    o.id AS organization_id, o.name AS organization_name
               FROM projects p JOIN organizations o ON o.id = p.organization_id
              WHERE p.deleted_at IS NULL AND ",
            $rest
        )
    };
}
pub(super) use select_projects;

const GET: &str = select_projects!("p.id = $1");
const ANY: &str = "
    SELECT id FROM projects WHERE deleted_at IS NULL ORDER BY created_at, id LIMIT 1";
const ANY_TWO: &str = "SELECT id FROM projects WHERE deleted_at IS NULL LIMIT 2";
const FIND_ORGANIZATION: &str = "
    SELECT id FROM organizations WHERE name = $1 ORDER BY created_at, id LIMIT 1";
const FIND: &str = "
    SELECT id FROM projects
     WHERE organization_id = $1 AND name = $2 AND deleted_at IS NULL ORDER BY created_at, id LIMIT 1";
const INSERT_ORGANIZATION: &str = "
    INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, $3)";
const INSERT: &str = "
    INSERT INTO projects (id, organization_id, name, metadata, created_at, updated_at)
    VALUES ($1, $2, $3, '{}', $4, $4)";

impl Catalog {
    /// The existing ones of these projects, with their organizations, in any order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn projects_named(&self, ids: &[ProjectId]) -> Result<Vec<Project>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let sql = format!("{}({})", select_projects!("p.id IN "), value_list(ids.len(), 1));
        let args: Vec<Arg<'_>> = ids.iter().map(|id| id.as_str().into()).collect();
        let rows = self.pool.select::<ProjectRow>(&sql, &args).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The project with its organization.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn project(&self, project: &ProjectId) -> Result<Option<Project>, Error> {
        let row: Option<ProjectRow> =
            query(GET).bind(project.as_str()).fetch_optional(&self.pool).await?;
        row.map(TryInto::try_into).transpose()
    }

    /// The oldest project of the installation, `None` if there is none. Crosses tenants: for the start of the
    /// server and its own pages.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn first_project(&self) -> Result<Option<Project>, Error> {
        let id: Option<String> = query_scalar(ANY).fetch_optional(&self.pool).await?;
        match id {
            Some(id) => self.project(&checked("project", &id)?).await,
            None => Ok(None),
        }
    }

    /// Whether the installation has exactly one project. Crosses tenants: for the pages of the operator.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn has_one_project(&self) -> Result<bool, Error> {
        let found: Vec<(String,)> = self.pool.select(ANY_TWO, &[]).await?;
        Ok(found.len() == 1)
    }

    /// Ensures that `init.key` gives access to the project with these names, and creates missing objects;
    /// idempotent. An existing public key keeps its secret and its project, which is returned: the caller
    /// compares the secret with [`Catalog::api_key`].
    ///
    /// # Errors
    /// [`Error::Conflict`] if the public key belongs to an organization, [`Error::NotFound`] if the pair with
    /// this public key was deleted; or when the database fails.
    pub async fn create_first_project(
        &self,
        init: &Init,
        now: Timestamp,
    ) -> Result<Project, Error> {
        if let Some(key) = self.api_key(&init.key.public_key).await? {
            return self.opened_by(&key.owner).await;
        }
        in_transaction!(&self.pool, |tx| {
            // The public key is claimed first: of several nodes that start at once, one succeeds, and the
            // others find its project after the commit.
            if claim_public_key(&mut tx, &init.key.public_key).await? {
                let organization: Option<String> = query_scalar(FIND_ORGANIZATION)
                    .bind(&init.organization_name)
                    .fetch_optional(&mut tx)
                    .await?;
                if organization.is_none() {
                    query(INSERT_ORGANIZATION)
                        .bind(init.organization_id.as_str())
                        .bind(&init.organization_name)
                        .bind(now.as_micros())
                        .execute(&mut tx)
                        .await?;
                }
                let organization = organization.as_deref().unwrap_or(init.organization_id.as_str());
                let project: Option<String> = query_scalar(FIND)
                    .bind(organization)
                    .bind(&init.project_name)
                    .fetch_optional(&mut tx)
                    .await?;
                if project.is_none() {
                    query(INSERT)
                        .bind(init.project_id.as_str())
                        .bind(organization)
                        .bind(&init.project_name)
                        .bind(now.as_micros())
                        .execute(&mut tx)
                        .await?;
                }
                let project = project.as_deref().unwrap_or(init.project_id.as_str());
                insert_key(Some(project), None, &init.key, now).execute(&mut tx).await?;
            }
        });
        let key = self.api_key(&init.key.public_key).await?;
        self.opened_by(&key.ok_or(Error::NotFound)?.owner).await
    }

    async fn opened_by(&self, owner: &KeyOwner) -> Result<Project, Error> {
        match owner {
            KeyOwner::Project(project) => self.project(project).await?.ok_or(Error::NotFound),
            KeyOwner::Organization(_) => {
                Err(Error::Conflict("the public key is that of an organization"))
            }
        }
    }
}
