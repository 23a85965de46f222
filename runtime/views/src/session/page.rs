//! One session: its turns in order, each as what was asked and what was answered.

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

use crate::format::{count, duration, many};
use crate::layout::shell::href;
use crate::lists::groups::GroupLine;
use crate::lists::page_links::PageLinks;
use crate::lists::trace_line::TraceLine;
use crate::overview::charts::{Chart, TurnBar};
use crate::scores::score::{RuleRange, ScoreView, Tone};
use crate::trace::find::{PartExcerpt, part_excerpt};
use crate::trace::thread::{mark, took};
use crate::values::content::{
    Addresses, Block, CallMessages, Repeated, display_text, repeated_messages,
};
use crate::values::preview::beginning;
use crate::{Shell, Text};

/// Turns on a page.
pub const TURNS_PER_PAGE: u32 = 20;
/// Tools named in the line that the calls of a turn fold into.
const NAMED: usize = 6;
/// Characters of each of these names.
const NAME: usize = 40;

/// A window of a session.
#[derive(Clone, Debug, Template)]
#[template(path = "session.html")]
pub struct SessionPage {
    /// Around the page.
    pub shell: Shell,
    /// Which one, with sums.
    pub line: GroupLine,
    /// Users of its traces, the first of them where there are many.
    pub users: Vec<Text>,
    /// Scores of the session itself.
    pub scores: Vec<ScoreView>,
    /// What rules say of it that did not score it.
    pub outcomes: Vec<crate::RuleOutcome>,
    /// Which of the rules were asked.
    pub rules: RuleRange,
    /// The turns of this window.
    pub turns: Vec<Turn>,
    /// How many there are.
    pub n_turns: u64,
    /// The turn that was asked for; the first one where none was.
    pub wanted: u64,
    /// One was asked for: it takes the focus.
    pub is_jump: bool,
    /// What was asked for, as typed, where it is no number.
    pub at: String,
    /// What of the address cannot be read.
    pub fault: Option<&'static str>,
    /// What was found, where a text is looked for.
    pub found: Option<TurnHits>,
    /// Earlier turns, and later ones.
    pub page_links: PageLinks,
}

/// Turns of a session that contain a text.
#[derive(Clone, Debug)]
pub struct TurnHits {
    text: Text,
    /// Their numbers, and where the text stands in input or output; it may also stand in a step below.
    turns: Vec<(u64, Option<PartExcerpt>)>,
    has_more: bool,
    /// Turns at the end of the session that were not searched.
    n_left: u64,
    /// The list of all of them.
    all: String,
}

impl TurnHits {
    /// Turns with their numbers; whether there are more, and how many were not searched.
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
            found.map(part_excerpt)
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

    fn said(&self) -> String {
        let n = self.turns.len() as u64;
        match (n, self.has_more) {
            (0, _) if 0 < self.n_left => "No matches so far.".to_owned(),
            (0, _) => "No turns contain this text.".to_owned(),
            (_, true) => format!("More than {}, showing the first:", many(n, "turn")),
            (_, false) => format!("{}:", many(n, "turn")),
        }
    }

    fn unsearched(&self) -> Option<String> {
        let left = many(self.n_left, "later turn");
        (0 < self.n_left).then(|| format!("Not searched: {left}."))
    }
}

/// What a turn is made from.
#[derive(Clone, Debug)]
pub struct TurnInput {
    /// Its line in a list.
    pub line: TraceLine,
    /// Its trace, with input and output.
    pub trace: Trace,
    /// Its tool calls; absent where the trace has too many steps to look for them.
    pub tools: Option<ToolObservations>,
}

/// One trace of a session.
#[derive(Clone, Debug)]
pub struct Turn {
    number: u64,
    trace: TraceLine,
    /// The messages of its input that an earlier turn had.
    same: Option<Same>,
    input: Block,
    tools: Option<Tools>,
    /// The steps of a trace with so many that tool calls were not looked for.
    too_many_steps: Option<String>,
    output: Block,
}

/// Tool calls of a turn, folded into a line.
#[derive(Clone, Debug)]
struct Tools {
    /// `3 tool calls`
    title: String,
    /// Names of the first ones.
    names: Text,
    /// How many of those shown failed.
    failed: Option<String>,
    calls: Vec<ToolCall>,
    /// Those that are not shown.
    n_more: u64,
}

/// A tool call in a few lines.
#[derive(Clone, Debug)]
struct ToolCall {
    href: String,
    name: Text,
    took: String,
    mark: Option<(&'static str, &'static str)>,
    message: Option<Text>,
    arguments: Option<Text>,
    result: Option<Text>,
    /// It says more than was read.
    is_large: bool,
}

