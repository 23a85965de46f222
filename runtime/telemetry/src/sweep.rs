//! Deletion of deleted projects and of expired traces.
//!
//! Invariants:
//! - **In steps.** No transaction deletes more than a few hundred rows or [`TRACES`] traces, so that writers
//!   wait for a step and not for a project.
//! - **Restartable.** A step finds its work in the tables. It can be continued by any process and by several
//!   at once, and nothing that is to be kept is deleted.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::time::Timestamp;

use super::Telemetry;
use crate::Error;
use perpend_db::{Arg, TenantTable, checked};

/// Scores per transaction.
const CHUNK: u32 = 500;
/// Traces per transaction.
const TRACES: u32 = 20;

/// A table whose rows have the number of their project.
const fn of_tenant(table: &'static str, key: &'static str) -> TenantTable {
    TenantTable { table, owner: "tenant", key }
}

/// Every table of this crate with rows of projects. Traces and the rows that only they reference are deleted
/// first.
const TABLES: &[TenantTable] = &[
    TenantTable::of_project("touched", "seq"),
    of_tenant("trace_marks", "tenant, mark, started_at, trace"),
    of_tenant("traces", "number"),
    of_tenant("trace_counts", "tenant, environment"),
    of_tenant("observations", "seq"),
    of_tenant("events", "seq"),
    of_tenant("span_logs", "seq"),
    of_tenant("media_links", "tenant, trace_id, observation_id, field, media_id"),
    of_tenant("media", "tenant, sha256"),
    of_tenant("observation_rollups", "tenant, hour, environment, kind, model, level"),
    TenantTable::of_project("scores", "project_id, id"),
    TenantTable::of_project("superseded_scores", "project_id, id"),
    TenantTable::of_project("media_item_links", "project_id, dataset_id, item_id, field, media_id"),
    TenantTable::of_project("media_uploads", "project_id, id"),
    TenantTable::of_project("dataset_run_items", "project_id, run_id, id"),
    TenantTable::of_project("dataset_run_deletions", "project_id, run_id"),
    TenantTable::of_project("dataset_runs", "project_id, id"),
    TenantTable::of_project("experiment_gates", "project_id, run_id, id"),
];

const ANY_TRACES: &str =
    "SELECT trace_id FROM traces WHERE tenant = $1 ORDER BY started_at LIMIT $2";
const OLD_TRACES: &str = "
    SELECT trace_id FROM traces WHERE tenant = $1 AND started_at < $3 ORDER BY started_at LIMIT $2";
/// Scores of sessions and experiments; those of traces are deleted with their trace.
const OLD_SCORES: &str = "
    DELETE FROM scores WHERE (project_id, id) IN
        (SELECT project_id, id FROM scores
          WHERE project_id = $1 AND timestamp < $2 AND trace_id IS NULL LIMIT $3)";
/// The same for superseded scores.
const OLD_SUPERSEDED: &str = "
    DELETE FROM superseded_scores WHERE (project_id, id) IN
        (SELECT project_id, id FROM superseded_scores
          WHERE project_id = $1 AND session_id IS NOT NULL AND timestamp < $2 LIMIT $3)";
/// The age is also tested in the outer statement: if another transaction updated the row while this one
/// waited for it, PostgreSQL tests that condition again, but not links that it did not see.
///
/// Deletes the record of the upload, so that the next client that announces the same bytes uploads them
/// again. It is deleted before the bytes, so that no deleted bytes are believed to exist.
const OLD_UPLOADS: &str = "
    DELETE FROM media_uploads WHERE created_at < $2 AND (project_id, id) IN
        (SELECT u.project_id, u.id FROM media_uploads u
          WHERE u.project_id = $4 AND u.uploaded_at IS NOT NULL AND u.created_at < $2
            AND NOT EXISTS (SELECT 1 FROM media_links l WHERE l.tenant = $1 AND l.media_id = u.id)
            AND NOT EXISTS (SELECT 1 FROM media_item_links i
                             WHERE i.project_id = u.project_id AND i.media_id = u.id)
          LIMIT $3)";
