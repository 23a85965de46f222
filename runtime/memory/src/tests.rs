//! Shares, turns and waiting.

use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

const MIB: usize = 1 << 20;
const SMALL: usize = 256 << 10;

type Budget = MemoryBudget<&'static str>;

impl Owner for &'static str {
    type Share = Self;

    fn share(&self) -> &Self {
        self
    }
}

/// One of several queues of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Queue(&'static str, u8);

impl Owner for Queue {
    type Share = &'static str;

    const HAS_QUEUES: bool = true;

    fn share(&self) -> &Self::Share {
        &self.0
    }
}

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn refusal(reservation: &mut Reservation<&'static str>, n_bytes: usize) -> Exhausted {
    reservation.try_grow(n_bytes).unwrap_err()
}

#[test]
fn an_owner_at_its_share_is_refused_while_others_are_granted() {
    let budget = Budget::new(80 * MIB, 40 * MIB);
    let mut first = budget.try_reserve("a", 20 * MIB).unwrap();
    let mut second = budget.try_reserve("a", 15 * MIB).unwrap();
    assert_eq!(refusal(&mut second, 1), Exhausted::Owner);
    assert_eq!(refusal(&mut first, 1), Exhausted::Owner);
    let _other = budget.try_reserve("b", 30 * MIB).unwrap();
    // Small reservations have a part of the share to themselves, and no more than that.
    let small: Vec<_> = (0..20).map(|_| budget.try_reserve("a", SMALL)).collect();
    assert!(small.iter().all(Result::is_ok));
    assert_eq!(budget.try_reserve("a", 1).unwrap_err(), Exhausted::Owner);
    budget.try_reserve("b", 1).unwrap();
    drop((first, small));
    second.try_grow(15 * MIB).unwrap();
}

#[test]
fn large_reservations_leave_the_reserve_to_small_ones() {
    let budget = Budget::new(80 * MIB, 40 * MIB);
    let _large = ["a", "b"].map(|name| budget.try_reserve(name, 35 * MIB).unwrap());
    let mut third = budget.try_reserve("c", SMALL).unwrap();
    assert_eq!(refusal(&mut third, 1), Exhausted::Budget);
}

#[test]
fn owners_that_hold_much_leave_the_reserve_to_others() {
    let budget = Budget::new(80 * MIB, 40 * MIB);
    let _large = ["a", "b"].map(|name| budget.try_reserve(name, 35 * MIB).unwrap());
    for name in ["a", "b"] {
        let refused = budget.try_reserve(name, SMALL).unwrap_err();
        assert_eq!(refused, Exhausted::Budget);
    }
    budget.try_reserve("c", SMALL).unwrap();
}

#[test]
fn a_reservation_alone_may_exceed_the_share_but_not_the_budget() {
    let budget = Budget::new(80 * MIB, 40 * MIB);
    let mut alone = budget.try_reserve("a", 70 * MIB).unwrap();
    let too_large = Exhausted::TooLarge { max_bytes: 80 * MIB };
    assert_eq!(refusal(&mut alone, 1), too_large);
    alone.shrink(40 * MIB);
    budget.try_reserve("b", 40 * MIB).unwrap();
}

#[test]
fn dropped_and_returned_bytes_are_free_for_the_owner_they_were_charged_to() {
    let budget = Budget::new(8 * MIB, 4 * MIB);
    let mut reservation = budget.try_reserve("a", 3 * MIB).unwrap();
    reservation.set_owner("b");
    reservation.shrink(MIB);
    let held = || {
        let state = budget.0.lock();
        state.used_bytes()
    };
    assert_eq!(held(), 2 * MIB);
    drop(budget.try_reserve("a", 4 * MIB).unwrap());
    drop(reservation);
    assert_eq!(held(), 0);
}

#[test]
fn waiting_reservations_are_granted_to_owners_in_turn() {
    let budget = Budget::new(8 * MIB, 8 * MIB);
    let first = budget.try_reserve("a", 7 * MIB).unwrap();
    let mut waits: Vec<_> =
        ["a", "a", "a", "b", "b"].map(|owner| Box::pin(budget.reserve(owner, 7 * MIB))).into();
    for wait in &mut waits {
        assert!(poll(wait.as_mut()).is_none());
    }
    drop(first);
    let mut order = Vec::new();
    while let Some((at, granted)) =
        waits.iter_mut().enumerate().find_map(|(at, wait)| Some((at, poll(wait.as_mut())?)))
    {
        order.push(*granted.owner());
        drop(waits.remove(at));
    }
    assert_eq!(order, ["a", "b", "a", "b", "a"]);
    assert_eq!(budget.used_bytes(), 0);
}

#[test]
fn a_large_reservation_waits_and_is_not_overtaken_for_ever() {
    let budget = Budget::new(8 * MIB, 8 * MIB);
    let held = budget.try_reserve("a", 4 * MIB).unwrap();
    let mut large = pin!(budget.reserve("b", 100 * MIB));
    assert!(poll(large.as_mut()).is_none());
    // A later one that would fit waits behind it; a small one does not.
    let mut later = pin!(budget.reserve("c", 2 * MIB));
    assert!(poll(later.as_mut()).is_none());
    let small = poll(pin!(budget.reserve("d", SMALL))).unwrap();
    drop(held);
    let large = poll(large.as_mut()).unwrap();
    assert_eq!(large.n_bytes(), 7 * MIB);
    assert!(poll(later.as_mut()).is_none());
    drop(large);
    assert!(poll(later.as_mut()).is_some());
    drop(small);
}

