//! The connections that are open, and which of them makes room for another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use perpend_config::Answers;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the log says that there is no room.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The open connections, at most so many at a time.
#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
    answers: Answers,
    open: Mutex<Open>,
    /// There may be room, or a connection that can make some.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    n_open: usize,
    /// Those of them that were told to close.
    n_closing: usize,
    /// What closes each idle connection; the one that has been idle longest first.
    idle: BTreeMap<u64, CancellationToken>,
    n_idle_ever: u64,
    logged_at: Option<Instant>,
}

/// An open connection, which is idle unless it is [`Busy`].
#[derive(Debug)]
pub(super) struct Seat {
    connections: Arc<Connections>,
    close: CancellationToken,
    state: Mutex<State>,
    /// The last answer was given though its request was not read to the end.
    leaves_unread: AtomicBool,
}

#[derive(Debug)]
struct State {
    n_busy: usize,
    /// Its place among the idle ones.
    idle_at: u64,
    n_busy_ever: u64,
    /// The answers of which the client has to take something, and until when.
    untaken: BTreeSet<(Instant, u64)>,
}

/// A request or an answer under way: its connection is not idle.
#[derive(Debug)]
pub(super) struct Busy {
    seat: Arc<Seat>,
    number: u64,
    pace: Pace,
    /// When something was given, and when it has to be taken.
    untaken: Option<(Instant, Instant)>,
}

/// How long a client may take for an answer. It may fall behind the minimum rate by one pause; bytes that it takes catch
/// up. The time between two pieces, in which the server makes the next one, does not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    answers: Answers,
    /// Until the client is too far behind.
    left: Duration,
    /// Until the whole answer has to be taken.
    left_in_all: Duration,
}

impl Pace {
    pub(super) const fn new(answers: Answers) -> Self {
        Self { answers, left: answers.pause, left_in_all: answers.deadline }
    }

    /// When what is given now has to be taken.
    pub(super) fn due(&self, now: Instant) -> Instant {
        now + self.left.min(self.left_in_all)
    }

    /// The client took `n_bytes`, after it had been waited for.
    pub(super) fn took(&mut self, n_bytes: usize, waited: Duration) {
        let paid = n_bytes as f64 / f64::from(self.answers.min_bytes_per_second);
        // Nobody is ever behind by more than one pause, so what is paid beyond that counts for nothing.
        let paid = Duration::from_secs_f64(paid.min(self.answers.pause.as_secs_f64()));
        self.left = (self.left.saturating_sub(waited) + paid).min(self.answers.pause);
        self.left_in_all = self.left_in_all.saturating_sub(waited);
    }
}

// What these guard is whole between any two statements, also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Open {
    fn add_idle(&mut self, close: &CancellationToken) -> u64 {
        self.n_idle_ever += 1;
        self.idle.insert(self.n_idle_ever, close.clone());
        self.n_idle_ever
    }

    /// Whether it is time to say something again.
    fn may_log(&mut self) -> bool {
        let now = Instant::now();
        let may = self.logged_at.is_none_or(|at| LOG_PERIOD <= now - at);
        if may {
            self.logged_at = Some(now);
        }
        may
    }
}

impl Connections {
    pub(super) fn new(max: usize, answers: Answers) -> Arc<Self> {
        Arc::new(Self { max, answers, open: Mutex::default(), changed: Notify::new() })
    }

    /// Room for one more connection. When there is none, the connection that has been idle longest is closed; when
    /// none is idle, this waits for one. Only one caller may wait at a time.
    pub(super) async fn take(self: &Arc<Self>) -> Arc<Seat> {
        loop {
            if let Some(seat) = self.free() {
                return seat;
            }
            self.close_idle();
            self.changed.notified().await;
        }
    }

    fn free(self: &Arc<Self>) -> Option<Arc<Seat>> {
        let mut open = lock(&self.open);
        if self.max <= open.n_open {
            return None;
        }
        open.n_open += 1;
        let close = CancellationToken::new();
        let idle_at = open.add_idle(&close);
        Some(Arc::new(Seat {
            connections: Arc::clone(self),
            close,
            state: Mutex::new(State {
                n_busy: 0,
                idle_at,
                n_busy_ever: 0,
                untaken: BTreeSet::new(),
            }),
            leaves_unread: AtomicBool::new(false),
        }))
    }

