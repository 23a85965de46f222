//! JSON Schemas that others wrote, and values held against them: configurations of evaluators, items of
//! datasets, bodies of requests.
//!
//! Invariants:
//! - **A schema is hostile input.** It reaches no file and no network, and its patterns run without
//!   backtracking.
//! - **Work is bounded.** What one check may cause is counted and cut off.
//!
//! The library behind it is generic over what it reads: it is compiled into this crate once, and into no
//! other.

mod steps;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, PatternOptions, ValidationError, Validator};
use serde_json::Value;

use steps::{STEP, Steps, TooMuchWork};

/// Characters of a message; the library's may quote the whole value.
const MAX_MESSAGE_CHARS: usize = 500;

/// A schema, compiled.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    steps: Arc<Steps>,
    /// One check at a time, or they would share the count.
    turn: Mutex<()>,
}

/// The value is no schema, or one that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema, at {pointer:?}: {message}")]
pub struct Unusable {
    /// JSON Pointer into the schema.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}

/// A value could not be held against a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unchecked {
    /// Some seconds of it were not enough.
    #[error("the schema asks for more work on this value than a check may cost")]
    TooMuchWork,
    /// The library failed.
    #[error("the schema cannot be held against this value")]
    Failed,
}

/// One thing in a value that a schema does not allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Where: names of members and places in lists, from the outside in.
    pub path: Vec<Value>,
    /// Where, as a JSON Pointer.
    pub pointer: String,
    /// What.
    pub kind: Kind,
    /// For people; at most 500 characters.
    pub message: String,
}

/// What is wrong, where others may want to say it in their own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A member of this name is missing.
    Missing(String),
    /// No members of these names are known.
    Unknown(Vec<String>),
    /// The message says it.
    Other,
}

impl Schema {
    /// Compiles a schema of the draft that its `$schema` names, or of 2020-12.
    ///
    /// # Errors
    /// When it is none, or refers to what is not in it.
    pub fn new(schema: &Value) -> Result<Self, Unusable> {
        Self::compile(schema, None)
    }

    /// Compiles a schema of draft 2020-12, whatever its `$schema` names.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn of_2020_12(schema: &Value) -> Result<Self, Unusable> {
        Self::compile(schema, Some(Draft::Draft202012))
    }

    fn compile(schema: &Value, draft: Option<Draft>) -> Result<Self, Unusable> {
        let wrong = |message: String| Unusable {
            pointer: String::new(),
            message,
        };
        if !schema.is_object() && !schema.is_boolean() {
            return Err(wrong("it has to be an object, true or false".to_owned()));
        }
        if let Some(reference) = steps::reference_into_data(schema) {
            return Err(wrong(format!(
                "{reference:?} refers to a value, not to a schema"
            )));
        }
        let steps = Arc::new(Steps::default());
        let counted = steps::counted(schema);
        let mut options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        if let Some(draft) = draft {
            options = options.with_draft(draft);
        }
        let validator = options
            .with_keyword(STEP, steps::keyword(&steps))
            .build(&counted)
            .map_err(|error| Unusable {
                pointer: error.instance_path().as_str().to_owned(),
                message: short(&error.to_string()),
            })?;
        Ok(Self {
            validator,
            steps,
            turn: Mutex::default(),
        })
    }

    /// What of a value the schema does not allow, at most `max` things.
    ///
    /// # Errors
    /// When the check was cut off.
    pub fn faults(&self, value: &Value, max: usize) -> Result<Vec<Fault>, Unchecked> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.steps.reset();
        let check = || {
            if self.validator.is_valid(value) {
                return Vec::new();
            }
            let errors = self.validator.iter_errors(value).take(max);
            errors.map(|error| fault(&error)).collect()
        };
        // The validator holds no state that a cut-off check could leave broken.
        catch_unwind(AssertUnwindSafe(check)).map_err(|payload| match payload.is::<TooMuchWork>() {
            true => Unchecked::TooMuchWork,
            false => Unchecked::Failed,
        })
    }
}

fn fault(error: &ValidationError<'_>) -> Fault {
    let segments = error.instance_path().segments();
    let path = segments.map(|segment| match segment {
        LocationSegment::Property(name) => name.as_ref().into(),
        LocationSegment::Index(at) => at.into(),
    });
    Fault {
        path: path.collect(),
        pointer: error.instance_path().as_str().to_owned(),
        kind: match error.kind() {
            ValidationErrorKind::Required { property } => {
                Kind::Missing(property.as_str().unwrap_or_default().to_owned())
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                Kind::Unknown(unexpected.clone())
            }
            _ => Kind::Other,
        },
        message: short(&error.to_string()),
    }
}

fn short(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
