//! Keys seen a moment ago, so that a request does not cost a look-up.
//!
//! A revoked key keeps working for at most [`TTL_MS`]; unknown keys are remembered too, shorter, so
//! that a misconfigured exporter does not query the database with each batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use assay_domain::time::Timestamp;

use super::KnownKey;

const TTL_MS: i64 = 10_000;
const UNKNOWN_TTL_MS: i64 = 1_000;
const MAX_KEYS: usize = 4_096;

type Entry = (Option<Arc<KnownKey>>, Timestamp);

/// Remembers keys for a short while.
#[derive(Debug, Default)]
pub(crate) struct KeyCache(Mutex<HashMap<String, Entry>>);

impl KeyCache {
    /// What is known about a key: `None` when nothing is, `Some(None)` when it does not exist.
    pub(crate) fn get(&self, public_key: &str, now: Timestamp) -> Option<Option<Arc<KnownKey>>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, until) = entries.get(public_key)?;
        (now < *until).then(|| key.clone())
    }

    pub(crate) fn put(&self, public_key: &str, key: Option<Arc<KnownKey>>, now: Timestamp) {
        let ttl = if key.is_some() {
            TTL_MS
        } else {
            UNKNOWN_TTL_MS
        };
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= MAX_KEYS {
            entries.retain(|_, (_, until)| now < *until);
        }
        if entries.len() >= MAX_KEYS {
            // Only a flood of made-up keys gets here; the real ones come back with one look-up each.
            entries.clear();
        }
        entries.insert(public_key.to_owned(), (key, now.plus_millis(ttl)));
    }
}
