//! The observations of a trace as rows in reading order, and the visible rows while some are collapsed.
//!
//! An [`Outline`] is built once per state of a trace and shared; an [`OutlineView`] is built per request. Both are walked
//! without recursion, so neither depth nor width of a trace is limited.
//!
//! Parents may be missing and may form cycles: an observation without a known parent and every member of a cycle is placed
//! on the top level, so that none is hidden.

mod align;
mod axis;
mod cache;
mod critical;
mod map;
mod peaks;
mod place;
mod runs;
mod view;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::cost::CostSum;
use crate::observation::{Level, ObservationKind};
use crate::telemetry::ObservationSummary;
use crate::time::Timestamp;

pub use align::{RowPair, align};
pub use axis::{Axis, Bar, Tick};
pub use cache::{HeapSize, OutlineCache, TraceCache};
pub use critical::{CriticalPath, critical_path};
pub use map::Minimap;
pub use peaks::highest;
pub use place::ParentFault;
pub use runs::RowGroup;
pub use view::{FoldTarget, Folds, LineBucket, MAX_FOLDS, OutlineLine, OutlineView};

/// Similar neighbours are grouped in traces with more rows than this.
pub const GROUPED_ABOVE: usize = 2_000;

/// One observation. Positions are those of [`Outline::rows`].
#[derive(Clone, Debug, PartialEq)]
pub struct OutlineNode {
    id: Box<str>,
    name: u32,
    model: Option<u32>,
    /// The parent row; `None` on the top level.
    pub parent: Option<u32>,
    /// 0 on the top level.
    pub depth: u32,
    /// Number of descendants. They directly follow the row.
    pub n_below: u32,
    /// Descendants with the level `ERROR`.
    pub n_errors_below: u32,
    /// Set only on the top level.
    pub parent_fault: Option<ParentFault>,
    /// Its kind.
    pub kind: ObservationKind,
    /// Its level.
    pub level: Level,
    /// Its start.
    pub start: Timestamp,
    /// Its end; absent while it runs.
    pub end: Option<Timestamp>,
    /// When the first token of its answer arrived.
    pub first_token: Option<Timestamp>,
    /// All its tokens, when any were counted.
    pub tokens: Option<u64>,
    /// US dollars, when known.
    pub cost: Option<f64>,
    /// Whether a cost is expected and missing.
    pub is_unpriced: bool,
}

impl OutlineNode {
    /// Its own cost, without its descendants.
    #[must_use]
    pub fn own_cost(&self) -> CostSum {
        CostSum::of_observation(self.cost, self.is_unpriced)
    }

    /// Whether two rows of one outline have the same name.
    #[must_use]
    pub const fn is_named_as(&self, other: &Self) -> bool {
        self.name == other.name
    }

    /// The id of the observation.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The position after its last descendant.
    fn behind(&self, at: usize) -> usize {
        at + 1 + self.n_below as usize
    }
}

/// The observations of one trace, parents before children, siblings by start, then id.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    rows: Vec<OutlineNode>,
    /// Names and models, each once.
    texts: Vec<Box<str>>,
    /// Positions in the order of ids.
    by_id: Vec<u32>,
    runs: Vec<RowGroup>,
}

/// Interned texts, while an outline is built.
#[derive(Default)]
struct Texts {
    known: HashMap<String, u32>,
    all: Vec<Box<str>>,
}

impl Texts {
    fn place(&mut self, text: String) -> u32 {
        if let Some(place) = self.known.get(&text) {
            return *place;
        }
        let place = position(self.all.len());
        self.all.push(text.as_str().into());
        self.known.insert(text, place);
        place
    }
}

/// No trace has four billion observations: each takes more than a byte of memory.
fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Marks the rows whose cost is expected and missing, as the fold of a trace does: a row that only names a model wraps the
/// calls below it, if there are any.
fn mark_unpriced(rows: &mut [OutlineNode]) {
    let mut has_model_below = vec![false; rows.len()];
    // Children come after their parents.
    for at in (0..rows.len()).rev() {
        let row = &mut rows[at];
        let is_call = row.kind.is_generation_like() || row.tokens.is_some();
        let names_model = row.model.is_some();
        row.is_unpriced = row.cost.is_none() && (is_call || (names_model && !has_model_below[at]));
        if let Some(parent) = row.parent {
            has_model_below[parent as usize] |=
                has_model_below[at] || is_call || names_model || row.cost.is_some();
        }
    }
}

impl Outline {
    /// Places all observations of a trace, given in any order.
    #[must_use]
    pub fn new(observations: Vec<ObservationSummary>) -> Self {
        let ids = place::Ids::of(&observations);
        let placed = place::place(&observations, &ids);
        let mut texts = Texts::default();
        let mut observations: Vec<Option<ObservationSummary>> =
            observations.into_iter().map(Some).collect();
        let mut rows: Vec<OutlineNode> = Vec::with_capacity(placed.len());
        for place in &placed {
            let Some(observation) = observations[place.index].take() else {
                continue;
            };
            rows.push(OutlineNode {
                id: observation.id.into_boxed_str(),
                name: texts.place(observation.name),
                model: observation.model.map(|model| texts.place(model)),
                parent: place.parent,
                depth: place.depth,
                n_below: 0,
                n_errors_below: 0,
                parent_fault: place.parent_fault,
                kind: observation.kind,
                level: observation.level,
                start: observation.start,
                end: observation.end,
                first_token: observation.first_token,
                tokens: observation.tokens,
                cost: observation.cost,
                is_unpriced: false,
            });
        }
        // Children come after their parents: backwards, each is complete before its parent.
        for at in (0..rows.len()).rev() {
            let row = &rows[at];
            let (n_below, is_error) = (row.n_below, row.level == Level::Error);
            let n_errors = row.n_errors_below + u32::from(is_error);
            if let Some(parent) = row.parent {
                let parent = &mut rows[parent as usize];
                parent.n_below += n_below + 1;
                parent.n_errors_below += n_errors;
            }
        }
        mark_unpriced(&mut rows);
        let mut row_of = vec![0; placed.len()];
        for (row, place) in (0..).zip(&placed) {
            row_of[place.index] = row;
        }
        let by_id = ids.positions().map(|at| row_of[at]).collect();
        let runs = match rows.len() > GROUPED_ABOVE {
            true => runs::find(&rows),
            false => Vec::new(),
        };
        Self { rows, texts: texts.all, by_id, runs }
    }

