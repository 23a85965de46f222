//! The thread view of a trace: new messages of each generation, with the tool calls between them.

use crate::markup::{encode, segment};
use askama::Template;
use perpend_domain::observation::{Level, Observation, ObservationKind};
use perpend_domain::trace::Trace;

use crate::facts::total_tokens;
use crate::format::{count, duration, kind_label, plural};
use crate::lists::page_links::PageLinks;
use crate::trace::header::{HeadInput, RowState, TraceHeader, ViewParams};
use crate::trace::rows::{cost_cell, nonzero};
use crate::values::content::{
    Addresses, Block, CallMessages, MessageSelection, NewMessages, ObservationLink, display_text,
    new_messages,
};
use crate::{Shell, Text};

/// Calls per page.
pub const CALLS_PER_PAGE: usize = 20;
/// Maximum indentation of nested agents.
const MAX_DEPTH: u32 = 6;

/// Attributes with the id of a tool call: OpenTelemetry and OpenInference.
const CALL_IDS: [&str; 2] = ["gen_ai.tool.call.id", "tool_call.id"];

/// A generation, a tool call or another failed observation, with its content.
#[derive(Clone, Debug)]
pub struct Call {
    /// The observation.
    pub observation: Observation,
    /// Number of enclosing agents and chains below the outermost agent.
    pub depth: u32,
    /// The innermost of these.
    pub enclosing_agent: Option<EnclosingAgent>,
    /// Whether it is a model call.
    pub is_generation: bool,
    /// Whether its content was omitted because of its size.
    pub is_large: bool,
}

/// An agent or chain inside another agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnclosingAgent {
    /// Id of the observation.
    pub id: String,
    /// Kind of the observation.
    pub kind: ObservationKind,
    /// Name of the observation.
    pub name: String,
}

/// Input of [`ThreadPage`].
#[derive(Debug)]
pub struct ThreadInput {
    /// Page frame.
    pub shell: Shell,
    /// The trace, without content.
    pub trace: Trace,
    /// Generations before these calls whose messages are not repeated.
    pub history: Vec<Observation>,
    /// Number of earlier generations that `history` does not contain.
    pub n_unread: usize,
    /// Calls of this page, after `n_before` calls that are only compared with them.
    pub calls: Vec<Call>,
    /// Number of calls before this page.
    pub n_before: usize,
    /// Index of the first call of this page.
    pub at: usize,
    /// Number of calls of the trace.
    pub n_calls: usize,
    /// Number of calls that do not pass the filters.
    pub n_hidden: usize,
    /// View, filters and columns.
    pub view_params: ViewParams,
    /// Selection and collapsed rows of the views with rows.
    pub row_state: RowState,
    /// Input of the header.
    pub head: HeadInput,
}

/// One page of the thread view.
#[derive(Debug, Template)]
#[template(path = "thread.html")]
pub struct ThreadPage {
    shell: Shell,
    head: TraceHeader,
    entries: Vec<ThreadEntry>,
    shown: String,
    /// Number of generations that were not compared, in words.
    unread: Option<String>,
    hidden: Option<String>,
    page_links: PageLinks,
}

