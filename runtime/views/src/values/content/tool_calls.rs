//! Observations of tool calls. Each is shown at the tool call in the messages that it belongs to, so that neither the call nor
//! its result appears twice. Observations without such a call are shown separately.

use std::collections::HashSet;

use crate::markup::Text;
use perpend_domain::payload::Payload;
use serde_json::Value;

use super::Addresses;
use super::fold::{Fold, Window};
use super::media::read;
use super::messages::Message;
use super::parts::{CallExecution, ObservationLink, PartRole, RenderedPart};
use super::source::Source;
use perpend_domain::content::{inline, parsed};

/// Maximum length in bytes of each text.
pub(super) const LONG_PART: usize = 8 * 1024;

/// An observation of a tool call.
#[derive(Debug)]
pub(super) struct ToolObservation {
    /// The id of the call, if recorded.
    id: Option<String>,
    name: String,
    call: RenderedPart,
    result: Option<RenderedPart>,
    link: ObservationLink,
}

/// A tool call in the output of a generation before the page.
#[derive(Debug)]
pub(super) struct EarlierCall {
    /// Index of the generation.
    pub(super) at: usize,
    pub(super) key: Option<String>,
    pub(super) name: Option<Text>,
}

fn body((payload, at): (Option<&Payload>, &Addresses)) -> Option<Fold> {
    let mut value = read(payload?);
    let source = Source::new(inline::take(&mut value), at).window(Window { from: 0, n: LONG_PART });
    Some(match &value {
        Value::String(text) if parsed(text).is_some() => source.json_text(text),
        other => source.json(other),
    })
}

impl ToolObservation {
    pub(super) fn new(
        (id, name): (Option<&str>, &str),
        arguments: (Option<&Payload>, &Addresses),
        result: (Option<&Payload>, &Addresses),
        link: ObservationLink,
    ) -> Self {
        let result = body(result);
        Self {
            id: id.map(ToOwned::to_owned),
            name: name.to_owned(),
            call: RenderedPart::labelled("tool call", body(arguments)),
            result: result.map(|result| RenderedPart::labelled("tool result", Some(result))),
            link,
        }
    }

    /// Whether a call with this key and name can belong to the observation. The key is the name if calls have no ids.
    fn matches(&self, key: Option<&str>, name: Option<&Text>) -> bool {
        let is_named = name.is_some_and(|name| name.raw() == self.name);
        match (&self.id, key) {
            (Some(id), Some(key)) => id == key || (is_named && key == self.name),
            _ => is_named,
        }
    }

    /// The first matching call in the messages at the positions accepted by `is_searched`, as message and part index.
    fn call_in(
        &self,
        all: &[Message],
        is_searched: impl Fn(usize) -> bool,
    ) -> Option<(usize, usize)> {
        let is_own = |part: &RenderedPart| {
            part.is_call()
                && part.execution.is_none()
                && self.matches(part.key(), part.name.as_ref())
        };
        let messages = all.iter().enumerate();
        let mut messages = messages.filter(|(_, message)| is_searched(message.position));
        messages.find_map(|(number, message)| {
            let part = message.parts.iter().position(is_own)?;
            Some((number, part))
        })
    }

    /// A separate message; `None` if the observation has neither input nor output.
    fn into_message(self, at: usize) -> Option<Message> {
        if self.call.body.is_none() && self.result.is_none() {
            return None;
        }
        let execution = CallExecution { link: None, result: self.result };
        Some(Message {
            role: Text::from("tool"),
            role_class: "tool",
            position: 2 * at,
            parts: vec![RenderedPart {
                role: PartRole::Call(Some(self.id.unwrap_or(self.name))),
                execution: Some(Box::new(execution)),
                ..self.call
            }],
            ..Message::default()
        })
    }
}

/// Attaches each tool observation, given with its index among the calls, to its tool call in the messages, and adds a separate
/// message for the others. Returns the indexes of the attached observations.
///
/// Outputs of earlier generations are searched first, in order, then the input of the next generation that continues an
/// earlier one, according to `continues`.
pub(super) fn attach(
    all: &mut Vec<Message>,
    mut earlier: Vec<EarlierCall>,
    tools: Vec<(usize, ToolObservation)>,
    (n_before, continues): (usize, &[bool]),
) -> HashSet<usize> {
    let mut attached = HashSet::new();
    for (at, mut tool) in tools {
        let is_own = |call: &EarlierCall| {
            call.at < at && tool.matches(call.key.as_deref(), call.name.as_ref())
        };
        if let Some(position) = earlier.iter().position(is_own) {
            // Messages on the page refer to the call by this key.
            let call = earlier.remove(position);
            tool.id = tool.id.or(call.key);
        } else {
            let is_output = |position: usize| position % 2 == 1 && position < 2 * at;
            let next = continues.iter().skip(at + 1).position(|continues| *continues);
            let next = next.map(|n| 2 * (at + 1 + n));
            let call = tool.call_in(all, is_output);
            let call = call.or_else(|| tool.call_in(all, |position| Some(position) == next));
            if let Some((message, part)) = call {
                all[message].parts[part].execution =
                    Some(Box::new(CallExecution { link: Some(tool.link), result: tool.result }));
                attached.insert(at);
                continue;
            }
        }
        if n_before <= at {
            all.extend(tool.into_message(at));
        }
    }
    all.sort_by_key(|message| message.position);
    attached
}