    /// All rows in reading order.
    #[must_use]
    pub fn rows(&self) -> &[OutlineNode] {
        &self.rows
    }

    /// Groups of similar neighbours, by their first row.
    #[must_use]
    pub fn runs(&self) -> &[RowGroup] {
        &self.runs
    }

    /// The name of a row; empty when the observation has none.
    #[must_use]
    pub fn name(&self, row: &OutlineNode) -> &str {
        self.text(row.name)
    }

    /// The model that a row names.
    #[must_use]
    pub fn model(&self, row: &OutlineNode) -> Option<&str> {
        row.model.map(|place| self.text(place))
    }

    fn text(&self, place: u32) -> &str {
        self.texts.get(place as usize).map_or("", |text| text)
    }

    /// The position of an observation.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<usize> {
        let place = |at: &u32| (*self.rows[*at as usize].id).cmp(id);
        let found = self.by_id.binary_search_by(place).ok()?;
        Some(self.by_id[found] as usize)
    }

    /// From the first start to the last end; `None` without rows.
    #[must_use]
    pub fn period(&self) -> Option<(Timestamp, Timestamp)> {
        let start = self.rows.iter().map(|row| row.start).min()?;
        let end = self.rows.iter().map(|row| row.end.unwrap_or(row.start));
        Some((start, end.max()?))
    }

    /// The children of a row.
    fn children(&self, at: usize) -> impl Iterator<Item = usize> {
        let behind = self.rows.get(at).map_or(at, |row| row.behind(at));
        let next = move |at: &usize| Some(self.rows.get(*at)?.behind(*at));
        std::iter::successors(Some(at + 1), next).take_while(move |at| *at < behind)
    }

    /// Microseconds of an ended row during which none of its children ran; `None` for an open row and for a row without
    /// children.
    #[must_use]
    pub fn self_time_us(&self, at: usize) -> Option<i64> {
        let row = self.rows.get(at).filter(|row| row.n_below > 0)?;
        let end = row.end?.max(row.start);
        let within = |time: Timestamp| time.clamp(row.start, end);
        let below = self.children(at).map(|child| &self.rows[child]);
        let below = below.map(|child| (within(child.start), within(child.end.unwrap_or(end))));
        let mut below: Vec<(Timestamp, Timestamp)> = below.collect();
        below.sort_unstable();
        let (mut own, mut until) = (0, row.start);
        for (from, to) in below.into_iter().chain([(end, end)]) {
            own += from.micros_since(until).max(0);
            until = until.max(to);
        }
        Some(own)
    }

    /// The intervals of the period of at least `least_us` microseconds in which no leaf row ran, by time. Rows with children
    /// do not count, because they may only wait.
    #[must_use]
    pub fn gaps(&self, least_us: i64) -> Vec<(Timestamp, Timestamp)> {
        let Some((start, end)) = self.period() else {
            return Vec::new();
        };
        let leaves = self.rows.iter().filter(|row| row.n_below == 0);
        let ran = leaves.map(|row| (row.start, row.end.unwrap_or(end)));
        let mut ran: Vec<(Timestamp, Timestamp)> = ran.collect();
        ran.sort_unstable();
        let mut gaps = Vec::new();
        let mut until = start;
        for (from, to) in ran.into_iter().chain([(end, end)]) {
            if least_us.max(1) <= from.micros_since(until) {
                gaps.push((until, from));
            }
            until = until.max(to);
        }
        gaps
    }

    /// Time to first token of the first observation that has one, in microseconds.
    #[must_use]
    pub fn first_token_us(&self) -> Option<i64> {
        let with_token = self.rows.iter();
        let with_token = with_token.filter_map(|row| Some((row.start, row.first_token?)));
        let (start, first) = with_token.min()?;
        Some(first.micros_since(start).max(0))
    }

    /// The next row with the level `ERROR` after or before a position. Without a position the search starts at the
    /// respective end.
    #[must_use]
    pub fn next_error(&self, from: Option<usize>, backwards: bool) -> Option<usize> {
        let is_error = |at: &usize| self.rows[*at].level == Level::Error;
        match backwards {
            false => (from.map_or(0, |at| at + 1)..self.rows.len()).find(is_error),
            true => (0..from.unwrap_or(self.rows.len())).rev().find(is_error),
        }
    }
}

impl HeapSize for Outline {
    fn n_bytes(&self) -> usize {
        /// Allocator overhead of a small text.
        const OVERHEAD: usize = 16;
        let texts = self.rows.iter().map(|row| row.id.len());
        let texts = texts.chain(self.texts.iter().map(|text| text.len() + size_of::<Box<str>>()));
        self.rows.len() * (size_of::<OutlineNode>() + size_of::<u32>())
            + self.runs.len() * size_of::<RowGroup>()
            + texts.map(|n| n + OVERHEAD).sum::<usize>()
    }
}
