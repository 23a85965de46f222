//! Aggregates the values of one measure in one group.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{Aggregation, Metric};

/// A partial aggregate, for example from a database.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Partial {
    /// Number of values.
    pub n: u64,
    /// Their sum.
    pub sum: f64,
    /// The smallest.
    pub min: Option<f64>,
    /// The largest.
    pub max: Option<f64>,
}

/// Aggregates the values of one measure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Accumulator {
    total: Partial,
    /// Single values, for percentiles and histograms.
    values: Vec<f64>,
    /// Distinct texts and numbers.
    distinct: HashSet<String>,
    /// Distinct values counted elsewhere, disjoint from `distinct`.
    n_distinct: u64,
}

fn pick(a: Option<f64>, b: Option<f64>, better: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(better(a, b)),
        (one, other) => one.or(other),
    }
}

/// A number as JSON, whole ones without a fraction.
fn json_number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < EXACT { json!(value as i64) } else { json!(value) }
}

impl Accumulator {
    /// Adds a partial aggregate.
    pub fn merge(&mut self, part: Partial) {
        self.total.n += part.n;
        self.total.sum += part.sum;
        self.total.min = pick(self.total.min, part.min, f64::min);
        self.total.max = pick(self.total.max, part.max, f64::max);
    }

    /// Adds a count of distinct values that no other count or value contains.
    pub const fn add_distinct(&mut self, n: u64) {
        self.n_distinct += n;
    }

    /// Adds one value.
    pub fn add(&mut self, aggregation: Aggregation, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.merge(Partial { n: 1, sum: value, min: Some(value), max: Some(value) });
        match aggregation {
            Aggregation::Uniq => {
                self.distinct.insert(value.to_string());
            }
            other if !other.is_mergeable() => self.values.push(value),
            _ => {}
        }
    }

    /// Number of distinct texts and numbers held in memory.
    #[must_use]
    pub fn n_different(&self) -> usize {
        self.distinct.len()
    }

    /// Adds a text of a measure that is not numeric.
    pub fn add_text(&mut self, aggregation: Aggregation, value: &str) {
        self.total.n += 1;
        if aggregation == Aggregation::Uniq && !self.distinct.contains(value) {
            self.distinct.insert(value.to_owned());
        }
    }

    /// Adds the values of another accumulator.
    pub fn join(&mut self, other: Self) {
        self.merge(other.total);
        self.values.extend(other.values);
        self.distinct.extend(other.distinct);
        self.n_distinct += other.n_distinct;
    }

    /// The partial aggregate.
    #[must_use]
    pub const fn total(&self) -> Partial {
        self.total
    }

    /// The single values in no order; empty unless the aggregation needs them.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The result; null without values.
    #[must_use]
    pub fn result(&self, metric: &Metric, bins: usize) -> Value {
        let some = |value: Option<f64>| value.map_or(Value::Null, json_number);
        let percentile = |share: f64| some(self.percentile(share));
        let n = self.total.n;
        match metric.aggregation {
            Aggregation::Count => json!(n),
            Aggregation::Uniq => json!(self.distinct.len() as u64 + self.n_distinct),
            Aggregation::Sum => json_number(self.total.sum),
            Aggregation::Avg => some((n > 0).then(|| self.total.sum / n as f64)),
            Aggregation::Max => some(self.total.max),
            Aggregation::Min => some(self.total.min),
            Aggregation::P50 => percentile(0.5),
            Aggregation::P75 => percentile(0.75),
            Aggregation::P90 => percentile(0.9),
            Aggregation::P95 => percentile(0.95),
            Aggregation::P99 => percentile(0.99),
            Aggregation::Histogram => self.histogram(bins),
        }
    }

    /// With linear interpolation between neighbours.
    fn percentile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let place = share * last as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(last);
        let part = place - place.floor();
        Some(sorted[below] + (sorted[above] - sorted[below]) * part)
    }

    /// Bins of equal width as `[lower, upper, height]`.
    fn histogram(&self, bins: usize) -> Value {
        let (Some(min), Some(max)) = (self.total.min, self.total.max) else {
            return json!([]);
        };
        let bins = if min < max { bins.max(1) } else { 1 };
        let width = (max - min) / bins as f64;
        let mut heights = vec![0_u64; bins];
        for value in &self.values {
            let place = if width > 0.0 { ((value - min) / width) as usize } else { 0 };
            heights[place.min(bins - 1)] += 1;
        }
        let edge = |at: usize| match at == bins {
            true => max,
            false => min + width * at as f64,
        };
        let bin = |(at, height)| json!([json_number(edge(at)), json_number(edge(at + 1)), height]);
        heights.into_iter().enumerate().map(bin).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Measure, MetricView};
    use super::*;

    fn metric(aggregation: Aggregation) -> Metric {
        let measure = MetricView::Observations.measure("latency").unwrap();
        Metric { measure, aggregation }
    }

    fn of(aggregation: Aggregation, values: &[f64]) -> Value {
        let mut sum = Accumulator::default();
        for value in values {
            sum.add(aggregation, *value);
        }
        sum.result(&metric(aggregation), 2)
    }

    #[test]
    fn each_aggregation_computes_its_function() {
        let values = [4.0, 1.0, 3.0, 2.0, f64::NAN];
        for (aggregation, expected) in [
            (Aggregation::Sum, json!(10)),
            (Aggregation::Avg, json!(2.5)),
            (Aggregation::Count, json!(4)),
            (Aggregation::Min, json!(1)),
            (Aggregation::Max, json!(4)),
            (Aggregation::P50, json!(2.5)),
            (Aggregation::P75, json!(3.25)),
            (Aggregation::Uniq, json!(4)),
            (Aggregation::Histogram, json!([[1, 2.5, 2], [2.5, 4, 2]])),
        ] {
            assert_eq!(of(aggregation, &values), expected, "{aggregation}");
        }
        for (aggregation, expected) in [
            (Aggregation::Sum, json!(0)),
            (Aggregation::Avg, Value::Null),
            (Aggregation::P99, Value::Null),
            (Aggregation::Histogram, json!([])),
        ] {
            assert_eq!(of(aggregation, &[]), expected, "{aggregation}");
        }
        assert_eq!(of(Aggregation::Histogram, &[2.0, 2.0]), json!([[2, 2, 2]]));
        let ids = Metric {
            measure: Measure { name: "traceId", is_number: false },
            aggregation: Aggregation::Uniq,
        };
        let mut texts = Accumulator::default();
        for id in ["a", "b", "a"] {
            texts.add_text(Aggregation::Uniq, id);
        }
        assert_eq!(texts.result(&ids, 1), json!(2));
    }

    proptest! {
        #[test]
        fn parts_added_up_apart_make_the_same_whole(
            values in prop::collection::vec(-100_i32..100, 1..20),
            cut in 0_usize..20,
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let (left, right) = values.split_at(cut.min(values.len()));
            for aggregation in Aggregation::ALL {
                let mut joined = Accumulator::default();
                for part in [left, right] {
                    let mut own = Accumulator::default();
                    for value in part {
                        own.add(*aggregation, *value);
                    }
                    joined.join(own);
                }
                let expected = of(*aggregation, &values);
                prop_assert_eq!(joined.result(&metric(*aggregation), 2), expected);
            }
        }
    }
}
