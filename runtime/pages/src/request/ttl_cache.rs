//! A cache by project whose entries expire.

use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

/// Projects with an entry; the least recently used one is evicted.
const MAX_PROJECTS: usize = 64;

/// One value per project.
#[derive(Debug)]
pub(crate) struct TtlCache<T> {
    by_project: Mutex<LruCache<ProjectId, (Timestamp, T)>>,
    /// Lifetime of an entry in milliseconds.
    ttl_ms: i64,
}

impl<T: Clone> TtlCache<T> {
    pub(crate) fn new(ttl_ms: i64) -> Self {
        Self { by_project: Mutex::new(LruCache::new(MAX_PROJECTS)), ttl_ms }
    }

    /// The value, unless it has expired.
    pub(crate) fn get(&self, project: &ProjectId, now: Timestamp) -> Option<T> {
        let mut entries = self.by_project.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, value) = entries.get(project)?;
        let age = now.as_millis() - at.as_millis();
        (0..self.ttl_ms).contains(&age).then(|| value.clone())
    }

    pub(crate) fn insert(&self, project: &ProjectId, now: Timestamp, value: T) {
        let mut entries = self.by_project.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(project.clone(), (now, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_expires_after_its_lifetime_and_is_stored_per_project() {
        let cache = TtlCache::new(5_000);
        let [own, other] = ["p", "q"].map(|id| ProjectId::new(id).unwrap());
        let at = Timestamp::from_millis;
        cache.insert(&own, at(0), 7);
        assert_eq!(cache.get(&own, at(4_999)), Some(7));
        assert_eq!(cache.get(&own, at(5_000)), None);
        assert_eq!(cache.get(&other, at(0)), None);
    }
}
