//! Limits of a reading request: an owner, a memory budget and a deadline.
//!
//! A request runs inside [`Reading::scope`]. Statements on the pool then take turns with those of other
//! owners, are interrupted at the deadline, and charge each row to the memory of the request. Work outside of
//! such a scope, such as ingestion and background jobs, takes turns under one owner and has neither deadline
//! nor budget.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use perpend_domain::ids::ProjectId;

use crate::Error;

tokio::task_local! {
    static CURRENT: Option<Reading>;
}

/// Memory budget of a request.
pub trait Memory: fmt::Debug + Send + Sync + 'static {
    /// Charges `n_bytes` more.
    ///
    /// # Errors
    /// When the bytes are not available; nothing is charged then.
    fn take(&self, n_bytes: usize) -> Result<(), OutOfMemory>;

    /// Returns bytes that were charged.
    fn give_back(&self, n_bytes: usize);

    /// Charges the share of this owner from now on.
    fn belongs_to(&self, owner: &ProjectId);
}

/// Reason for refusing memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfMemory {
    /// The limit of one request.
    TooLarge,
    /// Other requests hold the memory.
    Busy,
}

impl From<OutOfMemory> for Error {
    fn from(refused: OutOfMemory) -> Self {
        match refused {
            OutOfMemory::TooLarge => Self::AnswerTooLarge,
            OutOfMemory::Busy => Self::OutOfMemory,
        }
    }
}

/// Limits of one request. Clones share them.
#[derive(Clone, Debug)]
pub struct Reading(Arc<State>);

#[derive(Debug)]
struct State {
    owner: OnceLock<Box<str>>,
    memory: Box<dyn Memory>,
    n_bytes: AtomicUsize,
    timeout: Duration,
    begun_at: Mutex<Instant>,
}

impl Reading {
    /// Limits with a deadline that starts now.
    pub fn new(memory: impl Memory, timeout: Duration) -> Self {
        Self(Arc::new(State {
            owner: OnceLock::new(),
            memory: Box::new(memory),
            n_bytes: AtomicUsize::new(0),
            timeout,
            begun_at: Mutex::new(Instant::now()),
        }))
    }

    /// The limits of the current task.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok().flatten()
    }

    /// Runs a future with these limits.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        CURRENT.scope(Some(self.clone()), future).await
    }

    /// Runs a function with these limits, such as one that polls a body.
    pub fn sync_scope<T>(&self, work: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(Some(self.clone()), work)
    }

    /// Sets the owner, once.
    pub fn belongs_to(&self, owner: &ProjectId) {
        if self.0.owner.set(owner.as_str().into()).is_ok() {
            self.0.memory.belongs_to(owner);
        }
    }

    /// The owner; empty before the caller is authenticated.
    pub(crate) fn owner(&self) -> &str {
        self.0.owner.get().map_or("", |owner| owner)
    }

    /// Charges `n_bytes` more.
    ///
    /// # Errors
    /// When the memory is not available.
    pub fn charge(&self, n_bytes: usize) -> Result<(), Error> {
        self.0.memory.take(n_bytes)?;
        self.0.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Returns bytes that were charged.
    pub fn give_back(&self, n_bytes: usize) {
        self.shrink_to(self.n_bytes().saturating_sub(n_bytes));
    }

    /// Number of charged bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.0.n_bytes.load(Ordering::Relaxed)
    }

    /// Returns everything that is charged beyond `n_bytes`.
    pub fn shrink_to(&self, n_bytes: usize) {
        let before = self.0.n_bytes.fetch_min(n_bytes, Ordering::Relaxed);
        self.0.memory.give_back(before.saturating_sub(n_bytes));
    }

    /// A child with the same owner and deadline and a separate count.
    fn part(&self) -> Self {
        let begun_at = self.0.begun_at.lock().unwrap_or_else(PoisonError::into_inner);
        self.part_until(*begun_at, self.0.timeout)
    }

    fn part_until(&self, begun_at: Instant, timeout: Duration) -> Self {
        Self(Arc::new(State {
            owner: self.0.owner.clone(),
            memory: Box::new(OfWhole(self.clone())),
            n_bytes: AtomicUsize::new(0),
            timeout,
            begun_at: Mutex::new(begun_at),
        }))
    }

    /// Restarts the time limit, for the next part of a streamed response.
    pub fn renew(&self) {
        let mut begun_at = self.0.begun_at.lock().unwrap_or_else(PoisonError::into_inner);
        *begun_at = Instant::now();
    }

    pub(crate) fn deadline(&self) -> Instant {
        let begun_at = self.0.begun_at.lock().unwrap_or_else(PoisonError::into_inner);
        *begun_at + self.0.timeout
    }

    /// The remaining time.
    ///
    /// # Errors
    /// [`Error::TooSlow`] at the deadline.
    pub(crate) fn remaining(&self) -> Result<Duration, Error> {
        match self.deadline().checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(Error::TooSlow),
        }
    }
}

