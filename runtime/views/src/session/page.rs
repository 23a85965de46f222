//! The page of one session: its turns in order.

use crate::markup::encode;
use crate::urls::traces_containing;
use askama::Template;
use perpend_domain::cost::CostSum;
use perpend_domain::ids::ObservationId;
use perpend_domain::observation::{Level, Observation};
use perpend_domain::payload::Payload;
use perpend_domain::telemetry::{GroupKey, ToolObservations};
use perpend_domain::text_search::{SearchField, TextPattern};
use perpend_domain::trace::Trace;

use crate::format::{count, duration, plural};
use crate::layout::shell::href;
use crate::lists::groups::GroupLine;
use crate::lists::page_links::PageLinks;
use crate::lists::trace_line::TraceLine;
use crate::overview::charts::{Chart, TurnBar};
use crate::scores::score::{RuleRange, ScoreView, Tone};
use crate::trace::find::{FieldExcerpt, field_excerpt};
use crate::trace::thread::{duration_text, mark};
use crate::values::content::{
    Addresses, Block, CallMessages, RepeatedMessages, display_text, repeated_messages,
};
use crate::values::preview::beginning;
use crate::{Shell, Text};

/// Turns per page.
pub const TURNS_PER_PAGE: u32 = 20;
/// Maximum number of tool names in the summary of a turn.
const NAMED: usize = 6;
/// Maximum characters of a tool name.
const NAME: usize = 40;

/// One page of a session.
#[derive(Clone, Debug, Template)]
#[template(path = "session.html")]
pub struct SessionPage {
    /// Page frame.
    pub shell: Shell,
    /// The session with its sums.
    pub line: GroupLine,
    /// Users of its traces; only the first ones if there are many.
    pub users: Vec<Text>,
    /// Scores of the session as a whole.
    pub scores: Vec<ScoreView>,
    /// Outcomes of the rules that did not score it.
    pub outcomes: Vec<crate::RuleOutcome>,
    /// Range of the rules in the outcomes.
    pub rules: RuleRange,
    /// Turns of this page.
    pub turns: Vec<Turn>,
    /// Number of turns of the session.
    pub n_turns: u64,
    /// Number of the requested turn; 1 by default.
    pub current_turn: u64,
    /// Whether a turn was requested, which then gets the focus.
    pub is_jump: bool,
    /// The requested time as typed; empty for a number.
    pub typed_turn: String,
    /// Error in the query string.
    pub fault: Option<&'static str>,
    /// Search results, if a text was searched.
    pub found: Option<TurnHits>,
    /// Links to earlier and later turns.
    pub page_links: PageLinks,
}

/// Turns of a session that contain a text.
#[derive(Clone, Debug)]
pub struct TurnHits {
    text: Text,
    /// Numbers of the turns, with an excerpt of input or output; without one the match is in an observation.
    turns: Vec<(u64, Option<FieldExcerpt>)>,
    has_more: bool,
    /// Number of turns at the end that were not searched.
    n_left: u64,
    /// URL of the list of all matching traces.
    all: String,
}

impl TurnHits {
    /// Turns with their numbers; whether there are more, and the number of turns that were not searched.
    #[must_use]
    pub fn new(
        (base, session): (&str, &str),
        text: &str,
        turns: Vec<(u64, Trace)>,
        (has_more, n_left): (bool, u64),
    ) -> Self {
        let sought = TextPattern::new(text);
        let place = |trace: &Trace| {
            let sought = sought.as_ref()?;
            let input = sought.in_payload(SearchField::Input, trace.input.as_ref());
            let found =
                input.or_else(|| sought.in_payload(SearchField::Output, trace.output.as_ref()));
            found.map(field_excerpt)
        };
        let turns = turns.iter();
        Self {
            turns: turns.map(|(n, trace)| (*n, place(trace))).collect(),
            text: Text::from(text),
            has_more,
            n_left,
            all: traces_containing(base, session, text),
        }
    }

    fn summary(&self) -> String {
        let n = self.turns.len() as u64;
        match (n, self.has_more) {
            (0, _) if 0 < self.n_left => "No matches so far.".to_owned(),
            (0, _) => "No turns contain this text.".to_owned(),
            (_, true) => format!("More than {}, showing the first:", plural(n, "turn")),
            (_, false) => format!("{}:", plural(n, "turn")),
        }
    }

    fn unsearched(&self) -> Option<String> {
        let left = plural(self.n_left, "later turn");
        (0 < self.n_left).then(|| format!("Not searched: {left}."))
    }
}

