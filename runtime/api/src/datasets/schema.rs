//! JSON Schemas of datasets, and the validation of items.

use perpend_broker::Engine;
use perpend_domain::dataset::{Dataset, DatasetItem};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::problem::{Issue, Problem};
use perpend_worker_protocol::{CheckError, Mismatch, SchemaCheck, SchemaKind};
use serde_json::{Value, json};

/// Largest schema as JSON text.
const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Bytes of items per check.
const MAX_CHECKED_BYTES: usize = 16 << 20;

/// The result for an item whose validation exceeds the work limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExcessWork {
    /// The whole check fails.
    Fails,
    /// The item is invalid, and the others are checked.
    Violates,
}

/// A violation of a schema by an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// `input` or `expectedOutput`.
    pub(super) field: &'static str,
    /// JSON Pointer into the field.
    pub(super) pointer: String,
    /// Description of the violation.
    pub(super) message: String,
}

impl Violation {
    fn new(field: &'static str, mismatch: Mismatch) -> Self {
        Self { field, pointer: mismatch.pointer, message: mismatch.message }
    }

    fn of_work(field: &'static str) -> Self {
        let message = CheckError::TooMuchWork.to_string();
        Self { field, pointer: String::new(), message }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({ "field": self.field, "pointer": self.pointer, "message": self.message })
    }

    pub(super) fn to_issue(&self) -> Issue {
        Issue::new(&format!("{}{}", self.field, self.pointer), self.message.clone())
    }
}

/// A schema of a dataset and the field of items that it applies to.
struct SchemaField<'d> {
    schema_field: &'static str,
    schema: &'d Value,
    field: &'static str,
    of: fn(&DatasetItem) -> &Value,
}

fn parts(dataset: &Dataset) -> Vec<SchemaField<'_>> {
    let input = dataset.input_schema.as_ref().map(|schema| SchemaField {
        schema_field: "inputSchema",
        schema,
        field: "input",
        of: |item| &item.input,
    });
    let expected = dataset.expected_output_schema.as_ref().map(|schema| SchemaField {
        schema_field: "expectedOutputSchema",
        schema,
        field: "expectedOutput",
        of: |item| &item.expected_output,
    });
    input.into_iter().chain(expected).collect()
}

/// The violations of each item. Without items, only the schemas are checked.
///
/// # Errors
/// 400 for an invalid schema, or for an item whose validation exceeds the work limit; 503 when the
/// check failed.
pub(super) async fn violations(
    engine: &Engine,
    project: &ProjectId,
    dataset: &Dataset,
    items: &[DatasetItem],
    excess: ExcessWork,
) -> Result<Vec<Vec<Violation>>, Problem> {
    let mut all: Vec<Vec<Violation>> = vec![Vec::new(); items.len()];
    for part in parts(dataset) {
        let schema = schema_text(&part)?;
        let hold = async |values| {
            let check = SchemaCheck { schema: schema.clone(), kind: SchemaKind::Any, values };
            engine.check_schema(project, check).await
        };
        let (mut n_done, mut n_most) = (0, items.len());
        loop {
            let rest = &items[n_done..];
            let values = first_values(&part, &rest[..n_most.min(rest.len())]);
            let n_taken = values.len();
            let answer = match hold(values).await {
                // Either the schema alone exceeds the limit, or the items do, which together
                // may exceed the limit of one item.
                Err(CheckError::TooMuchWork) if 0 < n_taken => {
                    let alone = hold(Vec::new()).await;
                    drop(alone.map_err(|why| refused(&part, None, &why))?);
                    if n_taken == 1 && excess == ExcessWork::Violates {
                        all[n_done].push(Violation::of_work(part.field));
                        n_done += 1;
                        n_most = items.len();
                        if n_done == items.len() {
                            break;
                        }
                        continue;
                    }
                    if n_taken == 1 {
                        return Err(refused(&part, rest.first(), &CheckError::TooMuchWork));
                    }
                    n_most = n_taken / 2;
                    continue;
                }
                answer => answer.map_err(|why| refused(&part, None, &why))?,
            };
            let held = answer.map_err(|why| Problem::body(part.schema_field, why.message))?;
            for (all, held) in all[n_done..].iter_mut().zip(held) {
                let mismatches = held.mismatches.into_iter();
                all.extend(mismatches.map(|mismatch| Violation::new(part.field, mismatch)));
            }
            n_done += n_taken;
            if n_done == items.len() {
                break;
            }
        }
    }
    Ok(all)
}

fn schema_text(part: &SchemaField<'_>) -> Result<String, Problem> {
    let text = part.schema.to_string();
    if MAX_SCHEMA_BYTES < text.len() {
        let message = format!("must have at most {MAX_SCHEMA_BYTES} bytes, got {}", text.len());
        return Err(Problem::body(part.schema_field, message));
    }
    Ok(text)
}

/// The values of the first items that fit into one check, at least one.
fn first_values(part: &SchemaField<'_>, items: &[DatasetItem]) -> Vec<String> {
    let mut values = Vec::new();
    let mut n_bytes = 0;
    for item in items {
        let value = (part.of)(item).to_string();
        n_bytes += value.len();
        if !values.is_empty() && MAX_CHECKED_BYTES < n_bytes {
            break;
        }
        values.push(value);
    }
    values
}

fn refused(part: &SchemaField<'_>, item: Option<&DatasetItem>, why: &CheckError) -> Problem {
    match (why, item) {
        (CheckError::TooMuchWork, None) => Problem::body(part.schema_field, why.to_string()),
        (CheckError::TooMuchWork, Some(item)) => {
            let message = format!("{why}; the item is {:?}", item.id);
            Problem::body(part.schema_field, message)
        }
        _ => crate::check_error::problem(why),
    }
}
