//! Accounts for the memory of results, from a worker until the caller drops them.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use perpend_domain::plugin::{CallResult, ResultPermit};
use tokio::sync::Notify;

/// Maximum memory of results. No more are read from workers while it is exceeded.
pub const MAX_RESULT_BYTES: usize = 32 << 20;

/// The bytes of all results that callers have not dropped. Clones share the count.
#[derive(Clone, Default)]
pub(crate) struct ResultMemory(Arc<Account>);

#[derive(Default)]
struct Account {
    n_bytes: AtomicUsize,
    /// Results were dropped.
    returned: Notify,
}

/// Bytes of one result.
struct Charge {
    account: Arc<Account>,
    n_bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.n_bytes.fetch_sub(self.n_bytes, Ordering::AcqRel);
        self.account.returned.notify_waiters();
    }
}

impl ResultMemory {
    pub(crate) fn n_bytes(&self) -> usize {
        self.0.n_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn is_full(&self) -> bool {
        MAX_RESULT_BYTES <= self.n_bytes()
    }

    /// Charges a result until it is dropped.
    pub(crate) fn charge(&self, result: &mut CallResult) {
        let n_bytes = result.n_bytes();
        self.0.n_bytes.fetch_add(n_bytes, Ordering::AcqRel);
        result.permit = ResultPermit::new(Charge { account: Arc::clone(&self.0), n_bytes });
    }

    /// Waits while the results in memory have [`MAX_RESULT_BYTES`].
    pub(crate) async fn not_full(&self) {
        loop {
            let mut returned = pin!(self.0.returned.notified());
            // Enabled before the check, so that a drop after it is noticed.
            returned.as_mut().enable();
            if !self.is_full() {
                return;
            }
            returned.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use perpend_domain::plugin::LogLine;

    use super::*;

    fn result(n_bytes: usize) -> CallResult {
        let line = LogLine { level: "info".to_owned(), message: "x".repeat(n_bytes), fields: None };
        CallResult { log: vec![line], ..CallResult::empty() }
    }

    #[test]
    fn the_memory_is_full_until_results_are_dropped() {
        let memory = ResultMemory::default();
        let mut first = result(MAX_RESULT_BYTES / 2);
        let mut second = result(MAX_RESULT_BYTES / 2);
        memory.charge(&mut first);
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(memory.not_full()).poll(&mut context).is_ready());
        memory.charge(&mut second);
        let mut waiting = pin!(memory.not_full());
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        let clone = first.clone();
        drop(first);
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        drop(clone);
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(()));
        drop(second);
        assert_eq!(memory.n_bytes(), 0);
    }
}
