//! Deletion of the rows of deleted projects, and projects with a retention.

use perpend_domain::ids::ProjectId;
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;

use super::Catalog;
use crate::Error;
use perpend_db::{TenantTable, checked, digest};

/// Every table of this crate with rows of projects; referencing tables first.
const TABLES: &[TenantTable] = &[
    TenantTable::of_project("assignments", "project_id, rule_id, place"),
    TenantTable::of_project("rule_changes", "project_id, rule_id, place"),
    TenantTable::of_project("rules", "project_id, id"),
    TenantTable::of_project("evaluator_checks", "project_id, evaluator_id, number"),
    TenantTable::of_project("evaluator_versions", "project_id, evaluator_id, number"),
    TenantTable::of_project("evaluators", "project_id, id"),
    TenantTable::of_project("dataset_import_rejects", "project_id, import_id, place"),
    TenantTable::of_project("dataset_imports", "project_id, id"),
    TenantTable::of_project("dataset_items", "project_id, id, valid_from"),
    TenantTable::of_project("dataset_versions", "project_id, dataset_id, valid_from"),
    TenantTable::of_project("datasets", "project_id, id"),
    TenantTable::of_project("prompt_references", "project_id, name, version, included_name"),
    TenantTable::of_project("prompt_labels", "project_id, name, label"),
    TenantTable::of_project("prompt_protected_labels", "project_id, label"),
    TenantTable::of_project("prompt_versions", "project_id, name, version"),
    TenantTable::of_project("prompts", "project_id, name"),
    TenantTable::of_project("comments", "project_id, id"),
    TenantTable::of_project("annotation_assignments", "project_id, queue_id, user_id"),
    TenantTable::of_project("annotation_queue_items", "project_id, queue_id, id"),
    TenantTable::of_project("annotation_queues", "project_id, id"),
    TenantTable::of_project("dashboard_placements", "project_id, dashboard_id, id"),
    TenantTable::of_project("dashboards", "project_id, id"),
    TenantTable::of_project("dashboard_widgets", "project_id, id"),
    TenantTable::of_project("skill_labels", "project_id, name, label"),
    TenantTable::of_project("skill_versions", "project_id, name, version"),
    TenantTable::of_project("skills", "project_id, name"),
    TenantTable::of_project("skill_contents", "project_id, sha256"),
    TenantTable::of_project("score_configs", "project_id, id"),
    TenantTable::of_project("models", "project_id, id"),
    TenantTable::of_project("llm_connections", "project_id, id"),
    TenantTable::of_project("default_models", "project_id"),
    TenantTable::of_project("endpoint_secrets", "project_id, id"),
    TenantTable::of_project("budgets", "project_id, scope, scope_id"),
    TenantTable::of_project("blob_exports", "project_id"),
    TenantTable::of_project("project_members", "project_id, user_id"),
    TenantTable::of_project("browser_sessions", "digest"),
    TenantTable::of_project("api_keys", "public_key"),
];

/// A deleted project with remaining rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedProject {
    /// Id of the project.
    pub project: ProjectId,
    /// Time of the deletion.
    pub at: Timestamp,
}

const DELETED: &str = "SELECT id, deleted_at FROM projects WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT 100";
const RETAINING: &str = "
    SELECT id, retention_days FROM projects WHERE 0 < retention_days AND deleted_at IS NULL ORDER BY id";
const PLUGINS: &str = "SELECT digest FROM plugins WHERE owner = $1 ORDER BY digest LIMIT 100";
const FORGET: &str = "DELETE FROM projects WHERE id = $1 AND deleted_at IS NOT NULL";

impl Catalog {
    /// Deleted projects, in the order of their deletion, at most a hundred. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn deleted_projects(&self) -> Result<Vec<DeletedProject>, Error> {
        let rows: Vec<(String, i64)> = self.pool.select(DELETED, &[]).await?;
        let deleted = rows.into_iter().map(|(id, at)| {
            Ok(DeletedProject { project: checked("project", &id)?, at: Timestamp::from_micros(at) })
        });
        deleted.collect()
    }

    /// Projects with a retention, in days. Crosses tenants: for the server.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn retaining_projects(&self) -> Result<Vec<(ProjectId, i64)>, Error> {
        let rows: Vec<(String, i64)> = self.pool.select(RETAINING, &[]).await?;
        let retaining = rows.into_iter();
        retaining.map(|(id, days)| Ok((checked("project", &id)?, days))).collect()
    }

    /// Deletes all rows of a project in this crate except its own row. Returns the number of rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn empty(&self, project: &ProjectId) -> Result<u64, Error> {
        let mut n_found = 0;
        for table in TABLES {
            let n = self.pool.empty(table, project.as_str().into()).await?;
            if 0 < n && matches!(table.table, "rules" | "evaluators") {
                self.pool.change(super::revision::RAISE, &[]).await?;
            }
            n_found += n;
        }
        for plugin in self.plugins_of(project).await? {
            match self.delete_plugin(project, &plugin).await {
                // Another node has deleted it.
                Err(Error::NotFound) => {}
                outcome => outcome?,
            }
            n_found += 1;
        }
        Ok(n_found)
    }

    /// Deletes the row of a deleted project after all its other rows.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn delete_project_row(&self, project: &ProjectId) -> Result<(), Error> {
        self.pool.change(FORGET, &[project.as_str().into()]).await?;
        Ok(())
    }

    async fn plugins_of(&self, project: &ProjectId) -> Result<Vec<Digest>, Error> {
        let rows: Vec<(Vec<u8>,)> = self.pool.select(PLUGINS, &[project.as_str().into()]).await?;
        rows.iter().map(|(raw,)| digest("plug-in", raw)).collect()
    }

    /// Names of the tables from which a deleted project is removed.
    pub fn tables_swept() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|tenant_table| tenant_table.table)
    }
}
