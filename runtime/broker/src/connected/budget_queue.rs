//! Queues of calls that wait for available budget, so that one call of a queue at a time requests a slot on its connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::budget::ScopedBudget;
use perpend_domain::ids::ProjectId;
use tokio::sync::OwnedMutexGuard;

/// Identifies a budget among those of all projects.
pub(super) type BudgetKey = (ProjectId, String, String);

/// A fair mutex: its waiters are the queue.
type Queue = Arc<tokio::sync::Mutex<()>>;

/// One queue for each budget that calls wait for.
#[derive(Debug, Default)]
pub struct BudgetQueues(Mutex<HashMap<BudgetKey, Queue>>);

/// The first slot of a queue, until it is dropped.
pub(super) struct FirstPlace {
    pub(super) key: BudgetKey,
    _guard: OwnedMutexGuard<()>,
}

pub(super) fn key(project: &ProjectId, budget: &ScopedBudget) -> BudgetKey {
    (project.clone(), budget.scope.to_string(), format!("{}/{}", budget.id, budget.budget.window))
}

impl BudgetQueues {
    /// Waits in the queue of a budget until the call is the first.
    pub(super) async fn enter(&self, key: BudgetKey) -> FirstPlace {
        let queue = {
            let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Drops empty queues.
            queues.retain(|_, queue| 1 < Arc::strong_count(queue));
            Arc::clone(queues.entry(key.clone()).or_default())
        };
        FirstPlace { key, _guard: queue.lock_owned().await }
    }
}
