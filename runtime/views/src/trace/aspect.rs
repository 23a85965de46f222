//! The ways of looking at a trace, and the head that they have in common.

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
use crate::format::{TraceState, cost, count, duration, kind_word, many, tokens_by_bucket};
use crate::layout::forms::RejectedForm;
use crate::layout::shell::href;
use crate::lists::chips::ScoreChip;
use crate::values::content::Forms;

/// A way of looking at a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceView {
    /// Steps below the steps that began them, each with its time.
    #[default]
    Tree,
    /// The same rows by time: a wide axis, a part of it to look at closely, and the critical path.
    Time,
    /// The conversation that runs through the generations.
    Thread,
    /// All steps in the order of their start, with how their inputs and outputs begin.
    Log,
}

impl TraceView {
    /// All of them, with the key that opens each.
    const ALL: [(Self, &'static str, &'static str, &'static str); 4] = [
        (Self::Tree, "tree", "Tree", "1"),
        (Self::Time, "time", "Timeline", "2"),
        (Self::Thread, "thread", "Thread", "5"),
        (Self::Log, "log", "Log", "6"),
    ];

    /// The one with this name in an address.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known, ..)| *known == name);
        found.map(|(own, ..)| *own)
    }
}

/// Scores of the trace itself that its head shows; the others are counted.
const CHIPS: usize = 5;

/// Levels below which a reader may leave steps out.
const LEVELS: [(Option<Level>, &str); 4] = [
    (None, "All levels"),
    (Some(Level::Default), "Without debug"),
    (Some(Level::Warning), "Warnings and errors"),
    (Some(Level::Error), "Errors"),
];

/// How a trace is looked at, beside what is selected and folded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViewParams {
    /// Which way.
    pub trace_view: TraceView,
    /// Steps below this level are left out.
    pub min: Option<Level>,
    /// Steps of other kinds are left out; none means that all are shown.
    pub kinds: Vec<ObservationKind>,
    /// The columns that rows have beside the name; none means those that fit.
    pub columns: Vec<RowColumn>,
    /// A part of the time axis: milliseconds from the start of the trace, the smaller one first.
    pub zoom: Option<(f64, f64)>,
    /// A part of it that was asked for and cannot be shown.
    pub typed: Option<TypedRange>,
    /// The forms that were chosen for the values of what is selected.
    pub forms: Forms,
    /// The list it was opened from.
    pub neighbours: Option<Neighbours>,
    /// What is searched for in it.
    pub find: Option<String>,
    /// What no page reads.
    pub others: UnknownParameters,
}

/// A part of the time axis as it was typed, and what is wrong with its ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedRange {
    /// From where, and up to where.
    pub ends: [String; 2],
    /// The problem of each, in words.
    pub problems: [Option<&'static str>; 2],
}

/// The list that a trace was opened from, and the traces beside it there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbours {
    /// The address of the list below that of the project.
    pub list: String,
    /// The address of the trace before, where the list has one.
    pub previous: Option<String>,
    /// That of the trace behind.
    pub next: Option<String>,
}

impl ViewParams {
    /// What of the steps is left out, in words.
    pub(crate) fn hidden(&self, n: usize) -> Option<String> {
        let why = match (self.min.is_some(), self.kinds.is_empty()) {
            (_, true) => "below this level",
            (false, false) => "of other kinds",
            (true, false) => "of other kinds or below this level",
        };
        (0 < n).then(|| format!("{} {why} not shown", many(n as u64, "observation")))
    }

    /// The same in the tree: where a step is opened from another view.
    pub(crate) fn in_tree(&self) -> Self {
        Self { trace_view: TraceView::Tree, ..self.clone() }
    }

    /// What of it the address says, each parameter with an `&` before it.
    pub(crate) fn query(&self) -> String {
        let mut query = String::new();
        for (name, value) in self.pairs() {
            // Writing to a `String` cannot fail.
            let _ = write!(query, "&{}={}", encode(&name), encode(&value));
        }
        query
    }

