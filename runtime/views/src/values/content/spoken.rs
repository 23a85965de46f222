//! The conversation that runs through the calls of a trace: each call repeats what was said before it, and what is new in
//! it is a message or two.

use std::hash::{DefaultHasher, Hasher as _};

use crate::markup::Text;
use crate::value_diff::repeats::{self, Keys, MessageSelection, Repeated};
use perpend_domain::content::{inline, unify};
use perpend_domain::payload::Payload;

use super::fold::Window;
use super::media::read;
use super::messages::Message;
use super::parts::{Part, StepLink};
use super::ran::{self, EarlierCall, LONG_PART, ToolStep};
use super::source::Source;
use super::{Addresses, Block, Chat, pairs};
use perpend_domain::content::locate::{self, Item};

/// A call with a larger input or output is not taken apart here: its own page shows it.
const MAX_BYTES: usize = 2 << 20;

/// What is shown of one call, about.
const CALL_BYTES: usize = 512 * 1024;

/// What one call was asked and what it answered.
#[derive(Debug, Default)]
pub(crate) struct Spoken {
    asked: Vec<Message>,
    answered: Vec<Message>,
    /// The messages of both, comparable; none for one of which not all is read.
    keys: Keys,
    /// The tool call that it is, where it asks no model.
    ran: Option<ToolStep>,
    /// One of the two is too large to be taken apart.
    pub(crate) is_large: bool,
}

/// What is new in a call.
#[derive(Debug)]
pub(crate) struct Told {
    /// Its messages that were shown before.
    pub(crate) same: Option<Repeated>,
    /// All that it was asked in order: what was shown before, and what is new behind that.
    pub(crate) asked: Vec<(Option<MessageSelection>, Block)>,
    pub(crate) answer: Block,
    /// It is a tool call that stands in the messages of another call.
    pub(crate) is_joined: bool,
}

impl Spoken {
    /// Of a step that asks no model, or that says too much to be taken apart.
    pub(crate) fn unread(is_large: bool) -> Self {
        Self { is_large, ..Self::default() }
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
        Self { ran: Some(ToolStep::new(call, arguments, result, link)), ..Self::default() }
    }

    pub(crate) fn new(
        asked: (Option<&Payload>, &Addresses),
        answered: (Option<&Payload>, &Addresses),
    ) -> Self {
        if is_too_large(asked.0) || is_too_large(answered.0) {
            return Self::unread(true);
        }
        let mut all = messages(asked, "input", LONG_PART);
        let n_asked = all.len();
        all.extend(messages(answered, "assistant", LONG_PART));
        let (of_input, of_answer) = all.split_at(n_asked);
        let keys = [of_input, of_answer].map(keys);
        // From the end: what was said first is what calls before this one had, and not shown again.
        let mut n_left = CALL_BYTES;
        for (number, message) in all.iter_mut().enumerate().rev() {
            let at = if number < n_asked { asked.1 } else { answered.1 };
            message.cut(n_left, &at.page("&as=conversation"));
            n_left = n_left.saturating_sub(message.weight());
        }
        let answered = all.split_off(n_asked);
        let asked = all;
        Self { asked, answered, keys, ..Self::default() }
    }

    /// Of a call that others are compared with, and of which nothing is shown.
    pub(crate) fn compared(asked: Option<&Payload>, answered: Option<&Payload>) -> Self {
        if is_too_large(asked) || is_too_large(answered) {
            return Self::unread(true);
        }
        let nowhere = Addresses::default();
        let of = |value, role| keys(&messages((value, &nowhere), role, 0));
        Self { keys: [of(asked, "input"), of(answered, "assistant")], ..Self::default() }
    }
}

fn is_too_large(value: Option<&Payload>) -> bool {
    value.is_some_and(|value| MAX_BYTES < value.as_str().len())
}

