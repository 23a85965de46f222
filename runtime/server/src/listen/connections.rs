//! Open connections, with a limit and eviction of idle ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use perpend_config::Answers;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Minimum interval of log messages about the limit.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The open connections, up to a limit.
#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
    answers: Answers,
    open: Mutex<Open>,
    /// Notified when a connection becomes idle or is closed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    n_open: usize,
    /// Open connections whose close was requested.
    n_closing: usize,
    /// Close tokens of idle connections; the one that has been idle longest is first.
    idle: BTreeMap<u64, CancellationToken>,
    idle_sequence: u64,
    logged_at: Option<Instant>,
}

/// An open connection, which is idle unless it has an [`ActiveRequest`].
#[derive(Debug)]
pub(super) struct Slot {
    connections: Arc<Connections>,
    close: CancellationToken,
    state: Mutex<State>,
    /// Whether the last response was sent before the request body was read completely.
    has_unread_body: AtomicBool,
}

#[derive(Debug)]
struct State {
    n_active: usize,
    /// Key in the map of idle connections.
    idle_at: u64,
    request_sequence: u64,
    /// Deadlines of responses with unread data, by request number.
    pending: BTreeSet<(Instant, u64)>,
}

/// A request or response in progress, which keeps its connection from being idle.
#[derive(Debug)]
pub(super) struct ActiveRequest {
    slot: Arc<Slot>,
    number: u64,
    pace: Pace,
    /// When the last piece was passed, and the deadline for reading it.
    pending: Option<(Instant, Instant)>,
}

/// Time budget of a client for reading a response. The client may fall behind the minimum rate by one pause; bytes that it reads
/// extend the budget. Time in which the server produces the next piece does not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    answers: Answers,
    /// Remaining time until the client is too far behind.
    left: Duration,
    /// Remaining time for the complete response.
    left_in_total: Duration,
}

impl Pace {
    pub(super) const fn new(answers: Answers) -> Self {
        Self { answers, left: answers.pause, left_in_total: answers.deadline }
    }

    /// Deadline for data passed now.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        now + self.left.min(self.left_in_total)
    }

    /// Records that the client read `n_bytes` after the server had waited for this time.
    pub(super) fn record_read(&mut self, n_bytes: usize, waited: Duration) {
        let earned = n_bytes as f64 / f64::from(self.answers.min_bytes_per_second);
        // The budget never exceeds one pause.
        let earned = Duration::from_secs_f64(earned.min(self.answers.pause.as_secs_f64()));
        self.left = (self.left.saturating_sub(waited) + earned).min(self.answers.pause);
        self.left_in_total = self.left_in_total.saturating_sub(waited);
    }
}

// The guarded data is consistent between statements, so a poisoned lock can be used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Open {
    fn add_idle(&mut self, close: &CancellationToken) -> u64 {
        self.idle_sequence += 1;
        self.idle.insert(self.idle_sequence, close.clone());
        self.idle_sequence
    }

    /// Whether a message about the limit may be logged now.
    fn should_log(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.logged_at.is_none_or(|at| LOG_PERIOD <= now - at);
        if is_due {
            self.logged_at = Some(now);
        }
        is_due
    }
}

impl Connections {
    pub(super) fn new(max: usize, answers: Answers) -> Arc<Self> {
        Arc::new(Self { max, answers, open: Mutex::default(), changed: Notify::new() })
    }

    /// Reserves a slot for a connection. At the limit, the connection that has been idle longest is closed; if none is idle, waits
    /// for one. Only one caller may wait at a time.
    pub(super) async fn acquire(self: &Arc<Self>) -> Arc<Slot> {
        loop {
            if let Some(slot) = self.try_acquire() {
                return slot;
            }
            self.close_idle();
            self.changed.notified().await;
        }
    }

    fn try_acquire(self: &Arc<Self>) -> Option<Arc<Slot>> {
        let mut open = lock(&self.open);
        if self.max <= open.n_open {
            return None;
        }
        open.n_open += 1;
        let close = CancellationToken::new();
        let idle_at = open.add_idle(&close);
        Some(Arc::new(Slot {
            connections: Arc::clone(self),
            close,
            state: Mutex::new(State {
                n_active: 0,
                idle_at,
                request_sequence: 0,
                pending: BTreeSet::new(),
            }),
            has_unread_body: AtomicBool::new(false),
        }))
    }

    /// Closes an idle connection if the limit is reached. Returns whether there is or will be a free slot.
    pub(super) fn close_idle(&self) -> bool {
        let mut open = lock(&self.open);
        if open.n_open - open.n_closing < self.max {
            return true;
        }
        let longest = open.idle.pop_first();
        if open.should_log() {
            let max_connections = self.max;
            match longest {
                Some(_) => tracing::warn!(
                    max_connections,
                    "connection limit reached; closing the connections that were idle longest"
                ),
                None => tracing::warn!(
                    max_connections,
                    "connection limit reached and no connection is idle; new connections wait"
                ),
            }
        }
        let Some((_, close)) = longest else {
            return false;
        };
        open.n_closing += 1;
        close.cancel();
        true
    }
}

impl Slot {
    pub(super) fn set_unread_body(&self, has_unread: bool) {
        self.has_unread_body.store(has_unread, Ordering::Relaxed);
    }

    pub(super) fn has_unread_body(&self) -> bool {
        self.has_unread_body.load(Ordering::Relaxed)
    }

    /// Marks the connection as active until the result is dropped.
    pub(super) fn activate(slot: &Arc<Self>) -> ActiveRequest {
        let mut state = lock(&slot.state);
        if state.n_active == 0 {
            lock(&slot.connections.open).idle.remove(&state.idle_at);
        }
        state.n_active += 1;
        state.request_sequence += 1;
        ActiveRequest {
            slot: Arc::clone(slot),
            number: state.request_sequence,
            pace: Pace::new(slot.connections.answers),
            pending: None,
        }
    }

