//! Query parameters of the trace page and its fragments.

use std::str::FromStr;

use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{Level, ObservationKind};
use perpend_domain::outline::{FoldTarget, Folds, Outline, OutlineNode, OutlineView};
use perpend_views::{
    Form, Neighbours, ROW_WINDOW, RowColumn, RowState, TraceView, TypedRange, ViewParams,
    read_duration,
};

use crate::traces;

/// Characters of the search text; the rest is ignored.
const MAX_TEXT: usize = 1_000;

/// Trims and truncates a search text.
pub(crate) fn search_text(typed: &str) -> String {
    typed.trim().chars().take(MAX_TEXT).collect()
}

/// Parsed parameters. Unknown parameters are ignored, and so are invalid ones that only scripts send.
#[derive(Debug, Default)]
pub(crate) struct TraceParams {
    /// The selected observation; the trace itself if absent.
    pub(crate) observation: Option<ObservationId>,
    folds: Folds,
    /// The row or run to expand or collapse.
    toggle: Option<FoldTarget>,
    pub(crate) at: Option<usize>,
    n: Option<usize>,
    /// The revision of the trace that the page shows.
    pub(crate) revision: Option<i64>,
    /// The id of the observation whose row keeps its position on the screen.
    anchor: Option<String>,
    /// The id of the observation where a seek starts.
    pub(crate) from: Option<String>,
    /// The target of a seek: `error` or `step`.
    pub(crate) what: Option<String>,
    /// Whether the seek goes towards the first row.
    pub(crate) is_backwards: bool,
    /// Index of the first rule whose outcome is shown.
    pub(crate) rules: usize,
    /// Display options that links preserve.
    pub(crate) view_params: ViewParams,
    /// Start and end of the time range as typed.
    typed: [String; 2],
    /// Messages about invalid parameters.
    pub(crate) faults: Vec<String>,
}

