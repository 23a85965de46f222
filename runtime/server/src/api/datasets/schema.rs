//! JSON Schemas of datasets: compiled once, and items held against them.
//!
//! Schemas come from clients and are hostile input: they reach no file and no network, patterns run
//! without backtracking, and the work that one check may cause is counted and cut off.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use assay_domain::dataset::{Dataset, DatasetItem};
use jsonschema::paths::Location;
use jsonschema::{Keyword, PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value, json};

use crate::problem::{Issue, Problem};

/// Largest schema as JSON text.
pub(super) const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Violations that are listed for one item.
const MAX_LISTED: usize = 50;
/// Characters of a message; a library's message may quote the whole value.
const MAX_MESSAGE_CHARS: usize = 500;
/// Places of a schema that one check may visit: some seconds of work at most.
const MAX_STEPS: u64 = 20_000_000;
/// Schemas that stay compiled.
const N_KEPT: usize = 64;
/// Counts visits; its name is nobody's keyword.
const STEP: &str = "x-assay-step\u{1}";

/// One thing in an item that a schema does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// `input` or `expectedOutput`.
    pub(super) field: &'static str,
    /// JSON Pointer into it.
    pub(super) pointer: String,
    /// What is wrong there.
    pub(super) message: String,
}

impl Violation {
    pub(super) fn to_json(&self) -> Value {
        json!({ "field": self.field, "pointer": self.pointer, "message": self.message })
    }

    pub(super) fn to_issue(&self) -> Issue {
        Issue::new(
            &format!("{}{}", self.field, self.pointer),
            self.message.clone(),
        )
    }
}

/// The schemas of one state of a dataset, ready for use.
#[derive(Debug)]
pub(super) struct Compiled {
    input: Option<Checker>,
    expected_output: Option<Checker>,
}

/// Remembers compiled schemas.
#[derive(Debug, Default)]
pub(crate) struct Schemas(Mutex<VecDeque<(Key, Arc<Compiled>)>>);

/// A dataset and the revision of its schemas.
type Key = (String, i64);

impl Schemas {
    /// The schemas of a stored dataset.
    ///
    /// # Errors
    /// As [`Compiled::new`].
    pub(super) fn of(&self, dataset: &Dataset, revision: i64) -> Result<Arc<Compiled>, Problem> {
        let key = (dataset.id.clone(), revision);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = lock().iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(found));
        }
        let compiled = Arc::new(Compiled::new(dataset)?);
        let mut kept = lock();
        kept.push_front((key, Arc::clone(&compiled)));
        kept.truncate(N_KEPT);
        Ok(compiled)
    }
}

impl Compiled {
    /// Compiles the schemas of a dataset.
    ///
    /// # Errors
    /// 400 that names the schema and what is wrong with it.
    pub(super) fn new(dataset: &Dataset) -> Result<Self, Problem> {
        let compile =
            |field, schema: Option<&Value>| schema.map(|s| Checker::new(field, s)).transpose();
        Ok(Self {
            input: compile("inputSchema", dataset.input_schema.as_ref())?,
            expected_output: compile(
                "expectedOutputSchema",
                dataset.expected_output_schema.as_ref(),
            )?,
        })
    }

    /// No item can fail.
    pub(super) fn is_empty(&self) -> bool {
        self.input.is_none() && self.expected_output.is_none()
    }

    /// What of an item its schemas do not allow.
    pub(super) fn violations(&self, item: &DatasetItem) -> Vec<Violation> {
        let parts = [
            ("input", &self.input, &item.input),
            (
                "expectedOutput",
                &self.expected_output,
                &item.expected_output,
            ),
        ];
        let checked = parts.into_iter().filter_map(|(field, checker, value)| {
            checker
                .as_ref()
                .map(|checker| checker.violations(field, value))
        });
        checked.flatten().collect()
    }
}

/// One compiled schema with the count of what its present check has cost.
#[derive(Debug)]
struct Checker {
    validator: Validator,
    n_steps: Arc<AtomicU64>,
    /// One check at a time, or they would share the count.
    turn: Mutex<()>,
}

/// Unwinds a check that costs too much. It never leaves this file.
struct TooMuchWork;

struct Step(Arc<AtomicU64>);

impl Step {
    fn count(&self) {
        if MAX_STEPS < self.0.fetch_add(1, Ordering::Relaxed) {
            // The library offers no way to stop in the middle of a check.
            resume_unwind(Box::new(TooMuchWork));
        }
    }
}

