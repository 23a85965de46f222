//! The gates of all connections and their queues of waiting requests.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};
use crate::gate::{Decision, Gate, Remaining, RequestEnd, Seconds};
use crate::observer::QueueKey;
use crate::queue::{Queue, Ticket};

/// Maximum number of connections with state.
const MAX_CONNECTIONS: usize = 4096;

/// A gate for each connection.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Origin of [`Seconds`].
    origin: Instant,
    gates: Mutex<LruCache<String, Arc<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    origin: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    gate: Gate,
    /// When the connection was saved, as of the last request.
    saved_at: i64,
    /// When the provider last sent `Retry-After`.
    closed_at: Option<Seconds>,
    waiting: Queue<Waiter>,
    /// When the next timer fires.
    timer: Option<Seconds>,
}

/// Current usage of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// Requests without a response.
    pub n_in_flight: usize,
    /// Requests that wait for a slot.
    pub n_waiting: usize,
    /// Remaining pause of the connection, when it is paused.
    pub closed_for: Option<Duration>,
}

/// A pause of a connection because of `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionPause {
    /// Time since the start of the pause.
    pub elapsed: Duration,
    /// Time until the next request may start.
    pub remaining: Duration,
}

/// A request that waits for a slot.
struct Waiter {
    provider: String,
    /// Maximum time to wait for a closed gate. Waiting for a slot is not limited.
    patience: Duration,
    granted: oneshot::Sender<Result<Permit, Failure>>,
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

/// The right to send one request.
///
/// Dropped before [`Self::mark_sent`], it returns the slot as if the request had never started.
#[derive(Debug)]
pub(crate) struct Permit {
    connection: Arc<Connection>,
    started: Seconds,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Granted,
    Sent,
    Ended,
}

/// Removes the request from the queue when the waiting call is dropped.
struct QueueGuard<'c> {
    connection: &'c Connection,
    ticket: Ticket,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        locked(&self.connection.state).waiting.remove(&self.ticket);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No critical section leaves an invalid value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self { origin: Instant::now(), gates: Mutex::new(LruCache::new(MAX_CONNECTIONS)) }
    }

    fn of(&self, endpoint: &Endpoint) -> Arc<Connection> {
        let mut gates = locked(&self.gates);
        let new = || {
            Arc::new(Connection {
                origin: self.origin,
                state: Mutex::new(State {
                    gate: Gate::new(endpoint.max_in_flight),
                    saved_at: endpoint.saved_at,
                    closed_at: None,
                    waiting: Queue::new(),
                    timer: None,
                }),
            })
        };
        let connection = gates.entry(endpoint.connection_id.clone());
        let connection = connection.or_insert_with(new).clone();
        let mut state = locked(&connection.state);
        state.gate.set_max_in_flight(endpoint.max_in_flight);
        if state.saved_at < endpoint.saved_at {
            state.saved_at = endpoint.saved_at;
            state.gate.reopen();
        }
        drop(state);
        connection
    }

    /// The pause of a connection; `None` when it accepts requests.
    pub(crate) fn pause(&self, connection_id: &str) -> Option<ConnectionPause> {
        let connection = locked(&self.gates).peek(connection_id).cloned()?;
        let now = connection.now();
        let state = locked(&connection.state);
        let until = state.gate.closed_until(now)?;
        let since = state.closed_at.unwrap_or(now);
        Some(ConnectionPause {
            elapsed: Duration::from_secs_f64((now - since).max(0.0)),
            remaining: Duration::from_secs_f64(until - now),
        })
    }

    /// Current usage of a connection.
    pub(crate) fn usage(&self, connection_id: &str) -> ConnectionUsage {
        let connection = locked(&self.gates).peek(connection_id).cloned();
        let Some(connection) = connection else {
            return ConnectionUsage::default();
        };
        let now = connection.now();
        let state = locked(&connection.state);
        let closed_until = state.gate.closed_until(now);
        ConnectionUsage {
            n_in_flight: state.gate.n_in_flight(),
            n_waiting: state.waiting.len(),
            closed_for: closed_until.map(|until| Duration::from_secs_f64(until - now)),
        }
    }

    /// Waits for a slot on the connection, without a time limit.
    ///
    /// # Errors
    /// When the gate will be closed for longer than `patience`.
    pub(crate) async fn enter(
        &self,
        endpoint: &Endpoint,
        key: QueueKey,
        patience: Duration,
    ) -> Result<Permit, Failure> {
        let connection = self.of(endpoint);
        let (granted, grant) = oneshot::channel();
        let waiter = Waiter { provider: endpoint.provider.clone(), patience, granted };
        let ticket = locked(&connection.state).waiting.push(key, waiter);
        let _guard = QueueGuard { connection: &connection, ticket };
        connection.dispatch();
        grant.await.unwrap_or_else(|_| {
            let message = "the queue of the connection was dropped";
            Err(Failure::new(ErrorClass::Internal, message))
        })
    }
}

