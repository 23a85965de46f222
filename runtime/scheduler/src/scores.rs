//! Conversion of the scores of a plug-in to stored scores.

use std::collections::HashMap;

use perpend_domain::evaluation::{Execution, Target};
use perpend_domain::identity;
use perpend_domain::ids::ObservationId;
use perpend_domain::plugin::{PluginScore, PluginScoreValue};
use perpend_domain::score::{NewScore, ScoreOrigin, ScoreSource, ScoreValue, Subject};
use perpend_domain::time::Timestamp;
use serde_json::{Map, Value};

use crate::catalog::PreparedEvaluator;

/// Members of the metadata that the server sets when a score is stored.
const SET_WHEN_STORED: [&str; 10] = [
    "evaluator_id",
    "evaluator_version_id",
    "evaluation_rule_id",
    "evaluation_rule_assignment_id",
    "job_execution_id",
    "job_configuration_id",
    "execution_trace_id",
    "target_trace_id",
    "target_observation_id",
    "target_session_id",
];

/// The member of the metadata that marks scores of a shadow version.
const SHADOW: &str = "shadow";
/// The member of the metadata that marks scores of targets in the audit sample.
const AUDIT: &str = "audit";

/// The scores of one execution: ids are derived from the names in the plug-in's result, stored names from the
/// `name` of the evaluator (evaluation.md 1.15). The metadata keys that clients read (1.1) override those of
/// the plug-in.
pub(crate) fn scores(
    execution: &Execution,
    evaluator: &PreparedEvaluator,
    name: &str,
    environment: &str,
    given: Vec<PluginScore>,
    now: Timestamp,
) -> Vec<NewScore> {
    let made = &execution.made;
    let version = &evaluator.evaluator.version;
    // Executions that may call a model have a trace of their own.
    let has_trace = evaluator.context.grants.model;
    let mut seen: HashMap<String, u32> = HashMap::new();
    let convert = |score: PluginScore| {
        let occurrence = seen.entry(score.name.clone()).or_default();
        let id = identity::score_id(&made.id, &score.name, *occurrence);
        *occurrence += 1;
        // A plug-in may point at another observation of the trace, which was checked before.
        let chosen = score.observation_id.as_deref();
        let chosen = chosen.and_then(|id| ObservationId::new(id).ok());
        let subject = match (&made.target, chosen) {
            (Target::Session(session), _) => Subject::Session(session.to_string()),
            (Target::Run(run), _) => Subject::Experiment(run.clone()),
            (Target::Observation(trace, _) | Target::Trace(trace), Some(chosen)) => {
                Subject::Observation(trace.clone(), chosen)
            }
            (Target::Observation(trace, own), None) => {
                Subject::Observation(trace.clone(), own.clone())
            }
            (Target::Trace(trace), None) => Subject::Trace(trace.clone()),
        };
        let mut metadata = given_metadata(&score);
        let made_by = [
            Some(made.evaluator_id.as_str()),
            Some(version.id.as_str()),
            Some(made.rule_id.as_str()),
            Some(made.assignment_id.as_str()),
            Some(made.id.as_str()),
            Some(made.rule_id.as_str()),
            has_trace.then_some(made.id.as_str()),
            made.target.trace().map(|id| id.as_str()),
            made.target.observation().map(|id| id.as_str()),
            made.target.session().map(|id| id.as_str()),
        ];
        for (key, value) in SET_WHEN_STORED.into_iter().zip(made_by) {
            if let Some(value) = value {
                metadata.insert(key.to_owned(), value.into());
            }
        }
        if made.shadow.is_some() {
            metadata.insert(SHADOW.to_owned(), true.into());
        }
        if made.is_audit {
            metadata.insert(AUDIT.to_owned(), true.into());
        }
        NewScore {
            id,
            name: evaluator.naming.stored(name, &score.name).into_owned(),
            value: value_of(score.value),
            subject,
            source: ScoreSource::Eval,
            timestamp: now,
            environment: environment.to_owned(),
            comment: score.comment,
            metadata,
            config_id: None,
            queue_id: None,
            author_user_id: None,
            origin: Some(ScoreOrigin {
                execution_id: made.id.clone(),
                evaluator_id: made.evaluator_id.clone(),
                evaluator_version_id: version.id.clone(),
                rule_id: made.rule_id.clone(),
                fingerprint: version.fingerprint,
                inclusion_probability: made.inclusion_probability,
                score_name: score.name,
            }),
        }
    };
    given.into_iter().map(convert).collect()
}

/// The metadata of the plug-in; anything but a JSON object counts as empty.
fn given_metadata(score: &PluginScore) -> Map<String, Value> {
    let given = score.metadata.as_deref().map(serde_json::from_str);
    given.and_then(Result::ok).unwrap_or_default()
}

fn value_of(given: PluginScoreValue) -> ScoreValue {
    match given {
        PluginScoreValue::Numeric(number) => ScoreValue::Numeric(number),
        PluginScoreValue::Boolean(truth) => ScoreValue::Boolean(truth),
        PluginScoreValue::Categorical(category) => ScoreValue::Categorical(category),
    }
}

/// A score of a trial: the members of a stored score that do not depend on an execution.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialScore {
    /// The name under which it would be stored.
    pub name: String,
    /// The name in the result of the plug-in.
    pub given: String,
    /// The value.
    pub value: ScoreValue,
    /// Comment of the evaluator.
    pub comment: Option<String>,
    /// Metadata of the evaluator, without the members that the server sets when a score is stored.
    pub metadata: Map<String, Value>,
    /// Another observation of the trace as the subject of the score.
    pub observation: Option<ObservationId>,
}

/// The scores of a trial, with names and values like those of executions.
pub(crate) fn trial_scores(
    evaluator: &PreparedEvaluator,
    given: Vec<PluginScore>,
) -> Vec<TrialScore> {
    let name = &evaluator.evaluator.name;
    let convert = |score: PluginScore| {
        let mut metadata = given_metadata(&score);
        metadata.retain(|key, _| !SET_WHEN_STORED.contains(&key.as_str()));
        let observation = score.observation_id.as_deref();
        TrialScore {
            name: evaluator.naming.stored(name, &score.name).into_owned(),
            metadata,
            observation: observation.and_then(|id| ObservationId::new(id).ok()),
            given: score.name,
            comment: score.comment,
            value: value_of(score.value),
        }
    };
    given.into_iter().map(convert).collect()
}
