//! The conversation that runs through the calls of a trace: each call repeats what was said before it, and what is new in
//! it is a message or two.

use std::hash::{DefaultHasher, Hasher as _};

use perpend_domain::payload::Payload;
use perpend_shapes::unify;

use super::fold::Window;
use super::locate::{self, Item};
use super::messages::Message;
use super::parts::Part;
use super::ran::{self, EarlierCall, StepLink, ToolStep};
use super::source::Source;
use super::{Addresses, Block, Chat, inline, pairs};
use crate::markup::Text;

/// A call with a larger input or output is not taken apart here: its own page shows it.
const MAX_BYTES: usize = 2 << 20;

/// What is shown of one call, about.
const CALL_BYTES: usize = 512 * 1024;
/// What is shown of each text.
pub(super) const LONG_PART: usize = 8 * 1024;

/// What one call was asked and what it answered.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    asked: Vec<Message>,
    answered: Vec<Message>,
    /// The messages of both, comparable; none for one of which not all is read.
    keys: Vec<Option<u64>>,
    /// The tool call that it is, where it asks no model.
    ran: Option<ToolStep>,
    /// One of the two is too large to be taken apart.
    pub(crate) is_large: bool,
}

/// What is new in a call.
#[derive(Debug)]
pub(crate) struct Told {
    /// How many of its messages an earlier call had, and the place of that call.
    pub(crate) same: Option<(usize, usize)>,
    pub(crate) new: Block,
    pub(crate) answer: Block,
    /// It is a tool call that stands in the messages of another call.
    pub(crate) is_joined: bool,
}

impl Spoken {
    /// Of a step that asks no model, or that says too much to be taken apart.
    pub(crate) fn unread(is_large: bool) -> Self {
        Self {
            is_large,
            ..Self::default()
        }
    }

    /// Of a step that ran a tool: the id of its call where the step says it, its name, its arguments and its result.
    pub(crate) fn ran(
        call: (Option<&str>, &str),
        arguments: (Option<&Payload>, &Addresses),
        result: (Option<&Payload>, &Addresses),
        link: StepLink,
    ) -> Self {
        if is_too_large(arguments.0) || is_too_large(result.0) {
            return Self::unread(true);
        }
        Self {
            ran: Some(ToolStep::new(call, arguments, result, link)),
            ..Self::default()
        }
    }

    pub(crate) fn new(
        asked: (Option<&Payload>, &Addresses),
        answered: (Option<&Payload>, &Addresses),
    ) -> Self {
        if is_too_large(asked.0) || is_too_large(answered.0) {
            return Self::unread(true);
        }
        let mut all = messages(asked, "input");
        let n_asked = all.len();
        all.extend(messages(answered, "assistant"));
        let keys = all.iter().map(key).collect();
        // From the end: what was said first is what calls before this one had, and not shown again.
        let mut n_left = CALL_BYTES;
        for (number, message) in all.iter_mut().enumerate().rev() {
            let at = if number < n_asked {
                asked.1
            } else {
                answered.1
            };
            message.cut(n_left, &at.page("&as=conversation"));
            n_left = n_left.saturating_sub(message.weight());
        }
        let answered = all.split_off(n_asked);
        let asked = all;
        Self {
            asked,
            answered,
            keys,
            ..Self::default()
        }
    }

    /// How many messages at its beginning are those that the other one had or gave.
    fn n_same(&self, other: &Self) -> usize {
        let asked = self.keys.iter().take(self.asked.len());
        let pairs = asked.zip(&other.keys);
        pairs.take_while(|(a, b)| a.is_some() && a == b).count()
    }
}

fn is_too_large(value: Option<&Payload>) -> bool {
    value.is_some_and(|value| MAX_BYTES < value.as_str().len())
}

/// The messages of a value; a value that is no conversation is one message of this role.
fn messages((payload, at): (Option<&Payload>, &Addresses), role: &str) -> Vec<Message> {
    let Some(payload) = payload else {
        return Vec::new();
    };
    let mut value = inline::read(payload);
    let source = Source::new(inline::take(&mut value), at).window(Window {
        from: 0,
        n: LONG_PART,
    });
    unify(&mut value);
    let Some(located) = locate::locate(&value) else {
        return vec![Message::said(&source, role, &value)];
    };
    let read = located.items.iter().map(|item| match item {
        Item::Message(message) => Message::of(&source, message),
        Item::Said(role, said) => Message::said(&source, role, said),
    });
    read.collect()
}

