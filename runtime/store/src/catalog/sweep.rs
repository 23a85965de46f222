//! What time takes away: the data of deleted projects, and traces past the retention of their project.
//!
//! Invariants:
//! - **In steps.** No transaction takes more than [`CHUNK`] rows or [`TRACES`] traces, so that writers wait
//!   for a step and not for a project.
//! - **Killed anywhere, done once.** A step finds its work in the tables; whoever goes on, and however
//!   many do it at once, nothing is taken that was to stay.
//! - **Nothing is left behind.** A project's own row goes last, when a pass that began [`LINGER_MS`] after
//!   the deletion found nothing: what was under way as its keys were taken is over by then.

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::plugin::Digest;
use perpend_domain::time::Timestamp;

use crate::{Error, Store};
use perpend_sql::Arg;
use perpend_sql::{checked, digest};

/// Rows of one transaction.
const CHUNK: u32 = 500;
/// Traces of one transaction.
const TRACES: u32 = 20;
/// Longer than a key is remembered and than a request takes.
const LINGER_MS: i64 = 120_000;
const DAY_MS: i64 = 86_400_000;

/// A table with rows of projects.
struct Table {
    name: &'static str,
    /// The column that says whose a row is.
    owner: Owner,
    /// Columns that name a row.
    key: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// `project_id`
    Project,
    /// `tenant`: the number of the project.
    Tenant,
}

const fn of_project(name: &'static str, key: &'static str) -> Table {
    Table {
        name,
        owner: Owner::Project,
        key,
    }
}

const fn of_tenant(name: &'static str, key: &'static str) -> Table {
    Table {
        name,
        owner: Owner::Tenant,
        key,
    }
}

/// Every table with rows of projects, what refers to others first. Traces go before all of them, with what
/// only they lead to.
const TABLES: &[Table] = &[
    of_project("touched", "seq"),
    of_project("watches", "project_id, trace_id, observation_id"),
    of_project("assignments", "project_id, rule_id, place"),
    of_project("rules", "project_id, id"),
    of_project("executions", "seq"),
    of_project("execution_queues", "id"),
    of_project("rule_counts", "project_id, rule_id, hour, reason"),
    of_project("rule_failures", "project_id, rule_id"),
    of_project("evaluator_versions", "project_id, evaluator_id, number"),
    of_project("evaluators", "project_id, id"),
    of_tenant("trace_marks", "tenant, mark, started_at, trace"),
    of_tenant("traces", "number"),
    of_tenant("observations", "seq"),
    of_tenant("events", "seq"),
    of_tenant("span_logs", "seq"),
    of_tenant(
        "media_links",
        "tenant, trace_id, observation_id, field, media_id",
    ),
    of_tenant("media", "tenant, sha256"),
    of_tenant(
        "observation_rollups",
        "tenant, hour, environment, kind, model, level",
    ),
    of_project("scores", "project_id, id"),
    of_project("superseded_scores", "project_id, id"),
    of_project(
        "media_item_links",
        "project_id, dataset_id, item_id, field, media_id",
    ),
    of_project("media_uploads", "project_id, id"),
    of_project("dataset_run_items", "project_id, run_id, id"),
    of_project("dataset_run_deletions", "project_id, run_id"),
    of_project("dataset_runs", "project_id, id"),
    of_project("dataset_items", "project_id, id, valid_from"),
    of_project("dataset_versions", "project_id, dataset_id, valid_from"),
    of_project("datasets", "project_id, id"),
    of_project(
        "prompt_references",
        "project_id, name, version, included_name",
    ),
    of_project("prompt_labels", "project_id, name, label"),
    of_project("prompt_protected_labels", "project_id, label"),
    of_project("prompt_versions", "project_id, name, version"),
    of_project("prompts", "project_id, name"),
    of_project("comments", "project_id, id"),
    of_project("annotation_assignments", "project_id, queue_id, user_id"),
    of_project("annotation_queue_items", "project_id, queue_id, id"),
    of_project("annotation_queues", "project_id, id"),
    of_project("dashboard_placements", "project_id, dashboard_id, id"),
    of_project("dashboards", "project_id, id"),
    of_project("dashboard_widgets", "project_id, id"),
    of_project("skill_labels", "project_id, name, label"),
    of_project("skill_versions", "project_id, name, version"),
    of_project("skills", "project_id, name"),
    of_project("skill_contents", "project_id, sha256"),
    of_project("score_configs", "project_id, id"),
    of_project("models", "project_id, id"),
    of_project("llm_connections", "project_id, id"),
    of_project("blob_exports", "project_id"),
    of_project("project_members", "project_id, user_id"),
    of_project("api_keys", "public_key"),
];

