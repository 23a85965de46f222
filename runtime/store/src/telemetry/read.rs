//! Reading traces and observations.

use std::collections::{BTreeSet, HashMap, HashSet};

use assay_domain::filter::{Condition, Filter, Row, Test, TextOp};
use assay_domain::ids::{ObservationId, ProjectId, TraceId};
use assay_domain::score::Score;
use assay_domain::time::Timestamp;
use sqlx::AssertSqlSafe;

use super::cells::{CONTENT_COLUMNS, ObservationCells, SCORE_COLUMNS, TraceCells, is_about};
use super::db::{Arg, Db, bind_args, value_list};
use super::rollup::Changes;
use super::row::{ObservationRow, READ, READ_TRACE, TraceRow};
use super::{
    ObservationCursor, ObservationQuery, Page, StoredMedia, StoredObservation, StoredTrace,
    TraceOrder, TraceQuery, refresh,
};
use crate::filter_sql::{Expr, Sql};
use crate::pool::{Pool, despite_collisions, in_transaction, on_reader};
use crate::{Error, Store};

/// Rows looked at in one go where a part of the filter is tested in memory.
const SCAN: u32 = 500;
/// Rows named in one statement.
const LIST: usize = 200;

pub(super) const OBSERVATION_ORDER: &str = " ORDER BY o.started_at DESC, t.trace_id, o.id";

const TRACE_LATENCY: &str = "t.latency_us / 1000000.0";
const LATENCY: &str = "(o.ended_at - o.started_at) / 1000000.0";
const FIRST_TOKEN: &str = "(o.first_token_at - o.started_at) / 1000000.0";

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
        "latency" => Expr::Number(TRACE_LATENCY),
        "inputTokens" => Expr::Number("t.input_tokens"),
        "outputTokens" => Expr::Number("t.output_tokens"),
        "totalTokens" => Expr::Number("t.total_tokens"),
        "totalCost" => Expr::Number("t.total_cost"),
        "errorCount" => Expr::Number("t.n_error"),
        "warningCount" => Expr::Number("t.n_warning"),
        "defaultCount" => Expr::Number("t.n_default"),
        "debugCount" => Expr::Number("t.n_debug"),
        "observationCount" => Expr::Number("t.n_observations"),
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
        _ => return None,
    })
}

/// Conditions that are left for memory.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    filter: Filter,
}

impl Rest {
    fn new(conditions: Vec<Condition>) -> Self {
        Self {
            filter: Filter { conditions },
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.filter.conditions.is_empty()
    }

    fn reads_content(&self) -> bool {
        self.filter.reads(CONTENT_COLUMNS)
    }

    fn reads_scores(&self) -> bool {
        self.filter.reads(SCORE_COLUMNS)
    }

    fn holds(&self, row: &dyn Row) -> bool {
        self.filter.matches(row)
    }
}

pub(crate) fn where_of(
    sql: &mut Sql,
    filter: &Filter,
    column: fn(&str) -> Option<Expr>,
    is_postgres: bool,
) -> Rest {
    let left = filter
        .conditions
        .iter()
        .filter(|condition| !sql.condition(condition, column, is_postgres));
    Rest::new(left.cloned().collect())
}

/// Whether only observations of named traces are asked for.
fn names_traces(filter: &Filter) -> bool {
    filter.conditions.iter().any(|condition| {
        condition
            .column
            .is_some_and(|column| column.id == "traceId")
            && matches!(
                condition.test,
                Test::AnyOf(_) | Test::Text(TextOp::Equal, _)
            )
    })
}

/// `FROM` and `WHERE` of a list of observations. The tenant is named twice, so that the list by time needs
/// no look at traces; for named traces only once, or SQLite would read the whole list by time for them.
pub(super) fn observations_from(tenant: i64, filter: &Filter, is_postgres: bool) -> (Sql, Rest) {
    let mut sql = Sql::default();
    let number = sql.bind(tenant.into());
    sql.push(&format!(
        " FROM observations o JOIN traces t ON t.number = o.trace WHERE t.tenant = {number}"
    ));
    if !names_traces(filter) {
        sql.push(&format!(" AND o.tenant = {number}"));
    }
    let rest = where_of(&mut sql, filter, observation_column, is_postgres);
    (sql, rest)
}

impl TraceOrder {
    const fn column(self) -> &'static str {
        match self {
            Self::Timestamp => "t.started_at",
            Self::Id => "t.trace_id",
            Self::Name => "COALESCE(t.name, '')",
            Self::UserId => "COALESCE(t.user_id, '')",
            Self::SessionId => "COALESCE(t.session_id, '')",
            Self::Release => "COALESCE(t.release, '')",
            Self::Version => "COALESCE(t.version, '')",
            Self::Public => "t.is_public",
        }
    }
}

