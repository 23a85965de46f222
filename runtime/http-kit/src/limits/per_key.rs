//! A little state per key, for any number of keys in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys with state at once.
pub(super) const MAX_KEYS: usize = 65_536;

/// State of many keys. A key without an entry is one whose state is fresh.
#[derive(Debug)]
pub(crate) struct PerKey<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for PerKey<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V> PerKey<K, V> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of a key. Where there is no room for another key, those that are not needed are
    /// forgotten first: their state is as good as fresh.
    pub(crate) fn with<R>(
        &self,
        key: K,
        fresh: impl FnOnce() -> V,
        mut is_needed: impl FnMut(&K, &mut V) -> bool,
        change: impl FnOnce(&mut V) -> R,
    ) -> R {
        let mut states = self.lock();
        if states.len() >= MAX_KEYS && !states.contains_key(&key) {
            states.retain(|key, state| is_needed(key, state));
            // So many keys in use at once exceed what this server can serve. All of them begin anew, which is
            // cheaper than to look through all of them for each request.
            if states.len() > MAX_KEYS / 2 {
                states.clear();
            }
        }
        change(states.entry(key).or_insert_with(fresh))
    }

    /// Looks at the state of a key, if it has one.
    pub(crate) fn look<R>(&self, key: &K, look: impl FnOnce(&V) -> R) -> Option<R> {
        self.lock().get(key).map(look)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}
