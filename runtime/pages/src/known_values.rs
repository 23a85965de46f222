//! Values that the newest traces of projects had when they were counted last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_found::Facets;

/// How long values are taken for the newest ones, in milliseconds.
const FRESH: i64 = 60_000;
/// Projects whose values are held.
const PROJECTS: usize = 64;

type Counted = (Timestamp, Arc<Facets>);

/// Those of the projects that were asked about last.
#[derive(Debug)]
pub(super) struct KnownValues(Mutex<LruCache<ProjectId, Counted>>);

impl Default for KnownValues {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(PROJECTS)))
    }
}

impl KnownValues {
    fn held(&self) -> MutexGuard<'_, LruCache<ProjectId, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that were counted less than a minute ago.
    pub(super) fn get(&self, project: &ProjectId, now: Timestamp) -> Option<Arc<Facets>> {
        let mut held = self.held();
        let (at, values) = held.get(project)?;
        let age = now.as_millis() - at.as_millis();
        (0..FRESH).contains(&age).then(|| Arc::clone(values))
    }

    pub(super) fn keep(&self, project: &ProjectId, now: Timestamp, values: &Arc<Facets>) {
        let counted = (now, Arc::clone(values));
        self.held().insert(project.clone(), counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_known_for_a_minute() {
        let known = KnownValues::default();
        let project = ProjectId::new("p").unwrap();
        let at = Timestamp::from_millis;
        known.keep(&project, at(0), &Arc::default());
        assert!(known.get(&project, at(59_999)).is_some());
        assert!(known.get(&project, at(60_000)).is_none());
    }
}
