//! Costs and latencies of the calls of a check.

use perpend_scheduler::TrialResult;

use crate::model_calls;

/// Sums over the calls of an evaluator.
#[derive(Debug)]
pub(super) struct Tally {
    /// Evaluated items.
    pub(super) n: u64,
    /// `None` when the price of a call is unknown.
    cost: Option<f64>,
    saved: f64,
    took_ms: Vec<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self { n: 0, cost: Some(0.0), saved: 0.0, took_ms: Vec::new() }
    }
}

impl Tally {
    pub(super) fn add(&mut self, results: &[TrialResult]) {
        for result in results.iter().filter(|result| result.item.is_some()) {
            self.n += 1;
            if result.model_calls.is_empty() {
                // A failed evaluation has no latency.
                self.took_ms.extend(result.outcome.is_ok().then_some(result.took_ms));
                continue;
            }
            let cost = model_calls::cost(&result.model_calls);
            self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
            let calls = &result.model_calls;
            self.saved += calls.iter().filter_map(|call| call.saved).sum::<f64>();
            // A cached reply has no latency of the model.
            if calls.iter().all(|call| !call.is_from_cache) {
                // Only the calls: items of one chunk wait for each other.
                let took_ms = calls.iter().map(|call| call.latency_ms).sum();
                self.took_ms.push(took_ms);
            }
        }
    }

    pub(super) const fn saved(&self) -> f64 {
        self.saved
    }

    pub(super) const fn cost(&self) -> Option<f64> {
        self.cost
    }

    /// Median and 95th percentile; `None` without calls.
    pub(super) fn latency(&self) -> Option<(u64, u64)> {
        let mut sorted = self.took_ms.clone();
        sorted.sort_unstable();
        let at = |share: usize| {
            let rank = (sorted.len() * share).div_ceil(100).max(1);
            sorted.get(rank - 1).copied()
        };
        at(50).zip(at(95))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let took_ms = (1..=20).rev().collect();
        let tally = Tally { took_ms, ..Tally::default() };
        assert_eq!(tally.latency(), Some((10, 19)));
        assert_eq!(Tally::default().latency(), None);
    }
}
