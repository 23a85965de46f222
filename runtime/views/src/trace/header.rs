//! The views of a trace and their common header.

use std::fmt::Write as _;

use crate::markup::{encode, is_hidden, segment};
use crate::urls::{Parameter, RowColumn, UnknownParameters, traces_with_tag, traces_with_value};
use perpend_domain::observation::{Level, ObservationKind};
use perpend_domain::outline::{FoldTarget, Folds, MAX_FOLDS};
use perpend_domain::telemetry::GroupKey;
use perpend_domain::time::Timestamp;
use perpend_domain::trace::Trace;

use crate::Text;
use crate::facts::{Fact, fact, total_tokens};
use crate::format::{TraceState, cost, count, duration, kind_label, plural, tokens_by_bucket};
use crate::layout::forms::RejectedForm;
use crate::layout::shell::href;
use crate::lists::chips::ScoreChip;
use crate::values::content::Forms;

/// A view of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceView {
    /// Observations as a tree with a time axis.
    #[default]
    Tree,
    /// The same rows with a wide axis, zoom and the critical path.
    Time,
    /// Generations and tool calls as a conversation.
    Thread,
    /// Observations by start time, with the beginnings of inputs and outputs.
    Log,
}

impl TraceView {
    /// View, name in URLs, label and shortcut key.
    const ALL: [(Self, &'static str, &'static str, &'static str); 4] = [
        (Self::Tree, "tree", "Tree", "1"),
        (Self::Time, "time", "Timeline", "2"),
        (Self::Thread, "thread", "Thread", "5"),
        (Self::Log, "log", "Log", "6"),
    ];

    /// The view with this name in URLs.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, ..)| *known == name);
        found.map(|(own, ..)| *own)
    }
}

/// Maximum number of scores in the header.
const CHIPS: usize = 5;

/// Choices of the minimum level.
const LEVELS: [(Option<Level>, &str); 4] = [
    (None, "All levels"),
    (Some(Level::Default), "Without debug"),
    (Some(Level::Warning), "Warnings and errors"),
    (Some(Level::Error), "Errors"),
];

/// View, filters and columns of a trace page, without selection and collapsed rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewParams {
    /// The view.
    pub trace_view: TraceView,
    /// Minimum level.
    pub min: Option<Level>,
    /// Observation kinds; empty for all.
    pub kinds: Vec<ObservationKind>,
    /// Columns other than the name; empty for the default.
    pub columns: Vec<RowColumn>,
    /// Range of the time axis in milliseconds from the start of the trace.
    pub zoom: Option<(f64, f64)>,
    /// The requested axis range, if it is invalid.
    pub typed: Option<TypedRange>,
    /// Chosen forms of the values of the selection.
    pub forms: Forms,
    /// The list from which the trace was opened.
    pub neighbours: Option<Neighbours>,
    /// Text to find in the trace.
    pub find: Option<String>,
    /// Unknown query parameters.
    pub others: UnknownParameters,
}

/// An axis range as typed, with validation errors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedRange {
    /// Start and end.
    pub ends: [String; 2],
    /// Validation error of each.
    pub problems: [Option<&'static str>; 2],
}

/// The list from which a trace was opened, and its neighbours there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// URL of the list, relative to that of the project.
    pub list: String,
    /// URL of the previous trace, if any.
    pub previous: Option<String>,
    /// URL of the next trace, if any.
    pub next: Option<String>,
}

impl ViewParams {
    /// Number of filtered observations and the reason, in words.
    pub(crate) fn hidden(&self, n: usize) -> Option<String> {
        let why = match (self.min.is_some(), self.kinds.is_empty()) {
            (_, true) => "below this level",
            (false, false) => "of other kinds",
            (true, false) => "of other kinds or below this level",
        };
        (0 < n).then(|| format!("{} {why} not shown", plural(n as u64, "observation")))
    }

    /// The same parameters with the tree view.
    pub(crate) fn in_tree(&self) -> Self {
        Self { trace_view: TraceView::Tree, ..self.clone() }
    }

