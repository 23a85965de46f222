//! Counts of the refused requests of each project, and the last ones, shown to people who wait for data.
//!
//! In the memory of this node and bounded: by status and reason, and the most recent projects. Of a request only the status
//! and a fixed text are recorded. A request with an unknown public key belongs to no project.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

/// Projects with recorded refusals.
const MAX_PROJECTS: usize = 1_000;
/// Recorded kinds of refusals of one project. There are fewer: reasons are fixed texts.
const MAX_OF_PROJECT: usize = 32;

/// A request that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Time.
    pub at: Timestamp,
    /// Status of the response.
    pub status: StatusCode,
    /// Reason, a fixed text.
    pub reason: &'static str,
}

/// Refusals with one status and reason since the start of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCount {
    /// The last one.
    pub last: Refusal,
    /// Number of refusals.
    pub n: u64,
}

/// The counts of refusals, by project.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<ProjectId, Vec<RefusalCount>>>);

/// The last refusal of a project.
fn last_of(counts: &[RefusalCount]) -> Option<Refusal> {
    // Of several at one time, the last recorded kind.
    counts.iter().map(|count| count.last).max_by_key(|last| last.at)
}

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectId, Vec<RefusalCount>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a refusal.
    pub(super) fn note(&self, project: &ProjectId, refusal: Refusal) {
        let mut all = self.lock();
        if !all.contains_key(project) && MAX_PROJECTS <= all.len() {
            let last = |(_, of): &(&ProjectId, &Vec<RefusalCount>)| last_of(of).map(|one| one.at);
            let oldest = all.iter().min_by_key(last).map(|(project, _)| project.clone());
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        let of = all.entry(project.clone()).or_default();
        let is_alike = |count: &&mut RefusalCount| {
            (count.last.status, count.last.reason) == (refusal.status, refusal.reason)
        };
        if let Some(count) = of.iter_mut().find(is_alike) {
            count.last = refusal;
            count.n = count.n.saturating_add(1);
            return;
        }
        if of.len() < MAX_OF_PROJECT {
            of.push(RefusalCount { last: refusal, n: 1 });
        }
    }

    /// The last refusal of a project.
    pub fn last(&self, project: &ProjectId) -> Option<Refusal> {
        last_of(self.lock().get(project)?)
    }

    /// The refusals of a project since the start, by status and reason, the last first.
    pub fn counts(&self, project: &ProjectId) -> Vec<RefusalCount> {
        let mut counts = self.lock().get(project).cloned().unwrap_or_default();
        counts.sort_by_key(|count| std::cmp::Reverse(count.last.at));
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_refusals_of_the_latest_projects_are_kept_and_no_more() {
        let refusals = Refusals::default();
        let id = |n: usize| ProjectId::new(&format!("p{n}")).unwrap();
        for n in 0..2 * MAX_PROJECTS {
            for status in [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED] {
                let at = Timestamp::from_millis(n as i64);
                let reason = "wrong secret";
                for _ in 0..3 {
                    refusals.note(&id(n), Refusal { at, status, reason });
                }
            }
        }
        assert_eq!(refusals.last(&id(0)), None);
        let last = refusals.last(&id(2 * MAX_PROJECTS - 1)).unwrap();
        assert_eq!(last.status, StatusCode::UNAUTHORIZED);
        let all = refusals.lock();
        assert_eq!(all.len(), MAX_PROJECTS);
        assert!(all.values().all(|of| of.len() == 2 && of.iter().all(|count| count.n == 3)));
    }
}