impl TraceParams {
    /// Parses a query string.
    pub(crate) fn new(query: Option<&str>) -> Self {
        fn number<T: FromStr>(raw: &str) -> Option<T> {
            raw.parse().ok()
        }
        let mut params = Self::default();
        for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
            let text = value.as_ref();
            match name.as_ref() {
                "observation" => {
                    params.observation = ObservationId::new(text).ok();
                    // An invalid id gives the same message as an unknown one.
                    if params.observation.is_none() && !text.is_empty() {
                        params.unknown_observation(text);
                    }
                }
                "fold" => params.folds.set(FoldTarget::Row(text.to_owned()), false),
                "fold-run" => params.folds.set(FoldTarget::Run(text.to_owned()), false),
                "open" => params.folds.set(FoldTarget::Row(text.to_owned()), true),
                "open-run" => params.folds.set(FoldTarget::Run(text.to_owned()), true),
                "group" => params.folds.is_ungrouped = text == "0",
                "toggle" => params.toggle = Some(FoldTarget::Row(text.to_owned())),
                "toggle-run" => params.toggle = Some(FoldTarget::Run(text.to_owned())),
                "at" => params.at = number(text),
                "n" => params.n = number(text),
                "revision" => params.revision = number(text),
                "anchor" => params.anchor = Some(text.to_owned()),
                "from" => params.from = Some(text.to_owned()),
                "what" => params.what = Some(text.to_owned()),
                "back" => params.is_backwards = true,
                "v" => match TraceView::named(text) {
                    Some(trace_view) => params.view_params.trace_view = trace_view,
                    None => params.fault("v", "one of tree, time, thread, log"),
                },
                "min" => match text.parse() {
                    Ok(Level::Debug) => {}
                    Ok(level) => params.view_params.min = Some(level),
                    Err(_) => params.fault("min", "one of DEBUG, DEFAULT, WARNING, ERROR"),
                },
                "rules" => match number(text) {
                    Some(from) => params.rules = from,
                    None => params.fault("rules", "a non-negative integer"),
                },
                // A form sends one per checkbox, a link sends a list.
                "kinds" => params.kinds(text),
                "cols" => params.columns(text),
                "in" => {
                    let list = traces::neighbors::parse_list(text);
                    params.view_params.neighbours =
                        list.map(|list| Neighbours { list, ..Neighbours::default() });
                }
                "find" => {
                    let text = self::search_text(text);
                    params.view_params.find = (!text.is_empty()).then_some(text);
                }
                "t0" => params.typed[0] = text.trim().to_owned(),
                "t1" => params.typed[1] = text.trim().to_owned(),
                name => match params.view_params.forms.take(name, text) {
                    Some(true) => {}
                    Some(false) => params.fault(name, Form::NAMES),
                    None => params.view_params.others.take(name, text),
                },
            }
        }
        params.zoom();
        params.view_params.kinds.sort_unstable();
        params.view_params.kinds.dedup();
        params.view_params.columns.sort_unstable();
        params.view_params.columns.dedup();
        params.folds.min = params.view_params.min;
        params.folds.kinds.clone_from(&params.view_params.kinds);
        params
    }

    fn fault(&mut self, name: &str, expected: &str) {
        let fault = format!("`{name}` must be {expected}; ignored.");
        self.faults.push(fault);
    }

    fn kinds(&mut self, text: &str) {
        let names = text.split(',').map(str::trim);
        let kinds: Result<Vec<ObservationKind>, _> = names.map(str::parse).collect();
        match kinds {
            Ok(kinds) => self.view_params.kinds.extend(kinds),
            Err(_) => {
                let all = ObservationKind::ALL.iter().map(|kind| kind.as_str());
                let all: Vec<&str> = all.collect();
                self.fault("kinds", &format!("a list of {}", all.join(", ")));
            }
        }
    }

    fn columns(&mut self, text: &str) {
        let names = text.split(',').map(str::trim);
        match names.map(RowColumn::from_name).collect::<Option<Vec<_>>>() {
            Some(columns) => self.view_params.columns.extend(columns),
            None => self.fault("cols", RowColumn::NAMES),
        }
    }

    /// Parses the time range. A missing end is that of the trace.
    fn zoom(&mut self) {
        const INVALID: &str = "Must be a duration such as 70 s, 1 min 10 s or 300 ms.";
        const ORDER: &str = "The end must be after the start.";
        let read = |text: &str, open: f64| match text.is_empty() {
            true => Some(open),
            false => read_duration(text),
        };
        let ends = [read(&self.typed[0], 0.0), read(&self.typed[1], f64::MAX)];
        let problems = match ends {
            _ if self.typed.iter().all(String::is_empty) => return,
            [Some(from), Some(to)] if from < to => {
                self.view_params.zoom = Some((from, to));
                return;
            }
            [Some(_), Some(_)] => [None, Some(ORDER)],
            parsed => parsed.map(|end| end.is_none().then_some(INVALID)),
        };
        self.reject_zoom(problems);
        self.fault(
            "t0` and `t1",
            "durations since the start of the trace such as 300 (milliseconds), 1.5 s or 1 min 10 s, with t0 less than t1",
        );
    }

    /// Keeps the typed time range for the form, with a message for each end.
    fn reject_zoom(&mut self, problems: [Option<&'static str>; 2]) {
        self.view_params.typed = Some(TypedRange { ends: self.typed.clone(), problems });
    }

    /// Whether the request expands or collapses a row.
    pub(crate) const fn toggles(&self) -> bool {
        self.toggle.is_some()
    }

    /// Selects the trace, with a message, if it does not have the selected observation.
    pub(crate) fn deselect_unknown(&mut self, outline: &Outline) {
        let is_unknown =
            |observation: &mut ObservationId| outline.find(observation.as_str()).is_none();
        if let Some(observation) = self.observation.take_if(is_unknown) {
            self.unknown_observation(observation.as_str());
        }
    }

    /// Limits the time range to the trace; a range outside of the trace is rejected.
    pub(crate) fn fit_zoom(&mut self, outline: &Outline) {
        let Some((from, to)) = self.view_params.zoom.take() else {
            return;
        };
        let period = outline.period();
        let length_ms = period.map_or(0.0, |(start, end)| end.micros_since(start) as f64 / 1e3);
        if from < length_ms {
            self.view_params.zoom = Some((from, to.min(length_ms)));
            return;
        }
        self.reject_zoom([Some("Must be before the end of the trace."), None]);
        let fault = "The time range starts after the end of the trace. Showing the whole trace.";
        self.faults.push(fault.to_owned());
    }

    fn unknown_observation(&mut self, id: &str) {
        let fault = format!(
            "This trace has no observation {id}, or it has not arrived yet. Showing the trace itself."
        );
        self.faults.push(fault);
    }

    /// Whether the filters for level and kind include the observation.
    pub(crate) fn includes(&self, observation: &OutlineNode) -> bool {
        self.folds.includes(observation.kind, observation.level)
    }

    /// Parameters of the rows that views without rows preserve in links.
    pub(crate) fn kept(&self) -> RowState {
        let selected = self.observation.as_ref().map(ObservationId::as_str);
        RowState::new(selected, &self.folds)
    }

    /// URL of the page with another observation selected.
    pub(crate) fn address(&self, observation: &str) -> String {
        RowState::new(Some(observation), &self.folds).address(&self.view_params)
    }

    /// The requested window of the outline. If row numbers may have changed, because of another revision (`is_moved`) or because
    /// the limit of expanded and collapsed rows was exceeded, it is the window around the anchor.
    pub(crate) fn window<'o>(
        self,
        outline: &'o Outline,
        selected: Option<usize>,
        is_moved: bool,
    ) -> TraceWindow<'o> {
        let folds = match self.toggle {
            Some(mark) => outline.toggled(self.folds, selected, mark),
            None => self.folds,
        };
        let is_moved = is_moved || folds.forgot_open || folds.forgot_closed;
        let mut window =
            TraceWindow::new(outline, (folds, self.view_params), selected, self.at, self.n);
        let anchor = self.anchor.and_then(|observation| outline.find(&observation));
        window.anchor = anchor.and_then(|row| window.view.index_of(row));
        if let Some(index) = window.anchor.filter(|_| is_moved) {
            window.n = ROW_WINDOW;
            window.at = start_around(&window.view, index, ROW_WINDOW);
        }
        window
    }

    /// The window around a row, with its collapsed ancestors expanded.
    pub(crate) fn reveal(self, outline: &Outline, row: usize) -> TraceWindow<'_> {
        let folds = outline.revealed(self.folds, row);
        TraceWindow::new(outline, (folds, self.view_params), Some(row), None, self.n)
    }
}