impl Table {
    /// Deletes up to [`CHUNK`] rows of the owner `$1`.
    fn delete(&self) -> String {
        let (name, key) = (self.name, self.key);
        let owner = match self.owner {
            Owner::Project => "project_id",
            Owner::Tenant => "tenant",
        };
        format!(
            "DELETE FROM {name} WHERE ({key}) IN \
             (SELECT {key} FROM {name} WHERE {owner} = $1 LIMIT {CHUNK})"
        )
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Traces past the retention of their project.
    pub n_expired: u64,
    /// Deleted projects of which nothing is left.
    pub n_gone: u64,
    /// Deleted projects that another sweep has to look at, `LINGER_MS` after their deletion.
    pub n_lingering: u64,
}

const DELETED: &str = "SELECT id, deleted_at FROM projects WHERE deleted_at IS NOT NULL ORDER BY deleted_at, id LIMIT 100";
const RETAINING: &str = "
    SELECT id, retention_days FROM projects WHERE 0 < retention_days AND deleted_at IS NULL ORDER BY id";
const ANY_TRACES: &str =
    "SELECT trace_id FROM traces WHERE tenant = $1 ORDER BY started_at LIMIT $2";
const OLD_TRACES: &str = "
    SELECT trace_id FROM traces WHERE tenant = $1 AND started_at < $3 ORDER BY started_at LIMIT $2";
/// Scores of sessions and experiments; those of traces go with their trace.
const OLD_SCORES: &str = "
    DELETE FROM scores WHERE (project_id, id) IN
        (SELECT project_id, id FROM scores
          WHERE project_id = $1 AND timestamp < $2 AND trace_id IS NULL LIMIT $3)";
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
const ATTEMPTS: &str = "
    DELETE FROM attempts WHERE seq IN
        (SELECT a.seq FROM executions e JOIN attempts a ON a.execution_seq = e.seq
          WHERE e.project_id = $1 LIMIT $2)";
const PLUGINS: &str = "SELECT digest FROM plugins WHERE owner = $1 ORDER BY digest LIMIT 100";
const FORGET: &str = "DELETE FROM projects WHERE id = $1 AND deleted_at IS NOT NULL";

impl Store {
    /// Deletes what is due at `now`: all there is of deleted projects, and of the others what is older than
    /// they keep. Crosses tenants: for the server, which asks again and again. It may be dropped at any
    /// point; the next one goes on.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sweep(&self, now: Timestamp) -> Result<Swept, Error> {
        let mut swept = Swept::default();
        let deleted: Vec<(String, i64)> = self.pool.select(DELETED, &[]).await?;
        for (id, deleted_at) in deleted {
            let project: ProjectId = checked("project", &id)?;
            // What one project has must not keep the others from being swept.
            let n_found = self.empty(&project).await.unwrap_or_else(|error| {
                let error: &dyn std::error::Error = &error;
                tracing::error!(error, %project, "a deleted project could not be emptied");
                1
            });
            let is_over = Timestamp::from_micros(deleted_at).plus_millis(LINGER_MS) <= now;
            if is_over && n_found == 0 {
                self.pool.change(FORGET, &[id.as_str().into()]).await?;
                swept.n_gone += 1;
            } else {
                swept.n_lingering += 1;
            }
        }
        let retaining: Vec<(String, i64)> = self.pool.select(RETAINING, &[]).await?;
        for (id, days) in retaining {
            let before = now.plus_millis(days.saturating_mul(-DAY_MS));
            match self.expire(&checked("project", &id)?, before).await {
                Ok(n) => swept.n_expired += n,
                Err(error) => {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(
                        error,
                        project = id,
                        "what is past its retention stays for now"
                    );
                }
            }
        }
        Ok(swept)
    }

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

    /// Repeats a deletion of up to so many rows until it finds none; how many rows went.
    async fn repeat(&self, sql: &str, args: &[Arg<'_>]) -> Result<u64, Error> {
        let mut n_deleted = 0;
        loop {
            match self.pool.change(sql, args).await? {
                0 => return Ok(n_deleted),
                n => n_deleted += n,
            }
        }
    }

    /// Deletes what a project kept and no longer keeps; how many traces that were.
    pub(crate) async fn expire(
        &self,
        project: &ProjectId,
        before: Timestamp,
    ) -> Result<u64, Error> {
        let n_traces = self.delete_found(project, OLD_TRACES, Some(before)).await?;
        let before = before.as_micros();
        let args: [Arg<'_>; 3] = [
            project.as_str().into(),
            before.into(),
            i64::from(CHUNK).into(),
        ];
        self.repeat(OLD_SCORES, &args).await?;
        if let Some(tenant) = self.tenant(project).await? {
            let args: [Arg<'_>; 4] = [
                tenant.into(),
                before.into(),
                i64::from(TRACES).into(),
                project.as_str().into(),
            ];
            self.repeat(OLD_UPLOADS, &args).await?;
            self.repeat(OLD_MEDIA, &args).await?;
        }
        Ok(n_traces)
    }

    /// Deletes every row of a project but its own; how many were found. The number of the project stays:
    /// nodes remember it, and what one still writes under it must be found again.
    async fn empty(&self, project: &ProjectId) -> Result<u64, Error> {
        let chunk = i64::from(CHUNK);
        let mut n_found = self.delete_found(project, ANY_TRACES, None).await?;
        n_found += self
            .repeat(ATTEMPTS, &[project.as_str().into(), chunk.into()])
            .await?;
        let tenant = self.tenant(project).await?;
        for table in TABLES {
            let owner: Arg<'_> = match (table.owner, tenant) {
                (Owner::Project, _) => project.as_str().into(),
                (Owner::Tenant, Some(tenant)) => tenant.into(),
                (Owner::Tenant, None) => continue,
            };
            let n = self.repeat(&table.delete(), &[owner]).await?;
            if 0 < n && matches!(table.name, "rules" | "evaluators") {
                self.pool.change(super::active::RAISE, &[]).await?;
            }
            n_found += n;
        }
        for plugin in self.plugins_of(project).await? {
            match self.delete_plugin(project, &plugin).await {
                // Another node was faster.
                Err(Error::NotFound) => {}
                outcome => outcome?,
            }
            n_found += 1;
        }
        Ok(n_found)
    }

    async fn plugins_of(&self, project: &ProjectId) -> Result<Vec<Digest>, Error> {
        let rows: Vec<(Vec<u8>,)> = self
            .pool
            .select(PLUGINS, &[project.as_str().into()])
            .await?;
        rows.iter().map(|(raw,)| digest("plug-in", raw)).collect()
    }
}

/// Names of the tables that a deleted project is taken out of.
#[cfg(test)]
pub(super) fn tables_swept() -> impl Iterator<Item = &'static str> {
    TABLES.iter().map(|table| table.name)
}
