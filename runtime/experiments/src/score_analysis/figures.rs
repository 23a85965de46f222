//! Statistics of pairs with their intervals.

use perpend_stats::agreement::{Confusion, Weights};
use perpend_stats::{
    Interval, bootstrap, correlation as correlations, proportion, random, summary,
};

use super::{CategoryAgreement, LEVEL, ScoreAgreement, ScoreCorrelation, ScoreStatistic};
use crate::comparison::ConfidenceInterval;
use crate::number::{number, signed};

/// Resamples of an interval.
const RESAMPLES: usize = 2_000;
/// Resamples of an interval of many pairs, which hardly differ from one another.
const FEWEST_RESAMPLES: usize = 200;
/// Values that are drawn for an interval.
const MAX_DRAWS: usize = 10_000_000;
/// Standard deviations on both sides of the mean that contain 95 % of a normal distribution.
const NORMAL_REACH: f64 = 1.96;

/// The values of pairs, matched by position: indexes of categories, or numbers.
pub(super) struct Compared {
    pub(super) a: Vec<f64>,
    pub(super) b: Vec<f64>,
    pub(super) names: [String; 2],
}

impl ScoreStatistic {
    fn undefined(reason: impl Into<String>) -> Self {
        Self { undefined: Some(reason.into()), ..Self::default() }
    }

    fn of(value: Option<f64>, interval: Option<Interval>, reason: impl FnOnce() -> String) -> Self {
        match value {
            None => Self::undefined(reason()),
            value => Self {
                value,
                lower: interval.map(|ends| ends.lower),
                upper: interval.map(|ends| ends.upper),
                undefined: None,
            },
        }
    }

    /// `0.58 (0.4 to 0.7)`, or `undefined`.
    fn text(&self) -> String {
        let Some(value) = self.value else {
            return "undefined".to_owned();
        };
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => {
                format!("{} ({} to {})", number(value), number(lower), number(upper))
            }
            _ => number(value),
        }
    }
}

impl Compared {
    const fn n(&self) -> usize {
        self.a.len()
    }

    /// The reason why a statistic of the pairs is undefined. `name` shows a constant value.
    fn reason(&self, name: impl Fn(f64) -> String) -> String {
        if self.n() < 2 {
            return "there is only one pair".to_owned();
        }
        for (values, score) in [&self.a, &self.b].into_iter().zip(&self.names) {
            if let Some(first) = values.first()
                && values.iter().all(|value| value == first)
            {
                return format!("every value of {score} is {}", name(*first));
            }
        }
        "the values do not vary".to_owned()
    }

    fn interval(
        &self,
        metric: &str,
        statistic: impl FnMut(&[usize]) -> Option<f64>,
    ) -> Option<Interval> {
        let n = self.n();
        let resamples = (MAX_DRAWS / n.max(1)).clamp(FEWEST_RESAMPLES, RESAMPLES);
        let seed = random::seed(&self.names.join("\0"), metric);
        let options = bootstrap::Options { seed, resamples, level: LEVEL };
        let found = bootstrap::statistic(n, None, options, statistic).ok().flatten()?;
        // An interval of the few resamples that define the statistic would be too narrow.
        (found.n_undefined <= resamples / 2).then_some(found.interval)
    }
}

