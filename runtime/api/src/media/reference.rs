//! Media references in dataset items.

use std::collections::{BTreeSet, HashMap};

use perpend_domain::dataset::{DatasetItem, media_id};
use perpend_domain::ids::ProjectId;
use perpend_http_kit::problem::Problem;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{MediumView, Origin, view};
use crate::state::App;

/// Most references per item.
const MAX_REFERENCES: usize = 100;

/// A reference to an uploaded medium.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MediaReference {
    /// `input`, `expectedOutput` or `metadata`.
    field: &'static str,
    /// The text that refers to the medium.
    reference_string: String,
    /// JSONPath of the text in the field.
    json_path: String,
    media: MediumView,
}

/// A string that is a reference, with its path.
#[derive(Debug, PartialEq, Eq)]
struct TextReference<'v> {
    field: &'static str,
    text: &'v str,
    path: String,
    id: &'v str,
}

fn collect<'v>(
    field: &'static str,
    value: &'v Value,
    path: &str,
    found: &mut Vec<TextReference<'v>>,
) {
    match value {
        Value::String(text) => {
            if let Some(id) = media_id(text).filter(|_| found.len() < MAX_REFERENCES) {
                found.push(TextReference { field, text, path: path.to_owned(), id });
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

/// `mediaReferences` of each of these items: references to uploaded media, each with the URL of its download.
pub(crate) async fn of_items(
    app: &App,
    project: &ProjectId,
    origin: &Origin,
    items: impl Iterator<Item = &DatasetItem>,
) -> Result<Vec<Vec<MediaReference>>, Problem> {
    let all: Vec<Vec<TextReference<'_>>> = items.map(of_item).collect();
    let ids: BTreeSet<&str> = all.iter().flatten().map(|found| found.id).collect();
    let ids: Vec<&str> = ids.into_iter().collect();
    let there = app.store.telemetry.stored_media(project, &ids).await?;
    let views = there.iter();
    let views = views.map(|(id, medium)| (id.as_str(), view(app, project, origin, medium)));
    let views: HashMap<&str, MediumView> = views.collect();
    let shown = |found: TextReference<'_>| {
        Some(MediaReference {
            field: found.field,
            reference_string: found.text.to_owned(),
            json_path: found.path,
            media: views.get(found.id)?.clone(),
        })
    };
    Ok(all.into_iter().map(|found| found.into_iter().filter_map(shown).collect()).collect())
}

fn of_item(item: &DatasetItem) -> Vec<TextReference<'_>> {
    let mut found = Vec::new();
    collect("input", &item.input, "$", &mut found);
    collect("expectedOutput", &item.expected_output, "$", &mut found);
    collect("metadata", &item.metadata, "$", &mut found);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_with_their_json_paths() {
        let reference = "@@@langfuseMedia:type=image/png|id=abc|source=bytes@@@";
        let value = json!({ "doc": [1, reference], "it's": { "0": reference }, "text": format!("see {reference}") });
        let mut found = Vec::new();
        collect("input", &value, "$", &mut found);
        let places: Vec<_> = found.iter().map(|found| (found.path.as_str(), found.id)).collect();
        assert_eq!(places, [("$['doc'][1]", "abc"), ("$['it's']['0']", "abc")]);
        assert_eq!(media_id("@@@langfuseMedia:type=image/png@@@"), None);
    }
}
