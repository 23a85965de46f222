//! How long a guest has been running, waiting excluded, and the end of its time on the wall.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

use crate::engine::Ticker;

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
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            spent_ns: AtomicU64::new(0),
            poll_began_ns: AtomicU64::new(0),
        }
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

/// The wall-clock limit was reached.
pub(crate) struct WallLimit;

/// A call whose polls are metered, for which ticks come while it is polled, and which ends at its
/// wall-clock limit.
pub(crate) struct Bounded<'h, F> {
    pub(crate) meter: &'h Meter,
    pub(crate) ticker: &'h Ticker,
    pub(crate) wall: Duration,
    pub(crate) inner: Pin<&'h mut F>,
    /// Made when the call first waits: most never do, and a timer costs more than a small guest.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'h, F> Bounded<'h, F> {
    pub(crate) fn new(
        meter: &'h Meter,
        ticker: &'h Ticker,
        wall: Duration,
        inner: Pin<&'h mut F>,
    ) -> Self {
        Self {
            meter,
            ticker,
            wall,
            inner,
            timer: None,
        }
    }
}

impl<F: Future> Future for Bounded<'_, F> {
    type Output = Result<F::Output, WallLimit>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let began = this.meter.now_ns();
        this.meter.poll_began_ns.store(began, Ordering::Relaxed);
        let running = this.ticker.running();
        let answer = this.inner.as_mut().poll(cx);
        drop(running);
        let took = this.meter.now_ns().saturating_sub(began);
        this.meter.spent_ns.fetch_add(took, Ordering::Relaxed);
        if let Poll::Ready(answer) = answer {
            return Poll::Ready(Ok(answer));
        }
        let timer = this.timer.get_or_insert_with(|| {
            let left = this.wall.saturating_sub(this.meter.origin.elapsed());
            Box::pin(tokio::time::sleep(left))
        });
        timer.as_mut().poll(cx).map(|()| Err(WallLimit))
    }
}
