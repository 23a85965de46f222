//! What of a trace is looked at: the parameters that its page and the parts of it have in common.

use std::str::FromStr;

use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{Level, ObservationKind};
use perpend_domain::outline::{FoldTarget, Folds, Outline, OutlineNode, OutlineView};
use perpend_views::{
    Form, Neighbours, ROW_WINDOW, RowColumn, RowState, TraceView, TypedRange, ViewParams,
    read_duration,
};

use crate::traces;

/// Only the beginning of a longer text is searched for.
const MAX_TEXT: usize = 1_000;

/// What is searched for, as it was typed.
pub(crate) fn search_text(typed: &str) -> String {
    typed.trim().chars().take(MAX_TEXT).collect()
}

/// The parameters of an address. Unknown ones are passed over, and so are those that only the script of the page writes
/// where they cannot be read.
#[derive(Debug, Default)]
pub(crate) struct TraceParams {
    /// The selected step; the trace itself when absent.
    pub(crate) observation: Option<ObservationId>,
    folds: Folds,
    /// What to open when it is closed, and to close when it is open.
    toggle: Option<FoldTarget>,
    pub(crate) at: Option<usize>,
    n: Option<usize>,
    /// The revision of the trace that the rows of the page are of.
    pub(crate) revision: Option<i64>,
    /// A step whose row stays where it is in view.
    anchor: Option<String>,
    /// Where a search begins.
    pub(crate) from: Option<String>,
    /// What is searched for.
    pub(crate) what: Option<String>,
    /// The search goes towards the first row.
    pub(crate) is_backwards: bool,
    /// How many rules stand before those that are asked why there is no score.
    pub(crate) rules: usize,
    /// How the trace is looked at.
    pub(crate) looking: ViewParams,
    /// The ends of a part of the time axis as they were typed.
    typed: [String; 2],
    /// What cannot be read, in words.
    pub(crate) faults: Vec<String>,
}

