//! JSON Schemas of datasets: compiled once, and items held against them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use assay_domain::dataset::{Dataset, DatasetItem};
use assay_schema::Schema;
use serde_json::{Value, json};

use crate::problem::{Issue, Problem};

/// Largest schema as JSON text.
pub(super) const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Violations that are listed for one item.
const MAX_LISTED: usize = 50;
/// Schemas that stay compiled.
const N_KEPT: usize = 64;

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
    input: Option<Schema>,
    expected_output: Option<Schema>,
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
            |field, schema: Option<&Value>| schema.map(|schema| compile(field, schema)).transpose();
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
        let checked = parts.into_iter().filter_map(|(field, schema, value)| {
            let schema = schema.as_ref()?;
            Some(violations(schema, field, value))
        });
        checked.flatten().collect()
    }
}

fn compile(field: &'static str, schema: &Value) -> Result<Schema, Problem> {
    if MAX_SCHEMA_BYTES < schema.to_string().len() {
        let message = format!("a schema has at most {MAX_SCHEMA_BYTES} bytes");
        return Err(Problem::body(field, message));
    }
    Schema::new(schema).map_err(|unusable| Problem::body(field, unusable.to_string()))
}

fn violations(schema: &Schema, field: &'static str, value: &Value) -> Vec<Violation> {
    let violation = |pointer, message| Violation {
        field,
        pointer,
        message,
    };
    match schema.faults(value, MAX_LISTED) {
        Ok(faults) => faults
            .into_iter()
            .map(|fault| violation(fault.pointer, fault.message))
            .collect(),
        Err(why) => vec![violation(String::new(), why.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use assay_domain::dataset::ItemPatch;
    use assay_domain::time::Timestamp;
    use serde_json::Map;

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
        let mut defs = Map::new();
        for n in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/{}", n + 1) });
            defs.insert(n.to_string(), json!({ "allOf": [next, next] }));
        }
        defs.insert("60".to_owned(), json!({ "type": "integer" }));
        let found = violations(json!({ "$defs": defs, "$ref": "#/$defs/0" }), json!(1));
        assert!(found[0].message.contains("more work"), "{found:?}");
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
