//! Costs of the last calls of evaluators, from which the cost of the next call is estimated.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_executions::Ledger;

/// Calls per evaluator and model.
const N_CALLS: usize = 50;
/// Maximum number of pairs of evaluator and model.
const MAX_ENTRIES: usize = 10_000;

type Costs = HashMap<(EvaluatorId, String), VecDeque<f64>>;

/// The costs of the last calls by evaluator and model.
#[derive(Debug, Default)]
pub struct RecentCosts(Mutex<Costs>);

impl RecentCosts {
    /// Adds the cost of a call, in US dollars.
    pub(super) fn add(&self, evaluator: &EvaluatorId, model: &str, cost: f64) {
        let mut all = self.lock();
        let costs = of(&mut all, evaluator, model);
        if costs.len() == N_CALLS {
            costs.pop_front();
        }
        costs.push_back(cost);
    }

    /// The 95th percentile of the costs of the last calls, in US dollars; `None` before the first call. The stored costs are
    /// read once per process.
    pub(super) async fn p95(
        &self,
        ledger: &Ledger,
        project: &ProjectId,
        (evaluator, model): (&EvaluatorId, &str),
    ) -> Result<Option<f64>, perpend_db::Error> {
        let key = (evaluator.clone(), model.to_owned());
        if let Some(costs) = self.lock().get(&key) {
            return Ok(p95(costs));
        }
        let n_calls = u32::try_from(N_CALLS).unwrap_or(u32::MAX);
        let stored = ledger.latest_costs(project, (evaluator, model), n_calls);
        let stored = stored.await?;
        let mut all = self.lock();
        let costs = of(&mut all, evaluator, model);
        // Newest first in `stored`, newest last in `costs`.
        for cost in stored.into_iter().take(N_CALLS - costs.len()) {
            costs.push_front(cost);
        }
        Ok(p95(costs))
    }

    fn lock(&self) -> MutexGuard<'_, Costs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of<'a>(all: &'a mut Costs, evaluator: &EvaluatorId, model: &str) -> &'a mut VecDeque<f64> {
    let key = (evaluator.clone(), model.to_owned());
    if MAX_ENTRIES <= all.len() && !all.contains_key(&key) {
        all.clear();
    }
    all.entry(key).or_default()
}

fn p95(costs: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = costs.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() * 95 / 100).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_the_95th_percentile_of_the_last_50_calls() {
        let costs = RecentCosts::default();
        let evaluator = EvaluatorId::new("e").unwrap();
        let estimate = || p95(of(&mut costs.lock(), &evaluator, "m"));
        assert_eq!(estimate(), None);
        costs.add(&evaluator, "m", 3.0);
        assert_eq!(estimate(), Some(3.0));
        for n in 0..19 {
            costs.add(&evaluator, "m", f64::from(n));
        }
        assert_eq!(estimate(), Some(18.0));
        for _ in 0..50 {
            costs.add(&evaluator, "m", 1.0);
        }
        assert_eq!(estimate(), Some(1.0));
    }
}