impl<'i> Keyword<'i> for Step {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        self.count();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        self.count();
        true
    }
}

impl Checker {
    fn new(field: &'static str, schema: &Value) -> Result<Self, Problem> {
        let wrong = |message: String| Problem::body(field, message);
        if MAX_SCHEMA_BYTES < schema.to_string().len() {
            return Err(wrong(format!(
                "a schema has at most {MAX_SCHEMA_BYTES} bytes"
            )));
        }
        if !schema.is_object() && !schema.is_boolean() {
            return Err(wrong(
                "a JSON Schema is an object, true or false".to_owned(),
            ));
        }
        if let Some(reference) = reference_into_data(schema) {
            return Err(wrong(format!(
                "{reference:?} refers to a value, not to a schema"
            )));
        }
        let n_steps = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&n_steps);
        let mut counted = schema.clone();
        count_steps(&mut counted);
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .with_keyword(
                STEP,
                move |_: &Map<String, Value>, _: &Value, _: Location| {
                    Ok(Box::new(Step(Arc::clone(&counter))) as Box<dyn for<'i> Keyword<'i>>)
                },
            )
            .build(&counted)
            .map_err(|error| {
                let at = error.instance_path().as_str();
                wrong(format!(
                    "not a JSON Schema, at {at:?}: {}",
                    short(&error.to_string())
                ))
            })?;
        Ok(Self {
            validator,
            n_steps,
            turn: Mutex::default(),
        })
    }

    fn violations(&self, field: &'static str, value: &Value) -> Vec<Violation> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.n_steps.store(0, Ordering::Relaxed);
        let check = || {
            if self.validator.is_valid(value) {
                return Vec::new();
            }
            let errors = self.validator.iter_errors(value).take(MAX_LISTED);
            errors
                .map(|error| Violation {
                    field,
                    pointer: error.instance_path().as_str().to_owned(),
                    message: short(&error.to_string()),
                })
                .collect()
        };
        // The validator holds no state that a cut-off check could leave broken.
        catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|payload| {
            let message = match payload.is::<TooMuchWork>() {
                true => "the schema asks for more work on this value than a check may cost",
                false => "the schema cannot be held against this value",
            };
            vec![Violation {
                field,
                pointer: String::new(),
                message: message.to_owned(),
            }]
        })
    }
}

/// Keywords whose members are schemas by name.
const MAPS: &[&str] = &[
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "$defs",
    "definitions",
];
/// Keywords that hold no schema.
const DATA: &[&str] = &[
    "enum",
    "const",
    "default",
    "examples",
    "required",
    "type",
    "dependentRequired",
    "$vocabulary",
];

/// Puts the counting keyword into every schema of a schema.
fn count_steps(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (keyword, member) in members.iter_mut() {
                if MAPS.contains(&keyword.as_str()) {
                    let named = member.as_object_mut().into_iter().flatten();
                    named.for_each(|(_, schema)| count_steps(schema));
                } else if !DATA.contains(&keyword.as_str()) {
                    count_steps(member);
                }
            }
            members.insert(STEP.to_owned(), json!({}));
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(count_steps),
        _ => {}
    }
}

/// A reference that would use data as a schema, where no step is counted.
fn reference_into_data(schema: &Value) -> Option<&str> {
    match schema {
        Value::Object(members) => members.iter().find_map(|(key, member)| match member {
            Value::String(reference) if key == "$ref" || key == "$dynamicRef" => {
                let pointer = reference.split_once('#')?.1;
                let mut named = false;
                let mut segments = pointer.split('/').skip(1);
                let is_data = segments.any(|segment| {
                    let is_data = !named && DATA.contains(&segment);
                    named = !named && MAPS.contains(&segment);
                    is_data
                });
                is_data.then_some(reference.as_str())
            }
            other => reference_into_data(other),
        }),
        Value::Array(items) => items.iter().find_map(reference_into_data),
        _ => None,
    }
}