    /// The query parameters, each with a leading `&`.
    pub(crate) fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in self.pairs() {
            // Writing to a `String` cannot fail.
            let _ = write!(query, "&{}={}", encode(&name), encode(&value));
        }
        query
    }

    /// Names and values of the query parameters.
    pub(crate) fn pairs(&self) -> Vec<Parameter> {
        let mut pairs: Vec<(&'static str, String)> = Vec::new();
        let named = TraceView::ALL.iter().find(|(own, ..)| *own == self.trace_view);
        if let Some((_, name, ..)) = named.filter(|_| self.trace_view != TraceView::Tree) {
            pairs.push(("v", (*name).to_owned()));
        }
        pairs.extend(self.min.map(|min| ("min", min.as_str().to_owned())));
        if !self.kinds.is_empty() {
            let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.as_str()).collect();
            pairs.push(("kinds", kinds.join(",")));
        }
        if !self.columns.is_empty() {
            let columns: Vec<&str> = self.columns.iter().map(|column| column.name()).collect();
            pairs.push(("cols", columns.join(",")));
        }
        if let Some((from, to)) = self.zoom {
            pairs.extend([("t0", from.to_string()), ("t1", to.to_string())]);
        }
        let forms = self.forms.pairs();
        pairs.extend(forms.map(|(name, form)| (name, form.to_owned())));
        pairs.extend(self.neighbours.iter().map(|neighbours| ("in", neighbours.list.clone())));
        pairs.extend(self.find.iter().map(|text| ("find", text.clone())));
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value));
        pairs.chain(self.others.parameters()).collect()
    }
}

/// Selection and manually collapsed or expanded rows of a trace, as query parameters. Views without rows pass them on.
#[derive(Clone, Debug)]
pub struct RowState {
    pub(crate) selection: String,
    pub(crate) folds: String,
    /// The same as hidden form fields.
    pub(crate) pairs: Vec<Parameter>,
}

impl RowState {
    /// The selected observation, or else the trace, and the manually collapsed and expanded rows.
    #[must_use]
    pub fn new(observation: Option<&str>, folds: &Folds) -> Self {
        let selected = match observation {
            Some(id) => ("observation", id),
            None => ("trace", ""),
        };
        let folds = folds_pairs(folds).into_iter();
        let pairs = [selected].into_iter().chain(folds.clone());
        Self {
            // A document contains no control characters, so that ids with such characters are omitted.
            pairs: pairs
                .filter(|(_, value)| !value.contains(is_hidden))
                .map(|(name, value)| (name.into(), value.to_owned()))
                .collect(),
            selection: match observation {
                Some(id) => format!("observation={}", encode(id)),
                None => "trace".to_owned(),
            },
            folds: folds.map(|(name, value)| format!("&{name}={}", encode(value))).collect(),
        }
    }

    /// Relative URL with these view parameters.
    #[must_use]
    pub fn address(&self, view_params: &ViewParams) -> String {
        format!("?{}{}{}", self.selection, self.folds, view_params.query())
    }
}

/// Query parameters of the manually collapsed and expanded rows.
fn folds_pairs(folds: &Folds) -> Vec<(&'static str, &str)> {
    let lists = [(&folds.closed, ["fold", "fold-run"]), (&folds.open, ["open", "open-run"])];
    let mut pairs = Vec::new();
    for (marks, [of_row, of_run]) in lists {
        pairs.extend(marks.iter().map(|mark| match mark {
            FoldTarget::Row(id) => (of_row, id.as_str()),
            FoldTarget::Run(id) => (of_run, id.as_str()),
        }));
    }
    if folds.is_ungrouped {
        pairs.push(("group", "0"));
    }
    pairs
}

