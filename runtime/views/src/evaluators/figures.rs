//! Figures of an evaluator: time, cost, failures, scores by version, and agreement with people.

use crate::format::count;
use crate::overview::trends::{SparkPoint, spark};
use crate::{Html, Text};

/// The figures of an evaluator.
#[derive(Clone, Debug, Default)]
pub struct EvaluatorFiguresView {
    /// Labels and values of the newest executions.
    pub facts: Vec<(&'static str, Html)>,
    /// Scores of the newest versions by day, newest first.
    pub versions: Vec<VersionTrend>,
    /// The calibration of the newest version by its last check: status, its class, and the explanation.
    pub calibration: Option<(String, &'static str, Text)>,
    /// Agreement of the newest version with people, by name of the score.
    pub people: Vec<PeopleAgreement>,
}

/// The scores of a version by day.
#[derive(Clone, Debug)]
pub struct VersionTrend {
    pub(crate) number: u32,
    pub(crate) href: String,
    pub(crate) n: String,
    pub(crate) values: Vec<Text>,
    pub(crate) spark: Vec<SparkPoint>,
}

impl VersionTrend {
    /// `days` are labels and counts, of the newest scores alone if `is_cut`. `values` are the means of its scores, and the URL is
    /// that of its scores.
    #[must_use]
    pub fn new(
        number: u32,
        href: String,
        (days, is_cut): (&[(String, u64)], bool),
        values: Vec<Text>,
    ) -> Self {
        let over_time = days.iter().map(|(day, n)| (day.clone(), (0 < *n).then_some(*n as f64)));
        Self {
            number,
            href,
            n: format!(
                "{}{}",
                count(days.iter().map(|(_, n)| n).sum()),
                if is_cut { "+" } else { "" }
            ),
            values,
            spark: spark(&over_time.collect::<Vec<_>>()),
        }
    }
}

/// The agreement of a version with people.
#[derive(Clone, Debug)]
pub struct PeopleAgreement {
    /// Name of the score.
    pub name: Text,
    /// Subjects with both scores, such as `30 pairs`.
    pub pairs: String,
    /// The result in words, with intervals.
    pub sentence: Text,
    /// URL of the comparison.
    pub href: String,
}
