//! Conversations: the messages of a generation, and those of a whole session.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::content::calls::calls;
use crate::content::kinds::Kind;
use crate::content::roles::Speaker;
use crate::content::{conversation, is_system_message};
use serde_json::Value;

use super::{LimitExceeded, MappingBudget, open};
use crate::memory::of_value;
use crate::observation::Observation;

/// Limits of a conversation: bytes of all messages as JSON, and number of messages.
const MAX_BYTES: usize = 16 << 20;
const MAX_MESSAGES: usize = 20_000;
/// Memory of all messages, parsed.
const MAX_MEMORY: usize = 64 << 20;

/// The input messages of a generation, and its output.
pub(super) fn messages(
    generation: &Observation,
    budget: &mut MappingBudget,
) -> Result<Vec<Value>, LimitExceeded> {
    let mut messages = Vec::new();
    let content = &generation.content;
    let payloads = [(&content.input, Speaker::User), (&content.output, Speaker::Assistant)];
    for (payload, role) in payloads {
        if let Some(payload) = payload {
            let value = open(budget.payload(payload)?, budget)?;
            messages.extend(conversation(value, role));
        }
    }
    Ok(messages)
}

/// Messages as a value; `None` if there are none.
pub(super) fn value_of(mut messages: Vec<Value>, without_system: bool) -> Option<Value> {
    if without_system {
        messages.retain(|message| !is_system_message(message));
    }
    (!messages.is_empty()).then_some(Value::Array(messages))
}

/// The text of a text part.
fn text_of(part: &Value) -> Option<&str> {
    let Value::Object(members) = part else {
        return part.as_str();
    };
    let text = part["text"].as_str().or(part["content"].as_str());
    text.filter(|_| Kind::of(members) == Kind::Text || !members.contains_key("type"))
}

/// A hash of role, text and tool calls of a message, independent of its form.
fn key(message: &Value) -> u64 {
    let mut hash = DefaultHasher::new();
    message["role"].as_str().hash(&mut hash);
    let content = &message["content"];
    let parts = content.as_array();
    let texts: Option<Vec<&str>> = parts.and_then(|parts| parts.iter().map(text_of).collect());
    match (content.as_str(), texts) {
        (Some(text), _) => text.hash(&mut hash),
        (None, Some(texts)) => texts.concat().hash(&mut hash),
        (None, None) if content.is_null() => "".hash(&mut hash),
        (None, None) => content.to_string().hash(&mut hash),
    }
    if message.as_object().is_some_and(|members| 2 < members.len()) {
        for call in calls(message) {
            call.name.hash(&mut hash);
            call.arguments.to_string().hash(&mut hash);
        }
    }
    hash.finish()
}

/// The conversation exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversation has more than {} MiB, or more than {MAX_MESSAGES} messages", MAX_BYTES >> 20)]
pub struct ConversationTooLong;

/// A conversation over several traces. Clients resend the history with each turn; it is stored once.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    messages: Vec<Value>,
    /// Hashes of the messages, to recognise repetitions.
    keys: Vec<u64>,
    n_bytes: usize,
    memory: usize,
}

impl Conversation {
    /// Appends the last generation of the next trace.
    ///
    /// # Errors
    /// [`ConversationTooLong`]; the conversation is unchanged then.
    pub fn add(&mut self, generation: &Observation) -> Result<(), ConversationTooLong> {
        let turn =
            messages(generation, &mut MappingBudget::default()).map_err(|_| ConversationTooLong)?;
        let keys: Vec<u64> = turn.iter().map(key).collect();
        let n_known = self.n_repeated(&turn, &keys);
        let new = &turn[n_known..];
        let n_bytes: usize = new.iter().map(|message| message.to_string().len()).sum();
        let memory: usize = new.iter().map(of_value).sum();
        if MAX_BYTES < self.n_bytes + n_bytes
            || MAX_MESSAGES < self.messages.len() + new.len()
            || MAX_MEMORY < self.memory + memory
        {
            return Err(ConversationTooLong);
        }
        self.n_bytes += n_bytes;
        self.memory += memory;
        self.messages.extend_from_slice(new);
        self.keys.extend_from_slice(&keys[n_known..]);
        Ok(())
    }

    /// The number of leading messages of a turn that repeat the conversation. A resent history may omit tool messages and old
    /// messages, but reaches up to the last reply in order. Otherwise only system messages count as repeated.
    fn n_repeated(&self, turn: &[Value], keys: &[u64]) -> usize {
        let (mut at, mut n_known) = (0, 0);
        for key in keys {
            let Some(found) = self.keys[at..].iter().position(|known| known == key) else {
                break;
            };
            at += found + 1;
            n_known += 1;
        }
        if at == self.keys.len() {
            return n_known;
        }
        let of_system = |(message, key): &(&Value, &u64)| {
            is_system_message(message) && self.keys.first() == Some(*key)
        };
        turn.iter().zip(keys).take_while(of_system).count()
    }

