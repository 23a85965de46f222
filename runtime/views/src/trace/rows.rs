//! Rows of the outline of a trace, a window at a time.

use std::collections::HashMap;

use crate::markup::encode;
use crate::urls::RowColumn;
use askama::Template;
use perpend_domain::cost::CostSum;
use perpend_domain::observation::Level;
use perpend_domain::outline::{
    Axis, Bar, CriticalPath, Folds, Minimap, Outline, OutlineLine, OutlineNode, OutlineView,
    ParentFault, RowGroup, critical_path,
};
use perpend_domain::time::Timestamp;

use crate::Text;
use crate::format::{cost, count, duration, kind_word, many};
use crate::lists::chips::ScoreChip;
use crate::trace::aspect::{RowState, TraceView, ViewParams, forgotten};

/// Rows rendered at once.
pub const ROW_WINDOW: usize = 200;
/// Scores that a row has room for; more are counted.
const CHIPS: usize = 2;
/// Deeper rows are indented like this one.
const MAX_DEPTH: u32 = 20;
/// Rows of the grid above the first line: the names of the columns and the trace.
const ROWS_ABOVE: usize = 2;

/// What a window of rows is made from.
#[derive(Clone, Copy, Debug)]
pub struct RowsInput<'a> {
    /// The visible lines.
    pub view: &'a OutlineView<'a>,
    /// What was opened and closed by hand: links keep it.
    pub folds: &'a Folds,
    /// The index of the first line; [`ROW_WINDOW`] lines are shown at most.
    pub at: usize,
    /// At most so many lines.
    pub n: usize,
    /// The line that stays where it is in view, where the page that asks names one.
    pub anchor: Option<usize>,
    /// The revision of the trace that is shown.
    pub revision: i64,
    /// The position of the selected row in the outline; none when the trace itself is selected.
    pub selected: Option<usize>,
    /// Scores by the id of the observation they are about; by none those about the trace.
    pub n_scores: &'a HashMap<Option<String>, u64>,
    /// The scores of steps by their ids, a chip for each name; none where there are too many to read them all.
    pub chips: &'a HashMap<String, Vec<ScoreChip>>,
    /// Draw the map of the whole.
    pub with_map: bool,
    /// How it is looked at.
    pub view_params: &'a ViewParams,
}

impl RowsInput<'_> {
    pub(crate) fn axis(&self) -> Axis {
        let period = self.view.outline().period();
        let axis = period.map(|(start, end)| Axis::new(start, end));
        let axis = axis.unwrap_or_default();
        // The other views keep the part for the timeline.
        match self.view_params.zoom {
            Some(part) if self.view_params.trace_view == TraceView::Time => axis.part(part),
            _ => axis,
        }
    }
}

/// A window of rows alone, for the script that puts it in place.
#[derive(Debug, Template)]
#[template(path = "window.html")]
pub struct RowsPage {
    window: Window,
}

impl RowsPage {
    /// Lays the rows out.
    #[must_use]
    pub fn new(input: &RowsInput<'_>) -> Self {
        Self { window: Window::new(input) }
    }
}