/// Index of the first of `n` lines around a line.
fn start_around(view: &OutlineView<'_>, index: usize, n: usize) -> usize {
    let first = index.saturating_sub(n / 2);
    first.min(view.len().saturating_sub(n))
}

/// A window of an outline.
#[derive(Debug)]
pub(crate) struct TraceWindow<'o> {
    pub(crate) view: OutlineView<'o>,
    pub(crate) folds: Folds,
    pub(crate) view_params: ViewParams,
    pub(crate) selected: Option<usize>,
    pub(crate) at: usize,
    pub(crate) n: usize,
    /// The line of the anchor.
    pub(crate) anchor: Option<usize>,
}

impl<'o> TraceWindow<'o> {
    fn new(
        outline: &'o Outline,
        (folds, view_params): (Folds, ViewParams),
        selected: Option<usize>,
        at: Option<usize>,
        n: Option<usize>,
    ) -> Self {
        let view = outline.view(&folds, selected);
        let n = n.unwrap_or(ROW_WINDOW).clamp(1, ROW_WINDOW);
        let around = || {
            let index = selected.and_then(|row| view.index_of(row));
            start_around(&view, index.unwrap_or_default(), n)
        };
        Self {
            at: at.unwrap_or_else(around).min(view.len().saturating_sub(1)),
            n,
            anchor: None,
            view,
            folds,
            view_params,
            selected,
        }
    }

    /// URL of the page with another observation selected.
    pub(crate) fn address(&self, observation: &str) -> String {
        RowState::new(Some(observation), &self.folds).address(&self.view_params)
    }

    /// Whether the selected observation has a line; the filter for levels may exclude it.
    pub(crate) fn shows_selected(&self) -> bool {
        let line = |row: usize| self.view.window(self.view.index_of(row)?, 1).first();
        let is_own = |row: usize| line(row).is_some_and(|line| line.row as usize == row);
        self.selected.is_some_and(is_own)
    }

    /// Ids of the observations in the window.
    pub(crate) fn ids(&self) -> Vec<&str> {
        let rows = self.view.outline().rows();
        let lines = self.view.window(self.at, self.n);
        lines.iter().map(|line| rows[line.row as usize].id()).collect()
    }
}

#[cfg(test)]
mod tests {
    use perpend_domain::telemetry::ObservationSummary;
    use perpend_domain::time::Timestamp;

    use super::*;

    #[test]
    fn folds_are_parsed_and_invalid_values_are_ignored() {
        let query = "observation=a%20b&fold=x&open=y&open-run=x&fold=z%26&group=0&at=no&n=7&v=tree&toggle=q";
        let params = TraceParams::new(Some(query));
        assert_eq!(params.observation.as_ref().map(ObservationId::as_str), Some("a b"));
        let row = |id: &str| FoldTarget::Row(id.to_owned());
        assert_eq!(params.folds.closed, [row("x"), row("z&")]);
        assert_eq!(params.folds.open, [row("y"), FoldTarget::Run("x".to_owned())]);
        assert!(params.folds.is_ungrouped && params.toggles());
        assert_eq!((params.at, params.n, params.toggle), (None, Some(7), Some(row("q"))));
        assert!(TraceParams::new(Some("observation=")).observation.is_none());
    }