impl TraceParams {
    /// Reads the query of an address.
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
                    // An id that no observation can have is one that none has.
                    if params.observation.is_none() && !text.is_empty() {
                        params.unknown_step(text);
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
                    Some(aspect) => params.looking.trace_view = aspect,
                    None => params.fault("v", "tree, time, thread or log"),
                },
                "min" => match text.parse() {
                    Ok(Level::Debug) => {}
                    Ok(level) => params.looking.min = Some(level),
                    Err(_) => params.fault("min", "DEBUG, DEFAULT, WARNING or ERROR"),
                },
                "rules" => match number(text) {
                    Some(from) => params.rules = from,
                    None => params.fault("rules", "a number"),
                },
                // A form sends one for each box, a link all in one.
                "kinds" => params.kinds(text),
                "cols" => params.columns(text),
                "in" => {
                    let list = traces::neighbors::parse_list(text);
                    params.looking.neighbours =
                        list.map(|list| Neighbours { list, ..Neighbours::default() });
                }
                "find" => {
                    let text = self::search_text(text);
                    params.looking.find = (!text.is_empty()).then_some(text);
                }
                "t0" => params.typed[0] = text.trim().to_owned(),
                "t1" => params.typed[1] = text.trim().to_owned(),
                name => match params.looking.forms.take(name, text) {
                    Some(true) => {}
                    Some(false) => params.fault(name, Form::NAMES),
                    None => params.looking.others.take(name, text),
                },
            }
        }
        params.zoom();
        params.looking.kinds.sort_unstable();
        params.looking.kinds.dedup();
        params.looking.columns.sort_unstable();
        params.looking.columns.dedup();
        params.folds.min = params.looking.min;
        params.folds.kinds.clone_from(&params.looking.kinds);
        params
    }

    fn fault(&mut self, name: &str, may_be: &str) {
        let fault =
            format!("The parameter {name} of this address is not understood: it may be {may_be}.");
        self.faults.push(fault);
    }

    fn kinds(&mut self, text: &str) {
        let names = text.split(',').map(str::trim);
        let known: Result<Vec<ObservationKind>, _> = names.map(str::parse).collect();
        match known {
            Ok(kinds) => self.looking.kinds.extend(kinds),
            Err(_) => {
                let all = ObservationKind::ALL.iter().map(|kind| kind.as_str());
                let all: Vec<&str> = all.collect();
                self.fault("kinds", &format!("some of {}", all.join(", ")));
            }
        }
    }

    fn columns(&mut self, text: &str) {
        let names = text.split(',').map(str::trim);
        match names.map(RowColumn::from_name).collect::<Option<Vec<_>>>() {
            Some(columns) => self.looking.columns.extend(columns),
            None => self.fault("cols", RowColumn::NAMES),
        }
    }

    /// Takes a part of the time axis. Without one of its ends it has that of the trace.
    fn zoom(&mut self) {
        const UNREAD: &str = "Not a time: write 70 s, 1 min 10 s or 300 ms.";
        const ORDER: &str = "The end must be after the start.";
        let read = |text: &str, open: f64| match text.is_empty() {
            true => Some(open),
            false => read_duration(text),
        };
        let ends = [read(&self.typed[0], 0.0), read(&self.typed[1], f64::MAX)];
        let problems = match ends {
            _ if self.typed.iter().all(String::is_empty) => return,
            [Some(from), Some(to)] if from < to => {
                self.looking.zoom = Some((from, to));
                return;
            }
            [Some(_), Some(_)] => [None, Some(ORDER)],
            odd => odd.map(|end| end.is_none().then_some(UNREAD)),
        };
        self.refuse_zoom(problems);
        self.fault(
            "t0 or t1",
            "times from the start of the trace such as 300 (milliseconds), 1.5 s or 1 min 10 s, t0 the smaller one",
        );
    }

    /// The fields for the part show what was typed, each with its problem.
    fn refuse_zoom(&mut self, problems: [Option<&'static str>; 2]) {
        self.looking.typed = Some(TypedRange { ends: self.typed.clone(), problems });
    }

    /// Whether what is visible changes with this request.
    pub(crate) const fn toggles(&self) -> bool {
        self.toggle.is_some()
    }

    /// Says that the selected step is not in the trace, and selects the trace itself.
    pub(crate) fn pass_over_unknown(&mut self, outline: &Outline) {
        let is_unknown = |step: &mut ObservationId| outline.find(step.as_str()).is_none();
        if let Some(step) = self.observation.take_if(is_unknown) {
            self.unknown_step(step.as_str());
        }
    }

    /// Keeps what of the part of the time axis is within the trace; when nothing is, the whole is shown.
    pub(crate) fn fit_zoom(&mut self, outline: &Outline) {
        let Some((from, to)) = self.looking.zoom.take() else {
            return;
        };
        let period = outline.period();
        let length_ms = period.map_or(0.0, |(start, end)| end.micros_since(start) as f64 / 1e3);
        if from < length_ms {
            self.looking.zoom = Some((from, to.min(length_ms)));
            return;
        }
        self.refuse_zoom([Some("The trace ends before that."), None]);
        let fault = "The part of the time that this address names begins after the end of the trace. The whole time is shown.";
        self.faults.push(fault.to_owned());
    }

    fn unknown_step(&mut self, id: &str) {
        let fault = format!(
            "This trace has no step {id}, or it has not arrived. The trace itself is shown."
        );
        self.faults.push(fault);
    }

    /// Whether a step has the level and the kind that are asked for.
    pub(crate) fn asks_for(&self, step: &OutlineNode) -> bool {
        self.folds.asks_for(step.kind, step.level)
    }

    /// What of the address the views without rows keep.
    pub(crate) fn kept(&self) -> RowState {
        let selected = self.observation.as_ref().map(ObservationId::as_str);
        RowState::new(selected, &self.folds)
    }

    /// The page that looks in the same way at a step.
    pub(crate) fn address(&self, step: &str) -> String {
        RowState::new(Some(step), &self.folds).address(&self.looking)
    }

    /// The window of the outline that is looked at. Where other lines came before it, `is_moved`, or some are gone because
    /// marks were forgotten, it is the one around the anchor.
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
            TraceWindow::new(outline, (folds, self.looking), selected, self.at, self.n);
        let anchor = self.anchor.and_then(|step| outline.find(&step));
        window.anchor = anchor.and_then(|row| window.view.index_of(row));
        if let Some(index) = window.anchor.filter(|_| is_moved) {
            window.n = ROW_WINDOW;
            window.at = first_around(&window.view, index, ROW_WINDOW);
        }
        window
    }

    /// The window around a row, which what was closed by hand does not hide.
    pub(crate) fn reveal(self, outline: &Outline, row: usize) -> TraceWindow<'_> {
        let folds = outline.revealed(self.folds, row);
        TraceWindow::new(outline, (folds, self.looking), Some(row), None, self.n)
    }
}

/// The first of `n` lines around one.
fn first_around(view: &OutlineView<'_>, index: usize, n: usize) -> usize {
    let first = index.saturating_sub(n / 2);
    first.min(view.len().saturating_sub(n))
}

/// A window of an outline.
#[derive(Debug)]
pub(crate) struct TraceWindow<'o> {
    pub(crate) view: OutlineView<'o>,
    pub(crate) folds: Folds,
    pub(crate) looking: ViewParams,
    pub(crate) selected: Option<usize>,
    pub(crate) at: usize,
    pub(crate) n: usize,
    /// The line of the anchor.
    pub(crate) anchor: Option<usize>,
}