/// Rows and what leads to the others.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) rows: Vec<Row>,
    pub(crate) at: usize,
    pub(crate) n_lines: usize,
    pub(crate) anchor: Option<usize>,
    pub(crate) revision: i64,
    /// What is selected and folded.
    pub(crate) row_state: RowState,
    /// What is folded and how the trace is looked at, as the end of an address.
    pub(crate) rest: String,
    /// What is left out because of its level or kind.
    pub(crate) hidden: Option<String>,
    /// Which rows are no longer as they were opened and closed by hand.
    pub(crate) forgotten: Option<String>,
    /// The index of the line that is selected, or that hides what is selected.
    pub(crate) selected: Option<usize>,
    pub(crate) map: Option<Minimap>,
    pub(crate) grouping: Option<(&'static str, String)>,
    /// What the end of the trace waited for, where that is shown.
    pub(crate) path: Option<CriticalPath>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) step: String,
    pub(crate) is_run: bool,
    pub(crate) name: Text,
    pub(crate) model: Option<Text>,
    pub(crate) kind: &'static str,
    pub(crate) indent: u32,
    pub(crate) level: u32,
    pub(crate) index: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) is_open: Option<bool>,
    pub(crate) note: Option<String>,
    pub(crate) mark: Option<String>,
    pub(crate) mark_class: &'static str,
    pub(crate) n_scores: u64,
    /// Its scores, where there is room for them: name, value and class of each.
    pub(crate) chips: Vec<(Text, Text, &'static str)>,
    pub(crate) bar: Bar,
    /// The part of the time axis that it takes, on the timeline.
    pub(crate) part: Option<(f64, f64)>,
    pub(crate) duration: String,
    /// The time in which nothing below it ran.
    pub(crate) own: String,
    pub(crate) tokens: String,
    pub(crate) cost: String,
    pub(crate) is_selected: bool,
    /// What there is no room for.
    pub(crate) title: Option<String>,
    /// On the critical path; then its note is how long the trace waited for it alone, where that is not all of its time.
    pub(crate) is_critical: bool,
}

impl Row {
    pub(crate) fn row_index(&self) -> usize {
        self.index + ROWS_ABOVE + 1
    }

    /// The name of the parameter that opens and closes it.
    pub(crate) fn toggle(&self) -> &'static str {
        match self.is_run {
            true => "toggle-run",
            false => "toggle",
        }
    }
}

impl Window {
    pub(crate) fn new(input: &RowsInput<'_>) -> Self {
        let view = input.view;
        let outline = view.outline();
        let axis = input.axis();
        let is_timeline = input.view_params.trace_view == TraceView::Time;
        let path = is_timeline.then(|| critical_path(outline));
        let period = outline.period().filter(|_| is_timeline);
        let lines = view.window(input.at, input.n.min(ROW_WINDOW));
        let at = input.at.min(view.len());
        let parents = view.parents(at, lines.len());
        let rows = lines.iter().zip(parents).enumerate();
        let rows = rows.map(|(nth, (line, parent))| {
            let row = match line.run {
                Some(run) => of_run(view, line, &outline.runs()[run as usize], axis),
                None => of_row(input, line, axis),
            };
            let own = path.as_ref().and_then(|path| path.get(&(line.row as usize)));
            let own = own.filter(|_| line.run.is_none());
            let entry = &outline.rows()[line.row as usize];
            let period = period.filter(|_| line.run.is_none());
            Row {
                index: at + nth,
                parent,
                part: period.and_then(|period| part_of(entry, period)),
                is_critical: own.is_some(),
                note: own
                    .map(|own| duration(*own))
                    .filter(|own| *own != row.duration)
                    .map(|own| format!("{own} on the path"))
                    .or(row.note),
                ..row
            }
        });
        let selected = input.selected.map(|at| outline.rows()[at].id());
        let row_state = RowState::new(selected, input.folds);
        let has_map = input.with_map && ROW_WINDOW < view.len();
        Self {
            rows: rows.collect(),
            at,
            n_lines: view.len(),
            anchor: input.anchor,
            revision: input.revision,
            grouping: grouping(input, selected),
            rest: format!("{}{}", row_state.folds, input.view_params.query()),
            row_state,
            hidden: input.view_params.hidden(view.n_hidden()),
            forgotten: forgotten(input.folds),
            selected: input.selected.and_then(|row| view.index_of(row)),
            map: has_map.then(|| Minimap::new(view)),
            path,
        }
    }

    pub(crate) fn n_grid_rows(&self) -> usize {
        self.n_lines + ROWS_ABOVE
    }

    pub(crate) fn earlier(&self) -> Option<String> {
        let at = self.at.saturating_sub(ROW_WINDOW);
        (0 < self.at).then(|| format!("?{}{}&at={at}", self.row_state.selection, self.rest))
    }

    pub(crate) fn later(&self) -> Option<String> {
        let at = self.at + self.rows.len();
        (at < self.n_lines).then(|| format!("?{}{}&at={at}", self.row_state.selection, self.rest))
    }

