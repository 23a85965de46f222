//! Reads for `explain`, the trace page, the dead letters and the status of a rule.

use std::collections::{HashMap, HashSet};

use perpend_domain::evaluation::{Attempt, AttemptFailure, Execution, ExecutionState, Target};
use perpend_domain::ids::{ExecutionId, ProjectId, RuleId, SessionId, TraceId};
use perpend_domain::time::Timestamp;

use super::codes::Coded as _;
use super::row::{COLUMNS, ExecutionRow, id_bytes};
use crate::{Error, Ledger};
use perpend_db::{Sized, checked, query, value_list};
use perpend_domain::list::{Cursor, Page};

/// Number of executions of a rule in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateCount {
    /// An open state, or failed.
    pub state: ExecutionState,
    /// The count.
    pub n: u64,
}

const BY_ID: &str = " FROM executions WHERE project_id = $1 AND id = $2";
static AMONG: Sized = Sized::new(|n| {
    format!("SELECT id FROM executions WHERE project_id = $1 AND id IN ({})", value_list(n, 2))
});
const BY_TRACE: &str = " FROM executions WHERE project_id = $1 AND trace_id = $2 ORDER BY seq";
const BY_SESSION: &str = " FROM executions WHERE project_id = $1 AND session_id = $2 ORDER BY seq";
const BY_RUN: &str = "
     FROM executions
    WHERE project_id = $1 AND trace_id = '' AND observation_id = $2 AND session_id IS NULL ORDER BY seq";
const DEAD: &str = "
     FROM executions
    WHERE project_id = $1 AND state = 6 AND (finished_at, id) < ($2, $3)
    ORDER BY finished_at DESC, id DESC LIMIT $4";
const ATTEMPTS: &str = "
    SELECT number, ended_at, class, message, evaluator_version_id, cpu_us
      FROM attempts WHERE execution_seq = $1 ORDER BY seq";
/// Open executions and dead letters; the counters have the finished ones. `project_id || ''` keeps SQLite
/// from reading the finished executions of the project to find the open ones.
const STATES: &str = "
    SELECT state, COUNT(*) FROM executions
     WHERE state < 3 AND rule_id = $2 AND queue IN
           (SELECT id FROM execution_queues WHERE project_id = $1 AND rule_id = $2)
     GROUP BY state
    UNION ALL
    SELECT state, COUNT(*) FROM executions
     WHERE state = 3 AND project_id || '' = $1 AND rule_id = $2 GROUP BY state
    UNION ALL
    SELECT state, COUNT(*) FROM executions
     WHERE state = 6 AND project_id = $1 AND rule_id = $2 GROUP BY state";

perpend_db::record! {
    struct AttemptRow {
        number: i32,
        ended_at: i64,
        class: String,
        message: String,
        evaluator_version_id: Option<String>,
        cpu_us: i64,
    }
}

fn select(rest: &str) -> String {
    format!("SELECT {COLUMNS}{rest}")
}

