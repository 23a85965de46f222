//! Identifiers: newtypes over text, because clients of the compat API choose most of them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// An identifier that is empty, longer than 800 characters or 1,200 bytes, or holds a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an id has 1 to 800 characters, at most 1,200 bytes, and no control characters")]
pub struct InvalidId;

/// The longest identifier in characters.
pub const MAX_ID_CHARS: usize = 800;
/// The longest identifier in bytes: two of them fit into one key of an index in every database.
pub const MAX_ID_BYTES: usize = 1_200;

/// Whether a text is short enough to identify something from now on: indexes hold it as a whole.
#[must_use]
pub fn fits(raw: &str) -> bool {
    raw.len() <= MAX_ID_BYTES && (raw.len() <= MAX_ID_CHARS || raw.chars().count() <= MAX_ID_CHARS)
}

fn checked(raw: &str) -> Result<Arc<str>, InvalidId> {
    let is_long = MAX_ID_CHARS < raw.len() && MAX_ID_CHARS < raw.chars().count();
    let bad = raw.is_empty() || raw.chars().any(char::is_control) || is_long;
    if bad { Err(InvalidId) } else { Ok(Arc::from(raw)) }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id of existing data: databases of older versions have ids of more
            /// than [`MAX_ID_BYTES`].
            ///
            /// # Errors
            /// [`InvalidId`] when the text cannot be an identifier, whatever its number of bytes.
            pub fn new(raw: &str) -> Result<Self, InvalidId> {
                checked(raw).map(Self)
            }

            /// The id of new data.
            ///
            /// # Errors
            /// [`InvalidId`] when the text cannot be an identifier.
            pub fn to_store(raw: &str) -> Result<Self, InvalidId> {
                match fits(raw) {
                    true => Self::new(raw),
                    false => Err(InvalidId),
                }
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(raw: String) -> Result<Self, InvalidId> {
                Self::new(&raw)
            }
        }

        impl std::str::FromStr for $name {
            type Err = InvalidId;

            fn from_str(raw: &str) -> Result<Self, InvalidId> {
                Self::new(raw)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }
    };
}

id!(/// A tenant: every row of data belongs to exactly one project.
    ProjectId);
id!(/// An owner of projects.
    OrganizationId);
id!(/// Traces of one conversation, as clients name it.
    SessionId);
id!(/// A person, known to one organization.
    UserId);
id!(/// A trace, unique within its project. From OTLP: 32 lower-case hex digits.
    TraceId);
id!(/// An observation, unique within its trace. From OTLP: 16 lower-case hex digits.
    ObservationId);
id!(/// A score, unique within its project.
    ScoreId);
id!(/// An evaluator: how to score. Stable over its versions.
    EvaluatorId);
id!(/// One immutable version of an evaluator.
    EvaluatorVersionId);
id!(/// An evaluation rule: what to score, and when.
    RuleId);
id!(/// One evaluator in one rule.
    AssignmentId);
id!(/// An execution: 32 hex digits of the digest of its key.
    ExecutionId);
id!(/// The public half of an API key.
    PublicKey);

/// A source of new identifiers: random in the server, sequential in tests.
pub trait IdSource: Send + Sync + fmt::Debug {
    /// A fresh UUID.
    fn uuid(&self) -> uuid::Uuid;
}
