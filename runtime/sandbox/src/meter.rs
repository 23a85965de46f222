//! CPU time and wall-clock limit of a call.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Sleep;

use crate::engine::{TICK, Ticker};
use crate::pressure::{Eviction, MemoryTurn};
use crate::processors::{LONG, Slot};

/// Measures the CPU time of the polls of a call. Waiting does not count.
///
/// Reading the CPU time of a thread is a system call, and most calls end before their first tick. Until then, wall-clock time
/// is used, limited to the maximum time between ticks. Afterwards the CPU time of the thread is used, which is exact on a busy
/// machine.
#[derive(Debug)]
pub(crate) struct Meter {
    origin: Instant,
    spent_ns: AtomicU64,
    /// Start of the current poll, on the clock that `has_ticked` selects.
    poll_start_ns: AtomicU64,
    /// The current poll ends because of a tick.
    is_at_tick: AtomicBool,
    /// An earlier poll ended because of a tick.
    has_ticked: AtomicBool,
    /// Time during which the guest waited for models.
    models: Mutex<ModelTime>,
}

/// Time during which at least one model call was open.
#[derive(Debug, Default)]
struct ModelTime {
    n_open: usize,
    since: Option<Instant>,
    earlier: Duration,
}

/// An open model call. Pauses the wall-clock limit until it is dropped.
#[derive(Debug)]
pub(crate) struct ModelCall(Arc<Meter>);

impl ModelCall {
    pub(crate) fn new(meter: &Arc<Meter>) -> Self {
        let mut models = meter.models();
        models.n_open += 1;
        models.since.get_or_insert_with(Instant::now);
        drop(models);
        Self(Arc::clone(meter))
    }
}

impl Drop for ModelCall {
    fn drop(&mut self) {
        let mut models = self.0.models();
        models.n_open -= 1;
        if models.n_open == 0
            && let Some(since) = models.since.take()
        {
            models.earlier += since.elapsed();
        }
    }
}

/// Maximum time that is counted for a poll before the first tick.
const MAX_BEFORE_TICK: Duration = TICK.saturating_mul(2);

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            spent_ns: AtomicU64::new(0),
            poll_start_ns: AtomicU64::new(0),
            is_at_tick: AtomicBool::new(false),
            has_ticked: AtomicBool::new(false),
            models: Mutex::default(),
        }
    }

    fn models(&self) -> MutexGuard<'_, ModelTime> {
        // Ignores poisoning: the data is consistent after each statement.
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the start of the call without model calls; `None` during a model call.
    fn wall_time(&self) -> Option<Duration> {
        let models = self.models();
        match models.since {
            Some(_) => None,
            None => Some(self.origin.elapsed().saturating_sub(models.earlier)),
        }
    }

    /// The time of the current clock.
    fn now_ns(&self) -> u64 {
        if self.has_ticked.load(Ordering::Relaxed) {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            return Duration::try_from(now).map_or(0, as_nanos);
        }
        as_nanos(self.origin.elapsed())
    }

    fn start_poll(&self) {
        if self.is_at_tick.swap(false, Ordering::Relaxed) {
            self.has_ticked.store(true, Ordering::Relaxed);
        }
        self.poll_start_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// Time of the current poll.
    fn in_poll_ns(&self) -> u64 {
        let start = self.poll_start_ns.load(Ordering::Relaxed);
        let elapsed = self.now_ns().saturating_sub(start);
        if self.has_ticked.load(Ordering::Relaxed) {
            return elapsed;
        }
        elapsed.min(as_nanos(MAX_BEFORE_TICK))
    }

    fn end_poll(&self) {
        self.spent_ns.fetch_add(self.in_poll_ns(), Ordering::Relaxed);
    }

    /// CPU time of completed polls.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    /// CPU time including the current poll. Called only during a poll.
    pub(crate) fn spent_so_far(&self) -> Duration {
        self.spent() + Duration::from_nanos(self.in_poll_ns())
    }

    /// Whether the call is long.
    fn is_long(&self) -> bool {
        LONG < self.spent()
    }

    /// Records that the current poll ends because of a tick.
    pub(crate) fn yield_at_tick(&self) {
        self.is_at_tick.store(true, Ordering::Relaxed);
    }
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Why a call was stopped.
pub(crate) enum Stop {
    /// The wall-clock limit was reached.
    WallLimit,
    /// The process is short of memory.
    Evicted(Eviction),
}

/// A call within its limits: it is metered and gets ticks, runs only with a processor, is paused while memory is short, and
/// is stopped at its wall-clock limit. Waiting for memory counts towards that limit. Waiting for a processor does not, because
/// it depends on other calls. Waiting for models does not, because the server limits and queues model requests.
pub(crate) struct LimitedCall<'h, 'p, 't, F> {
    meter: &'h Meter,
    ticker: &'h Ticker,
    slot: &'h mut Slot<'p>,
    turn: &'h mut MemoryTurn<'t>,
    wall: Duration,
    inner: Pin<&'h mut F>,
    /// When it started to wait for a processor.
    queued_since: Option<Instant>,
    /// Total time of waiting for a processor.
    queued: Duration,
    /// Created when the call first waits, because a timer costs more than a small guest.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'h, 'p, 't, F: Future> LimitedCall<'h, 'p, 't, F> {
    pub(crate) fn new(
        meter: &'h Meter,
        ticker: &'h Ticker,
        (slot, turn): (&'h mut Slot<'p>, &'h mut MemoryTurn<'t>),
        wall: Duration,
        inner: Pin<&'h mut F>,
    ) -> Self {
        Self {
            meter,
            ticker,
            slot,
            turn,
            wall,
            inner,
            queued_since: None,
            queued: Duration::ZERO,
            timer: None,
        }
    }

    fn poll_guest(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.meter.start_poll();
        let running = self.ticker.running();
        let polled = self.inner.as_mut().poll(cx);
        drop(running);
        self.meter.end_poll();
        if polled.is_pending() {
            if self.meter.is_at_tick.load(Ordering::Relaxed) {
                self.slot.end_slice(cx, self.meter.is_long());
            } else {
                self.slot.sleep();
                self.turn.sleep(cx);
            }
        }
        polled
    }

    /// Ends the wait for a processor.
    fn leave_queue(&mut self) {
        let Some(since) = self.queued_since.take() else {
            return;
        };
        self.queued += since.elapsed();
        // Created again when the call next waits.
        self.timer = None;
    }

    /// Remaining time of the wall-clock limit; `None` during a model call.
    fn time_left(&self) -> Option<Duration> {
        let used = self.meter.wall_time()?.saturating_sub(self.queued);
        Some(self.wall.saturating_sub(used))
    }
}

impl<F: Future> Future for LimitedCall<'_, '_, '_, F> {
    type Output = Result<F::Output, Stop>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.turn.poll(cx) {
            Poll::Ready(Ok(())) => {
                // Without a processor the guest is neither polled nor stopped.
                if this.slot.poll_running(cx, this.meter.is_long()).is_pending() {
                    this.queued_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
                this.leave_queue();
                if let Poll::Ready(output) = this.poll_guest(cx) {
                    return Poll::Ready(Ok(output));
                }
            }
            Poll::Ready(Err(eviction)) => return Poll::Ready(Err(Stop::Evicted(eviction))),
            Poll::Pending => {
                this.leave_queue();
                this.slot.sleep();
            }
        }
        let Some(left) = this.time_left() else {
            // Created again when the reply wakes this task.
            this.timer = None;
            return Poll::Pending;
        };
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
        timer.as_mut().poll(cx).map(|()| Err(Stop::WallLimit))
    }
}
