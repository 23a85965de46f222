//! The visible rows of an outline.

use std::collections::HashSet;

use crate::observation::{Level, ObservationKind};
use crate::outline::{Outline, OutlineNode, RowGroup, position};

/// A trace with at most this many rows is fully expanded by default.
const ALL_OPEN: usize = 200;
/// In a longer trace, rows above this depth are expanded by default.
const OPEN_DEPTH: u32 = 2;
/// Most rows expanded and most collapsed by hand; the oldest are dropped.
pub const MAX_FOLDS: usize = 50;

/// A row or a group of neighbours that can be expanded, identified by the id of its first member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FoldTarget {
    /// The row of this observation.
    Row(String),
    /// The group that begins with this observation.
    Run(String),
}

/// The rows and groups that a user expanded and collapsed. It records the state, not the difference from the default: the
/// default depends on the selected row. An expanded row also expands its ancestors, except collapsed ones, so that one mark
/// is enough for a chain of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folds {
    /// Collapsed, the oldest first.
    pub closed: Vec<FoldTarget>,
    /// Expanded, the oldest first.
    pub open: Vec<FoldTarget>,
    /// Show similar neighbours one by one.
    pub is_ungrouped: bool,
    /// Hide rows below this level without descendants of it. Neighbours are not grouped then.
    pub min: Option<Level>,
    /// Hide rows of other kinds in the same way; empty shows all kinds.
    pub kinds: Vec<ObservationKind>,
    /// Marks of expanded rows were dropped, because there were more than [`MAX_FOLDS`].
    pub forgot_open: bool,
    /// The same for collapsed rows.
    pub forgot_closed: bool,
}

impl Folds {
    /// Whether rows are hidden by level or kind.
    const fn leaves_out(&self) -> bool {
        self.min.is_some() || !self.kinds.is_empty()
    }

    /// Whether rows of this kind and level are shown.
    #[must_use]
    pub fn includes(&self, kind: ObservationKind, level: Level) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        is_kind && self.min.is_none_or(|min| min <= level)
    }

    /// Sets the state of a row or group and drops the oldest marks above the limit.
    pub fn set(&mut self, mark: FoldTarget, is_open: bool) {
        self.remember(mark, is_open);
        self.forget_oldest();
    }

    fn remember(&mut self, mark: FoldTarget, is_open: bool) {
        self.closed.retain(|one| *one != mark);
        self.open.retain(|one| *one != mark);
        match is_open {
            true => self.open.push(mark),
            false => self.closed.push(mark),
        }
    }

    fn forget_oldest(&mut self) {
        let lists =
            [(&mut self.open, &mut self.forgot_open), (&mut self.closed, &mut self.forgot_closed)];
        for (marks, forgot) in lists {
            let n_over = marks.len().saturating_sub(MAX_FOLDS);
            marks.drain(..n_over);
            *forgot |= 0 < n_over;
        }
    }
}

/// One visible line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlineLine {
    /// The position of its row; of a group, that of the first member.
    pub row: u32,
    /// The position of its group in [`Outline::runs`], if the line is the head of a group.
    pub run: Option<u32>,
    /// Indentation level.
    pub depth: u32,
    /// Whether its children are visible; absent without children.
    pub is_open: Option<bool>,
}

/// A summary of consecutive visible lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineBucket {
    /// The deepest of its lines.
    pub depth: u32,
    /// Errors in its lines and in their collapsed descendants.
    pub n_errors: u32,
}

/// The visible lines of an outline, addressed by their index.
#[derive(Clone, Debug)]
pub struct OutlineView<'o> {
    outline: &'o Outline,
    lines: Vec<OutlineLine>,
    n_hidden: usize,
}

/// [`Folds`] as positions.
struct ExpandedRows {
    closed: HashSet<FoldPosition>,
    open: HashSet<FoldPosition>,
    /// Ancestors of the selected row and of expanded rows.
    ancestors: HashSet<FoldPosition>,
    is_small: bool,
}

/// Whether a row is shown for its own kind and level, and whether one of its descendants is.
#[derive(Clone, Copy)]
struct RowMatch {
    own: bool,
    below: bool,
}

/// A row or a run by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FoldPosition {
    Row(usize),
    Run(usize),
}

impl ExpandedRows {
    fn new(outline: &Outline, folds: &Folds, selected: Option<usize>) -> Self {
        let open = outline.places(&folds.open);
        let mut ancestors = HashSet::new();
        for place in selected.map(FoldPosition::Row).iter().chain(&open) {
            outline.add_ancestors(&mut ancestors, *place);
        }
        Self {
            closed: outline.places(&folds.closed),
            open,
            ancestors,
            is_small: outline.rows.len() <= ALL_OPEN,
        }
    }

    fn has(&self, place: FoldPosition, by_default: bool) -> bool {
        if self.closed.contains(&place) {
            return false;
        }
        by_default || self.open.contains(&place) || self.ancestors.contains(&place)
    }
}

