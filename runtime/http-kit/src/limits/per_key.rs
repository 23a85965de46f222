//! State per key in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keys with state at once.
pub(super) const MAX_KEYS: usize = 65_536;

/// State of many keys. A key without an entry has the initial state.
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

    /// Changes the state of a key. At the maximum number of keys, entries that are not needed are
    /// removed first.
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
            // So many active keys exceed the capacity of this server. All entries are removed, which is
            // cheaper than a search through all of them on each request.
            if states.len() > MAX_KEYS / 2 {
                states.clear();
            }
        }
        change(states.entry(key).or_insert_with(fresh))
    }

    /// Reads the state of a key.
    pub(crate) fn look<R>(&self, key: &K, look: impl FnOnce(&V) -> R) -> Option<R> {
        self.lock().get(key).map(look)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }
}
