//! A score: as clients send it, and in the v2 and v3 shapes of the compat API, with what made it beside.

use perpend_domain::evaluation::Fingerprint;
use perpend_domain::ids::{
    EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, ProjectId, RuleId, ScoreId,
    TraceId,
};
use perpend_domain::score::{self, ScoreDataType, ScoreSource, ScoreValue};
use perpend_domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

/// One score as clients send it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreInput {
    /// Writing the same id again replaces the score.
    pub id: Option<String>,
    /// About this trace.
    pub trace_id: Option<String>,
    /// About this observation of the trace.
    pub observation_id: Option<String>,
    /// About this session.
    pub session_id: Option<String>,
    /// About this run.
    pub dataset_run_id: Option<String>,
    /// 1 to 800 characters.
    pub name: String,
    /// A number or a string.
    pub value: Value,
    /// NUMERIC, BOOLEAN, CATEGORICAL, TEXT or CORRECTION.
    pub data_type: Option<String>,
    /// For people.
    pub comment: Option<String>,
    /// An object; anything else is kept as the member `metadata` of one.
    pub metadata: Option<Value>,
    /// `default` when absent.
    pub environment: Option<String>,
    /// The score config it obeys.
    pub config_id: Option<String>,
    /// The annotation queue it was made in.
    pub queue_id: Option<String>,
    /// API or ANNOTATION.
    pub source: Option<String>,
    /// When it was measured; the time of arrival when absent.
    pub timestamp: Option<String>,
}

/// What became of an array of scores, of which some were wrong.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PartialScoreResponse {
    /// Scores that were written.
    pub accepted: usize,
    /// Scores that were not.
    pub rejected: usize,
    /// Why, for the first of them.
    pub errors: Vec<RejectedScore>,
}

/// Why a score was not written.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RejectedScore {
    /// Begins with the place in the array, `[0]`.
    pub message: String,
}

/// What produced an `EVAL` score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScoreOrigin)]
pub struct EvaluationOrigin {
    execution_id: ExecutionId,
    evaluator_id: EvaluatorId,
    evaluator_version_id: EvaluatorVersionId,
    evaluation_rule_id: RuleId,
    fingerprint: Fingerprint,
    /// Sampling rate in force, 0 to 1.
    inclusion_probability: f64,
    /// The given name: what the plug-in called the score.
    score_name: String,
}

impl From<&score::ScoreOrigin> for EvaluationOrigin {
    fn from(origin: &score::ScoreOrigin) -> Self {
        Self {
            execution_id: origin.execution_id.clone(),
            evaluator_id: origin.evaluator_id.clone(),
            evaluator_version_id: origin.evaluator_version_id.clone(),
            evaluation_rule_id: origin.rule_id.clone(),
            fingerprint: origin.fingerprint,
            inclusion_probability: origin.inclusion_probability,
            score_name: origin.score_name.clone(),
        }
    }
}

/// Groups of members of the v3 shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreGroups {
    /// Comment, config, metadata, origin.
    pub details: bool,
    /// What it is about.
    pub subject: bool,
    /// Who made it, in which queue.
    pub annotation: bool,
}

impl ScoreGroups {
    /// Every group.
    pub const ALL: Self = Self { details: true, subject: true, annotation: true };
}

/// A value in the v3 shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(as = ScoreValue)]
pub enum AnyValue {
    /// Of a BOOLEAN score.
    Boolean(bool),
    /// Of a NUMERIC score.
    Number(f64),
    /// Of any other score.
    Text(String),
}

impl From<&ScoreValue> for AnyValue {
    fn from(value: &ScoreValue) -> Self {
        match value {
            ScoreValue::Numeric(number) => Self::Number(*number),
            ScoreValue::Boolean(truth) => Self::Boolean(*truth),
            ScoreValue::Categorical(text)
            | ScoreValue::Text(text)
            | ScoreValue::Correction(text) => Self::Text(text.clone()),
        }
    }
}

/// What a score is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schema(as = ScoreSubject)]
pub enum ScoreTarget {
    /// A whole trace.
    Trace {
        /// Its id.
        id: TraceId,
    },
    /// One observation.
    Observation {
        /// Its id.
        id: ObservationId,
        /// Its trace.
        trace_id: TraceId,
    },
    /// A session.
    Session {
        /// Its id.
        id: String,
    },
    /// An experiment, also called dataset run.
    Experiment {
        /// Its id.
        id: String,
    },
}

impl From<&score::Subject> for ScoreTarget {
    fn from(subject: &score::Subject) -> Self {
        match subject.clone() {
            score::Subject::Trace(id) => Self::Trace { id },
            score::Subject::Observation(trace_id, id) => Self::Observation { id, trace_id },
            score::Subject::Session(id) => Self::Session { id },
            score::Subject::Experiment(id) => Self::Experiment { id },
        }
    }
}

/// A score in the v3 shape: the members of the groups that were asked for.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreV3 {
    id: ScoreId,
    project_id: ProjectId,
    name: String,
    data_type: ScoreDataType,
    value: AnyValue,
    source: ScoreSource,
    timestamp: Timestamp,
    environment: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Details)]
    details: Option<Details>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Annotation)]
    annotation: Option<Annotation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    subject: Option<ScoreTarget>,
}

/// The group `details`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScoreDetails)]
struct Details {
    comment: Option<String>,
    config_id: Option<String>,
    #[schema(value_type = BTreeMap<String, Value>, required = false)]
    metadata: Map<String, Value>,
    /// Of `EVAL` scores.
    origin: Option<EvaluationOrigin>,
}