/// The agreement of categories, and a sentence. `None` without pairs.
pub(super) fn agreement(
    compared: &Compared,
    labels: &[String],
    counts: Vec<Vec<u64>>,
) -> Option<(ScoreAgreement, String)> {
    let sums: Vec<u64> = counts.iter().map(|row| row.iter().sum()).collect();
    let column = |at: usize| counts.iter().map(|row| row[at]).sum::<u64>();
    let columns: Vec<u64> = (0..labels.len()).map(column).collect();
    let equal: Vec<u64> = (0..labels.len()).map(|at| counts[at][at]).collect();
    let confusion = Confusion::of_counts(counts).ok()?;
    let n = confusion.n();
    let ends = proportion::wilson(equal.iter().sum(), n, LEVEL).ok();
    let agreement = ScoreStatistic::of(Some(confusion.agreement()), ends, String::new);
    // The first of equally frequent categories.
    let constant = (0..labels.len()).rev().max_by_key(|at| sums[*at])?;
    let constant_agreement = sums[constant] as f64 / n as f64;
    let name = |value: f64| labels.get(value as usize).cloned().unwrap_or_default();
    let places = |values: &[f64]| values.iter().map(|value| *value as usize).collect();
    let (a, b): (Vec<usize>, Vec<usize>) = (places(&compared.a), places(&compared.b));
    let chance_corrected = |metric: &str, of: fn(&Confusion) -> Option<f64>| {
        let value = of(&confusion).filter(|_| 1 < n);
        let interval = value.and_then(|_| {
            compared.interval(metric, |drawn| {
                let mut counts = vec![vec![0; labels.len()]; labels.len()];
                for at in drawn {
                    counts[a[*at]][b[*at]] += 1;
                }
                of(&Confusion::of_counts(counts).ok()?)
            })
        });
        ScoreStatistic::of(value, interval, || compared.reason(name))
    };
    let kappa = chance_corrected("kappa", |confusion| confusion.kappa(Weights::Equal));
    let gwet_ac1 = chance_corrected("gwet_ac1", Confusion::gwet_ac1);
    let share = |part: u64, whole: u64| (0 < whole).then(|| part as f64 / whole as f64);
    let categories = labels.iter().enumerate().map(|(at, label)| CategoryAgreement {
        label: label.clone(),
        n_a: sums[at],
        n_b: columns[at],
        precision: share(equal[at], columns[at]),
        recall: share(equal[at], sums[at]),
    });
    let kappa_text = match kappa.value {
        Some(value) => format!("kappa {value:.2}"),
        None => "kappa is undefined".to_owned(),
    };
    let range = ends.map_or_else(String::new, |ends| {
        format!(" ({:.0} to {:.0})", ends.lower * 100.0, ends.upper * 100.0)
    });
    let sentence = format!(
        "They agree on {:.0} %{range}, {kappa_text}; always answering {} would agree on {:.0} %.",
        confusion.agreement() * 100.0,
        labels[constant],
        constant_agreement * 100.0
    );
    let found = ScoreAgreement {
        agreement,
        kappa,
        gwet_ac1,
        constant: labels[constant].clone(),
        constant_agreement,
        categories: categories.collect(),
    };
    Some((found, sentence))
}

/// The correlation of numbers, and a sentence. `None` without pairs.
pub(super) fn correlation(compared: &Compared) -> Option<(ScoreCorrelation, String)> {
    let Compared { a, b, names } = compared;
    let found = correlations::correlate(a, b).ok()?;
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let differences = summary::summarize(&differences, None, LEVEL).ok()?;
    let coefficient = |metric: &str, value: Option<f64>, [a, b]: [&[f64]; 2]| {
        let interval = value.and_then(|_| {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            compared.interval(metric, |drawn| {
                left.clear();
                right.clear();
                left.extend(drawn.iter().map(|at| a[*at]));
                right.extend(drawn.iter().map(|at| b[*at]));
                correlations::pearson_of(&left, &right).ok().flatten()
            })
        });
        ScoreStatistic::of(value, interval, || compared.reason(number))
    };
    let pearson = coefficient("pearson", found.pearson, [a.as_slice(), b.as_slice()]);
    let ranks = [correlations::ranks(a).ok()?, correlations::ranks(b).ok()?];
    let spearman =
        coefficient("spearman", found.spearman, [ranks[0].as_slice(), ranks[1].as_slice()]);
    let bias = ScoreStatistic::of(Some(found.bias), differences.interval, String::new);
    let limits = differences.sd.map(|sd| ConfidenceInterval {
        lower: found.bias - NORMAL_REACH * sd,
        upper: found.bias + NORMAL_REACH * sd,
    });
    let sentence = format!(
        "Pearson's r is {}, Spearman's rho {}; {} minus {} is {} on average.",
        pearson.text(),
        spearman.text(),
        names[1],
        names[0],
        signed(found.bias)
    );
    let found =
        ScoreCorrelation { pearson, spearman, bias, mae: found.mae, limits_of_agreement: limits };
    Some((found, sentence))
}
