//! What waits for somebody in a project: the rail of every page counts it, so a count is held for some seconds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_ui::Waits;

/// How long a count is taken for the present one, in milliseconds.
const FRESH: i64 = 5_000;
/// Projects whose counts are held.
const PROJECTS: usize = 64;

/// Those of the projects that were asked about last.
#[derive(Debug)]
pub(super) struct KnownWaits(Mutex<LruCache<ProjectId, (Timestamp, Waits)>>);

impl Default for KnownWaits {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(PROJECTS)))
    }
}

impl KnownWaits {
    fn held(&self) -> MutexGuard<'_, LruCache<ProjectId, (Timestamp, Waits)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count, where it is fresh.
    pub(super) fn get(&self, project: &ProjectId, now: Timestamp) -> Option<Waits> {
        let mut held = self.held();
        let (at, waits) = held.get(project)?;
        let age = now.as_millis() - at.as_millis();
        (0..FRESH).contains(&age).then_some(*waits)
    }

    pub(super) fn keep(&self, project: &ProjectId, now: Timestamp, waits: Waits) {
        self.held().insert(project.clone(), (now, waits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_held_for_some_seconds_and_for_its_project() {
        let known = KnownWaits::default();
        let [own, other] = ["p", "q"].map(|id| ProjectId::new(id).unwrap());
        let at = Timestamp::from_millis;
        let waits = Waits {
            paused: 1,
            failed: 2,
        };
        known.keep(&own, at(0), waits);
        assert_eq!(known.get(&own, at(4_999)), Some(waits));
        assert_eq!(known.get(&own, at(5_000)), None);
        assert_eq!(known.get(&other, at(0)), None);
    }
}
