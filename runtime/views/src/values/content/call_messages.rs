//! The messages of consecutive model calls. Each call usually repeats the previous messages and adds one or two.

use std::hash::{DefaultHasher, Hasher as _};

use crate::markup::Text;
use crate::value_diff::repeats::{self, Keys, MessageSelection, RepeatedMessages};
use perpend_domain::content::{inline, unify};
use perpend_domain::payload::Payload;

use super::fold::Window;
use super::media::read;
use super::messages::Message;
use super::parts::{ObservationLink, RenderedPart};
use super::source::Source;
use super::tool_calls::{self, EarlierCall, LONG_PART, ToolObservation};
use super::{Addresses, Block, Chat, pairs};
use perpend_domain::content::locate::{self, Item};

/// Maximum size in bytes of an input or output that is parsed. The page of the observation shows larger ones.
const MAX_BYTES: usize = 2 << 20;

/// Approximate maximum of the bytes of markup per call.
const CALL_BYTES: usize = 512 * 1024;

/// The messages of one model call, or a tool call.
#[derive(Debug, Default)]
pub(crate) struct CallMessages {
    input: Vec<Message>,
    output: Vec<Message>,
    /// Hashes of the input and output messages; `None` for messages that were not read completely.
    keys: Keys,
    /// Present for tool observations.
    tool_call: Option<ToolObservation>,
    /// The input or output exceeds `MAX_BYTES`.
    pub(crate) is_large: bool,
}

/// The messages of a call that earlier calls do not contain.
#[derive(Debug)]
pub(crate) struct NewMessages {
    /// Input messages that repeat messages of earlier calls.
    pub(crate) repeated: Option<RepeatedMessages>,
    /// The input in order: ranges of repeated messages, each with the new messages after it.
    pub(crate) input: Vec<(Option<MessageSelection>, Block)>,
    pub(crate) output: Block,
    /// A tool call that is shown in the messages of another call.
    pub(crate) is_attached: bool,
}

impl CallMessages {
    /// An observation without parsed messages: not a model or tool call, or too large.
    pub(crate) fn unread(is_large: bool) -> Self {
        Self { is_large, ..Self::default() }
    }

    /// A tool observation: call id, if recorded, and name, arguments and result of the call.
    pub(crate) fn tool_call(
        call: (Option<&str>, &str),
        arguments: (Option<&Payload>, &Addresses),
        result: (Option<&Payload>, &Addresses),
        link: ObservationLink,
    ) -> Self {
        if is_too_large(arguments.0) || is_too_large(result.0) {
            return Self::unread(true);
        }
        Self {
            tool_call: Some(ToolObservation::new(call, arguments, result, link)),
            ..Self::default()
        }
    }

    pub(crate) fn new(
        input: (Option<&Payload>, &Addresses),
        output: (Option<&Payload>, &Addresses),
    ) -> Self {
        if is_too_large(input.0) || is_too_large(output.0) {
            return Self::unread(true);
        }
        let mut all = messages(input, "input", LONG_PART);
        let n_input = all.len();
        all.extend(messages(output, "assistant", LONG_PART));
        let (input_messages, output_messages) = all.split_at(n_input);
        let keys = [input_messages, output_messages].map(keys);
        // From the end, because the first messages are usually repeated and not shown.
        let mut n_left = CALL_BYTES;
        for (number, message) in all.iter_mut().enumerate().rev() {
            let at = if number < n_input { input.1 } else { output.1 };
            message.cut(n_left, &at.page("&as=conversation"));
            n_left = n_left.saturating_sub(message.weight());
        }
        let output = all.split_off(n_input);
        let input = all;
        Self { input, output, keys, ..Self::default() }
    }

    /// A call that is only compared with others and not shown.
    pub(crate) fn for_comparison(input: Option<&Payload>, output: Option<&Payload>) -> Self {
        if is_too_large(input) || is_too_large(output) {
            return Self::unread(true);
        }
        let no_urls = Addresses::default();
        let of = |value, role| keys(&messages((value, &no_urls), role, 0));
        Self { keys: [of(input, "input"), of(output, "assistant")], ..Self::default() }
    }
}

fn is_too_large(value: Option<&Payload>) -> bool {
    value.is_some_and(|value| MAX_BYTES < value.as_str().len())
}

