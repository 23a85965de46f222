//! One named value about a subject.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::evaluation::Fingerprint;
use crate::ids::{
    EvaluatorId, EvaluatorVersionId, ExecutionId, ObservationId, RuleId, ScoreId, TraceId,
};
use crate::memory;
use crate::named::named_enum;
use crate::time::Timestamp;

named_enum!(
    /// The source of a score.
    ScoreSource {
        Api = "API",
        Annotation = "ANNOTATION",
        Eval = "EVAL",
    }
);

named_enum!(
    /// The data type of a score.
    ScoreDataType {
        Numeric = "NUMERIC",
        Boolean = "BOOLEAN",
        Categorical = "CATEGORICAL",
        Text = "TEXT",
        Correction = "CORRECTION",
    }
);

/// The value of a score; its data type follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ScoreValue {
    /// Finite.
    Numeric(f64),
    /// True or false.
    Boolean(bool),
    /// A category.
    Categorical(String),
    /// Free text of 1 to 500 characters.
    Text(String),
    /// A corrected output.
    Correction(String),
}

impl ScoreValue {
    /// The text that it holds, if it is text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Numeric(_) | Self::Boolean(_) => None,
            Self::Categorical(text) | Self::Text(text) | Self::Correction(text) => Some(text),
        }
    }

    /// The data type of this value.
    #[must_use]
    pub const fn data_type(&self) -> ScoreDataType {
        match self {
            Self::Numeric(_) => ScoreDataType::Numeric,
            Self::Boolean(_) => ScoreDataType::Boolean,
            Self::Categorical(_) => ScoreDataType::Categorical,
            Self::Text(_) => ScoreDataType::Text,
            Self::Correction(_) => ScoreDataType::Correction,
        }
    }
}

/// The subject of a score: exactly one target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// A whole trace.
    Trace(TraceId),
    /// One observation.
    Observation(TraceId, ObservationId),
    /// A session.
    Session(String),
    /// An experiment, also called dataset run.
    Experiment(String),
}

/// The origin of an `EVAL` score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreOrigin {
    /// The execution, also the id of its own trace.
    pub execution_id: ExecutionId,
    /// The evaluator.
    pub evaluator_id: EvaluatorId,
    /// The exact version.
    pub evaluator_version_id: EvaluatorVersionId,
    /// The rule of the execution.
    pub rule_id: RuleId,
    /// Digest of everything that produced the value.
    pub fingerprint: Fingerprint,
    /// Sampling rate in force, 0 to 1.
    pub inclusion_probability: f64,
    /// The given name: what the plug-in called the score. Ids of scores are derived from it.
    pub score_name: String,
}

/// A score as it is written; writing the same id again replaces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewScore {
    /// Identity within the project.
    pub id: ScoreId,
    /// Name, 1 or more characters.
    pub name: String,
    /// Value.
    pub value: ScoreValue,
    /// Its subject.
    pub subject: Subject,
    /// Its source.
    pub source: ScoreSource,
    /// When it was measured.
    pub timestamp: Timestamp,
    /// Environment.
    pub environment: String,
    /// Explanation.
    pub comment: Option<String>,
    /// Anything a program may want later.
    pub metadata: Map<String, Value>,
    /// Score config it obeys.
    pub config_id: Option<String>,
    /// Annotation queue it was made in.
    pub queue_id: Option<String>,
    /// Person who made it.
    pub author_user_id: Option<String>,
    /// Set exactly when `source` is `EVAL`.
    pub origin: Option<ScoreOrigin>,
}

impl NewScore {
    /// Memory that it takes, roughly, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let texts = [Some(self.name.as_str()), self.value.text(), self.comment.as_deref()];
        let texts: usize = texts.into_iter().flatten().map(str::len).sum();
        // Ids, names of environments and people: short ones.
        (1 << 10) + texts + memory::of_members(&self.metadata)
    }
}

/// A stored score.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// As written.
    pub written: NewScore,
    /// First written.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}
