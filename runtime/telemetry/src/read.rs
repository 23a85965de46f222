//! Reading traces and observations.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use perpend_domain::filter::{Condition, Filter, Row, SCORE_COLUMNS, SCORE_NAMES};
use perpend_domain::ids::{ObservationId, ProjectId, TraceId};
use perpend_domain::score::Score;
use perpend_domain::time::Timestamp;

use super::cells::CONTENT_COLUMNS;
use super::contents::StoredAt;
use super::rollup::Changes;
use super::row::{ObservationRow, OwnRow, READ, READ_OWN, READ_TRACE, TraceRow};
use crate::{Error, Telemetry};
use perpend_db::{Arg, Expr, Sql, Tx, despite_collisions, in_transaction, query, query_scalar};
use perpend_domain::telemetry::{StoredMedia, StoredObservation, StoredTrace};

/// Rows per statement.
pub(super) const LIST: usize = 200;

const LATENCY: &str = "(o.ended_at - o.started_at) / 1000000.0";
/// With the same arithmetic as in memory.
const OUTPUT_RATE: &str = "CAST(o.output_tokens AS DOUBLE PRECISION) \
    / NULLIF(CAST((o.ended_at - o.started_at) / 1000000.0 AS DOUBLE PRECISION), 0)";
const FIRST_TOKEN: &str = "(o.first_token_at - o.started_at) / 1000000.0";

/// Of a trace: the first member of its detail, so that no other member can match.
pub(crate) const BOOKMARKED: &str =
    "CASE WHEN t.detail LIKE '{\"bookmarked\":true%' THEN 1 ELSE 0 END";

pub(crate) fn trace_column(id: &str) -> Option<Expr> {
    Some(match id {
        "id" => Expr::Text("t.trace_id"),
        "name" => Expr::NullableText("t.name"),
        "timestamp" => Expr::Time("t.started_at"),
        "environment" => Expr::Text("t.environment"),
        "userId" => Expr::NullableText("t.user_id"),
        "sessionId" => Expr::NullableText("t.session_id"),
        "version" => Expr::NullableText("t.version"),
        "release" => Expr::NullableText("t.release"),
        "level" => Expr::Text("t.level"),
        "latency" => Expr::Seconds("t.latency_us"),
        "inputTokens" => Expr::Number("t.input_tokens"),
        "outputTokens" => Expr::Number("t.output_tokens"),
        "totalTokens" => Expr::Number("t.total_tokens"),
        "totalCost" => Expr::Number(
            "CASE WHEN t.n_priced = 0 AND 0 < t.n_unpriced THEN NULL ELSE t.total_cost END",
        ),
        "errorCount" => Expr::Number("t.n_error"),
        "warningCount" => Expr::Number("t.n_warning"),
        "defaultCount" => Expr::Number("t.n_default"),
        "debugCount" => Expr::Number("t.n_debug"),
        "observationCount" => Expr::Number("t.n_observations"),
        "bookmarked" => Expr::Bool(BOOKMARKED),
        "tags" | "kinds" | "models" | "prompts" | "metadata" => Expr::Present,
        "scores_avg" | "score_categories" | "score_booleans" | SCORE_NAMES => Expr::Present,
        _ => return None,
    })
}

pub(crate) fn observation_column(id: &str) -> Option<Expr> {
    Some(match id {
        "id" => Expr::Text("o.id"),
        "type" => Expr::Text("o.kind"),
        "name" => Expr::Text("o.name"),
        "traceId" => Expr::Text("t.trace_id"),
        "startTime" => Expr::Time("o.started_at"),
        "endTime" => Expr::Time("o.ended_at"),
        "environment" => Expr::Text("o.environment"),
        "level" => Expr::Text("o.level"),
        "statusMessage" => Expr::NullableText("o.status_message"),
        "version" => Expr::NullableText("o.version"),
        "release" => Expr::NullableText("COALESCE(NULLIF(o.release, ''), t.release)"),
        "userId" => Expr::NullableText("COALESCE(NULLIF(o.user_id, ''), t.user_id)"),
        "sessionId" => Expr::NullableText("COALESCE(NULLIF(o.session_id, ''), t.session_id)"),
        "isRootObservation" => Expr::Bool("o.is_root"),
        "parentObservationId" => Expr::NullableText("o.parent_id"),
        "traceName" => Expr::NullableText("t.name"),
        "latency" => Expr::Number(LATENCY),
        "timeToFirstToken" => Expr::Number(FIRST_TOKEN),
        "inputTokens" => Expr::Number("o.input_tokens"),
        "outputTokens" => Expr::Number("o.output_tokens"),
        "totalTokens" => Expr::Number("o.total_tokens"),
        "inputCost" => Expr::Number("o.input_cost"),
        "outputCost" => Expr::Number("o.output_cost"),
        "totalCost" => Expr::Number("o.total_cost"),
        "model" => Expr::NullableText("o.model"),
        "promptName" => Expr::NullableText("o.prompt_name"),
        "promptVersion" => Expr::Number("o.prompt_version"),
        "hasParentObservation" => Expr::Bool("CASE WHEN o.parent_id IS NULL THEN 0 ELSE 1 END"),
        "tokensPerSecond" => Expr::Number(OUTPUT_RATE),
        "tags" | "metadata" | "toolNames" | "calledToolNames" => Expr::Present,
        "scores_avg" | "score_categories" | "score_booleans" | SCORE_NAMES => Expr::Present,
        _ => return None,
    })
}

