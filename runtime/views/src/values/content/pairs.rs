//! Moves results of tool calls to their calls, paired by id, or by tool name if calls have no ids.

use std::collections::{HashMap, VecDeque};

use crate::markup::Text;

use super::messages::Message;
use super::parts::{PartRole, RenderedPart};

/// Position of a call: message index and part index.
type PartIndex = (usize, usize);

/// Calls with the same key that can still receive a result.
#[derive(Default)]
struct PendingCalls {
    calls: VecDeque<PartIndex>,
    /// The first call has a result. It receives further results until the next call.
    is_answered: bool,
}

impl PendingCalls {
    fn call(&mut self, index: PartIndex) {
        if self.is_answered {
            self.calls.clear();
            self.is_answered = false;
        }
        self.calls.push_back(index);
    }

    /// The call that receives the next result; results are assigned in order.
    fn result(&mut self) -> Option<PartIndex> {
        if self.calls.len() > 1 {
            return self.calls.pop_front();
        }
        self.is_answered = true;
        self.calls.front().copied()
    }
}

/// Moves each result to the latest earlier call with its key, and removes messages that contained only results.
pub(super) fn pair(messages: &mut Vec<Message>) {
    let mut calls: HashMap<String, PendingCalls> = HashMap::new();
    for number in 0..messages.len() {
        let parts = std::mem::take(&mut messages[number].parts);
        let n_before = parts.len();
        let mut kept: Vec<RenderedPart> = Vec::with_capacity(n_before);
        let mut moved_to: Option<PartIndex> = None;
        for part in parts {
            match &part.role {
                PartRole::Call(Some(key)) => {
                    let index = (number, kept.len());
                    calls.entry(key.clone()).or_default().call(index);
                    kept.push(part);
                }
                PartRole::Result(Some(key)) => {
                    match calls.get_mut(key).and_then(PendingCalls::result) {
                        Some((message, at)) => {
                            let call = match message == number {
                                true => kept.get_mut(at),
                                false => messages[message].parts.get_mut(at),
                            };
                            if let Some(call) = call {
                                call.inner.push(part);
                                moved_to = Some((message, at));
                            }
                        }
                        None => kept.push(part),
                    }
                }
                _ => kept.push(part),
            }
        }
        let is_empty = kept.is_empty() && moved_to.is_some();
        messages[number].parts = kept;
        if let Some(index) = moved_to.filter(|_| is_empty) {
            merge_message(messages, number, index);
        }
    }
    messages.retain(|message| !message.is_moved);
}

/// Moves the remaining members of a message to the result that was taken from it.
fn merge_message(messages: &mut [Message], number: usize, (message, at): PartIndex) {
    let from = std::mem::take(&mut messages[number]);
    messages[number].is_moved = true;
    let call = messages[message].parts.get_mut(at);
    let Some(result) = call.and_then(|call| call.inner.last_mut()) else {
        return;
    };
    if from.role_class == "other" {
        result.facts.push((Text::from("role"), from.role));
    }
    if let Some(name) = from.name.filter(|name| result.name.as_ref() != Some(name)) {
        match &result.name {
            None => result.name = Some(name),
            Some(_) => result.facts.push((Text::from("name"), name)),
        }
    }
    result.facts.extend(from.facts);
    result.add(from.further);
}
