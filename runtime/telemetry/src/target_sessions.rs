//! Reads of sessions for the engine: the sessions of traces, their progress and their data.

use perpend_domain::ids::{ProjectId, SessionId, TraceId};
use perpend_domain::observation::{Observation, ObservationKind};
use perpend_domain::session::Session;
use perpend_domain::telemetry::Progress;
use perpend_domain::time::Timestamp;

use crate::{Error, Telemetry};
use perpend_db::{Arg, Sql, checked, value_list};

/// Traces or sessions per statement.
const PER_STATEMENT: usize = 100;
/// Traces that are read at a time, also with the content of their roots.
const PAGE: u32 = 200;
const PAGE_READ: u32 = 20;

perpend_db::record! {
    struct MemberRow {
        trace_id: String,
        session_id: Option<String>,
    }
}

perpend_db::record! {
    struct ProgressRow {
        session_id: String,
        first_seen: i64,
        last_seen: i64,
        n_observations: i64,
    }
}

impl Telemetry {
    /// The sessions of traces. Invalid ids, which old clients may have sent, are skipped.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn sessions_of(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
    ) -> Result<Vec<(TraceId, SessionId)>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(Vec::new());
        };
        for trace in traces {
            self.folder.of_trace(tenant, trace).await?;
        }
        let mut sessions = Vec::new();
        for some in traces.chunks(PER_STATEMENT) {
            // No condition on the session: SQLite would read all traces with a session.
            let sql = format!(
                "SELECT t.trace_id AS trace_id, t.session_id AS session_id FROM traces t \
                  WHERE t.tenant = $1 AND t.trace_id IN ({})",
                value_list(some.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![tenant.into()];
            args.extend(some.iter().map(|id| Arg::from(id.as_str())));
            for row in self.pool.select::<MemberRow>(&sql, &args).await? {
                let session = row.session_id.map(|id| SessionId::new(&id));
                if let Some(Ok(session)) = session {
                    sessions.push((checked("trace", &row.trace_id)?, session));
                }
            }
        }
        Ok(sessions)
    }

    /// The progress of these sessions; sessions without traces are left out.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_progress(
        &self,
        project: &ProjectId,
        ids: &[SessionId],
    ) -> Result<Vec<(SessionId, Progress)>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(PER_STATEMENT) {
            let sql = format!(
                "SELECT t.session_id AS session_id, MIN(t.first_seen) AS first_seen, \
                        MAX(t.last_seen) AS last_seen, \
                        CAST(SUM(t.n_observations) AS BIGINT) AS n_observations \
                   FROM traces t WHERE t.tenant = $1 AND t.session_id IN ({}) GROUP BY t.session_id",
                value_list(some.len(), 2)
            );
            let mut args: Vec<Arg<'_>> = vec![tenant.into()];
            args.extend(some.iter().map(|id| Arg::from(id.as_str())));
            for row in self.pool.select::<ProgressRow>(&sql, &args).await? {
                let progress = Progress {
                    first_seen: Timestamp::from_micros(row.first_seen),
                    last_seen: Timestamp::from_micros(row.last_seen),
                    has_root: false,
                    root_ended_at: None,
                    n_open: 0,
                    has_marker: false,
                    n_observations: u32::try_from(row.n_observations).unwrap_or(u32::MAX),
                };
                found.push((checked("session", &row.session_id)?, progress));
            }
        }
        Ok(found)
    }

    /// The traces of a session, by start, then id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn session_trace_ids(
        &self,
        project: &ProjectId,
        id: &SessionId,
    ) -> Result<Vec<TraceId>, Error> {
        let Some(tenant) = self.folded_tenant(project).await? else {
            return Ok(Vec::new());
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(id.as_str());
        sql.push(&format!(
            "SELECT t.trace_id FROM traces t WHERE t.tenant = {number} AND t.session_id = {id} \
             ORDER BY t.started_at, t.trace_id"
        ));
        let rows: Vec<(String,)> = self.pool.select(&sql.text, &sql.args).await?;
        rows.iter().map(|(id,)| checked("trace", id)).collect()
    }

    /// A session, with the metadata of its traces if requested; `None` if it has no traces.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn target_session(
        &self,
        project: &ProjectId,
        id: &SessionId,
        with_metadata: bool,
    ) -> Result<Option<Session>, Error> {
        let limit = if with_metadata { PAGE_READ } else { PAGE };
        let mut session = Session::new(id.clone());
        let mut after: Option<(Timestamp, TraceId)> = None;
        loop {
            let page =
                self.session_traces(project, id.as_str(), after.as_ref(), (limit, with_metadata));
            let page = page.await?;
            for stored in &page {
                session.add(&stored.trace);
            }
            let is_last = page.len() < limit as usize;
            match page.into_iter().next_back().filter(|_| !is_last) {
                Some(last) => after = Some((last.trace.timestamp, last.trace.id)),
                None => return Ok((0 < session.n_traces).then_some(session)),
            }
        }
    }

    /// The last generation of a trace, with content: by start, then id.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn last_generation(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Option<Observation>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        let mut sql = Sql::default();
        let number = sql.bind(tenant.into());
        let id = sql.bind_text(trace.as_str());
        sql.push(&format!(
            "SELECT o.id FROM traces t JOIN observations o ON o.trace = t.number \
              WHERE t.tenant = {number} AND t.trace_id = {id} AND o.kind = '{}' \
              ORDER BY o.started_at DESC, o.id DESC LIMIT 1",
            ObservationKind::Generation.as_str()
        ));
        let rows: Vec<(String,)> = self.pool.select(&sql.text, &sql.args).await?;
        let Some((id,)) = rows.first() else {
            return Ok(None);
        };
        let keys = [(trace.clone(), checked("observation", id)?)];
        Ok(self.target_observations(project, &keys, true).await?.pop())
    }
}