/// Equal for messages that read the same. Ids and counts that an answer has and its repetition has not are no part of it,
/// unless the message says nothing else.
fn key(message: &Message) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(message.role_class.as_bytes());
    if message.role_class == "other" {
        hasher.write(message.role.raw().as_bytes());
    }
    hasher.write_u8(0xff);
    hasher.write(message.name.as_ref().map_or("", Text::raw).as_bytes());
    hasher.write_u8(0xff);
    for part in &message.parts {
        part.read_by(&mut hasher)?;
    }
    if message.parts.is_empty() {
        hasher.write_u64(message.further.as_ref()?.body.print);
    }
    Some(hasher.finish())
}

/// For each of some calls in order, how many messages at its beginning an earlier call had or gave, and the place of that
/// call.
fn shared(calls: &[Spoken]) -> Vec<Option<(usize, usize)>> {
    let shared = (0..calls.len()).map(|at| {
        let before = (0..at)
            .rev()
            .map(|other| (calls[at].n_same(&calls[other]), other));
        // The latest of those that share most.
        let best = before.fold(
            (0, 0),
            |best, next| if best.0 < next.0 { next } else { best },
        );
        (0 < best.0).then_some(best)
    });
    shared.collect()
}

/// The same for the turns of a session. The last message of an input is never one of them: it is what this turn is about,
/// even where an earlier turn asked the same.
pub(crate) fn repeated(turns: &[Spoken]) -> Vec<Option<(usize, usize)>> {
    let shared = shared(turns).into_iter().zip(turns);
    let repeated = shared.map(|(same, turn)| {
        let (n, other) = same?;
        let n = n.min(turn.asked.len().saturating_sub(1));
        (0 < n).then_some((n, other))
    });
    repeated.collect()
}

