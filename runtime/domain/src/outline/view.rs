//! Which rows of an outline are visible.

use std::collections::HashSet;

use crate::observation::{Level, ObservationKind};
use crate::outline::{Outline, OutlineNode, RowGroup, position};

/// A trace with at most so many rows is wholly open by default.
const ALL_OPEN: usize = 200;
/// In a longer one, rows above this depth are open by default.
const OPEN_DEPTH: u32 = 2;
/// Marks of what was opened and closed by hand, each. Beyond it the oldest is forgotten.
pub const MAX_FOLDS: usize = 50;

/// What opens and closes: a row, or a group of neighbours, named by the id of its first member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FoldTarget {
    /// The row of this observation.
    Row(String),
    /// The group that begins with this observation.
    Run(String),
}

/// What a reader opened and closed. It says what *is* open, not what differs from the default: the default depends
/// on the selected row, and selecting another one must not turn the meaning around. What is open opens the way to it too,
/// except for what is closed, so that one mark stands for all rows of a chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folds {
    /// Closed, the oldest first.
    pub closed: Vec<FoldTarget>,
    /// Open, the oldest first.
    pub open: Vec<FoldTarget>,
    /// Show neighbours that look alike one by one.
    pub is_ungrouped: bool,
    /// Leave out rows below this level that have none of it below them. Neighbours are not grouped then.
    pub min: Option<Level>,
    /// Leave out rows of other kinds likewise; none means that all are shown.
    pub kinds: Vec<ObservationKind>,
    /// Marks of opened rows were forgotten, because there were more than [`MAX_FOLDS`].
    pub forgot_open: bool,
    /// The same of closed ones.
    pub forgot_closed: bool,
}

impl Folds {
    /// Whether rows are left out for their level or kind.
    const fn leaves_out(&self) -> bool {
        self.min.is_some() || !self.kinds.is_empty()
    }

    /// Whether rows of this kind and level are asked for.
    #[must_use]
    pub fn asks_for(&self, kind: ObservationKind, level: Level) -> bool {
        let is_kind = self.kinds.is_empty() || self.kinds.contains(&kind);
        is_kind && self.min.is_none_or(|min| min <= level)
    }

    /// Remembers whether something is open. The oldest of too many are forgotten.
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
    /// The position of its group among [`Outline::runs`], when it stands for one.
    pub run: Option<u32>,
    /// How far it is indented.
    pub depth: u32,
    /// Whether what is below it is visible; absent when there is nothing below it.
    pub is_open: Option<bool>,
}

/// A part of the visible lines, summed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineBucket {
    /// The deepest of its lines.
    pub depth: u32,
    /// Errors among its lines and in what is folded away below them.
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
struct Opened {
    closed: HashSet<Place>,
    open: HashSet<Place>,
    /// What leads to the selected row and to what is open.
    way: HashSet<Place>,
    is_small: bool,
}

/// Whether a row is asked for, and whether one below it is.
#[derive(Clone, Copy)]
struct Kept {
    own: bool,
    below: bool,
}

/// A row or a run by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Row(usize),
    Run(usize),
}

impl Opened {
    fn new(outline: &Outline, folds: &Folds, selected: Option<usize>) -> Self {
        let open = outline.places(&folds.open);
        let mut way = HashSet::new();
        for place in selected.map(Place::Row).iter().chain(&open) {
            outline.add_way(&mut way, *place);
        }
        Self {
            closed: outline.places(&folds.closed),
            open,
            way,
            is_small: outline.rows.len() <= ALL_OPEN,
        }
    }

    fn has(&self, place: Place, by_default: bool) -> bool {
        if self.closed.contains(&place) {
            return false;
        }
        by_default || self.open.contains(&place) || self.way.contains(&place)
    }
}

impl Outline {
    fn place(&self, mark: &FoldTarget) -> Option<Place> {
        match mark {
            FoldTarget::Row(id) => self.find(id).map(Place::Row),
            FoldTarget::Run(id) => {
                let first = position(self.find(id)?);
                let found = self.runs.binary_search_by_key(&first, |run| run.first);
                found.ok().map(Place::Run)
            }
        }
    }

    /// Those of marks that this outline has.
    fn places(&self, marks: &[FoldTarget]) -> HashSet<Place> {
        marks.iter().filter_map(|mark| self.place(mark)).collect()
    }

    /// Adds the rows above a row or a group, and the groups that it or one of those is a member of, to those of others.
    fn add_way(&self, way: &mut HashSet<Place>, place: Place) {
        let (row, own_run) = match place {
            Place::Row(at) => (at, None),
            Place::Run(at) => (self.runs[at].first as usize, Some(at)),
        };
        let mut above = self.rows[row].parent;
        while let Some(at) = above {
            // The way to a row that is there is there too.
            if !way.insert(Place::Row(at as usize)) {
                break;
            }
            above = self.rows[at as usize].parent;
        }
        // Groups that span the row: all others end before it or begin behind it.
        let spans = |run: &RowGroup| run.first as usize <= row && row < run.behind as usize;
        let runs = self.runs.iter().enumerate();
        let runs = runs.filter(|(at, run)| own_run != Some(*at) && spans(run));
        way.extend(runs.map(|(at, _)| Place::Run(at)));
    }