/// Media that are used in no trace and no item.
const OLD_MEDIA: &str = "
    DELETE FROM media WHERE created_at < $2 AND (tenant, sha256) IN
        (SELECT m.tenant, m.sha256 FROM media m
          WHERE m.tenant = $1 AND m.created_at < $2
            AND NOT EXISTS (SELECT 1 FROM media_links l WHERE l.tenant = m.tenant AND l.media_id = m.id)
            AND NOT EXISTS (SELECT 1 FROM media_item_links i
                             WHERE i.project_id = $4 AND i.media_id = m.id)
          LIMIT $3)";

impl Telemetry {
    /// The traces that a statement finds, at most [`TRACES`].
    async fn found(
        &self,
        project: &ProjectId,
        sql: &str,
        before: Option<Timestamp>,
    ) -> Result<Vec<TraceId>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut args: Vec<Arg<'_>> = vec![tenant.into(), i64::from(TRACES).into()];
        args.extend(before.map(|before| Arg::from(before.as_micros())));
        let found: Vec<(String,)> = self.pool.select(sql, &args).await?;
        found.iter().map(|(id,)| checked("trace", id)).collect()
    }

    /// Deletes traces of a project in chunks until the statement finds none. Returns their number.
    async fn delete_found(
        &self,
        project: &ProjectId,
        sql: &str,
        before: Option<Timestamp>,
    ) -> Result<u64, Error> {
        let mut n_deleted = 0;
        loop {
            let ids = self.found(project, sql, before).await?;
            if ids.is_empty() {
                return Ok(n_deleted);
            }
            self.delete_traces(project, &ids).await?;
            n_deleted += ids.len() as u64;
        }
    }

    /// Traces that started before a time, oldest first: as many as one step deletes.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expired_traces(
        &self,
        project: &ProjectId,
        before: Timestamp,
    ) -> Result<Vec<TraceId>, Error> {
        self.found(project, OLD_TRACES, Some(before)).await
    }

    /// Deletes data of a project beyond its retention. Returns the number of traces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn expire(&self, project: &ProjectId, before: Timestamp) -> Result<u64, Error> {
        let n_traces = self.delete_found(project, OLD_TRACES, Some(before)).await?;
        let before = before.as_micros();
        let args: [Arg<'_>; 3] = [project.as_str().into(), before.into(), i64::from(CHUNK).into()];
        self.pool.repeat(OLD_SCORES, &args).await?;
        self.pool.repeat(OLD_SUPERSEDED, &args).await?;
        if let Some(tenant) = self.tenant(project).await? {
            let args: [Arg<'_>; 4] =
                [tenant.into(), before.into(), i64::from(TRACES).into(), project.as_str().into()];
            self.pool.repeat(OLD_UPLOADS, &args).await?;
            self.pool.repeat(OLD_MEDIA, &args).await?;
        }
        Ok(n_traces)
    }

    /// Deletes every row of a project in this crate. Returns the number of rows. The number of the project
    /// stays: nodes cache it, and rows that one of them still writes under it must be found again.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn empty(&self, project: &ProjectId) -> Result<u64, Error> {
        let mut n_found = self.delete_found(project, ANY_TRACES, None).await?;
        let tenant = self.tenant(project).await?;
        for table in TABLES {
            let owner: Arg<'_> = match (table.owner, tenant) {
                ("tenant", Some(tenant)) => tenant.into(),
                ("tenant", None) => continue,
                _ => project.as_str().into(),
            };
            n_found += self.pool.empty(table, owner).await?;
        }
        Ok(n_found)
    }

    /// Names of the tables from which a deleted project is removed.
    pub fn tables_swept() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|tenant_table| tenant_table.table)
    }
}
