//! Counts the work of a check: a keyword in every schema of a schema, which is asked at each visit.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value, json};

/// Places of a schema that one check may visit: some seconds of work at most.
const MAX: u64 = 20_000_000;
/// Its name is nobody's keyword.
pub(crate) const STEP: &str = "x-assay-step\u{1}";

/// Unwinds a check that costs too much. It never leaves this crate.
pub(crate) struct TooMuchWork;

/// What the present check has cost.
#[derive(Debug, Default)]
pub(crate) struct Steps(AtomicU64);

impl Steps {
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

struct Step(Arc<Steps>);

impl Step {
    fn count(&self) {
        if MAX < self.0.0.fetch_add(1, Ordering::Relaxed) {
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

type Made<'a> = Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>>;

/// Makes the keyword wherever it stands.
pub(crate) fn keyword(
    steps: &Arc<Steps>,
) -> impl for<'a> Fn(&'a Map<String, Value>, &'a Value, Location) -> Made<'a> + Send + Sync + use<>
{
    let steps = Arc::clone(steps);
    move |_, _, _| Ok(Box::new(Step(Arc::clone(&steps))) as Box<dyn for<'i> Keyword<'i>>)
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

/// The schema with the counting keyword in every schema of it.
pub(crate) fn counted(schema: &Value) -> Value {
    let mut schema = schema.clone();
    count(&mut schema);
    schema
}

fn count(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (keyword, member) in members.iter_mut() {
                if MAPS.contains(&keyword.as_str()) {
                    let named = member.as_object_mut().into_iter().flatten();
                    named.for_each(|(_, schema)| count(schema));
                } else if !DATA.contains(&keyword.as_str()) {
                    count(member);
                }
            }
            members.insert(STEP.to_owned(), json!({}));
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(count),
        _ => {}
    }
}

/// A reference that would use data as a schema, where no step is counted.
pub(crate) fn reference_into_data(schema: &Value) -> Option<&str> {
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
