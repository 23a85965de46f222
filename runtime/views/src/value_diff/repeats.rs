//! Finds the input messages of a model call that repeat messages of earlier calls.
//!
//! Invariant: **order matters.** A call repeats its history in order, and so do other agents that receive a part of it. All
//! messages so far are kept in one list that preserves the order of each call. The repeated messages of an input are its
//! longest common subsequence with this list. A message that changes with each call, or a truncated history, therefore does
//! not affect the other messages.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// Maximum number of compared messages per input. Later messages count as new.
const MAX_MESSAGES: usize = 4_000;
/// Maximum number of compared pairs of equal messages per call.
const MAX_PAIRS: usize = 1 << 18;
/// Maximum number of ranges in a selection. Messages in further ranges count as new.
const MAX_RANGES: usize = 64;

/// A selection of messages of a conversation, as ranges of indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSelection(Vec<Range<usize>>);

impl MessageSelection {
    /// Description of the text format, for error messages.
    pub const FORM: &str =
        "the number of messages from the start, or ranges of messages such as 2-4,6-6";

    /// Parses the format of [`fmt::Display`]: `12` for the first 12 messages, or 1-based inclusive ranges.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(n) = text.parse() {
            return Some(Self(std::iter::once(0..n).collect()));
        }
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-')?;
            let from = first.parse::<usize>().ok()?.checked_sub(1)?;
            let range = from..last.parse().ok()?;
            let is_next = ranges.last().is_none_or(|before| before.end <= range.start);
            if range.is_empty() || !is_next || MAX_RANGES <= ranges.len() {
                return None;
            }
            ranges.push(range);
        }
        Some(Self(ranges))
    }

    /// Number of messages.
    #[must_use]
    pub fn n(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    /// Whether the message at this index is selected.
    #[must_use]
    pub fn contains(&self, index: usize) -> bool {
        self.0.iter().any(|range| range.contains(&index))
    }

    /// The contiguous ranges, each as a selection, in order.
    #[must_use]
    pub fn ranges(&self) -> Vec<Self> {
        let ranges = self.0.iter().cloned();
        ranges.map(|range| Self(vec![range])).collect()
    }

    /// Number of ranges that start before an index.
    #[must_use]
    pub fn n_ranges_before(&self, index: usize) -> usize {
        self.0.partition_point(|range| range.start < index)
    }

    /// Appends an index. Returns `false` if that would exceed `MAX_RANGES`.
    fn add(&mut self, index: usize) -> bool {
        let n_ranges = self.0.len();
        match self.0.last_mut() {
            Some(last) if last.end == index => last.end += 1,
            _ if MAX_RANGES <= n_ranges => return false,
            _ => self.0.push(index..index + 1),
        }
        true
    }
}

impl fmt::Display for MessageSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Range { start: 0, end }] = self.0.as_slice() {
            return write!(f, "{end}");
        }
        for (number, range) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}-{}", range.start + 1, range.end)?;
        }
        Ok(())
    }
}

/// The repeated messages of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedMessages {
    /// Their indexes in the input.
    pub messages: MessageSelection,
    /// Index of the latest call that contains most of them.
    pub call: usize,
}

/// Hashes of the input messages and the output messages of a call. `None` differs from every other message.
pub type Keys = [Vec<Option<u64>>; 2];

/// The repeated input messages of each call. The last message of an input counts as new, even if an earlier input is equal.
pub fn repeated<'k>(calls: impl Iterator<Item = &'k Keys>) -> Vec<Option<RepeatedMessages>> {
    let mut history = MessageHistory::default();
    calls.map(|keys| history.call(keys, false)).collect()
}

/// Like [`repeated`], but a call with the same input as an earlier call is a retry without new messages.
pub fn repeated_with_retries<'k>(
    calls: impl Iterator<Item = &'k Keys>,
) -> Vec<Option<RepeatedMessages>> {
    let mut history = MessageHistory::default();
    let mut inputs: HashSet<Vec<u64>> = HashSet::new();
    let of_each = calls.map(|keys| {
        let whole: Option<Vec<u64>> = keys[0].iter().copied().collect();
        let is_retry = whole.is_some_and(|whole| !inputs.insert(whole));
        history.call(keys, is_retry)
    });
    of_each.collect()
}