fn short(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use assay_domain::dataset::ItemPatch;
    use assay_domain::time::Timestamp;

    use super::*;

    fn dataset(input: Option<Value>, expected_output: Option<Value>) -> Dataset {
        Dataset {
            id: "d".to_owned(),
            name: "d".to_owned(),
            description: None,
            metadata: Value::Null,
            input_schema: input,
            expected_output_schema: expected_output,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
        }
    }

    fn violations(schema: Value, input: Value) -> Vec<Violation> {
        let dataset = dataset(Some(schema), None);
        let patch = ItemPatch {
            input: Some(input),
            ..ItemPatch::default()
        };
        let item = DatasetItem::new("i".to_owned(), &dataset, patch, Timestamp::default());
        Compiled::new(&dataset).unwrap().violations(&item)
    }

    #[test]
    fn violations_are_named_by_field_and_pointer() {
        let schema = json!({
            "type": "object",
            "properties": { "q": { "type": "array", "items": { "type": "string" } } },
            "required": ["q"],
            "additionalProperties": false,
        });
        assert_eq!(violations(schema.clone(), json!({ "q": ["a"] })), []);
        let found = violations(schema.clone(), json!({ "q": ["a", 1] }));
        assert_eq!(
            (found[0].field, found[0].pointer.as_str()),
            ("input", "/q/1")
        );
        assert_eq!(
            violations(schema.clone(), json!({ "q": [], "r": 1 })).len(),
            1
        );
        assert_eq!(
            violations(schema, Value::Null).len(),
            1,
            "an absent input is null"
        );
    }

    #[test]
    fn older_drafts_are_understood() {
        let four = json!({
            "$schema": "http://json-schema.org/draft-04/schema#",
            "properties": { "n": { "minimum": 1, "exclusiveMinimum": true } },
        });
        assert_eq!(violations(four.clone(), json!({ "n": 2 })), []);
        assert_eq!(violations(four, json!({ "n": 1 })).len(), 1);
        let dependent = json!({ "dependentRequired": { "a": ["b"] }, "$defs": { "x": true } });
        assert_eq!(violations(dependent, json!({ "a": 1 })).len(), 1);
    }

    #[test]
    fn what_is_no_schema_is_refused_with_the_place() {
        let cases = [
            json!(1),
            json!({ "type": "objekt" }),
            json!({ "$ref": "http://127.0.0.1:1/x.json" }),
            json!({ "$ref": "file:///etc/passwd" }),
            json!({ "$schema": "http://127.0.0.1:1/none" }),
            json!({ "pattern": "(" }),
            json!({ "$ref": "#/default/a", "default": { "a": {} } }),
            json!({ "$ref": "#/nowhere" }),
            json!({ "title": "x".repeat(MAX_SCHEMA_BYTES) }),
        ];
        for schema in cases {
            let refused = Compiled::new(&dataset(None, Some(schema.clone())));
            let message = refused.unwrap_err().message().to_owned();
            assert!(message.starts_with("expectedOutputSchema"), "{message}");
        }
    }

    #[test]
    fn a_schema_that_doubles_its_work_at_each_level_is_cut_off() {
        let branch = json!({ "properties": { "x": { "$ref": "#/$defs/a" } }, "required": ["x"] });
        let schema = json!({
            "$defs": { "a": { "anyOf": [branch, branch, branch] } },
            "$ref": "#/$defs/a",
        });
        let mut deep = json!(null);
        for _ in 0..100 {
            deep = json!({ "x": deep });
        }
        let deep = json!({ "x": deep, "y": 1 });
        let found = violations(schema, deep.clone());
        assert!(
            found.is_empty() || found[0].message.contains("more work"),
            "{found:?}"
        );
        let mut defs = Map::new();
        for n in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/{}", n + 1) });
            defs.insert(n.to_string(), json!({ "allOf": [next, next] }));
        }
        defs.insert("60".to_owned(), json!({ "type": "integer" }));
        let found = violations(json!({ "$defs": defs, "$ref": "#/$defs/0" }), json!(1));
        assert!(found[0].message.contains("more work"), "{found:?}");
        assert_eq!(violations(json!({ "type": "object" }), deep), []);
    }

    #[test]
    fn a_schema_of_a_megabyte_is_compiled_once_per_revision() {
        let properties: Map<String, Value> = (0..20_000)
            .map(|n| (format!("property {n}"), json!({ "type": "integer" })))
            .collect();
        let dataset = dataset(Some(json!({ "properties": properties })), None);
        let schemas = Schemas::default();
        let first = schemas.of(&dataset, 1).unwrap();
        assert!(Arc::ptr_eq(&first, &schemas.of(&dataset, 1).unwrap()));
        assert!(!Arc::ptr_eq(&first, &schemas.of(&dataset, 2).unwrap()));
    }
}
