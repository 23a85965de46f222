//! State that a transaction collects from its batches: their traces, which get numbers at its start, and rows
//! that are written once at its end.
//!
//! Invariant: **one order.** Traces and sums are written in the order of their keys in every transaction, so
//! that two nodes that write the same rows do not deadlock. If they still do, over an observation that is
//! replaced, the whole transaction runs again.

use std::collections::{BTreeMap, HashMap, HashSet};

use perpend_domain::ids::TraceId;
use perpend_domain::time::Timestamp;

use super::prepare::{PreparedBatch, PreparedTrace};
use super::rollup::Changes;
use super::row;
use crate::Error;
use perpend_db::{Arg, ColumnType, Sized, Tx, value_list, value_rows};
use perpend_db::{NumberedTable, Numbers};

const N_TRACE_COLUMNS: usize = 10 + row::TRACE_COMPUTED.len() + 1;

static INSERT_TRACES: Sized = Sized::repeatable(|n| {
    format!(
        "INSERT INTO traces (number, tenant, trace_id, revision, stale, first_seen, last_seen, \
         root_ended_at, n_open, has_marker, {}, detail) VALUES {} \
         ON CONFLICT (tenant, trace_id) DO NOTHING",
        row::TRACE_COMPUTED.join(", "),
        value_rows(n, N_TRACE_COLUMNS, 1)
    )
});
static FIND_TRACES: Sized = Sized::new(|n| {
    format!(
        "SELECT number, trace_id FROM traces WHERE tenant = $1 AND trace_id IN ({})",
        value_list(n, 2)
    )
});
const STANDING: &str = "SELECT number FROM traces WHERE number >= $1 AND number <= $2";
const TOUCH_TRACE: &str = "
    UPDATE traces
       SET revision = revision + 1, stale = 1,
           last_seen = CASE WHEN $2 > last_seen THEN $2 ELSE last_seen END,
           root_ended_at = COALESCE(root_ended_at, $3),
           n_open = n_open + $5,
           has_marker = CASE WHEN $4 = 1 THEN 1 ELSE has_marker END
     WHERE number = $1";

/// The number of a trace, and the batch of the transaction that inserted it, if any.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceNumber {
    pub(super) number: i64,
    pub(super) made_by: Option<usize>,
}

/// Changes of an existing trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceChange {
    pub(super) number: i64,
    pub(super) at: Timestamp,
    pub(super) root_ended: bool,
    pub(super) has_marker: bool,
    /// An upper bound until the trace is folded: completeness may be late, but not early.
    pub(super) n_open: i64,
}

/// A trace of a batch that gets a number.
struct TracePart<'b> {
    tenant: i64,
    trace: &'b PreparedTrace,
    batch: usize,
    now: Timestamp,
}

/// State that a transaction collects from its batches.
#[derive(Debug, Default)]
pub(super) struct TransactionState<'b> {
    numbers: HashMap<(i64, &'b str), TraceNumber>,
    touched: BTreeMap<(i64, TraceId), TraceChange>,
    pub(super) rollups: Changes<'b>,
    pub(super) fresh: Numbers,
    /// By tenant, for tenants that were checked: whether it has stored log records.
    pub(super) has_logs: HashMap<i64, bool>,
}

