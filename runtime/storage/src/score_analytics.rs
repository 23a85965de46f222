//! Statistics of stored scores.

use std::collections::HashMap;

use perpend_domain::ids::ProjectId;
use perpend_domain::score::Subject;
use perpend_domain::score_analytics::{AnalyzedScore, MeasuredScore, ScoreSelection};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;
use perpend_experiments::score_analysis::{
    CellPair, PairCell, PairedScores, ReferenceVerdicts, ScoreAnalysis, ScoreCell, ScoreComparison,
    ScoreDistribution, ScorePair, ScoreSample, ScoreThresholds, SubjectScores, ThresholdSample,
    subject_number,
};

use crate::Store;
use perpend_db::{Error, charge};

/// Scores of one name that are read.
const MAX_SCORES: usize = 1_000_000;
const TOO_MANY: &str =
    "more than 1000000 scores match; choose a shorter time range, an environment or a source";

/// The scores to analyze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreAnalyticsQuery {
    /// The score, or the first of two.
    pub a: ScoreSelection,
    /// The score to compare with; absent for the distribution of `a`.
    pub b: Option<ScoreSelection>,
    /// Only these environments; all if empty.
    pub environments: Vec<String>,
    /// None of these environments.
    pub other_than_environments: Vec<String>,
    /// Scores at or after.
    pub from: Option<Timestamp>,
    /// Scores before.
    pub to: Option<Timestamp>,
    /// The cell whose pairs are listed.
    pub cell: Option<PairCell>,
}

impl ScoreAnalyticsQuery {
    /// The query of the scores of a selection.
    #[must_use]
    pub fn scores(&self, selection: &ScoreSelection) -> ScoreQuery {
        ScoreQuery {
            names: vec![selection.name.clone()],
            sources: selection.source.into_iter().collect(),
            environments: self.environments.clone(),
            other_than_environments: self.other_than_environments.clone(),
            from: self.from,
            to: self.to,
            ..ScoreQuery::default()
        }
    }
}

/// Thresholds over the scores of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct ScoreThresholdQuery {
    /// The scores: `a`, and the reference `b`.
    pub scores: ScoreAnalyticsQuery,
    /// The choice whose stored probability is compared; absent for the values of numeric scores.
    pub choice: Option<String>,
    /// The category of the reference that is positive.
    pub positive: Option<String>,
    /// The thresholds; if empty, nine that divide the range.
    pub thresholds: Vec<f64>,
}

impl Store {
    /// The verdicts that thresholds over stored numbers or probabilities give, without a call.
    ///
    /// # Errors
    /// When the database fails, or [`Error::Conflict`] for too many scores.
    pub async fn score_thresholds(
        &self,
        project: &ProjectId,
        query: &ScoreThresholdQuery,
    ) -> Result<ScoreThresholds, Error> {
        let mut sample = ThresholdSample::new(query.choice.clone());
        let add = |score: MeasuredScore| {
            if MAX_SCORES <= sample.len() {
                return Err(Error::Conflict(TOO_MANY));
            }
            charge(sample.add(score))
        };
        let scores = query.scores.scores(&query.scores.a);
        self.telemetry.each_measured_score(project, &scores, add).await?;
        let mut reference = None;
        if let Some(b) = &query.scores.b {
            let mut verdicts = ReferenceVerdicts::new(query.positive.clone());
            let mut n_scores = 0;
            let add = |score: AnalyzedScore| {
                n_scores += 1;
                if MAX_SCORES < n_scores {
                    return Err(Error::Conflict(TOO_MANY));
                }
                charge(verdicts.add(&score))
            };
            self.telemetry.each_analyzed_score(project, &query.scores.scores(b), add).await?;
            reference = Some(verdicts);
        }
        let thresholds = query.thresholds.clone();
        computed(move || sample.evaluate(thresholds, reference.as_ref())).await
    }

    /// The distribution of a score, or the comparison of two scores on the same subjects.
    ///
    /// # Errors
    /// When the database fails, or [`Error::Conflict`] for too many scores.
    pub async fn analyze_scores(
        &self,
        project: &ProjectId,
        query: &ScoreAnalyticsQuery,
    ) -> Result<ScoreAnalysis, Error> {
        let Some(b) = &query.b else {
            let distribution = Some(self.score_distribution(project, query).await?);
            return Ok(ScoreAnalysis { distribution, comparison: None });
        };
        let comparison = Some(self.compare_scores(project, query, b).await?);
        Ok(ScoreAnalysis { distribution: None, comparison })
    }

