//! Which messages of the input of a call were shown before it.
//!
//! Invariant: **order counts.** Each call repeats its history in order, and so do other agents that are given a part of it.
//! All messages shown so far are kept in one list in which the messages of each call stand in their order. The repeated
//! messages of an input are the longest list of them that this list has in the same order, wherever they stand in the
//! input: what changes with each call, or falls out of a window, does not hide the rest.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

/// Messages of an input that are compared; those behind them are shown.
const MAX_MESSAGES: usize = 4_000;
/// Pairs of equal messages that are compared for one call.
const MAX_PAIRS: usize = 1 << 18;
/// Runs of messages that an address names; the messages of others are shown.
const MAX_RUNS: usize = 64;

/// Messages of a conversation, by their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSelection(Vec<Range<usize>>);

impl MessageSelection {
    /// How an address writes them.
    pub const FORM: &str = "a number of first messages, or runs of messages such as 2-4,6-6";

    /// Reads what [`fmt::Display`] writes: `12` for the first 12 messages, else runs of numbers from 1 on.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(n) = text.parse() {
            return Some(Self(std::iter::once(0..n).collect()));
        }
        let mut runs: Vec<Range<usize>> = Vec::new();
        for run in text.split(',') {
            let (first, last) = run.split_once('-')?;
            let from = first.parse::<usize>().ok()?.checked_sub(1)?;
            let run = from..last.parse().ok()?;
            let is_next = runs.last().is_none_or(|before| before.end <= run.start);
            if run.is_empty() || !is_next || MAX_RUNS <= runs.len() {
                return None;
            }
            runs.push(run);
        }
        Some(Self(runs))
    }

    /// How many messages they are.
    #[must_use]
    pub fn n(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    /// Whether the message at this place, from 0 on, is one of them.
    #[must_use]
    pub fn contains(&self, place: usize) -> bool {
        self.0.iter().any(|run| run.contains(&place))
    }

    /// Each run of messages that follow one another alone, in order.
    #[must_use]
    pub fn runs(&self) -> Vec<Self> {
        let runs = self.0.iter().cloned();
        runs.map(|run| Self(vec![run])).collect()
    }

    /// How many of its runs begin before a place.
    #[must_use]
    pub fn n_runs_before(&self, place: usize) -> usize {
        self.0.partition_point(|run| run.start < place)
    }

    /// Adds a place behind the others; false where that would be too many runs.
    fn add(&mut self, place: usize) -> bool {
        let n_runs = self.0.len();
        match self.0.last_mut() {
            Some(last) if last.end == place => last.end += 1,
            _ if MAX_RUNS <= n_runs => return false,
            _ => self.0.push(place..place + 1),
        }
        true
    }
}

impl fmt::Display for MessageSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [Range { start: 0, end }] = self.0.as_slice() {
            return write!(f, "{end}");
        }
        for (number, run) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{}-{}", run.start + 1, run.end)?;
        }
        Ok(())
    }
}

/// Messages of an input that were shown before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeated {
    /// Their places in the input.
    pub which: MessageSelection,
    /// The place of the call that has most of them, the latest of several.
    pub call: usize,
}

/// The keys of what a call was asked and of what it answered; none for a message that is equal to no other.
pub type Keys = [Vec<Option<u64>>; 2];

/// For each of some calls in order, what of its input was shown before it. A call that asks what an earlier one was asked
/// shows its last message again.
pub fn repeated<'k>(calls: impl Iterator<Item = &'k Keys>) -> Vec<Option<Repeated>> {
    let mut shown = Shown::default();
    calls.map(|keys| shown.call(keys, false)).collect()
}

/// The same for calls among which some are retries: one that is asked exactly what an earlier one was asked shows none of
/// it again.
pub fn repeated_with_retries<'k>(calls: impl Iterator<Item = &'k Keys>) -> Vec<Option<Repeated>> {
    let mut shown = Shown::default();
    let mut inputs: HashSet<Vec<u64>> = HashSet::new();
    let of_each = calls.map(|keys| {
        let whole: Option<Vec<u64>> = keys[0].iter().copied().collect();
        let is_retry = whole.is_some_and(|whole| !inputs.insert(whole));
        shown.call(keys, is_retry)
    });
    of_each.collect()
}