/// Input of a [`Turn`].
#[derive(Clone, Debug)]
pub struct TurnInput {
    /// Its row in a list.
    pub line: TraceLine,
    /// Its trace, with input and output.
    pub trace: Trace,
    /// Its tool calls; absent if the trace has too many observations.
    pub tools: Option<ToolObservations>,
}

/// One trace of a session.
#[derive(Clone, Debug)]
pub struct Turn {
    number: u64,
    trace: TraceLine,
    /// Messages of its input that repeat an earlier turn.
    repeated_input: Option<RepeatedInput>,
    input: Block,
    tools: Option<ToolCalls>,
    /// Number of observations, if there are too many to list tool calls.
    n_observations_over_limit: Option<String>,
    output: Block,
}

/// Tool calls of a turn.
#[derive(Clone, Debug)]
struct ToolCalls {
    /// `3 tool calls`
    title: String,
    /// Names of the first calls.
    names: Text,
    /// Number of listed calls with errors.
    failed: Option<String>,
    calls: Vec<ToolCall>,
    /// Number of calls that are not listed.
    n_more: u64,
}

/// A tool call with excerpts of its content.
#[derive(Clone, Debug)]
struct ToolCall {
    href: String,
    name: Text,
    duration: String,
    mark: Option<(&'static str, &'static str)>,
    message: Option<Text>,
    arguments: Option<Text>,
    result: Option<Text>,
    /// Whether its content was too large to read.
    is_large: bool,
}

impl ToolCalls {
    /// `None` if only the root is a tool call. `trace` is the URL of the trace.
    fn of(found: ToolObservations, root: Option<&ObservationId>, trace: &str) -> Option<Self> {
        let ToolObservations { mut observations, n } = found;
        let n_read = observations.len();
        observations.retain(|observation| Some(&observation.id) != root);
        let n = n.saturating_sub((n_read - observations.len()) as u64);
        if n == 0 {
            return None;
        }
        let named = observations.iter().take(NAMED);
        let mut names: Vec<String> =
            named.map(|observation| observation.name.chars().take(NAME).collect()).collect();
        if (names.len() as u64) < n {
            names.push("…".to_owned());
        }
        let n_more = n.saturating_sub(observations.len() as u64);
        let n_failed = observations.iter().filter(|observation| observation.level == Level::Error);
        let n_failed = n_failed.count() as u64;
        let failed = plural(n_failed, "error");
        Some(Self {
            title: plural(n, "tool call"),
            names: Text::from(names.join(", ")),
            failed: (0 < n_failed).then(|| match n_more {
                0 => failed,
                _ => format!("{failed} in the first {}", observations.len()),
            }),
            n_more,
            calls: observations
                .iter()
                .map(|observation| ToolCall::of(observation, trace))
                .collect(),
        })
    }

    fn more(&self) -> String {
        plural(self.n_more, "more tool call")
    }
}

impl ToolCall {
    fn of(observation: &Observation, trace: &str) -> Self {
        let begins = |value: Option<&Payload>| {
            let text = beginning(value?);
            (!text.is_empty()).then(|| Text::from(text))
        };
        let (input, output) =
            (observation.content.input.as_ref(), observation.content.output.as_ref());
        Self {
            href: format!("{trace}?observation={}", encode(observation.id.as_str())),
            name: Text::from(observation.name.as_str()),
            duration: duration_text(observation),
            mark: mark(observation),
            message: observation.status_message.as_deref().map(display_text),
            arguments: begins(input),
            result: begins(output),
            is_large: observation.has_content && input.is_none() && output.is_none(),
        }
    }
}

/// Messages of an input that repeat those of earlier turns.
#[derive(Clone, Debug)]
struct RepeatedInput {
    n: usize,
    /// Number of the turn that contains most of them.
    turn: u64,
    /// Whether that turn is on an earlier page.
    is_before: bool,
    /// URL of the messages.
    messages_href: String,
}

impl RepeatedInput {
    fn title(&self) -> String {
        format!("same {} as turn {}", plural(self.n as u64, "message"), self.turn)
    }
}

impl SessionPage {
    pub(crate) fn user_href(&self, user: &Text) -> String {
        href(self.shell.base(), GroupKey::User, user.raw())
    }

    /// Links to the other ranges of rules.
    fn rule_links(&self) -> Vec<(&'static str, String)> {
        let address = format!("?turn={}{}", self.current_turn, self.focus_query());
        self.rules.page_links(&address)
    }