impl Outline {
    fn place(&self, mark: &FoldTarget) -> Option<FoldPosition> {
        match mark {
            FoldTarget::Row(id) => self.find(id).map(FoldPosition::Row),
            FoldTarget::Run(id) => {
                let first = position(self.find(id)?);
                let found = self.runs.binary_search_by_key(&first, |run| run.first);
                found.ok().map(FoldPosition::Run)
            }
        }
    }

    /// The marks that refer to rows and groups of this outline.
    fn places(&self, marks: &[FoldTarget]) -> HashSet<FoldPosition> {
        marks.iter().filter_map(|mark| self.place(mark)).collect()
    }

    /// Adds the ancestors of a row or group, and the groups that contain it or one of them.
    fn add_ancestors(&self, ancestors: &mut HashSet<FoldPosition>, place: FoldPosition) {
        let (row, own_run) = match place {
            FoldPosition::Row(at) => (at, None),
            FoldPosition::Run(at) => (self.runs[at].first as usize, Some(at)),
        };
        let mut above = self.rows[row].parent;
        while let Some(at) = above {
            // The ancestors of a row in the set are in the set.
            if !ancestors.insert(FoldPosition::Row(at as usize)) {
                break;
            }
            above = self.rows[at as usize].parent;
        }
        // Groups that span the row: all others end before it or start after it.
        let spans = |run: &RowGroup| run.first as usize <= row && row < run.behind as usize;
        let runs = self.runs.iter().enumerate();
        let runs = runs.filter(|(at, run)| own_run != Some(*at) && spans(run));
        ancestors.extend(runs.map(|(at, _)| FoldPosition::Run(at)));
    }

    /// The mark that keeps the ancestors of a row or group expanded; `None` if they are expanded by default.
    fn above(&self, place: FoldPosition) -> Option<FoldTarget> {
        let id = |at: u32| self.rows[at as usize].id().to_owned();
        let (row, is_run) = match place {
            FoldPosition::Row(at) => (at, false),
            FoldPosition::Run(at) => (self.runs[at].first as usize, true),
        };
        let parent = self.rows[row].parent;
        let has_member = |run: &&RowGroup| {
            let is_within = run.first as usize <= row && row < run.behind as usize;
            is_within && self.rows[run.first as usize].parent == parent
        };
        let run = self.runs.iter().find(has_member).filter(|_| !is_run);
        if let Some(run) = run {
            return Some(FoldTarget::Run(id(run.first)));
        }
        let parent = parent.filter(|at| !self.is_open_by_default(*at as usize));
        parent.map(|at| FoldTarget::Row(id(at)))
    }

    fn is_open_by_default(&self, row: usize) -> bool {
        self.rows.len() <= ALL_OPEN || self.rows[row].depth < OPEN_DEPTH
    }

    /// Drops marks of ancestors of other marked rows.
    fn compact(&self, open: &mut Vec<FoldTarget>) {
        let mut ancestors = HashSet::new();
        for place in self.places(open) {
            self.add_ancestors(&mut ancestors, place);
        }
        open.retain(|mark| self.place(mark).is_none_or(|place| !ancestors.contains(&place)));
    }