impl Connection {
    fn now(&self) -> Seconds {
        self.origin.elapsed().as_secs_f64()
    }

    /// Grants free slots in queue order, and rejects requests that would wait too long for a closed gate.
    fn dispatch(self: &Arc<Self>) {
        loop {
            let now = self.now();
            let mut state = locked(&self.state);
            if let Some(until) = state.gate.closed_until(now) {
                let wait = Duration::from_secs_f64(until - now);
                let rejected = state.waiting.extract_if(|waiter: &Waiter| waiter.patience < wait);
                for waiter in rejected {
                    let failure = limited(&waiter.provider, wait);
                    // The call may have been dropped.
                    drop(waiter.granted.send(Err(failure)));
                }
            }
            if state.waiting.is_empty() {
                return;
            }
            match state.gate.start(now) {
                Decision::Start => {}
                Decision::At(at) => return self.dispatch_at(&mut state, at),
                Decision::WhenFree => return,
            }
            let Some(waiter) = state.waiting.pop() else {
                state.gate.undo();
                return;
            };
            drop(state);
            let permit =
                Permit { connection: Arc::clone(self), started: now, stage: Stage::Granted };
            if let Err(Ok(mut permit)) = waiter.granted.send(Ok(permit)) {
                // The call was dropped: the next one gets the slot.
                permit.stage = Stage::Ended;
                locked(&self.state).gate.undo();
            }
        }
    }

    fn dispatch_at(self: &Arc<Self>, state: &mut State, at: Seconds) {
        if state.timer.is_some_and(|timer| timer <= at) {
            return;
        }
        // There is no runtime while the process shuts down.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        state.timer = Some(at);
        let opens = self.origin + Duration::from_secs_f64(at);
        let connection = Arc::downgrade(self);
        runtime.spawn(async move {
            tokio::time::sleep_until(opens).await;
            let Some(connection) = connection.upgrade() else {
                return;
            };
            locked(&connection.state).timer.take_if(|timer| *timer <= at);
            connection.dispatch();
        });
    }
}

impl Permit {
    /// Marks the request as sent: it counts even when the call is dropped.
    pub(crate) fn mark_sent(&mut self) {
        self.stage = Stage::Sent;
    }

    /// Reports the end of the request and the remaining quota of the provider.
    pub(crate) fn end(mut self, ended: RequestEnd, remaining: Remaining) {
        self.report(ended, remaining);
    }

    fn report(&mut self, ended: RequestEnd, remaining: Remaining) {
        self.stage = Stage::Ended;
        let now = self.connection.now();
        let mut state = locked(&self.connection.state);
        state.gate.end(self.started, now, ended);
        state.gate.remaining(now, remaining);
        if state.gate.closed_until(now).is_some() {
            state.closed_at = Some(now);
        }
        drop(state);
        self.connection.dispatch();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        match self.stage {
            Stage::Granted => {
                self.stage = Stage::Ended;
                locked(&self.connection.state).gate.undo();
                self.connection.dispatch();
            }
            Stage::Sent => self.report(RequestEnd::Otherwise { tokens: 0 }, Remaining::default()),
            Stage::Ended => {}
        }
    }
}

fn limited(provider: &str, wait: Duration) -> Failure {
    let message = format!(
        "the connection {provider:?} is rate limited and accepts the next request in {} s",
        wait.as_secs() + 1
    );
    let mut failure = Failure::new(ErrorClass::RateLimited, message).after(Some(wait));
    failure.is_unsent = true;
    failure
}
