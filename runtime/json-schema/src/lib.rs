//! JSON Schemas, and values held against them: configurations of evaluators, items of datasets, bodies of
//! requests.
//!
//! Invariants:
//! - **A schema reaches nothing.** No file and no network, whatever it refers to.
//! - **Work is not bounded here.** A small schema can ask for any amount of time, memory and stack: those
//!   that others wrote are used in processes that end at their limits (`perpend-sandbox`).
//!
//! The library behind it is generic over what it reads: it is compiled into this crate once, and into no
//! other.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;

/// Characters of a message or a pointer; the library's may quote the whole value.
const MAX_CHARS: usize = 500;

/// Forms within forms that are looked into for what is wrong.
const MAX_DEPTH: usize = 4;

/// A schema, compiled.
#[derive(Debug)]
pub struct Schema(Validator);

/// The value is no schema, or one that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema, at {pointer:?}: {message}")]
pub struct InvalidSchema {
    /// JSON Pointer into the schema.
    pub pointer: String,
    /// What is wrong there.
    pub message: String,
}

/// One thing in a value that a schema does not allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Where: names of members and places in lists, from the outside in.
    pub path: Vec<Value>,
    /// Where, as a JSON Pointer; cut after 500 characters.
    pub pointer: String,
    /// What.
    pub kind: ViolationKind,
    /// For people; at most 500 characters.
    pub message: String,
}

/// What is wrong, where others may want to say it in their own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViolationKind {
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
    pub fn new(schema: &Value) -> Result<Self, InvalidSchema> {
        Self::compile(schema, None)
    }

    /// Compiles a schema of draft 2020-12, whatever its `$schema` names.
    ///
    /// # Errors
    /// As [`Schema::new`].
    pub fn of_2020_12(schema: &Value) -> Result<Self, InvalidSchema> {
        Self::compile(schema, Some(Draft::Draft202012))
    }

    fn compile(schema: &Value, draft: Option<Draft>) -> Result<Self, InvalidSchema> {
        if !schema.is_object() && !schema.is_boolean() {
            return Err(InvalidSchema {
                pointer: String::new(),
                message: "it has to be an object, true or false".to_owned(),
            });
        }
        let mut options = jsonschema::options();
        if let Some(draft) = draft {
            options = options.with_draft(draft);
        }
        let validator = options.build(schema).map_err(|error| InvalidSchema {
            pointer: short(error.instance_path().as_str()),
            message: short(&error.to_string()),
        })?;
        Ok(Self(validator))
    }

    /// What of a value the schema does not allow, at most `max` things.
    #[must_use]
    pub fn violations(&self, value: &Value, max: usize) -> Vec<Violation> {
        if self.0.is_valid(value) {
            return Vec::new();
        }
        let errors = self.0.iter_errors(value).take(max);
        let violations = errors.flat_map(|error| violations_of(&error, MAX_DEPTH));
        violations.take(max).collect()
    }
}

/// What an error says. Where a value may have several forms, it says what the form that is meant lacks, or which values
/// there are: "valid under none of the schemas" helps nobody.
fn violations_of(error: &ValidationError<'_>, depth: usize) -> Vec<Violation> {
    let forms = match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context
        }
        _ => return vec![violation(error)],
    };
    if let Some(values) = values(error, forms) {
        let message = short(&format!("{} is expected", values.join(" or ")));
        return vec![Violation { message, ..violation(error) }];
    }
    match meant(error, forms) {
        Some(form) if 0 < depth => {
            form.iter().flat_map(|error| violations_of(error, depth - 1)).collect()
        }
        _ => vec![violation(error)],
    }
}

/// The values that there are, where each form is one or some.
fn values(
    error: &ValidationError<'_>,
    forms: &[Vec<ValidationError<'static>>],
) -> Option<Vec<String>> {
    let mut values = Vec::new();
    for form in forms {
        let [only] = form.as_slice() else { return None };
        if only.instance_path() != error.instance_path() {
            return None;
        }
        match only.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                values.push(expected_value.to_string());
            }
            ValidationErrorKind::Enum { options } => {
                values.extend(options.as_array()?.iter().map(Value::to_string));
            }
            _ => return None,
        }
    }
    Some(values)
}

/// The form that is meant: the only one with the fewest violations of those that differ in no value by which forms are told
/// apart.
fn meant<'f>(
    error: &ValidationError<'_>,
    forms: &'f [Vec<ValidationError<'static>>],
) -> Option<&'f [ValidationError<'static>]> {
    let is_another = |violation: &ValidationError<'_>| match violation.kind() {
        ValidationErrorKind::Constant { .. } | ValidationErrorKind::Enum { .. } => true,
        ValidationErrorKind::Type { .. } => violation.instance_path() == error.instance_path(),
        _ => false,
    };
    let close = forms.iter().filter(|form| !form.iter().any(is_another));
    let fewest = close.clone().map(Vec::len).min()?;
    let mut closest = close.filter(|form| form.len() == fewest);
    let first = closest.next()?;
    closest.next().is_none().then_some(first)
}

fn violation(error: &ValidationError<'_>) -> Violation {
    let segments = error.instance_path().segments();
    let path = segments.map(|segment| match segment {
        LocationSegment::Property(name) => name.as_ref().into(),
        LocationSegment::Index(at) => at.into(),
    });
    Violation {
        path: path.collect(),
        pointer: short(error.instance_path().as_str()),
        kind: match error.kind() {
            ValidationErrorKind::Required { property } => {
                ViolationKind::Missing(property.as_str().unwrap_or_default().to_owned())
            }
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                ViolationKind::Unknown(unexpected.clone())
            }
            _ => ViolationKind::Other,
        },
        message: short(&error.to_string()),
    }
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
