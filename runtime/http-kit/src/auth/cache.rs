//! Cache of API keys and of the times of their use.
//!
//! A key that another node deletes is accepted here for at most [`KEPT_MS`]; a key that is deleted
//! here is removed at once. Unknown keys are cached too, for a shorter time, so that a misconfigured exporter
//! does not query the database with each batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::time::Timestamp;

use super::key::KnownKey;

/// Lifetime of a cached key.
pub const KEPT_MS: i64 = 10_000;
const UNKNOWN_KEPT_MS: i64 = 1_000;
const MAX_KEYS: usize = 4_096;
/// Resolution of the time of last use.
const USE_STEP_MS: i64 = 3_600_000;

type Entry = (Option<Arc<KnownKey>>, Timestamp);

/// Caches keys for a short time.
#[derive(Debug, Default)]
pub struct KeyCache(Mutex<CacheEntries>);

#[derive(Debug, Default)]
struct CacheEntries {
    entries: HashMap<String, Entry>,
    /// Number of invalidations: a look-up that started before one may have read a deleted key.
    n_invalidations: u64,
    /// Times of use by key id that are not stored yet.
    uses: HashMap<String, Timestamp>,
}

/// Result of a look-up in the cache.
pub(super) enum CacheLookup {
    /// The key; `None` for a key that does not exist.
    Hit(Option<Arc<KnownKey>>),
    /// Not cached. The number of invalidations so far, to be passed to [`KeyCache::put`].
    Miss(u64),
}

impl KeyCache {
    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, public_key: &str, now: Timestamp) -> CacheLookup {
        let cache = self.lock();
        match cache.entries.get(public_key) {
            Some((key, until)) if now < *until => CacheLookup::Hit(key.clone()),
            _ => CacheLookup::Miss(cache.n_invalidations),
        }
    }

    /// Caches the result of a look-up that started after `since` invalidations.
    pub(super) fn put(
        &self,
        public_key: &str,
        key: Option<Arc<KnownKey>>,
        since: u64,
        now: Timestamp,
    ) {
        let ttl = if key.is_some() { KEPT_MS } else { UNKNOWN_KEPT_MS };
        let mut cache = self.lock();
        if since != cache.n_invalidations {
            return;
        }
        let entries = &mut cache.entries;
        if entries.len() >= MAX_KEYS {
            entries.retain(|_, (_, until)| now < *until);
        }
        if entries.len() >= MAX_KEYS {
            // Only a flood of invalid keys gets here; each valid one costs one look-up.
            entries.clear();
        }
        entries.insert(public_key.to_owned(), (key, now.plus_millis(ttl)));
    }

    /// Removes every key. Called after a deletion, which is rare; each remaining key costs one
    /// look-up.
    pub fn clear(&self) {
        let mut cache = self.lock();
        cache.n_invalidations += 1;
        cache.entries.clear();
    }

    /// Records the use of a key, unless a recent one is stored.
    pub(super) fn note_use(&self, key: &KnownKey, now: Timestamp) {
        let is_known = |last: Timestamp| now < last.plus_millis(USE_STEP_MS);
        if key.last_used_at.is_some_and(is_known) {
            return;
        }
        let mut cache = self.lock();
        if !cache.uses.contains_key(&key.id) {
            cache.uses.insert(key.id.clone(), now);
        }
    }

    /// Removes and returns the recorded times of use.
    pub fn take_uses(&self) -> HashMap<String, Timestamp> {
        std::mem::take(&mut self.lock().uses)
    }
}