    async fn score_distribution(
        &self,
        project: &ProjectId,
        query: &ScoreAnalyticsQuery,
    ) -> Result<ScoreDistribution, Error> {
        let mut sample = ScoreSample::default();
        let add = |score: AnalyzedScore| {
            if MAX_SCORES <= sample.len() {
                return Err(Error::Conflict(TOO_MANY));
            }
            // The scores are copied to be sorted, and their values to be grouped.
            charge(3 * sample.add(score))
        };
        self.telemetry.each_analyzed_score(project, &query.scores(&query.a), add).await?;
        let range = query.from.zip(query.to);
        computed(move || sample.distribution(range)).await
    }

    async fn compare_scores(
        &self,
        project: &ProjectId,
        query: &ScoreAnalyticsQuery,
        b: &ScoreSelection,
    ) -> Result<ScoreComparison, Error> {
        let scores_of_a = self.scores_by_subject(project, &query.scores(&query.a)).await?;
        let scores_of_b = self.scores_by_subject(project, &query.scores(b)).await?;
        let (selections, cell) = ([query.a.clone(), b.clone()], query.cell.clone());
        let PairedScores { mut comparison, cell } = computed(move || {
            let [a, b] = &selections;
            PairedScores::new([a, b], [scores_of_a, scores_of_b], cell.as_ref())
        })
        .await?;
        if let (Some((n, pairs)), Some(named)) = (cell, &query.cell) {
            comparison.cell = Some(ScoreCell {
                row: named.row.clone(),
                column: named.column.clone(),
                n,
                pairs: self.pairs_with_subjects(project, query, pairs).await?,
            });
        }
        Ok(comparison)
    }

    async fn scores_by_subject(
        &self,
        project: &ProjectId,
        query: &ScoreQuery,
    ) -> Result<SubjectScores, Error> {
        let mut scores = SubjectScores::default();
        let add = |score: AnalyzedScore| {
            if MAX_SCORES <= scores.len() {
                return Err(Error::Conflict(TOO_MANY));
            }
            charge(scores.add(score))
        };
        self.telemetry.each_analyzed_score(project, query, add).await?;
        Ok(scores)
    }

    /// The pairs with their subjects, which are read again: a million subjects are not held for a hundred.
    async fn pairs_with_subjects(
        &self,
        project: &ProjectId,
        query: &ScoreAnalyticsQuery,
        pairs: Vec<CellPair>,
    ) -> Result<Vec<ScorePair>, Error> {
        let places: HashMap<u64, usize> =
            pairs.iter().enumerate().map(|(at, pair)| (pair.subject, at)).collect();
        let listed = pairs.into_iter().map(|pair| ScorePair {
            a: pair.a,
            b: pair.b,
            ..ScorePair::default()
        });
        let mut listed: Vec<ScorePair> = listed.collect();
        if listed.is_empty() {
            return Ok(listed);
        }
        let put = |score: AnalyzedScore| {
            let place = places.get(&subject_number(&score.subject));
            if let Some(pair) = place.and_then(|at| listed.get_mut(*at)) {
                name_subject(pair, score.subject);
            }
            Ok(())
        };
        self.telemetry.each_analyzed_score(project, &query.scores(&query.a), put).await?;
        Ok(listed)
    }
}

fn name_subject(pair: &mut ScorePair, subject: Subject) {
    match subject {
        Subject::Trace(trace) => pair.trace_id = Some(trace.as_str().to_owned()),
        Subject::Observation(trace, observation) => {
            pair.trace_id = Some(trace.as_str().to_owned());
            pair.observation_id = Some(observation.as_str().to_owned());
        }
        Subject::Session(session) => pair.session_id = Some(session),
        Subject::Experiment(experiment) => pair.experiment_id = Some(experiment),
    }
}

/// Runs a computation on a thread of its own.
pub(crate) async fn computed<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let computed = tokio::task::spawn_blocking(compute).await;
    computed.map_err(|error| Error::Unavailable(error.to_string()))
}
