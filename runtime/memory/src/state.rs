//! The reservations and the queue of waiting ones.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use tokio::sync::oneshot;

/// Largest small reservation in bytes.
const SMALL_BYTES: usize = 256 << 10;
/// One part in this number of the budget, and of the share of an owner, is reserved for small reservations.
const RESERVE_PART: usize = 8;
/// One part in this number of the budget is the maximum of an owner that may still use the reserve, so that an
/// owner with large reservations leaves the reserve to others.
const LITTLE_PART: usize = 64;
/// A queue that is not empty may hold at most this multiple of the free rest of the share of its owner.
const QUEUE_FACTOR: usize = 2;
/// Number of small reservations of other queues that may be granted before a large one that waits for the share of their owner.
const MAX_OVERTAKEN: u32 = 256;

/// The owner of reservations: an owner, or one of several queues of an owner.
pub trait Owner: Clone + Eq + Hash + Send + 'static {
    /// The key of the charged share.
    type Share: Clone + Eq + Hash + Send + 'static;

    /// Whether several queues have one share. Then each leaves a part of it to the others.
    const HAS_QUEUES: bool = false;

    /// The charged share; the owner itself if it has no queues.
    fn share(&self) -> &Self::Share;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_bytes: usize,
    /// Of one owner.
    pub(crate) max_owner_bytes: usize,
}

/// A reservation that cannot be made now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exhausted {
    /// The owner holds its share.
    #[error("the owner holds its share of the memory budget")]
    Owner,
    /// All owners together hold the budget.
    #[error("the memory budget is exhausted")]
    Budget,
    /// More than the whole budget.
    #[error("more memory than the whole budget, {max_bytes} bytes")]
    TooLarge {
        /// The budget.
        max_bytes: usize,
    },
}

/// The reserved bytes, and the waiters for a reservation `R`.
pub(crate) struct State<O: Owner, R> {
    n_bytes: usize,
    /// Of small reservations.
    n_small_bytes: usize,
    /// Owners that hold something.
    by_owner: HashMap<O::Share, usize>,
    /// Queues that hold something.
    by_queue: HashMap<O, usize>,
    /// Queues that wait, in turn, each with its reservations in order of arrival.
    waiting: VecDeque<(O, VecDeque<Waiter<R>>)>,
}

impl<O: Owner, R> Default for State<O, R> {
    fn default() -> Self {
        Self {
            n_bytes: 0,
            n_small_bytes: 0,
            by_owner: HashMap::new(),
            by_queue: HashMap::new(),
            waiting: VecDeque::new(),
        }
    }
}

struct Waiter<R> {
    n_bytes: usize,
    /// Reservations of other queues of the owner that were granted before it, while it waited for the share.
    n_overtaken: u32,
    receiver: oneshot::Sender<R>,
}

/// A reservation that was charged and is to be delivered.
pub(crate) struct Grant<O, R> {
    pub(crate) owner: O,
    pub(crate) n_bytes: usize,
    pub(crate) receiver: oneshot::Sender<R>,
}

const fn is_small(n_bytes: usize) -> bool {
    n_bytes <= SMALL_BYTES
}

/// Subtracts from the memory of an owner; an owner without memory is removed.
fn subtract<K: Eq + Hash>(held: &mut HashMap<K, usize>, key: &K, n_bytes: usize) {
    if let Some(of_key) = held.get_mut(key) {
        *of_key -= n_bytes;
        if *of_key == 0 {
            held.remove(key);
        }
    }
}

/// The part of `all_bytes` that large reservations may use.
const fn for_large(all_bytes: usize) -> usize {
    all_bytes - all_bytes / RESERVE_PART
}

impl Limits {
    pub(crate) const fn max_large_bytes(self) -> usize {
        for_large(self.max_bytes)
    }

    const fn reserve_bytes(self) -> usize {
        self.max_bytes / RESERVE_PART
    }

    const fn open_to(all_bytes: usize, is_small: bool) -> usize {
        if is_small { all_bytes } else { for_large(all_bytes) }
    }
}

impl<O: Owner, R> State<O, R> {
    pub(crate) const fn used_bytes(&self) -> usize {
        self.n_bytes
    }

    fn of_owner(&self, owner: &O) -> usize {
        let held = self.by_owner.get(owner.share());
        held.copied().unwrap_or_default()
    }

    /// Whether a queue that is not empty would exceed its part of the share of its owner.
    fn is_beyond_queue(&self, limits: Limits, owner: &O, own_bytes: usize, n_bytes: usize) -> bool {
        let of_queue = self.by_queue.get(owner).copied().unwrap_or_default();
        let is_alone = of_queue == own_bytes;
        let free = limits.max_owner_bytes.saturating_sub(self.of_owner(owner) + n_bytes);
        O::HAS_QUEUES && !is_alone && free.saturating_mul(QUEUE_FACTOR) < of_queue + n_bytes
    }

    /// Whether a reservation of `own_bytes` may grow by `n_bytes`.
    pub(crate) fn check(
        &self,
        limits: Limits,
        owner: &O,
        own_bytes: usize,
        n_bytes: usize,
    ) -> Result<(), Exhausted> {
        let max_bytes = limits.max_bytes;
        let wanted = own_bytes.saturating_add(n_bytes);
        let is_small = is_small(wanted);
        if Limits::open_to(max_bytes, is_small) < wanted {
            return Err(Exhausted::TooLarge { max_bytes });
        }
        let of_owner = self.of_owner(owner);
        let is_alone = of_owner == own_bytes;
        if !is_alone && Limits::open_to(limits.max_owner_bytes, is_small) < of_owner + n_bytes {
            return Err(Exhausted::Owner);
        }
        if self.is_beyond_queue(limits, owner, own_bytes, n_bytes) {
            return Err(Exhausted::Owner);
        }
        let little = SMALL_BYTES.max(max_bytes / LITTLE_PART);
        if is_small && of_owner + n_bytes <= little {
            return match self.n_bytes + n_bytes <= max_bytes {
                true => Ok(()),
                false => Err(Exhausted::Budget),
            };
        }
        // Small reservations in the reserve do not take from what is open to large ones.
        let others_small = match is_small {
            true => self.n_small_bytes,
            false if self::is_small(own_bytes) => self.n_small_bytes - own_bytes,
            false => self.n_small_bytes,
        };
        let in_reserve = others_small.min(limits.reserve_bytes());
        match self.n_bytes - in_reserve + n_bytes <= limits.max_large_bytes() {
            true => Ok(()),
            false => Err(Exhausted::Budget),
        }
    }

