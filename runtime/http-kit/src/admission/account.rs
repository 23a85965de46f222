//! The memory budget of requests, and the reservation of one request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use perpend_domain::ids::ProjectId;
use perpend_memory::{Exhausted, MemoryBudget, Owner, Reservation};

use crate::auth::MeteredKey;
use crate::problem::{Code, Problem};

/// The memory budget of requests.
#[derive(Clone, Debug)]
pub struct Admission(MemoryBudget<AccountOwner>);

/// The owner of the share that the memory of a request is charged to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccountOwner {
    /// A valid key.
    Key(MeteredKey),
    /// A project that is accessed with a signed address.
    Project(ProjectId),
    /// All senders without a key: only the login form accepts a body from them, and a small one.
    Anonymous,
}

impl Owner for AccountOwner {
    type Share = Self;

    fn share(&self) -> &Self {
        self
    }
}

impl AccountOwner {
    const fn description(&self) -> &'static str {
        match self {
            Self::Key(_) => "of this key",
            Self::Project(_) => "with signed addresses of this project",
            Self::Anonymous => "without a key",
        }
    }
}

/// The memory reserved by one request. Clones share the reservation; dropping the last one releases it.
#[derive(Clone, Debug)]
pub struct Account(Arc<Mutex<Reservation<AccountOwner>>>);

impl Admission {
    /// A budget of `max_bytes`, of which one owner may take `share_percent`.
    pub fn new(max_bytes: usize, share_percent: usize) -> Self {
        let share_bytes = max_bytes / 100 * share_percent + max_bytes % 100 * share_percent / 100;
        Self(MemoryBudget::new(max_bytes, share_bytes))
    }

    /// Bytes that all accounts have reserved.
    pub fn in_flight_bytes(&self) -> usize {
        self.0.used_bytes()
    }

    /// A new account without a reservation.
    pub fn account(&self) -> Account {
        Account(Arc::new(Mutex::new(self.0.open(AccountOwner::Anonymous))))
    }
}

impl Account {
    /// The account of the request with these extensions.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    fn lock(&self) -> MutexGuard<'_, Reservation<AccountOwner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges the reservation of the request, present and future, to `owner`.
    pub fn belongs_to(&self, owner: AccountOwner) {
        self.lock().set_owner(owner);
    }

    /// Reserves `n_bytes` more.
    ///
    /// # Errors
    /// 503 when the memory is not available now: a request that holds memory must not wait for more. 413 when the request
    /// exceeds the whole budget.
    pub fn take(&self, n_bytes: usize) -> Result<(), Problem> {
        let mut reservation = self.lock();
        reservation
            .try_grow(n_bytes)
            .map_err(|exhausted| match exhausted {
                Exhausted::Owner => {
                    let requests = reservation.owner().description();
                    Problem::unavailable(format!(
                        "the requests {requests} have reached their memory limit; nothing of this request was stored"
                    ))
                }
                Exhausted::Budget => Problem::unavailable(
                    "the requests in progress have reached the memory limit; nothing of this request was stored",
                ),
                Exhausted::TooLarge { max_bytes } => exceeds_budget(max_bytes),
            })
    }

    /// Releases `n_bytes` of the reservation.
    pub fn release(&self, n_bytes: usize) {
        self.lock().shrink(n_bytes);
    }
}

fn exceeds_budget(max_bytes: usize) -> Problem {
    let message = format!(
        "the request needs more than {} MiB of memory, the limit for all requests together: send smaller \
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
    fn memory_in_use_gives_unavailable_and_more_than_the_budget_gives_too_large() {
        let admission = Admission::new(80 * MIB, 50);
        let [first, second] = ["a", "a"].map(|project| {
            let account = admission.account();
            account.belongs_to(AccountOwner::Project(ProjectId::new(project).unwrap()));
            account
        });
        first.take(35 * MIB).unwrap();
        let refusal = |n_bytes| second.take(n_bytes).unwrap_err().code();
        assert_eq!(refusal(1 << 20), Code::Unavailable);
        assert_eq!(refusal(80 * MIB), Code::TooLarge);
        drop(first);
        second.take(1 << 20).unwrap();
        second.release(1 << 19);
        assert_eq!(admission.in_flight_bytes(), 1 << 19);
    }
}
