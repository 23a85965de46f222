//! From a batch to rows, before any lock is taken: serialising, compressing and folding run on the
//! caller's thread, several requests side by side.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use perpend_domain::batch::{Batch, Media, SpanLog};
use perpend_domain::fold::{fold, replaces};
use perpend_domain::ids::{ObservationId, TraceId};
use perpend_domain::observation::{Content, Observation};
use perpend_domain::score::NewScore;
use perpend_domain::trace::Trace;

use super::block;
use super::rollup::Changes;
use super::row;
use crate::Error;

/// One observation, its content apart.
#[derive(Debug)]
pub(super) struct PreparedRow {
    /// Without content.
    pub(super) observation: Observation,
    pub(super) detail: String,
    /// Empty when there is none.
    pub(super) content: String,
    /// Which block of the trace holds the content, and where.
    pub(super) block: Option<usize>,
    pub(super) place: i64,
    /// It holds all that is known: it replaces what stands, whichever of the two ends later.
    pub(super) is_whole: bool,
}

/// The part of a batch that belongs to one trace.
#[derive(Debug)]
pub(super) struct PreparedTrace {
    pub(super) id: TraceId,
    pub(super) rows: Vec<PreparedRow>,
    pub(super) blocks: Vec<Vec<u8>>,
    /// The trace, should these be all of its observations.
    pub(super) folded: Trace,
    pub(super) detail: String,
    pub(super) n_open: i64,
    pub(super) has_ended_root: bool,
    pub(super) has_marker: bool,
}

/// A batch ready to be written.
#[derive(Debug)]
pub struct Prepared {
    pub(super) traces: Vec<PreparedTrace>,
    pub(super) logs: Vec<SpanLog>,
    pub(super) media: Vec<Media>,
    pub(super) scores: Vec<NewScore>,
    /// What its observations add to the sums, should all of them be new.
    pub(super) sums: Changes<'static>,
    /// Memory it holds, roughly.
    pub(super) n_bytes: usize,
}

impl Prepared {
    /// Serialises, compresses and folds a batch: the part of writing that needs nothing but a CPU.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] when a part of it cannot be written as JSON.
    // Of several versions of one observation the right one is kept. Traces stand in the order of their
    // ids: two nodes that write the same ones wait for each other instead of deadlocking.
    pub fn new(batch: Batch) -> Result<Self, Error> {
        let mut traces: BTreeMap<TraceId, Vec<Observation>> = BTreeMap::new();
        let mut places: BTreeMap<(TraceId, ObservationId), usize> = BTreeMap::new();
        for observation in batch.observations {
            let of_trace = traces.entry(observation.trace_id.clone()).or_default();
            match places.entry((observation.trace_id.clone(), observation.id.clone())) {
                Entry::Vacant(slot) => {
                    slot.insert(of_trace.len());
                    of_trace.push(observation);
                }
                Entry::Occupied(slot) => {
                    let standing = &mut of_trace[*slot.get()];
                    if replaces(standing, &observation) {
                        *standing = observation;
                    }
                }
            }
        }
        let traces = traces
            .into_iter()
            .map(|(id, observations)| prepare_trace(id, observations))
            .collect::<Result<Vec<_>, _>>()?;
        let of_rows: usize = traces
            .iter()
            .flat_map(|trace| &trace.rows)
            .map(PreparedRow::n_bytes)
            .sum();
        let of_blocks: usize = traces.iter().flat_map(|t| &t.blocks).map(Vec::len).sum();
        let of_media: usize = batch.media.iter().map(|media| media.bytes.len()).sum();
        let others = 1_000 * (batch.logs.len() + batch.scores.len());
        let rows = traces.iter().flat_map(|trace| &trace.rows);
        let sums = Changes::of_batch(rows.map(|row| &row.observation));
        Ok(Self {
            sums,
            n_bytes: of_rows + of_blocks + of_media + others,
            traces,
            logs: batch.logs,
            media: batch.media,
            scores: batch.scores,
        })
    }

    /// Its observations hold all that is known of them.
    pub(super) fn replacing(mut self) -> Self {
        for row in self.traces.iter_mut().flat_map(|trace| &mut trace.rows) {
            row.is_whole = true;
        }
        self
    }
}

/// The JSON text of a content; empty when there is nothing in it.
pub(super) fn content_text(content: &Content) -> Result<String, Error> {
    if *content == Content::default() {
        return Ok(String::new());
    }
    block::to_json(content)
}

impl PreparedRow {
    fn new(observation: Observation, content: String) -> Result<Self, Error> {
        Ok(Self {
            detail: row::detail(&observation)?,
            content,
            observation,
            block: None,
            place: 0,
            is_whole: false,
        })
    }

    /// Memory it holds, roughly.
    pub(super) fn n_bytes(&self) -> usize {
        self.content.len() + self.detail.len() + 600
    }
}

fn pack(rows: &mut [PreparedRow]) -> Result<Vec<Vec<u8>>, Error> {
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < rows.len() {
        let mut n_bytes = 0;
        let mut end = start;
        while end < rows.len() && (end == start || n_bytes < block::FULL_BYTES) {
            n_bytes += rows[end].content.len();
            end += 1;
        }
        let members = &mut rows[start..end];
        let mut texts = Vec::new();
        for row in members.iter_mut().filter(|row| !row.content.is_empty()) {
            row.block = Some(blocks.len());
            row.place = texts.len() as i64;
            texts.push(row.content.as_str());
        }
        if !texts.is_empty() {
            blocks.push(block::pack(&texts)?);
        }
        start = end;
    }
    Ok(blocks)
}

fn prepare_trace(id: TraceId, mut observations: Vec<Observation>) -> Result<PreparedTrace, Error> {
    let n_open = observations.iter().filter(|o| o.end.is_none()).count() as i64;
    // The record of a trace says nothing about whether the work has begun, or is over.
    let ends_root = |o: &Observation| !o.is_trace_record() && o.is_root() && o.end.is_some();
    let has_ended_root = observations.iter().any(ends_root);
    let has_marker = observations.iter().any(|o| o.is_complete_marker);
    let contents = observations
        .iter_mut()
        .map(|own| content_text(&std::mem::take(&mut own.content)))
        .collect::<Result<Vec<_>, _>>()?;
    let folded = fold(&observations).ok_or_else(|| Error::Inconsistent {
        what: "batch",
        detail: "a trace without observations".to_owned(),
    })?;
    let rows = observations.into_iter().zip(contents);
    let mut rows = rows
        .map(|(own, content)| PreparedRow::new(own, content))
        .collect::<Result<Vec<_>, _>>()?;
    let blocks = pack(&mut rows)?;
    Ok(PreparedTrace {
        detail: row::trace_detail(&folded)?,
        id,
        rows,
        blocks,
        folded,
        n_open,
        has_ended_root,
        has_marker,
    })
}