/// What is new in each of some calls in order. The first `n_before` of them only say what was said before the others;
/// they have no part in the answer. Results of tools stand at their calls, in whichever call those were made.
pub(crate) fn told(mut calls: Vec<Spoken>, n_before: usize) -> Vec<Told> {
    let same = shared(&calls);
    let steps = calls.iter_mut().enumerate();
    let steps: Vec<(usize, ToolStep)> = steps
        .filter_map(|(at, call)| Some((at, call.ran.take()?)))
        .collect();
    let earlier = calls
        .iter()
        .take(n_before)
        .enumerate()
        .flat_map(|(at, call)| {
            let parts = call.answered.iter().flat_map(|message| &message.parts);
            let calls = parts.filter(|part| part.is_call());
            calls.map(move |part| EarlierCall {
                at,
                key: part.key().map(ToOwned::to_owned),
                name: part.name.clone(),
            })
        });
    let earlier: Vec<EarlierCall> = earlier.collect();
    let mut all = Vec::new();
    for (at, call) in calls.into_iter().enumerate().skip(n_before) {
        let n_same = same[at].map_or(0, |(n, _)| n);
        let asked = call.asked.into_iter().skip(n_same);
        all.extend(asked.map(|message| Message {
            place: 2 * at,
            ..message
        }));
        let answered = call.answered.into_iter();
        all.extend(answered.map(|message| Message {
            place: 2 * at + 1,
            ..message
        }));
    }
    let goes_on: Vec<bool> = same.iter().map(Option::is_some).collect();
    let joined = ran::join(&mut all, earlier, steps, (n_before, &goes_on));
    pairs::pair(&mut all);
    let parts = all.iter_mut().flat_map(|message| &mut message.parts);
    parts.for_each(Part::add_own_result);
    let mut left = all.into_iter().peekable();
    let mut block = |place: usize| {
        let mut own = Vec::new();
        while let Some(message) = left.next_if(|message| message.place == place) {
            own.push(message);
        }
        match own.is_empty() {
            true => Block::Absent,
            false => Block::Chat(Box::new(Chat::folded(own))),
        }
    };
    let places = n_before..same.len();
    places
        .map(|at| Told {
            same: same[at],
            new: block(2 * at),
            answer: block(2 * at + 1),
            is_joined: joined.contains(&at),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at() -> Addresses {
        Addresses::new("/p", "t", None, "input")
    }

    fn call(asked: Value, answered: Value) -> Spoken {
        let (asked, answered) = (Payload::from_value(asked), Payload::from_value(answered));
        Spoken::new((Some(&asked), &at()), (Some(&answered), &at()))
    }

    fn said(block: &Block) -> Vec<String> {
        let Block::Chat(chat) = block else {
            return Vec::new();
        };
        let all = chat.first.iter().chain(&chat.middle).chain(&chat.last);
        let one = |message: &Message| {
            let parts = message.parts.iter();
            let bodies = parts.map(|part| {
                let own = part.body.as_ref().map(|fold| fold.body.to_string());
                let inner = part.inner.iter().flat_map(|part| &part.inner);
                let inner = inner.filter_map(|part| part.body.as_ref());
                let inner = inner.map(|fold| fold.body.to_string());
                own.into_iter().chain(inner).collect::<Vec<_>>().join(" → ")
            });
            format!("{}: {}", message.role, bodies.collect::<Vec<_>>().join(" "))
        };
        all.map(one).collect()
    }

    #[test]
    fn each_message_is_told_once_and_a_result_stands_at_its_call() {
        let system = json!({ "role": "system", "content": "Be kind." });
        let question = json!({ "role": "user", "content": "What is the weather?" });
        let asks = json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "weather", "arguments": "{}" } },
        ] });
        let result = json!({ "role": "tool", "tool_call_id": "c1", "content": "Rain." });
        let mut answer = asks.clone();
        answer["logprobs"] = json!([1, 2]);
        let first = call(json!([system, question]), json!([answer]));
        let second = call(
            json!({ "messages": [system, question, asks, result] }),
            json!({ "role": "assistant", "content": "Take an umbrella." }),
        );
        let [first, second] = <[Told; 2]>::try_from(told(vec![first, second], 0)).unwrap();
        assert_eq!(first.same, None);
        assert_eq!(
            said(&first.new),
            ["system: Be kind.", "user: What is the weather?"]
        );
        assert!(
            said(&first.answer)[0].ends_with("→ Rain."),
            "{:?}",
            said(&first.answer)
        );
        assert_eq!(second.same, Some((3, 0)));
        assert_eq!(said(&second.new), Vec::<String>::new());
        assert_eq!(said(&second.answer), ["assistant: Take an umbrella."]);
    }

    #[test]
    fn the_latest_call_that_shares_most_is_the_one_before() {
        let message = |text: &str| json!({ "role": "user", "content": text });
        let answer = || json!({ "role": "assistant", "content": "Yes." });
        let calls = vec![
            call(json!([message("a")]), answer()),
            call(json!([message("sub")]), answer()),
            call(json!([message("a"), answer(), message("b")]), answer()),
            call(json!([message("other")]), answer()),
        ];
        let told = told(calls, 1);
        let same: Vec<_> = told.iter().map(|call| call.same).collect();
        assert_eq!(same, [None, Some((2, 0)), None]);
        assert_eq!(said(&told[1].new), ["user: b"]);
    }

    #[test]
    fn messages_that_differ_are_never_taken_for_the_same() {
        let long = "x".repeat(600_000);
        let said = |content: Value| json!({ "role": "user", "content": content });
        let picture = |data: &str| json!([{ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{data}") } }]);
        for (one, other) in [
            (
                json!({ "role": "user", "question": "A" }),
                json!({ "role": "user", "question": "B" }),
            ),
            (
                json!({ "role": "user", "name": "Alice", "content": "yes" }),
                json!({ "role": "user", "name": "Bob", "content": "yes" }),
            ),
            (
                said(json!(format!("{long}a"))),
                said(json!(format!("{long}b"))),
            ),
            (said(picture("AAAA")), said(picture("BBBB"))),
            (
                said(json!("yes")),
                json!({ "role": "system", "content": "yes" }),
            ),
        ] {
            let calls = vec![
                call(json!([one.clone()]), json!("ok")),
                call(json!([other.clone()]), json!("ok")),
            ];
            assert_eq!(
                told(calls, 0)[1].same,
                None,
                "{:.80} {:.80}",
                one.to_string(),
                other.to_string()
            );
        }
    }

    #[test]
    fn the_last_message_of_a_turn_is_not_repeated_even_where_it_was_said_before() {
        let message = |text: &str| json!({ "role": "user", "content": text });
        let answer = json!({ "role": "assistant", "content": "Yes." });
        let turns = [
            call(json!([message("a")]), answer.clone()),
            call(json!([message("a")]), answer.clone()),
            call(json!([message("a"), answer, message("b")]), json!("ok")),
            call(json!("And then?"), json!("ok")),
            call(json!("And then?"), json!("ok")),
        ];
        assert_eq!(repeated(&turns), [None, None, Some((2, 1)), None, None]);
    }

    #[test]
    fn what_is_no_conversation_is_one_message() {
        let told = told(vec![call(json!("a question"), json!("an answer"))], 0);
        assert_eq!(said(&told[0].new), ["input: a question"]);
        assert_eq!(said(&told[0].answer), ["assistant: an answer"]);
    }
}
