//! Gaps of the OpenAPI document.

use serde_json::Value;

/// Each operation as `METHOD /path`, with its description.
fn operations(document: &Value) -> impl Iterator<Item = (String, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let operations = item.as_object().into_iter().flatten();
        operations.map(move |(method, described)| {
            (format!("{} {path}", method.to_uppercase()), described)
        })
    })
}

/// Successful JSON responses whose schema is an object without members.
pub(super) fn bare_answers(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (operation, described) in operations(document) {
        let answers = described["responses"].as_object().into_iter().flatten();
        for (status, answer) in answers.filter(|(status, _)| status.starts_with('2')) {
            let schema = &answer["content"]["application/json"]["schema"];
            let is_bare = schema.as_object().is_some_and(|schema| schema.keys().eq(["type"]));
            if is_bare {
                found.push(format!("{operation} {status}"));
            }
        }
    }
    found
}

pub(super) fn nameless(document: &Value) -> Vec<String> {
    let nameless =
        operations(document).filter(|(_, described)| !described["operationId"].is_string());
    nameless.map(|(operation, _)| operation).collect()
}