impl Tools {
    /// None where there are none besides the root, which is the turn itself. `trace` is the address of the trace.
    fn of(found: ToolObservations, root: Option<&ObservationId>, trace: &str) -> Option<Self> {
        let ToolObservations { mut steps, n } = found;
        let n_read = steps.len();
        steps.retain(|step| Some(&step.id) != root);
        let n = n.saturating_sub((n_read - steps.len()) as u64);
        if n == 0 {
            return None;
        }
        let named = steps.iter().take(NAMED);
        let mut names: Vec<String> =
            named.map(|step| step.name.chars().take(NAME).collect()).collect();
        if (names.len() as u64) < n {
            names.push("…".to_owned());
        }
        let n_more = n.saturating_sub(steps.len() as u64);
        let n_failed = steps.iter().filter(|step| step.level == Level::Error);
        let n_failed = n_failed.count() as u64;
        let failed = many(n_failed, "error");
        Some(Self {
            title: many(n, "tool call"),
            names: Text::from(names.join(", ")),
            failed: (0 < n_failed).then(|| match n_more {
                0 => failed,
                _ => format!("{failed} in the first {}", steps.len()),
            }),
            n_more,
            calls: steps.iter().map(|step| ToolCall::of(step, trace)).collect(),
        })
    }

    fn more(&self) -> String {
        many(self.n_more, "more tool call")
    }
}

impl ToolCall {
    fn of(step: &Observation, trace: &str) -> Self {
        let begins = |value: Option<&Payload>| {
            let text = beginning(value?);
            (!text.is_empty()).then(|| Text::from(text))
        };
        let (input, output) = (step.content.input.as_ref(), step.content.output.as_ref());
        Self {
            href: format!("{trace}?observation={}", encode(step.id.as_str())),
            name: Text::from(step.name.as_str()),
            took: took(step),
            mark: mark(step),
            message: step.status_message.as_deref().map(display_text),
            arguments: begins(input),
            result: begins(output),
            is_large: step.has_content && input.is_none() && output.is_none(),
        }
    }
}

/// Messages of an input that earlier turns had or gave.
#[derive(Clone, Debug)]
struct Same {
    n: usize,
    /// The number of the turn that has most of them.
    turn: u64,
    /// That turn is before this window.
    is_before: bool,
    /// Where the messages are.
    those: String,
}

impl Same {
    fn title(&self) -> String {
        format!("same {} as turn {}", many(self.n as u64, "message"), self.turn)
    }
}

impl SessionPage {
    pub(crate) fn user_href(&self, user: &Text) -> String {
        href(self.shell.base(), GroupKey::User, user.raw())
    }

    /// The rules that were not asked.
    fn rule_links(&self) -> Vec<(&'static str, String)> {
        let address = format!("?turn={}{}", self.wanted, self.kept());
        self.rules.page_links(&address)
    }

    /// The time and the environments of the lists, behind another parameter of an address.
    fn kept(&self) -> String {
        self.shell.focus.query().replacen('?', "&", 1)
    }

    /// A turn with a text that is looked for: the list of all that have it stays.
    fn hit(&self, found: &TurnHits, turn: &u64) -> String {
        let text = encode(found.text.raw());
        format!("?turn={turn}&find={text}{}", self.kept())
    }

    /// Where the page asks what came since.
    fn news(&self) -> String {
        let (base, id) = (self.shell.base(), encode(&self.line.group.id));
        format!("{base}/_/sessions/news?of={id}{}", self.kept())
    }

    /// A time or environments are chosen, which the page passes over.
    fn is_narrowed(&self) -> bool {
        self.shell.focus != crate::urls::Focus::default()
    }

    /// Latency and cost of the turns of this window, where there is something to compare.
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

    /// Nothing is said of the session as a whole: the turns have the width of the page.
    fn is_unscored(&self) -> bool {
        self.scores.is_empty() && self.outcomes.is_empty() && self.rules.said().is_none()
    }

    /// Something is on its way: the scores are asked for again.
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
    /// Turns in order, numbered from `first` on, shown in the project at `base`.
    /// Messages of an input that an earlier one of them had, or `before`, the turn before the first, are left out.
    #[must_use]
    pub fn all(first: u64, before: Option<&Trace>, turns: Vec<TurnInput>, base: &str) -> Vec<Self> {
        let n_before = usize::from(before.is_some());
        let traces = before.into_iter();
        let traces = traces.chain(turns.iter().map(|turn| &turn.trace));
        let messages = traces
            .map(|trace| CallMessages::for_comparison(trace.input.as_ref(), trace.output.as_ref()));
        let messages: Vec<CallMessages> = messages.collect();
        let same = repeated_messages(messages.iter()).into_iter().skip(n_before);
        let turns = turns.into_iter().zip(same).zip(first..);
        let turns = turns.map(|((turn, same), number)| {
            let TurnInput { line, trace, tools } = turn;
            let at = |part: &str| Addresses::new(base, &line.id, None, part);
            let input = at("input");
            let excluded = same.as_ref().map(|same| same.messages.clone());
            let same = same.map(|Repeated { messages, call }| {
                let turn = (first + call as u64).saturating_sub(n_before as u64);
                Same {
                    n: messages.n(),
                    turn,
                    is_before: turn < first,
                    those: input.page(&format!("&as=conversation&n={messages}")),
                }
            });
            let n_steps = u64::from(line.n_observations);
            let too_many_steps = tools.is_none().then(|| count(n_steps));
            let tools = tools.unwrap_or_default();
            Self {
                number,
                same,
                tools: Tools::of(tools, trace.root.as_ref(), &line.href(base)),
                too_many_steps,
                input: Block::without(trace.input.as_ref(), &input, excluded.unwrap_or_default()),
                output: Block::of(trace.output.as_ref(), &at("output")),
                trace: line,
            }
        });
        turns.collect()
    }
}