/// The group `annotation`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ScoreAnnotation)]
struct Annotation {
    author_user_id: Option<String>,
    queue_id: Option<String>,
}

impl ScoreV3 {
    /// As stored, with the groups that were asked for.
    #[must_use]
    pub fn new(project: &ProjectId, score: &score::Score, groups: ScoreGroups) -> Self {
        let written = &score.written;
        Self {
            id: written.id.clone(),
            project_id: project.clone(),
            name: written.name.clone(),
            data_type: written.value.data_type(),
            value: (&written.value).into(),
            source: written.source,
            timestamp: written.timestamp,
            environment: written.environment.clone(),
            created_at: score.created_at,
            updated_at: score.updated_at,
            details: groups.details.then(|| Details {
                comment: written.comment.clone(),
                config_id: written.config_id.clone(),
                metadata: written.metadata.clone(),
                origin: written.origin.as_ref().map(Into::into),
            }),
            annotation: groups.annotation.then(|| Annotation {
                author_user_id: written.author_user_id.clone(),
                queue_id: written.queue_id.clone(),
            }),
            subject: groups.subject.then(|| (&written.subject).into()),
        }
    }
}

/// A score that a later one took the place of.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupersededScore {
    /// The score.
    #[serde(flatten)]
    pub score: ScoreV3,
    /// The execution that made the later one.
    pub superseded_by: ExecutionId,
}

/// A value in the v2 shape: a number for every score but those of free text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ScoreNumber {
    /// 0 or 1, of BOOLEAN and CORRECTION scores.
    Truth(u8),
    /// The number, or what the category counts as.
    Number(f64),
}

/// A score in the v2 shape.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreV2 {
    id: ScoreId,
    trace_id: Option<TraceId>,
    session_id: Option<String>,
    observation_id: Option<ObservationId>,
    dataset_run_id: Option<String>,
    name: String,
    source: ScoreSource,
    timestamp: Timestamp,
    created_at: Timestamp,
    updated_at: Timestamp,
    author_user_id: Option<String>,
    comment: Option<String>,
    #[schema(value_type = BTreeMap<String, Value>)]
    metadata: Map<String, Value>,
    config_id: Option<String>,
    queue_id: Option<String>,
    environment: String,
    data_type: ScoreDataType,
    /// Of `EVAL` scores.
    origin: Option<EvaluationOrigin>,
    /// Absent for TEXT scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = f64, required = false)]
    value: Option<ScoreNumber>,
    /// Absent for NUMERIC scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    string_value: Option<String>,
}

/// Trace and observation a score is about.
#[must_use]
pub fn place(subject: &score::Subject) -> Option<(&TraceId, Option<&ObservationId>)> {
    match subject {
        score::Subject::Trace(trace) => Some((trace, None)),
        score::Subject::Observation(trace, observation) => Some((trace, Some(observation))),
        score::Subject::Session(_) | score::Subject::Experiment(_) => None,
    }
}

impl ScoreV2 {
    /// As stored; `number_of` says what a category counts as.
    pub fn new(score: &score::Score, number_of: impl Fn(&str) -> f64) -> Self {
        let written = &score.written;
        let target = place(&written.subject);
        let (session, experiment) = match &written.subject {
            score::Subject::Session(id) => (Some(id), None),
            score::Subject::Experiment(id) => (None, Some(id)),
            _ => (None, None),
        };
        let (value, text) = match &written.value {
            ScoreValue::Numeric(number) => (Some(ScoreNumber::Number(*number)), None),
            ScoreValue::Boolean(truth) => (
                Some(ScoreNumber::Truth(u8::from(*truth))),
                Some(if *truth { "True" } else { "False" }),
            ),
            ScoreValue::Categorical(text) => {
                (Some(ScoreNumber::Number(number_of(text))), Some(text.as_str()))
            }
            ScoreValue::Correction(text) => (Some(ScoreNumber::Truth(0)), Some(text.as_str())),
            ScoreValue::Text(text) => (None, Some(text.as_str())),
        };
        Self {
            id: written.id.clone(),
            trace_id: target.map(|(trace, _)| trace.clone()),
            session_id: session.cloned(),
            observation_id: target.and_then(|(_, observation)| observation.cloned()),
            dataset_run_id: experiment.cloned(),
            name: written.name.clone(),
            source: written.source,
            timestamp: written.timestamp,
            created_at: score.created_at,
            updated_at: score.updated_at,
            author_user_id: written.author_user_id.clone(),
            comment: written.comment.clone(),
            metadata: written.metadata.clone(),
            config_id: written.config_id.clone(),
            queue_id: written.queue_id.clone(),
            environment: written.environment.clone(),
            data_type: written.value.data_type(),
            origin: written.origin.as_ref().map(Into::into),
            value,
            string_value: text.map(str::to_owned),
        }
    }
}

/// What a list of scores shows of the trace that one is about.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreTrace {
    /// Its user.
    pub user_id: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its environment.
    pub environment: String,
    /// Its session.
    pub session_id: Option<String>,
}

/// A score in a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ScoreInList {
    /// The score.
    #[serde(flatten)]
    pub score: ScoreV2,
    /// The trace it is about, where `fields` asks for it; `null` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScoreTrace>)]
    pub trace: Option<Option<ScoreTrace>>,
}