    /// The mark that keeps the way to a row or a group open without it; none where that is open by default.
    fn above(&self, place: Place) -> Option<FoldTarget> {
        let id = |at: u32| self.rows[at as usize].id().to_owned();
        let (row, is_run) = match place {
            Place::Row(at) => (at, false),
            Place::Run(at) => (self.runs[at].first as usize, true),
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

    /// Forgets the marks of what lies on the way to what others open.
    fn compact(&self, open: &mut Vec<FoldTarget>) {
        let mut way = HashSet::new();
        for place in self.places(open) {
            self.add_way(&mut way, place);
        }
        open.retain(|mark| self.place(mark).is_none_or(|place| !way.contains(&place)));
    }

    /// The visible lines. The rows and groups above the selected row are open, unless `folds` closes them.
    #[must_use]
    pub fn view(&self, folds: &Folds, selected: Option<usize>) -> OutlineView<'_> {
        let opened = Opened::new(self, folds, selected);
        let kept = folds.leaves_out().then(|| self.kept(folds));
        let is_kept = |at: usize| kept.as_ref().is_none_or(|kept| kept[at].own || kept[at].below);
        let runs: &[RowGroup] = match folds.is_ungrouped || kept.is_some() {
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
            // Groups inside of what was passed over.
            while runs.get(next_run).is_some_and(|run| run.first < place) {
                next_run += 1;
            }
            let indent = |around: &[u32]| row.depth + position(around.len());
            if let Some(run) = runs.get(next_run).filter(|run| run.first == place) {
                let is_open = opened.has(Place::Run(next_run), false);
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
            // Whoever asks for errors wants to see them.
            let by_default = opened.is_small || kept.is_some() || row.depth < OPEN_DEPTH;
            let has_below = match &kept {
                Some(kept) => kept[at].below,
                None => row.n_below > 0,
            };
            let is_open = has_below.then(|| opened.has(Place::Row(at), by_default));
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

    /// Which rows have the level and the kind that are asked for.
    fn kept(&self, folds: &Folds) -> Vec<Kept> {
        let own =
            |row: &OutlineNode| Kept { own: folds.asks_for(row.kind, row.level), below: false };
        let mut kept: Vec<Kept> = self.rows.iter().map(own).collect();
        // Children come after their parents.
        for at in (0..kept.len()).rev() {
            let is_kept = kept[at].own || kept[at].below;
            if let (true, Some(parent)) = (is_kept, self.rows[at].parent) {
                kept[parent as usize].below = true;
            }
        }
        kept
    }

    /// The folds after something was opened that is closed, or closed that is open. A mark of nothing changes nothing.
    #[must_use]
    pub fn toggled(&self, mut folds: Folds, selected: Option<usize>, mark: FoldTarget) -> Folds {
        let Some(place) = self.place(&mark) else {
            return folds;
        };
        let by_default = match place {
            Place::Run(_) => false,
            Place::Row(at) => folds.leaves_out() || self.is_open_by_default(at),
        };
        let is_open = Opened::new(self, &folds, selected).has(place, by_default);
        // What it stood for stays open.
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

    /// The folds without those that hide a row.
    #[must_use]
    pub fn revealed(&self, mut folds: Folds, row: usize) -> Folds {
        let mut way = HashSet::new();
        self.add_way(&mut way, Place::Row(row));
        let is_off_way =
            |mark: &FoldTarget| self.place(mark).is_none_or(|place| !way.contains(&place));
        folds.closed.retain(is_off_way);
        folds
    }
}

impl OutlineView<'_> {
    /// How many lines are visible.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// How many rows are left out because of their level or kind.
    #[must_use]
    pub fn n_hidden(&self) -> usize {
        self.n_hidden
    }

    /// Whether the trace has no observations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What it is a view of.
    #[must_use]
    pub fn outline(&self) -> &Outline {
        self.outline
    }

    /// At most `n` lines from an index on.
    #[must_use]
    pub fn window(&self, at: usize, n: usize) -> &[OutlineLine] {
        let from = at.min(self.lines.len());
        let to = from.saturating_add(n).min(self.lines.len());
        &self.lines[from..to]
    }

    /// The line of a row; when it is folded away, the line that hides it.
    #[must_use]
    pub fn index_of(&self, row: usize) -> Option<usize> {
        let behind = self.lines.partition_point(|line| line.row as usize <= row);
        behind.checked_sub(1)
    }

    /// For each of at most `n` lines from an index on, the line that it hangs below; none on the top level.
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

    /// The whole in at most `n` parts of nearly the same number of lines.
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

    /// Errors that a line stands for: its own, unless it is the head of an open group, and those folded away below it.
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