impl Ledger {
    /// One execution.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn execution(
        &self,
        project: &ProjectId,
        id: &ExecutionId,
    ) -> Result<Option<Execution>, Error> {
        let Some(bytes) = id_bytes(id) else {
            return Ok(None);
        };
        let row: Option<ExecutionRow> = query(select(BY_ID))
            .bind(project.as_str())
            .bind(bytes.to_vec())
            .fetch_optional(&self.pool)
            .await?;
        row.map(TryInto::try_into).transpose()
    }

    /// The execution traces among these traces. The id of an execution is the id of its own trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn executions_among(
        &self,
        project: &ProjectId,
        traces: impl Iterator<Item = &TraceId>,
    ) -> Result<HashSet<TraceId>, Error> {
        let ids = traces.filter_map(|trace| {
            let id = ExecutionId::new(trace.as_str()).ok()?;
            Some((id_bytes(&id)?, trace))
        });
        let ids: HashMap<[u8; 16], &TraceId> = ids.collect();
        let id_bytes_list: Vec<&[u8; 16]> = ids.keys().collect();
        let mut rest = id_bytes_list.as_slice();
        let mut found = HashSet::new();
        while !rest.is_empty() {
            let (sql, n) = AMONG.for_up_to(rest.len().next_power_of_two());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let mut query = query(sql).bind(project.as_str());
            // The last chunk repeats ids to reuse a prepared statement.
            for id in some.iter().cycle().take(n) {
                query = query.bind(id.to_vec());
            }
            let rows: Vec<(Vec<u8>,)> = query.fetch_all(&self.pool).await?;
            let traces = rows.iter().filter_map(|(id,)| ids.get(id.as_slice()));
            found.extend(traces.map(|trace| (*trace).clone()));
            rest = later;
        }
        Ok(found)
    }

    /// All executions over a trace and its observations, in the order in which they were made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn trace_executions(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Vec<Execution>, Error> {
        let rows: Vec<ExecutionRow> = query(select(BY_TRACE))
            .bind(project.as_str())
            .bind(trace.as_str())
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// All executions over a session itself, in the order in which they were made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_executions(
        &self,
        project: &ProjectId,
        session: &SessionId,
    ) -> Result<Vec<Execution>, Error> {
        let rows: Vec<ExecutionRow> = query(select(BY_SESSION))
            .bind(project.as_str())
            .bind(session.as_str())
            .fetch_all(&self.pool)
            .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// All executions over a run of an experiment itself, in the order in which they were made.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn run_executions(
        &self,
        project: &ProjectId,
        run: &str,
    ) -> Result<Vec<Execution>, Error> {
        let rows: Vec<ExecutionRow> =
            query(select(BY_RUN)).bind(project.as_str()).bind(run).fetch_all(&self.pool).await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The executions over the trace of a target and its observations, or over a session or a run itself.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn executions_over(
        &self,
        project: &ProjectId,
        target: &Target,
    ) -> Result<Vec<Execution>, Error> {
        match target {
            Target::Observation(trace, _) | Target::Trace(trace) => {
                self.trace_executions(project, trace).await
            }
            Target::Session(session) => self.session_executions(project, session).await,
            Target::Run(run) => self.run_executions(project, run).await,
        }
    }

    /// Failed executions, the last first, after a position in the list.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn failed_executions(
        &self,
        project: &ProjectId,
        after: Option<(Timestamp, &ExecutionId)>,
        limit: u32,
    ) -> Result<Page<Execution>, Error> {
        let at = after.map_or(i64::MAX, |(at, _)| at.as_micros());
        let id = after.and_then(|(_, id)| id_bytes(id)).unwrap_or_default();
        let rows: Vec<ExecutionRow> = query(select(DEAD))
            .bind(project.as_str())
            .bind(at)
            .bind(id.to_vec())
            .bind(i64::from(limit) + 1)
            .fetch_all(&self.pool)
            .await?;
        let rows = rows.into_iter().map(TryInto::try_into);
        let rows = rows.collect::<Result<Vec<Execution>, _>>()?;
        Ok(Page::cut(rows, limit, |row| {
            Cursor::new(row.finished_at.unwrap_or(row.created_at), row.made.id.to_string())
        }))
    }

    /// Attempts of an execution without scores, in order.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn attempts(
        &self,
        project: &ProjectId,
        id: &ExecutionId,
    ) -> Result<Vec<Attempt>, Error> {
        let Some(execution) = self.execution(project, id).await? else {
            return Ok(Vec::new());
        };
        let rows: Vec<AttemptRow> =
            query(ATTEMPTS).bind(execution.seq).fetch_all(&self.pool).await?;
        let attempts = rows.into_iter().map(|row| {
            let version = row.evaluator_version_id;
            Ok(Attempt {
                number: row.number.unsigned_abs(),
                ended_at: Timestamp::from_micros(row.ended_at),
                failure: AttemptFailure {
                    class: checked("attempt", &row.class)?,
                    message: row.message,
                },
                version: version.map(|id| checked("attempt", &id)).transpose()?,
                cpu_us: row.cpu_us.unsigned_abs(),
            })
        });
        attempts.collect()
    }

    /// Number of open and failed executions of a rule, by state.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn rule_states(
        &self,
        project: &ProjectId,
        rule: &RuleId,
    ) -> Result<Vec<StateCount>, Error> {
        let rows: Vec<(i16, i64)> =
            query(STATES).bind(project.as_str()).bind(rule.as_str()).fetch_all(&self.pool).await?;
        let count = |(code, n): (i16, i64)| {
            Ok(StateCount { state: ExecutionState::of_code(code)?, n: n.unsigned_abs() })
        };
        rows.into_iter().map(count).collect()
    }
}
