//! Memory of the calls of all runs: reserved before an item is read, and before a large answer is received.
//!
//! Invariants:
//! - **No deadlock.** Items and answers have a budget each. A call may wait for the memory of its answer while it holds that of
//!   its item, never the reverse.
//! - **One large answer is parsed at a time.** As JSON it takes many times its length.

use std::sync::Arc;

use perpend_domain::ids::ProjectId;
use perpend_memory::{MemoryBudget, Owner, Reservation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Longest answer that the memory of the call covers.
pub(super) const SMALL_ANSWER: usize = 16 << 10;
/// Memory of a call in addition to its item; with a small answer.
const CALL_BYTES: usize = 64 << 10;
/// Copies of an item: as read, as JSON, in the request, and in the trace.
const N_COPIES: usize = 8;
/// Copies of an answer: as received, and in the trace.
const N_COPIES_ANSWER: usize = 2;

/// The project of a run. A project may hold half of each budget.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RunOwner(ProjectId);

impl Owner for RunOwner {
    type Share = Self;

    fn share(&self) -> &Self {
        self
    }
}

/// The memory of all runs. Clones share it.
#[derive(Clone, Debug)]
pub struct RunMemory {
    calls: MemoryBudget<RunOwner>,
    answers: MemoryBudget<RunOwner>,
    parsing: Arc<Semaphore>,
}

/// The memory of a call until its result is written.
#[derive(Debug)]
pub(super) struct CallMemory {
    project: ProjectId,
    _call: Reservation<RunOwner>,
    /// Of a large answer.
    answer: Option<Reservation<RunOwner>>,
    parsing: Option<OwnedSemaphorePermit>,
}

impl RunMemory {
    /// Memory of `max_bytes` for calls and answers together.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        let budget = || MemoryBudget::new(max_bytes / 2, max_bytes / 4);
        Self { calls: budget(), answers: budget(), parsing: Arc::new(Semaphore::new(1)) }
    }

    /// Waits for the memory of `n_calls` calls over items of `item_bytes` together.
    pub(super) async fn reserve_calls(
        &self,
        project: &ProjectId,
        (n_calls, item_bytes): (usize, usize),
    ) -> CallMemory {
        let of_items = item_bytes.saturating_mul(N_COPIES);
        let n_bytes = CALL_BYTES.saturating_mul(n_calls).saturating_add(of_items);
        let call = self.calls.reserve(RunOwner(project.clone()), n_bytes).await;
        CallMemory { project: project.clone(), _call: call, answer: None, parsing: None }
    }

    /// Waits for the memory of an answer, if the memory of its call does not cover it.
    pub(super) async fn reserve_answer(&self, memory: &mut CallMemory, n_bytes: usize) {
        if n_bytes <= SMALL_ANSWER || memory.answer.is_some() {
            return;
        }
        let owner = RunOwner(memory.project.clone());
        let n_bytes = n_bytes.saturating_mul(N_COPIES_ANSWER);
        memory.answer = Some(self.answers.reserve(owner, n_bytes).await);
    }

    /// Waits until no other large answer is parsed, if this one is large.
    pub(super) async fn begin_parsing(&self, memory: &mut CallMemory) {
        if memory.answer.is_some() {
            memory.parsing = Arc::clone(&self.parsing).acquire_owned().await.ok();
        }
    }
}

impl CallMemory {
    /// Lets the next large answer be parsed. The parsed answer must be dropped.
    pub(super) fn end_parsing(&mut self) {
        self.parsing = None;
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const MIB: usize = 1 << 20;

    fn project(name: &str) -> ProjectId {
        ProjectId::new(name).unwrap()
    }

    /// The result of a future that is ready.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        let mut future = Box::pin(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn calls_over_large_items_wait_for_one_another() {
        let memory = RunMemory::new(64 * MIB);
        let home = project("home");
        let first = now(memory.reserve_calls(&home, (1, MIB))).unwrap();
        let second = now(memory.reserve_calls(&home, (1, MIB / 2))).unwrap();
        assert!(now(memory.reserve_calls(&home, (1, MIB))).is_none(), "more than half");
        assert!(now(memory.reserve_calls(&project("other"), (1, MIB))).is_some());
        drop((first, second));
        assert!(now(memory.reserve_calls(&home, (1, MIB))).is_some());
    }

    #[test]
    fn answers_of_many_calls_never_exceed_the_budget_and_one_is_parsed_at_a_time() {
        let memory = RunMemory::new(64 * MIB);
        let mut calls: Vec<CallMemory> = (0..20)
            .map(|n| now(memory.reserve_calls(&project(&format!("p{n}")), (1, 100))).unwrap())
            .collect();
        let granted = calls.iter_mut().filter_map(|call| {
            now(memory.reserve_answer(call, 4 * MIB))?;
            Some(call)
        });
        let mut granted: Vec<&mut CallMemory> = granted.collect();
        assert_eq!(granted.len(), 3, "8 MiB each of 28 for large ones");
        assert!(memory.answers.used_bytes() <= 32 * MIB);
        assert!(now(memory.begin_parsing(granted[0])).is_some());
        assert!(now(memory.begin_parsing(granted[1])).is_none());
        granted[0].end_parsing();
        assert!(now(memory.begin_parsing(granted[1])).is_some());
        let mut small = now(memory.reserve_calls(&project("small"), (1, 100))).unwrap();
        assert!(now(memory.reserve_answer(&mut small, SMALL_ANSWER)).is_some());
        assert!(now(memory.begin_parsing(&mut small)).is_some(), "small answers do not wait");
    }
}