/// The messages of a value with so many bytes of each text; a value that is no conversation is one message of this role.
fn messages(
    (payload, at): (Option<&Payload>, &Addresses),
    role: &str,
    n_bytes: usize,
) -> Vec<Message> {
    let Some(payload) = payload else {
        return Vec::new();
    };
    let mut value = read(payload);
    let source = Source::new(inline::take(&mut value), at).window(Window { from: 0, n: n_bytes });
    unify(&mut value);
    let Some(located) = locate::locate(&value) else {
        return vec![Message::said(&source, role, &value)];
    };
    let read = located.items.iter().map(|item| match item {
        Item::Message(message) => Message::of(&source, message),
        Item::FromRole(role, said) => Message::said(&source, role, said),
    });
    read.collect()
}

fn keys(messages: &[Message]) -> Vec<Option<u64>> {
    messages.iter().map(key).collect()
}

/// Equal for messages that read the same. Ids, counts and reasoning that an answer has and its repetition may not have are
/// no part of it, unless the message says nothing else.
fn key(message: &Message) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(message.role_class.as_bytes());
    if message.role_class == "other" {
        hasher.write(message.role.raw().as_bytes());
    }
    hasher.write_u8(0xff);
    hasher.write(message.name.as_ref().map_or("", Text::raw).as_bytes());
    hasher.write_u8(0xff);
    let is_said = message.parts.iter().any(|part| !part.is_aside);
    let parts = message.parts.iter();
    for part in parts.filter(|part| !(is_said && part.is_aside)) {
        part.read_by(&mut hasher)?;
    }
    if message.parts.is_empty() {
        hasher.write_u64(message.further.as_ref()?.body.print);
    }
    Some(hasher.finish())
}

/// For each of some calls in order, what of its input was shown before it.
pub(crate) fn repeated<'s>(calls: impl Iterator<Item = &'s Spoken>) -> Vec<Option<Repeated>> {
    repeats::repeated(calls.map(|call| &call.keys))
}