impl<'o> TraceWindow<'o> {
    fn new(
        outline: &'o Outline,
        (folds, looking): (Folds, ViewParams),
        selected: Option<usize>,
        at: Option<usize>,
        n: Option<usize>,
    ) -> Self {
        let view = outline.view(&folds, selected);
        let n = n.unwrap_or(ROW_WINDOW).clamp(1, ROW_WINDOW);
        let around = || {
            let index = selected.and_then(|row| view.index_of(row));
            first_around(&view, index.unwrap_or_default(), n)
        };
        Self {
            at: at.unwrap_or_else(around).min(view.len().saturating_sub(1)),
            n,
            anchor: None,
            view,
            folds,
            looking,
            selected,
        }
    }

    /// The page that looks in the same way at a step.
    pub(crate) fn address(&self, step: &str) -> String {
        RowState::new(Some(step), &self.folds).address(&self.looking)
    }

    /// Whether the selected step has a line: its level may leave it out.
    pub(crate) fn shows_selected(&self) -> bool {
        let line = |row: usize| self.view.window(self.view.index_of(row)?, 1).first();
        let is_own = |row: usize| line(row).is_some_and(|line| line.row as usize == row);
        self.selected.is_some_and(is_own)
    }

    /// The observations in the window.
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
    fn folds_are_read_as_they_are_written_and_the_rest_is_passed_over() {
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
        // Behind the last row there is nothing to see.
        assert_eq!(place("at=5000&n=10", false), (999, 10, None));
        // So does one whose address has more marks than are kept.
        let marks: String = (0..60).map(|at| format!("&open=o{at:04}")).collect();
        assert_eq!(place(&format!("{query}{marks}"), false).0, 600);
    }

    #[test]
    fn a_part_of_the_time_beyond_the_end_is_cut_or_told() {
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
            (params.looking.zoom, params.faults.len())
        };
        assert_eq!(fitted("t0=100&t1=200.5"), (Some((100.0, 200.5)), 0));
        assert_eq!(fitted("t0=0.1+s&t1=200.5ms"), (Some((100.0, 200.5)), 0));
        assert_eq!(fitted("t0=0.1+hours&t1=1 s"), (None, 1));
        assert_eq!(fitted("t0=100&t1=1e300"), (Some((100.0, 1_000.0)), 0));
        assert_eq!(fitted("t0=1e300&t1=1e308"), (None, 1));
        assert_eq!(fitted("v=time"), (None, 0));
        // What the page writes is read, and an end that is left out is that of the trace.
        assert_eq!(fitted("t0=&t1=0+min+0.2+s"), (Some((0.0, 200.0)), 0));
        assert_eq!(fitted("t0=100&t1="), (Some((100.0, 1_000.0)), 0));
        assert_eq!(fitted("t0=&t1="), (None, 0));
    }

    #[test]
    fn an_end_of_the_time_that_cannot_be_shown_stays_as_typed_with_its_problem() {
        let typed = |query: &str| TraceParams::new(Some(query)).looking.typed;
        let problems = |query: &str| typed(query).unwrap().problems.map(|said| said.is_some());
        assert_eq!(typed("t0=1+min+10+s&t1=2+min"), None);
        assert_eq!(problems("t0=foo&t1=60"), [true, false]);
        assert_eq!(problems("t0=foo&t1=bar"), [true, true]);
        assert_eq!(problems("t0=70&t1=60"), [false, true]);
        assert_eq!(typed("t0=foo&t1=60").unwrap().ends, ["foo", "60"]);
    }

    #[test]
    fn columns_of_rows_come_in_one_parameter_or_in_several_and_others_are_told() {
        let of = |query: &str| TraceParams::new(Some(query));
        let both = [RowColumn::SelfTime, RowColumn::Cost];
        for query in ["cols=cost,self", "cols=self&cols=cost&cols=cost"] {
            let params = of(query);
            assert_eq!(params.looking.columns, both);
            assert!(params.faults.is_empty());
        }
        let params = of("cols=self,spoon");
        assert!(params.looking.columns.is_empty() && params.faults[0].contains("duration, self"));
    }

    #[test]
    fn kinds_come_in_one_parameter_or_in_several_and_are_told_when_they_are_none() {
        let of = |query: &str| TraceParams::new(Some(query));
        let both = [ObservationKind::Generation, ObservationKind::Tool];
        let params = of("kinds=TOOL&kinds=generation&kinds=TOOL");
        assert_eq!(params.looking.kinds, both);
        assert_eq!(params.folds.kinds, both);
        let params = of("kinds=GENERATION,TOOL");
        assert_eq!(params.looking.kinds, both);
        assert!(params.faults.is_empty());
        let params = of("kinds=GENERATION,SPOON");
        assert!(params.looking.kinds.is_empty() && params.faults[0].contains("SPAN, GENERATION"));
    }
}
