//! Agreement of an evaluator with people.

use std::collections::BTreeSet;

use perpend_domain::evaluation::Target;
use perpend_domain::ids::{EvaluatorId, EvaluatorVersionId, ProjectId, SessionId, TraceId};
use perpend_domain::score::{Score, ScoreSource, Subject};
use perpend_domain::score_analytics::{AnalyzedScore, ScoreSelection};
use perpend_domain::telemetry::ScoreQuery;
use perpend_experiments::score_analysis::{PairedScores, ScoreComparison, SubjectScores};

use crate::Store;
use crate::score_analytics::computed;
use perpend_db::Error;

/// Scores by people that are compared: the newest ones.
const MAX_LABELS: u32 = 500;

/// The target of a search for scores on a subject, which covers the observations of a trace.
fn target(subject: &Subject) -> Option<Target> {
    match subject {
        Subject::Trace(trace) | Subject::Observation(trace, _) => {
            Some(Target::Trace(trace.clone()))
        }
        Subject::Session(session) => SessionId::new(session).ok().map(Target::Session),
        Subject::Experiment(_) => None,
    }
}

fn analyzed(score: &Score) -> AnalyzedScore {
    let written = &score.written;
    AnalyzedScore {
        value: written.value.clone(),
        subject: written.subject.clone(),
        timestamp: written.timestamp,
        environment: written.environment.clone(),
        version: None,
        probability: 1.0,
        model: None,
        prompt: None,
        release: None,
        trace_start: None,
    }
}

impl Store {
    /// The newest 500 scores of a name by people, compared with those of a version of an evaluator on the same subjects.
    /// `None` without pairs.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn agreement_with_people(
        &self,
        project: &ProjectId,
        (evaluator, version): (&EvaluatorId, &EvaluatorVersionId),
        name: &str,
    ) -> Result<Option<ScoreComparison>, Error> {
        let query = ScoreQuery {
            names: vec![name.to_owned()],
            sources: vec![ScoreSource::Annotation],
            ..ScoreQuery::default()
        };
        let labels = self.telemetry.scores(project, &query, None, MAX_LABELS).await?.items;
        let targets = labels.iter().filter_map(|score| target(&score.written.subject));
        let (sessions, traces): (Vec<Target>, Vec<Target>) =
            targets.partition(|target| target.session().is_some());
        let (mut by_people, mut by_version) = (SubjectScores::default(), SubjectScores::default());
        for label in &labels {
            by_people.add(analyzed(label));
        }
        let distinct: BTreeSet<&TraceId> = traces.iter().filter_map(Target::trace).collect();
        let traces: Vec<Target> = distinct.into_iter().cloned().map(Target::Trace).collect();
        for targets in [traces, sessions] {
            if targets.is_empty() {
                continue;
            }
            let found = self.telemetry.scores_of_evaluator(project, (evaluator, None), &targets);
            for score in found.await? {
                let origin = score.written.origin.as_ref();
                let is_of_version =
                    origin.is_some_and(|origin| origin.evaluator_version_id == *version);
                if is_of_version && score.written.name == name {
                    by_version.add(analyzed(&score));
                }
            }
        }
        if by_people.is_empty() || by_version.is_empty() {
            return Ok(None);
        }
        let selection = |source| ScoreSelection { name: name.to_owned(), source: Some(source) };
        let (people, version) = (selection(ScoreSource::Annotation), selection(ScoreSource::Eval));
        let compared =
            computed(move || PairedScores::new([&people, &version], [by_people, by_version], None));
        let comparison = compared.await?.comparison;
        Ok((0 < comparison.n_pairs).then_some(comparison))
    }
}
