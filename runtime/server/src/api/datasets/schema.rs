//! JSON Schemas of datasets, and items held against them.

use assay_domain::dataset::{Dataset, DatasetItem};
use assay_domain::protocol::{Mismatch, SchemaCheck, SchemaKind, Unchecked};
use serde_json::{Value, json};

use crate::App;
use crate::problem::{Code, Issue, Problem};

/// Largest schema as JSON text.
const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Bytes of items that are checked in one go.
const MAX_CHECKED_BYTES: usize = 16 << 20;

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
    fn new(field: &'static str, mismatch: Mismatch) -> Self {
        Self {
            field,
            pointer: mismatch.pointer,
            message: mismatch.message,
        }
    }

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

/// One schema of a dataset, and which part of an item has to meet it.
struct Part<'d> {
    schema_field: &'static str,
    schema: &'d Value,
    field: &'static str,
    of: fn(&DatasetItem) -> &Value,
}

fn parts(dataset: &Dataset) -> Vec<Part<'_>> {
    let input = dataset.input_schema.as_ref().map(|schema| Part {
        schema_field: "inputSchema",
        schema,
        field: "input",
        of: |item| &item.input,
    });
    let expected = dataset.expected_output_schema.as_ref().map(|schema| Part {
        schema_field: "expectedOutputSchema",
        schema,
        field: "expectedOutput",
        of: |item| &item.expected_output,
    });
    input.into_iter().chain(expected).collect()
}

/// What of each item the schemas of its dataset do not allow. Without items, whether they are schemas.
///
/// # Errors
/// 400 that names the schema and what is wrong with it, or that it asks for too much; 503 when the check
/// failed.
pub(super) async fn violations(
    app: &App,
    dataset: &Dataset,
    items: &[DatasetItem],
) -> Result<Vec<Vec<Violation>>, Problem> {
    let mut all: Vec<Vec<Violation>> = vec![Vec::new(); items.len()];
    let parts = parts(dataset);
    if parts.is_empty() {
        return Ok(all);
    }
    let schemas = parts.iter().map(schema_text);
    let schemas = schemas.collect::<Result<Vec<String>, Problem>>()?;
    let mut rest = items;
    let mut found = all.iter_mut();
    loop {
        let (checks, n_taken) = checks(&parts, &schemas, rest);
        rest = &rest[n_taken..];
        let answers = app.engine.hold(checks).await;
        let answers = answers.map_err(|why| refused(&parts, &why))?;
        let mut of_these: Vec<&mut Vec<Violation>> = found.by_ref().take(n_taken).collect();
        for (part, answer) in parts.iter().zip(answers) {
            let held = answer.map_err(|why| Problem::body(part.schema_field, why.message))?;
            for (all, held) in of_these.iter_mut().zip(held) {
                let mismatches = held.mismatches.into_iter();
                all.extend(mismatches.map(|mismatch| Violation::new(part.field, mismatch)));
            }
        }
        if rest.is_empty() {
            return Ok(all);
        }
    }
}

fn schema_text(part: &Part<'_>) -> Result<String, Problem> {
    let text = part.schema.to_string();
    if MAX_SCHEMA_BYTES < text.len() {
        let message = format!("a schema has at most {MAX_SCHEMA_BYTES} bytes");
        return Err(Problem::body(part.schema_field, message));
    }
    Ok(text)
}

/// One check for each schema, of the first items that fit into one go, and how many those are.
fn checks(
    parts: &[Part<'_>],
    schemas: &[String],
    items: &[DatasetItem],
) -> (Vec<SchemaCheck>, usize) {
    let check = |schema: &String| SchemaCheck {
        schema: schema.clone(),
        kind: SchemaKind::Any,
        values: Vec::new(),
    };
    let mut checks: Vec<SchemaCheck> = schemas.iter().map(check).collect();
    let (mut n_taken, mut n_bytes) = (0, 0);
    for item in items {
        let values: Vec<String> = parts
            .iter()
            .map(|part| (part.of)(item).to_string())
            .collect();
        n_bytes += values.iter().map(String::len).sum::<usize>();
        if 0 < n_taken && MAX_CHECKED_BYTES < n_bytes {
            break;
        }
        for (check, value) in checks.iter_mut().zip(values) {
            check.values.push(value);
        }
        n_taken += 1;
    }
    (checks, n_taken)
}

fn refused(parts: &[Part<'_>], why: &Unchecked) -> Problem {
    let Unchecked::TooMuchWork = why else {
        return Problem::unchecked(why);
    };
    let issue = |part: &Part<'_>| Issue::new(part.schema_field, why.to_string());
    Problem::issues(Code::InvalidBody, parts.iter().map(issue).collect())
}
