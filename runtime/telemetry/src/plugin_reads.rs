//! Reads of plug-ins in addition to iterating over observations: the skeleton of a trace, single contents,
//! the traces of a session, and whether a trace or a medium belongs to the evaluated target. Pages build the
//! outline of a trace from its observations.

use std::collections::{HashMap, HashSet};

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::telemetry::{
    ObservationSummary, SessionSpan, StoredObservation, StoredTrace, TraceScope, TraceVersion,
};
use perpend_domain::time::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer};

use super::packed::{self, Extent};
use super::rollup::IS_OBSERVATION;
use super::row::{READ, READ_TRACE, TraceRow, wrong};
use crate::{Error, Telemetry};
use perpend_db::{Arg, Scratch, Sql, checked, value_list};

/// Users of a session that are returned.
const MAX_USERS: u32 = 100;

perpend_db::record! {
    // Also read from JSON, as an array in this order.
    #[derive(serde::Deserialize)]
    struct SkeletonRow {
        id: String,
        parent_id: Option<String>,
        kind: String,
        name: String,
        level: String,
        started_at: i64,
        ended_at: Option<i64>,
        first_token_at: Option<i64>,
        model: Option<String>,
        input_tokens: Option<i64>,
        output_tokens: Option<i64>,
        total_tokens: Option<i64>,
        #[serde(deserialize_with = "written")]
        total_cost: Option<f64>,
    }
}

/// A number that is written as text: SQLite drops the last digits of a number in JSON.
fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = Option::<&str>::deserialize(from)?;
    let number = text.map(str::parse);
    number.transpose().map_err(D::Error::custom)
}

/// Columns that are read from `observations o`, in the order of [`SkeletonRow`].
const READ_BONE: &str = "o.id, o.parent_id, o.kind, o.name, o.level, o.started_at, o.ended_at, o.first_token_at, o.model, \
    o.input_tokens, o.output_tokens, o.total_tokens, o.total_cost";
const TOTAL_COST: &str = "o.total_cost";
/// Bytes of the contents of turns that are read at a time, and that are kept of one turn.
const PART_BYTES: usize = 4 << 20;
const MAX_TURN_CONTENT: usize = 2 << 20;

impl SkeletonRow {
    /// The database does not add the tokens: a sum could exceed its range.
    fn tokens(&self) -> Option<u64> {
        let given = self.total_tokens.map(i64::unsigned_abs);
        given.or_else(|| {
            let parts = [self.input_tokens, self.output_tokens].into_iter().flatten();
            parts.map(i64::unsigned_abs).reduce(u64::saturating_add)
        })
    }

    fn bone(self) -> Result<ObservationSummary, Error> {
        const WHAT: &str = "observation";
        Ok(ObservationSummary {
            kind: self.kind.parse().map_err(|error| wrong(WHAT, error))?,
            level: self.level.parse().map_err(|error| wrong(WHAT, error))?,
            tokens: self.tokens(),
            id: self.id,
            parent_id: self.parent_id,
            name: self.name,
            start: Timestamp::from_micros(self.started_at),
            end: self.ended_at.map(Timestamp::from_micros),
            first_token: self.first_token_at.map(Timestamp::from_micros),
            model: self.model,
            cost: self.total_cost,
        })
    }
}

perpend_db::record! {
    struct SpanRow {
        n_traces: i64,
        start: Option<i64>,
        newest: Option<i64>,
    }
}

/// Reads observations of a trace as one text.
pub(super) fn packed_observations(is_postgres: bool, is_together: bool) -> String {
    let cost = match is_postgres {
        true => "CAST(o.total_cost AS TEXT)",
        false => "format('%!.17g', o.total_cost)",
    };
    let columns = READ_BONE.strip_suffix(TOTAL_COST).unwrap_or(READ_BONE);
    let columns = format!("{columns}CASE WHEN o.total_cost IS NOT NULL THEN {cost} END");
    packed::statement((is_postgres, is_together), &columns, IS_OBSERVATION)
}