    /// Completes when the client has fallen behind the minimum rate.
    pub(super) async fn stalled(&self) {
        let pause = self.connections.answers.pause;
        while !self.is_behind() {
            tokio::time::sleep(pause / 4).await;
        }
    }

    /// Whether a deadline of a response has passed.
    fn is_behind(&self) -> bool {
        let state = lock(&self.state);
        let first = state.pending.first();
        first.is_some_and(|(deadline, _)| *deadline <= Instant::now())
    }

    /// Completes when the connection must be closed because of the limit.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }
}

impl ActiveRequest {
    /// Records that a piece of the response was passed to hyper.
    pub(super) fn record_passed(&mut self) {
        self.record_read(0);
        let now = Instant::now();
        let deadline = self.pace.deadline(now);
        lock(&self.slot.state).pending.insert((deadline, self.number));
        self.pending = Some((now, deadline));
    }

    /// Records that the client read these bytes.
    pub(super) fn record_read(&mut self, n_bytes: usize) {
        /// Maximum number of responses among which the rate of a connection is divided.
        const MAX_SHARED: usize = 32;
        if let Some((since, deadline)) = self.pending.take() {
            let mut state = lock(&self.slot.state);
            let n_shared = state.pending.len().clamp(1, MAX_SHARED);
            state.pending.remove(&(deadline, self.number));
            drop(state);
            self.pace.record_read(n_bytes * n_shared, since.elapsed());
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.record_read(0);
        let slot = &self.slot;
        let mut state = lock(&slot.state);
        state.n_active -= 1;
        if state.n_active == 0 && !slot.close.is_cancelled() {
            state.idle_at = lock(&slot.connections.open).add_idle(&slot.close);
            slot.connections.changed.notify_one();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let state = lock(&self.state);
        let mut open = lock(&self.connections.open);
        open.idle.remove(&state.idle_at);
        open.n_open -= 1;
        if self.close.is_cancelled() {
            open.n_closing -= 1;
        }
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    pub(in super::super) const LIMITS: Answers = Answers {
        max_in_flight_bytes: 0,
        timeout: Duration::from_secs(1),
        pause: Duration::from_secs(60),
        min_bytes_per_second: 1_000,
        deadline: Duration::from_secs(3_600),
    };

    #[tokio::test]
    async fn at_the_limit_the_longest_idle_connection_is_closed_and_active_ones_are_kept() {
        let connections = Connections::new(3, LIMITS);
        let first = connections.acquire().await;
        let second = connections.acquire().await;
        let third = connections.acquire().await;
        // The first has been idle for less time than the third; the second is active.
        drop(Slot::activate(&first));
        let busy = Slot::activate(&second);
        let mut context = Context::from_waker(Waker::noop());
        let mut next = pin!(connections.acquire());
        assert!(next.as_mut().poll(&mut context).is_pending());
        third.closed().await;
        assert!(next.as_mut().poll(&mut context).is_pending(), "not closed yet");
        assert!(!first.close.is_cancelled(), "only one is closed");
        drop(third);
        let Poll::Ready(_fourth) = next.as_mut().poll(&mut context) else {
            unreachable!("a slot is free");
        };
        assert!(!second.close.is_cancelled());
        drop(busy);
    }

    #[tokio::test]
    async fn a_response_has_a_deadline_from_passing_a_piece_until_it_is_read_or_dropped() {
        let at_once = Answers { pause: Duration::ZERO, ..LIMITS };
        let slot = Connections::new(1, at_once).acquire().await;
        let (mut first, mut second) = (Slot::activate(&slot), Slot::activate(&slot));
        assert!(!slot.is_behind());
        first.record_passed();
        second.record_passed();
        first.record_read(1);
        assert!(slot.is_behind());
        drop(second);
        assert!(!slot.is_behind());
        let patient = Connections::new(1, LIMITS).acquire().await;
        let mut third = Slot::activate(&patient);
        third.record_passed();
        third.record_passed();
        assert!(!patient.is_behind());
        third.record_read(1);
        assert!(lock(&patient.state).pending.is_empty());
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// Time until the deadline if the client reads `n_bytes` per `interval`.
    fn lifetime(n_bytes: usize, interval: Duration) -> Duration {
        let mut pace = Pace::new(LIMITS);
        let start = Instant::now();
        let mut now = start;
        while now + interval < pace.deadline(now) {
            now += interval;
            pace.record_read(n_bytes, interval);
        }
        pace.deadline(now) - start
    }

    #[test]
    fn a_client_below_the_minimum_rate_reaches_its_deadline_soon() {
        assert_eq!(lifetime(0, SECOND), LIMITS.pause);
        assert!(lifetime(250, SECOND) < 2 * LIMITS.pause);
        // At the minimum rate, with pauses.
        assert_eq!(lifetime(1_000, SECOND), LIMITS.deadline);
        assert_eq!(lifetime(59_000, 59 * SECOND), LIMITS.deadline);
    }

    #[tokio::test]
    async fn while_all_connections_are_active_a_new_one_waits() {
        let connections = Connections::new(1, LIMITS);
        let slot = connections.acquire().await;
        let (request, other) = (Slot::activate(&slot), Slot::activate(&slot));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = pin!(connections.acquire());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(request);
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(!slot.close.is_cancelled());
        drop(other);
        assert!(next.as_mut().poll(&mut context).is_pending());
        slot.closed().await;
        // A request during the close has no effect.
        drop(Slot::activate(&slot));
        drop(slot);
        assert!(next.as_mut().poll(&mut context).is_ready());
        assert!(lock(&connections.open).idle.is_empty());
    }
}
