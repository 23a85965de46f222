//! What waits for somebody in a project: the rail of every page counts it, so a count is held for some seconds.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hashlink::LruCache;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;
use perpend_ui::Waits;
use perpend_web::problem::Problem;

use crate::state::App;

/// How long a count is taken for the present one, in milliseconds.
const FRESH: i64 = 5_000;
/// Executions that failed in this time are counted, in milliseconds.
const RECENT: i64 = 24 * 60 * 60 * 1_000;
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

    fn get(&self, project: &ProjectId, now: Timestamp) -> Option<Waits> {
        let mut held = self.held();
        let (at, waits) = held.get(project)?;
        let age = now.as_millis() - at.as_millis();
        (0..FRESH).contains(&age).then_some(*waits)
    }

    fn keep(&self, project: &ProjectId, now: Timestamp, waits: Waits) {
        self.held().insert(project.clone(), (now, waits));
    }
}

/// What waits in a project, or did some seconds ago.
pub(super) async fn of(app: &App, project: &ProjectId) -> Result<Waits, Problem> {
    let now = app.web.clock.now();
    if let Some(waits) = app.known_waits().get(project, now) {
        return Ok(waits);
    }
    let (store, since) = (&app.store, now.plus_millis(-RECENT));
    let failed = store.ledger.n_failed_since(project, since, Waits::LIMIT);
    let waits = Waits {
        paused: store.catalog.n_paused_rules(project).await?,
        failed: failed.await?,
    };
    app.known_waits().keep(project, now, waits);
    Ok(waits)
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
