//! The result of a call stands at the call: paired by id, or by the name of the tool where calls have no
//! ids.

use std::collections::{HashMap, VecDeque};

use crate::markup::Text;

use super::messages::Message;
use super::parts::{Part, Role};

/// Where a call is: the number of its message, and of its part.
type Place = (usize, usize);

/// The calls under one key that may still get a result.
#[derive(Default)]
struct Waiting {
    calls: VecDeque<Place>,
    /// The first one has a result; it takes more until there is another call.
    is_answered: bool,
}

impl Waiting {
    fn call(&mut self, place: Place) {
        if self.is_answered {
            self.calls.clear();
            self.is_answered = false;
        }
        self.calls.push_back(place);
    }

    /// The call that the next result belongs to: calls are answered in turn.
    fn result(&mut self) -> Option<Place> {
        if self.calls.len() > 1 {
            return self.calls.pop_front();
        }
        self.is_answered = true;
        self.calls.front().copied()
    }
}

/// Moves each result to the latest earlier call that it answers, and takes away the messages that were
/// nothing but that.
pub(super) fn pair(messages: &mut Vec<Message>) {
    let mut calls: HashMap<String, Waiting> = HashMap::new();
    for number in 0..messages.len() {
        let parts = std::mem::take(&mut messages[number].parts);
        let n_before = parts.len();
        let mut kept: Vec<Part> = Vec::with_capacity(n_before);
        let mut moved_to: Option<Place> = None;
        for part in parts {
            match &part.role {
                Role::Call(Some(key)) => {
                    let place = (number, kept.len());
                    calls.entry(key.clone()).or_default().call(place);
                    kept.push(part);
                }
                Role::Result(Some(key)) => match calls.get_mut(key).and_then(Waiting::result) {
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
                },
                _ => kept.push(part),
            }
        }
        let is_gone = kept.is_empty() && moved_to.is_some();
        messages[number].parts = kept;
        if let Some(place) = moved_to.filter(|_| is_gone) {
            hand_over(messages, number, place);
        }
    }
    messages.retain(|message| !message.is_moved);
}

/// What the message of a result says besides goes to the result.
fn hand_over(messages: &mut [Message], number: usize, (message, at): Place) {
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