impl<'b> TransactionState<'b> {
    /// Assigns a number to every trace of all batches, each given with its tenant and its time. A new trace
    /// is inserted completely, as folded from the first batch that has it.
    pub(super) async fn number(
        &mut self,
        tx: &mut Tx,
        batches: impl Iterator<Item = (i64, &'b PreparedBatch, Timestamp)>,
    ) -> Result<(), Error> {
        let mut parts: Vec<TracePart<'b>> = Vec::new();
        for (batch, (tenant, prepared, now)) in batches.enumerate() {
            parts.extend(prepared.traces.iter().map(|trace| TracePart {
                tenant,
                trace,
                batch,
                now,
            }));
        }
        parts.sort_by(|a, b| (a.tenant, &a.trace.id).cmp(&(b.tenant, &b.trace.id)));
        parts.dedup_by(|later, first| {
            (later.tenant, &later.trace.id) == (first.tenant, &first.trace.id)
        });
        self.insert(tx, &parts).await?;
        let old: Vec<&TracePart<'b>> = parts
            .iter()
            .filter(|part| self.number_of(part.tenant, &part.trace.id).is_none())
            .collect();
        for of_tenant in old.chunk_by(|a, b| a.tenant == b.tenant) {
            self.find(tx, of_tenant).await?;
        }
        Ok(())
    }

    async fn insert(&mut self, tx: &mut Tx, parts: &[TracePart<'b>]) -> Result<(), Error> {
        let numbers = self.fresh.take(tx, NumberedTable::Traces, parts.len()).await?;
        let rows: Vec<(i64, &TracePart<'b>)> = numbers.iter().copied().zip(parts).collect();
        let n_made = tx
            .execute_for(&INSERT_TRACES, &rows, |args, (number, part)| {
                let TracePart { tenant, trace, now, .. } = *part;
                args.extend([
                    (*number).into(),
                    (*tenant).into(),
                    trace.id.as_str().into(),
                    1_i64.into(),
                    0_i64.into(),
                    now.as_micros().into(),
                    now.as_micros().into(),
                    trace.has_ended_root.then(|| now.as_micros()).into(),
                    trace.n_open.into(),
                    trace.has_marker.into(),
                ]);
                row::push_trace_args(args, &trace.folded, &trace.detail);
            })
            .await?;
        let are_all_made = n_made as usize == rows.len();
        let made = match are_all_made || n_made == 0 {
            true => HashSet::new(),
            false => tx.numbers_among(STANDING, &numbers).await?,
        };
        for (number, part) in rows {
            if are_all_made || made.contains(&number) {
                let made_by = Some(part.batch);
                let key = (part.tenant, part.trace.id.as_str());
                self.numbers.insert(key, TraceNumber { number, made_by });
            }
        }
        Ok(())
    }

    /// The numbers of existing traces, all of one tenant.
    async fn find(&mut self, tx: &mut Tx, parts: &[&TracePart<'b>]) -> Result<(), Error> {
        let mut rest = parts;
        while let Some(first) = rest.first() {
            let (sql, n) = FIND_TRACES.for_up_to(rest.len());
            let (chunk, later) = rest.split_at(n);
            let mut args: Vec<Arg<'_>> = vec![first.tenant.into()];
            args.extend(chunk.iter().map(|part| Arg::from(part.trace.id.as_str())));
            let found = tx.rows(sql, &args, &[ColumnType::Int, ColumnType::Text]).await?;
            // A trace that existed between the two statements is missing: another node is deleting it.
            if found.len() < n {
                return Err(Error::Unavailable("a trace is being deleted".to_owned()));
            }
            for cells in found {
                let id = cells[1].text()?;
                let key = |part: &&TracePart<'b>| part.trace.id.as_str().cmp(id);
                let Ok(at) = chunk.binary_search_by(key) else {
                    continue;
                };
                let number = TraceNumber { number: cells[0].int()?, made_by: None };
                let id = chunk[at].trace.id.as_str();
                self.numbers.insert((first.tenant, id), number);
            }
            rest = later;
        }
        Ok(())
    }

    /// The number of a trace of one of the batches.
    pub(super) fn number_of(&self, tenant: i64, id: &TraceId) -> Option<TraceNumber> {
        self.numbers.get(&(tenant, id.as_str())).copied()
    }

    /// The number of any trace; 0 if it does not exist.
    pub(super) async fn look_up(tx: &mut Tx, tenant: i64, id: &TraceId) -> Result<i64, Error> {
        let (sql, _) = FIND_TRACES.for_up_to(1);
        tx.integer(sql, &[tenant.into(), id.as_str().into()]).await
    }

    /// Records that a trace has changed.
    pub(super) fn touch(&mut self, tenant: i64, id: TraceId, touch: TraceChange) {
        let known = self.touched.entry((tenant, id)).or_insert(TraceChange { n_open: 0, ..touch });
        known.at = known.at.max(touch.at);
        known.root_ended |= touch.root_ended;
        known.has_marker |= touch.has_marker;
        known.n_open += touch.n_open;
    }

    /// Writes the collected rows. Only the commit may follow in the transaction.
    pub(super) async fn write(self, tx: &mut Tx) -> Result<(), Error> {
        for touch in self.touched.into_values() {
            let args: [Arg<'_>; 5] = [
                touch.number.into(),
                touch.at.as_micros().into(),
                touch.root_ended.then(|| touch.at.as_micros()).into(),
                touch.has_marker.into(),
                touch.n_open.into(),
            ];
            if tx.execute(TOUCH_TRACE, &args).await? == 0 {
                // The new observations would be unreachable.
                return Err(Error::Unavailable("a trace is being deleted".to_owned()));
            }
        }
        self.rollups.write(tx).await
    }
}