/// Which collapsed or expanded rows were dropped, in words.
pub(crate) fn dropped_rows(folds: &Folds) -> Option<String> {
    let words = |what: &str, now: &str| {
        format!("Only the last {MAX_FOLDS} {what} rows are kept; earlier ones are {now} again.")
    };
    let opened = folds.forgot_open.then(|| words("expanded", "collapsed"));
    let closed = folds.forgot_closed.then(|| words("collapsed", "expanded"));
    let all: Vec<String> = opened.into_iter().chain(closed).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// A link to another view or level.
#[derive(Debug)]
pub(crate) struct ViewLink {
    pub(crate) label: &'static str,
    pub(crate) key: &'static str,
    pub(crate) href: String,
    pub(crate) is_current: bool,
}

/// The header of all views of a trace.
#[derive(Debug)]
pub(crate) struct TraceHeader {
    pub(crate) id: String,
    pub(crate) name: Option<Text>,
    /// URLs of the list of traces and of the search in this trace.
    pub(crate) list: String,
    pub(crate) find: String,
    /// The current search.
    pub(crate) current_search: Option<CurrentSearch>,
    /// URL of the comparison.
    pub(crate) compare: String,
    /// Neighbours in the list from which the trace was opened.
    pub(crate) neighbours: Option<Neighbours>,
    /// Version of the displayed trace, if the page polls for changes.
    pub(crate) version: Option<String>,
    pub(crate) figures: Vec<HeadFigure>,
    /// Scores of the trace itself, each with the URL of its card.
    pub(crate) chips: Vec<(ScoreChip, String)>,
    pub(crate) n_more_chips: usize,
    /// URL of all scores of the trace and its observations.
    pub(crate) scores: String,
    pub(crate) labels: Vec<LinkedLabel>,
    pub(crate) views: Vec<ViewLink>,
    pub(crate) levels: Vec<ViewLink>,
    pub(crate) kinds: KindFilter,
    /// Column choice of views with rows.
    pub(crate) columns: Option<ColumnChoice>,
    /// The filters in words.
    pub(crate) filter_label: String,
    /// URL without the filters of level and kind.
    pub(crate) all: String,
    /// Errors in the query string.
    pub(crate) faults: Vec<Text>,
    /// Whether the trace is bookmarked.
    pub(crate) is_bookmarked: bool,
    /// Tags with links to the traces that have them.
    pub(crate) tags: Vec<LinkedLabel>,
    /// Actions of the forms for bookmark and tags.
    pub(crate) bookmarks: String,
    pub(crate) tagging: String,
    /// Whether the user can change bookmark and tags.
    pub(crate) may_mark: bool,
    /// The tag form, if it was rejected.
    pub(crate) rejected_form: RejectedForm,
}

/// The filter by observation kind.
#[derive(Debug)]
pub(crate) struct KindFilter {
    /// Name in URLs, label, number of observations and whether it is selected.
    pub(crate) choices: Vec<(&'static str, &'static str, String, bool)>,
    /// Query parameters that the form repeats as hidden fields.
    pub(crate) hidden_fields: Vec<Parameter>,
}

/// `errors · tool, generation`
fn filter_label(view_params: &ViewParams) -> String {
    let kinds: Vec<&str> = view_params.kinds.iter().map(|kind| kind_label(*kind)).collect();
    let level = LEVELS.iter().find(|(min, _)| *min == view_params.min);
    let level = level.filter(|(min, _)| min.is_some());
    let words = [
        level.map(|(_, label)| label.to_lowercase()),
        (!kinds.is_empty()).then(|| kinds.join(", ")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    match words.is_empty() {
        true => "all observations".to_owned(),
        false => words.join(" · "),
    }
}

impl KindFilter {
    fn new(
        view_params: &ViewParams,
        row_state: &RowState,
        counted: &[(ObservationKind, u64)],
    ) -> Self {
        let choices = counted.iter().map(|(kind, n)| {
            let is_chosen = view_params.kinds.contains(kind);
            (kind.as_str(), kind_label(*kind), count(*n), is_chosen)
        });
        let all = ViewParams { kinds: Vec::new(), ..view_params.clone() };
        Self {
            choices: choices.collect(),
            hidden_fields: row_state.pairs.iter().cloned().chain(all.pairs()).collect(),
        }
    }
}

/// Input of the header other than the trace.
#[derive(Debug, Default)]
pub struct HeadInput {
    /// Errors in the query string.
    pub faults: Vec<String>,
    /// Whether the user can change bookmark and tags.
    pub may_mark: bool,
    /// The submitted form, if it was rejected.
    pub rejected_form: RejectedForm,
    /// Microseconds to the first token.
    pub first_token_us: Option<i64>,
    /// Observation kinds with their numbers.
    pub kinds: Vec<(ObservationKind, u64)>,
    /// Version of the trace and its scores, read before the data; empty if the page does not poll.
    pub version: String,
    /// Completion state.
    pub state: Option<TraceState>,
    /// Scores of the trace itself.
    pub chips: Vec<ScoreChip>,
}

/// A text search in the trace.
#[derive(Debug)]
pub(crate) struct CurrentSearch {
    pub(crate) text: Text,
    /// URLs of the page with all hits and of this page without the search.
    pub(crate) all: String,
    pub(crate) end: String,
}

/// A labelled value below the title, with a link to the traces that have it.
#[derive(Debug)]
pub(crate) struct LinkedLabel {
    pub(crate) label: &'static str,
    pub(crate) value: Text,
    pub(crate) href: Option<String>,
}

impl TraceHeader {
    pub(crate) fn new(
        trace: &Trace,
        base: &str,
        view_params: &ViewParams,
        row_state: &RowState,
        input: HeadInput,
    ) -> Self {
        let at = |view_params: &ViewParams| row_state.address(view_params);
        let views = TraceView::ALL.iter().map(|(own, _, label, key)| ViewLink {
            label,
            key,
            href: at(&ViewParams { trace_view: *own, ..view_params.clone() }),
            is_current: *own == view_params.trace_view,
        });
        let levels = LEVELS.iter().map(|(min, label)| ViewLink {
            label,
            key: "",
            href: at(&ViewParams { min: *min, ..view_params.clone() }),
            is_current: *min == view_params.min,
        });
        let traces = format!("{base}/traces");
        let find = format!("{traces}/{}/find", segment(trace.id.as_str()));
        let current_search = search(view_params, row_state, &find);
        let neighbours = view_params.neighbours.clone();
        let kept_list =
            neighbours.iter().map(|neighbours| format!("&in={}", encode(&neighbours.list)));
        let id = encode(trace.id.as_str());
        let of_trace = RowState { selection: "trace".to_owned(), ..row_state.clone() };
        let pane = of_trace.address(&view_params.in_tree());
        let figures = figures(trace, &input);
        let n_more_chips = input.chips.len().saturating_sub(CHIPS);
        let chips = input.chips.into_iter().take(CHIPS).map(|chip| {
            let href = match chip.card() {
                Some(card) => format!("{pane}{card}"),
                None => chip.list_href(base, trace.id.as_str()),
            };
            (chip, href)
        });
        Self {
            id: trace.id.to_string(),
            name: trace.name.as_deref().map(Text::from),
            find,
            current_search,
            bookmarks: format!("{base}/bookmarks"),
            tagging: format!("{traces}/{}", segment(trace.id.as_str())),
            compare: format!("{traces}/compare?a={id}{}", kept_list.collect::<String>()),
            list: neighbours
                .as_ref()
                .map_or(traces, |neighbours| format!("{base}{}", neighbours.list)),
            neighbours,
            version: (!input.version.is_empty()).then_some(input.version),
            figures,
            chips: chips.collect(),
            n_more_chips,
            scores: format!("{base}/scores?trace={id}"),
            labels: labels(trace, base),
            views: views.collect(),
            levels: levels.collect(),
            filter_label: filter_label(view_params),
            kinds: KindFilter::new(view_params, row_state, &input.kinds),
            columns: ColumnChoice::new(view_params, row_state),
            all: at(&ViewParams { min: None, kinds: Vec::new(), ..view_params.clone() }),
            faults: input.faults.into_iter().map(Text::from).collect(),
            is_bookmarked: trace.bookmarked,
            tags: tags(trace.tags.iter().map(String::as_str), base),
            may_mark: input.may_mark,
            rejected_form: input.rejected_form,
        }
    }
}

/// The choice of columns.
#[derive(Debug)]
pub(crate) struct ColumnChoice {
    /// Name in URLs, label and whether it is selected.
    pub(crate) choices: Vec<(&'static str, &'static str, bool)>,
    /// Query parameters that the form repeats as hidden fields.
    pub(crate) hidden_fields: Vec<Parameter>,
}

impl ColumnChoice {
    /// Absent for views without rows.
    pub(crate) fn new(view_params: &ViewParams, row_state: &RowState) -> Option<Self> {
        let is_timeline = view_params.trace_view == TraceView::Time;
        let offered = RowColumn::ALL.iter();
        let offered = offered.filter(|(own, ..)| !(is_timeline && *own == RowColumn::Time));
        let choices = offered.map(|(own, name, label, _)| {
            let is_chosen = view_params.columns.is_empty() || view_params.columns.contains(own);
            (*name, *label, is_chosen)
        });
        let all = ViewParams { columns: Vec::new(), ..view_params.clone() };
        matches!(view_params.trace_view, TraceView::Tree | TraceView::Time).then(|| Self {
            choices: choices.collect(),
            hidden_fields: row_state.pairs.iter().cloned().chain(all.pairs()).collect(),
        })
    }
}

/// The current search. `find` is the URL of the search page.
fn search(view_params: &ViewParams, row_state: &RowState, find: &str) -> Option<CurrentSearch> {
    let text = view_params.find.as_deref()?;
    Some(CurrentSearch {
        text: Text::from(text),
        all: format!("{find}?q={}", encode(text)),
        end: row_state.address(&ViewParams { find: None, ..view_params.clone() }),
    })
}

/// A figure of the header.
#[derive(Debug)]
pub(crate) struct HeadFigure {
    pub(crate) fact: Fact,
    /// The time, if the value is a time.
    pub(crate) at: Option<Timestamp>,
    /// Details below the value.
    pub(crate) more: Option<String>,
    /// Unit, shown in narrow layouts.
    pub(crate) unit: &'static str,
}

fn figures(trace: &Trace, input: &HeadInput) -> Vec<HeadFigure> {
    let [_, _, warnings, errors] = trace.n_by_level;
    let plain = |label, value: String| HeadFigure {
        fact: fact(label, value),
        at: None,
        more: None,
        unit: "",
    };
    let counted = |label, n: u64, [one, several]: [&'static str; 2]| HeadFigure {
        unit: if n == 1 { one } else { several },
        ..plain(label, count(n))
    };
    let some = |label, n: u32, units| (0 < n).then(|| counted(label, n.into(), units));
    let state = input.state.as_ref().map(TraceState::label);
    let first_token = input.first_token_us;
    let tokens = match trace.usage.is_empty() {
        true => "–".to_owned(),
        false => count(total_tokens(&trace.usage)),
    };
    let figures = [
        state.map(|(word, more)| HeadFigure {
            more: Some(more).filter(|more| !more.is_empty()),
            ..plain("State", word.to_owned())
        }),
        Some(HeadFigure { at: Some(trace.timestamp), ..plain("Started", String::new()) }),
        Some(plain("Latency", duration(trace.latency_us))),
        first_token.map(|us| HeadFigure {
            unit: "to the first token",
            ..plain("First token", duration(us))
        }),
        Some(HeadFigure {
            more: tokens_by_bucket(&trace.usage),
            unit: "tokens",
            ..plain("Tokens", tokens)
        }),
        Some(plain("Cost", cost(trace.cost()))),
        Some(counted("Observations", trace.n_observations.into(), ["observation", "observations"])),
        some("Errors", errors, ["error", "errors"]),
        some("Warnings", warnings, ["warning", "warnings"]),
    ];
    figures.into_iter().flatten().collect()
}

fn labels(trace: &Trace, base: &str) -> Vec<LinkedLabel> {
    let to = |label, value: &str, href: String| LinkedLabel {
        label,
        value: Text::from(value),
        href: Some(href),
    };
    let alike =
        |label, column: &str, value: &str| to(label, value, traces_with_value(base, column, value));
    let page = |label, by, value: &str| to(label, value, href(base, by, value));
    let mut labels = vec![alike("environment", "environment", &trace.environment)];
    labels.extend(trace.user_id.as_deref().map(|user| page("user", GroupKey::User, user)));
    labels.extend(
        trace.session_id.as_deref().map(|session| page("session", GroupKey::Session, session)),
    );
    labels.extend(trace.release.as_deref().map(|release| alike("release", "release", release)));
    labels.extend(trace.version.as_deref().map(|version| alike("version", "version", version)));
    labels
}

/// Tags with links to the traces that have them.
pub(crate) fn tags<'t>(tags: impl Iterator<Item = &'t str>, base: &str) -> Vec<LinkedLabel> {
    let label = |tag: &'t str| LinkedLabel {
        label: "tag",
        value: Text::from(tag),
        href: Some(traces_with_tag(base, tag)),
    };
    tags.map(label).collect()
}
