//! Tool calls that ran as steps of a trace. Each stands at the call in the messages that asked for it, so that neither the
//! call nor its result is shown twice, and else in its own place.

use std::collections::HashSet;

use crate::markup::Text;
use perpend_domain::payload::Payload;
use serde_json::Value;

use super::Addresses;
use super::fold::{Fold, Window};
use super::media::read;
use super::messages::Message;
use super::parts::{Part, Ran, Role, StepLink};
use super::source::Source;
use perpend_domain::content::{inline, parsed};

/// What is shown of each text.
pub(super) const LONG_PART: usize = 8 * 1024;

/// A tool call that ran as a step.
#[derive(Debug)]
pub(super) struct ToolStep {
    /// The id of the call, where the step says it.
    id: Option<String>,
    name: String,
    call: Part,
    result: Option<Part>,
    link: StepLink,
}

/// A call in the answer of a generation before the window.
#[derive(Debug)]
pub(super) struct EarlierCall {
    /// The place of the generation.
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

impl ToolStep {
    pub(super) fn new(
        (id, name): (Option<&str>, &str),
        arguments: (Option<&Payload>, &Addresses),
        result: (Option<&Payload>, &Addresses),
        link: StepLink,
    ) -> Self {
        let result = body(result);
        Self {
            id: id.map(ToOwned::to_owned),
            name: name.to_owned(),
            call: Part::labelled("tool call", body(arguments)),
            result: result.map(|result| Part::labelled("tool result", Some(result))),
            link,
        }
    }

    /// Whether a call with this key and this name may be the one that it ran for. Where calls have no ids, the key is the
    /// name.
    fn fits(&self, key: Option<&str>, name: Option<&Text>) -> bool {
        let is_named = name.is_some_and(|name| name.raw() == self.name);
        match (&self.id, key) {
            (Some(id), Some(key)) => id == key || (is_named && key == self.name),
            _ => is_named,
        }
    }

    /// The first call in the messages at these places that it may have run for.
    fn call_in(&self, all: &[Message], is_there: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
        let is_own = |part: &Part| {
            part.is_call() && part.ran.is_none() && self.fits(part.key(), part.name.as_ref())
        };
        let there = all.iter().enumerate();
        let mut there = there.filter(|(_, message)| is_there(message.place));
        there.find_map(|(number, message)| {
            let part = message.parts.iter().position(is_own)?;
            Some((number, part))
        })
    }

    /// In its own place; none when it says nothing.
    fn alone(self, at: usize) -> Option<Message> {
        if self.call.body.is_none() && self.result.is_none() {
            return None;
        }
        let ran = Ran { link: None, result: self.result };
        Some(Message {
            role: Text::from("tool"),
            role_class: "tool",
            place: 2 * at,
            parts: vec![Part {
                role: Role::Call(Some(self.id.unwrap_or(self.name))),
                ran: Some(Box::new(ran)),
                ..self.call
            }],
            ..Message::default()
        })
    }
}

/// Puts each step, given with its place among the calls, at the call that it ran for, and those without one in their own
/// place. The answer is the places of the former. What generations answered leads, in order; else it is what the next one
/// was asked that goes on from an earlier one, as `goes_on` says.
pub(super) fn join(
    all: &mut Vec<Message>,
    mut earlier: Vec<EarlierCall>,
    steps: Vec<(usize, ToolStep)>,
    (n_before, goes_on): (usize, &[bool]),
) -> HashSet<usize> {
    let mut joined = HashSet::new();
    for (at, mut step) in steps {
        let is_own =
            |call: &EarlierCall| call.at < at && step.fits(call.key.as_deref(), call.name.as_ref());
        if let Some(place) = earlier.iter().position(is_own) {
            // The messages of the window know the call by this key.
            let call = earlier.remove(place);
            step.id = step.id.or(call.key);
        } else {
            let is_answer = |place: usize| place % 2 == 1 && place < 2 * at;
            let next = goes_on.iter().skip(at + 1).position(|goes_on| *goes_on);
            let next = next.map(|n| 2 * (at + 1 + n));
            let call = step.call_in(all, is_answer);
            let call = call.or_else(|| step.call_in(all, |place| Some(place) == next));
            if let Some((message, part)) = call {
                all[message].parts[part].ran =
                    Some(Box::new(Ran { link: Some(step.link), result: step.result }));
                joined.insert(at);
                continue;
            }
        }
        if n_before <= at {
            all.extend(step.alone(at));
        }
    }
    all.sort_by_key(|message| message.place);
    joined
}
