//! Memory budgets: bytes that concurrent work reserves before it allocates them.
//!
//! A [`MemoryBudget`] is shared by owners, such as projects or API keys. Work that cannot wait uses
//! [`MemoryBudget::try_reserve`] and [`Reservation::try_grow`]; work that can, [`MemoryBudget::reserve`].
//!
//! Invariants:
//! - **Bounded.** All reservations together never exceed the budget.
//! - **Fair.** An owner has a share; waiting reservations are granted to owners in turn, and one reservation of an owner
//!   that holds nothing may exceed the share: it would never be granted otherwise.
//! - **Queues of one owner do not block each other.** Where an owner has several queues, each leaves a part of the share
//!   free for the others, and waits by itself.
//! - **Small work is not delayed by large work.** One eighth of the budget is only for reservations of at most 256 KiB.
//! - **No deadlock.** [`MemoryBudget::reserve`] grants a whole reservation or waits with nothing; growing one never waits.

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::state::{Grant, Limits, State};

pub use crate::state::{Exhausted, Owner};

/// A number of bytes shared by concurrent work. Clones share one budget.
pub struct MemoryBudget<O: Owner>(Arc<Shared<O>>);

struct Shared<O: Owner> {
    limits: Limits,
    state: Mutex<State<O, Reservation<O>>>,
}

/// Bytes of a budget; dropping it returns them.
pub struct Reservation<O: Owner> {
    budget: Arc<Shared<O>>,
    owner: O,
    n_bytes: usize,
}

impl<O: Owner> Shared<O> {
    // The state is consistent between any two statements, also after a panic.
    fn lock(&self) -> MutexGuard<'_, State<O, Reservation<O>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands out what was granted, after the lock is released: a reservation whose receiver is gone is dropped here, and
/// dropping it takes the lock.
fn deliver<O: Owner>(budget: &Arc<Shared<O>>, granted: Vec<Grant<O, Reservation<O>>>) {
    for grant in granted {
        let reservation =
            Reservation { budget: Arc::clone(budget), owner: grant.owner, n_bytes: grant.n_bytes };
        drop(grant.receiver.send(reservation));
    }
}

impl<O: Owner> MemoryBudget<O> {
    /// A budget of `max_bytes`, of which one owner may hold at most `max_owner_bytes`.
    #[must_use]
    pub fn new(max_bytes: usize, max_owner_bytes: usize) -> Self {
        let limits = Limits { max_bytes, max_owner_bytes };
        Self(Arc::new(Shared { limits, state: Mutex::new(State::default()) }))
    }

    /// Bytes of all reservations.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.lock().used_bytes()
    }

    /// The most bytes that a reservation of more than 256 KiB may have.
    #[must_use]
    pub fn max_large_bytes(&self) -> usize {
        self.0.limits.max_large_bytes()
    }

    /// A reservation of nothing, to grow.
    #[must_use]
    pub fn open(&self, owner: O) -> Reservation<O> {
        Reservation { budget: Arc::clone(&self.0), owner, n_bytes: 0 }
    }

    /// Reserves bytes immediately, ahead of waiting reservations.
    ///
    /// # Errors
    /// [`Exhausted`].
    pub fn try_reserve(&self, owner: O, n_bytes: usize) -> Result<Reservation<O>, Exhausted> {
        let mut reservation = self.open(owner);
        reservation.try_grow(n_bytes)?;
        Ok(reservation)
    }

    /// Waits until the bytes are free. A reservation of more than [`Self::max_large_bytes`] is charged as that number: it
    /// waits until no other large reservation is left. Dropping the future leaves the queue.
    ///
    /// Do not wait while holding another reservation of the same budget: two that do may wait for each other.
    pub async fn reserve(&self, owner: O, n_bytes: usize) -> Reservation<O> {
        loop {
            let (sender, receiver) = oneshot::channel();
            let n_bytes = n_bytes.min(self.max_large_bytes());
            let granted = {
                let mut state = self.0.lock();
                state.wait(owner.clone(), n_bytes, sender);
                state.grant(self.0.limits)
            };
            deliver(&self.0, granted);
            // The queue drops no sender whose receiver waits.
            if let Ok(reservation) = receiver.await {
                return reservation;
            }
        }
    }
}

impl<O: Owner> Reservation<O> {
    /// Bytes reserved.
    #[must_use]
    pub const fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// The owner.
    #[must_use]
    pub const fn owner(&self) -> &O {
        &self.owner
    }

    /// Charges what is reserved to another owner, also beyond its share.
    pub fn set_owner(&mut self, owner: O) {
        let granted = {
            let mut state = self.budget.lock();
            state.release(&self.owner, self.n_bytes, self.n_bytes);
            state.charge(&owner, 0, self.n_bytes);
            state.grant(self.budget.limits)
        };
        self.owner = owner;
        deliver(&self.budget, granted);
    }

    /// Reserves more bytes immediately, ahead of waiting reservations.
    ///
    /// # Errors
    /// [`Exhausted`]; what was reserved before is kept.
    pub fn try_grow(&mut self, n_bytes: usize) -> Result<(), Exhausted> {
        let mut state = self.budget.lock();
        state.check(self.budget.limits, &self.owner, self.n_bytes, n_bytes)?;
        state.charge(&self.owner, self.n_bytes, n_bytes);
        self.n_bytes += n_bytes;
        Ok(())
    }

    /// Returns some of the bytes; at most all.
    pub fn shrink(&mut self, n_bytes: usize) {
        let n_bytes = n_bytes.min(self.n_bytes);
        if n_bytes == 0 {
            return;
        }
        let granted = {
            let mut state = self.budget.lock();
            state.release(&self.owner, self.n_bytes, n_bytes);
            state.grant(self.budget.limits)
        };
        self.n_bytes -= n_bytes;
        deliver(&self.budget, granted);
    }
}

impl<O: Owner> Drop for Reservation<O> {
    fn drop(&mut self) {
        self.shrink(self.n_bytes);
    }
}

impl<O: Owner> Clone for MemoryBudget<O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<O: Owner> std::fmt::Debug for MemoryBudget<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("limits", &self.0.limits)
            .field("used_bytes", &self.used_bytes())
            .finish()
    }
}

impl<O: Owner> std::fmt::Debug for Reservation<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("n_bytes", &self.n_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
