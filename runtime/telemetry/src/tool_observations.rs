//! Tool calls of some traces, for the replay of a session.

use std::collections::{HashMap, HashSet};

use perpend_db::{Arg, checked, value_list};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::observation::{Content, ObservationKind};
use perpend_domain::telemetry::ToolObservations;

use super::contents::StoredAt;
use super::row::{OwnRow, READ_OWN};
use crate::{Error, Telemetry};

/// Bytes of unpacked contents that are read at a time.
const CONTENT_BYTES: usize = 4 << 20;

perpend_db::record! {
    struct ToolRow {
        own: OwnRow,
        trace_id: String,
        n: i64,
    }
}

/// CROSS JOIN fixes the join order for SQLite: it finds the rows of a trace by the index on traces.
fn of_traces(n_traces: usize, per_trace: u32) -> String {
    format!(
        "SELECT {READ_OWN}, w.trace_id, w.n FROM \
           (SELECT s.seq, t.trace_id, COUNT(*) OVER (PARTITION BY s.trace) AS n, \
                   ROW_NUMBER() OVER (PARTITION BY s.trace ORDER BY s.started_at, s.id) AS nth \
              FROM traces t CROSS JOIN observations s \
             WHERE t.tenant = $1 AND t.trace_id IN ({}) AND s.trace = t.number AND s.kind = '{}') w \
          CROSS JOIN observations o \
          WHERE o.seq = w.seq AND w.nth <= {per_trace} ORDER BY o.trace, w.nth",
        value_list(n_traces, 2),
        ObservationKind::Tool.as_str()
    )
}

impl Telemetry {
    /// The first tool calls of each of these traces, with content; traces without one are left out. All rows
    /// of the traces are read.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn tool_observations(
        &self,
        project: &ProjectId,
        traces: &[TraceId],
        per_trace: u32,
    ) -> Result<HashMap<TraceId, ToolObservations>, Error> {
        let mut found: HashMap<TraceId, ToolObservations> = HashMap::new();
        if traces.is_empty() {
            return Ok(found);
        }
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(found);
        };
        let mut args: Vec<Arg<'_>> = vec![tenant.into()];
        args.extend(traces.iter().map(|id| Arg::from(id.as_str())));
        let sql = of_traces(traces.len(), per_trace);
        let rows: Vec<ToolRow> = self.pool.select(&sql, &args).await?;
        let mut contents = self.tool_contents(&rows).await?;
        for row in &rows {
            let content = match contents.remove(&row.own.seq) {
                // Deleted since its row was read.
                Some(None) => continue,
                Some(Some(content)) => content,
                None => Content::default(),
            };
            let trace: TraceId = checked("trace", &row.trace_id)?;
            let mut tool_call = row.own.observation(trace.clone())?;
            tool_call.content = content;
            let of_trace = found.entry(trace).or_default();
            of_trace.n = row.n.unsigned_abs();
            of_trace.observations.push(tool_call);
        }
        Ok(found)
    }

    /// The contents of these rows by their number, as many as are read at a time; `None` for a row that was
    /// deleted in the meantime.
    async fn tool_contents(
        &self,
        rows: &[ToolRow],
    ) -> Result<HashMap<i64, Option<Content>>, Error> {
        let blocks: HashSet<i64> = rows.iter().filter_map(|row| row.own.payload).collect();
        let mut sizes = self.block_sizes(blocks).await?;
        let mut n_left = CONTENT_BYTES;
        let mut fitting: HashSet<i64> = HashSet::new();
        for block in rows.iter().filter_map(|row| row.own.payload) {
            if let Some(size) = sizes.remove(&block).filter(|size| *size <= n_left) {
                n_left -= size;
                fitting.insert(block);
            }
        }
        let own = rows.iter().map(|row| &row.own);
        let read: Vec<StoredAt> = own
            .filter(|own| own.payload.is_none_or(|block| fitting.contains(&block)))
            .map(StoredAt::from)
            .collect();
        let contents = self.contents(&read).await?;
        Ok(read.iter().map(|own| own.seq).zip(contents).collect())
    }
}