    /// The messages, oldest first.
    pub(super) fn value(&self, without_system: bool) -> Option<Value> {
        value_of(self.messages.clone(), without_system)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::{ObservationId, TraceId};
    use crate::observation::ObservationKind;
    use crate::payload::Payload;
    use crate::time::Timestamp;

    fn generation(messages: &[(&str, &str)], reply: &str) -> Observation {
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
        all.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn repeated_history_is_in_the_conversation_once() {
        let system = ("system", "Be kind.");
        let first = generation(&[system, ("user", "Hi")], "Hello");
        let whole = [system, ("user", "Hi"), ("assistant", "Hello"), ("user", "Bye")];
        let short = [system, ("assistant", "Hello"), ("user", "Bye")];
        for second in [&whole[..], &short, &[system, ("user", "Bye")], &[("user", "Bye")]] {
            let turns = [first.clone(), generation(second, "Ciao")];
            let want = ["Be kind.", "Hi", "Hello", "Bye", "Ciao"];
            assert_eq!(contents(&turns), want, "{second:?}");
        }
    }

    #[test]
    fn omitted_tool_calls_are_kept_and_parts_equal_their_text() {
        let call = ("assistant", "[search]");
        let tools = [("user", "Where?"), call, ("tool", "here")];
        let first = generation(&tools, "It is here.");
        let history = [("user", "Where?"), ("assistant", "It is here."), ("user", "Thanks")];
        let mut second = generation(&history, "Bye");
        let want = ["Where?", "[search]", "here", "It is here.", "Thanks", "Bye"];
        assert_eq!(contents(&[first.clone(), second.clone()]), want);
        let parts = |(role, text): &(&str, &str)| json!({ "role": role, "content": [{ "type": "text", "text": text }] });
        second.content.input = Some(Payload::from_value(history.iter().map(parts).collect()));
        let found = contents(&[first, second]);
        assert_eq!(found[..4], want[..4]);
        assert_eq!(found.len(), 6);
    }

    #[test]
    fn a_thread_without_system_leaves_out_the_instructions_of_every_library() {
        let user = json!({ "role": "user", "content": "Hi" });
        for input in [
            json!([{ "role": "developer", "content": "S" }, user]),
            json!([{ "type": "system", "content": "S" }, { "type": "human", "content": "Hi" }]),
            json!({ "system": "S", "messages": [user] }),
            json!({ "systemInstruction": { "parts": [{ "text": "S" }] }, "contents": [{ "role": "user", "parts": [{ "text": "Hi" }] }] }),
            json!({ "instructions": "S", "input": "Hi" }),
        ] {
            let mut own = generation(&[], "Hello");
            own.content.input = Some(Payload::from_value(input.clone()));
            let messages = messages(&own, &mut MappingBudget::default()).unwrap();
            let roles = |messages: &Value| {
                let messages = messages.as_array().unwrap().iter();
                messages.map(|message| message["role"].clone()).collect::<Vec<_>>()
            };
            let whole = value_of(messages.clone(), false).unwrap();
            assert_eq!(roles(&whole)[1..], ["user", "assistant"], "{input}");
            assert!(whole[0].to_string().contains("\"S\""), "{whole}");
            let rest = value_of(messages, true).unwrap();
            assert_eq!(roles(&rest), ["user", "assistant"], "{input}");
        }
    }

    #[test]
    fn messages_without_text_differ_by_their_tool_calls() {
        let call = |order: u32| {
            let arguments = json!({ "order": order }).to_string();
            let function = json!({ "name": "look_up", "arguments": arguments });
            json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": "c", "function": function }] })
        };
        assert_eq!(key(&call(1)), key(&call(1)));
        assert_ne!(key(&call(1)), key(&call(2)));
    }

    #[test]
    fn a_repeated_question_is_in_the_conversation_again() {
        let turns = [
            generation(&[("user", "Where?")], "There."),
            generation(&[("user", "Where?")], "Here."),
        ];
        assert_eq!(contents(&turns), ["Where?", "There.", "Where?", "Here."]);
    }

    #[test]
    fn a_later_system_message_keeps_its_position() {
        let first = generation(&[("system", "Be kind."), ("user", "Hi")], "Hello");
        let second = generation(&[("system", "Be brief."), ("user", "Bye")], "Ciao");
        let want = ["Be kind.", "Hi", "Hello", "Be brief.", "Bye", "Ciao"];
        assert_eq!(contents(&[first, second]), want);
    }

    #[test]
    fn an_oversized_conversation_is_rejected_before_it_is_built() {
        let large = "x".repeat(MAX_BYTES / 2 + 1);
        let mut conversation = Conversation::default();
        assert_eq!(conversation.add(&generation(&[("user", &large)], "1")), Ok(()));
        let more = large.replace('x', "y");
        assert_eq!(
            conversation.add(&generation(&[("user", &more)], "2")),
            Err(ConversationTooLong)
        );
        assert_eq!(conversation.messages.len(), 2);
        let many = vec![("user", "x"); MAX_MESSAGES];
        assert_eq!(conversation.add(&generation(&many, "2")), Err(ConversationTooLong));
    }
}
