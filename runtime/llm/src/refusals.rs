//! Connections whose key the provider rejects, or whose account has no credit. No request is sent until the connection is
//! saved, a trial succeeds, or the next probe is due.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashlink::LruCache;
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::endpoint::Endpoint;
use crate::failure::{ErrorClass, Failure};
use crate::observer::Priority;

/// Maximum number of connections with state.
const MAX_CONNECTIONS: usize = 4096;
/// After this time one request may probe the connection.
const PROBE_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Refusals(Mutex<LruCache<String, Arc<Entry>>>);

#[derive(Debug, Default)]
struct Entry {
    refusal: Mutex<Option<Refusal>>,
    /// Locked by the request that probes a refused connection.
    probe: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Clone, Debug)]
struct Refusal {
    /// `saved_at` of the refused connection.
    saved_at: i64,
    failure: Failure,
    at: Instant,
}

/// The right of one request to probe a refused connection.
pub(crate) type Probe = OwnedMutexGuard<()>;

/// A request that is about to be sent.
#[derive(Debug)]
pub(crate) struct Attempt {
    entry: Arc<Entry>,
    saved_at: i64,
    probe: Option<Probe>,
}

impl Refusal {
    /// The failure of a request that is not sent because of the refusal.
    fn unsent(self) -> Failure {
        Failure { is_unsent: true, ..self.failure }
    }
}

impl Entry {
    fn lock(&self) -> MutexGuard<'_, Option<Refusal>> {
        // No critical section leaves an invalid value.
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current refusal of this connection.
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

    /// Decides whether a request may wait for a slot on the connection. An interactive request probes a refused connection,
    /// and first waits here, without a slot, for any other probe.
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
                // The previous probe may have succeeded.
                Ok(entry.refusal(endpoint).map(|_| probe))
            }
            (Priority::Background, true) => Ok(None),
            (Priority::Background, false) => Err(refusal.unsent()),
        }
    }

    /// Admits a request that has a slot, or fails with the last error of the provider. Does not wait.
    ///
    /// # Errors
    /// When the connection is refused and this request is not its probe.
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
    /// Records the end of the request. Only a probe ends a refusal, because the response to another request may be older than
    /// the refusal. An error that the provider sends only after it accepted the key ends it as well.
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

/// Whether all other requests of the connection would fail too.
const fn is_refusal(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::AuthInvalid | ErrorClass::BillingExhausted | ErrorClass::AccountNotReady
    )
}

/// Whether the provider accepts the key before it fails a request with this class.
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
