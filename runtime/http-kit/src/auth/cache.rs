//! Cache of API keys and of the times of their use.
//!
//! A key that another node deletes is accepted here for at most [`KEPT_MS`]; a key that is deleted
//! here is removed at once. A secret that does not match is compared with the stored key again, at most once in
//! [`REREAD_MS`], so that the new secret of a rotation on another node is accepted. Unknown keys are cached too, for a shorter
//! time, so that a misconfigured exporter does not query the database with each batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_catalog::{ApiKey, SecretHash};
use perpend_domain::time::Timestamp;

use super::key::MatchedSecret;

/// Lifetime of a cached key.
pub const KEPT_MS: i64 = 10_000;
const UNKNOWN_KEPT_MS: i64 = 1_000;
/// Least time between two look-ups of a cached key.
const REREAD_MS: i64 = 1_000;
const MAX_KEYS: usize = 4_096;
/// Resolution of the time of last use.
const USE_STEP_MS: i64 = 60_000;

#[derive(Debug)]
struct CacheEntry {
    key: Option<Arc<ApiKey>>,
    read_at: Timestamp,
    until: Timestamp,
}

/// The use of a secret of a key.
#[derive(Debug)]
pub struct KeyUse {
    /// Id of the key.
    pub key: String,
    /// Tells the secrets of the key apart.
    pub secret: SecretHash,
    pub at: Timestamp,
}

/// Caches keys for a short time.
#[derive(Debug, Default)]
pub struct KeyCache(Mutex<CacheEntries>);

#[derive(Debug, Default)]
struct CacheEntries {
    entries: HashMap<String, CacheEntry>,
    /// Number of invalidations: a look-up that started before one may have read a deleted key.
    n_invalidations: u64,
    /// Times of use that are not stored yet, with the id of the key.
    uses: HashMap<SecretHash, (String, Timestamp)>,
}

/// Result of a look-up in the cache.
pub(super) enum CacheLookup {
    /// The key; `None` for a key that does not exist.
    Hit(Option<Arc<ApiKey>>),
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
            Some(entry) if now < entry.until => CacheLookup::Hit(entry.key.clone()),
            _ => CacheLookup::Miss(cache.n_invalidations),
        }
    }

    /// Permits another look-up of a cached key unless one happened within [`REREAD_MS`]. Returns the number of invalidations
    /// so far, to be passed to [`KeyCache::put`].
    pub(super) fn may_reread(&self, public_key: &str, now: Timestamp) -> Option<u64> {
        let mut cache = self.lock();
        let n_invalidations = cache.n_invalidations;
        let entry = cache.entries.get_mut(public_key)?;
        if now < entry.read_at.plus_millis(REREAD_MS) {
            return None;
        }
        entry.read_at = now;
        Some(n_invalidations)
    }

    /// Caches the result of a look-up that started after `since` invalidations.
    pub(super) fn put(
        &self,
        public_key: &str,
        key: Option<Arc<ApiKey>>,
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
            entries.retain(|_, entry| now < entry.until);
        }
        if entries.len() >= MAX_KEYS {
            // Only a flood of invalid keys gets here; each valid one costs one look-up.
            entries.clear();
        }
        let entry = CacheEntry { key, read_at: now, until: now.plus_millis(ttl) };
        entries.insert(public_key.to_owned(), entry);
    }

    /// Removes every key. Called after a change of a key, which is rare; each remaining key costs one
    /// look-up.
    pub fn clear(&self) {
        let mut cache = self.lock();
        cache.n_invalidations += 1;
        cache.entries.clear();
    }

    /// Records the use of a key, unless a recent one is stored.
    pub(super) fn note_use(&self, key: &ApiKey, secret: &MatchedSecret, now: Timestamp) {
        let is_recent = |last: Timestamp| now < last.plus_millis(USE_STEP_MS);
        if secret.last_used_at.is_some_and(is_recent) {
            return;
        }
        let mut cache = self.lock();
        if let Some((_, last)) = cache.uses.get_mut(&secret.hash) {
            *last = now.max(*last);
        } else {
            cache.uses.insert(secret.hash.clone(), (key.made.id.clone(), now));
        }
    }

    /// Removes and returns the recorded times of use.
    pub fn take_uses(&self) -> Vec<KeyUse> {
        let uses = std::mem::take(&mut self.lock().uses);
        uses.into_iter().map(|(secret, (key, at))| KeyUse { key, secret, at }).collect()
    }
}

#[cfg(test)]
mod tests {
    use perpend_catalog::{KeyOwner, NewApiKey, Rights};
    use perpend_domain::ids::{ProjectId, PublicKey};

    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_800_000_000_000_000);

    fn key(last_used_at: Option<Timestamp>) -> ApiKey {
        ApiKey {
            made: NewApiKey {
                id: "key-1".to_owned(),
                public_key: PublicKey::new("pk-1").unwrap(),
                secret_hash: SecretHash::new("secret", [1; 16]),
                secret_hint: "…t".to_owned(),
                rights: Rights::Full,
                note: None,
                expires_at: None,
            },
            owner: KeyOwner::Project(ProjectId::new("p").unwrap()),
            created_at: NOW,
            last_used_at,
            public_scores: true,
            rotation: None,
        }
    }

    #[test]
    fn a_use_is_stored_at_most_once_a_minute_with_the_time_of_the_last_one() {
        let cache = KeyCache::default();
        let used = |key: &ApiKey, seconds: i64| {
            let secret = MatchedSecret::find(key, "secret").unwrap();
            cache.note_use(key, &secret, NOW.plus_millis(seconds * 1_000));
        };
        let unused = key(None);
        used(&unused, 1);
        used(&unused, 50);
        let stored: Vec<_> = cache.take_uses().into_iter().map(|one| (one.key, one.at)).collect();
        assert_eq!(stored, [("key-1".to_owned(), NOW.plus_millis(50_000))]);
        let recent = key(Some(NOW.plus_millis(50_000)));
        used(&recent, 109);
        assert!(cache.take_uses().is_empty());
        used(&recent, 110);
        assert_eq!(cache.take_uses().len(), 1);
    }

    #[test]
    fn a_cached_key_is_read_again_for_an_unknown_secret_at_most_once_a_second() {
        let cache = KeyCache::default();
        assert_eq!(cache.may_reread("pk-1", NOW), None, "it is not cached");
        cache.put("pk-1", Some(Arc::new(key(None))), 0, NOW);
        let rereads = [0, 999, 1_000, 1_500, 2_000];
        let rereads = rereads.map(|ms| cache.may_reread("pk-1", NOW.plus_millis(ms)).is_some());
        assert_eq!(rereads, [false, false, true, false, true]);
        // A key that was changed here meanwhile is not overwritten by an earlier look-up.
        cache.clear();
        cache.put("pk-1", None, 0, NOW);
        assert!(matches!(cache.get("pk-1", NOW), CacheLookup::Miss(1)));
    }
}
