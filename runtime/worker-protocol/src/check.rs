//! What the server asks of a check process: JSON Schemas that others wrote, and values to hold against
//! them. Both travel as JSON text, so that each is parsed behind the walls and by itself.

use serde::{Deserialize, Serialize};

/// What a check process reads first, as one frame; another with the [`SchemaCheck`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckHead {
    /// End at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

/// One schema, and what is to be held against it: nothing, where only the schema is in question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaCheck {
    /// JSON text.
    pub schema: String,
    /// Whose it is.
    pub kind: SchemaKind,
    /// JSON texts.
    pub values: Vec<String>,
}

/// Whose a schema is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SchemaKind {
    /// A user's: of the draft that it names, or of 2020-12.
    Any,
    /// An evaluator's, of draft 2020-12: what is held against it is a configuration, an object that gets
    /// the defaults of the schema.
    Config,
}

/// What holding a value against a schema gave.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueReport {
    /// What of it the schema does not allow, the first few.
    pub mismatches: Vec<Mismatch>,
    /// A configuration with its defaults, as JSON text, where nothing is wrong with it.
    pub with_defaults: Option<String>,
}

/// One thing that is wrong with a value or a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// JSON Pointer into it; empty for the whole.
    pub pointer: String,
    /// What is wrong there, for people.
    pub message: String,
}

impl Mismatch {
    /// Of the whole value.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { pointer: String::new(), message: message.into() }
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.pointer.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.pointer, self.message)
        }
    }
}

/// One for each value of a [`SchemaCheck`], in their order; or why the schema cannot be used.
pub type SchemaAnswer = Result<Vec<ValueReport>, Mismatch>;

/// Why schemas and values could not be held against each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// A schema asks for more work on a value than there is.
    #[error(
        "the schema asks for more work on this than a check may cost: {CHECK_CPU_SECONDS} s of CPU time \
         and {} MiB of memory", CHECK_MEMORY_BYTES >> 20
    )]
    TooMuchWork,
    /// Others of the same project wait already.
    #[error("too many checks against schemas of this project wait already")]
    Busy,
    /// Through no fault of theirs; for the log.
    #[error("the check process failed: {0}")]
    Failed(String),
}

/// CPU time of one check process, in seconds.
pub const CHECK_CPU_SECONDS: u64 = 5;
/// Address space of one check process, in bytes.
pub const CHECK_MEMORY_BYTES: u64 = 1 << 30;
