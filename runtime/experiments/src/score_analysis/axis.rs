//! Values and ranges by which scores are counted.

use super::BinValues;

/// Numbers with at most this many different values are counted by value.
const MAX_VALUES: usize = 12;
/// Ranges of numbers that are not all between 0 and 1, about.
const N_RANGES: f64 = 10.0;
/// Significant decimal digits of the ends of ranges.
const PRECISION: f64 = 1e-12;
/// Smallest width of a range. The power of ten of a smaller one may not be a number.
const MIN_WIDTH: f64 = 1e-300;

/// The values or ranges of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Axis {
    /// Categories, in the order of their indexes.
    Labels(Vec<String>),
    /// Different numbers, ascending.
    Values(Vec<f64>),
    /// The ends of adjacent ranges, ascending. The last range includes its end.
    Ranges(Vec<f64>),
}

impl Axis {
    /// The values or ranges of these finite numbers.
    pub(crate) fn of_numbers(numbers: &[f64]) -> Self {
        // Adding 0 makes both zeros one value.
        let mut values: Vec<f64> = numbers.iter().map(|number| number + 0.0).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        match (values.first(), values.last()) {
            (Some(low), Some(high)) if MAX_VALUES < values.len() => Self::Ranges(ends(*low, *high)),
            _ => Self::Values(values),
        }
    }

    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::Labels(labels) => labels.len(),
            Self::Values(values) => values.len(),
            Self::Ranges(ends) => ends.len().saturating_sub(1),
        }
    }

    /// The index of a number that is on the axis, or of a category, which is an index.
    pub(crate) fn place(&self, number: f64) -> usize {
        match self {
            Self::Labels(_) => number as usize,
            Self::Values(values) => values.partition_point(|value| *value < number),
            Self::Ranges(ends) => {
                let after = ends.partition_point(|end| *end <= number);
                after.saturating_sub(1).min(ends.len().saturating_sub(2))
            }
        }
    }

    /// The values and ranges, in order.
    pub(crate) fn bins(&self) -> Vec<BinValues> {
        let range = |from: f64, to: f64, includes_end| BinValues {
            key: if from == to { from.to_string() } else { format!("{from}..{to}") },
            label: None,
            from: Some(from),
            to: Some(to),
            includes_end,
        };
        match self {
            Self::Labels(labels) => labels.iter().map(|label| BinValues::of_label(label)).collect(),
            Self::Values(values) => {
                values.iter().map(|value| range(*value, *value, true)).collect()
            }
            Self::Ranges(ends) => {
                let last = ends.len().saturating_sub(2);
                let ranges = ends.windows(2).enumerate();
                ranges.map(|(at, pair)| range(pair[0], pair[1], at == last)).collect()
            }
        }
    }
}

impl BinValues {
    fn of_label(label: &str) -> Self {
        Self {
            key: label.to_owned(),
            label: Some(label.to_owned()),
            from: None,
            to: None,
            includes_end: true,
        }
    }
}

/// The ends of ranges of one width that contain all numbers from `low` to `high`: tenths for numbers between 0 and 1,
/// otherwise multiples of 1, 2 or 5 times a power of ten.
fn ends(low: f64, high: f64) -> Vec<f64> {
    if 0.0 <= low && high <= 1.0 {
        return (0..=10).map(|tenths| f64::from(tenths) / 10.0).collect();
    }
    let largest = low.abs().max(high.abs());
    let width = ((high - low) / N_RANGES).max(largest * PRECISION);
    // The difference of the largest numbers is infinite.
    let width = width.clamp(MIN_WIDTH, f64::MAX / N_RANGES);
    let exponent = width.log10().floor() as i32;
    let unit = 10f64.powi(exponent);
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| width <= factor * unit).unwrap_or(10.0);
    // Dividing by a power of ten gives the nearest number to a decimal fraction, multiplying by its reciprocal does not.
    let end = |n: f64| {
        let end = match exponent < 0 {
            true => n * factor / 10f64.powi(-exponent),
            false => n * factor * unit,
        };
        end.clamp(-f64::MAX, f64::MAX)
    };
    let mut first = (low / (factor * unit)).floor();
    while low < end(first) {
        first -= 1.0;
    }
    let mut ends = vec![end(first)];
    let mut n = first;
    while ends.last().is_some_and(|last| *last < high) {
        n += 1.0;
        ends.push(end(n));
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_different_numbers_are_counted_by_value() {
        let axis = Axis::of_numbers(&[3.0, 1.0, 3.0, -0.0, 0.0]);
        assert_eq!(axis, Axis::Values(vec![0.0, 1.0, 3.0]));
        assert_eq!((axis.place(0.0), axis.place(3.0), axis.len()), (0, 2, 3));
        assert_eq!(axis.bins()[2].key, "3");
    }

    #[test]
    fn ranges_have_round_ends_and_contain_each_number_once() {
        let shares: Vec<f64> = (0..=20).map(|n| f64::from(n) / 20.0).collect();
        let axis = Axis::of_numbers(&shares);
        assert_eq!(axis.len(), 10);
        assert_eq!((axis.place(0.3), axis.place(0.29), axis.place(1.0)), (3, 2, 9));
        assert_eq!(axis.bins()[9].key, "0.9..1");
        assert!(axis.bins()[9].includes_end && !axis.bins()[8].includes_end);
        let wide: Vec<f64> = (0..40).map(|n| f64::from(n) * 7.5 - 20.0).collect();
        let axis = Axis::of_numbers(&wide);
        let Axis::Ranges(ends) = &axis else { panic!("more than 12 numbers: {axis:?}") };
        assert_eq!(ends[..3], [-50.0, 0.0, 50.0]);
        for number in &wide {
            let at = axis.place(*number);
            assert!(ends[at] <= *number && *number <= ends[at + 1], "{number}");
        }
        for unit in [5e-324, 1e-310, 1e-300, 1.7e307] {
            let extreme: Vec<f64> = (-10..=10).map(|n| f64::from(n) * unit).collect();
            let axis = Axis::of_numbers(&extreme);
            let Axis::Ranges(ends) = &axis else { panic!("more than 12 numbers: {axis:?}") };
            assert!(ends.len() < 30 && ends.iter().all(|end| end.is_finite()), "{unit}");
            for number in &extreme {
                let at = axis.place(*number);
                assert!(ends[at] <= *number && *number <= ends[at + 1], "{number}");
            }
        }
        let close: Vec<f64> = (0..20).map(|n| 1e15 + f64::from(n)).collect();
        assert!(Axis::of_numbers(&close).len() < 30);
    }
}
