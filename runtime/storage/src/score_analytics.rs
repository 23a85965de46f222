//! Statistics of stored scores.

use std::collections::{HashMap, HashSet};

use perpend_domain::filter::{Condition, Filter, Order, TRACES, Test, find};
use perpend_domain::ids::{ProjectId, TraceId};
use perpend_domain::list::ListPosition;
use perpend_domain::score::{ScoreDataType, ScoreSource, ScoreValue, Subject};
use perpend_domain::score_analytics::{AnalyzedScore, MeasuredScore, ScoreSelection};
use perpend_domain::telemetry::ScoreQuery;
use perpend_domain::time::Timestamp;
use perpend_domain::trace_list::TraceQuery;
use perpend_experiments::score_analysis::{
    CellPair, CorrectedShare, MissingScores, PairCell, PairedScores, ReferenceVerdicts,
    ScoreAnalysis, ScoreCell, ScoreComparison, ScoreDistribution, ScorePair, ScoreSample,
    ScoreThresholds, SubjectScores, ThresholdSample, subject_number,
};

use crate::{Bounds, Store};
use perpend_db::{Error, charge};

/// Scores of one name that are read.
const MAX_SCORES: usize = 1_000_000;
/// Traces of which those without a score are counted.
const TRACE_BOUNDS: Bounds = Bounds { max_tested: 20_000, max_counted: Some(MAX_SCORES as u64) };
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

/// The trace of a score, if it started in the range.
fn trace_in_range<'s>(
    score: &'s AnalyzedScore,
    query: &ScoreAnalyticsQuery,
) -> Option<&'s TraceId> {
    let start = score.trace_start?;
    let is_in_range =
        query.from.is_none_or(|from| from <= start) && query.to.is_none_or(|to| start < to);
    match &score.subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => is_in_range.then_some(trace),
        Subject::Session(_) | Subject::Experiment(_) => None,
    }
}

/// Number of unweighted scores whose share has the same standard error.
fn n_effective(found: &ScoreDistribution, share: f64) -> u64 {
    match found.summary.stderr.filter(|stderr| found.is_weighted && 0.0 < *stderr) {
        Some(stderr) => (share * (1.0 - share) / (stderr * stderr)) as u64,
        None => found.n,
    }
}

/// The traces that started in the range and environments.
fn traces(query: &ScoreAnalyticsQuery) -> Filter {
    let condition = |column, test| Condition { column: find(TRACES, column), test };
    let mut conditions = Vec::new();
    for (order, at) in [(Order::AtLeast, query.from), (Order::Less, query.to)] {
        conditions.extend(at.map(|at| condition("timestamp", Test::Time(order, at))));
    }
    if !query.environments.is_empty() {
        let test = Test::AnyOf(query.environments.clone());
        conditions.push(condition("environment", test));
    }
    if !query.other_than_environments.is_empty() {
        let test = Test::NoneOf(query.other_than_environments.clone());
        conditions.push(condition("environment", test));
    }
    Filter { conditions }
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
        let labels = self.labels_by_people(project, query).await?;
        let mut sample = ScoreSample::default();
        let mut scored_traces: HashSet<u64> = HashSet::new();
        // The newest label by the evaluator of each subject with one by people.
        let mut labelled: HashMap<u64, (i64, bool, bool)> = HashMap::new();
        let add = |score: AnalyzedScore| {
            if MAX_SCORES <= sample.len() {
                return Err(Error::Conflict(TOO_MANY));
            }
            let mut n_bytes = 0;
            if let Some(trace) = trace_in_range(&score, query)
                && scored_traces.insert(subject_number(&Subject::Trace(trace.clone())))
            {
                n_bytes += 2 * size_of::<u64>();
            }
            if let (ScoreValue::Boolean(truth), Some(label)) =
                (&score.value, labels.of(&score.subject))
            {
                let at = score.timestamp.as_micros();
                let newest = (at, label, *truth);
                let entry = labelled.entry(subject_number(&score.subject)).or_insert(newest);
                if entry.0 <= at {
                    *entry = newest;
                }
            }
            // The scores are copied to be sorted, and their values to be grouped.
            charge(n_bytes + 3 * sample.add(score))
        };
        self.telemetry.each_analyzed_score(project, &query.scores(&query.a), add).await?;
        let missing = self.missing_scores(project, query, scored_traces.len() as u64).await?;
        let range = query.from.zip(query.to);
        let pairs: Vec<(bool, bool)> =
            labelled.into_values().map(|(_, label, truth)| (label, truth)).collect();
        computed(move || {
            let found = sample.distribution(range);
            let share = found.summary.mean.filter(|_| !pairs.is_empty());
            let share = share.filter(|_| found.data_type == Some(ScoreDataType::Boolean));
            let corrected =
                share.map(|share| CorrectedShare::new((share, n_effective(&found, share)), &pairs));
            ScoreDistribution { missing, corrected, ..found }
        })
        .await
    }

    /// The labels by people with which the scores of an evaluator are corrected; none for other scores.
    async fn labels_by_people(
        &self,
        project: &ProjectId,
        query: &ScoreAnalyticsQuery,
    ) -> Result<ReferenceVerdicts, Error> {
        let mut labels = ReferenceVerdicts::new(None);
        if query.a.source != Some(ScoreSource::Eval) {
            return Ok(labels);
        }
        let people =
            ScoreSelection { name: query.a.name.clone(), source: Some(ScoreSource::Annotation) };
        let mut n_scores = 0;
        let add = |score: AnalyzedScore| {
            n_scores += 1;
            if MAX_SCORES < n_scores {
                return Err(Error::Conflict(TOO_MANY));
            }
            // Labels of boolean scores are boolean.
            match score.value {
                ScoreValue::Boolean(_) => charge(labels.add(&score)),
                _ => Ok(()),
            }
        };
        self.telemetry.each_analyzed_score(project, &query.scores(&people), add).await?;
        Ok(labels)
    }

    /// Traces of the range without a score of the name. `n_scored` have one.
    async fn missing_scores(
        &self,
        project: &ProjectId,
        query: &ScoreAnalyticsQuery,
        n_scored: u64,
    ) -> Result<Option<MissingScores>, Error> {
        if n_scored == 0 {
            return Ok(None);
        }
        let of_traces = TraceQuery { filter: traces(query), limit: 1, ..TraceQuery::default() };
        let first = ListPosition::default();
        let found = self.telemetry.traces_from(project, &of_traces, &first, TRACE_BOUNDS).await?;
        let total = found.total.filter(|total| !total.is_more).map(|total| total.n);
        Ok(total.filter(|n| 0 < *n).map(|n_traces| {
            let n_missing = n_traces.saturating_sub(n_scored);
            MissingScores { n_traces, n_missing, share: n_missing as f64 / n_traces as f64 }
        }))
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