/// The messages of a value, with at most `n_bytes` of each text. A value that is not a conversation becomes one message with
/// the given role.
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
        return vec![Message::from_content(&source, role, &value)];
    };
    let messages = located.items.iter().map(|item| match item {
        Item::Message(message) => Message::of(&source, message),
        Item::FromRole(role, content) => Message::from_content(&source, role, content),
    });
    messages.collect()
}

fn keys(messages: &[Message]) -> Vec<Option<u64>> {
    messages.iter().map(key).collect()
}

/// Hash of the content of a message. Ids, counts and reasoning are ignored, since repetitions of a message may lack them, unless
/// the message contains nothing else.
fn key(message: &Message) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    hasher.write(message.role_class.as_bytes());
    if message.role_class == "other" {
        hasher.write(message.role.raw().as_bytes());
    }
    hasher.write_u8(0xff);
    hasher.write(message.name.as_ref().map_or("", Text::raw).as_bytes());
    hasher.write_u8(0xff);
    let has_content = message.parts.iter().any(|part| !part.is_aside);
    let parts = message.parts.iter();
    for part in parts.filter(|part| !(has_content && part.is_aside)) {
        part.hash_content(&mut hasher)?;
    }
    if message.parts.is_empty() {
        hasher.write_u64(message.further.as_ref()?.body.content_hash);
    }
    Some(hasher.finish())
}

/// The repeated input messages of each call.
pub(crate) fn repeated_messages<'s>(
    calls: impl Iterator<Item = &'s CallMessages>,
) -> Vec<Option<RepeatedMessages>> {
    repeats::repeated(calls.map(|call| &call.keys))
}

