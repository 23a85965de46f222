//! Rows of a trace, in windows.

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
use crate::format::{cost, count, duration, kind_label, plural};
use crate::lists::chips::ScoreChip;
use crate::trace::header::{RowState, TraceView, ViewParams, dropped_rows};

/// Maximum number of rendered rows.
pub const ROW_WINDOW: usize = 200;
/// Maximum number of scores in a row; more are only counted.
const CHIPS: usize = 2;
/// Maximum indentation.
const MAX_DEPTH: u32 = 20;
/// Rows of the grid above the first line: column headings and the trace.
const ROWS_ABOVE: usize = 2;

/// Input of a window of rows.
#[derive(Clone, Copy, Debug)]
pub struct RowsInput<'a> {
    /// The visible lines.
    pub view: &'a OutlineView<'a>,
    /// Manually collapsed and expanded rows.
    pub folds: &'a Folds,
    /// Index of the first line.
    pub at: usize,
    /// Maximum number of lines, up to [`ROW_WINDOW`].
    pub n: usize,
    /// Index of the line that keeps its position on the screen, if the request names one.
    pub anchor: Option<usize>,
    /// Revision of the trace.
    pub revision: i64,
    /// Index of the selected row in the outline; `None` if the trace itself is selected.
    pub selected: Option<usize>,
    /// Number of scores by observation id; `None` is the trace.
    pub n_scores: &'a HashMap<Option<String>, u64>,
    /// Scores by observation id, a chip for each name; empty if there are too many scores.
    pub chips: &'a HashMap<String, Vec<ScoreChip>>,
    /// Whether to draw the overview map.
    pub with_map: bool,
    /// View, filters and columns.
    pub view_params: &'a ViewParams,
}

impl RowsInput<'_> {
    pub(crate) fn axis(&self) -> Axis {
        let period = self.view.outline().period();
        let axis = period.map(|(start, end)| Axis::new(start, end));
        let axis = axis.unwrap_or_default();
        // The zoom applies only to the timeline.
        match self.view_params.zoom {
            Some(part) if self.view_params.trace_view == TraceView::Time => axis.part(part),
            _ => axis,
        }
    }
}

/// A window of rows as a fragment.
#[derive(Debug, Template)]
#[template(path = "window.html")]
pub struct RowsPage {
    window: Window,
}

impl RowsPage {
    /// Builds the rows.
    #[must_use]
    pub fn new(input: &RowsInput<'_>) -> Self {
        Self { window: Window::new(input) }
    }
}

/// A window of rows with links to its neighbours.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) rows: Vec<Row>,
    pub(crate) at: usize,
    pub(crate) n_lines: usize,
    pub(crate) anchor: Option<usize>,
    pub(crate) revision: i64,
    /// Selection and collapsed rows.
    pub(crate) row_state: RowState,
    /// Collapsed rows and view parameters as the end of a URL.
    pub(crate) rest: String,
    /// Number of filtered observations, in words.
    pub(crate) hidden: Option<String>,
    /// Which collapsed or expanded rows were dropped, in words.
    pub(crate) dropped_rows: Option<String>,
    /// Index of the selected line, or of the collapsed line that contains it.
    pub(crate) selected: Option<usize>,
    pub(crate) map: Option<Minimap>,
    pub(crate) grouping: Option<(&'static str, String)>,
    /// Critical path, in the timeline.
    pub(crate) path: Option<CriticalPath>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) observation_id: String,
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
    /// Name, value and CSS class of each score; empty if there are more than [`CHIPS`].
    pub(crate) chips: Vec<(Text, Text, &'static str)>,
    pub(crate) bar: Bar,
    /// Time range in milliseconds, in the timeline.
    pub(crate) part: Option<(f64, f64)>,
    pub(crate) duration: String,
    /// Self time.
    pub(crate) own: String,
    pub(crate) tokens: String,
    pub(crate) cost: String,
    pub(crate) is_selected: bool,
    /// Tooltip.
    pub(crate) title: Option<String>,
    /// Whether the row is on the critical path. Its note then is the time on the path, if that is less than its
    /// duration.
    pub(crate) is_critical: bool,
}

impl Row {
    pub(crate) fn row_index(&self) -> usize {
        self.index + ROWS_ABOVE + 1
    }

    /// Name of the query parameter that toggles the row.
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
            dropped_rows: dropped_rows(input.folds),
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

/// Label and URL of the link that toggles grouping.
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
    let below = outline.self_time_us(at);
    // The self time of a leaf is its duration.
    let own = below.or(took.filter(|_| row.n_below == 0));
    Row {
        observation_id: encode(row.id()),
        is_run: false,
        name: Text::from(outline.name(row)),
        model: outline.model(row).map(Text::from),
        kind: kind_label(row.kind),
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

/// The chips of a row; empty if there are more than [`CHIPS`].
fn chips_of(input: &RowsInput<'_>, observation_id: &str) -> Vec<(Text, Text, &'static str)> {
    let chips = input.chips.get(observation_id).map(Vec::as_slice);
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
        observation_id: encode(first.id()),
        is_run: true,
        name: Text::from(format!("{} ×{}", outline.name(first), count(run.n.into()))),
        model: None,
        kind: kind_label(first.kind),
        indent: line.depth.min(MAX_DEPTH),
        level: line.depth + 2,
        index: 0,
        parent: None,
        is_open: line.is_open,
        note: Some(note).filter(|text| !text.is_empty()),
        mark: (run.n_errors > 0).then(|| plural(run.n_errors.into(), "error")),
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
    let tokens = run.tokens.filter(|n| 0 < *n).map(|n| plural(n, "token"));
    let cost = cost_cell(run.cost);
    let cost = (!cost.is_empty()).then_some(cost);
    let all: Vec<String> = [note, tokens, cost].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// Time range of an observation in milliseconds from the start of the trace; `None` without duration.
pub(crate) fn part_of(
    node: &OutlineNode,
    (start, end): (Timestamp, Timestamp),
) -> Option<(f64, f64)> {
    let ms = |at: Timestamp| at.micros_since(start) as f64 / 1e3;
    let (from, to) = (ms(node.start), ms(node.end.unwrap_or(end)));
    (from < to).then_some((from, to))
}

/// CSS classes that hide columns without values. All rows of the trace are tested, so that columns do not move while
/// scrolling.
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

/// CSS classes that hide columns that are not selected or empty.
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
    // The timeline always has the time bars.
    let is_shown = |column: RowColumn| {
        view_params.columns.contains(&column)
            || (column == RowColumn::Time && view_params.trace_view == TraceView::Time)
    };
    let left_out = RowColumn::ALL.iter().filter(|(own, ..)| !is_shown(*own));
    let left_out: String = left_out.map(|(.., class)| *class).collect();
    format!(" by-hand{empty}{left_out}")
}

/// Tag after the name of a row with an error or an anomaly, and its CSS class.
fn mark(row: &OutlineNode, is_closed: bool) -> (Option<String>, &'static str) {
    let word = |word: &str| Some(word.to_owned());
    match (row.level, row.parent_fault) {
        (Level::Error, _) => (word("error"), "bad"),
        _ if is_closed && row.n_errors_below > 0 => {
            let n = plural(row.n_errors_below.into(), "error");
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

/// Empty for observations that cannot have a cost.
pub(crate) fn cost_cell(sum: CostSum) -> String {
    match sum.is_empty() {
        true => String::new(),
        false => cost(sum),
    }
}