    /// Makes room for one connection, unless some is being made. Whether there will be room.
    pub(super) fn close_idle(&self) -> bool {
        let mut open = lock(&self.open);
        if open.n_open - open.n_closing < self.max {
            return true;
        }
        let longest = open.idle.pop_first();
        if open.may_log() {
            let max_connections = self.max;
            match longest {
                Some(_) => tracing::warn!(
                    max_connections,
                    "connection limit reached: the connections that were idle longest are closed"
                ),
                None => tracing::warn!(
                    max_connections,
                    "connection limit reached and no connection is idle: new ones wait"
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

impl Seat {
    pub(super) fn leave_unread(&self, leaves: bool) {
        self.leaves_unread.store(leaves, Ordering::Relaxed);
    }

    pub(super) fn leaves_unread(&self) -> bool {
        self.leaves_unread.load(Ordering::Relaxed)
    }

    /// Keeps the connection from being idle.
    pub(super) fn busy(seat: &Arc<Self>) -> Busy {
        let mut state = lock(&seat.state);
        if state.n_busy == 0 {
            lock(&seat.connections.open).idle.remove(&state.idle_at);
        }
        state.n_busy += 1;
        state.n_busy_ever += 1;
        Busy {
            seat: Arc::clone(seat),
            number: state.n_busy_ever,
            pace: Pace::new(seat.connections.answers),
            untaken: None,
        }
    }

    /// Until the client has fallen behind the rate at which answers are taken.
    pub(super) async fn stalled(&self) {
        let pause = self.connections.answers.pause;
        while !self.is_behind() {
            tokio::time::sleep(pause / 4).await;
        }
    }

    /// Whether something of an answer should have been taken by now.
    fn is_behind(&self) -> bool {
        let state = lock(&self.state);
        let first = state.untaken.first();
        first.is_some_and(|(due, _)| *due <= Instant::now())
    }

    /// Until the connection has to make room for another.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }
}

impl Busy {
    /// There is something of an answer that the client has to take.
    pub(super) fn given(&mut self) {
        self.taken(0);
        let now = Instant::now();
        let due = self.pace.due(now);
        lock(&self.seat.state).untaken.insert((due, self.number));
        self.untaken = Some((now, due));
    }

    /// The client took these bytes.
    pub(super) fn taken(&mut self, n_bytes: usize) {
        /// Answers that share the rate of a connection, at most.
        const MAX_SHARED: usize = 32;
        if let Some((since, due)) = self.untaken.take() {
            let mut state = lock(&self.seat.state);
            let n_shared = state.untaken.len().clamp(1, MAX_SHARED);
            state.untaken.remove(&(due, self.number));
            drop(state);
            self.pace.took(n_bytes * n_shared, since.elapsed());
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.taken(0);
        let seat = &self.seat;
        let mut state = lock(&seat.state);
        state.n_busy -= 1;
        if state.n_busy == 0 && !seat.close.is_cancelled() {
            state.idle_at = lock(&seat.connections.open).add_idle(&seat.close);
            seat.connections.changed.notify_one();
        }
    }
}

impl Drop for Seat {
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

    pub(in super::super) const ANSWERS: Answers = Answers {
        max_in_flight_bytes: 0,
        timeout: Duration::from_secs(1),
        pause: Duration::from_secs(60),
        min_bytes_per_second: 1_000,
        deadline: Duration::from_secs(3_600),
    };

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_makes_room_and_busy_ones_stay() {
        let connections = Connections::new(3, ANSWERS);
        let first = connections.take().await;
        let second = connections.take().await;
        let third = connections.take().await;
        // The first is idle again, for less long than the third; the second is not.
        drop(Seat::busy(&first));
        let busy = Seat::busy(&second);
        let mut context = Context::from_waker(Waker::noop());
        let mut next = pin!(connections.take());
        assert!(next.as_mut().poll(&mut context).is_pending());
        third.closed().await;
        assert!(next.as_mut().poll(&mut context).is_pending(), "not closed yet");
        assert!(!first.close.is_cancelled(), "one is enough");
        drop(third);
        let Poll::Ready(_fourth) = next.as_mut().poll(&mut context) else {
            unreachable!("there is room");
        };
        assert!(!second.close.is_cancelled());
        drop(busy);
    }

    #[tokio::test]
    async fn an_answer_has_to_be_taken_from_when_it_is_given_until_it_is_taken_or_dropped() {
        let at_once = Answers { pause: Duration::ZERO, ..ANSWERS };
        let seat = Connections::new(1, at_once).take().await;
        let (mut first, mut second) = (Seat::busy(&seat), Seat::busy(&seat));
        assert!(!seat.is_behind());
        first.given();
        second.given();
        first.taken(1);
        assert!(seat.is_behind());
        drop(second);
        assert!(!seat.is_behind());
        let patient = Connections::new(1, ANSWERS).take().await;
        let mut third = Seat::busy(&patient);
        third.given();
        third.given();
        assert!(!patient.is_behind());
        third.taken(1);
        assert!(lock(&patient.state).untaken.is_empty());
    }

    const SECOND: Duration = Duration::from_secs(1);

    /// How long an answer lasts of which the client takes `n_bytes` every `step`.
    fn lasts(n_bytes: usize, step: Duration) -> Duration {
        let mut pace = Pace::new(ANSWERS);
        let start = Instant::now();
        let mut now = start;
        while now + step < pace.due(now) {
            now += step;
            pace.took(n_bytes, step);
        }
        pace.due(now) - start
    }

    #[test]
    fn a_client_that_takes_a_trickle_is_given_up_little_later_than_one_that_takes_nothing() {
        assert_eq!(lasts(0, SECOND), ANSWERS.pause);
        assert!(lasts(250, SECOND) < 2 * ANSWERS.pause);
        // At the rate, with pauses.
        assert_eq!(lasts(1_000, SECOND), ANSWERS.deadline);
        assert_eq!(lasts(59_000, 59 * SECOND), ANSWERS.deadline);
    }

    #[tokio::test]
    async fn while_all_are_busy_a_new_connection_waits_for_the_first_that_is_not() {
        let connections = Connections::new(1, ANSWERS);
        let seat = connections.take().await;
        let (request, other) = (Seat::busy(&seat), Seat::busy(&seat));
        let mut context = Context::from_waker(Waker::noop());
        let mut next = pin!(connections.take());
        assert!(next.as_mut().poll(&mut context).is_pending());
        drop(request);
        assert!(next.as_mut().poll(&mut context).is_pending());
        assert!(!seat.close.is_cancelled());
        drop(other);
        assert!(next.as_mut().poll(&mut context).is_pending());
        seat.closed().await;
        // A request that came while it was told to close changes nothing.
        drop(Seat::busy(&seat));
        drop(seat);
        assert!(next.as_mut().poll(&mut context).is_ready());
        assert!(lock(&connections.open).idle.is_empty());
    }
}