    #[test]
    fn a_page_with_rows_of_another_revision_gets_the_window_around_its_anchor() {
        let bone = |at: i64| ObservationSummary {
            id: format!("o{at:04}"),
            parent_id: None,
            kind: ObservationKind::Span,
            name: format!("step {at}"),
            level: Level::Default,
            start: Timestamp::from_millis(at),
            end: None,
            first_token: None,
            model: None,
            tokens: None,
            cost: None,
        };
        let outline = Outline::new((0..1_000).map(bone).collect());
        let place = |query: &str, is_moved: bool| {
            let window = TraceParams::new(Some(query)).window(&outline, None, is_moved);
            (window.at, window.n, window.anchor)
        };
        let query = "at=500&n=10&revision=7&anchor=o0700";
        assert_eq!(TraceParams::new(Some(query)).revision, Some(7));
        assert_eq!(place(query, false), (500, 10, Some(700)));
        assert_eq!(place(query, true), (600, ROW_WINDOW, Some(700)));
        assert_eq!(place("at=500&n=10&anchor=gone", true), (500, 10, None));
        assert_eq!(place("anchor=o0999", true), (800, ROW_WINDOW, Some(999)));
        // A window after the end starts at the last row.
        assert_eq!(place("at=5000&n=10", false), (999, 10, None));
        // The same applies to a URL with more marks than the limit.
        let marks: String = (0..60).map(|at| format!("&open=o{at:04}")).collect();
        assert_eq!(place(&format!("{query}{marks}"), false).0, 600);
    }

    #[test]
    fn a_time_range_beyond_the_end_is_limited_or_rejected() {
        let bone = ObservationSummary {
            id: "a".to_owned(),
            parent_id: None,
            kind: ObservationKind::Span,
            name: "step".to_owned(),
            level: Level::Default,
            start: Timestamp::from_millis(0),
            end: Some(Timestamp::from_millis(1_000)),
            first_token: None,
            model: None,
            tokens: None,
            cost: None,
        };
        let outline = Outline::new(vec![bone]);
        let fitted = |query: &str| {
            let mut params = TraceParams::new(Some(query));
            params.fit_zoom(&outline);
            (params.view_params.zoom, params.faults.len())
        };
        assert_eq!(fitted("t0=100&t1=200.5"), (Some((100.0, 200.5)), 0));
        assert_eq!(fitted("t0=0.1+s&t1=200.5ms"), (Some((100.0, 200.5)), 0));
        assert_eq!(fitted("t0=0.1+hours&t1=1 s"), (None, 1));
        assert_eq!(fitted("t0=100&t1=1e300"), (Some((100.0, 1_000.0)), 0));
        assert_eq!(fitted("t0=1e300&t1=1e308"), (None, 1));
        assert_eq!(fitted("v=time"), (None, 0));
        // The format of the page is accepted, and a missing end is that of the trace.
        assert_eq!(fitted("t0=&t1=0+min+0.2+s"), (Some((0.0, 200.0)), 0));
        assert_eq!(fitted("t0=100&t1="), (Some((100.0, 1_000.0)), 0));
        assert_eq!(fitted("t0=&t1="), (None, 0));
    }

    #[test]
    fn an_invalid_end_of_the_time_range_is_kept_as_typed_with_a_message() {
        let typed = |query: &str| TraceParams::new(Some(query)).view_params.typed;
        let problems =
            |query: &str| typed(query).unwrap().problems.map(|problem| problem.is_some());
        assert_eq!(typed("t0=1+min+10+s&t1=2+min"), None);
        assert_eq!(problems("t0=foo&t1=60"), [true, false]);
        assert_eq!(problems("t0=foo&t1=bar"), [true, true]);
        assert_eq!(problems("t0=70&t1=60"), [false, true]);
        assert_eq!(typed("t0=foo&t1=60").unwrap().ends, ["foo", "60"]);
    }

    #[test]
    fn row_columns_are_one_or_several_parameters_and_unknown_ones_add_a_message() {
        let of = |query: &str| TraceParams::new(Some(query));
        let both = [RowColumn::SelfTime, RowColumn::Cost];
        for query in ["cols=cost,self", "cols=self&cols=cost&cols=cost"] {
            let params = of(query);
            assert_eq!(params.view_params.columns, both);
            assert!(params.faults.is_empty());
        }
        let params = of("cols=self,spoon");
        assert!(
            params.view_params.columns.is_empty() && params.faults[0].contains("duration, self")
        );
    }

    #[test]
    fn kinds_are_one_or_several_parameters_and_unknown_ones_add_a_message() {
        let of = |query: &str| TraceParams::new(Some(query));
        let both = [ObservationKind::Generation, ObservationKind::Tool];
        let params = of("kinds=TOOL&kinds=generation&kinds=TOOL");
        assert_eq!(params.view_params.kinds, both);
        assert_eq!(params.folds.kinds, both);
        let params = of("kinds=GENERATION,TOOL");
        assert_eq!(params.view_params.kinds, both);
        assert!(params.faults.is_empty());
        let params = of("kinds=GENERATION,SPOON");
        assert!(
            params.view_params.kinds.is_empty() && params.faults[0].contains("SPAN, GENERATION")
        );
    }
}
