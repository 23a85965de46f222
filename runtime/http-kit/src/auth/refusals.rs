//! The last refused requests of each project, shown on the page that waits for the first trace.
//!
//! In the memory of this node and bounded: a few per project, and the most recent projects. Of a request only the status
//! and a fixed text are recorded. A request with an unknown public key belongs to no project.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use perpend_domain::ids::ProjectId;
use perpend_domain::time::Timestamp;

/// Projects with recorded refusals.
const MAX_PROJECTS: usize = 1_000;
/// Recorded refusals of one project.
const MAX_OF_PROJECT: usize = 3;

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

/// The last refusals, by project.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<HashMap<ProjectId, VecDeque<Refusal>>>);

impl Refusals {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProjectId, VecDeque<Refusal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a refusal.
    pub(super) fn note(&self, project: &ProjectId, refusal: Refusal) {
        let mut all = self.lock();
        if !all.contains_key(project) && MAX_PROJECTS <= all.len() {
            let last = |(_, of): &(&ProjectId, &VecDeque<Refusal>)| of.back().map(|one| one.at);
            let oldest = all.iter().min_by_key(last).map(|(project, _)| project.clone());
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        let of = all.entry(project.clone()).or_default();
        if MAX_OF_PROJECT <= of.len() {
            of.pop_front();
        }
        of.push_back(refusal);
    }

    /// The last refusal of a project.
    pub fn last(&self, project: &ProjectId) -> Option<Refusal> {
        self.lock().get(project)?.back().copied()
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
                for _ in 0..MAX_OF_PROJECT {
                    refusals.note(&id(n), Refusal { at, status, reason });
                }
            }
        }
        assert_eq!(refusals.last(&id(0)), None);
        let last = refusals.last(&id(2 * MAX_PROJECTS - 1)).unwrap();
        assert_eq!(last.status, StatusCode::UNAUTHORIZED);
        let all = refusals.lock();
        assert_eq!(all.len(), MAX_PROJECTS);
        assert!(all.values().all(|of| of.len() == MAX_OF_PROJECT));
    }
}
