//! Small drawings: an interval around a difference, and a distribution of values.

use crate::format::{count, number_like};

/// Width of the drawing of an interval; zero is in the middle.
const WIDTH: f64 = 100.0;
/// Height of the drawing of a distribution.
const HEIGHT: f64 = 16.0;
/// Number of bars of a distribution.
const N_BARS: usize = 20;

/// An interval and its middle on a scale that is symmetric around zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IntervalBar {
    pub(crate) low: f64,
    pub(crate) width: f64,
    pub(crate) middle: f64,
    /// Whether the interval contains zero.
    pub(crate) has_zero: bool,
}

impl IntervalBar {
    /// `reach`: the largest absolute value of the scale.
    pub(crate) fn new(middle: f64, [low, high]: [f64; 2], reach: f64) -> Self {
        let place = |value: f64| {
            let share = if 0.0 < reach { (value / reach).clamp(-1.0, 1.0) } else { 0.0 };
            ((share + 1.0) / 2.0 * WIDTH * 10.0).round() / 10.0
        };
        let (start, end) = (place(low), place(high));
        Self {
            low: start,
            width: ((end - start) * 10.0).round().max(5.0) / 10.0,
            middle: place(middle),
            has_zero: low <= 0.0 && 0.0 <= high,
        }
    }
}

/// Bars of a distribution of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    pub(crate) bars: Vec<HistogramBar>,
    pub(crate) least: String,
    pub(crate) most: String,
}

#[derive(Clone, Debug)]
pub(crate) struct HistogramBar {
    pub(crate) x: usize,
    pub(crate) y: f64,
    pub(crate) height: f64,
    /// Range and count.
    pub(crate) title: String,
}

impl Histogram {
    /// The distribution of finite values; empty without values. The scale contains 0 and 1 if all values are between them.
    pub(crate) fn new(values: &[f64]) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if values.is_empty() || !low.is_finite() || !high.is_finite() {
            return Self::default();
        }
        let (low, high) = match (0.0..=1.0).contains(&low) && high <= 1.0 {
            true => (0.0, 1.0),
            false if low == high => (low - 0.5, high + 0.5),
            false => (low, high),
        };
        let width = (high - low) / N_BARS as f64;
        let mut counts = [0_u64; N_BARS];
        for value in values {
            let at = ((value - low) / width) as usize;
            counts[at.min(N_BARS - 1)] += 1;
        }
        let most = counts.iter().copied().max().unwrap_or_default().max(1);
        let shown = |value: f64| number_like(value, high);
        let bars = counts.iter().enumerate().filter(|(_, n)| 0 < **n).map(|(x, n)| {
            let height = (*n as f64 / most as f64 * HEIGHT * 10.0).round().max(5.0) / 10.0;
            let from = low + x as f64 * width;
            let title = format!("{} to {}: {}", shown(from), shown(from + width), count(*n));
            HistogramBar { x, y: HEIGHT - height, height, title }
        });
        Self { bars: bars.collect(), least: shown(low), most: shown(high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_drawn_around_the_middle_and_cut_at_the_scale() {
        let bar = IntervalBar::new(0.1, [0.05, 0.15], 0.2);
        assert_eq!((bar.low, bar.width, bar.middle, bar.has_zero), (62.5, 25.0, 75.0, false));
        let wide = IntervalBar::new(0.0, [-1.0, 1.0], 0.2);
        assert_eq!((wide.low, wide.width, wide.has_zero), (0.0, 100.0, true));
        assert_eq!(IntervalBar::new(0.0, [0.0, 0.0], 0.0).middle, 50.0);
    }

    #[test]
    fn a_distribution_has_a_bar_for_each_range_with_values() {
        let scores = Histogram::new(&[0.0, 1.0, 1.0, 0.52]);
        let bars: Vec<_> = scores.bars.iter().map(|bar| (bar.x, bar.height)).collect();
        assert_eq!(bars, [(0, 8.0), (10, 8.0), (19, 16.0)]);
        assert_eq!((scores.least.as_str(), scores.most.as_str()), ("0.00", "1.00"));
        assert_eq!(Histogram::new(&[7.0]).bars.len(), 1);
        assert!(Histogram::new(&[]).bars.is_empty());
    }
}