/// The distinct messages of the calls so far. A message is identified by the number of its first occurrence.
#[derive(Default)]
struct MessageHistory {
    /// Message numbers in an order that is consistent with every call.
    order: Vec<usize>,
    /// For each message, its index in `order` and the call of its first occurrence.
    messages: Vec<(usize, usize)>,
    numbers: HashMap<u64, Vec<usize>>,
    /// The keys of each call.
    calls: Vec<HashSet<u64>>,
    /// The keys of the latest output.
    output: Vec<Option<u64>>,
}

impl MessageHistory {
    fn call(&mut self, keys: &Keys, is_retry: bool) -> Option<RepeatedMessages> {
        let [input, output] = keys;
        // The last message of an input is new even if it occurred before, unless it is the output of the previous call or
        // the call is a retry.
        let is_old = is_retry || input.last().is_some_and(|last| self.output.contains(last));
        let n_history = input.len() - usize::from(!is_old && !input.is_empty());
        let history = input.iter().copied().take(n_history.min(MAX_MESSAGES));
        let mut found = self.longest(&history.collect::<Vec<_>>());
        let mut messages = MessageSelection::default();
        found.retain(|(index, _)| messages.add(*index));
        let call = self.owner(input, &found);
        self.add(keys, &found);
        if !output.is_empty() {
            self.output.clone_from(output);
        }
        Some(RepeatedMessages { messages, call: call? })
    }

    /// The longest common subsequence of an input and the history, as pairs of input index and message number.
    fn longest(&self, input: &[Option<u64>]) -> Vec<(usize, usize)> {
        // Of many equal messages, only the latest are compared.
        let n_each = MAX_PAIRS / input.len().max(1);
        // A step is an input index, a message number, and the previous step. For each length, `ends` has the subsequence that
        // ends first: its end in the history, and its last step.
        let mut steps: Vec<(usize, usize, Option<usize>)> = Vec::new();
        let mut ends: Vec<(usize, usize)> = Vec::new();
        for (index, key) in input.iter().enumerate() {
            let Some(numbers) = key.and_then(|key| self.numbers.get(&key)) else {
                continue;
            };
            let latest = numbers.iter().rev().take(n_each);
            let mut at: Vec<(usize, usize)> =
                latest.map(|number| (self.messages[*number].0, *number)).collect();
            // In descending order, so that a subsequence contains no input index twice.
            at.sort_unstable_by(|a, b| b.cmp(a));
            for (position, number) in at {
                let length = ends.partition_point(|(end, _)| *end < position);
                let before = length.checked_sub(1).map(|shorter| ends[shorter].1);
                let end = (position, steps.len());
                steps.push((index, number, before));
                match ends.get_mut(length) {
                    Some(known) => *known = end,
                    None => ends.push(end),
                }
            }
        }
        let mut found = Vec::with_capacity(ends.len());
        let mut last = ends.last().map(|(_, step)| *step);
        while let Some((index, number, before)) = last.map(|step| steps[step]) {
            found.push((index, number));
            last = before;
        }
        found.reverse();
        found
    }

    /// The call that contains most of these messages; `None` if there are none.
    fn owner(&self, input: &[Option<u64>], found: &[(usize, usize)]) -> Option<usize> {
        let (_, last) = found.last()?;
        let mut best = (0, self.messages[*last].1);
        let calls = self.calls.iter().enumerate().rev();
        for (call, keys) in calls.take(MAX_PAIRS / found.len()) {
            let own = found.iter().filter_map(|(index, _)| input[*index]);
            let n = own.filter(|key| keys.contains(key)).count();
            if best.0 < n {
                best = (n, call);
            }
            if n == found.len() {
                break;
            }
        }
        Some(best.1)
    }

