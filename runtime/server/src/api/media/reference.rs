//! References to media inside items of datasets.

use assay_domain::dataset::DatasetItem;
use assay_domain::ids::ProjectId;
use serde_json::{Value, json};

use super::{Origin, view};
use crate::App;
use crate::problem::Problem;

const OPEN: &str = "@@@langfuseMedia:";
const CLOSE: &str = "@@@";
/// References that are looked up in one item.
const MAX_REFERENCES: usize = 100;

/// A text that is a reference, with its place.
#[derive(Debug, PartialEq, Eq)]
struct Found<'v> {
    field: &'static str,
    text: &'v str,
    path: String,
    id: &'v str,
}

/// The id in a text that is a reference as a whole.
fn media_id(text: &str) -> Option<&str> {
    let inner = text.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    inner
        .split('|')
        .find_map(|part| part.strip_prefix("id="))
        .filter(|id| !id.is_empty())
}

fn collect<'v>(field: &'static str, value: &'v Value, path: &str, found: &mut Vec<Found<'v>>) {
    match value {
        Value::String(text) => {
            if let Some(id) = media_id(text).filter(|_| found.len() < MAX_REFERENCES) {
                found.push(Found {
                    field,
                    text,
                    path: path.to_owned(),
                    id,
                });
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                collect(field, item, &format!("{path}[{at}]"), found);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                collect(field, member, &format!("{path}['{key}']"), found);
            }
        }
        _ => {}
    }
}

/// `mediaReferences` of an item: those whose medium is there, each with an address to read it from.
pub(in crate::api) async fn of_item(
    app: &App,
    project: &ProjectId,
    origin: &Origin,
    item: &DatasetItem,
) -> Result<Value, Problem> {
    let mut found = Vec::new();
    collect("input", &item.input, "$", &mut found);
    collect("expectedOutput", &item.expected_output, "$", &mut found);
    collect("metadata", &item.metadata, "$", &mut found);
    let mut references = Vec::with_capacity(found.len());
    for reference in found {
        let medium = app.store.medium(project, reference.id).await?;
        let Some(medium) = medium.filter(|medium| medium.uploaded_at.is_some()) else {
            continue;
        };
        references.push(json!({
            "field": reference.field,
            "referenceString": reference.text,
            "jsonPath": reference.path,
            "media": view(app, project, origin, &medium).await?,
        }));
    }
    Ok(references.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_with_the_path_that_clients_read() {
        let reference = "@@@langfuseMedia:type=image/png|id=abc|source=bytes@@@";
        let value = json!({ "doc": [1, reference], "it's": { "0": reference }, "text": format!("see {reference}") });
        let mut found = Vec::new();
        collect("input", &value, "$", &mut found);
        let places: Vec<_> = found
            .iter()
            .map(|found| (found.path.as_str(), found.id))
            .collect();
        assert_eq!(places, [("$['doc'][1]", "abc"), ("$['it's']['0']", "abc")]);
        assert_eq!(media_id("@@@langfuseMedia:type=image/png@@@"), None);
    }
}