/// The messages that some calls have shown. A message is known by the number under which it was shown first.
#[derive(Default)]
struct Shown {
    /// Their numbers, in an order that no call contradicts.
    order: Vec<usize>,
    /// Of each, its place in that order and the call that showed it.
    messages: Vec<(usize, usize)>,
    numbers: HashMap<u64, Vec<usize>>,
    /// All keys of each call.
    calls: Vec<HashSet<u64>>,
    /// The keys of the latest answer.
    answer: Vec<Option<u64>>,
}

impl Shown {
    fn call(&mut self, keys: &Keys, is_retry: bool) -> Option<Repeated> {
        let [asked, answered] = keys;
        // A call is about its last message, which is shown even where the same was asked before, unless the call
        // continues the answer that stands right before it, or is a retry.
        let is_old = is_retry || asked.last().is_some_and(|last| self.answer.contains(last));
        let n_history = asked.len() - usize::from(!is_old && !asked.is_empty());
        let history = asked.iter().copied().take(n_history.min(MAX_MESSAGES));
        let mut found = self.longest(&history.collect::<Vec<_>>());
        let mut which = MessageSelection::default();
        found.retain(|(place, _)| which.add(*place));
        let call = self.owner(asked, &found);
        self.add(keys, &found);
        if !answered.is_empty() {
            self.answer.clone_from(answered);
        }
        Some(Repeated { which, call: call? })
    }

    /// The longest list of messages of an input that were shown in the same order: their places in the input, and their
    /// numbers.
    fn longest(&self, asked: &[Option<u64>]) -> Vec<(usize, usize)> {
        // Of messages that say the same very often, the latest are enough.
        let n_each = MAX_PAIRS / asked.len().max(1);
        // Each step is a place, a number, and the step before it. For each length, the list of that length that ends first
        // is kept: where it ends, and its last step.
        let mut steps: Vec<(usize, usize, Option<usize>)> = Vec::new();
        let mut ends: Vec<(usize, usize)> = Vec::new();
        for (place, key) in asked.iter().enumerate() {
            let Some(numbers) = key.and_then(|key| self.numbers.get(&key)) else {
                continue;
            };
            let latest = numbers.iter().rev().take(n_each);
            let mut at: Vec<(usize, usize)> =
                latest.map(|number| (self.messages[*number].0, *number)).collect();
            // From behind, so that no list has a place of the input twice.
            at.sort_unstable_by(|a, b| b.cmp(a));
            for (position, number) in at {
                let length = ends.partition_point(|(end, _)| *end < position);
                let before = length.checked_sub(1).map(|shorter| ends[shorter].1);
                let end = (position, steps.len());
                steps.push((place, number, before));
                match ends.get_mut(length) {
                    Some(known) => *known = end,
                    None => ends.push(end),
                }
            }
        }
        let mut found = Vec::with_capacity(ends.len());
        let mut last = ends.last().map(|(_, step)| *step);
        while let Some((place, number, before)) = last.map(|step| steps[step]) {
            found.push((place, number));
            last = before;
        }
        found.reverse();
        found
    }

    /// The call that has most of these messages; none where there are none.
    fn owner(&self, asked: &[Option<u64>], found: &[(usize, usize)]) -> Option<usize> {
        let (_, last) = found.last()?;
        let mut best = (0, self.messages[*last].1);
        let calls = self.calls.iter().enumerate().rev();
        for (call, keys) in calls.take(MAX_PAIRS / found.len()) {
            let wanted = found.iter().filter_map(|(place, _)| asked[*place]);
            let n = wanted.filter(|key| keys.contains(key)).count();
            if best.0 < n {
                best = (n, call);
            }
            if n == found.len() {
                break;
            }
        }
        Some(best.1)
    }

