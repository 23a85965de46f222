//! What the last calls of evaluators cost: the estimate of the next one, where it is below the most it may cost.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use perpend_domain::ids::EvaluatorId;

/// Calls that are looked at.
const N_CALLS: usize = 50;
/// With fewer, nothing is said.
const N_NEEDED: usize = 20;
/// Evaluators and models that are remembered at a time.
const MAX_KEPT: usize = 10_000;

type Costs = HashMap<(EvaluatorId, String), VecDeque<f64>>;

/// The costs of the last calls by evaluator and model.
#[derive(Debug, Default)]
pub struct LatestCosts(Mutex<Costs>);

impl LatestCosts {
    /// Remembers what a call cost.
    pub(super) fn note(&self, evaluator: &EvaluatorId, model: &str, cost: f64) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (evaluator.clone(), model.to_owned());
        if MAX_KEPT <= all.len() && !all.contains_key(&key) {
            all.clear();
        }
        let costs = all.entry(key).or_default();
        if costs.len() == N_CALLS {
            costs.pop_front();
        }
        costs.push_back(cost);
    }

    /// What nineteen of twenty of the last calls did not exceed; nothing where there were few.
    pub(super) fn p95(&self, evaluator: &EvaluatorId, model: &str) -> Option<f64> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let costs = all.get(&(evaluator.clone(), model.to_owned()))?;
        if costs.len() < N_NEEDED {
            return None;
        }
        let mut sorted: Vec<f64> = costs.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() * 95 / 100).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_the_cost_that_one_of_twenty_calls_exceeds_and_of_the_last_fifty() {
        let latest = LatestCosts::default();
        let evaluator = EvaluatorId::new("e").unwrap();
        for n in 0..19 {
            latest.note(&evaluator, "m", f64::from(n));
        }
        assert_eq!(latest.p95(&evaluator, "m"), None);
        latest.note(&evaluator, "m", 19.0);
        assert_eq!(latest.p95(&evaluator, "m"), Some(19.0));
        for _ in 0..50 {
            latest.note(&evaluator, "m", 1.0);
        }
        assert_eq!(latest.p95(&evaluator, "m"), Some(1.0));
        assert_eq!(latest.p95(&evaluator, "other"), None);
    }
}
