//! From a batch to rows, before any lock is taken: serialising, compressing and folding run on the thread of
//! the caller, for several requests in parallel.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

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

/// One observation, with its content apart.
#[derive(Debug)]
pub(super) struct PreparedRow {
    /// Without content.
    pub(super) observation: Observation,
    pub(super) detail: String,
    /// Empty if the observation has none.
    pub(super) content: String,
    /// Index of the block of the trace that holds the content, and the position in it.
    pub(super) block: Option<usize>,
    pub(super) place: i64,
    /// Whether the row is complete: it replaces the stored version even if that one ends later.
    pub(super) is_whole: bool,
}

/// The part of a batch that belongs to one trace.
#[derive(Debug)]
pub(super) struct PreparedTrace {
    pub(super) id: TraceId,
    pub(super) rows: Vec<PreparedRow>,
    pub(super) blocks: Vec<Vec<u8>>,
    /// The trace as folded if it has no other observations.
    pub(super) folded: Trace,
    pub(super) detail: String,
    pub(super) n_open: i64,
    pub(super) has_ended_root: bool,
    pub(super) has_marker: bool,
}

/// A batch ready to be written.
#[derive(Debug)]
pub struct PreparedBatch {
    pub(super) traces: Vec<PreparedTrace>,
    pub(super) logs: Vec<SpanLog>,
    pub(super) media: Vec<Media>,
    pub(super) scores: Vec<NewScore>,
    /// Changes of the sums if all observations are new.
    pub(super) sums: Changes<'static>,
    /// Approximate memory in bytes.
    pub(super) n_bytes: usize,
}

/// Memory for the columns of a row, its position in the lists, and its part of the sums.
const BYTES_PER_ROW: usize = 2 * size_of::<Observation>() + 1_000;
/// Memory of a trace in addition to its rows.
const BYTES_PER_TRACE: usize = 2 * size_of::<PreparedTrace>() + 500;

/// An observation whose content is already text: the parsed tree is not kept.
#[derive(Debug)]
pub struct SerializedObservation {
    /// Without content.
    observation: Observation,
    detail: String,
    content: String,
}

impl SerializedObservation {
    /// Serialises an observation.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if a part of it cannot be written as JSON.
    pub fn new(mut observation: Observation) -> Result<Self, Error> {
        let content = content_text(&std::mem::take(&mut observation.content))?;
        Ok(Self { detail: row::detail(&observation)?, observation, content })
    }
}

/// The observations of one trace, each with its detail and its content.
#[derive(Debug, Default)]
struct CollectedTrace {
    observations: Vec<Observation>,
    texts: Vec<(String, String)>,
}

/// Collects the observations of a batch.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    traces: BTreeMap<TraceId, CollectedTrace>,
    places: HashMap<(TraceId, ObservationId), usize>,
    /// Log records of the batch.
    pub logs: Vec<SpanLog>,
    /// Media of the batch.
    pub media: Vec<Media>,
    /// Scores of the batch.
    pub scores: Vec<NewScore>,
}

impl BatchBuilder {
    /// Memory of this row in the batch until the batch is written, including compressed blocks.
    #[must_use]
    pub fn n_bytes_of(&self, row: &SerializedObservation) -> usize {
        let of_trace = match self.traces.contains_key(&row.observation.trace_id) {
            true => 0,
            false => BYTES_PER_TRACE,
        };
        // The detail exists as text, in the fields of the observation and in those of the trace.
        of_trace + BYTES_PER_ROW + 3 * row.detail.len() + 2 * row.content.len()
    }

