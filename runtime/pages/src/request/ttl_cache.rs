//! Something that was read of projects a moment ago, and is taken for the present one for some time.

use std::sync::{Mutex, PoisonError};

use hashlink::LruCache;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

/// Projects of which it is held.
const PROJECTS: usize = 64;

/// Of the projects that were asked about last.
#[derive(Debug)]
pub(crate) struct TtlCache<T> {
    by_project: Mutex<LruCache<ProjectId, (Timestamp, T)>>,
    /// How long it is taken for the present one, in milliseconds.
    ttl_ms: i64,
}

impl<T: Clone> TtlCache<T> {
    pub(crate) fn new(ttl_ms: i64) -> Self {
        Self { by_project: Mutex::new(LruCache::new(PROJECTS)), ttl_ms }
    }

    /// What is still fresh.
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
    fn what_was_read_is_held_for_its_time_and_for_its_project() {
        let cache = TtlCache::new(5_000);
        let [own, other] = ["p", "q"].map(|id| ProjectId::new(id).unwrap());
        let at = Timestamp::from_millis;
        cache.insert(&own, at(0), 7);
        assert_eq!(cache.get(&own, at(4_999)), Some(7));
        assert_eq!(cache.get(&own, at(5_000)), None);
        assert_eq!(cache.get(&other, at(0)), None);
    }
}