    /// The visible lines. The ancestors of the selected row are expanded, unless `folds` collapses them.
    #[must_use]
    pub fn view(&self, folds: &Folds, selected: Option<usize>) -> OutlineView<'_> {
        let expanded = ExpandedRows::new(self, folds, selected);
        let matches = folds.leaves_out().then(|| self.matches(folds));
        let is_kept =
            |at: usize| matches.as_ref().is_none_or(|matches| matches[at].own || matches[at].below);
        let runs: &[RowGroup] = match folds.is_ungrouped || matches.is_some() {
            true => &[],
            false => &self.runs,
        };
        let mut lines = Vec::new();
        // The ends of the open groups around the current row.
        let mut around: Vec<u32> = Vec::new();
        let (mut at, mut next_run) = (0, 0);
        while let Some(row) = self.rows.get(at) {
            if !is_kept(at) {
                at = row.behind(at);
                continue;
            }
            let place = position(at);
            while around.last().is_some_and(|behind| *behind <= place) {
                around.pop();
            }
            // Groups inside skipped rows.
            while runs.get(next_run).is_some_and(|run| run.first < place) {
                next_run += 1;
            }
            let indent = |around: &[u32]| row.depth + position(around.len());
            if let Some(run) = runs.get(next_run).filter(|run| run.first == place) {
                let is_open = expanded.has(FoldPosition::Run(next_run), false);
                lines.push(OutlineLine {
                    row: place,
                    run: Some(position(next_run)),
                    depth: indent(&around),
                    is_open: Some(is_open),
                });
                if !is_open {
                    at = run.behind as usize;
                    continue;
                }
                around.push(run.behind);
            }
            // With a filter, matching rows are expanded.
            let by_default = expanded.is_small || matches.is_some() || row.depth < OPEN_DEPTH;
            let has_below = match &matches {
                Some(matches) => matches[at].below,
                None => row.n_below > 0,
            };
            let is_open = has_below.then(|| expanded.has(FoldPosition::Row(at), by_default));
            lines.push(OutlineLine { row: place, run: None, depth: indent(&around), is_open });
            at = match is_open {
                Some(false) => row.behind(at),
                _ => at + 1,
            };
        }
        OutlineView {
            outline: self,
            lines,
            n_hidden: (0..self.rows.len()).filter(|at| !is_kept(*at)).count(),
        }
    }

    /// Whether each row, and a descendant of it, has the level and kind of the filter.
    fn matches(&self, folds: &Folds) -> Vec<RowMatch> {
        let own =
            |row: &OutlineNode| RowMatch { own: folds.includes(row.kind, row.level), below: false };
        let mut matches: Vec<RowMatch> = self.rows.iter().map(own).collect();
        // Children come after their parents.
        for at in (0..matches.len()).rev() {
            let is_kept = matches[at].own || matches[at].below;
            if let (true, Some(parent)) = (is_kept, self.rows[at].parent) {
                matches[parent as usize].below = true;
            }
        }
        matches
    }

    /// The folds after toggling a row or group. An unknown mark changes nothing.
    #[must_use]
    pub fn toggled(&self, mut folds: Folds, selected: Option<usize>, mark: FoldTarget) -> Folds {
        let Some(place) = self.place(&mark) else {
            return folds;
        };
        let by_default = match place {
            FoldPosition::Run(_) => false,
            FoldPosition::Row(at) => folds.leaves_out() || self.is_open_by_default(at),
        };
        let is_open = ExpandedRows::new(self, &folds, selected).has(place, by_default);
        // The ancestors that the mark kept expanded stay expanded.
        let above = self
            .above(place)
            .filter(|above| is_open && folds.open.contains(&mark) && !folds.closed.contains(above));
        if let Some(above) = above {
            folds.remember(above, true);
        }
        folds.remember(mark, !is_open);
        self.compact(&mut folds.open);
        folds.forget_oldest();
        folds
    }

    /// The folds without the ones that hide a row.
    #[must_use]
    pub fn revealed(&self, mut folds: Folds, row: usize) -> Folds {
        let mut ancestors = HashSet::new();
        self.add_ancestors(&mut ancestors, FoldPosition::Row(row));
        let is_not_ancestor =
            |mark: &FoldTarget| self.place(mark).is_none_or(|place| !ancestors.contains(&place));
        folds.closed.retain(is_not_ancestor);
        folds
    }
}

impl OutlineView<'_> {
    /// Number of visible lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Number of rows hidden by level or kind.
    #[must_use]
    pub fn n_hidden(&self) -> usize {
        self.n_hidden
    }

    /// Whether the trace has no observations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The outline of the view.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        self.outline
    }

    /// At most `n` lines from an index.
    #[must_use]
    pub fn window(&self, at: usize, n: usize) -> &[OutlineLine] {
        let from = at.min(self.lines.len());
        let to = from.saturating_add(n).min(self.lines.len());
        &self.lines[from..to]
    }

    /// The line of a row; of a hidden row the line that hides it.
    #[must_use]
    pub fn index_of(&self, row: usize) -> Option<usize> {
        let behind = self.lines.partition_point(|line| line.row as usize <= row);
        behind.checked_sub(1)
    }

    /// The parent line of each of at most `n` lines from an index; `None` on the top level.
    #[must_use]
    pub fn parents(&self, at: usize, n: usize) -> Vec<Option<usize>> {
        let to = at.saturating_add(n).min(self.lines.len());
        // A line is at most one level deeper than the one before it.
        let mut above: Vec<usize> = Vec::new();
        let mut parents = Vec::with_capacity(to.saturating_sub(at));
        for (index, line) in self.lines[..to].iter().enumerate() {
            above.truncate(line.depth as usize);
            if at <= index {
                parents.push(above.last().copied());
            }
            above.push(index);
        }
        parents
    }

    /// The view in at most `n` buckets of nearly the same number of lines.
    #[must_use]
    pub fn map(&self, n: usize) -> Vec<LineBucket> {
        let n = n.min(self.lines.len());
        let mut buckets = vec![LineBucket::default(); n];
        for (at, line) in self.lines.iter().enumerate() {
            let bucket = &mut buckets[at * n / self.lines.len()];
            bucket.depth = bucket.depth.max(line.depth);
            bucket.n_errors += self.n_errors(line);
        }
        buckets
    }

    /// Errors of a line and of its collapsed descendants; 0 for the head of an expanded group.
    fn n_errors(&self, line: &OutlineLine) -> u32 {
        let row = &self.outline.rows[line.row as usize];
        match (line.run, line.is_open) {
            (Some(_), Some(true)) => 0,
            (Some(run), _) => self.n_errors_within(&self.outline.runs[run as usize]),
            (None, Some(false)) => row.n_errors_below + u32::from(row.level == Level::Error),
            (None, _) => u32::from(row.level == Level::Error),
        }
    }

    fn n_errors_within(&self, run: &RowGroup) -> u32 {
        let mut n = 0;
        let mut at = run.first as usize;
        while at < run.behind as usize {
            let row = &self.outline.rows[at];
            n += row.n_errors_below + u32::from(row.level == Level::Error);
            at = row.behind(at);
        }
        n
    }
}
