//! A trace of any size, read in parts: memory is bounded by one part, whatever the number of observations.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::text_search::SearchCursor;

use super::block;
use super::contents::StoredAt;
use super::rollup::IS_OBSERVATION;
use super::row::{OwnRow, READ_OWN, READ_TRACE, TraceRow};
use crate::{Error, Telemetry};
use perpend_db::{Sized, query, query_scalar, value_list};
use perpend_domain::telemetry::{StoredObservation, TraceAttributes};

/// Rows that are read at a time, without their contents.
const ROWS: usize = 256;
/// Bytes of unpacked contents of one part. A single observation may have more.
const PART_BYTES: usize = 2 << 20;

static ROWS_BY_SEQ: Sized = Sized::new(|n| {
    format!("SELECT {READ_OWN} FROM observations o WHERE o.seq IN ({})", value_list(n, 1))
});
/// The head of a block contains its unpacked size.
static HEADS: Sized = Sized::new(|n| {
    format!(
        "SELECT seq, substr(body, 1, {}) FROM payloads WHERE seq IN ({})",
        block::HEAD_BYTES,
        value_list(n, 1)
    )
});

/// A position in the observations of a trace, made by [`Telemetry::read_trace`].
///
/// The set of observations and their order are fixed at the start of the read: each comes once. Their data
/// are those at the time when their part is read; an observation that was deleted by then is left out. No
/// transaction is held between two parts, so a slow reader delays no other.
#[derive(Debug)]
pub struct TraceReader {
    trace: TraceId,
    /// The number of the trace in other tables.
    pub(super) number: i64,
    of_trace: Arc<TraceAttributes>,
    /// Rows that are not read yet.
    left: VecDeque<i64>,
    /// Rows that are read and not returned yet.
    rows: VecDeque<OwnRow>,
}

impl TraceReader {
    /// Whether all parts were read.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.n_left() == 0
    }

    /// Number of observations that were not returned yet.
    pub(super) fn n_left(&self) -> usize {
        self.left.len() + self.rows.len()
    }
}

impl Telemetry {
    /// Starts to read the observations of a trace by start and id; `None` if the project has no such trace.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn read_trace(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Option<TraceReader>, Error> {
        let Some(of) = self.read_row(project, trace).await? else {
            return Ok(None);
        };
        let sql = "SELECT seq FROM observations WHERE trace = $1 ORDER BY started_at, id";
        let left: Vec<i64> = query_scalar(sql).bind(of.number).fetch_all(&self.pool).await?;
        Ok(Some(TraceReader {
            trace: trace.clone(),
            number: of.number,
            of_trace: Arc::new(of.of_trace()?),
            left: left.into(),
            rows: VecDeque::new(),
        }))
    }

    /// The same after a position and without the record of the trace, which is not an observation; and the number
    /// of observations of the trace.
    pub(super) async fn read_observations(
        &self,
        project: &ProjectId,
        trace: &TraceId,
        after: Option<&SearchCursor>,
    ) -> Result<Option<(TraceReader, usize)>, Error> {
        let Some(of) = self.read_row(project, trace).await? else {
            return Ok(None);
        };
        let steps = format!("FROM observations o WHERE o.trace = $1 AND {IS_OBSERVATION}");
        let order = "ORDER BY o.started_at, o.id";
        let (left, n_before): (Vec<i64>, i64) = match after {
            None => {
                let all = query_scalar(format!("SELECT o.seq {steps} {order}"));
                (all.bind(of.number).fetch_all(&self.pool).await?, 0)
            }
            Some((start, id)) => {
                let place = "(o.started_at, o.id)";
                let bound = |sql: String| {
                    let query = query_scalar(sql).bind(of.number);
                    query.bind(start.as_micros()).bind(id.as_str())
                };
                let left = bound(format!("SELECT o.seq {steps} AND {place} > ($2, $3) {order}"));
                let before = bound(format!("SELECT COUNT(*) {steps} AND {place} <= ($2, $3)"));
                (left.fetch_all(&self.pool).await?, before.fetch_one(&self.pool).await?)
            }
        };
        let n_steps = left.len() + usize::try_from(n_before).unwrap_or_default();
        let reader = TraceReader {
            trace: trace.clone(),
            number: of.number,
            of_trace: Arc::new(of.of_trace()?),
            left: left.into(),
            rows: VecDeque::new(),
        };
        Ok(Some((reader, n_steps)))
    }

    async fn read_row(
        &self,
        project: &ProjectId,
        trace: &TraceId,
    ) -> Result<Option<TraceRow>, Error> {
        let Some(tenant) = self.tenant(project).await? else {
            return Ok(None);
        };
        let sql =
            format!("SELECT {READ_TRACE} FROM traces t WHERE t.tenant = $1 AND t.trace_id = $2");
        let found = query(sql).bind(tenant).bind(trace.as_str());
        found.fetch_optional::<TraceRow>(&self.pool).await
    }

    /// The next observations, with content; empty at the end.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn next_observations(
        &self,
        reader: &mut TraceReader,
    ) -> Result<Vec<StoredObservation>, Error> {
        while reader.rows.is_empty() {
            let n = ROWS.min(reader.left.len());
            if n == 0 {
                return Ok(Vec::new());
            }
            let seqs: Vec<i64> = reader.left.drain(..n).collect();
            reader.rows = self.rows_by_seq(&seqs).await?;
        }
        let places: Vec<StoredAt> = reader.rows.iter().map(StoredAt::from).collect();
        let contents = self.contents_up_to(&places, PART_BYTES).await?;
        let rows: Vec<OwnRow> = reader.rows.drain(..contents.len()).collect();
        let mut stored = Vec::with_capacity(rows.len());
        for (row, content) in rows.iter().zip(contents) {
            // Deleted after its row was read.
            let Some(content) = content else { continue };
            let mut one = row.stored(reader.trace.clone(), Arc::clone(&reader.of_trace))?;
            one.observation.content = content;
            stored.push(one);
        }
        Ok(stored)
    }

    /// The existing rows, in this order.
    async fn rows_by_seq(&self, seqs: &[i64]) -> Result<VecDeque<OwnRow>, Error> {
        let mut by_seq: HashMap<i64, OwnRow> = HashMap::with_capacity(seqs.len());
        let mut rest = seqs;
        while !rest.is_empty() {
            let (sql, n) = ROWS_BY_SEQ.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let query = some.iter().fold(query(sql), |query, seq| query.bind(*seq));
            let rows: Vec<OwnRow> = query.fetch_all(&self.pool).await?;
            by_seq.extend(rows.into_iter().map(|row| (row.seq, row)));
            rest = later;
        }
        Ok(seqs.iter().filter_map(|seq| by_seq.remove(seq)).collect())
    }

    /// Unpacked size of each of these blocks.
    pub(super) async fn block_sizes(
        &self,
        blocks: HashSet<i64>,
    ) -> Result<HashMap<i64, usize>, Error> {
        let blocks: Vec<i64> = blocks.into_iter().collect();
        let mut sizes: HashMap<i64, usize> = HashMap::with_capacity(blocks.len());
        let mut rest = blocks.as_slice();
        while !rest.is_empty() {
            let (sql, n) = HEADS.for_up_to(rest.len());
            let (some, later) = rest.split_at(n.min(rest.len()));
            let query = some.iter().fold(query(sql), |query, seq| query.bind(*seq));
            let heads: Vec<(i64, Vec<u8>)> = query.fetch_all(&self.pool).await?;
            sizes.extend(heads.iter().map(|(seq, head)| (*seq, block::size(head))));
            rest = later;
        }
        Ok(sizes)
    }
}
