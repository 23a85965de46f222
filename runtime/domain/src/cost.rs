//! Sums of costs, including the number of unknown ones.

use std::iter::Sum;
use std::ops::Add;

use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::observation::{Cost, Observation};

/// The cost of observations in US dollars. A missing price is not zero, so observations with and without a cost are counted;
/// observations that cannot have a cost are in neither count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostSum {
    /// US dollars of the observations with a cost.
    pub dollars: f64,
    /// Observations with a cost, which may be zero.
    pub n_priced: u64,
    /// Observations that called a model or used tokens and have no cost.
    pub n_unpriced: u64,
}

impl CostSum {
    /// The sum of one observation; with `is_call` a missing cost counts as unknown.
    #[must_use]
    pub fn of_observation(cost: Option<f64>, is_call: bool) -> Self {
        Self {
            dollars: cost.unwrap_or_default(),
            n_priced: cost.is_some().into(),
            n_unpriced: (cost.is_none() && is_call).into(),
        }
    }

    /// US dollars, if no cost is unknown.
    #[must_use]
    pub fn exact(self) -> Option<f64> {
        (0 < self.n_priced && self.n_unpriced == 0).then_some(self.dollars)
    }

    /// US dollars; `None` if all costs are unknown.
    #[must_use]
    pub fn known(self) -> Option<f64> {
        (0 < self.n_priced || self.n_unpriced == 0).then_some(self.dollars)
    }

    /// Whether no observation has or should have a cost.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.n_priced == 0 && self.n_unpriced == 0
    }
}

impl Add for CostSum {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            dollars: self.dollars + other.dollars,
            n_priced: self.n_priced.saturating_add(other.n_priced),
            n_unpriced: self.n_unpriced.saturating_add(other.n_unpriced),
        }
    }
}

impl Sum for CostSum {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

/// The total of a cost map: as given, else the sum of its buckets.
#[must_use]
pub fn cost_total(cost: &Cost) -> Decimal {
    let decimal = |value: &f64| Decimal::try_from(*value).unwrap_or_default();
    match cost.get("total") {
        Some(total) => decimal(total),
        None => cost.values().map(decimal).fold(Decimal::ZERO, Decimal::saturating_add),
    }
}

impl Observation {
    /// Whether it is a model call or has own usage, so that a cost is expected.
    #[must_use]
    pub fn is_call(&self) -> bool {
        self.kind.is_generation_like() || !self.usage.is_empty()
    }

    /// Its own cost, as sent, else computed, without its descendants.
    #[must_use]
    pub fn own_cost(&self) -> CostSum {
        let cost = self.effective_cost();
        let total = match cost.get("total") {
            Some(total) => Some(*total),
            None if cost.is_empty() => None,
            None => cost_total(cost).to_f64(),
        };
        CostSum::of_observation(total, self.is_call())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_exact_only_where_no_price_is_missing() {
        let steps = |all: &[(Option<f64>, bool)]| -> CostSum {
            let all = all.iter();
            all.map(|(cost, is_call)| CostSum::of_observation(*cost, *is_call)).sum()
        };
        let (priced, free) = ((Some(0.5), true), (Some(0.0), true));
        let (unpriced, plain) = ((None, true), (None, false));
        assert!(steps(&[]).is_empty() && steps(&[plain, plain]).is_empty());
        assert_eq!(steps(&[plain]).exact(), None);
        assert_eq!(steps(&[free, plain]).exact(), Some(0.0));
        assert_eq!(steps(&[priced, priced, free]).exact(), Some(1.0));
        let mixed = steps(&[priced, unpriced, plain, unpriced]);
        assert_eq!((mixed.exact(), mixed.dollars), (None, 0.5));
        assert_eq!((mixed.n_priced, mixed.n_unpriced), (1, 2));
    }
}
