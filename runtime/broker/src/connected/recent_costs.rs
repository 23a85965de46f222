//! What the last calls of evaluators cost: the estimate of the next one.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use perpend_domain::ids::{EvaluatorId, ProjectId};
use perpend_executions::Ledger;

/// Calls that are looked at.
const N_CALLS: usize = 50;
/// Evaluators and models that are remembered at a time.
const MAX_KEPT: usize = 10_000;

type Costs = HashMap<(EvaluatorId, String), VecDeque<f64>>;

/// The costs of the last calls by evaluator and model.
#[derive(Debug, Default)]
pub struct RecentCosts(Mutex<Costs>);

impl RecentCosts {
    /// Remembers what a call cost.
    pub(super) fn note(&self, evaluator: &EvaluatorId, model: &str, cost: f64) {
        let mut all = self.lock();
        let costs = of(&mut all, evaluator, model);
        if costs.len() == N_CALLS {
            costs.pop_front();
        }
        costs.push_back(cost);
    }

    /// The cost that one of twenty of the last calls exceeds; `None` where there was no call. What other processes noted is
    /// read once.
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
        // The newest comes first there, and last here.
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
    if MAX_KEPT <= all.len() && !all.contains_key(&key) {
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
    fn the_estimate_is_the_cost_that_one_of_twenty_calls_exceeds_and_of_the_last_fifty() {
        let latest = RecentCosts::default();
        let evaluator = EvaluatorId::new("e").unwrap();
        let known = || p95(of(&mut latest.lock(), &evaluator, "m"));
        assert_eq!(known(), None);
        latest.note(&evaluator, "m", 3.0);
        assert_eq!(known(), Some(3.0));
        for n in 0..19 {
            latest.note(&evaluator, "m", f64::from(n));
        }
        assert_eq!(known(), Some(18.0));
        for _ in 0..50 {
            latest.note(&evaluator, "m", 1.0);
        }
        assert_eq!(known(), Some(1.0));
    }
}