#[test]
fn a_dropped_wait_does_not_block_later_ones() {
    let budget = Budget::new(8 * MIB, 8 * MIB);
    let held = budget.try_reserve("a", 7 * MIB).unwrap();
    let mut gone = Box::pin(budget.reserve("b", 7 * MIB));
    assert!(poll(gone.as_mut()).is_none());
    let mut next = pin!(budget.reserve("c", 7 * MIB));
    assert!(poll(next.as_mut()).is_none());
    // Granted, and dropped before it was received.
    drop(held);
    assert!(poll(next.as_mut()).is_none());
    drop(gone);
    assert!(poll(next.as_mut()).is_some());
}

#[test]
fn a_queue_leaves_a_part_of_the_share_of_its_owner_to_the_other_queues() {
    let budget = MemoryBudget::<Queue>::new(80 * MIB, 40 * MIB);
    let first = Queue("a", 1);
    let mut held: Vec<_> = (0..20).map_while(|_| budget.try_reserve(first, 2 * MIB).ok()).collect();
    assert_eq!(held.len(), 13);
    let mut waits = pin!(budget.reserve(first, 2 * MIB));
    assert!(poll(waits.as_mut()).is_none());
    let mut other = poll(pin!(budget.reserve(Queue("a", 2), 2 * MIB))).unwrap();
    // The share is that of the owner, whatever its queues.
    assert_eq!(other.try_grow(8 * MIB).unwrap_err(), Exhausted::Owner);
    held.truncate(11);
    assert!(poll(waits.as_mut()).is_some());
}

#[test]
fn a_reservation_beyond_the_share_is_not_overtaken_for_ever() {
    let budget = MemoryBudget::<Queue>::new(80 * MIB, 40 * MIB);
    let small = || budget.reserve(Queue("a", 1), SMALL);
    let mut held = poll(pin!(small())).unwrap();
    let mut large = pin!(budget.reserve(Queue("a", 2), 60 * MIB));
    assert!(poll(large.as_mut()).is_none());
    let mut n_passed = 0;
    // Never without a small one, so that the large one would never be alone.
    while let Some(next) = poll(pin!(small())) {
        held = next;
        n_passed += 1;
    }
    assert_eq!(n_passed, 256);
    drop(held);
    assert!(poll(large.as_mut()).is_some());
}

#[test]
fn owners_take_turns_whatever_the_number_of_their_queues() {
    let budget = MemoryBudget::<Queue>::new(8 * MIB, 8 * MIB);
    let first = budget.try_reserve(Queue("a", 0), 7 * MIB).unwrap();
    let queues = [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)];
    let mut waits: Vec<_> =
        queues.map(|(owner, queue)| Box::pin(budget.reserve(Queue(owner, queue), 7 * MIB))).into();
    for wait in &mut waits {
        assert!(poll(wait.as_mut()).is_none());
    }
    drop(first);
    let mut order = Vec::new();
    while let Some((at, granted)) =
        waits.iter_mut().enumerate().find_map(|(at, wait)| Some((at, poll(wait.as_mut())?)))
    {
        let Queue(owner, queue) = *granted.owner();
        order.push((owner, queue));
        drop(waits.remove(at));
    }
    let expected = [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3)];
    assert_eq!(order, expected);
}

proptest! {
    #[test]
    fn reservations_never_exceed_the_budget_and_every_wait_ends(
        steps in prop::collection::vec((0..5_usize, 0..4_usize, 0..3_000_000_usize), 1..80),
    ) {
        let budget = Budget::new(8 * MIB, 4 * MIB);
        let names = ["a", "b", "c", "d"];
        let mut held = Vec::new();
        let mut waits: Vec<Pin<Box<dyn Future<Output = Reservation<&'static str>>>>> = Vec::new();
        for (kind, which, n_bytes) in steps {
            match kind {
                0 => held.extend(budget.try_reserve(names[which], n_bytes)),
                1 => {
                    let budget = budget.clone();
                    waits.push(Box::pin(async move { budget.reserve(names[which], n_bytes).await }));
                }
                2 if !held.is_empty() => drop(held.swap_remove(n_bytes % held.len())),
                3 if !held.is_empty() => {
                    let n = held.len();
                    held[which % n].try_grow(n_bytes).ok();
                }
                4 if !held.is_empty() => {
                    let n = held.len();
                    held[which % n].shrink(n_bytes);
                }
                _ => {}
            }
            waits.retain_mut(|wait| match poll(wait.as_mut()) {
                Some(granted) => {
                    held.push(granted);
                    false
                }
                None => true,
            });
            let sum: usize = held.iter().map(Reservation::n_bytes).sum();
            prop_assert_eq!(sum, budget.used_bytes());
            prop_assert!(sum <= 8 * MIB);
        }
        while !waits.is_empty() {
            held.clear();
            let n_before = waits.len();
            waits.retain_mut(|wait| match poll(wait.as_mut()) {
                Some(granted) => {
                    held.push(granted);
                    false
                }
                None => true,
            });
            prop_assert!(waits.len() < n_before, "nothing is held and nothing is granted");
        }
        drop(held);
        prop_assert_eq!(budget.used_bytes(), 0);
    }
}
