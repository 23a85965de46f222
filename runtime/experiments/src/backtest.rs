//! Results of a backtest: agreement of live scores with results of another version, over all targets and by segment.

use std::collections::{BTreeMap, BTreeSet};

use perpend_domain::backtest::{
    BacktestScore, BacktestSegment, IntervalEstimate, LabelPairs, NumberPair, SegmentKind,
};
use perpend_stats::agreement::{Confusion, Weights};
use perpend_stats::correlation::correlate;
use perpend_stats::paired::{self, Options};
use perpend_stats::proportion::wilson;

/// Level of the intervals.
const LEVEL: f64 = 0.95;
/// Segments of one kind.
const MAX_SEGMENTS: usize = 20;
/// Labels of a matrix.
const MAX_LABELS: usize = 100;
/// The sign-flip test of a comparison is not shown, so one flip is enough.
const FLIPS: usize = 1;

/// The pairs of a backtest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BacktestPairs {
    /// Labels over all targets.
    pub labels: Vec<LabelPairs>,
    /// Labels by the segments of each kind.
    pub by_segment: Vec<(SegmentKind, Vec<LabelPairs>)>,
    /// Numbers.
    pub numbers: Vec<NumberPair>,
}

/// Pairs and those with equal values.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    n: u64,
    n_equal: u64,
}

impl Tally {
    fn add(&mut self, n: u64, is_equal: bool) {
        self.n += n;
        self.n_equal += if is_equal { n } else { 0 };
    }

    const fn n_flips(self) -> u64 {
        self.n - self.n_equal
    }

    fn agreement(self) -> IntervalEstimate {
        let interval = wilson(self.n_equal, self.n, LEVEL).ok();
        IntervalEstimate {
            value: if self.n == 0 { 0.0 } else { self.n_equal as f64 / self.n as f64 },
            lower: interval.map(|interval| interval.lower),
            upper: interval.map(|interval| interval.upper),
        }
    }
}

/// The results of a backtest, by name of the score.
#[must_use]
pub fn backtest_scores(pairs: &BacktestPairs) -> Vec<BacktestScore> {
    let mut labels: BTreeMap<&str, Vec<&LabelPairs>> = BTreeMap::new();
    for each in &pairs.labels {
        labels.entry(&each.name).or_default().push(each);
    }
    let mut numbers: BTreeMap<&str, Vec<&NumberPair>> = BTreeMap::new();
    for each in &pairs.numbers {
        numbers.entry(&each.name).or_default().push(each);
    }
    let of_labels = labels.into_iter().map(|(name, all)| of_labels(name, &all, &pairs.by_segment));
    let of_numbers = numbers.into_iter().map(|(name, all)| of_numbers(name, &all));
    let mut scores: Vec<BacktestScore> = of_labels.chain(of_numbers).collect();
    scores.sort_by(|a, b| a.name.cmp(&b.name));
    scores
}

/// The labels in order, and the matrix over them.
fn confusion(pairs: &[&LabelPairs]) -> Option<(Vec<String>, Confusion)> {
    let labels = pairs.iter().flat_map(|pair| [pair.live.as_str(), pair.tested.as_str()]);
    let labels: BTreeSet<&str> = labels.collect();
    if MAX_LABELS < labels.len() {
        return None;
    }
    let places: BTreeMap<&str, usize> = labels.iter().copied().zip(0..).collect();
    let mut counts = vec![vec![0; labels.len()]; labels.len()];
    for pair in pairs {
        counts[places[pair.live.as_str()]][places[pair.tested.as_str()]] += pair.n;
    }
    let confusion = Confusion::of_counts(counts).ok()?;
    Some((labels.into_iter().map(str::to_owned).collect(), confusion))
}

fn of_labels(
    name: &str,
    pairs: &[&LabelPairs],
    by_segment: &[(SegmentKind, Vec<LabelPairs>)],
) -> BacktestScore {
    let mut tally = Tally::default();
    for pair in pairs {
        tally.add(pair.n, pair.live == pair.tested);
    }
    let mut segments = Vec::new();
    for (kind, all) in by_segment {
        let mut tallies: BTreeMap<Option<&str>, Tally> = BTreeMap::new();
        for pair in all.iter().filter(|pair| pair.name == name) {
            let tally = tallies.entry(pair.segment.as_deref()).or_default();
            tally.add(pair.n, pair.live == pair.tested);
        }
        let found = tallies.into_iter().map(|(value, tally)| segment(*kind, value, tally, None));
        segments.extend(largest(found.collect()));
    }
    let confusion = confusion(pairs);
    let kappa = confusion.as_ref().and_then(|(_, counts)| counts.kappa(Weights::Equal));
    let (labels, counts) = confusion.unzip();
    BacktestScore {
        name: name.to_owned(),
        is_numeric: false,
        pair_count: tally.n,
        flip_count: tally.n_flips(),
        agreement: tally.agreement(),
        kappa,
        labels: labels.unwrap_or_default(),
        confusion: counts.map(|counts| counts.counts().to_vec()).unwrap_or_default(),
        mean_difference: None,
        mean_absolute_difference: None,
        pearson: None,
        spearman: None,
        segments,
    }
}