/// Runs a future without the limits of its request: for work that is not bounded by the request and that
/// other requests need too.
pub async fn unlimited<F: Future>(future: F) -> F::Output {
    CURRENT.scope(None, future).await
}

/// Runs one of several concurrent futures of a request with the limits of the request and a separate count,
/// so that a [`Scratch`] of one future returns nothing that another one has charged. The charges at its end
/// stay with the request.
pub fn apart<F: Future>(future: F) -> impl Future<Output = F::Output> {
    let future = Box::pin(future);
    async move {
        let Some(reading) = Reading::current() else {
            return future.await;
        };
        let part = reading.part();
        let output = part.scope(future).await;
        part.0.n_bytes.store(0, Ordering::Relaxed);
        output
    }
}

/// Runs a query that a response can do without, with at most `timeout` of the remaining time of the request.
/// `None` if it reaches that deadline or a limit of memory; its charges are returned.
///
/// # Errors
/// Other errors of the query, and [`Error::TooSlow`] at the deadline of the request.
pub async fn optional<T>(
    timeout: Duration,
    query: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    let result = match Reading::current() {
        Some(reading) => {
            let timeout = timeout.min(reading.remaining()?);
            reading.part_until(Instant::now(), timeout).scope(query).await
        }
        None => query.await,
    };
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::TooSlow | Error::AnswerTooLarge | Error::OutOfMemory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The memory of a request as that of a child.
#[derive(Debug)]
struct OfWhole(Reading);

impl Memory for OfWhole {
    fn take(&self, n_bytes: usize) -> Result<(), OutOfMemory> {
        let whole = &self.0.0;
        whole.memory.take(n_bytes)?;
        whole.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, n_bytes: usize) {
        self.0.give_back(n_bytes);
    }

    fn belongs_to(&self, owner: &ProjectId) {
        self.0.belongs_to(owner);
    }
}

/// Charges `n_bytes` to the current request.
///
/// # Errors
/// When the memory is not available.
pub fn charge(n_bytes: usize) -> Result<(), Error> {
    Reading::current().map_or(Ok(()), |reading| reading.charge(n_bytes))
}

/// Fails at the deadline of the current request. For loops that compute between statements.
///
/// # Errors
/// [`Error::TooSlow`] at the deadline.
pub fn check_deadline() -> Result<(), Error> {
    Reading::current().map_or(Ok(()), |reading| reading.remaining().map(drop))
}

/// Whether the current request has used half of its time limit: a list that can be continued by a cursor then
/// ends its page.
#[must_use]
pub fn is_half_over() -> bool {
    Reading::current().is_some_and(|reading| {
        let left = reading.remaining().unwrap_or_default();
        left < reading.0.timeout / 2
    })
}

/// Memory that is needed only for a part of a request: charges since its creation are returned when it is
/// dropped, except for [kept](Self::keep) ones. Concurrent futures have to be run by [`apart`].
#[derive(Debug)]
#[must_use = "it returns memory when it is dropped"]
pub struct Scratch {
    reading: Option<(Reading, usize)>,
}

impl Scratch {
    /// Starts such a part.
    pub fn begin() -> Self {
        let reading = Reading::current();
        Self {
            reading: reading.map(|reading| {
                let n_bytes = reading.n_bytes();
                (reading, n_bytes)
            }),
        }
    }

    /// Leaves `n_bytes` of the charges with the request.
    pub fn keep(&mut self, n_bytes: usize) {
        if let Some((_, kept)) = &mut self.reading {
            *kept = kept.saturating_add(n_bytes);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some((reading, n_bytes)) = &self.reading {
            reading.shrink_to(*n_bytes);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.memory.give_back(*self.n_bytes.get_mut());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A separate budget.
    #[derive(Clone, Debug)]
    pub(crate) struct Budget(Arc<AtomicUsize>, usize);

    impl Budget {
        pub(crate) fn new(max: usize) -> Self {
            Self(Arc::default(), max)
        }

        pub(crate) fn used(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Memory for Budget {
        fn take(&self, n_bytes: usize) -> Result<(), OutOfMemory> {
            if self.1 < self.used() + n_bytes {
                return Err(OutOfMemory::TooLarge);
            }
            self.0.fetch_add(n_bytes, Ordering::Relaxed);
            Ok(())
        }

        fn give_back(&self, n_bytes: usize) {
            self.0.fetch_sub(n_bytes, Ordering::Relaxed);
        }

        fn belongs_to(&self, _owner: &ProjectId) {}
    }

    #[tokio::test]
    async fn an_optional_query_that_reaches_a_limit_is_absent_and_leaves_the_request_its_limits() {
        let budget = Budget::new(100);
        let reading = Reading::new(budget.clone(), Duration::MAX / 4);
        reading
            .scope(async {
                let second = Duration::from_secs(1);
                let too_large = optional(second, async {
                    charge(60)?;
                    charge(60)
                });
                assert!(matches!(too_large.await, Ok(None)));
                assert_eq!(budget.used(), 0);
                let too_slow = optional(Duration::ZERO, async { check_deadline() });
                assert!(matches!(too_slow.await, Ok(None)));
                assert!(check_deadline().is_ok());
                assert!(matches!(optional(second, async { Ok(1) }).await, Ok(Some(1))));
                let failed = optional(second, async { Err::<(), _>(Error::NotFound) });
                assert!(matches!(failed.await, Err(Error::NotFound)));
            })
            .await;
    }

    #[tokio::test]
    async fn scratch_memory_is_returned_except_for_what_is_kept() {
        let budget = Budget::new(100);
        let reading = Reading::new(budget.clone(), Duration::MAX / 4);
        reading
            .scope(async {
                charge(10).unwrap();
                {
                    let mut scratch = Scratch::begin();
                    charge(50).unwrap();
                    scratch.keep(20);
                    assert!(matches!(charge(50), Err(Error::AnswerTooLarge)));
                    assert_eq!(budget.used(), 60);
                }
                assert_eq!(budget.used(), 30);
                unlimited(async { charge(1_000).unwrap() }).await;
            })
            .await;
        assert!(Reading::current().is_none());
        drop(reading);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test]
    async fn scratch_memory_of_one_future_is_not_that_of_another() {
        let budget = Budget::new(100);
        let reading = Reading::new(budget.clone(), Duration::MAX / 4);
        let with_scratch = apart(async {
            let mut scratch = Scratch::begin();
            charge(20).unwrap();
            scratch.keep(5);
            tokio::task::yield_now().await;
        });
        let without = apart(async {
            charge(30).unwrap();
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
        let both = async {
            tokio::join!(with_scratch, without);
            assert_eq!(budget.used(), 35);
            assert_eq!(Reading::current().unwrap().n_bytes(), 35);
        };
        reading.scope(both).await;
        drop(reading);
        assert_eq!(budget.used(), 0);
    }
}
