//! The connections that are open, and which of them makes room for another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How often the log says that there is no room.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The open connections, at most so many at a time.
#[derive(Debug)]
pub(super) struct Connections {
    max: usize,
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
    /// The answers of which the client has to take something, and since when.
    untaken: BTreeSet<(Instant, u64)>,
}

/// A request or an answer under way: its connection is not idle.
#[derive(Debug)]
pub(super) struct Busy {
    seat: Arc<Seat>,
    number: u64,
    untaken_since: Option<Instant>,
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
    pub(super) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            open: Mutex::default(),
            changed: Notify::new(),
        })
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
            untaken_since: None,
        }
    }

    /// Until the client has left something of an answer untaken for so long.
    pub(super) async fn stalled(&self, limit: Duration) {
        while !self.has_untaken(limit) {
            tokio::time::sleep(limit / 4).await;
        }
    }

    /// Whether something of an answer is untaken for so long.
    fn has_untaken(&self, limit: Duration) -> bool {
        let state = lock(&self.state);
        let longest = state.untaken.first();
        longest.is_some_and(|(since, _)| limit <= since.elapsed())
    }

    /// Until the connection has to make room for another.
    pub(super) async fn closed(&self) {
        self.close.cancelled().await;
    }
}

impl Busy {
    /// There is something of an answer that the client has to take.
    pub(super) fn given(&mut self) {
        self.taken();
        let now = Instant::now();
        lock(&self.seat.state).untaken.insert((now, self.number));
        self.untaken_since = Some(now);
    }

    /// The client took it.
    pub(super) fn taken(&mut self) {
        if let Some(since) = self.untaken_since.take() {
            lock(&self.seat.state).untaken.remove(&(since, self.number));
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.taken();
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
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn the_connection_that_is_idle_longest_makes_room_and_busy_ones_stay() {
        let connections = Connections::new(3);
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
        assert!(
            next.as_mut().poll(&mut context).is_pending(),
            "not closed yet"
        );
        assert!(!first.close.is_cancelled(), "one is enough");
        drop(third);
        let Poll::Ready(_fourth) = next.as_mut().poll(&mut context) else {
            unreachable!("there is room");
        };
        assert!(!second.close.is_cancelled());
        drop(busy);
    }

    #[tokio::test]
    async fn an_answer_is_untaken_from_when_it_is_given_until_it_is_taken_or_dropped() {
        let seat = Connections::new(1).take().await;
        let (mut first, mut second) = (Seat::busy(&seat), Seat::busy(&seat));
        assert!(!seat.has_untaken(Duration::ZERO));
        first.given();
        second.given();
        first.taken();
        assert!(seat.has_untaken(Duration::ZERO));
        assert!(!seat.has_untaken(Duration::from_secs(3_600)));
        drop(second);
        assert!(!seat.has_untaken(Duration::ZERO));
        first.given();
        first.given();
        first.taken();
        assert!(!seat.has_untaken(Duration::ZERO));
    }

    #[tokio::test]
    async fn while_all_are_busy_a_new_connection_waits_for_the_first_that_is_not() {
        let connections = Connections::new(1);
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
