//! Conversations: the messages of a generation, and those of a whole session.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::open;
use crate::observation::Observation;

/// Bytes of all messages of a conversation, as JSON.
const MAX_BYTES: usize = 64 << 20;

/// The input messages of a generation, and its output.
pub(super) fn messages(generation: &Observation) -> Vec<Value> {
    let mut messages = Vec::new();
    if let Some(input) = &generation.content.input {
        messages_of(open(input.to_value()), "user", &mut messages);
    }
    if let Some(output) = &generation.content.output {
        messages_of(open(output.to_value()), "assistant", &mut messages);
    }
    messages
}

/// Messages as a value; none where there are none.
pub(super) fn value_of(mut messages: Vec<Value>, without_system: bool) -> Option<Value> {
    if without_system {
        messages.retain(|message| !is_of_system(message));
    }
    (!messages.is_empty()).then_some(Value::Array(messages))
}

fn is_of_system(message: &Value) -> bool {
    message["role"] == "system"
}

/// Messages in the forms that instrumentations send: a list, an object with `messages`, one message,
/// or bare content that `role` said.
fn messages_of(value: Value, role: &str, messages: &mut Vec<Value>) {
    match value {
        Value::Null => {}
        Value::Array(list) => {
            for element in list {
                messages_of(element, role, messages);
            }
        }
        Value::Object(mut members) => match members.remove("messages") {
            Some(list @ Value::Array(_)) => messages_of(list, role, messages),
            _ => {
                let said_by = match members.get("role").and_then(Value::as_str) {
                    Some(role) => Cow::Owned(role.to_owned()),
                    None => Cow::Borrowed(role),
                };
                let content = members.remove("content");
                let content = content.unwrap_or_else(|| Value::Object(members));
                messages.push(json!({ "role": said_by, "content": content }));
            }
        },
        content => messages.push(json!({ "role": role, "content": content })),
    }
}

/// The conversation is longer than what is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversation has more than {} MiB", MAX_BYTES >> 20)]
pub struct TooLong;

/// A conversation over several traces. Clients send what was said before with each turn: it is in here once.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    messages: Vec<Value>,
    n_bytes: usize,
}

impl Conversation {
    /// Takes in the last generation of the next trace.
    ///
    /// # Errors
    /// [`TooLong`], and it holds what it held before.
    pub fn add(&mut self, generation: &Observation) -> Result<(), TooLong> {
        let turn = messages(generation);
        let mut new = &turn[self.n_repeated(&turn)..];
        if new.len() == turn.len() {
            // Only the last turns, or none, are sent along; the system's message is.
            let is_known =
                |message: &&Value| is_of_system(message) && self.messages.contains(message);
            let n_known = turn.iter().take_while(is_known).count();
            new = &turn[n_known..];
            new = &new[self.n_repeated(new)..];
        }
        let n_bytes: usize = new.iter().map(|message| message.to_string().len()).sum();
        if MAX_BYTES < self.n_bytes + n_bytes {
            return Err(TooLong);
        }
        self.n_bytes += n_bytes;
        self.messages.extend_from_slice(new);
        Ok(())
    }

    /// With how many messages a turn repeats the end of the conversation.
    fn n_repeated(&self, turn: &[Value]) -> usize {
        let longest = turn.len().min(self.messages.len());
        let is_end = |n: &usize| self.messages.ends_with(&turn[..*n]);
        (1..=longest).rev().find(is_end).unwrap_or(0)
    }

    /// The messages, oldest first.
    pub(super) fn value(&self, without_system: bool) -> Option<Value> {
        value_of(self.messages.clone(), without_system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ObservationId, TraceId};
    use crate::observation::ObservationKind;
    use crate::payload::Payload;
    use crate::time::Timestamp;

    fn said(messages: &[(&str, &str)], reply: &str) -> Observation {
        let trace = TraceId::new("t").unwrap();
        let id = ObservationId::new("o").unwrap();
        let at = Timestamp::from_micros(0);
        let mut own = Observation::ended(trace, id, ObservationKind::Generation, (at, at));
        let messages = messages.iter();
        let messages = messages.map(|(role, content)| json!({"role": role, "content": content}));
        own.content.input = Some(Payload::from_value(messages.collect()));
        own.content.output = Some(Payload::from_value(json!(reply)));
        own
    }

    fn contents(turns: &[Observation]) -> Vec<String> {
        let mut conversation = Conversation::default();
        for turn in turns {
            conversation.add(turn).unwrap();
        }
        let all = conversation.messages.iter();
        all.map(|message| message["content"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn what_a_turn_repeats_of_those_before_is_in_the_conversation_once() {
        let system = ("system", "Be kind.");
        let first = said(&[system, ("user", "Hi")], "Hello");
        let whole = [
            system,
            ("user", "Hi"),
            ("assistant", "Hello"),
            ("user", "Bye"),
        ];
        let short = [system, ("assistant", "Hello"), ("user", "Bye")];
        for second in [
            &whole[..],
            &short,
            &[system, ("user", "Bye")],
            &[("user", "Bye")],
        ] {
            let turns = [first.clone(), said(second, "Ciao")];
            let want = ["Be kind.", "Hi", "Hello", "Bye", "Ciao"];
            assert_eq!(contents(&turns), want, "{second:?}");
        }
    }

    #[test]
    fn another_message_of_the_system_is_kept_where_it_stands() {
        let first = said(&[("system", "Be kind."), ("user", "Hi")], "Hello");
        let second = said(&[("system", "Be brief."), ("user", "Bye")], "Ciao");
        let want = ["Be kind.", "Hi", "Hello", "Be brief.", "Bye", "Ciao"];
        assert_eq!(contents(&[first, second]), want);
    }

    #[test]
    fn a_conversation_without_end_is_refused_and_not_held() {
        let large = "x".repeat(MAX_BYTES / 2);
        let mut conversation = Conversation::default();
        assert_eq!(conversation.add(&said(&[("user", &large)], "1")), Ok(()));
        let more = large.replace('x', "y");
        assert_eq!(
            conversation.add(&said(&[("user", &more)], "2")),
            Err(TooLong)
        );
        assert_eq!(conversation.messages.len(), 2);
    }
}