    /// Takes in a call, of whose input these were found.
    fn add(&mut self, [asked, answered]: &Keys, found: &[(usize, usize)]) {
        let call = self.calls.len();
        let all = asked.iter().chain(answered).flatten().copied();
        self.calls.push(all.collect());
        let before = std::mem::take(&mut self.order);
        let mut before = before.into_iter();
        let mut found = found.iter().peekable();
        let mut order = Vec::new();
        let mut waiting = Vec::new();
        for (place, key) in asked.iter().enumerate() {
            match found.next_if(|(at, _)| *at == place) {
                Some((_, number)) => {
                    order.extend(before.by_ref().take_while(|earlier| earlier != number));
                    order.append(&mut waiting);
                    order.push(*number);
                }
                None => waiting.extend(key.map(|key| self.number(key, call))),
            }
        }
        // What is new at the end was said after all that was shown.
        order.extend(before);
        order.append(&mut waiting);
        for key in answered.iter().flatten() {
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

    fn keys(said: &str) -> Vec<Option<u64>> {
        let words = said.split_whitespace();
        let key = |word: &str| {
            let mut hasher = DefaultHasher::new();
            word.hash(&mut hasher);
            (word != "?").then(|| hasher.finish())
        };
        words.map(key).collect()
    }

    /// What is left out of each call, given as its input and its answer, and the call that has it.
    fn left_out(calls: &[(&str, &str)]) -> Vec<Option<(String, usize)>> {
        let calls: Vec<Keys> =
            calls.iter().map(|(asked, answered)| [keys(asked), keys(answered)]).collect();
        let all = repeated(calls.iter()).into_iter();
        all.map(|found| found.map(|found| (found.which.to_string(), found.call))).collect()
    }

    fn some(which: &str, call: usize) -> Option<(String, usize)> {
        Some((which.to_owned(), call))
    }

    #[test]
    fn a_prompt_that_changes_with_each_call_does_not_hide_what_is_the_same() {
        let calls = [("at1 Q1", "A1"), ("at2 Q1 A1 Q2", "A2"), ("at3 Q1 A1 Q2 A2 Q3", "A3")];
        let want = [None, some("2-3", 0), some("2-5", 1)];
        assert_eq!(left_out(&calls), want);
    }

    #[test]
    fn a_window_that_slides_over_the_history_repeats_what_is_left_of_it() {
        let calls = [("sys Q1 A1 Q2", "A2"), ("sys Q2 A2 Q3", "A3")];
        assert_eq!(left_out(&calls), [None, some("3", 0)]);
    }

    #[test]
    fn an_agent_that_goes_on_after_others_has_its_own_history_and_their_answers() {
        let calls = [
            ("rules task", "plan"),
            ("rules1 task1", "done1"),
            ("rules2 task2", "done2"),
            ("rules task plan done1 done2 now", "end"),
        ];
        assert_eq!(left_out(&calls), [None, None, None, some("5", 0)]);
    }

    #[test]
    fn what_a_call_is_about_is_new_even_where_it_was_said_before() {
        let calls = [("sys1 OK", "OK"), ("sys2 Q", "fine"), ("sys1 OK", "yes"), ("OK sys1", "no")];
        let want = [None, None, some("1", 0), some("1", 2)];
        assert_eq!(left_out(&calls), want);
        // An answer that the next call continues stands right before it.
        let calls = [("Q", "A"), ("Q A", "B"), ("Q", "C")];
        assert_eq!(left_out(&calls), [None, some("2", 0), None]);
    }

    #[test]
    fn a_retry_shows_nothing_again_and_a_call_with_another_input_its_last_message() {
        let said = [
            ("sys U1", "call"),
            ("sys U1 call R", "A"),
            ("sys U1 call R", "B"),
            ("sys U1 other R", "C"),
            ("sys U1 ?", "D"),
            ("sys U1 ?", "E"),
        ];
        let calls = said.map(|(asked, answered)| [keys(asked), keys(answered)]);
        let found = repeated_with_retries(calls.iter()).into_iter();
        let found: Vec<_> =
            found.map(|found| found.map(|found| (found.which.to_string(), found.call))).collect();
        let want = [
            None,
            some("3", 0),
            some("4", 1),
            some("2", 2),
            // A message that is equal to no other makes no retry.
            some("2", 3),
            some("2", 4),
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn runs_are_taken_apart_in_order() {
        let picked = MessageSelection::parse("2-3,6-6").unwrap();
        let runs: Vec<String> = picked.runs().iter().map(ToString::to_string).collect();
        assert_eq!(runs, ["2-3", "6-6"]);
        let before = [0, 3, 4, 6].map(|place| picked.n_runs_before(place));
        assert_eq!(before, [0, 1, 1, 2]);
    }

    #[test]
    fn messages_in_another_order_or_not_comparable_are_shown() {
        let calls = [("a b ? c d", "e"), ("b a ? c x", "f")];
        assert_eq!(left_out(&calls), [None, some("2-2,4-4", 0)]);
    }

    #[test]
    fn each_message_is_shown_once_however_calls_take_turns() {
        // Three agents take turns; each repeats its history behind a prompt of its own, the second without what is old.
        let mut calls: Vec<(String, String)> = Vec::new();
        let mut told = [const { Vec::<String>::new() }; 3];
        for n in 0..60 {
            let agent = (n * n + n / 2) % 3;
            let history = &mut told[agent];
            history.push(format!("Q{n}"));
            let from = if agent == 1 { history.len().saturating_sub(5) } else { 0 };
            let asked = format!("sys{agent} {}", history[from..].join(" "));
            history.push(format!("A{n}"));
            calls.push((asked, format!("A{n}")));
        }
        let given: Vec<(&str, &str)> =
            calls.iter().map(|(asked, answered)| (asked.as_str(), answered.as_str())).collect();
        let mut shown: Vec<&str> = Vec::new();
        for ((asked, answered), left_out) in given.iter().zip(left_out(&given)) {
            let which = left_out.map_or_else(MessageSelection::default, |(which, _)| {
                MessageSelection::parse(&which).unwrap()
            });
            let asked: Vec<&str> = asked.split_whitespace().collect();
            let new = asked.iter().enumerate();
            let new = new.filter(|(place, _)| !which.contains(*place));
            let new: Vec<&str> = new.map(|(_, message)| *message).collect();
            assert_eq!(new.len() + which.n(), asked.len());
            shown.extend(new);
            shown.push(answered);
        }
        let once: HashSet<&str> = shown.iter().copied().collect();
        assert_eq!(once.len(), shown.len(), "{shown:?}");
    }

    #[test]
    fn messages_that_all_say_the_same_and_many_runs_are_bounded() {
        let same = "OK ".repeat(6_000);
        let of = left_out(&[(same.as_str(), ""); 3]);
        assert!(of.iter().skip(1).all(Option::is_some), "{of:?}");
        let every_second: Vec<String> = (0..300).map(|n| format!("new{n} old{n}")).collect();
        let old: Vec<String> = (0..300).map(|n| format!("old{n}")).collect();
        let calls = [(old.join(" "), ""), (every_second.join(" "), "")];
        let calls = calls.each_ref().map(|(asked, answered)| (asked.as_str(), *answered));
        let (which, _) = left_out(&calls)[1].clone().unwrap();
        assert_eq!(MessageSelection::parse(&which).unwrap().n(), MAX_RUNS);
    }

    #[test]
    fn an_address_names_messages_and_what_names_none_is_refused() {
        for text in ["12", "1", "2-4", "1-1,3-6"] {
            assert_eq!(MessageSelection::parse(text).unwrap().to_string(), text);
        }
        let many = vec!["1-1"; MAX_RUNS + 1].join(",");
        for text in ["", "x", "0-1", "4-3", "1-3,2-4", "1-2,", "-1", many.as_str()] {
            assert_eq!(MessageSelection::parse(text), None, "{text}");
        }
    }
}