    /// The names and values of these parameters.
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

/// What is selected and folded in the rows of a trace, as the beginning and the end of an address: the other views have no
/// rows, and keep it.
#[derive(Clone, Debug)]
pub struct RowState {
    pub(crate) selection: String,
    pub(crate) folds: String,
    /// The same as names and values, for forms.
    pub(crate) pairs: Vec<Parameter>,
}

impl RowState {
    /// Of a step, or of the trace itself, and of what was opened and closed by hand.
    #[must_use]
    pub fn new(observation: Option<&str>, folds: &Folds) -> Self {
        let selected = match observation {
            Some(id) => ("observation", id),
            None => ("trace", ""),
        };
        let folds = folds_pairs(folds).into_iter();
        let pairs = [selected].into_iter().chain(folds.clone());
        Self {
            // What cannot be seen of an id is in no document: such a row is as it would be without a choice.
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

    /// The address of the trace looked at in this way.
    #[must_use]
    pub fn address(&self, view_params: &ViewParams) -> String {
        format!("?{}{}{}", self.selection, self.folds, view_params.query())
    }
}

/// The parameters of what was opened and closed by hand: names and values.
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

/// Which rows are no longer as they were opened and closed by hand, in words.
pub(crate) fn forgotten(folds: &Folds) -> Option<String> {
    let said = |what: &str, now: &str| {
        format!("Only the last {MAX_FOLDS} {what} rows are kept; earlier ones are {now} again.")
    };
    let opened = folds.forgot_open.then(|| said("expanded", "collapsed"));
    let closed = folds.forgot_closed.then(|| said("collapsed", "expanded"));
    let all: Vec<String> = opened.into_iter().chain(closed).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// A link to another way of looking.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) label: &'static str,
    pub(crate) key: &'static str,
    pub(crate) href: String,
    pub(crate) is_current: bool,
}

/// What stands above every view of a trace.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) name: Option<Text>,
    /// The address of the list of traces, and of the search in this one.
    pub(crate) list: String,
    pub(crate) find: String,
    /// What is searched for.
    pub(crate) sought: Option<Search>,
    /// The comparison with another trace, which is asked for there.
    pub(crate) compare: String,
    /// The traces beside it in the list it was opened from.
    pub(crate) neighbours: Option<Neighbours>,
    /// The state that is shown of the trace, where it is followed.
    pub(crate) version: Option<String>,
    pub(crate) figures: Vec<HeadFigure>,
    /// The scores of the trace itself, each with the address of its card.
    pub(crate) chips: Vec<(ScoreChip, String)>,
    pub(crate) n_more_chips: usize,
    /// All scores of the trace and its steps.
    pub(crate) scores: String,
    pub(crate) labels: Vec<Label>,
    pub(crate) views: Vec<Link>,
    pub(crate) levels: Vec<Link>,
    pub(crate) kinds: Kinds,
    /// The columns of the rows, where the view has rows.
    pub(crate) columns: Option<ColumnChoice>,
    /// Which steps are shown, in words.
    pub(crate) viewed: String,
    /// With the steps of all levels and kinds.
    pub(crate) all: String,
    /// What in the address cannot be read.
    pub(crate) faults: Vec<Text>,
    /// A person bookmarked the trace.
    pub(crate) is_bookmarked: bool,
    /// Its tags, each with the list of its like.
    pub(crate) tags: Vec<Label>,
    /// Where the forms of bookmark and tags are sent to.
    pub(crate) bookmarks: String,
    pub(crate) tagging: String,
    /// Whether the reader may change bookmark and tags.
    pub(crate) may_mark: bool,
    /// The form of the tags, when it was not accepted.
    pub(crate) rejected_form: RejectedForm,
}

/// The kinds of steps that can be shown alone.
#[derive(Debug)]
pub(crate) struct Kinds {
    /// Each kind of the trace with its name in the address, how many steps it has, and whether it is chosen.
    pub(crate) choices: Vec<(&'static str, &'static str, String, bool)>,
    /// What the form repeats of the address.
    pub(crate) hidden_fields: Vec<Parameter>,
}

/// `errors · tool, generation`
fn viewed(view_params: &ViewParams) -> String {
    let kinds: Vec<&str> = view_params.kinds.iter().map(|kind| kind_word(*kind)).collect();
    let level = LEVELS.iter().find(|(min, _)| *min == view_params.min);
    let level = level.filter(|(min, _)| min.is_some());
    let said = [
        level.map(|(_, label)| label.to_lowercase()),
        (!kinds.is_empty()).then(|| kinds.join(", ")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    match said.is_empty() {
        true => "all observations".to_owned(),
        false => said.join(" · "),
    }
}

impl Kinds {
    fn new(
        view_params: &ViewParams,
        row_state: &RowState,
        counted: &[(ObservationKind, u64)],
    ) -> Self {
        let choices = counted.iter().map(|(kind, n)| {
            let is_chosen = view_params.kinds.contains(kind);
            (kind.as_str(), kind_word(*kind), count(*n), is_chosen)
        });
        let all = ViewParams { kinds: Vec::new(), ..view_params.clone() };
        Self {
            choices: choices.collect(),
            hidden_fields: row_state.pairs.iter().cloned().chain(all.pairs()).collect(),
        }
    }
}

/// What stands above every view of a trace beside the trace.
#[derive(Debug, Default)]
pub struct HeadInput {
    /// What in the address cannot be read.
    pub faults: Vec<String>,
    /// Whether the reader may change bookmark and tags.
    pub may_mark: bool,
    /// A form that was not accepted.
    pub rejected_form: RejectedForm,
    /// Microseconds before the first token.
    pub first_token_us: Option<i64>,
    /// The kinds of its steps, each with their number.
    pub kinds: Vec<(ObservationKind, u64)>,
    /// Which state of the trace and its scores is shown, read before all others; empty where it is not followed.
    pub version: String,
    /// How far the trace has come.
    pub state: Option<TraceState>,
    /// The scores of the trace itself.
    pub chips: Vec<ScoreChip>,
}

/// A search in the trace.
#[derive(Debug)]
pub(crate) struct Search {
    pub(crate) text: Text,
    /// The page with all hits, and this page without the search.
    pub(crate) all: String,
    pub(crate) end: String,
}

/// A word under the title, leading to the list of its like.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) label: &'static str,
    pub(crate) value: Text,
    pub(crate) href: Option<String>,
}

impl Head {
    pub(crate) fn new(
        trace: &Trace,
        base: &str,
        view_params: &ViewParams,
        row_state: &RowState,
        input: HeadInput,
    ) -> Self {
        let at = |view_params: &ViewParams| row_state.address(view_params);
        let views = TraceView::ALL.iter().map(|(own, _, label, key)| Link {
            label,
            key,
            href: at(&ViewParams { trace_view: *own, ..view_params.clone() }),
            is_current: *own == view_params.trace_view,
        });
        let levels = LEVELS.iter().map(|(min, label)| Link {
            label,
            key: "",
            href: at(&ViewParams { min: *min, ..view_params.clone() }),
            is_current: *min == view_params.min,
        });
        let traces = format!("{base}/traces");
        let find = format!("{traces}/{}/find", segment(trace.id.as_str()));
        let sought = search(view_params, row_state, &find);
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
            sought,
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
            viewed: viewed(view_params),
            kinds: Kinds::new(view_params, row_state, &input.kinds),
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

/// The columns that can be chosen.
#[derive(Debug)]
pub(crate) struct ColumnChoice {
    /// Each with its name in the address, its label and whether it is chosen.
    pub(crate) choices: Vec<(&'static str, &'static str, bool)>,
    /// What the form repeats of the address.
    pub(crate) hidden_fields: Vec<Parameter>,
}

impl ColumnChoice {
    /// Of the views that have rows.
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

/// The search in the trace; `find`: where all hits are.
fn search(view_params: &ViewParams, row_state: &RowState, find: &str) -> Option<Search> {
    let text = view_params.find.as_deref()?;
    Some(Search {
        text: Text::from(text),
        all: format!("{find}?q={}", encode(text)),
        end: row_state.address(&ViewParams { find: None, ..view_params.clone() }),
    })
}

/// A figure in the head.
#[derive(Debug)]
pub(crate) struct HeadFigure {
    pub(crate) fact: Fact,
    /// The instant that it is.
    pub(crate) at: Option<Timestamp>,
    /// What there is to say of it.
    pub(crate) more: Option<String>,
    /// What is counted, for where the label has no room.
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

fn labels(trace: &Trace, base: &str) -> Vec<Label> {
    let to = |label, value: &str, href: String| Label {
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

/// Tags, each with the list of its like.
pub(crate) fn tags<'t>(tags: impl Iterator<Item = &'t str>, base: &str) -> Vec<Label> {
    let label = |tag: &'t str| Label {
        label: "tag",
        value: Text::from(tag),
        href: Some(traces_with_tag(base, tag)),
    };
    tags.map(label).collect()
}