impl Telemetry {
    /// The observations of a trace by start and id, without large fields; at most `limit`. `None` if the
    /// project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn skeleton(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        limit: u32,
    ) -> Result<Vec<ObservationSummary>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(trace.as_str());
        sql.push(&format!(
            "SELECT {READ_BONE} FROM traces t JOIN observations o ON o.trace = t.number \
             WHERE t.tenant = {number} AND t.trace_id = {id} AND {IS_OBSERVATION} \
             ORDER BY o.started_at, o.id LIMIT {limit}"
        ));
        let rows: Vec<SkeletonRow> = self.pool.select(&sql.text, &sql.args).await?;
        rows.into_iter().map(SkeletonRow::bone).collect()
    }

    /// The stored version of a trace; `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_version(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Option<TraceVersion>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        let sql = "SELECT number, revision FROM traces WHERE tenant = $1 AND trace_id = $2";
        let args = [tenant.into(), Arg::Text(Some(trace.to_string().into()))];
        let rows: Vec<(i64, i64)> = self.pool.select(sql, &args).await?;
        let found = rows.into_iter().next();
        Ok(found.map(|(number, revision)| TraceVersion { number, revision }))
    }

    /// The observations of a trace in no particular order, without large fields: for its outline. The record
    /// of the trace, which is not an observation, is omitted. `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn outline_observations(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Vec<ObservationSummary>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        let ends = "SELECT t.number, MIN(o.seq), MAX(o.seq), COUNT(*) FROM traces t \
                    JOIN observations o ON o.trace = t.number WHERE t.tenant = $1 AND t.trace_id = $2 \
                    GROUP BY t.number";
        let args = [tenant.into(), Arg::Text(Some(trace.to_string().into()))];
        let ends: Vec<(i64, i64, i64, i64)> = self.pool.select(ends, &args).await?;
        let Some((trace, first, last, n)) = ends.into_iter().next() else {
            return Ok(Vec::new());
        };
        let extent = Extent { trace, first, last, n };
        packed::read(&self.pool, extent, packed_observations, SkeletonRow::bone).await
    }

    /// Observations of one trace by their ids, with content, in no particular order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn observations_of(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        ids: &[&str],
    ) -> Result<Vec<StoredObservation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(trace.as_str());
        let places: Vec<String> = ids.iter().map(|id| sql.bind_text(id)).collect();
        let places = places.join(", ");
        sql.push(&format!(
            "SELECT {READ} FROM traces t JOIN observations o ON o.trace = t.number \
             WHERE t.tenant = {number} AND t.trace_id = {id} AND o.id IN ({places})"
        ));
        let rows = self.pool.select(&sql.text, &sql.args).await?;
        self.stored(&rows, true).await
    }

    /// Time range and users of a session; `None` if it has no traces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_span(
        &self,
        project: &ProjectId,
        session: &str,
    ) -> Result<Option<SessionSpan>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(None);
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(session);
        let of = format!("FROM traces WHERE tenant = {number} AND session_id = {id}");
        let span = format!(
            "SELECT COUNT(*) AS n_traces, MIN(started_at) AS start, MAX(started_at) AS newest {of}"
        );
        let rows: Vec<SpanRow> = self.pool.select(&span, &sql.args).await?;
        let Some(row) = rows.into_iter().next() else {
            return Ok(None);
        };
        let (Some(start), Some(end)) = (row.start, row.newest) else {
            return Ok(None);
        };
        let users = format!(
            "SELECT DISTINCT user_id {of} AND user_id IS NOT NULL AND user_id <> '' \
             ORDER BY user_id LIMIT {MAX_USERS}"
        );
        let users: Vec<(String,)> = self.pool.select(&users, &sql.args).await?;
        Ok(Some(SessionSpan {
            n_traces: row.n_traces.unsigned_abs(),
            start: Timestamp::from_micros(start),
            end: Timestamp::from_micros(end),
            user_ids: users.into_iter().map(|(user,)| user).collect(),
        }))
    }

    /// Traces of a session by start and id, after a position; at most `limit`, with the content of their
    /// roots if requested.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_traces(
        &self,
        project: &ProjectId,
        session: &str,
        after: Option<&(Timestamp, TraceId)>,
        (limit, with_content): (u32, bool),
    ) -> Result<Vec<StoredTrace>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(session);
        sql.push(&format!(
            "SELECT {READ_TRACE} FROM traces t WHERE t.tenant = {number} AND t.session_id = {id}"
        ));
        if let Some((start, trace)) = after {
            let start = sql.bind(start.as_micros().into());
            let trace = sql.bind_text(trace.as_str());
            sql.push(&format!(" AND (t.started_at, t.trace_id) > ({start}, {trace})"));
        }
        sql.push(&format!(" ORDER BY t.started_at, t.trace_id LIMIT {limit}"));
        let rows: Vec<TraceRow> = self.pool.select(&sql.text, &sql.args).await?;
        let traces = rows.into_iter().map(|row| Ok((row.number, row.stored()?)));
        let mut traces = traces.collect::<Result<Vec<_>, Error>>()?;
        if with_content {
            self.add_roots(&mut traces).await?;
        }
        Ok(traces.into_iter().map(|(_, stored)| stored).collect())
    }

    /// Traces of a session by start and id, with the content of their roots: `limit` of them after the first
    /// `skip`. An input or output of more than 2 MiB is cut.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_turns(
        &self,
        project: &ProjectId,
        session: &str,
        skip: u64,
        limit: u32,
    ) -> Result<Vec<StoredTrace>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Vec::new());
        };
        // The position is found in the index alone; rows are read for the window only.
        let sql = format!(
            "SELECT {READ_TRACE} FROM traces t WHERE t.number IN \
               (SELECT w.number FROM traces w WHERE w.tenant = $1 AND w.session_id = $2 \
                 ORDER BY w.started_at, w.trace_id LIMIT {limit} OFFSET {skip}) \
              ORDER BY t.started_at, t.trace_id"
        );
        let args = [tenant.into(), Arg::from(session)];
        let rows: Vec<TraceRow> = self.pool.select(&sql, &args).await?;
        let traces = rows.into_iter().map(|row| Ok((row.number, row.stored()?)));
        let mut traces = traces.collect::<Result<Vec<_>, Error>>()?;
        let mut left = traces.as_mut_slice();
        while !left.is_empty() {
            let mut scratch = Scratch::begin();
            let n = self.add_roots_up_to(left, PART_BYTES).await?;
            let (some, others) = left.split_at_mut(n);
            for (_, stored) in some {
                let contents = [&mut stored.trace.input, &mut stored.trace.output];
                for content in contents.into_iter().flatten() {
                    content.cut(MAX_TURN_CONTENT);
                    scratch.keep(content.as_str().len());
                }
            }
            left = others;
        }
        Ok(traces.into_iter().map(|(_, stored)| stored).collect())
    }

    /// Number of turns of a session that started before a time.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn turns_before(
        &self,
        project: &ProjectId,
        session: &str,
        at: Timestamp,
    ) -> Result<u64, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(0);
        };
        let sql =
            "SELECT COUNT(*) FROM traces WHERE tenant = $1 AND session_id = $2 AND started_at < $3";
        let args = [tenant.into(), Arg::from(session), at.as_micros().into()];
        let counts: Vec<(i64,)> = self.pool.select(sql, &args).await?;
        Ok(counts.first().map_or(0, |(n,)| n.unsigned_abs()))
    }

    /// The numbers of these traces among the turns of a session, from 1; traces outside the session are left
    /// out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn turn_numbers(
        &self,
        project: &ProjectId,
        session: &str,
        traces: &[TraceId],
    ) -> Result<HashMap<TraceId, u64>, Error> {
        if traces.is_empty() {
            return Ok(HashMap::new());
        }
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(HashMap::new());
        };
        // The index alone counts the earlier turns. Turns with the same start are ordered by id.
        let before = "SELECT COUNT(*) FROM traces w WHERE w.tenant = $1 AND w.session_id = $2 AND";
        let sql = format!(
            "SELECT t.trace_id, ({before} w.started_at < t.started_at) + \
                    ({before} w.started_at = t.started_at AND w.trace_id <= t.trace_id) AS n \
               FROM traces t WHERE t.tenant = $1 AND t.session_id = $2 AND t.trace_id IN ({})",
            value_list(traces.len(), 3)
        );
        let mut args: Vec<Arg<'_>> = vec![tenant.into(), session.into()];
        args.extend(traces.iter().map(|id| Arg::from(id.as_str())));
        let rows: Vec<(String, i64)> = self.pool.select(&sql, &args).await?;
        let numbers =
            rows.iter().map(|(id, n)| Ok((checked::<TraceId>("trace", id)?, n.unsigned_abs())));
        numbers.collect()
    }

    /// Whether the trace belongs to the session.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_has_trace(
        &self,
        project: &ProjectId,
        session: &str,
        trace: &TraceId,
    ) -> Result<bool, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(false);
        };
        self.folder.of_trace(tenant, trace).await?;
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(trace.as_str());
        let session = sql.bind_text(session);
        sql.push(&format!(
            "SELECT COUNT(*) FROM traces WHERE tenant = {number} AND trace_id = {id} AND session_id = {session}"
        ));
        Ok(0 < self.count(&sql.text, &sql.args).await?)
    }

    /// Whether an item of the run is linked to this trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_has_trace(
        &self,
        project: &ProjectId,
        run: &str,
        trace: &TraceId,
    ) -> Result<bool, Error> {
        let tenant = self.tenant(project).await?.unwrap_or_default();
        let mut sql = Sql::default();
        let project = sql.bind_text(project.as_str());
        let tenant = sql.bind(tenant.into());
        let run = sql.bind_text(run);
        let id = sql.bind_text(trace.as_str());
        sql.push(&format!(
            "SELECT (SELECT COUNT(*) FROM dataset_run_items \
                      WHERE project_id = {project} AND run_id = {run} AND trace_id = {id}) \
                  + (SELECT COUNT(*) FROM traces t JOIN observations o ON o.trace = t.number \
                      WHERE t.tenant = {tenant} AND t.trace_id = {id} AND o.experiment_id = {run} \
                        AND NOT EXISTS (SELECT 1 FROM dataset_run_deletions d \
                              WHERE d.project_id = {project} AND d.run_id = {run} \
                                AND o.started_at <= d.deleted_at))"
        ));
        Ok(0 < self.count(&sql.text, &sql.args).await?)
    }

    /// The media among these that are used in the trace, in a trace of the session, or in a trace of an item
    /// of the run.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn media_within(
        &self,
        project: &ProjectId,
        within: TraceScope<'_>,
        ids: &[&str],
    ) -> Result<HashSet<String>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(HashSet::new());
        };
        if ids.is_empty() {
            return Ok(HashSet::new());
        }
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        match within {
            TraceScope::Trace(trace) => {
                let trace = sql.bind_text(trace);
                sql.push(&format!(
                    "SELECT DISTINCT m.media_id FROM media_links m \
                      WHERE m.tenant = {number} AND m.trace_id = {trace}"
                ));
            }
            TraceScope::Session(session) => {
                let session = sql.bind_text(session);
                sql.push(&format!(
                    "SELECT DISTINCT m.media_id FROM traces t \
                       JOIN media_links m ON m.tenant = t.tenant AND m.trace_id = t.trace_id \
                      WHERE t.tenant = {number} AND t.session_id = {session}"
                ));
            }
            TraceScope::Run(run) => {
                let project = sql.bind_text(project.as_str());
                let run = sql.bind_text(run);
                sql.push(&format!(
                    "SELECT DISTINCT m.media_id FROM (SELECT trace_id FROM dataset_run_items \
                        WHERE project_id = {project} AND run_id = {run} \
                       UNION SELECT t.trace_id FROM observations o JOIN traces t ON t.number = o.trace \
                        WHERE o.tenant = {number} AND o.experiment_id = {run} \
                          AND NOT EXISTS (SELECT 1 FROM dataset_run_deletions d \
                                WHERE d.project_id = {project} AND d.run_id = {run} \
                                  AND o.started_at <= d.deleted_at)) r \
                       JOIN media_links m ON m.trace_id = r.trace_id \
                      WHERE m.tenant = {number}"
                ));
            }
        }
        let places: Vec<String> = ids.iter().map(|id| sql.bind_text(id)).collect();
        sql.push(&format!(" AND m.media_id IN ({})", places.join(", ")));
        let rows: Vec<(String,)> = self.pool.select(&sql.text, &sql.args).await?;
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }
}
