//! Scores: the request body, and the v2 and v3 shapes of the compatible API with their origin.

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

use crate::any_json::AnyJson;

/// A new score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScoreInput {
    /// An existing score with this id is replaced.
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
    /// Explanation.
    pub comment: Option<String>,
    /// An object; another value becomes the member `metadata` of an object.
    pub metadata: Option<Value>,
    /// `default` when absent.
    pub environment: Option<String>,
    /// The score config.
    pub config_id: Option<String>,
    /// The annotation queue.
    pub queue_id: Option<String>,
    /// API or ANNOTATION.
    pub source: Option<String>,
    /// Time of the measurement; the time of arrival when absent.
    pub timestamp: Option<String>,
}

/// The outcome of an array of scores, some of which were invalid.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PartialScoreResponse {
    /// Number of written scores.
    pub accepted: usize,
    /// Number of rejected scores.
    pub rejected: usize,
    /// The errors of the first rejected scores.
    pub errors: Vec<RejectedScore>,
}

/// The error of a rejected score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RejectedScore {
    /// Starts with the index in the array, `[0]`.
    pub message: String,
}

/// The origin of an `EVAL` score.
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
    /// The given name: the name from the plug-in.
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

/// Field groups of the v3 shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreGroups {
    /// Comment, config, metadata, origin.
    pub details: bool,
    /// The subject.
    pub subject: bool,
    /// Author and queue.
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

/// The subject of a score.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = ScoreSubject)]
pub enum ScoreTarget {
    /// A whole trace.
    Trace {
        /// Its id.
        id: TraceId,
    },
    /// One observation.
    #[serde(rename_all = "camelCase")]
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

/// A score in the v3 shape, with the requested field groups.
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
    #[schema(value_type = BTreeMap<String, AnyJson>, required = false)]
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
    /// From a stored score, with the requested groups.
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

/// A superseded score.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupersededScore {
    /// The score.
    #[serde(flatten)]
    pub score: ScoreV3,
    /// The execution of the later score.
    pub superseded_by: ExecutionId,
}

/// A value in the v2 shape: a number for every score except free text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ScoreNumber {
    /// 0 or 1, of BOOLEAN and CORRECTION scores.
    Truth(u8),
    /// The number, or the number of the category.
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
    #[schema(value_type = BTreeMap<String, AnyJson>)]
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

/// The trace and observation of a subject.
#[must_use]
pub fn place(subject: &score::Subject) -> Option<(&TraceId, Option<&ObservationId>)> {
    match subject {
        score::Subject::Trace(trace) => Some((trace, None)),
        score::Subject::Observation(trace, observation) => Some((trace, Some(observation))),
        score::Subject::Session(_) | score::Subject::Experiment(_) => None,
    }
}

impl ScoreV2 {
    /// From a stored score; `number_of` gives the number of a category.
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

/// The trace of a score in a list.
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
    /// The trace, if requested by `fields`; `null` if it does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScoreTrace>)]
    pub trace: Option<Option<ScoreTrace>>,
}
