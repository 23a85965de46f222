//! Cancellation of a call that has not started, after its rule, evaluator or connection was deleted.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};

/// The cancellation flag of a call. It is set once and wakes all waiters of the call.
#[derive(Debug, Default)]
pub struct Withdrawal {
    is_withdrawn: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Withdrawal {
    /// Withdraws the call.
    pub fn withdraw(&self) {
        self.is_withdrawn.store(true, Ordering::Release);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *waiting);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Whether the call is withdrawn.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Acquire)
    }

    /// Waits until the call is withdrawn.
    pub async fn withdrawn(&self) {
        poll_fn(|context| {
            // The flag is set before the wakers are taken: under their lock it is up to date.
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if self.is_withdrawn() {
                return Poll::Ready(());
            }
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
