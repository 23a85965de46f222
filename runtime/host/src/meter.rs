//! How long a guest has been running, waiting excluded, its place among those that run, and the end of its
//! time on the wall.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::time::Sleep;

use crate::engine::Ticker;
use crate::pressure::{Crowded, Turn};

/// Time spent inside the polls of one call. A call that waits for a model is not polled and costs
/// nothing; one that yields to others at a tick neither.
#[derive(Debug)]
pub(crate) struct Meter {
    origin: Instant,
    spent_ns: AtomicU64,
    /// When the poll in progress began, in nanoseconds since `origin`.
    poll_began_ns: AtomicU64,
    /// The poll in progress ends because of a tick: the guest would go on at once.
    is_at_tick: AtomicBool,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            spent_ns: AtomicU64::new(0),
            poll_began_ns: AtomicU64::new(0),
            is_at_tick: AtomicBool::new(false),
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

    /// The poll in progress is about to end for the others' sake; the guest waits for nothing.
    pub(crate) fn yields_at_tick(&self) {
        self.is_at_tick.store(true, Ordering::Relaxed);
    }
}

/// A place among the calls that run. Given up while the guest waits for anything, be it the server or a
/// clock: who only waits keeps nobody else from running.
pub(crate) struct Place<'h> {
    places: &'h Semaphore,
    held: Option<SemaphorePermit<'h>>,
    /// Made when a place is wanted back and none is free.
    coming: Option<BoxFuture<'h, Result<SemaphorePermit<'h>, AcquireError>>>,
}

impl<'h> Place<'h> {
    /// Waits for the first one; that does not count against the wall-clock limit of the call.
    pub(crate) async fn among(places: &'h Semaphore) -> Result<Self, AcquireError> {
        let held = Some(places.acquire().await?);
        Ok(Self {
            places,
            held,
            coming: None,
        })
    }

    fn give_up(&mut self) {
        self.held = None;
        self.coming = None;
    }

    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.held.is_some() {
            return Poll::Ready(());
        }
        let places = self.places;
        if self.coming.is_none() {
            // Overtakes nobody: a place that somebody waits for goes to them and is never free.
            self.held = places.try_acquire().ok();
            if self.held.is_some() {
                return Poll::Ready(());
            }
        }
        let coming = self
            .coming
            .get_or_insert_with(|| Box::pin(places.acquire()));
        // Never closed: were it, running without a place would still be right.
        self.held = ready!(coming.as_mut().poll(cx)).ok();
        self.coming = None;
        Poll::Ready(())
    }
}

/// Why a call ends that has no answer.
pub(crate) enum Stop {
    /// Its wall-clock limit was reached.
    WallLimit,
    /// The process has no memory for it.
    Crowded(Crowded),
}

/// A call whose polls are metered, for which ticks come while it is polled, which holds a place while it
/// runs, which is held back while memory is short, and which ends at its wall-clock limit. Waiting for the
/// place to come back, or for memory, counts against that limit, as the rest of the waiting does.
pub(crate) struct Bounded<'h, 'p, F> {
    meter: &'h Meter,
    ticker: &'h Ticker,
    place: Place<'p>,
    turn: Turn<'h>,
    wall: Duration,
    inner: Pin<&'h mut F>,
    /// Made when the call first waits: most never do, and a timer costs more than a small guest.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'h, 'p, F: Future> Bounded<'h, 'p, F> {
    pub(crate) fn new(
        meter: &'h Meter,
        ticker: &'h Ticker,
        (place, turn): (Place<'p>, Turn<'h>),
        wall: Duration,
        inner: Pin<&'h mut F>,
    ) -> Self {
        Self {
            meter,
            ticker,
            place,
            turn,
            wall,
            inner,
            timer: None,
        }
    }

    fn poll_guest(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = self.meter.now_ns();
        self.meter.poll_began_ns.store(began, Ordering::Relaxed);
        self.meter.is_at_tick.store(false, Ordering::Relaxed);
        let running = self.ticker.running();
        let answer = self.inner.as_mut().poll(cx);
        drop(running);
        let took = self.meter.now_ns().saturating_sub(began);
        self.meter.spent_ns.fetch_add(took, Ordering::Relaxed);
        if answer.is_pending() && !self.meter.is_at_tick.load(Ordering::Relaxed) {
            self.place.give_up();
            self.turn.sleeps(cx);
        }
        answer
    }
}

impl<F: Future> Future for Bounded<'_, '_, F> {
    type Output = Result<F::Output, Stop>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.turn.poll(cx) {
            // Not polled without its place, a guest that could go on stays as it is.
            Poll::Ready(Ok(())) => {
                if this.place.poll_held(cx).is_ready()
                    && let Poll::Ready(answer) = this.poll_guest(cx)
                {
                    return Poll::Ready(Ok(answer));
                }
            }
            Poll::Ready(Err(crowded)) => return Poll::Ready(Err(Stop::Crowded(crowded))),
            Poll::Pending => this.place.give_up(),
        }
        let timer = this.timer.get_or_insert_with(|| {
            let left = this.wall.saturating_sub(this.meter.origin.elapsed());
            Box::pin(tokio::time::sleep(left))
        });
        timer.as_mut().poll(cx).map(|()| Err(Stop::WallLimit))
    }
}
