//! What is left of deleted projects in this room, and what is past the retention of its project.
//!
//! Invariants:
//! - **In steps.** No transaction takes more than some hundred rows or [`TRACES`] traces, so that writers wait for
//!   a step and not for a project.
//! - **Killed anywhere, done once.** A step finds its work in the tables; whoever goes on, and however many do it at
//!   once, nothing is taken that was to stay.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::time::Timestamp;

use super::Telemetry;
use crate::Error;
use perpend_db::{Arg, Owned, checked};

/// Scores of one transaction.
const CHUNK: u32 = 500;
/// Traces of one transaction.
const TRACES: u32 = 20;

/// A table whose rows name the number of their project.
const fn of_tenant(table: &'static str, key: &'static str) -> Owned {
    Owned { table, owner: "tenant", key }
}

/// Every table of this room with rows of projects. Traces go before all of them, with what only they lead to.
const TABLES: &[Owned] = &[
    Owned::of_project("touched", "seq"),
    of_tenant("trace_marks", "tenant, mark, started_at, trace"),
    of_tenant("traces", "number"),
    of_tenant("trace_counts", "tenant, environment"),
    of_tenant("observations", "seq"),
    of_tenant("events", "seq"),
    of_tenant("span_logs", "seq"),
    of_tenant("media_links", "tenant, trace_id, observation_id, field, media_id"),
    of_tenant("media", "tenant, sha256"),
    of_tenant("observation_rollups", "tenant, hour, environment, kind, model, level"),
    Owned::of_project("scores", "project_id, id"),
    Owned::of_project("superseded_scores", "project_id, id"),
    Owned::of_project("media_item_links", "project_id, dataset_id, item_id, field, media_id"),
    Owned::of_project("media_uploads", "project_id, id"),
    Owned::of_project("dataset_run_items", "project_id, run_id, id"),
    Owned::of_project("dataset_run_deletions", "project_id, run_id"),
    Owned::of_project("dataset_runs", "project_id, id"),
];

const ANY_TRACES: &str =
    "SELECT trace_id FROM traces WHERE tenant = $1 ORDER BY started_at LIMIT $2";
const OLD_TRACES: &str = "
    SELECT trace_id FROM traces WHERE tenant = $1 AND started_at < $3 ORDER BY started_at LIMIT $2";
/// Scores of sessions and experiments; those of traces go with their trace.
const OLD_SCORES: &str = "
    DELETE FROM scores WHERE (project_id, id) IN
        (SELECT project_id, id FROM scores
          WHERE project_id = $1 AND timestamp < $2 AND trace_id IS NULL LIMIT $3)";
/// The same for those that another execution took the place of.
const OLD_SUPERSEDED: &str = "
    DELETE FROM superseded_scores WHERE (project_id, id) IN
        (SELECT project_id, id FROM superseded_scores
          WHERE project_id = $1 AND session_id IS NOT NULL AND timestamp < $2 LIMIT $3)";
/// The age stands outside too: where somebody made the row young while this waited for it, PostgreSQL looks at
/// that again, and not at links that it did not see.
///
/// That they were uploaded: whoever announces the same bytes again is asked for them again. Before the bytes
/// themselves, so that none are believed to be there that are gone.
const OLD_UPLOADS: &str = "
    DELETE FROM media_uploads WHERE created_at < $2 AND (project_id, id) IN
        (SELECT u.project_id, u.id FROM media_uploads u
          WHERE u.project_id = $4 AND u.uploaded_at IS NOT NULL AND u.created_at < $2
            AND NOT EXISTS (SELECT 1 FROM media_links l WHERE l.tenant = $1 AND l.media_id = u.id)
            AND NOT EXISTS (SELECT 1 FROM media_item_links i
                             WHERE i.project_id = u.project_id AND i.media_id = u.id)
          LIMIT $3)";
/// Media that stand in no trace and no item any more.
const OLD_MEDIA: &str = "
    DELETE FROM media WHERE created_at < $2 AND (tenant, sha256) IN
        (SELECT m.tenant, m.sha256 FROM media m
          WHERE m.tenant = $1 AND m.created_at < $2
            AND NOT EXISTS (SELECT 1 FROM media_links l WHERE l.tenant = m.tenant AND l.media_id = m.id)
            AND NOT EXISTS (SELECT 1 FROM media_item_links i
                             WHERE i.project_id = $4 AND i.media_id = m.id)
          LIMIT $3)";

impl Telemetry {
    /// Deletes traces of a project, chunk after chunk, until the statement finds none; how many.
    async fn delete_found(
        &self,
        project: &ProjectId,
        sql: &str,
        before: Option<Timestamp>,
    ) -> Result<u64, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(0);
        };
        let mut n_deleted = 0;
        loop {
            let mut args: Vec<Arg<'_>> = vec![tenant.into(), i64::from(TRACES).into()];
            args.extend(before.map(|before| Arg::from(before.as_micros())));
            let found: Vec<(String,)> = self.pool.select(sql, &args).await?;
            if found.is_empty() {
                return Ok(n_deleted);
            }
            let ids = found.iter().map(|(id,)| checked("trace", id));
            let ids = ids.collect::<Result<Vec<TraceId>, _>>()?;
            self.delete_traces(project, &ids).await?;
            n_deleted += ids.len() as u64;
        }
    }

    /// Deletes what a project kept and no longer keeps; how many traces that were.
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

    /// Deletes every row that this room has of a project; how many were found. The number of the project stays:
    /// nodes remember it, and what one still writes under it must be found again.
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

    /// Names of the tables that a deleted project is taken out of.
    pub fn tables_swept() -> impl Iterator<Item = &'static str> {
        TABLES.iter().map(|owned| owned.table)
    }
}
