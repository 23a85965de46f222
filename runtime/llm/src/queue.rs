//! The queue of requests that wait for a slot on a connection.
//!
//! Interactive requests are served first. The groups of a priority take turns; requests of a group are served in order of
//! arrival. A waiting group is served after at most one request of each other group.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::observer::{Priority, QueueKey};

/// Identifies a waiting request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    key: QueueKey,
    number: u64,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    interactive: Rotation<T>,
    background: Rotation<T>,
    next_number: u64,
}

/// The requests of one priority.
#[derive(Debug)]
struct Rotation<T> {
    waiting: BTreeMap<String, VecDeque<(u64, T)>>,
    /// The group that was served last.
    last: Option<String>,
}

impl<T> Rotation<T> {
    const fn new() -> Self {
        Self { waiting: BTreeMap::new(), last: None }
    }

    fn next_group(&self) -> Option<String> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = (after, Bound::Unbounded);
        let next = self.waiting.range::<String, _>(range).next();
        let next = next.or_else(|| self.waiting.first_key_value());
        next.map(|(key, _)| key.clone())
    }

    fn pop(&mut self) -> Option<T> {
        let key = self.next_group()?;
        let queue = self.waiting.get_mut(&key)?;
        let (_, value) = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&key);
        }
        self.last = Some(key);
        Some(value)
    }

    fn remove(&mut self, ticket: &Ticket) {
        if let Some(queue) = self.waiting.get_mut(&ticket.key.group) {
            queue.retain(|(number, _)| *number != ticket.number);
            if queue.is_empty() {
                self.waiting.remove(&ticket.key.group);
            }
        }
    }

    fn extract_if(&mut self, mut is_taken: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        self.waiting.retain(|_, queue| {
            for (number, value) in std::mem::take(queue) {
                match is_taken(&value) {
                    true => taken.push(value),
                    false => queue.push_back((number, value)),
                }
            }
            !queue.is_empty()
        });
        taken
    }
}

impl<T> Queue<T> {
    pub(crate) const fn new() -> Self {
        Self { interactive: Rotation::new(), background: Rotation::new(), next_number: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.interactive.waiting.is_empty() && self.background.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        let queues = [&self.interactive, &self.background];
        let queues = queues.into_iter().flat_map(|rotation| rotation.waiting.values());
        queues.map(VecDeque::len).sum()
    }

    pub(crate) fn push(&mut self, key: QueueKey, value: T) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        let rotation = self.rotation(key.priority);
        let queue = rotation.waiting.entry(key.group.clone()).or_default();
        queue.push_back((number, value));
        Ticket { key, number }
    }

    /// Takes the next request.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.interactive.pop().or_else(|| self.background.pop())
    }

    /// Removes a request. Has no effect when it was taken before.
    pub(crate) fn remove(&mut self, ticket: &Ticket) {
        self.rotation(ticket.key.priority).remove(ticket);
    }

    /// Removes and returns all requests that match the predicate, in any position.
    pub(crate) fn extract_if(&mut self, mut is_taken: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = self.interactive.extract_if(&mut is_taken);
        taken.extend(self.background.extract_if(&mut is_taken));
        taken
    }

    const fn rotation(&mut self, priority: Priority) -> &mut Rotation<T> {
        match priority {
            Priority::Interactive => &mut self.interactive,
            Priority::Background => &mut self.background,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn queue_key(priority: Priority, group: &str) -> QueueKey {
        QueueKey { priority, group: group.to_owned() }
    }

    #[test]
    fn groups_take_turns_and_interactive_requests_are_served_first() {
        let mut queue = Queue::new();
        for n in 0..3 {
            queue.push(queue_key(Priority::Background, "a"), format!("a{n}"));
        }
        queue.push(queue_key(Priority::Background, "b"), "b0".to_owned());
        queue.push(queue_key(Priority::Interactive, "z"), "z0".to_owned());
        let order: Vec<String> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, ["z0", "a0", "b0", "a1", "a2"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_removed_request_is_not_served_and_the_others_keep_their_order() {
        let mut queue = Queue::new();
        let tickets: Vec<Ticket> =
            (0..3).map(|n| queue.push(queue_key(Priority::Background, "a"), n)).collect();
        queue.remove(&tickets[1]);
        assert_eq!(queue.pop(), Some(0));
        queue.remove(&tickets[0]);
        assert_eq!(queue.pop(), Some(2));
        assert_eq!(queue.pop(), None);
    }

    proptest! {
        /// The first request of a group waits for at most one request of each other group, whatever arrives meanwhile.
        #[test]
        fn a_group_waits_for_at_most_one_request_of_each_other_group(
            steps in proptest::collection::vec((0_u8..5, any::<bool>()), 1..200),
        ) {
            let mut queue = Queue::new();
            let mut waiting: BTreeMap<u8, usize> = BTreeMap::new();
            // How often each other group was served while a group waited.
            let mut served: BTreeMap<u8, BTreeMap<u8, usize>> = BTreeMap::new();
            for (key, is_push) in steps {
                if is_push {
                    queue.push(queue_key(Priority::Background, &key.to_string()), key);
                    *waiting.entry(key).or_default() += 1;
                    continue;
                }
                let taken = queue.pop();
                prop_assert_eq!(taken.is_none(), waiting.is_empty());
                let Some(taken) = taken else { continue };
                for other in waiting.keys().filter(|other| **other != taken) {
                    let n = served.entry(*other).or_default().entry(taken).or_default();
                    *n += 1;
                    prop_assert!(*n <= 1, "{other} waited for two requests of {taken}");
                }
                served.remove(&taken);
                let left = waiting.entry(taken).or_default();
                *left -= 1;
                if *left == 0 {
                    waiting.remove(&taken);
                }
            }
        }
    }
}
