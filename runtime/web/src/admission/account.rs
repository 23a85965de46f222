//! The budget of bytes that all requests share, and the account of one request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use perpend_domain::ids::ProjectId;

use crate::auth::CountedKey;
use crate::problem::{Code, Problem};

/// A request that needs no more than this is small. Ordinary batches of telemetry are, decoded.
const SMALL_BYTES: usize = 256 << 10;
/// One part in so many of all memory, and of the share of a key, is kept for small requests.
const RESERVED_PART: usize = 8;
/// Of all memory, a holder takes up to one part in so many out of what is kept, so that it is there for others.
const LITTLE_PART: usize = 64;

/// The budget of bytes in flight.
#[derive(Clone, Debug)]
pub struct Admission(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    /// All requests together.
    max_bytes: usize,
    /// The requests of one holder together.
    share_bytes: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    n_bytes: usize,
    /// Only holders that hold something.
    by_holder: HashMap<Holder, usize>,
}

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

impl Holder {
    const fn whose(&self) -> &'static str {
        match self {
            Self::Key(_) => "of this key",
            Self::Project(_) => "with signed addresses of this project",
            Self::Anonymous => "without a key",
        }
    }
}

/// What one request has taken from the budget. Clones are one account; dropping the last one gives all back.
#[derive(Clone, Debug)]
pub struct Account(Arc<Entry>);

#[derive(Debug)]
struct Entry {
    budget: Arc<Budget>,
    own: Mutex<Own>,
}

#[derive(Debug)]
struct Own {
    holder: Holder,
    n_bytes: usize,
}

// What these guard is whole between any two statements, also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much of `all_bytes` a request may fill.
const fn open_to(is_small: bool, all_bytes: usize) -> usize {
    match is_small {
        true => all_bytes,
        false => all_bytes - all_bytes / RESERVED_PART,
    }
}

impl Admission {
    /// A budget of so many bytes, of which one holder may take so many percent.
    pub fn new(max_bytes: usize, share_percent: usize) -> Self {
        Self(Arc::new(Budget {
            max_bytes,
            share_bytes: max_bytes / 100 * share_percent + max_bytes % 100 * share_percent / 100,
            held: Mutex::default(),
        }))
    }

    /// What all accounts have taken.
    pub fn in_flight_bytes(&self) -> usize {
        lock(&self.0.held).n_bytes
    }

    /// An account that has taken nothing yet.
    pub fn account(&self) -> Account {
        let own = Own {
            holder: Holder::Anonymous,
            n_bytes: 0,
        };
        Account(Arc::new(Entry {
            budget: Arc::clone(&self.0),
            own: Mutex::new(own),
        }))
    }
}

impl Account {
    /// The account of the request with these extensions.
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Charges what the request takes from now on, and what it has taken, to this holder.
    pub fn belongs_to(&self, holder: Holder) {
        let mut own = lock(&self.0.own);
        let mut held = lock(&self.0.budget.held);
        held.give_back(&own.holder, own.n_bytes);
        own.holder = holder;
        held.charge(&own.holder, own.n_bytes);
    }

    /// Takes `n_bytes` more.
    ///
    /// # Errors
    /// 503 when there is no room now: waiting for room while holding some could wait for ever. 413 when there
    /// never would be.
    pub fn take(&self, n_bytes: usize) -> Result<(), Problem> {
        let budget = &self.0.budget;
        let mut own = lock(&self.0.own);
        let wanted = own.n_bytes.saturating_add(n_bytes);
        let is_small = wanted <= SMALL_BYTES;
        if open_to(is_small, budget.max_bytes) < wanted {
            return Err(never(budget.max_bytes));
        }
        let mut held = lock(&budget.held);
        let of_holder = held.of(&own.holder);
        // A request alone may go beyond the share: refusing it would refuse it for ever.
        let is_alone = of_holder == own.n_bytes;
        if !is_alone && open_to(is_small, budget.share_bytes) < of_holder + n_bytes {
            let whose = own.holder.whose();
            return Err(Problem::unavailable(format!(
                "the requests {whose} hold as much memory as they may; nothing of this request was kept"
            )));
        }
        let little = SMALL_BYTES.max(budget.max_bytes / LITTLE_PART);
        let is_little = is_small && of_holder + n_bytes <= little;
        if open_to(is_little, budget.max_bytes) < held.n_bytes + n_bytes {
            return Err(Problem::unavailable(
                "the requests under way hold as much memory as they may; nothing of this request was kept",
            ));
        }
        held.charge(&own.holder, n_bytes);
        own.n_bytes = wanted;
        Ok(())
    }

