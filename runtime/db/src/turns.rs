//! Fair sharing of a few places among owners.
//!
//! An owner holds at most as many places as are free, so one owner alone uses half of them and there is one
//! for the next owner. Of the waiting owners, the one with the fewest places is next, and of these the one
//! that has waited longest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Places, shared by clones.
#[derive(Clone, Debug)]
pub(crate) struct FairPlaces(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    n_free: usize,
    /// Number of places by owner.
    held: HashMap<Box<str>, usize>,
    /// Waiting owners in order of arrival.
    waiting: BTreeMap<u64, (Box<str>, oneshot::Sender<Turn>)>,
    n_arrived: u64,
}

/// A place, returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<(FairPlaces, Box<str>)>);

impl State {
    fn held_by(&self, owner: &str) -> usize {
        self.held.get(owner).copied().unwrap_or_default()
    }

    fn may_take(&self, owner: &str) -> bool {
        self.held_by(owner) < self.n_free
    }

    fn take(&mut self, owner: &str) {
        self.n_free -= 1;
        *self.held.entry(owner.into()).or_default() += 1;
    }

    /// The next waiting owner.
    fn next(&mut self) -> Option<(Box<str>, oneshot::Sender<Turn>)> {
        let able = self.waiting.iter().filter(|(_, (owner, _))| self.may_take(owner));
        let next = able.min_by_key(|(arrived, (owner, _))| (self.held_by(owner), **arrived));
        let arrived = *next?.0;
        self.waiting.remove(&arrived)
    }
}

impl FairPlaces {
    pub(crate) fn new(n_places: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            n_free: n_places,
            held: HashMap::new(),
            waiting: BTreeMap::new(),
            n_arrived: 0,
        })))
    }

    // The state is valid between any two statements, also after a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place. Dropping the future leaves the queue.
    pub(crate) async fn take(&self, owner: &str) -> Turn {
        let waiting = {
            let mut state = self.lock();
            if state.may_take(owner) {
                state.take(owner);
                return Turn(Some((self.clone(), owner.into())));
            }
            let (sender, receiver) = oneshot::channel();
            let arrived = state.n_arrived;
            state.n_arrived += 1;
            state.waiting.insert(arrived, (owner.into(), sender));
            receiver
        };
        match waiting.await {
            Ok(turn) => turn,
            // The sender is never dropped while the receiver waits.
            Err(_) => std::future::pending().await,
        }
    }

    fn hand_on(&self) {
        loop {
            let (owner, sender) = {
                let mut state = self.lock();
                state.waiting.retain(|_, (_, sender)| !sender.is_closed());
                let Some(next) = state.next() else {
                    return;
                };
                state.take(&next.0);
                next
            };
            // The receiver may have been dropped in the meantime.
            if let Err(mut unwanted) = sender.send(Turn(Some((self.clone(), owner)))) {
                unwanted.release();
            }
        }
    }
}

impl Turn {
    /// Frees the place without passing it on.
    fn release(&mut self) -> Option<FairPlaces> {
        let (turns, owner) = self.0.take()?;
        let mut state = turns.lock();
        state.n_free += 1;
        if let Some(held) = state.held.get_mut(&owner) {
            *held -= 1;
            if *held == 0 {
                state.held.remove(&owner);
            }
        }
        drop(state);
        Some(turns)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.release() {
            turns.hand_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn an_owner_leaves_a_place_to_the_next_and_the_one_with_the_fewest_is_served_first() {
        let turns = FairPlaces::new(4);
        let first = poll(pin!(turns.take("a"))).unwrap();
        let second = poll(pin!(turns.take("a"))).unwrap();
        let mut more: Vec<_> = (0..3).map(|_| Box::pin(turns.take("a"))).collect();
        assert!(more.iter_mut().all(|one| poll(one.as_mut()).is_none()));
        let other = poll(pin!(turns.take("b"))).unwrap();
        let third = poll(pin!(turns.take("c"))).unwrap();
        let mut late = Box::pin(turns.take("d"));
        assert!(poll(late.as_mut()).is_none());
        drop(first);
        let late = poll(late.as_mut()).unwrap();
        assert!(more.iter_mut().all(|one| poll(one.as_mut()).is_none()));
        drop((other, third, late));
        assert!(poll(more[0].as_mut()).is_some());
        drop(second);
    }

    #[test]
    fn a_dropped_wait_blocks_no_other_owner() {
        let turns = FairPlaces::new(1);
        let held = poll(pin!(turns.take("a"))).unwrap();
        let mut gone = Box::pin(turns.take("b"));
        let mut next = Box::pin(turns.take("c"));
        assert!(poll(gone.as_mut()).is_none());
        assert!(poll(next.as_mut()).is_none());
        // Granted, and dropped before it was received.
        drop(held);
        drop(gone);
        assert!(poll(next.as_mut()).is_some());
        assert_eq!(turns.lock().n_free, 1);
    }
}
