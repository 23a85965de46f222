//! Caches for a day, per model, which structure method worked and which parameters the provider rejects.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use perpend_domain::time::Timestamp;

use crate::endpoint::Endpoint;
use crate::observer::StructureMethod;

const DAY_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// Maximum number of models in the cache.
const MAX_MODELS: usize = 4096;

/// A deviation from the protocol that a provider requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Quirk {
    /// The output limit has the other name of `max_tokens` and `max_completion_tokens`.
    OtherLimitName,
    NoSeed,
    NoLogprobs,
}

/// Known capabilities of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) structure: Option<StructureMethod>,
    pub(crate) quirks: BTreeSet<Quirk>,
}

#[derive(Debug)]
pub(crate) struct CapabilityCache(Mutex<LruCache<String, (Capabilities, Timestamp)>>);

/// Includes the address, so that a change of the address resets the capabilities.
fn key(endpoint: &Endpoint, model: &str) -> String {
    format!(
        "{}\n{}\n{}\n{}\n{model}",
        endpoint.connection_id,
        endpoint.protocol.name(),
        endpoint.use_responses_api,
        endpoint.base_url.as_deref().unwrap_or_default(),
    )
}

impl CapabilityCache {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_MODELS)))
    }

    pub(crate) fn get(&self, endpoint: &Endpoint, model: &str, now: Timestamp) -> Capabilities {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = key(endpoint, model);
        match all.get(&key) {
            Some((known, at)) if now.micros_since(*at) < DAY_MICROS => known.clone(),
            Some(_) => {
                all.remove(&key);
                Capabilities::default()
            }
            None => Capabilities::default(),
        }
    }

    /// Stores changed capabilities. Unchanged ones keep their age, so that better methods are tried again after a day.
    pub(crate) fn put(
        &self,
        endpoint: &Endpoint,
        model: &str,
        known: Capabilities,
        now: Timestamp,
    ) {
        if self.get(endpoint, model, now) != known {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(key(endpoint, model), (known, now));
        }
    }
}
