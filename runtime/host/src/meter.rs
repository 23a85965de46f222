//! How long a guest has been running, waiting excluded.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Time spent inside the polls of one call. A call that waits for a model is not polled and costs
/// nothing; one that yields to others at a tick neither.
#[derive(Debug)]
pub(crate) struct Meter {
    origin: Instant,
    spent_ns: AtomicU64,
    /// When the poll in progress began, in nanoseconds since `origin`.
    poll_began_ns: AtomicU64,
}

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            origin: Instant::now(),
            spent_ns: AtomicU64::new(0),
            poll_began_ns: AtomicU64::new(0),
        })
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Of finished polls.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    /// With the poll in progress: to be asked from inside it.
    pub(crate) fn spent_so_far(&self) -> Duration {
        let in_poll = self
            .now_ns()
            .saturating_sub(self.poll_began_ns.load(Ordering::Relaxed));
        self.spent() + Duration::from_nanos(in_poll)
    }
}

/// A future whose polls are metered.
pub(crate) struct Metered<F> {
    pub(crate) meter: Arc<Meter>,
    pub(crate) inner: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = self.meter.now_ns();
        self.meter.poll_began_ns.store(began, Ordering::Relaxed);
        let answer = self.inner.as_mut().poll(cx);
        let took = self.meter.now_ns().saturating_sub(began);
        self.meter.spent_ns.fetch_add(took, Ordering::Relaxed);
        answer
    }
}
