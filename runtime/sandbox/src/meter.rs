//! How long a guest has been running, waiting excluded, and the end of its time on the wall.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Sleep;

use crate::engine::{TICK, Ticker};
use crate::pressure::{Crowded, Turn};
use crate::processors::{LONG, Slot};

/// CPU time spent inside the polls of one call. A call that waits for a model is not polled and costs
/// nothing; one that yields to others at a tick neither.
///
/// Most calls end before their first tick, and asking for the CPU time of a thread is a system call: until
/// then the time on the wall is taken, and no more of it than a guest can run without a tick. From then on
/// it is the thread's own CPU time, so that on a crowded machine nobody pays for the others.
#[derive(Debug)]
pub(crate) struct Meter {
    origin: Instant,
    spent_ns: AtomicU64,
    /// When the poll in progress began, by the clock that `has_ticked` tells.
    poll_began_ns: AtomicU64,
    /// The poll in progress ends because of a tick: the guest would go on at once.
    is_at_tick: AtomicBool,
    /// A tick came in an earlier poll.
    has_ticked: AtomicBool,
    /// The time in which the guest waited for models.
    models: Mutex<ModelTime>,
}

/// The time in which at least one model call was open.
#[derive(Debug, Default)]
struct ModelTime {
    n_open: usize,
    since: Option<Instant>,
    before: Duration,
}

/// Marks a model call as open until it is dropped: the wall clock of its guest stands still.
#[derive(Debug)]
pub(crate) struct AsksModel(Arc<Meter>);

impl AsksModel {
    pub(crate) fn new(meter: &Arc<Meter>) -> Self {
        let mut models = meter.models();
        models.n_open += 1;
        models.since.get_or_insert_with(Instant::now);
        drop(models);
        Self(Arc::clone(meter))
    }
}

impl Drop for AsksModel {
    fn drop(&mut self) {
        let mut models = self.0.models();
        models.n_open -= 1;
        if models.n_open == 0
            && let Some(since) = models.since.take()
        {
            models.before += since.elapsed();
        }
    }
}

/// What one poll before the first tick costs at most.
const MAX_BEFORE_TICK: Duration = TICK.saturating_mul(2);

impl Meter {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            spent_ns: AtomicU64::new(0),
            poll_began_ns: AtomicU64::new(0),
            is_at_tick: AtomicBool::new(false),
            has_ticked: AtomicBool::new(false),
            models: Mutex::default(),
        }
    }

    fn models(&self) -> MutexGuard<'_, ModelTime> {
        // Each critical section leaves the value usable.
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time since the call began in which it waited for no model; `None` while it waits for one.
    fn wall_time(&self) -> Option<Duration> {
        let models = self.models();
        match models.since {
            Some(_) => None,
            None => Some(self.origin.elapsed().saturating_sub(models.before)),
        }
    }

    /// Of the clock that counts now.
    fn now_ns(&self) -> u64 {
        if self.has_ticked.load(Ordering::Relaxed) {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            return Duration::try_from(now).map_or(0, as_nanos);
        }
        as_nanos(self.origin.elapsed())
    }

    fn begins(&self) {
        if self.is_at_tick.swap(false, Ordering::Relaxed) {
            self.has_ticked.store(true, Ordering::Relaxed);
        }
        self.poll_began_ns.store(self.now_ns(), Ordering::Relaxed);
    }

    /// What the poll in progress has cost.
    fn in_poll_ns(&self) -> u64 {
        let began = self.poll_began_ns.load(Ordering::Relaxed);
        let took = self.now_ns().saturating_sub(began);
        if self.has_ticked.load(Ordering::Relaxed) {
            return took;
        }
        took.min(as_nanos(MAX_BEFORE_TICK))
    }

    fn ends(&self) {
        self.spent_ns.fetch_add(self.in_poll_ns(), Ordering::Relaxed);
    }

    /// Of finished polls.
    pub(crate) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    /// With the poll in progress: to be asked from inside it.
    pub(crate) fn spent_so_far(&self) -> Duration {
        self.spent() + Duration::from_nanos(self.in_poll_ns())
    }

    /// Whether it has used more CPU time than short calls do.
    fn is_long(&self) -> bool {
        LONG < self.spent()
    }

    /// The poll in progress is about to end for the others' sake; the guest waits for nothing.
    pub(crate) fn yields_at_tick(&self) {
        self.is_at_tick.store(true, Ordering::Relaxed);
    }
}

fn as_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Why a call ends that has no answer.
pub(crate) enum Stop {
    /// Its wall-clock limit was reached.
    WallLimit,
    /// The process has no memory for it.
    Crowded(Crowded),
}

/// A call whose polls are metered, for which ticks come while it is polled, which has a processor while it
/// runs, which is held back while memory is short, and which ends at its wall-clock limit. Waiting for memory counts
/// against that limit. Waiting for a processor does not: it depends on the calls of others. Waiting for models does not
/// either: the server limits each of their requests, and how long they wait to be sent is not the guest's affair.
pub(crate) struct Bounded<'h, 'p, F> {
    meter: &'h Meter,
    ticker: &'h Ticker,
    slot: Slot<'p>,
    turn: Turn<'h>,
    wall: Duration,
    inner: Pin<&'h mut F>,
    /// Since when it waits for a processor.
    queued_since: Option<Instant>,
    /// How long it waited for one.
    queued: Duration,
    /// Made when the call first waits: most never do, and a timer costs more than a small guest.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<'h, 'p, F: Future> Bounded<'h, 'p, F> {
    pub(crate) fn new(
        meter: &'h Meter,
        ticker: &'h Ticker,
        (slot, turn): (Slot<'p>, Turn<'h>),
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
        self.meter.begins();
        let running = self.ticker.running();
        let answer = self.inner.as_mut().poll(cx);
        drop(running);
        self.meter.ends();
        if answer.is_pending() {
            if self.meter.is_at_tick.load(Ordering::Relaxed) {
                self.slot.slice_ends(cx, self.meter.is_long());
            } else {
                self.slot.sleeps();
                self.turn.sleeps(cx);
            }
        }
        answer
    }

    /// The processor has come.
    fn leaves_queue(&mut self) {
        let Some(since) = self.queued_since.take() else {
            return;
        };
        self.queued += since.elapsed();
        // Made anew when the call waits.
        self.timer = None;
    }

    /// What is left of the time on the wall; none while models are asked.
    fn left(&self) -> Option<Duration> {
        let used = self.meter.wall_time()?.saturating_sub(self.queued);
        Some(self.wall.saturating_sub(used))
    }
}

impl<F: Future> Future for Bounded<'_, '_, F> {
    type Output = Result<F::Output, Stop>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        match this.turn.poll(cx) {
            Poll::Ready(Ok(())) => {
                // A guest is not polled without a processor, and nothing ends it while it waits for one.
                if this.slot.poll_running(cx, this.meter.is_long()).is_pending() {
                    this.queued_since.get_or_insert_with(Instant::now);
                    return Poll::Pending;
                }
                this.leaves_queue();
                if let Poll::Ready(answer) = this.poll_guest(cx) {
                    return Poll::Ready(Ok(answer));
                }
            }
            Poll::Ready(Err(crowded)) => return Poll::Ready(Err(Stop::Crowded(crowded))),
            Poll::Pending => {
                this.leaves_queue();
                this.slot.sleeps();
            }
        }
        let Some(left) = this.left() else {
            // Made anew when the answer wakes this task.
            this.timer = None;
            return Poll::Pending;
        };
        let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
        timer.as_mut().poll(cx).map(|()| Err(Stop::WallLimit))
    }
}