/// Conditions that are tested in memory.
#[derive(Debug, Default)]
pub(crate) struct MemoryConditions {
    filter: Filter,
}

impl MemoryConditions {
    pub(super) const fn new(conditions: Vec<Condition>) -> Self {
        Self { filter: Filter { conditions } }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filter.conditions.is_empty()
    }

    pub(super) fn conditions(&self) -> &[Condition] {
        &self.filter.conditions
    }

    /// The columns, each once.
    pub(super) fn columns(&self) -> Vec<&'static str> {
        let columns = self.conditions().iter().filter_map(|c| c.column);
        let mut names: Vec<&'static str> = columns.map(|column| column.id).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    pub(super) fn reads(&self, columns: &[&str]) -> bool {
        self.filter.reads(columns)
    }

    pub(super) fn reads_content(&self) -> bool {
        self.filter.reads(CONTENT_COLUMNS)
    }

    pub(super) fn reads_scores(&self) -> bool {
        self.filter.reads(&SCORE_COLUMNS)
    }

    pub(super) fn holds(&self, row: &dyn Row) -> bool {
        self.filter.matches(row)
    }
}

pub(crate) fn where_of(
    sql: &mut Sql,
    filter: &Filter,
    column: fn(&str) -> Option<Expr>,
    is_postgres: bool,
) -> MemoryConditions {
    let left =
        filter.conditions.iter().filter(|condition| !sql.condition(condition, column, is_postgres));
    MemoryConditions::new(left.cloned().collect())
}

/// A stored observation.
pub(super) async fn observation_row(
    tx: &mut Tx,
    tenant: i64,
    trace: &TraceId,
    id: &ObservationId,
) -> Result<Option<ObservationRow>, Error> {
    static FIND: OnceLock<String> = OnceLock::new();
    let sql: &'static str = FIND.get_or_init(|| {
        format!(
            "SELECT {READ} FROM traces t JOIN observations o ON o.trace = t.number \
             WHERE t.tenant = $1 AND t.trace_id = $2 AND o.id = $3"
        )
    });
    let args: [Arg<'_>; 3] = [tenant.into(), trace.as_str().into(), id.as_str().into()];
    query(sql).bind_all(&args).fetch_optional(tx).await
}

impl Telemetry {
    /// The number of a project, after its stale traces were folded; `None` if it never sent data.
    pub(crate) async fn folded_tenant(&self, project: &ProjectId) -> Result<Option<i64>, Error> {
        let tenant = self.tenant(project).await?;
        if let Some(tenant) = tenant {
            self.folder.of_tenant(tenant).await?;
        }
        Ok(tenant)
    }