    pub(crate) fn shown(&self) -> String {
        let (first, last) = (self.at + 1, self.at + self.rows.len());
        let number = |n: usize| count(n as u64);
        format!("Rows {}–{} of {}", number(first), number(last), number(self.n_lines))
    }
}

/// The link that switches groups off, or on again.
fn grouping(input: &RowsInput<'_>, selected: Option<&str>) -> Option<(&'static str, String)> {
    if input.view.outline().runs().is_empty() {
        return None;
    }
    let other = Folds { is_ungrouped: !input.folds.is_ungrouped, ..input.folds.clone() };
    let label = match input.folds.is_ungrouped {
        true => "Group similar observations",
        false => "Ungroup observations",
    };
    Some((label, RowState::new(selected, &other).address(input.view_params)))
}

fn of_row(input: &RowsInput<'_>, line: &OutlineLine, axis: Axis) -> Row {
    let outline = input.view.outline();
    let at = line.row as usize;
    let row = &outline.rows()[at];
    let is_closed = line.is_open == Some(false);
    let (mark, mark_class) = mark(row, is_closed);
    let id = Some(row.id().to_owned());
    let took = row.end.map(|end| end.micros_since(row.start));
    let below = outline.own_us(at);
    // What has nothing below it is all its own.
    let own = below.or(took.filter(|_| row.n_below == 0));
    Row {
        step: encode(row.id()),
        is_run: false,
        name: Text::from(outline.name(row)),
        model: outline.model(row).map(Text::from),
        kind: kind_word(row.kind),
        indent: line.depth.min(MAX_DEPTH),
        level: line.depth + 2,
        index: 0,
        parent: None,
        is_open: line.is_open,
        note: is_closed.then(|| format!("+{}", count(row.n_below.into()))),
        mark,
        mark_class,
        n_scores: input.n_scores.get(&id).copied().unwrap_or_default(),
        chips: chips_of(input, row.id()),
        bar: axis.bar(row.start, row.end, row.first_token),
        part: None,
        duration: took.map_or_else(|| "open".to_owned(), duration),
        own: own.map_or_else(String::new, duration),
        tokens: nonzero(row.tokens),
        cost: cost_cell(row.own_cost()),
        is_selected: input.selected == Some(at),
        title: below.map(|us| format!("Self time {}", duration(us))),
        is_critical: false,
    }
}

/// The chips of a step; none where they are more than a row has room for.
fn chips_of(input: &RowsInput<'_>, step: &str) -> Vec<(Text, Text, &'static str)> {
    let chips = input.chips.get(step).map(Vec::as_slice);
    let chips = chips.filter(|chips| chips.len() <= CHIPS).unwrap_or_default();
    let shown = |chip: &ScoreChip| (chip.name.clone(), chip.value.clone(), chip.tone.class());
    chips.iter().map(shown).collect()
}

fn of_run(view: &OutlineView<'_>, line: &OutlineLine, run: &RowGroup, axis: Axis) -> Row {
    let outline = view.outline();
    let first = &outline.rows()[line.row as usize];
    let figure =
        |label: &str, micros: Option<i64>| micros.map(|n| format!("{label} {}", duration(n)));
    let figures = [figure("p50", run.median_us), figure("p95", run.p95_us)];
    let figures: Vec<String> = figures.into_iter().flatten().collect();
    let note = figures.join(" · ");
    let title = of_all(run, &note);
    let end = (run.n_open == 0).then_some(run.last_end);
    Row {
        step: encode(first.id()),
        is_run: true,
        name: Text::from(format!("{} ×{}", outline.name(first), count(run.n.into()))),
        model: None,
        kind: kind_word(first.kind),
        indent: line.depth.min(MAX_DEPTH),
        level: line.depth + 2,
        index: 0,
        parent: None,
        is_open: line.is_open,
        note: Some(note).filter(|text| !text.is_empty()),
        mark: (run.n_errors > 0).then(|| many(run.n_errors.into(), "error")),
        mark_class: "bad",
        n_scores: 0,
        chips: Vec::new(),
        bar: axis.bar(first.start, end, None),
        part: None,
        duration: end
            .map_or_else(|| "open".to_owned(), |end| duration(end.micros_since(first.start))),
        own: String::new(),
        tokens: nonzero(run.tokens),
        cost: cost_cell(run.cost),
        is_selected: false,
        title,
        is_critical: false,
    }
}