/// The new messages of each call. The calls of `history` and the first `n_before` other calls are only compared, and not part
/// of the result. Tool results are shown at their calls, possibly in an earlier model call.
pub(crate) fn new_messages(
    history: &[CallMessages],
    mut calls: Vec<CallMessages>,
    n_before: usize,
) -> Vec<NewMessages> {
    let keys = history.iter().chain(&calls).map(|call| &call.keys);
    let mut repeated = repeats::repeated_with_retries(keys).split_off(history.len());
    // A retry adds no messages, so no tool call can belong to it.
    let continues = repeated.iter().zip(&calls).map(|(repeated, call)| {
        let n_repeated = repeated.as_ref().map(|repeated| repeated.messages.n());
        n_repeated.is_some_and(|n| n < call.input.len())
    });
    let continues: Vec<bool> = continues.collect();
    let tools = calls.iter_mut().enumerate();
    let tools: Vec<(usize, ToolObservation)> =
        tools.filter_map(|(at, call)| Some((at, call.tool_call.take()?))).collect();
    let earlier = calls.iter().take(n_before).enumerate().flat_map(|(at, call)| {
        let parts = call.output.iter().flat_map(|message| &message.parts);
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
        let known = repeated[at].as_ref().map(|repeated| &repeated.messages);
        let input = call.input.into_iter().enumerate();
        let input = input.filter(|(nth, _)| known.is_none_or(|known| !known.contains(*nth)));
        all.extend(input.map(|(nth, message)| Message {
            position: 2 * at,
            range_index: known.map_or(0, |known| known.n_ranges_before(nth)),
            ..message
        }));
        let output = call.output.into_iter();
        all.extend(output.map(|message| Message { position: 2 * at + 1, ..message }));
    }
    let attached = tool_calls::attach(&mut all, earlier, tools, (n_before, &continues));
    pairs::pair(&mut all);
    let parts = all.iter_mut().flat_map(|message| &mut message.parts);
    parts.for_each(RenderedPart::add_own_result);
    let mut remaining = all.into_iter().peekable();
    let mut block = |position: usize, range_index: usize| {
        let mut own = Vec::new();
        let is_own =
            |message: &Message| (message.position, message.range_index) == (position, range_index);
        while let Some(message) = remaining.next_if(is_own) {
            own.push(message);
        }
        match own.is_empty() {
            true => Block::Absent,
            false => Block::Chat(Box::new(Chat::collapsed(own))),
        }
    };
    let positions = n_before..repeated.len();
    positions
        .map(|at| {
            let repeated = repeated[at].take();
            let ranges = repeated.as_ref().map_or_else(Vec::new, |own| own.messages.ranges());
            let ranges = [None].into_iter().chain(ranges.into_iter().map(Some));
            let input = ranges.enumerate();
            NewMessages {
                input: input.map(|(nth, range)| (range, block(2 * at, nth))).collect(),
                output: block(2 * at + 1, 0),
                is_attached: attached.contains(&at),
                repeated,
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

    fn call(input: Value, output: Value) -> CallMessages {
        let (input, output) = (Payload::from_value(input), Payload::from_value(output));
        CallMessages::new((Some(&input), &at()), (Some(&output), &at()))
    }

    /// Number of repeated messages, and index of the call that they repeat.
    fn same(new: &NewMessages) -> Option<(usize, usize)> {
        let repeated = new.repeated.as_ref()?;
        Some((repeated.messages.n(), repeated.call))
    }

    fn texts(block: &Block) -> Vec<String> {
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

    /// The new input messages of a call.
    fn new_input(new: &NewMessages) -> Vec<String> {
        new.input.iter().flat_map(|(_, new)| texts(new)).collect()
    }

    /// The complete input of a call, in order.
    fn in_order(new: &NewMessages) -> Vec<String> {
        let ranges = new.input.iter();
        let all = ranges.flat_map(|(range, new)| {
            let same = range.as_ref().map(|range| format!("same {}", range.n()));
            same.into_iter().chain(texts(new)).collect::<Vec<_>>()
        });
        all.collect()
    }

    #[test]
    fn shared_history_is_shown_once_across_calls_and_retries() {
        let system = json!({ "role": "system", "content": "Be kind." });
        let question = json!({ "role": "user", "content": "What is the weather?" });
        let asks = json!({ "role": "assistant", "content": null, "tool_calls": [
            { "id": "k1", "type": "function", "function": { "name": "weather", "arguments": "{}" } },
        ] });
        let result = json!({ "role": "tool", "tool_call_id": "k1", "content": "Rain." });
        let answer = |text: &str| json!({ "role": "assistant", "content": text });
        let input = json!([system, question, asks, result]);
        let calls = vec![
            call(json!([system, question]), asks),
            call(input.clone(), answer("Take an umbrella.")),
            call(input, answer("Stay at home.")),
        ];
        let calls = new_messages(&[], calls, 0);
        let results = texts(&calls[0].output);
        assert_eq!(results.concat().matches("Rain.").count(), 1, "{results:?}");
        let same: Vec<_> = calls.iter().map(same).collect();
        assert_eq!(same, [None, Some((3, 0)), Some((4, 1))]);
        assert_eq!(in_order(&calls[2]), ["same 4"]);
    }

    #[test]
    fn repeated_messages_keep_their_position() {
        let message = |role: &str, text: &str| json!({ "role": role, "content": text });
        let task = message("user", "task");
        let calls = vec![
            call(json!([message("system", "a"), task, message("user", "b")]), json!("ok")),
            call(json!([message("system", "sub"), task, task]), json!("ok")),
        ];
        let calls = new_messages(&[], calls, 0);
        assert_eq!(in_order(&calls[1]), ["system: sub", "same 1", "user: task"]);
    }

    #[test]
    fn each_message_is_shown_once_and_results_are_shown_at_their_calls() {
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
        let [first, second] =
            <[NewMessages; 2]>::try_from(new_messages(&[], vec![first, second], 0)).unwrap();
        assert_eq!(same(&first), None);
        assert_eq!(new_input(&first), ["system: Be kind.", "user: What is the weather?"]);
        assert!(texts(&first.output)[0].ends_with("→ Rain."), "{:?}", texts(&first.output));
        assert_eq!(same(&second), Some((3, 0)));
        assert_eq!(new_input(&second), Vec::<String>::new());
        assert_eq!(texts(&second.output), ["assistant: Take an umbrella."]);
    }

    #[test]
    fn repeated_messages_refer_to_the_latest_call_with_most_of_them() {
        let message = |text: &str| json!({ "role": "user", "content": text });
        let answer = || json!({ "role": "assistant", "content": "Yes." });
        let calls = vec![
            call(json!([message("a")]), answer()),
            call(json!([message("sub")]), answer()),
            call(json!([message("a"), answer(), message("b")]), answer()),
            call(json!([message("other")]), answer()),
        ];
        let calls = new_messages(&[], calls, 1);
        let same: Vec<_> = calls.iter().map(same).collect();
        assert_eq!(same, [None, Some((2, 0)), None]);
        assert_eq!(new_input(&calls[1]), ["user: b"]);
    }

    #[test]
    fn different_messages_are_not_repetitions() {
        let long = "x".repeat(600_000);
        let user = |content: Value| json!({ "role": "user", "content": content });
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
            (user(json!(format!("{long}a"))), user(json!(format!("{long}b")))),
            (user(picture("AAAA")), user(picture("BBBB"))),
            (user(json!("yes")), json!({ "role": "system", "content": "yes" })),
        ] {
            // The last message is only compared if the complete input is the same.
            let input = |first: &Value| json!([first, user(json!("last"))]);
            let pair = |first: &Value, second: &Value| {
                let calls = [first, second].map(|first| call(input(first), json!("ok")));
                same(&new_messages(&[], calls.into(), 0)[1])
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
    fn last_message_of_a_turn_is_always_new() {
        let message = |text: &str| json!({ "role": "user", "content": text });
        let answer = json!({ "role": "assistant", "content": "Yes." });
        let turns = [
            call(json!([message("a")]), answer.clone()),
            call(json!([message("a")]), answer.clone()),
            call(json!([message("a"), answer, message("b")]), json!("ok")),
            call(json!("And then?"), json!("ok")),
            call(json!("And then?"), json!("ok")),
        ];
        let same = repeated_messages(turns.iter()).into_iter();
        let same: Vec<_> =
            same.map(|same| same.map(|same| (same.messages.n(), same.call))).collect();
        assert_eq!(same, [None, None, Some((2, 1)), None, None]);
    }

    #[test]
    fn reasoning_and_ids_do_not_make_an_output_different() {
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
                // Also if the repetition contains the reasoning.
                call(json!([question, answer, last]), json!("ok")),
            ];
            let calls = new_messages(&[], calls, 0);
            let all: Vec<_> = calls.iter().map(same).collect();
            assert_eq!(all, [None, Some((2, 0)), Some((3, 1))], "{answer}");
            assert_eq!(new_input(&calls[1]), ["user: And then?"]);
        }
    }

    #[test]
    fn messages_with_only_reasoning_are_compared_by_it() {
        let thought = |text: &str| json!({ "role": "assistant", "reasoning_content": text });
        let last = json!({ "role": "user", "content": "Go on." });
        let calls = vec![
            call(json!([thought("One"), last]), json!("ok")),
            call(json!([thought("Two"), last]), json!("ok")),
            call(json!([thought("One"), thought("Two"), last]), json!("ok")),
        ];
        let all: Vec<_> = new_messages(&[], calls, 0).iter().map(same).collect();
        assert_eq!(all, [None, None, Some((2, 1))]);
    }

    #[test]
    fn messages_of_calls_before_the_page_are_not_new() {
        let rules = json!({ "role": "system", "content": "Plan." });
        let task = json!({ "role": "user", "content": "Build it." });
        let plan = json!({ "role": "assistant", "content": "First this." });
        let next = json!({ "role": "user", "content": "Done." });
        let history = Payload::from_value(json!([rules, task]));
        let history = [CallMessages::for_comparison(
            Some(&history),
            Some(&Payload::from_value(plan.clone())),
        )];
        let calls = vec![
            call(json!("other"), json!("ok")),
            call(json!([rules, task, plan, next]), json!("ok")),
        ];
        let calls = new_messages(&history, calls, 1);
        assert_eq!(calls.len(), 1);
        assert_eq!(same(&calls[0]), Some((3, 0)));
        assert_eq!(new_input(&calls[0]), ["user: Done."]);
    }

    #[test]
    fn value_that_is_not_a_conversation_is_one_message() {
        let calls = new_messages(&[], vec![call(json!("a question"), json!("an answer"))], 0);
        assert_eq!(new_input(&calls[0]), ["input: a question"]);
        assert_eq!(texts(&calls[0].output), ["assistant: an answer"]);
    }
}
