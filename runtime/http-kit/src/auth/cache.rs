//! Keys seen a moment ago, so that a request does not cost a look-up, and when they were used.
//!
//! A key that another node takes away keeps working here for at most [`KEPT_MS`]; one that is taken away
//! here is forgotten at once. Unknown keys are remembered too, shorter, so that a misconfigured exporter
//! does not query the database with each batch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use perpend_domain::time::Timestamp;

use super::key::KnownKey;

/// How long what is known of a key is believed.
pub const KEPT_MS: i64 = 10_000;
const UNKNOWN_KEPT_MS: i64 = 1_000;
const MAX_KEYS: usize = 4_096;
/// How exactly it is kept when a key was last used.
const USE_STEP_MS: i64 = 3_600_000;

type Entry = (Option<Arc<KnownKey>>, Timestamp);

/// Remembers keys for a short while.
#[derive(Debug, Default)]
pub struct KeyCache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    entries: HashMap<String, Entry>,
    /// Counts what was forgotten: a look-up that began before may have read what is gone now.
    n_forgotten: u64,
    /// When keys were used, by id, until it is written down.
    uses: HashMap<String, Timestamp>,
}

/// What is known about a key.
pub(super) enum Remembered {
    /// The key, or that there is none.
    Key(Option<Arc<KnownKey>>),
    /// Nothing; a look-up that begins now brings this number along.
    Nothing(u64),
}

impl KeyCache {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, public_key: &str, now: Timestamp) -> Remembered {
        let kept = self.lock();
        match kept.entries.get(public_key) {
            Some((key, until)) if now < *until => Remembered::Key(key.clone()),
            _ => Remembered::Nothing(kept.n_forgotten),
        }
    }

    /// Remembers what a look-up found that began `since`.
    pub(super) fn put(
        &self,
        public_key: &str,
        key: Option<Arc<KnownKey>>,
        since: u64,
        now: Timestamp,
    ) {
        let ttl = if key.is_some() { KEPT_MS } else { UNKNOWN_KEPT_MS };
        let mut kept = self.lock();
        if since != kept.n_forgotten {
            return;
        }
        let entries = &mut kept.entries;
        if entries.len() >= MAX_KEYS {
            entries.retain(|_, (_, until)| now < *until);
        }
        if entries.len() >= MAX_KEYS {
            // Only a flood of made-up keys gets here; the real ones come back with one look-up each.
            entries.clear();
        }
        entries.insert(public_key.to_owned(), (key, now.plus_millis(ttl)));
    }

    /// Forgets every key, after some were taken away: that is rare, and the others come back with one
    /// look-up each.
    pub fn forget_all(&self) {
        let mut kept = self.lock();
        kept.n_forgotten += 1;
        kept.entries.clear();
    }

    /// Notes that a key was used, unless that is known well enough.
    pub(super) fn note_use(&self, key: &KnownKey, now: Timestamp) {
        let is_known = |last: Timestamp| now < last.plus_millis(USE_STEP_MS);
        if key.last_used_at.is_some_and(is_known) {
            return;
        }
        let mut kept = self.lock();
        if !kept.uses.contains_key(&key.id) {
            kept.uses.insert(key.id.clone(), now);
        }
    }

    /// What was noted and nobody has taken yet.
    pub fn take_uses(&self) -> HashMap<String, Timestamp> {
        std::mem::take(&mut self.lock().uses)
    }
}