/// `p50 12 ms · p95 40 ms, 24,000 tokens, $0.24`
fn of_all(run: &RowGroup, note: &str) -> Option<String> {
    let note = (!note.is_empty()).then(|| note.to_owned());
    let tokens = run.tokens.filter(|n| 0 < *n).map(|n| many(n, "token"));
    let cost = cost_cell(run.cost);
    let cost = (!cost.is_empty()).then_some(cost);
    let all: Vec<String> = [note, tokens, cost].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The part of the time axis that a step takes, in milliseconds from the start of the trace; none of a step without length.
pub(crate) fn part_of(
    step: &OutlineNode,
    (start, end): (Timestamp, Timestamp),
) -> Option<(f64, f64)> {
    let ms = |at: Timestamp| at.micros_since(start) as f64 / 1e3;
    let (from, to) = (ms(step.start), ms(step.end.unwrap_or(end)));
    (from < to).then_some((from, to))
}

/// The classes of the columns in which no row has anything: their room is left to the names. All rows of the trace count,
/// so that scrolling moves no column.
pub(crate) fn empty_columns(outline: &Outline, tokens: &str, cost: &str) -> &'static str {
    let rows = || outline.rows().iter();
    let has_tokens = !tokens.is_empty() || rows().any(|row| row.tokens.is_some_and(|n| 0 < n));
    let has_cost = !cost.is_empty() || rows().any(|row| !row.own_cost().is_empty());
    match (has_tokens, has_cost) {
        (true, true) => "",
        (false, true) => " no-tok",
        (true, false) => " no-cost",
        (false, false) => " no-tok no-cost",
    }
}

/// The classes of a grid: of its columns that were not chosen, and of those in which no row has anything.
pub(crate) fn column_classes(
    view_params: &ViewParams,
    outline: &Outline,
    tokens: &str,
    cost: &str,
) -> String {
    let empty = empty_columns(outline, tokens, cost);
    if view_params.columns.is_empty() {
        return empty.to_owned();
    }
    // The timeline is its bars.
    let is_shown = |column: RowColumn| {
        view_params.columns.contains(&column)
            || (column == RowColumn::Time && view_params.trace_view == TraceView::Time)
    };
    let left_out = RowColumn::ALL.iter().filter(|(own, ..)| !is_shown(*own));
    let left_out: String = left_out.map(|(.., class)| *class).collect();
    format!(" by-hand{empty}{left_out}")
}

/// What is behind a row's name when something is unusual.
fn mark(row: &OutlineNode, is_closed: bool) -> (Option<String>, &'static str) {
    let word = |word: &str| Some(word.to_owned());
    match (row.level, row.parent_fault) {
        (Level::Error, _) => (word("error"), "bad"),
        _ if is_closed && row.n_errors_below > 0 => {
            let n = many(row.n_errors_below.into(), "error");
            (Some(format!("{n} inside")), "bad")
        }
        (Level::Warning, _) => (word("warning"), "waiting"),
        (_, Some(ParentFault::Orphan)) => (word("parent missing"), "plain"),
        (_, Some(ParentFault::Cycle)) => (word("in a cycle"), "plain"),
        _ => (None, ""),
    }
}

pub(crate) fn nonzero(n: Option<u64>) -> String {
    n.filter(|n| *n > 0).map_or_else(String::new, count)
}

/// Empty for what should not cost anything: in a tree most steps do not.
pub(crate) fn cost_cell(sum: CostSum) -> String {
    match sum.is_empty() {
        true => String::new(),
        false => cost(sum),
    }
}