/// An empty page.
const fn nothing<T>() -> Page<T> {
    Page {
        items: Vec::new(),
        n_total: 0,
        has_more: false,
    }
}

impl Store {
    pub(crate) const fn is_postgres(&self) -> bool {
        matches!(self.pool, Pool::Postgres(_))
    }

    /// The number of a project whose traces are folded up to now; none when it never sent anything.
    pub(crate) async fn fresh_tenant(&self, project: &ProjectId) -> Result<Option<i64>, Error> {
        let tenant = self.tenant(project).await?;
        if let Some(tenant) = tenant {
            refresh::of_tenant(&self.pool, tenant).await?;
        }
        Ok(tenant)
    }

    async fn trace_rows(&self, sql: &str, args: &[Arg<'static>]) -> Result<Vec<TraceRow>, Error> {
        Ok(on_reader!(&self.pool, |db| {
            bind_args!(sqlx::query_as(AssertSqlSafe(sql.to_owned())), args)
                .fetch_all(db)
                .await?
        }))
    }

    pub(super) async fn observation_rows(
        &self,
        sql: &str,
        args: &[Arg<'static>],
    ) -> Result<Vec<ObservationRow>, Error> {
        Ok(on_reader!(&self.pool, |db| {
            bind_args!(sqlx::query_as(AssertSqlSafe(sql.to_owned())), args)
                .fetch_all(db)
                .await?
        }))
    }

    async fn count(&self, sql: &str, args: &[Arg<'static>]) -> Result<u64, Error> {
        let n: i64 = on_reader!(&self.pool, |db| {
            bind_args!(sqlx::query_scalar(AssertSqlSafe(sql.to_owned())), args)
                .fetch_one(db)
                .await?
        });
        Ok(n.unsigned_abs())
    }

    /// Rows as stored observations, with content when asked for.
    pub(super) async fn stored(
        &self,
        rows: &[ObservationRow],
        with_content: bool,
    ) -> Result<Vec<StoredObservation>, Error> {
        let mut stored = rows
            .iter()
            .map(ObservationRow::stored)
            .collect::<Result<Vec<_>, _>>()?;
        if !with_content {
            return Ok(stored);
        }
        let contents = self.contents(rows).await?;
        for (stored, content) in stored.iter_mut().zip(contents) {
            stored.observation.content = content.unwrap_or_default();
        }
        Ok(stored)
    }

    /// Completes traces with the content of their roots.
    async fn add_roots(
        &self,
        project: &ProjectId,
        traces: &mut [StoredTrace],
    ) -> Result<(), Error> {
        for trace in traces {
            let Some(root) = trace.trace.root.clone() else {
                continue;
            };
            if let Some(root) = self.observation_of(project, &trace.trace.id, &root).await? {
                trace.trace.add_root_content(&root.observation.content);
            }
        }
        Ok(())
    }

    async fn add_ids(&self, tenant: i64, traces: &mut [StoredTrace]) -> Result<(), Error> {
        const IDS: &str = "
            SELECT o.id FROM traces t JOIN observations o ON o.trace = t.number
             WHERE t.tenant = $1 AND t.trace_id = $2 ORDER BY o.started_at, o.id";
        for trace in traces {
            let ids: Vec<String> = on_reader!(&self.pool, |db| {
                sqlx::query_scalar(IDS)
                    .bind(tenant)
                    .bind(trace.trace.id.as_str())
                    .fetch_all(db)
                    .await?
            });
            trace.observation_ids = ids
                .iter()
                .map(|id| crate::catalog::checked("observation", id))
                .collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Scores of these traces and what is in them.
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
                    assay_domain::score::Subject::Trace(trace)
                    | assay_domain::score::Subject::Observation(trace, _) => trace.clone(),
                    _ => continue,
                };
                found.entry(trace).or_default().push(score);
            }
        }
        Ok(found)
    }

    /// A page of traces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn traces(
        &self,
        project: &ProjectId,
        query: &TraceQuery,
    ) -> Result<Page<StoredTrace>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(nothing());
        };
        refresh::of_tenant(&self.pool, tenant).await?;
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        sql.push(&format!(" FROM traces t WHERE t.tenant = {number}"));
        let rest = where_of(&mut sql, &query.filter, trace_column, self.is_postgres());
        let direction = if query.ascending { "ASC" } else { "DESC" };
        let from = std::mem::take(&mut sql.text);
        let order = format!(
            "{from} ORDER BY {} {direction}, t.trace_id",
            query.order.column()
        );
        let limit = u64::from(query.limit);
        let skip = u64::from(query.page.max(1) - 1) * limit;
        let (mut items, n_total) = if rest.is_empty() {
            let n_total = self
                .count(&format!("SELECT COUNT(*){from}"), &sql.args)
                .await?;
            let select = format!("SELECT {READ_TRACE}{order} LIMIT {limit} OFFSET {skip}");
            let rows = self.trace_rows(&select, &sql.args).await?;
            let items = rows.into_iter().map(TraceRow::stored);
            (items.collect::<Result<Vec<_>, _>>()?, n_total)
        } else {
            let select = format!("SELECT t.number{order}");
            let matching = self.scan_traces(project, &select, &sql.args, &rest);
            let matching = matching.await?;
            let n_total = matching.len() as u64;
            let page = matching.into_iter().skip(skip as usize);
            let numbers: Vec<i64> = page.take(limit as usize).collect();
            (self.traces_by_number(&numbers).await?, n_total)
        };
        if query.with_content {
            self.add_roots(project, &mut items).await?;
        }
        if query.with_observation_ids {
            self.add_ids(tenant, &mut items).await?;
        }
        let has_more = skip + (items.len() as u64) < n_total;
        Ok(Page {
            items,
            n_total,
            has_more,
        })
    }

    /// Numbers of the traces that pass what is tested in memory, in order. Only numbers are held, and
    /// they are read at once: a filter over a large project costs time in step with its size, and little
    /// memory.
    async fn scan_traces(
        &self,
        project: &ProjectId,
        select: &str,
        args: &[Arg<'static>],
        rest: &Rest,
    ) -> Result<Vec<i64>, Error> {
        let numbers: Vec<i64> = on_reader!(&self.pool, |db| {
            bind_args!(sqlx::query_scalar(AssertSqlSafe(select.to_owned())), args)
                .fetch_all(db)
                .await?
        });
        let mut matching = Vec::new();
        for chunk in numbers.chunks(SCAN as usize) {
            let (numbers, mut traces): (Vec<i64>, Vec<StoredTrace>) =
                self.numbered_traces(chunk).await?.into_iter().unzip();
            if rest.reads_content() {
                self.add_roots(project, &mut traces).await?;
            }
            let scores = if rest.reads_scores() {
                let ids = traces.iter().map(|stored| &stored.trace.id).collect();
                self.scores_for(project, ids).await?
            } else {
                HashMap::new()
            };
            for (number, stored) in numbers.into_iter().zip(&traces) {
                let all = scores.get(&stored.trace.id).map_or(&[][..], Vec::as_slice);
                let own: Vec<Score> = all
                    .iter()
                    .filter(|score| is_about(score, None))
                    .cloned()
                    .collect();
                let cells = TraceCells {
                    stored,
                    scores: &own,
                };
                if rest.holds(&cells) {
                    matching.push(number);
                }
            }
        }
        Ok(matching)
    }

    async fn traces_by_number(&self, numbers: &[i64]) -> Result<Vec<StoredTrace>, Error> {
        let found = self.numbered_traces(numbers).await?;
        Ok(found.into_iter().map(|(_, stored)| stored).collect())
    }

    /// Those of these traces that still stand, in the order of the numbers.
    async fn numbered_traces(&self, numbers: &[i64]) -> Result<Vec<(i64, StoredTrace)>, Error> {
        let mut found = HashMap::new();
        for chunk in numbers.chunks(LIST) {
            let sql = format!(
                "SELECT {READ_TRACE} FROM traces t WHERE t.number IN ({})",
                value_list(chunk.len(), 1)
            );
            let args: Vec<Arg<'static>> = chunk.iter().map(|number| (*number).into()).collect();
            for row in self.trace_rows(&sql, &args).await? {
                found.insert(row.number, row.stored()?);
            }
        }
        Ok(numbers
            .iter()
            .filter_map(|number| Some((*number, found.remove(number)?)))
            .collect())
    }

    /// One trace, completed with the content of its root when asked for; `None` when the project has
    /// none by that id.
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
        refresh::of_trace(&self.pool, tenant, id).await?;
        let sql =
            format!("SELECT {READ_TRACE} FROM traces t WHERE t.tenant = $1 AND t.trace_id = $2");
        let args = [
            tenant.into(),
            Arg::Text(Some(id.as_str().to_owned().into())),
        ];
        let rows = self.trace_rows(&sql, &args).await?;
        let mut found = rows
            .into_iter()
            .map(TraceRow::stored)
            .collect::<Result<Vec<_>, _>>()?;
        if with_content {
            self.add_roots(project, &mut found).await?;
        }
        Ok(found.pop())
    }

    /// All observations of a trace by start and id; none when the project has no such trace.
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
        let sql = format!(
            "SELECT {READ} FROM traces t JOIN observations o ON o.trace = t.number \
             WHERE t.tenant = $1 AND t.trace_id = $2 ORDER BY o.started_at, o.id"
        );
        let args = [
            tenant.into(),
            Arg::Text(Some(trace.as_str().to_owned().into())),
        ];
        let rows = self.observation_rows(&sql, &args).await?;
        self.stored(&rows, with_content).await
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
        let rows = self.observation_rows(&sql, &args).await?;
        Ok(self.stored(&rows, true).await?.pop())
    }

    /// The newest observation with this id, with content: ids are unique within a trace only. Looks
    /// through the whole project: prefer [`Store::observation_of`].
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
             WHERE o.tenant = $1 AND o.id = $2 ORDER BY o.started_at DESC LIMIT 1"
        );
        let args = [
            tenant.into(),
            Arg::Text(Some(id.as_str().to_owned().into())),
        ];
        let rows = self.observation_rows(&sql, &args).await?;
        Ok(self.stored(&rows, true).await?.pop())
    }

    /// Observations, newest start first. Only with `with_content`, or where the filter looks at it, is
    /// any content read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observations(
        &self,
        project: &ProjectId,
        query: &ObservationQuery,
    ) -> Result<Page<StoredObservation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(nothing());
        };
        refresh::of_tenant(&self.pool, tenant).await?;
        let (mut sql, rest) = observations_from(tenant, &query.filter, self.is_postgres());
        if query.without_records {
            sql.push(" AND o.id <> 't-' || t.trace_id");
        }
        if rest.is_empty() {
            self.plain_observations(&mut sql, query).await
        } else {
            self.scanned_observations(project, &sql, query, &rest).await
        }
    }

    async fn plain_observations(
        &self,
        sql: &mut Sql,
        query: &ObservationQuery,
    ) -> Result<Page<StoredObservation>, Error> {
        let n_total = if query.with_total {
            let count = format!("SELECT COUNT(*){}", sql.text);
            self.count(&count, &sql.args).await?
        } else {
            0
        };
        let limit = query.limit as usize;
        let mut rows = self
            .rows_after(sql, query.after.as_ref(), limit + 1, query.offset)
            .await?;
        let has_more = rows.len() > limit;
        rows.truncate(limit);
        Ok(Page {
            items: self.stored(&rows, query.with_content).await?,
            n_total,
            has_more,
        })
    }

    async fn rows_after(
        &self,
        from: &Sql,
        after: Option<&ObservationCursor>,
        limit: usize,
        offset: u64,
    ) -> Result<Vec<ObservationRow>, Error> {
        let mut sql = Sql {
            text: format!("SELECT {READ}{}", from.text),
            args: from.args.clone(),
        };
        if let Some(after) = after {
            let start = sql.bind(after.start.as_micros().into());
            let trace = sql.bind_text(after.trace_id.as_str());
            let id = sql.bind_text(after.id.as_str());
            sql.push(&format!(
                " AND o.started_at <= {start} AND (o.started_at < {start} OR t.trace_id > {trace} \
                 OR (t.trace_id = {trace} AND o.id > {id}))"
            ));
        }
        sql.push(&format!(
            "{OBSERVATION_ORDER} LIMIT {limit} OFFSET {offset}"
        ));
        self.observation_rows(&sql.text, &sql.args).await
    }

    async fn scanned_observations(
        &self,
        project: &ProjectId,
        from: &Sql,
        query: &ObservationQuery,
        rest: &Rest,
    ) -> Result<Page<StoredObservation>, Error> {
        let mut page = nothing();
        let mut n_matching = 0_u64;
        let mut after = query.after.clone();
        let last = query.offset + u64::from(query.limit);
        loop {
            let rows = self
                .rows_after(from, after.as_ref(), SCAN as usize, 0)
                .await?;
            let mut stored = self.stored(&rows, rest.reads_content()).await?;
            after = stored.last().map(|stored| ObservationCursor {
                start: stored.observation.start,
                trace_id: stored.observation.trace_id.clone(),
                id: stored.observation.id.clone(),
            });
            let scores = if rest.reads_scores() {
                let ids = stored.iter().map(|stored| &stored.observation.trace_id);
                self.scores_for(project, ids.collect()).await?
            } else {
                HashMap::new()
            };
            let mut kept = Vec::new();
            for (at, stored) in stored.iter().enumerate() {
                let o = &stored.observation;
                let all = scores.get(&o.trace_id).map_or(&[][..], Vec::as_slice);
                let own = all
                    .iter()
                    .filter(|score| is_about(score, Some(o.id.as_str())));
                let cells = ObservationCells {
                    stored,
                    scores: &own.cloned().collect::<Vec<_>>(),
                };
                if rest.holds(&cells) {
                    if query.offset <= n_matching && n_matching < last {
                        kept.push(at);
                    }
                    n_matching += 1;
                }
            }
            if query.with_content && !rest.reads_content() && !kept.is_empty() {
                stored = self.stored(&rows, true).await?;
            }
            for at in kept {
                let mut found = stored[at].clone();
                if !query.with_content {
                    found.observation.content = assay_domain::observation::Content::default();
                }
                page.items.push(found);
            }
            let is_enough = !query.with_total && last < n_matching;
            if is_enough || rows.len() < SCAN as usize {
                break;
            }
        }
        page.has_more = last < n_matching;
        page.n_total = if query.with_total { n_matching } else { 0 };
        Ok(page)
    }

    /// Deletes traces with all that is in them: observations, contents, log records, media links and
    /// scores. Ids the project does not have are passed over.
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
        const SCORES: &str = "DELETE FROM scores WHERE project_id = $1 AND trace_id = $2";
        in_transaction!(&self.pool, |tx| {
            self.writer.recent.forget_all();
            let mut db: Db<'_> = (&mut *tx).into();
            let mut rollups = Changes::default();
            for id in ids {
                let args = [tenant.into(), id.as_str().into()];
                db.execute(LOCK, &args).await?;
                let number = db.integer(FIND, &args).await?;
                rollups.take_away_trace(&mut db, number).await?;
                for sql in BY_NUMBER {
                    db.execute(sql, &[number.into()]).await?;
                }
                for sql in BY_ID {
                    db.execute(sql, &args).await?;
                }
                let args = [project.as_str().into(), id.as_str().into()];
                db.execute(SCORES, &args).await?;
            }
            rollups.write(&mut db).await?;
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
        let found: Option<(String, Vec<u8>, Vec<u8>, i64)> = on_reader!(&self.pool, |db| {
            sqlx::query_as(GET)
                .bind(tenant)
                .bind(id)
                .fetch_optional(db)
                .await?
        });
        Ok(
            found.map(|(content_type, sha256, bytes, created_at)| StoredMedia {
                content_type,
                sha256,
                bytes,
                created_at: Timestamp::from_micros(created_at),
            }),
        )
    }
}