fn of_numbers(name: &str, pairs: &[&NumberPair]) -> BacktestScore {
    let mut tally = Tally::default();
    for pair in pairs {
        tally.add(1, pair.is_equal());
    }
    let (live, tested): (Vec<f64>, Vec<f64>) =
        pairs.iter().map(|pair| (pair.live, pair.tested)).unzip();
    let correlation = correlate(&live, &tested).ok();
    let compared =
        paired::compare(&live, &tested, None, Options { level: LEVEL, seed: 0, flips: FLIPS }).ok();
    let mut segments = Vec::new();
    for kind in SegmentKind::ALL {
        let mut tallies: BTreeMap<Option<&str>, (Tally, f64)> = BTreeMap::new();
        for pair in pairs {
            let (tally, sum) = tallies.entry(pair.segment(*kind)).or_default();
            tally.add(1, pair.is_equal());
            *sum += pair.tested - pair.live;
        }
        let found = tallies.into_iter().map(|(value, (tally, sum))| {
            let mean = sum / tally.n as f64;
            segment(*kind, value, tally, Some(mean).filter(|mean| mean.is_finite()))
        });
        segments.extend(largest(found.collect()));
    }
    BacktestScore {
        name: name.to_owned(),
        is_numeric: true,
        pair_count: tally.n,
        flip_count: tally.n_flips(),
        agreement: tally.agreement(),
        kappa: None,
        labels: Vec::new(),
        confusion: Vec::new(),
        mean_difference: compared.map(|compared| IntervalEstimate {
            value: compared.mean_difference,
            lower: compared.interval.map(|interval| interval.lower),
            upper: compared.interval.map(|interval| interval.upper),
        }),
        mean_absolute_difference: correlation.map(|found| found.mae),
        pearson: correlation.and_then(|found| found.pearson),
        spearman: correlation.and_then(|found| found.spearman),
        segments,
    }
}

fn segment(
    by: SegmentKind,
    value: Option<&str>,
    tally: Tally,
    mean_difference: Option<f64>,
) -> BacktestSegment {
    BacktestSegment {
        by,
        value: value.map(str::to_owned),
        pair_count: tally.n,
        flip_count: tally.n_flips(),
        agreement: tally.agreement(),
        mean_difference,
    }
}

/// The segments of a kind with the most pairs; none if no target has the property.
fn largest(mut segments: Vec<BacktestSegment>) -> Vec<BacktestSegment> {
    if segments.iter().all(|each| each.value.is_none()) {
        return Vec::new();
    }
    // Stable: segments of equal size stay in the order of their values.
    segments.sort_by_key(|each| std::cmp::Reverse(each.pair_count));
    segments.truncate(MAX_SEGMENTS);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(segment: Option<&str>, live: &str, tested: &str, n: u64) -> LabelPairs {
        LabelPairs {
            name: "right".to_owned(),
            segment: segment.map(str::to_owned),
            live: live.to_owned(),
            tested: tested.to_owned(),
            n,
        }
    }

    #[test]
    fn labels_give_agreement_kappa_and_segments() {
        let pairs = BacktestPairs {
            labels: vec![
                labels(None, "true", "true", 45),
                labels(None, "false", "false", 25),
                labels(None, "true", "false", 15),
                labels(None, "false", "true", 15),
            ],
            by_segment: vec![(
                SegmentKind::Model,
                vec![
                    labels(Some("large"), "true", "true", 45),
                    labels(Some("small"), "true", "false", 55),
                ],
            )],
            numbers: Vec::new(),
        };
        let scores = backtest_scores(&pairs);
        assert_eq!(scores.len(), 1);
        let found = &scores[0];
        assert_eq!((found.pair_count, found.flip_count), (100, 30));
        assert_eq!(found.labels, ["false", "true"]);
        assert_eq!(found.confusion, [[25, 15], [15, 45]]);
        // Chance agreement is 0.6 ⋅ 0.6 + 0.4 ⋅ 0.4.
        assert!((found.kappa.unwrap() - 0.18 / 0.48).abs() < 1e-12);
        let (lower, upper) = (found.agreement.lower.unwrap(), found.agreement.upper.unwrap());
        assert!(lower < 0.7 && 0.7 < upper, "{found:?}");
        let sizes = found.segments.iter().map(|each| (each.value.as_deref(), each.flip_count));
        assert_eq!(sizes.collect::<Vec<_>>(), [(Some("small"), 55), (Some("large"), 0)]);
    }

    #[test]
    fn numbers_give_differences_and_correlation() {
        let number = |live, tested| NumberPair {
            name: "helpful".to_owned(),
            model: None,
            environment: "default".to_owned(),
            prompt: None,
            live,
            tested,
        };
        let numbers = vec![number(0.0, 0.0), number(0.5, 0.75), number(1.0, 1.5)];
        let scores = backtest_scores(&BacktestPairs { numbers, ..BacktestPairs::default() });
        let found = &scores[0];
        assert_eq!((found.pair_count, found.flip_count), (3, 2));
        let difference = found.mean_difference.unwrap();
        assert!((difference.value - 0.25).abs() < 1e-12 && difference.lower.is_some());
        assert!((found.pearson.unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(found.segments.len(), 1, "no target has a model or a prompt: {found:?}");
    }
}
