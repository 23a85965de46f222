//! The gates of all connections. Calls wait for a gate in order of arrival.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::endpoint::Endpoint;
use crate::failure::{Class, Failure};
use crate::gate::{Ended, Gate, Remaining, Seconds, Verdict};

/// Connections that are remembered.
const MAX_CONNECTIONS: usize = 4096;

/// A gate for each connection.
#[derive(Debug)]
pub(crate) struct Connections {
    begun: Instant,
    gates: Mutex<LruCache<String, Arc<Connection>>>,
}

#[derive(Debug)]
struct Connection {
    gate: Mutex<Gate>,
    /// Held by the first call in the queue, which waits for the gate. The others wait for this lock, in order.
    turn: tokio::sync::Mutex<()>,
    changed: Notify,
}

/// The right to send one request. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct Permit {
    connection: Arc<Connection>,
    begun: Instant,
    started: Seconds,
    is_ended: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each critical section leaves the value usable.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn seconds(begun: Instant) -> Seconds {
    begun.elapsed().as_secs_f64()
}

impl Connections {
    pub(crate) fn new() -> Self {
        Self {
            begun: Instant::now(),
            gates: Mutex::new(LruCache::new(MAX_CONNECTIONS)),
        }
    }

    fn of(&self, endpoint: &Endpoint) -> Arc<Connection> {
        let mut gates = locked(&self.gates);
        let new = || {
            Arc::new(Connection {
                gate: Mutex::new(Gate::new(endpoint.max_in_flight)),
                turn: tokio::sync::Mutex::new(()),
                changed: Notify::new(),
            })
        };
        let connection = gates.entry(endpoint.connection_id.clone());
        let connection = connection.or_insert_with(new).clone();
        locked(&connection.gate).set_max_in_flight(endpoint.max_in_flight);
        connection
    }

    /// Waits until a request may start on the connection.
    ///
    /// # Errors
    /// When that is not before the deadline.
    pub(crate) async fn enter(
        &self,
        endpoint: &Endpoint,
        deadline: Instant,
    ) -> Result<Permit, Failure> {
        let connection = self.of(endpoint);
        // Calls that cannot start before their deadline fail now, wherever they are in the queue.
        let now = seconds(self.begun);
        let closed = locked(&connection.gate).closed_until(now);
        let wait = closed.map(|until| Duration::from_secs_f64(until - now));
        if let Some(wait) = wait.filter(|wait| deadline < Instant::now() + *wait) {
            return Err(limited(endpoint, wait));
        }
        let Ok(_turn) = timeout_at(deadline, connection.turn.lock()).await else {
            return Err(busy(endpoint));
        };
        loop {
            let now = seconds(self.begun);
            let verdict = locked(&connection.gate).start(now);
            match verdict {
                Verdict::Go => {
                    return Ok(Permit {
                        connection: connection.clone(),
                        begun: self.begun,
                        started: now,
                        is_ended: false,
                    });
                }
                Verdict::At(at) => {
                    let wait = Duration::from_secs_f64((at - now).max(0.0));
                    let opens = Instant::now() + wait;
                    if deadline < opens {
                        return Err(limited(endpoint, wait));
                    }
                    tokio::time::sleep_until(opens).await;
                }
                Verdict::WhenFree => {
                    if timeout_at(deadline, connection.changed.notified())
                        .await
                        .is_err()
                    {
                        return Err(busy(endpoint));
                    }
                }
            }
        }
    }
}

impl Permit {
    /// Reports how the request ended, and what the provider says is left.
    pub(crate) fn end(mut self, ended: Ended, remaining: Remaining) {
        self.report(ended, remaining);
    }

    fn report(&mut self, ended: Ended, remaining: Remaining) {
        let now = seconds(self.begun);
        let mut gate = locked(&self.connection.gate);
        gate.end(self.started, now, ended);
        gate.remaining(now, remaining);
        drop(gate);
        self.is_ended = true;
        self.connection.changed.notify_one();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.is_ended {
            self.report(Ended::Otherwise { tokens: 0 }, Remaining::default());
        }
    }
}

fn limited(endpoint: &Endpoint, wait: Duration) -> Failure {
    let message = format!(
        "the connection {:?} is rate limited and accepts the next request in {} s",
        endpoint.provider,
        wait.as_secs() + 1
    );
    let mut failure = Failure::new(Class::RateLimited, message).after(Some(wait));
    failure.is_unsent = true;
    failure
}

fn busy(endpoint: &Endpoint) -> Failure {
    let message = format!(
        "all {1} places of the connection {0:?} stayed busy until the deadline of the call",
        endpoint.provider,
        endpoint.max_in_flight.max(1)
    );
    let mut failure = Failure::new(Class::RateLimited, message);
    failure.is_unsent = true;
    failure
}