    /// Time range and environments as further query parameters.
    fn focus_query(&self) -> String {
        self.shell.focus.query().replacen('?', "&", 1)
    }

    /// URL of a turn, with the search.
    fn hit(&self, found: &TurnHits, turn: &u64) -> String {
        let text = encode(found.text.raw());
        format!("?turn={turn}&find={text}{}", self.focus_query())
    }

    /// URL that the page polls for new items.
    fn news_href(&self) -> String {
        let (base, id) = (self.shell.base(), encode(&self.line.group.id));
        format!("{base}/_/sessions/news?of={id}{}", self.focus_query())
    }

    /// Whether a time range or environments are selected, which do not apply to this page.
    fn is_focused(&self) -> bool {
        self.shell.focus != crate::urls::Focus::default()
    }

    /// Charts of latency and cost, if there are several turns.
    fn charts(&self) -> Vec<Chart> {
        if self.turns.len() < 2 {
            return Vec::new();
        }
        let bars = |value: fn(&TraceLine) -> f64| {
            let bar = |turn: &Turn| TurnBar {
                number: turn.number,
                value: value(&turn.trace),
                is_failed: 0 < turn.trace.n_errors,
            };
            self.turns.iter().map(bar).collect::<Vec<_>>()
        };
        let latency = bars(|line| line.latency_us as f64);
        let dollars = bars(|line| line.cost.dollars);
        let costs: Vec<CostSum> = self.turns.iter().map(|turn| turn.trace.cost).collect();
        let charts = [
            Chart::of_turns("Latency", &latency, |us| duration(us as i64)),
            Chart::of_turns("Cost", &dollars, crate::format::dollars).of_costs(&costs, false),
        ];
        let says = |chart: &Chart| !chart.is_empty() || chart.unpriced.is_some();
        charts.into_iter().filter(says).collect()
    }

    /// Whether the pane of scores is empty, so that the turns get the whole width.
    fn is_unscored(&self) -> bool {
        self.scores.is_empty() && self.outcomes.is_empty() && self.rules.label().is_none()
    }

    /// Whether scores are pending, so that the script polls for them.
    fn is_unsettled(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.tone == Tone::Waiting)
    }

    /// `1–20 of 2,744`
    fn shown(&self) -> String {
        let number = |turn: Option<&Turn>| count(turn.map_or(0, |turn| turn.number));
        let [first, last] = [self.turns.first(), self.turns.last()].map(number);
        format!("{first}–{last} of {}", count(self.n_turns))
    }
}

impl Turn {
    /// Turns in order, numbered from `first` on. `base` is the URL of the project.
    /// Input messages that repeat an earlier turn or `before`, the turn before the first, are omitted.
    #[must_use]
    pub fn all(first: u64, before: Option<&Trace>, turns: Vec<TurnInput>, base: &str) -> Vec<Self> {
        let n_before = usize::from(before.is_some());
        let traces = before.into_iter();
        let traces = traces.chain(turns.iter().map(|turn| &turn.trace));
        let messages = traces
            .map(|trace| CallMessages::for_comparison(trace.input.as_ref(), trace.output.as_ref()));
        let messages: Vec<CallMessages> = messages.collect();
        let repeated = repeated_messages(messages.iter()).into_iter().skip(n_before);
        let turns = turns.into_iter().zip(repeated).zip(first..);
        let turns = turns.map(|((turn, repeated), number)| {
            let TurnInput { line, trace, tools } = turn;
            let at = |part: &str| Addresses::new(base, &line.id, None, part);
            let input = at("input");
            let excluded = repeated.as_ref().map(|repeated| repeated.messages.clone());
            let repeated_input = repeated.map(|RepeatedMessages { messages, call }| {
                let turn = (first + call as u64).saturating_sub(n_before as u64);
                RepeatedInput {
                    n: messages.n(),
                    turn,
                    is_before: turn < first,
                    messages_href: input.page(&format!("&as=conversation&n={messages}")),
                }
            });
            let n_observations = u64::from(line.n_observations);
            let n_observations_over_limit = tools.is_none().then(|| count(n_observations));
            let tools = tools.unwrap_or_default();
            Self {
                number,
                repeated_input,
                tools: ToolCalls::of(tools, trace.root.as_ref(), &line.href(base)),
                n_observations_over_limit,
                input: Block::without(trace.input.as_ref(), &input, excluded.unwrap_or_default()),
                output: Block::of(trace.output.as_ref(), &at("output")),
                trace: line,
            }
        });
        turns.collect()
    }
}
