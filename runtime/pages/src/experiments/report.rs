//! The account, the figures and the scores of a run, computed as `GET /api/v1/experiments/{experimentId}` does.

use std::collections::BTreeMap;

use perpend_domain::experiment::{RunAccount, RunResults};
use perpend_domain::ids::ProjectId;
use perpend_domain::score::{ScoreDataType, ScoreValue};
use perpend_experiments::comparison::MetricSummary;
use perpend_experiments::run_summary::{RunFigures, ScoreSummary, run_figures, score_summaries};
use perpend_http_kit::problem::Problem;
use perpend_views::{Estimate, ItemCounts, Unit};

use crate::state::App;

/// The account, the figures and the scores of a run.
#[derive(Debug)]
pub(super) struct RunReport {
    pub(super) account: RunAccount,
    pub(super) figures: RunFigures,
    pub(super) scores: Vec<ScoreSummary>,
}

impl RunReport {
    pub(super) async fn of(
        app: &App,
        project: &ProjectId,
        results: &RunResults,
    ) -> Result<Self, Problem> {
        let expected = app.store.expected_scores(project, &results.run).await?;
        Ok(Self {
            account: RunAccount::of(results, &expected),
            figures: run_figures(results),
            scores: score_summaries(results),
        })
    }

    pub(super) fn counts(&self) -> ItemCounts {
        ItemCounts {
            n_expected: self.account.n_expected,
            n_seen: self.account.n_seen,
            n_failed: self.account.n_failed,
            n_missing: self.account.n_missing.unwrap_or_default(),
        }
    }

    pub(super) fn latency(&self) -> Option<Estimate> {
        estimate(&self.figures.latency_ms, Unit::Milliseconds)
    }

    /// The mean of the numbers or truth values with a name.
    pub(super) fn score(&self, name: &str) -> Option<Estimate> {
        let mut named = self.scores.iter().filter(|scores| scores.name == name);
        named.find_map(score_estimate)
    }
}

/// The mean of values with its interval; absent without values.
pub(super) fn estimate(summary: &MetricSummary, unit: Unit) -> Option<Estimate> {
    let interval = summary.interval.map(|ends| [ends.lower, ends.upper]);
    Some(Estimate { mean: summary.mean?, interval, n: summary.n, unit })
}

/// The mean of a score; absent for categories and texts.
pub(super) fn score_estimate(scores: &ScoreSummary) -> Option<Estimate> {
    let unit = match scores.data_type {
        ScoreDataType::Boolean => Unit::Share,
        _ => Unit::Number,
    };
    estimate(&scores.values, unit)
}

/// The values of a score, one per item: the mean of its results.
pub(super) fn item_values(results: &RunResults, scores: &ScoreSummary) -> Vec<f64> {
    let mut by_item: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for result in results.items.iter().filter(|result| result.has_arrived) {
        for score in result.scores.iter().filter(|score| score.name == scores.name) {
            let number = match (&score.value, scores.data_type) {
                (ScoreValue::Numeric(number), ScoreDataType::Numeric) => *number,
                (ScoreValue::Boolean(truth), ScoreDataType::Boolean) => f64::from(u8::from(*truth)),
                _ => continue,
            };
            by_item.entry(&result.item_id).or_default().push(number);
        }
    }
    let means = by_item.values().map(|values| values.iter().sum::<f64>() / values.len() as f64);
    means.collect()
}
