//! Connections whose provider refuses their key or has no credit left for them: no further request is sent to them until the
//! connection is saved, a trial succeeds, or the next probe is due.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};
use crate::observe::Priority;

/// Connections that are remembered.
const MAX_CONNECTIONS: usize = 4096;
/// After this time one request may try the connection again.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Refusals(Mutex<LruCache<String, Arc<Entry>>>);

#[derive(Debug, Default)]
struct Entry {
    refusal: Mutex<Option<Refusal>>,
    /// Held by the request that tries a refused connection.
    probe: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Clone, Debug)]
struct Refusal {
    /// When the connection was saved that was refused.
    saved_at: i64,
    failure: Failure,
    at: Instant,
}

/// Held by the one request that tries a refused connection.
pub(crate) type Probe = OwnedMutexGuard<()>;

/// A request that is about to be sent.
#[derive(Debug)]
pub(crate) struct Attempt {
    entry: Arc<Entry>,
    saved_at: i64,
    probe: Option<Probe>,
}

impl Refusal {
    /// The failure of a request that is not sent because of it.
    fn unsent(self) -> Failure {
        Failure { is_unsent: true, ..self.failure }
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Option<Refusal>> {
        // Each critical section leaves the value usable.
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The refusal that is in force for this connection.
    fn refusal(&self, endpoint: &Endpoint) -> Option<Refusal> {
        let mut refusal = self.lock();
        if refusal.as_ref().is_some_and(|known| known.saved_at < endpoint.saved_at) {
            *refusal = None;
        }
        refusal.clone()
    }
}

impl Refusals {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_CONNECTIONS)))
    }

    fn of(&self, endpoint: &Endpoint) -> Arc<Entry> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = all.entry(endpoint.connection_id.clone());
        Arc::clone(entry.or_insert_with(Arc::default))
    }

    /// Whether a request may wait for a place of the connection. An interactive one tries a refused connection, and waits
    /// before that for any other that does: here, where it holds no place.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) async fn enter(
        &self,
        endpoint: &Endpoint,
        priority: Priority,
    ) -> Result<Option<Probe>, Failure> {
        let entry = self.of(endpoint);
        let Some(refusal) = entry.refusal(endpoint) else {
            return Ok(None);
        };
        let is_due = PROBE_INTERVAL <= refusal.at.elapsed();
        match (priority, is_due) {
            (Priority::Interactive, _) => {
                let probe = Arc::clone(&entry.probe).lock_owned().await;
                // The one before may have succeeded.
                Ok(entry.refusal(endpoint).map(|_| probe))
            }
            (Priority::Background, true) => Ok(None),
            (Priority::Background, false) => Err(refusal.unsent()),
        }
    }

    /// Lets a request that has a place pass, or fails with what the provider answered to the last one. It never waits.
    ///
    /// # Errors
    /// The connection is refused, and this request is not the one that tries it again.
    pub(crate) fn begin(
        &self,
        endpoint: &Endpoint,
        priority: Priority,
        entered: Option<Probe>,
    ) -> Result<Attempt, Failure> {
        let entry = self.of(endpoint);
        let mut probe = entered;
        if let Some(refusal) = entry.refusal(endpoint).filter(|_| probe.is_none()) {
            let is_due = PROBE_INTERVAL <= refusal.at.elapsed();
            if is_due || priority == Priority::Interactive {
                probe = Arc::clone(&entry.probe).try_lock_owned().ok();
            }
            // Another probe may have succeeded meanwhile.
            if let Some(refusal) = entry.refusal(endpoint).filter(|_| probe.is_none()) {
                return Err(refusal.unsent());
            }
        }
        Ok(Attempt { entry, saved_at: endpoint.saved_at, probe })
    }
}

impl Attempt {
    /// Notes how the request ended. Only a probe proves that a refused connection works again: an answer to another
    /// request may be older than the refusal. An error that the provider sends only after it took the key proves it, too.
    pub(crate) fn end(self, failure: Option<&Failure>) {
        let mut refusal = self.entry.lock();
        let is_proof = failure.is_none_or(|failure| is_after_key(failure.class));
        let is_outdated = |known: &Refusal| self.saved_at < known.saved_at;
        match failure.filter(|failure| is_refusal(failure.class)) {
            Some(failure) if !refusal.as_ref().is_some_and(is_outdated) => {
                *refusal = Some(Refusal {
                    saved_at: self.saved_at,
                    failure: failure.clone(),
                    at: Instant::now(),
                });
            }
            None if is_proof && self.probe.is_some() => *refusal = None,
            _ => {}
        }
    }
}

/// Whether no other request of the connection would succeed either.
const fn is_refusal(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::AuthInvalid | ErrorClass::BillingExhausted | ErrorClass::AccountNotReady
    )
}

/// Whether a provider that fails a request in this way has accepted its key.
const fn is_after_key(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::RateLimited
            | ErrorClass::InvalidInput
            | ErrorClass::ContextTooLong
            | ErrorClass::Refused
            | ErrorClass::ModelUnavailable
            | ErrorClass::ModelConfigInvalid
    )
}