    /// Adds the messages of a call; `found` are its repeated messages.
    fn add(&mut self, [input, output]: &Keys, found: &[(usize, usize)]) {
        let call = self.calls.len();
        let all = input.iter().chain(output).flatten().copied();
        self.calls.push(all.collect());
        let before = std::mem::take(&mut self.order);
        let mut before = before.into_iter();
        let mut found = found.iter().peekable();
        let mut order = Vec::new();
        let mut new = Vec::new();
        for (index, key) in input.iter().enumerate() {
            match found.next_if(|(at, _)| *at == index) {
                Some((_, number)) => {
                    order.extend(before.by_ref().take_while(|earlier| earlier != number));
                    order.append(&mut new);
                    order.push(*number);
                }
                None => new.extend(key.map(|key| self.number(key, call))),
            }
        }
        // New messages at the end follow all earlier messages.
        order.extend(before);
        order.append(&mut new);
        for key in output.iter().flatten() {
            order.push(self.number(*key, call));
        }
        for (position, number) in order.iter().enumerate() {
            self.messages[*number].0 = position;
        }
        self.order = order;
    }

    fn number(&mut self, key: u64, call: usize) -> usize {
        let number = self.messages.len();
        self.messages.push((0, call));
        self.numbers.entry(key).or_default().push(number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};

    fn keys(text: &str) -> Vec<Option<u64>> {
        let words = text.split_whitespace();
        let key = |word: &str| {
            let mut hasher = DefaultHasher::new();
            word.hash(&mut hasher);
            (word != "?").then(|| hasher.finish())
        };
        words.map(key).collect()
    }

    /// The repeated messages of each call, given as input and output, and the call they refer to.
    fn repetitions(calls: &[(&str, &str)]) -> Vec<Option<(String, usize)>> {
        let calls: Vec<Keys> =
            calls.iter().map(|(input, output)| [keys(input), keys(output)]).collect();
        let all = repeated(calls.iter()).into_iter();
        all.map(|found| found.map(|found| (found.messages.to_string(), found.call))).collect()
    }

    fn some(messages: &str, call: usize) -> Option<(String, usize)> {
        Some((messages.to_owned(), call))
    }

    #[test]
    fn changing_system_prompt_does_not_affect_other_messages() {
        let calls = [("at1 Q1", "A1"), ("at2 Q1 A1 Q2", "A2"), ("at3 Q1 A1 Q2 A2 Q3", "A3")];
        let want = [None, some("2-3", 0), some("2-5", 1)];
        assert_eq!(repetitions(&calls), want);
    }

    #[test]
    fn truncated_history_is_repeated() {
        let calls = [("sys Q1 A1 Q2", "A2"), ("sys Q2 A2 Q3", "A3")];
        assert_eq!(repetitions(&calls), [None, some("3", 0)]);
    }

    #[test]
    fn agent_that_continues_after_others_repeats_its_history_and_their_outputs() {
        let calls = [
            ("rules task", "plan"),
            ("rules1 task1", "done1"),
            ("rules2 task2", "done2"),
            ("rules task plan done1 done2 now", "end"),
        ];
        assert_eq!(repetitions(&calls), [None, None, None, some("5", 0)]);
    }

    #[test]
    fn last_message_is_new_unless_it_is_the_previous_output() {
        let calls = [("sys1 OK", "OK"), ("sys2 Q", "fine"), ("sys1 OK", "yes"), ("OK sys1", "no")];
        let want = [None, None, some("1", 0), some("1", 2)];
        assert_eq!(repetitions(&calls), want);
        // The next call continues the output of the call before it.
        let calls = [("Q", "A"), ("Q A", "B"), ("Q", "C")];
        assert_eq!(repetitions(&calls), [None, some("2", 0), None]);
    }

    #[test]
    fn retry_has_no_new_messages() {
        let inputs = [
            ("sys U1", "call"),
            ("sys U1 call R", "A"),
            ("sys U1 call R", "B"),
            ("sys U1 other R", "C"),
            ("sys U1 ?", "D"),
            ("sys U1 ?", "E"),
        ];
        let calls = inputs.map(|(input, output)| [keys(input), keys(output)]);
        let found = repeated_with_retries(calls.iter()).into_iter();
        let found: Vec<_> = found
            .map(|found| found.map(|found| (found.messages.to_string(), found.call)))
            .collect();
        let want = [
            None,
            some("3", 0),
            some("4", 1),
            some("2", 2),
            // Not a retry, because `?` differs from every message.
            some("2", 3),
            some("2", 4),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn ranges_are_returned_in_order() {
        let picked = MessageSelection::parse("2-3,6-6").unwrap();
        let runs: Vec<String> = picked.ranges().iter().map(ToString::to_string).collect();
        assert_eq!(runs, ["2-3", "6-6"]);
        let before = [0, 3, 4, 6].map(|index| picked.n_ranges_before(index));
        assert_eq!(before, [0, 1, 1, 2]);
    }

    #[test]
    fn reordered_and_incomparable_messages_are_new() {
        let calls = [("a b ? c d", "e"), ("b a ? c x", "f")];
        assert_eq!(repetitions(&calls), [None, some("2-2,4-4", 0)]);
    }

    #[test]
    fn each_message_is_new_once_with_alternating_agents() {
        // Three alternating agents repeat their history after their own prompts. The second one truncates it.
        let mut calls: Vec<(String, String)> = Vec::new();
        let mut histories = [const { Vec::<String>::new() }; 3];
        for n in 0..60 {
            let agent = (n * n + n / 2) % 3;
            let history = &mut histories[agent];
            history.push(format!("Q{n}"));
            let from = if agent == 1 { history.len().saturating_sub(5) } else { 0 };
            let input = format!("sys{agent} {}", history[from..].join(" "));
            history.push(format!("A{n}"));
            calls.push((input, format!("A{n}")));
        }
        let pairs: Vec<(&str, &str)> =
            calls.iter().map(|(input, output)| (input.as_str(), output.as_str())).collect();
        let mut shown: Vec<&str> = Vec::new();
        for ((input, output), repeated) in pairs.iter().zip(repetitions(&pairs)) {
            let which = repeated.map_or_else(MessageSelection::default, |(which, _)| {
                MessageSelection::parse(&which).unwrap()
            });
            let input: Vec<&str> = input.split_whitespace().collect();
            let new = input.iter().enumerate();
            let new = new.filter(|(index, _)| !which.contains(*index));
            let new: Vec<&str> = new.map(|(_, message)| *message).collect();
            assert_eq!(new.len() + which.n(), input.len());
            shown.extend(new);
            shown.push(output);
        }
        let once: HashSet<&str> = shown.iter().copied().collect();
        assert_eq!(once.len(), shown.len(), "{shown:?}");
    }

    #[test]
    fn many_equal_messages_and_ranges_are_limited() {
        let same = "OK ".repeat(6_000);
        let found = repetitions(&[(same.as_str(), ""); 3]);
        assert!(found.iter().skip(1).all(Option::is_some), "{found:?}");
        let every_second: Vec<String> = (0..300).map(|n| format!("new{n} old{n}")).collect();
        let old: Vec<String> = (0..300).map(|n| format!("old{n}")).collect();
        let calls = [(old.join(" "), ""), (every_second.join(" "), "")];
        let calls = calls.each_ref().map(|(input, output)| (input.as_str(), *output));
        let (which, _) = repetitions(&calls)[1].clone().unwrap();
        assert_eq!(MessageSelection::parse(&which).unwrap().n(), MAX_RANGES);
    }

    #[test]
    fn selections_round_trip_and_invalid_ones_are_rejected() {
        for text in ["12", "1", "2-4", "1-1,3-6"] {
            assert_eq!(MessageSelection::parse(text).unwrap().to_string(), text);
        }
        let many = vec!["1-1"; MAX_RANGES + 1].join(",");
        for text in ["", "x", "0-1", "4-3", "1-3,2-4", "1-2,", "-1", many.as_str()] {
            assert_eq!(MessageSelection::parse(text), None, "{text}");
        }
    }
}