    /// Gives back what is no longer in memory.
    pub fn give_back(&self, n_bytes: usize) {
        let mut own = lock(&self.0.own);
        let n_bytes = n_bytes.min(own.n_bytes);
        own.n_bytes -= n_bytes;
        lock(&self.0.budget.held).give_back(&own.holder, n_bytes);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let own = lock(&self.own);
        lock(&self.budget.held).give_back(&own.holder, own.n_bytes);
    }
}

impl Held {
    fn of(&self, holder: &Holder) -> usize {
        self.by_holder.get(holder).copied().unwrap_or_default()
    }

    fn charge(&mut self, holder: &Holder, n_bytes: usize) {
        if n_bytes == 0 {
            return;
        }
        self.n_bytes += n_bytes;
        *self.by_holder.entry(holder.clone()).or_default() += n_bytes;
    }

    fn give_back(&mut self, holder: &Holder, n_bytes: usize) {
        if n_bytes == 0 {
            return;
        }
        self.n_bytes -= n_bytes;
        if let Some(held) = self.by_holder.get_mut(holder) {
            *held -= n_bytes;
            if *held == 0 {
                self.by_holder.remove(holder);
            }
        }
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

    fn account(admission: &Admission, project: &str) -> Account {
        let account = admission.account();
        account.belongs_to(Holder::Project(ProjectId::new(project).unwrap()));
        account
    }

    fn refusal(account: &Account, n_bytes: usize) -> Code {
        account.take(n_bytes).unwrap_err().code()
    }

    #[test]
    fn one_holder_at_its_share_waits_while_others_are_served() {
        let admission = Admission::new(80 * MIB, 50);
        let (first, second) = (account(&admission, "a"), account(&admission, "a"));
        first.take(20 * MIB).unwrap();
        second.take(15 * MIB).unwrap();
        assert_eq!(refusal(&second, 1), Code::Unavailable);
        assert_eq!(refusal(&first, 1), Code::Unavailable);
        account(&admission, "b").take(30 * MIB).unwrap();
        // Its small requests have a part of the share to themselves, and no more than that.
        let small: Vec<Account> = (0..20).map(|_| account(&admission, "a")).collect();
        small.iter().for_each(|one| one.take(SMALL_BYTES).unwrap());
        assert_eq!(refusal(&account(&admission, "a"), 1), Code::Unavailable);
        account(&admission, "b").take(1).unwrap();
        drop((first, small));
        second.take(15 * MIB).unwrap();
    }

    #[test]
    fn large_requests_leave_room_for_small_ones() {
        let admission = Admission::new(80 * MIB, 50);
        let large: Vec<Account> = ["a", "b"].map(|name| account(&admission, name)).into();
        large.iter().for_each(|one| one.take(35 * MIB).unwrap());
        let third = account(&admission, "c");
        third.take(SMALL_BYTES).unwrap();
        assert_eq!(refusal(&third, 1), Code::Unavailable);
    }

    #[test]
    fn holders_that_hold_much_leave_the_reserve_to_others() {
        let admission = Admission::new(80 * MIB, 50);
        let greedy: Vec<Account> = ["a", "b"].map(|name| account(&admission, name)).into();
        greedy.iter().for_each(|one| one.take(35 * MIB).unwrap());
        for name in ["a", "b"] {
            let small = account(&admission, name);
            assert_eq!(refusal(&small, SMALL_BYTES), Code::Unavailable);
        }
        account(&admission, "c").take(SMALL_BYTES).unwrap();
    }

    #[test]
    fn a_request_alone_may_go_beyond_the_share_and_never_beyond_all() {
        let admission = Admission::new(80 * MIB, 50);
        let alone = account(&admission, "a");
        alone.take(70 * MIB).unwrap();
        assert_eq!(refusal(&alone, 1), Code::TooLarge);
        alone.give_back(40 * MIB);
        account(&admission, "b").take(40 * MIB).unwrap();
    }

    #[test]
    fn what_is_dropped_or_given_back_is_free_again_for_whoever_it_was_charged_to() {
        let admission = Admission::new(8 * MIB, 50);
        let account = account(&admission, "a");
        account.take(3 * MIB).unwrap();
        account.belongs_to(Holder::Anonymous);
        let clone = account.clone();
        drop(account);
        clone.give_back(MIB);
        let held = |admission: &Admission| {
            let held = lock(&admission.0.held);
            (held.n_bytes, held.by_holder.len())
        };
        assert_eq!(held(&admission), (2 * MIB, 1));
        drop(clone);
        assert_eq!(held(&admission), (0, 0));
    }
}
