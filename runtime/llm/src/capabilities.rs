//! Caches for a day, per model, which structure method worked and which parameters the provider rejects.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use perpend_domain::time::Timestamp;

use crate::endpoint::{Endpoint, Protocol};
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

impl Quirk {
    const fn name(self) -> &'static str {
        match self {
            Self::OtherLimitName => "other_output_limit_name",
            Self::NoSeed => "no_seed",
            Self::NoLogprobs => "no_logprobs",
        }
    }
}

/// Capabilities of a model of a connection, as observed in the calls of the last day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedModel {
    /// As the provider names it.
    pub model: String,
    /// The structure method that worked; `None` before the first structured reply.
    pub structure: Option<StructureMethod>,
    /// Deviations from the protocol: `other_output_limit_name`, `no_seed`, `no_logprobs`.
    pub deviations: Vec<&'static str>,
    /// Time of the last change.
    pub learned_at: Timestamp,
}

/// Known capabilities of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Capabilities {
    pub(crate) structure: Option<StructureMethod>,
    pub(crate) quirks: BTreeSet<Quirk>,
}

#[derive(Debug)]
pub(crate) struct CapabilityCache(Mutex<LruCache<CapabilityKey, (Capabilities, Timestamp)>>);

/// Includes the address, so that a change of the address resets the capabilities.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CapabilityKey {
    connection_id: String,
    protocol: Protocol,
    use_responses_api: bool,
    base_url: Option<String>,
    model: String,
}

impl CapabilityKey {
    fn new(endpoint: &Endpoint, model: &str) -> Self {
        Self {
            connection_id: endpoint.connection_id.clone(),
            protocol: endpoint.protocol,
            use_responses_api: endpoint.use_responses_api,
            base_url: endpoint.base_url.clone(),
            model: model.to_owned(),
        }
    }
}

impl CapabilityCache {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::new(MAX_MODELS)))
    }

    pub(crate) fn get(&self, endpoint: &Endpoint, model: &str, now: Timestamp) -> Capabilities {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = CapabilityKey::new(endpoint, model);
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
            all.insert(CapabilityKey::new(endpoint, model), (known, now));
        }
    }

    /// The models of a connection with known capabilities, by name.
    pub(crate) fn of_connection(&self, endpoint: &Endpoint, now: Timestamp) -> Vec<LearnedModel> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.iter().filter(|(key, (_, at))| {
            **key == CapabilityKey::new(endpoint, &key.model) && now.micros_since(*at) < DAY_MICROS
        });
        let mut found: Vec<LearnedModel> = known
            .map(|(key, (known, at))| LearnedModel {
                model: key.model.clone(),
                structure: known.structure,
                deviations: known.quirks.iter().map(|quirk| quirk.name()).collect(),
                learned_at: *at,
            })
            .collect();
        found.sort_by(|a, b| a.model.cmp(&b.model));
        found
    }
}
