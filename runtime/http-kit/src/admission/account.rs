//! The memory budget of requests, and what one request has reserved of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use perpend_domain::ids::ProjectId;
use perpend_memory::{Exhausted, MemoryBudget, Owner, Reservation};

use crate::auth::CountedKey;
use crate::problem::{Code, Problem};

/// The memory budget of requests.
#[derive(Clone, Debug)]
pub struct Admission(MemoryBudget<Holder>);

/// Whose share the memory of a request is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A valid key.
    Key(CountedKey),
    /// A project that a signed address opened.
    Project(ProjectId),
    /// All senders that have not shown a key: only the login form takes a body from them, and a small one.
    Anonymous,
}

impl Owner for Holder {
    type Share = Self;

    fn share(&self) -> &Self {
        self
    }
}

impl Holder {
    const fn whose(&self) -> &'static str {
        match self {
            Self::Key(_) => "of this key",
            Self::Project(_) => "with signed addresses of this project",
            Self::Anonymous => "without a key",
        }
    }
}

/// What one request has reserved. Clones are one account; dropping the last one returns all of it.
#[derive(Clone, Debug)]
pub struct Account(Arc<Mutex<Reservation<Holder>>>);

impl Admission {
    /// A budget of so many bytes, of which one holder may take so many percent.
    pub fn new(max_bytes: usize, share_percent: usize) -> Self {
        let share_bytes = max_bytes / 100 * share_percent + max_bytes % 100 * share_percent / 100;
        Self(MemoryBudget::new(max_bytes, share_bytes))
    }

    /// What all accounts have reserved.
    pub fn in_flight_bytes(&self) -> usize {
        self.0.used_bytes()
    }

    /// An account that has reserved nothing yet.
    pub fn account(&self) -> Account {
        Account(Arc::new(Mutex::new(self.0.open(Holder::Anonymous))))
    }
}

impl Account {
    /// The account of the request with these extensions.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    fn lock(&self) -> MutexGuard<'_, Reservation<Holder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges what the request reserves from now on, and what it has reserved, to this holder.
    pub fn belongs_to(&self, holder: Holder) {
        self.lock().set_owner(holder);
    }

    /// Reserves `n_bytes` more.
    ///
    /// # Errors
    /// 503 when the memory is not free now: waiting for it while holding some could wait for ever. 413 when it never
    /// would be.
    pub fn take(&self, n_bytes: usize) -> Result<(), Problem> {
        let mut reservation = self.lock();
        reservation
            .try_grow(n_bytes)
            .map_err(|exhausted| match exhausted {
                Exhausted::Owner => {
                    let whose = reservation.owner().whose();
                    Problem::unavailable(format!(
                        "the requests {whose} hold as much memory as they may; nothing of this request was kept"
                    ))
                }
                Exhausted::Budget => Problem::unavailable(
                    "the requests under way hold as much memory as they may; nothing of this request was kept",
                ),
                Exhausted::TooLarge { max_bytes } => never(max_bytes),
            })
    }

    /// Returns what is no longer in memory.
    pub fn give_back(&self, n_bytes: usize) {
        self.lock().shrink(n_bytes);
    }
}

fn never(max_bytes: usize) -> Problem {
    let message = format!(
        "the request needs more memory than this server gives to all requests together, {} MiB: send smaller \
         batches, or raise ingest.max_in_flight_mib",
        max_bytes >> 20
    );
    Problem::new(Code::TooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn memory_that_is_not_free_now_is_unavailable_and_more_than_there_is_is_too_large() {
        let admission = Admission::new(80 * MIB, 50);
        let [first, second] = ["a", "a"].map(|project| {
            let account = admission.account();
            account.belongs_to(Holder::Project(ProjectId::new(project).unwrap()));
            account
        });
        first.take(35 * MIB).unwrap();
        let refusal = |n_bytes| second.take(n_bytes).unwrap_err().code();
        assert_eq!(refusal(1 << 20), Code::Unavailable);
        assert_eq!(refusal(80 * MIB), Code::TooLarge);
        drop(first);
        second.take(1 << 20).unwrap();
        second.give_back(1 << 19);
        assert_eq!(admission.in_flight_bytes(), 1 << 19);
    }
}
