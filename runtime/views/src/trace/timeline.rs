//! Axis range, critical path and gaps of the timeline view.

use std::cmp::Reverse;

use crate::urls::Parameter;
use perpend_domain::time::Timestamp;

use crate::Text;
use crate::format::{duration, exact_duration, plural};
use crate::trace::header::{RowState, ViewParams};
use crate::trace::rows::{RowsInput, Window, part_of};
use perpend_domain::outline::{Bar, CriticalPath};

/// Observations and gaps that are listed.
const NAMED: usize = 3;
/// With fewer rows the critical path is always shown.
const FEW: usize = 8;
/// Axis ranges from this length on are written in seconds and minutes.
const LONG_MS: f64 = 10_000.0;

#[derive(Debug)]
pub(crate) struct TimelinePanel {
    /// Query parameters that the form repeats as hidden fields.
    pub(crate) hidden_fields: Vec<Parameter>,
    pub(crate) from: RangeEnd,
    pub(crate) to: RangeEnd,
    /// URL of the whole axis.
    pub(crate) whole: Option<String>,
    /// URL of the time range of the selected observation; the whole axis for an observation without duration and for
    /// the trace.
    pub(crate) selection_range: String,
    /// Whether the selected observation has a duration; otherwise the link is hidden.
    pub(crate) has_selection_range: bool,
    /// Duration and number of observations of the critical path.
    pub(crate) summary: Option<String>,
    pub(crate) longest: Vec<PathNode>,
    /// Total idle time and number of gaps.
    pub(crate) gaps: Option<String>,
    /// Label and URL of the longest gaps.
    pub(crate) longest_gaps: Vec<(String, String)>,
    /// All gaps on the axis.
    pub(crate) bands: Vec<Bar>,
}

/// An end of the axis range: milliseconds from the start of the trace, field value and validation error.
#[derive(Debug)]
pub(crate) struct RangeEnd {
    pub(crate) ms: f64,
    pub(crate) shown: String,
    pub(crate) problem: Option<&'static str>,
}

impl RangeEnd {
    /// The `nth` end, 0 or 1. `length` is the duration of the trace in milliseconds.
    fn new(view_params: &ViewParams, nth: usize, (ms, length): (f64, f64)) -> Self {
        let shown = match LONG_MS <= length {
            true => exact_duration((ms * 1e3).round() as i64),
            false => format!("{} ms", (ms * 1e3).round() / 1e3),
        };
        let typed = view_params.typed.as_ref();
        Self {
            ms,
            shown: typed.map_or(shown, |typed| typed.ends[nth].clone()),
            problem: typed.and_then(|typed| typed.problems[nth]),
        }
    }
}

/// An observation with a large share of the critical path.
#[derive(Debug)]
pub(crate) struct PathNode {
    pub(crate) name: Text,
    pub(crate) href: String,
    pub(crate) own: String,
}

impl TimelinePanel {
    pub(crate) fn new(input: &RowsInput<'_>, window: &Window) -> Self {
        let outline = input.view.outline();
        let (start, end) = outline.period().unwrap_or_default();
        let ms = |micros: i64| (micros as f64) / 1e3;
        let length = ms(end.micros_since(start));
        let (from, to) = input.view_params.zoom.unwrap_or((0.0, length));
        let at = |row_state: &RowState, zoom: Option<(f64, f64)>| {
            row_state.address(&ViewParams { zoom, ..input.view_params.clone() })
        };
        let node = input.selected.map(|at| &outline.rows()[at]);
        let selection_range = node.and_then(|node| part_of(node, (start, end)));
        let path = window.path.iter().flatten();
        let longest = longest(path.clone()).into_iter().map(|(row, self_time_us)| {
            let entry = &outline.rows()[row];
            PathNode {
                name: Text::from(outline.name(entry)),
                href: at(&RowState::new(Some(entry.id()), input.folds), input.view_params.zoom),
                own: duration(self_time_us),
            }
        });
        let mut gaps = outline.gaps(end.micros_since(start) / 100);
        let us = |gap: &(Timestamp, Timestamp)| gap.1.micros_since(gap.0);
        let total: i64 = gaps.iter().map(us).sum();
        let axis = input.axis();
        let bands = gaps.iter().map(|(from, to)| axis.bar(*from, Some(*to), None));
        let bands = bands.filter(|band| 0.0 < band.width).collect();
        let gap_summary = (!gaps.is_empty()).then(|| {
            let n = plural(gaps.len() as u64, "gap");
            format!("{} idle in {n}", duration(total))
        });
        gaps.sort_by_key(|gap| Reverse(us(gap)));
        let longest_gaps = gaps.iter().take(NAMED).map(|gap| {
            let (from, to) = (gap.0.micros_since(start), gap.1.micros_since(start));
            let label = format!("{} from {}", duration(us(gap)), duration(from));
            (label, at(&window.row_state, Some((ms(from), ms(to)))))
        });
        let longest_gaps = longest_gaps.collect();
        let whole = ViewParams { zoom: None, ..input.view_params.clone() };
        let kept = window.row_state.pairs.iter().cloned();
        Self {
            longest: longest.collect(),
            gaps: gap_summary,
            longest_gaps,
            bands,
            summary: informative_path(window, outline.rows().len()).and_then(summary),
            hidden_fields: kept.chain(whole.pairs()).collect(),
            from: RangeEnd::new(input.view_params, 0, (from, length)),
            to: RangeEnd::new(input.view_params, 1, (to, length)),
            whole: input.view_params.zoom.map(|_| at(&window.row_state, None)),
            selection_range: at(&window.row_state, selection_range),
            has_selection_range: selection_range.is_some(),
        }
    }
}

/// The critical path, unless most of many rows are on it.
fn informative_path(window: &Window, n_rows: usize) -> Option<&CriticalPath> {
    let path = window.path.as_ref();
    path.filter(|path| n_rows < FEW || path.len() * 2 < n_rows)
}

fn summary(path: &CriticalPath) -> Option<String> {
    let length = duration(path.values().sum());
    let observations = plural(path.len() as u64, "observation");
    (!path.is_empty()).then(|| format!("{length} on {observations}"))
}

/// The rows with the longest time on the path.
fn longest<'p>(path: impl Iterator<Item = (&'p usize, &'p i64)>) -> Vec<(usize, i64)> {
    let mut rows: Vec<(usize, i64)> = path.map(|(row, us)| (*row, *us)).collect();
    rows.sort_by_key(|(row, us)| (Reverse(*us), *row));
    rows.truncate(NAMED);
    rows
}