    pub(crate) async fn count(&self, sql: &str, args: &[Arg<'static>]) -> Result<u64, Error> {
        let n: i64 = query_scalar(sql.to_owned()).bind_all(args).fetch_one(&self.pool).await?;
        Ok(n.unsigned_abs())
    }

    /// Rows as stored observations, with content if requested.
    pub(super) async fn stored(
        &self,
        rows: &[ObservationRow],
        with_content: bool,
    ) -> Result<Vec<StoredObservation>, Error> {
        let mut stored: Vec<StoredObservation> = Vec::with_capacity(rows.len());
        let mut before: Option<&ObservationRow> = None;
        for row in rows {
            let of_trace = match (before, stored.last()) {
                (Some(before), Some(last)) if before.trace == row.trace => {
                    Arc::clone(&last.trace_attributes)
                }
                _ => Arc::new(row.of_trace()?),
            };
            stored.push(row.own.stored(row.trace_id()?, of_trace)?);
            before = Some(row);
        }
        if with_content {
            let places: Vec<StoredAt> = rows.iter().map(|row| (&row.own).into()).collect();
            self.add_contents(&places, &mut stored).await?;
        }
        Ok(stored)
    }

    /// The first of these rows as stored observations, with content: as many as have contents of at most
    /// `max_bytes` together, and at least one.
    pub(super) async fn stored_up_to(
        &self,
        rows: &[ObservationRow],
        max_bytes: usize,
    ) -> Result<Vec<StoredObservation>, Error> {
        let mut stored = self.stored(rows, false).await?;
        let places: Vec<StoredAt> = rows.iter().map(|row| (&row.own).into()).collect();
        let contents = self.contents_up_to(&places, max_bytes).await?;
        stored.truncate(contents.len());
        for (stored, content) in stored.iter_mut().zip(contents) {
            stored.observation.content = content.unwrap_or_default();
        }
        Ok(stored)
    }

    async fn add_contents(
        &self,
        rows: &[StoredAt],
        stored: &mut [StoredObservation],
    ) -> Result<(), Error> {
        let contents = self.contents(rows).await?;
        for (stored, content) in stored.iter_mut().zip(contents) {
            stored.observation.content = content.unwrap_or_default();
        }
        Ok(())
    }

    /// Scores of these traces and of their observations.
    pub(crate) async fn scores_for(
        &self,
        project: &ProjectId,
        traces: HashSet<&TraceId>,
    ) -> Result<HashMap<TraceId, Vec<Score>>, Error> {
        let traces: Vec<TraceId> = traces.into_iter().cloned().collect();
        let mut found: HashMap<TraceId, Vec<Score>> = HashMap::new();
        for chunk in traces.chunks(LIST) {
            for score in self.scores_of_traces(project, chunk).await? {
                let trace = match &score.written.subject {
                    perpend_domain::score::Subject::Trace(trace)
                    | perpend_domain::score::Subject::Observation(trace, _) => trace.clone(),
                    _ => continue,
                };
                found.entry(trace).or_default().push(score);
            }
        }
        Ok(found)
    }

    /// One trace, with the content of its root if requested; `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace(
        &self,
        project: &ProjectId,
        id: &TraceId,
        with_content: bool,
    ) -> Result<Option<StoredTrace>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        self.folder.of_trace(tenant, id).await?;
        let sql =
            format!("SELECT {READ_TRACE} FROM traces t WHERE t.tenant = $1 AND t.trace_id = $2");
        let args = [tenant.into(), Arg::Text(Some(id.as_str().to_owned().into()))];
        let rows = self.pool.select(&sql, &args).await?;
        match rows.into_iter().next() {
            Some(row) => Ok(Some(self.one_trace(row, with_content).await?)),
            None => Ok(None),
        }
    }

    /// All observations of a trace by start and id; `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_observations(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        with_content: bool,
    ) -> Result<Vec<StoredObservation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        // The columns of the trace are read once and not with every row.
        let sql =
            format!("SELECT {READ_TRACE} FROM traces t WHERE t.tenant = $1 AND t.trace_id = $2");
        let args = [tenant.into(), Arg::Text(Some(trace.as_str().to_owned().into()))];
        let Some(of) = self.pool.select::<TraceRow>(&sql, &args).await?.pop() else {
            return Ok(Vec::new());
        };
        let of_trace = Arc::new(of.of_trace()?);
        let sql = format!(
            "SELECT {READ_OWN} FROM observations o WHERE o.trace = $1 ORDER BY o.started_at, o.id"
        );
        let rows: Vec<OwnRow> = self.pool.select(&sql, &[of.number.into()]).await?;
        let mut stored = rows
            .iter()
            .map(|row| row.stored(trace.clone(), Arc::clone(&of_trace)))
            .collect::<Result<Vec<_>, _>>()?;
        if with_content {
            let places: Vec<StoredAt> = rows.iter().map(StoredAt::from).collect();
            self.add_contents(&places, &mut stored).await?;
        }
        Ok(stored)
    }

    /// One observation of a trace, with content.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observation_of(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        id: &ObservationId,
    ) -> Result<Option<StoredObservation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {READ} FROM traces t JOIN observations o ON o.trace = t.number \
             WHERE t.tenant = $1 AND t.trace_id = $2 AND o.id = $3"
        );
        let args = [
            tenant.into(),
            Arg::Text(Some(trace.as_str().to_owned().into())),
            Arg::Text(Some(id.as_str().to_owned().into())),
        ];
        let rows = self.pool.select(&sql, &args).await?;
        Ok(self.stored(&rows, true).await?.pop())
    }

    /// The newest observation with this id, with content: ids are unique within a trace only. Searches all
    /// ids: prefer [`Telemetry::observation_of`].
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observation(
        &self,
        project: &ProjectId,
        id: &ObservationId,
    ) -> Result<Option<StoredObservation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {READ} FROM observations o JOIN traces t ON t.number = o.trace \
             WHERE {} AND t.tenant = $1 ORDER BY +o.started_at DESC LIMIT 1",
            super::by_id::with_id("$2", self.pool.is_postgres())
        );
        let args = [tenant.into(), Arg::Text(Some(id.as_str().to_owned().into()))];
        let rows = self.pool.select(&sql, &args).await?;
        Ok(self.stored(&rows, true).await?.pop())
    }

    /// Deletes traces with all their data: observations, contents, log records, media links, scores and comments.
    /// Unknown ids are ignored. A comment on an observation does not name a trace: it is also deleted if another
    /// trace has an observation with the same id.
    ///
    /// # Errors
    /// When the database fails; nothing is deleted then.
    pub async fn delete_traces(&self, project: &ProjectId, ids: &[TraceId]) -> Result<(), Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(());
        };
        let ids: BTreeSet<&TraceId> = ids.iter().collect();
        despite_collisions!(self.delete_once(project, tenant, &ids).await)
    }

    async fn delete_once(
        &self,
        project: &ProjectId,
        tenant: i64,
        ids: &BTreeSet<&TraceId>,
    ) -> Result<(), Error> {
        const BY_NUMBER: [&str; 4] = [
            "DELETE FROM events
              WHERE tenant = (SELECT tenant FROM traces WHERE number = $1) AND kind IN (1, 2)
                AND entity IN (SELECT id FROM observations WHERE trace = $1)",
            "DELETE FROM payloads WHERE seq IN
                (SELECT payload FROM observations WHERE trace = $1 AND payload IS NOT NULL)",
            "DELETE FROM observations WHERE trace = $1",
            "DELETE FROM traces WHERE number = $1",
        ];
        const BY_ID: [&str; 3] = [
            "DELETE FROM events WHERE tenant = $1 AND kind = 0 AND entity = $2",
            "DELETE FROM span_logs WHERE tenant = $1 AND trace_id = $2",
            "DELETE FROM media_links WHERE tenant = $1 AND trace_id = $2",
        ];
        const LOCK: &str =
            "UPDATE traces SET revision = revision + 1 WHERE tenant = $1 AND trace_id = $2";
        const FIND: &str = "SELECT number FROM traces WHERE tenant = $1 AND trace_id = $2";
        const SCORES: [&str; 2] = [
            "DELETE FROM scores WHERE project_id = $1 AND trace_id = $2",
            "DELETE FROM superseded_scores WHERE project_id = $1 AND trace_id = $2",
        ];
        const COMMENTS: &str = "
            DELETE FROM comments
             WHERE project_id = $1 AND object_type = 'TRACE' AND object_id = $2";
        const OBSERVATION_COMMENTS: &str = "
            DELETE FROM comments
             WHERE project_id = $1 AND object_type = 'OBSERVATION'
               AND object_id IN (SELECT id FROM observations WHERE trace = $2)";
        in_transaction!(&self.pool, |tx| {
            self.writer.recent.forget_all();
            let mut rollups = Changes::default();
            for id in ids {
                let args = [tenant.into(), id.as_str().into()];
                tx.execute(LOCK, &args).await?;
                let number = tx.integer(FIND, &args).await?;
                rollups.subtract_trace(&mut tx, number).await?;
                let observations = [project.as_str().into(), number.into()];
                tx.execute(OBSERVATION_COMMENTS, &observations).await?;
                for sql in BY_NUMBER {
                    tx.execute(sql, &[number.into()]).await?;
                }
                for sql in BY_ID {
                    tx.execute(sql, &args).await?;
                }
                let args = [project.as_str().into(), id.as_str().into()];
                for sql in SCORES {
                    tx.execute(sql, &args).await?;
                }
                tx.execute(COMMENTS, &args).await?;
            }
            rollups.write(&mut tx).await?;
        });
        Ok(())
    }

    /// A stored medium by its id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn media(&self, project: &ProjectId, id: &str) -> Result<Option<StoredMedia>, Error> {
        const GET: &str = "
            SELECT content_type, sha256, bytes, created_at FROM media WHERE tenant = $1 AND id = $2";
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        let found: Option<(String, Vec<u8>, Vec<u8>, i64)> =
            query(GET).bind(tenant).bind(id).fetch_optional(&self.pool).await?;
        Ok(found.map(|(content_type, sha256, bytes, created_at)| StoredMedia {
            content_type,
            sha256,
            bytes,
            created_at: Timestamp::from_micros(created_at),
        }))
    }
}
