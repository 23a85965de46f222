//! Validates values against JSON Schemas: configurations of evaluators, dataset items, request bodies.
//!
//! Invariants:
//! - **No external references.** A schema never accesses files or the network.
//! - **Unbounded work.** A small schema can require any amount of time, memory and stack: user-supplied schemas are used in
//!   processes with limits (`perpend-sandbox`).
//!
//! The generic code of the library is compiled only into this crate.

use jsonschema::error::ValidationErrorKind;
use jsonschema::paths::LocationSegment;
use jsonschema::{Draft, ValidationError, Validator};
use serde_json::Value;

/// Most characters of a message or a pointer; messages of the library may quote the whole value.
const MAX_CHARS: usize = 500;

/// Most nested alternatives (`anyOf`, `oneOf`) that are searched for the violation.
const MAX_DEPTH: usize = 4;

/// A compiled schema.
#[derive(Debug)]
pub struct Schema(Validator);

/// The value is not a valid schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a JSON Schema, at {pointer:?}: {message}")]
pub struct InvalidSchema {
    /// JSON Pointer into the schema.
    pub pointer: String,
    /// The problem.
    pub message: String,
}

/// A violation of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The path: names of members and indexes, from the outside in.
    pub path: Vec<Value>,
    /// The path as a JSON Pointer, truncated to 500 characters.
    pub pointer: String,
    /// The kind of the violation.
    pub kind: ViolationKind,
    /// Human-readable; at most 500 characters.
    pub message: String,
}

/// The kind of a violation, for callers with their own messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A required member is missing.
    Missing(String),
    /// Unknown members.
    Unknown(Vec<String>),
    /// Another violation; see the message.
    Other,
}

impl Schema {
    /// Compiles a schema of the draft that its `$schema` names, or of 2020-12.
    ///
    /// # Errors
    /// If it is not a schema, or has a reference outside of it.
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

    /// The first `max` violations of a value.
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

/// The violations of an error. For alternatives they are those of the closest alternative, or the list of allowed values,
/// because "valid under none of the schemas" is not helpful.
fn violations_of(error: &ValidationError<'_>, depth: usize) -> Vec<Violation> {
    let forms = match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context
        }
        _ => return vec![violation(error)],
    };
    if let Some(values) = values(error, forms) {
        let message = short(&format!("must be one of {}", values.join(", ")));
        return vec![Violation { message, ..violation(error) }];
    }
    match meant(error, forms) {
        Some(form) if 0 < depth => {
            form.iter().flat_map(|error| violations_of(error, depth - 1)).collect()
        }
        _ => vec![violation(error)],
    }
}

/// The allowed values, if each alternative is a constant or an enumeration.
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

/// The closest alternative: the only one with the fewest violations among those without a violated discriminator.
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