    /// Adds an observation. Of several versions the winning one is kept.
    pub fn add(&mut self, row: SerializedObservation) {
        let SerializedObservation { observation, detail, content } = row;
        let of_trace = self.traces.entry(observation.trace_id.clone()).or_default();
        let id = (observation.trace_id.clone(), observation.id.clone());
        match self.places.entry(id) {
            Entry::Vacant(slot) => {
                slot.insert(of_trace.observations.len());
                of_trace.observations.push(observation);
                of_trace.texts.push((detail, content));
            }
            Entry::Occupied(slot) => {
                let existing = &mut of_trace.observations[*slot.get()];
                let texts = &mut of_trace.texts[*slot.get()];
                let has_other_content = *existing == observation && texts.1 != content;
                if has_other_content || replaces(existing, &observation) {
                    *existing = observation;
                    *texts = (detail, content);
                }
            }
        }
    }

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.traces.is_empty() && self.scores.is_empty() && self.logs.is_empty()
    }

    /// Compresses and folds the collected observations.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if a part of it cannot be written as JSON.
    // Traces are in the order of their ids, so that two nodes that write the same traces do not deadlock.
    pub fn finish(self) -> Result<PreparedBatch, Error> {
        drop(self.places);
        let traces = self
            .traces
            .into_iter()
            .map(|(id, of_trace)| prepare_trace(id, of_trace))
            .collect::<Result<Vec<_>, _>>()?;
        let of_rows: usize =
            traces.iter().flat_map(|trace| &trace.rows).map(PreparedRow::n_bytes).sum();
        let of_blocks: usize = traces.iter().flat_map(|t| &t.blocks).map(Vec::len).sum();
        let of_media: usize = self.media.iter().map(|media| media.bytes.len()).sum();
        let of_logs: usize = self.logs.iter().map(SpanLog::memory).sum();
        let of_scores: usize = self.scores.iter().map(NewScore::memory).sum();
        let rows = traces.iter().flat_map(|trace| &trace.rows);
        let sums = Changes::of_batch(rows.map(|row| &row.observation));
        Ok(PreparedBatch {
            sums,
            n_bytes: of_rows + of_blocks + of_media + of_logs + of_scores,
            traces,
            logs: self.logs,
            media: self.media,
            scores: self.scores,
        })
    }
}

impl PreparedBatch {
    /// The traces of the batch.
    pub fn trace_ids(&self) -> impl Iterator<Item = &TraceId> {
        let of_logs = self.logs.iter().map(|log| &log.trace_id);
        self.traces.iter().map(|trace| &trace.id).chain(of_logs)
    }

    /// The number of its observations.
    #[must_use]
    pub fn n_observations(&self) -> usize {
        self.traces.iter().map(|trace| trace.rows.len()).sum()
    }

    /// Removes the observations of these traces; returns their number.
    pub fn remove_traces(&mut self, traces: &HashSet<TraceId>) -> usize {
        let n_before = self.n_observations();
        self.traces.retain(|trace| !traces.contains(&trace.id));
        self.logs.retain(|log| !traces.contains(&log.trace_id));
        let rows = self.traces.iter().flat_map(|trace| &trace.rows);
        self.sums = Changes::of_batch(rows.map(|row| &row.observation));
        n_before - self.n_observations()
    }

    /// Serialises, compresses and folds a batch: the part of a write that needs only CPU.
    ///
    /// # Errors
    /// [`Error::Inconsistent`] if a part of it cannot be written as JSON.
    pub(super) fn new(batch: Batch) -> Result<Self, Error> {
        let mut preparing = BatchBuilder {
            logs: batch.logs,
            media: batch.media,
            scores: batch.scores,
            ..BatchBuilder::default()
        };
        for observation in batch.observations {
            preparing.add(SerializedObservation::new(observation)?);
        }
        preparing.finish()
    }

    /// Marks its observations as complete.
    pub(super) fn replacing(mut self) -> Self {
        for row in self.traces.iter_mut().flat_map(|trace| &mut trace.rows) {
            row.is_whole = true;
        }
        self
    }
}

/// The JSON text of a content; empty for an empty content.
pub(super) fn content_text(content: &Content) -> Result<String, Error> {
    if *content == Content::default() {
        return Ok(String::new());
    }
    block::to_json(content)
}

impl PreparedRow {
    /// Approximate memory in bytes.
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

fn prepare_trace(id: TraceId, of_trace: CollectedTrace) -> Result<PreparedTrace, Error> {
    let CollectedTrace { observations, texts } = of_trace;
    let n_open = observations.iter().filter(|o| o.end.is_none()).count() as i64;
    // The record of a trace does not show whether the work has started or ended.
    let ends_root = |o: &Observation| !o.is_trace_record() && o.is_root() && o.end.is_some();
    let has_ended_root = observations.iter().any(ends_root);
    let has_marker = observations.iter().any(|o| o.is_complete_marker);
    let folded = fold(&observations).ok_or_else(|| Error::Inconsistent {
        what: "batch",
        detail: "a trace without observations".to_owned(),
    })?;
    let rows = observations.into_iter().zip(texts);
    let mut rows: Vec<PreparedRow> = rows
        .map(|(observation, (detail, content))| PreparedRow {
            observation,
            detail,
            content,
            block: None,
            place: 0,
            is_whole: false,
        })
        .collect();
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
