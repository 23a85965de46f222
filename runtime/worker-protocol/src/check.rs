//! Messages to a check process: user-supplied JSON Schemas and values to validate. Both are sent as JSON text, so that
//! they are parsed only in the confined process.

use serde::{Deserialize, Serialize};

/// The first frame that a check process reads; a frame with the [`SchemaCheck`] follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckHead {
    /// End at once when the platform lacks a sandbox layer.
    pub require_all_layers: bool,
}

/// One schema, and the values to validate; none to check the schema alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaCheck {
    /// JSON text.
    pub schema: String,
    pub kind: SchemaKind,
    /// JSON texts.
    pub values: Vec<String>,
}

/// Origin and purpose of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SchemaKind {
    /// Written by a user: of the draft that `$schema` names, or of draft 2020-12.
    Any,
    /// The config schema of an evaluator, of draft 2020-12. Values must be objects, and get the defaults of the schema.
    Config,
}

/// The result of validating one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueReport {
    /// Violations of the schema, up to a maximum number.
    pub mismatches: Vec<Mismatch>,
    /// A valid configuration with its defaults, as JSON text. Absent for other kinds and for invalid values.
    pub with_defaults: Option<String>,
}

/// One violation in a value or a schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// JSON Pointer; empty for the whole value.
    pub pointer: String,
    pub message: String,
}

impl Mismatch {
    /// A violation of the whole value.
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

/// One report for each value of a [`SchemaCheck`], in order; or the reason why the schema is unusable.
pub type SchemaAnswer = Result<Vec<ValueReport>, Mismatch>;

/// A schema check ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// The check reached its limit of CPU time or memory.
    #[error(
        "validating against the schema takes more than the limit of {CHECK_CPU_SECONDS} s of CPU time or \
         {} MiB of memory", CHECK_MEMORY_BYTES >> 20
    )]
    TooMuchWork,
    /// Too many checks of the same project are waiting.
    #[error("too many schema checks of this project are waiting")]
    Busy,
    /// Not caused by the schema or the values; for the log.
    #[error("the check process failed: {0}")]
    Failed(String),
}

/// Limit of CPU time of one check process, in seconds.
pub const CHECK_CPU_SECONDS: u64 = 5;
/// Limit of the address space of one check process, in bytes.
pub const CHECK_MEMORY_BYTES: u64 = 1 << 30;
