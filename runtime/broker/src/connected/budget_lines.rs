//! Lines of calls that wait for room in a budget, so that one call at a time asks for a place on its connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use perpend_domain::budget::ScopedBudget;
use perpend_domain::ids::ProjectId;
use tokio::sync::{Mutex as Line, OwnedMutexGuard};

/// A budget within all projects.
pub(super) type BudgetKey = (ProjectId, String, String);

/// One line for each budget that calls wait for.
#[derive(Debug, Default)]
pub struct BudgetLines(Mutex<HashMap<BudgetKey, Arc<Line<()>>>>);

/// The head of a line, until it is dropped.
pub(super) struct Head {
    pub(super) key: BudgetKey,
    _guard: OwnedMutexGuard<()>,
}

pub(super) fn key(project: &ProjectId, budget: &ScopedBudget) -> BudgetKey {
    (project.clone(), budget.scope.to_string(), format!("{}/{}", budget.id, budget.budget.window))
}

impl BudgetLines {
    /// Waits in the line of a budget until the call is the first.
    pub(super) async fn enter(&self, key: BudgetKey) -> Head {
        let line = {
            let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Lines in which nobody waits.
            lines.retain(|_, line| 1 < Arc::strong_count(line));
            Arc::clone(lines.entry(key.clone()).or_default())
        };
        Head { key, _guard: line.lock_owned().await }
    }
}