    /// Charges `n_bytes` to a reservation of `own_bytes`.
    pub(crate) fn charge(&mut self, owner: &O, own_bytes: usize, n_bytes: usize) {
        if n_bytes == 0 {
            return;
        }
        self.n_bytes += n_bytes;
        self.move_small(own_bytes, own_bytes + n_bytes);
        *self.by_owner.entry(owner.share().clone()).or_default() += n_bytes;
        *self.by_queue.entry(owner.clone()).or_default() += n_bytes;
    }

    /// Returns `n_bytes` of a reservation of `own_bytes`.
    pub(crate) fn release(&mut self, owner: &O, own_bytes: usize, n_bytes: usize) {
        if n_bytes == 0 {
            return;
        }
        self.n_bytes -= n_bytes;
        self.move_small(own_bytes, own_bytes - n_bytes);
        subtract(&mut self.by_owner, owner.share(), n_bytes);
        subtract(&mut self.by_queue, owner, n_bytes);
    }

    const fn move_small(&mut self, before: usize, after: usize) {
        if is_small(before) {
            self.n_small_bytes -= before;
        }
        if is_small(after) {
            self.n_small_bytes += after;
        }
    }

    /// Adds a reservation to the end of its queue.
    pub(crate) fn wait(&mut self, owner: O, n_bytes: usize, receiver: oneshot::Sender<R>) {
        let waiter = Waiter { n_bytes, n_overtaken: 0, receiver };
        match self.waiting.iter_mut().find(|(known, _)| *known == owner) {
            Some((_, queue)) => queue.push_back(waiter),
            None => self.waiting.push_back((owner, [waiter].into())),
        }
    }

    /// Charges what can be granted to those that wait. The first in turn whose reservation does not fit into the budget
    /// keeps all later ones waiting, except for small ones that fit into the reserve; the first that does not fit into the
    /// share of its owner, all later ones of this owner, except for a number of small ones.
    pub(crate) fn grant(&mut self, limits: Limits) -> Vec<Grant<O, R>> {
        let mut granted = Vec::new();
        let mut is_blocked = false;
        // Owners with a full share, with the position of the waiting queue.
        let mut full: Vec<(O::Share, usize)> = Vec::new();
        let mut at = 0;
        while let Some((owner, queue)) = self.waiting.get_mut(at) {
            while queue.front().is_some_and(|waiter| waiter.receiver.is_closed()) {
                queue.pop_front();
            }
            let Some(n_bytes) = queue.front().map(|waiter| waiter.n_bytes) else {
                self.waiting.remove(at);
                continue;
            };
            let owner = owner.clone();
            let fits = self.check(limits, &owner, 0, n_bytes);
            let first = full.iter().find(|(share, _)| share == owner.share());
            let first = first.map(|(_, first)| *first);
            let is_in_turn =
                first.is_none_or(|first| is_small(n_bytes) && self.may_be_overtaken(first));
            let may_pass = !is_blocked
                || is_small(n_bytes) && self.n_small_bytes + n_bytes <= limits.reserve_bytes();
            if fits.is_err() || !may_pass || !is_in_turn {
                is_blocked |= fits == Err(Exhausted::Budget);
                if first.is_none()
                    && fits == Err(Exhausted::Owner)
                    && !self.is_beyond_queue(limits, &owner, 0, n_bytes)
                {
                    full.push((owner.share().clone(), at));
                }
                at += 1;
                continue;
            }
            self.charge(&owner, 0, n_bytes);
            let overtaken = first.and_then(|first| self.waiting.get_mut(first));
            if let Some(waiter) = overtaken.and_then(|(_, queue)| queue.front_mut()) {
                waiter.n_overtaken += 1;
            }
            if let Some((_, mut queue)) = self.waiting.remove(at) {
                granted.extend(queue.pop_front().map(|waiter| Grant {
                    owner: owner.clone(),
                    n_bytes,
                    receiver: waiter.receiver,
                }));
                self.end_turn(at, (owner, queue));
            }
        }
        granted
    }

    fn may_be_overtaken(&self, at: usize) -> bool {
        let waiter = self.waiting.get(at).and_then(|(_, queue)| queue.front());
        waiter.is_none_or(|waiter| waiter.n_overtaken < MAX_OVERTAKEN)
    }

    /// The owner goes to the end of the line with what it still waits for: its other queues that come later, then the one
    /// that had the turn.
    fn end_turn(&mut self, at: usize, (owner, queue): (O, VecDeque<Waiter<R>>)) {
        let later = self.waiting.split_off(at);
        let is_own = |(other, _): &(O, VecDeque<Waiter<R>>)| other.share() == owner.share();
        let (own, others): (VecDeque<_>, VecDeque<_>) = later.into_iter().partition(is_own);
        self.waiting.extend(others);
        self.waiting.extend(own);
        if !queue.is_empty() {
            self.waiting.push_back((owner, queue));
        }
    }
}