#[derive(Debug)]
struct ThreadEntry {
    /// Kind, name and URL of the enclosing agent, if it differs from that of the entry before.
    heading: Option<(&'static str, Text, String)>,
    /// URL-encoded id of the observation.
    observation_id: String,
    href: String,
    kind: &'static str,
    name: Text,
    indent: u32,
    facts: Vec<Text>,
    mark: Option<(&'static str, &'static str)>,
    message: Option<Text>,
    is_large: bool,
    /// The input in order: repeated messages, each with the new messages after them.
    input: Vec<(Option<RepeatedRange>, Block)>,
    output: Block,
}

/// Messages repeated from an earlier call: number, name of the call, and URLs of the messages and of the call.
type RepeatedRange = (String, Text, [String; 2]);

impl ThreadPage {
    /// Builds the page.
    #[must_use]
    pub fn new(input: ThreadInput) -> Self {
        let base = input.shell.base();
        let trace = segment(input.trace.id.as_str());
        let to_tree = input.view_params.in_tree().query();
        let of_id = |id: &str| format!("{base}/traces/{trace}?observation={}{to_tree}", encode(id));
        let address = |observation: &Observation| of_id(observation.id.as_str());
        let calls = input.calls.iter();
        let messages = calls.map(|call| call_messages(call, base, address(&call.observation)));
        let messages: Vec<CallMessages> = messages.collect();
        let is_large: Vec<bool> = messages.iter().map(|call| call.is_large).collect();
        let history: Vec<CallMessages> = input.history.iter().map(compared).collect();
        let messages = new_messages(&history, messages, input.n_before);
        let observations = input.calls.iter().map(|call| &call.observation);
        let observations: Vec<&Observation> = input.history.iter().chain(observations).collect();
        let window = input.calls.iter().zip(is_large).skip(input.n_before);
        let n_window = messages.len();
        let mut before: Option<&EnclosingAgent> = None;
        let entries = window.zip(messages).filter(|(_, messages)| !messages.is_attached);
        let entries = entries.map(|((call, is_large), messages)| {
            let NewMessages { repeated, input, output, .. } = messages;
            let other = repeated.and_then(|repeated| observations.get(repeated.call).copied());
            // Several ranges can repeat messages of several calls, a single range only those of `other`.
            let is_one_range = input.iter().filter(|(range, _)| range.is_some()).count() == 1;
            let as_other = |range: &MessageSelection| {
                let other = other?;
                let (n, those) = same_messages(range, &call.observation, base);
                let (name, href) = match is_one_range {
                    true => (Text::from(other.name.as_str()), address(other)),
                    false => (Text::from("in earlier calls"), those.clone()),
                };
                Some((n, name, [those, href]))
            };
            let input = input.into_iter();
            let input = input.map(|(range, new)| (range.as_ref().and_then(as_other), new));
            let within = call.enclosing_agent.as_ref();
            let heading = within.filter(|within| before != Some(*within));
            let heading = heading.map(|within| {
                let name = Text::from(within.name.as_str());
                (kind_label(within.kind), name, of_id(&within.id))
            });
            before = within;
            ThreadEntry {
                heading,
                href: address(&call.observation),
                is_large,
                input: input.collect(),
                output,
                ..ThreadEntry::of(call)
            }
        });
        let entries: Vec<ThreadEntry> = entries.collect();
        let number = |n: usize| count(n as u64);
        let shown = format!(
            "Calls {}–{} of {}",
            number(input.at + 1),
            number(input.at + n_window),
            number(input.n_calls)
        );
        let address = input.row_state.address(&input.view_params);
        let way = |at: usize| format!("{address}&at={at}");
        let behind = input.at + n_window;
        Self {
            head: TraceHeader::new(
                &input.trace,
                base,
                &input.view_params,
                &input.row_state,
                input.head,
            ),
            hidden: input.view_params.hidden(input.n_hidden),
            shown,
            page_links: PageLinks {
                previous: (0 < input.at)
                    .then(|| ("Earlier calls", way(input.at.saturating_sub(CALLS_PER_PAGE)))),
                next: (behind < input.n_calls).then(|| ("Later calls", way(behind))),
                ..PageLinks::default()
            },
            entries,
            unread: unread(input.n_unread),
            shell: input.shell,
        }
    }
}

fn unread(n: usize) -> Option<String> {
    let n_unread = plural(n as u64, "earlier generation");
    let text = format!("Messages of {n_unread} were not compared and may be repeated here.");
    (0 < n).then_some(text)
}

fn compared(observation: &Observation) -> CallMessages {
    let content = &observation.content;
    CallMessages::for_comparison(content.input.as_ref(), content.output.as_ref())
}

/// The number of repeated messages of an observation, and the URL that shows them.
fn same_messages(
    range: &MessageSelection,
    observation: &Observation,
    base: &str,
) -> (String, String) {
    let id = Some(observation.id.as_str());
    let at = Addresses::new(base, observation.trace_id.as_str(), id, "input");
    let n = plural(range.n() as u64, "message");
    let those = at.page(&format!("&as=conversation&n={range}"));
    (format!("same {n}"), those)
}

fn call_messages(call: &Call, base: &str, href: String) -> CallMessages {
    let observation = &call.observation;
    let is_tool = observation.kind == ObservationKind::Tool;
    if call.is_large || !(call.is_generation || is_tool) {
        return CallMessages::unread(call.is_large);
    }
    let id = observation.id.as_str();
    let at = |part: &str| Addresses::new(base, observation.trace_id.as_str(), Some(id), part);
    let (input_urls, output_urls) = (at("input"), at("output"));
    let content = &observation.content;
    let input = (content.input.as_ref(), &input_urls);
    let output = (content.output.as_ref(), &output_urls);
    if !is_tool {
        return CallMessages::new(input, output);
    }
    let link = ObservationLink {
        href,
        duration: duration_text(observation),
        mark: mark(observation),
        message: observation.status_message.as_deref().map(display_text),
    };
    CallMessages::tool_call((call_id(observation), &observation.name), input, output, link)
}

/// Id of the tool call that an observation executed.
fn call_id(observation: &Observation) -> Option<&str> {
    let attributes = observation.content.metadata.get("attributes")?;
    CALL_IDS.iter().find_map(|key| attributes.get(*key)?.as_str())
}

pub(crate) fn duration_text(observation: &Observation) -> String {
    observation
        .end
        .map_or_else(|| "not ended".to_owned(), |end| duration(end.micros_since(observation.start)))
}

/// Known model, duration, tokens and cost.
pub(crate) fn facts(observation: &Observation) -> Vec<Text> {
    let tokens = nonzero(Some(total_tokens(&observation.usage)));
    let facts = [
        observation.model.clone().unwrap_or_default(),
        duration_text(observation),
        match tokens.is_empty() {
            true => tokens,
            false => format!("{tokens} tokens"),
        },
        cost_cell(observation.own_cost()),
    ];
    let facts = facts.into_iter().filter(|fact| !fact.is_empty());
    facts.map(Text::from).collect()
}

pub(crate) fn mark(observation: &Observation) -> Option<(&'static str, &'static str)> {
    match observation.level {
        Level::Error => Some(("error", "bad")),
        Level::Warning => Some(("warning", "waiting")),
        Level::Default | Level::Debug => None,
    }
}

impl ThreadEntry {
    fn of(call: &Call) -> Self {
        let observation = &call.observation;
        Self {
            heading: None,
            observation_id: encode(observation.id.as_str()),
            href: String::new(),
            kind: kind_label(observation.kind),
            name: Text::from(observation.name.as_str()),
            indent: call.depth.min(MAX_DEPTH),
            facts: facts(observation),
            mark: mark(observation),
            message: observation.status_message.as_deref().map(display_text),
            is_large: false,
            input: Vec::new(),
            output: Block::Absent,
        }
    }
}