/// What is new in each of some calls in order. Those of `history` and the first `n_before` others only say what was said
/// before; they have no part in the answer. Results of tools stand at their calls, in whichever call those were made.
pub(crate) fn told(history: &[Spoken], mut calls: Vec<Spoken>, n_before: usize) -> Vec<Told> {
    let keys = history.iter().chain(&calls).map(|call| &call.keys);
    let mut same = repeats::repeated_with_retries(keys).split_off(history.len());
    // A full retry adds no message, so that no call of a tool can come from it.
    let goes_on = same.iter().zip(&calls).map(|(same, call)| {
        let n_same = same.as_ref().map(|same| same.which.n());
        n_same.is_some_and(|n| n < call.asked.len())
    });
    let goes_on: Vec<bool> = goes_on.collect();
    let steps = calls.iter_mut().enumerate();
    let steps: Vec<(usize, ToolStep)> =
        steps.filter_map(|(at, call)| Some((at, call.ran.take()?))).collect();
    let earlier = calls.iter().take(n_before).enumerate().flat_map(|(at, call)| {
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
        let which = same[at].as_ref().map(|same| &same.which);
        let asked = call.asked.into_iter().enumerate();
        let asked = asked.filter(|(nth, _)| which.is_none_or(|which| !which.contains(*nth)));
        all.extend(asked.map(|(nth, message)| Message {
            place: 2 * at,
            run: which.map_or(0, |which| which.n_runs_before(nth)),
            ..message
        }));
        let answered = call.answered.into_iter();
        all.extend(answered.map(|message| Message { place: 2 * at + 1, ..message }));
    }
    let joined = ran::join(&mut all, earlier, steps, (n_before, &goes_on));
    pairs::pair(&mut all);
    let parts = all.iter_mut().flat_map(|message| &mut message.parts);
    parts.for_each(Part::add_own_result);
    let mut left = all.into_iter().peekable();
    let mut block = |place: usize, run: usize| {
        let mut own = Vec::new();
        let is_own = |message: &Message| (message.place, message.run) == (place, run);
        while let Some(message) = left.next_if(is_own) {
            own.push(message);
        }
        match own.is_empty() {
            true => Block::Absent,
            false => Block::Chat(Box::new(Chat::folded(own))),
        }
    };
    let places = n_before..same.len();
    places
        .map(|at| {
            let same = same[at].take();
            let runs = same.as_ref().map_or_else(Vec::new, |same| same.which.runs());
            let runs = [None].into_iter().chain(runs.into_iter().map(Some));
            let asked = runs.enumerate();
            Told {
                asked: asked.map(|(run, which)| (which, block(2 * at, run))).collect(),
                answer: block(2 * at + 1, 0),
                is_joined: joined.contains(&at),
                same,
            }
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

    /// How many messages of a call were shown before, and the place of the call that has most of them.
    fn same(told: &Told) -> Option<(usize, usize)> {
        let same = told.same.as_ref()?;
        Some((same.which.n(), same.call))
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

    /// What is new in what a call was asked.
    fn new(told: &Told) -> Vec<String> {
        told.asked.iter().flat_map(|(_, new)| said(new)).collect()
    }

    /// All that a call was asked, in order.
    fn in_order(told: &Told) -> Vec<String> {
        let runs = told.asked.iter();
        let all = runs.flat_map(|(which, new)| {
            let same = which.as_ref().map(|which| format!("same {}", which.n()));
            same.into_iter().chain(said(new)).collect::<Vec<_>>()
        });
        all.collect()
    }

    #[test]
    fn calls_with_one_history_and_retries_show_it_once_and_count_all_of_it() {
        let system = json!({ "role": "system", "content": "Be kind." });
        let question = json!({ "role": "user", "content": "What is the weather?" });
        let asks = json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "k1", "type": "function", "function": { "name": "weather", "arguments": "{}" } },
        ] });
        let result = json!({ "role": "tool", "tool_call_id": "k1", "content": "Rain." });
        let answer = |text: &str| json!({ "role": "assistant", "content": text });
        let asked = json!([system, question, asks, result]);
        let calls = vec![
            call(json!([system, question]), asks),
            call(asked.clone(), answer("Take an umbrella.")),
            call(asked, answer("Stay at home.")),
        ];
        let told = told(&[], calls, 0);
        let results = said(&told[0].answer);
        assert_eq!(results.concat().matches("Rain.").count(), 1, "{results:?}");
        let same: Vec<_> = told.iter().map(same).collect();
        assert_eq!(same, [None, Some((3, 0)), Some((4, 1))]);
        assert_eq!(in_order(&told[2]), ["same 4"]);
    }

    #[test]
    fn what_was_shown_before_stands_where_it_was_said() {
        let message = |role: &str, text: &str| json!({ "role": role, "content": text });
        let task = message("user", "task");
        let calls = vec![
            call(json!([message("system", "a"), task, message("user", "b")]), json!("ok")),
            call(json!([message("system", "sub"), task, task]), json!("ok")),
        ];
        let told = told(&[], calls, 0);
        assert_eq!(in_order(&told[1]), ["system: sub", "same 1", "user: task"]);
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
        let [first, second] = <[Told; 2]>::try_from(told(&[], vec![first, second], 0)).unwrap();
        assert_eq!(same(&first), None);
        assert_eq!(new(&first), ["system: Be kind.", "user: What is the weather?"]);
        assert!(said(&first.answer)[0].ends_with("→ Rain."), "{:?}", said(&first.answer));
        assert_eq!(same(&second), Some((3, 0)));
        assert_eq!(new(&second), Vec::<String>::new());
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
        let told = told(&[], calls, 1);
        let same: Vec<_> = told.iter().map(same).collect();
        assert_eq!(same, [None, Some((2, 0)), None]);
        assert_eq!(new(&told[1]), ["user: b"]);
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
            (said(json!(format!("{long}a"))), said(json!(format!("{long}b")))),
            (said(picture("AAAA")), said(picture("BBBB"))),
            (said(json!("yes")), json!({ "role": "system", "content": "yes" })),
        ] {
            // What a call is about is not compared, unless the whole input is the same.
            let asked = |first: &Value| json!([first, said(json!("last"))]);
            let pair = |first: &Value, second: &Value| {
                let calls = [first, second].map(|first| call(asked(first), json!("ok")));
                same(&told(&[], calls.into(), 0)[1])
            };
            assert_eq!(pair(&one, &one), Some((2, 0)), "{:.80}", one.to_string());
            assert_eq!(
                pair(&one, &other),
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
        let same = repeated(turns.iter()).into_iter();
        let same: Vec<_> = same.map(|same| same.map(|same| (same.which.n(), same.call))).collect();
        assert_eq!(same, [None, None, Some((2, 1)), None, None]);
    }

    #[test]
    fn an_answer_is_the_same_without_its_reasoning_and_with_other_ids() {
        let question = json!({ "role": "user", "content": "Why?" });
        let answers = [
            json!({ "role": "assistant", "content": "So.", "reasoning_content": "Well", "id": "m1" }),
            json!({ "role": "assistant", "content": [
                { "type": "thinking", "thinking": "Well", "signature": "x" },
                { "type": "text", "text": "So." },
            ] }),
        ];
        let last = json!({ "role": "user", "content": "And then?" });
        let repeated = json!({ "role": "assistant", "content": "So." });
        for answer in answers {
            let calls = vec![
                call(json!([question]), answer.clone()),
                call(json!([question, repeated, last]), json!("ok")),
                // One that sends the reasoning along is the same too.
                call(json!([question, answer, last]), json!("ok")),
            ];
            let told = told(&[], calls, 0);
            let all: Vec<_> = told.iter().map(same).collect();
            assert_eq!(all, [None, Some((2, 0)), Some((3, 1))], "{answer}");
            assert_eq!(new(&told[1]), ["user: And then?"]);
        }
    }

    #[test]
    fn messages_that_differ_only_in_reasoning_where_they_say_nothing_else_are_shown() {
        let thought = |text: &str| json!({ "role": "assistant", "reasoning_content": text });
        let last = json!({ "role": "user", "content": "Go on." });
        let calls = vec![
            call(json!([thought("One"), last]), json!("ok")),
            call(json!([thought("Two"), last]), json!("ok")),
            call(json!([thought("One"), thought("Two"), last]), json!("ok")),
        ];
        let all: Vec<_> = told(&[], calls, 0).iter().map(same).collect();
        assert_eq!(all, [None, None, Some((2, 1))]);
    }

    #[test]
    fn what_calls_before_the_window_said_is_not_new() {
        let rules = json!({ "role": "system", "content": "Plan." });
        let task = json!({ "role": "user", "content": "Build it." });
        let plan = json!({ "role": "assistant", "content": "First this." });
        let next = json!({ "role": "user", "content": "Done." });
        let history = Payload::from_value(json!([rules, task]));
        let history = [Spoken::compared(Some(&history), Some(&Payload::from_value(plan.clone())))];
        let calls = vec![
            call(json!("other"), json!("ok")),
            call(json!([rules, task, plan, next]), json!("ok")),
        ];
        let told = told(&history, calls, 1);
        assert_eq!(told.len(), 1);
        assert_eq!(same(&told[0]), Some((3, 0)));
        assert_eq!(new(&told[0]), ["user: Done."]);
    }

    #[test]
    fn what_is_no_conversation_is_one_message() {
        let told = told(&[], vec![call(json!("a question"), json!("an answer"))], 0);
        assert_eq!(new(&told[0]), ["input: a question"]);
        assert_eq!(said(&told[0].answer), ["assistant: an answer"]);
    }
}
