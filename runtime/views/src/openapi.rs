//! An OpenAPI document as groups of operations, ready to be rendered: parameters, bodies, responses and example requests.
//!
//! Invariant: **total.** Missing or malformed parts of the document are skipped.

mod operation;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use crate::markup::Text;
use serde_json::Value;

pub use operation::{ErrorCode, ErrorScope, Operation, OperationResponse};
pub use schema::{Field, TypePart, ValueSchema};
use schema::{anchor, shapes, text};

/// A parameter of an operation, for a form.
#[derive(Clone, Copy, Debug)]
pub struct OperationParameter<'a> {
    /// Name in the URL.
    pub name: &'a str,
    /// `path` or `query`.
    pub location: &'a str,
    /// Whether the parameter is required.
    pub is_required: bool,
    /// Whether the parameter can be repeated.
    pub is_list: bool,
}

/// An OpenAPI document, ready to be rendered.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// Version of the server.
    pub version: Text,
    /// Sorted by name.
    pub groups: Vec<Group>,
    types: BTreeMap<String, NamedType>,
    errors: Vec<ErrorCode>,
}

/// The operations with one tag.
#[derive(Clone, Debug)]
pub struct Group {
    /// Tag of the operations.
    pub name: Text,
    /// Last segment of its URL.
    pub path: String,
    /// Sorted by path.
    pub operations: Vec<Operation>,
    /// Anchors of the types reachable from the operations.
    pub types: Vec<String>,
}

/// A named type.
#[derive(Clone, Debug)]
pub struct NamedType {
    /// Name of the type.
    pub name: Text,
    /// Alternative schemas of the type.
    pub shapes: Vec<ValueSchema>,
}

/// The anchors of the types that a schema refers to.
fn targets(shape: &ValueSchema) -> impl Iterator<Item = &String> {
    let fields = shape.fields.iter().flat_map(|field| &field.kind);
    let pieces = shape.kind.iter().chain(fields);
    pieces.filter_map(|piece| piece.target.as_ref())
}

/// The anchors of all types reachable from the operations.
fn reachable_types(operations: &[Operation], types: &BTreeMap<String, NamedType>) -> Vec<String> {
    let of_parameters = operations.iter().flat_map(|one| &one.parameters);
    let of_parameters = of_parameters.flat_map(|field: &Field| &field.kind);
    let of_parameters = of_parameters.filter_map(|piece| piece.target.as_ref());
    let mut pending: Vec<&String> = operations
        .iter()
        .flat_map(Operation::shapes)
        .flat_map(targets)
        .chain(of_parameters)
        .collect();
    let mut found = BTreeSet::new();
    while let Some(anchor) = pending.pop() {
        if let Some(named) = types.get(anchor)
            && found.insert(anchor.clone())
        {
            pending.extend(named.shapes.iter().flat_map(targets));
        }
    }
    found.into_iter().collect()
}

impl Reference {
    /// Parses an OpenAPI document. `errors` are the error codes of the API.
    #[must_use]
    pub fn of(document: &Value, errors: Vec<ErrorCode>) -> Self {
        const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
        let types = document["components"]["schemas"].as_object();
        let types = types.into_iter().flatten().map(|(name, schema)| {
            let named = NamedType { name: name.as_str().into(), shapes: shapes(schema) };
            (anchor(&["type", name]), named)
        });
        let types: BTreeMap<String, NamedType> = types.collect();
        let mut groups: BTreeMap<&str, Vec<Operation>> = BTreeMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for method in METHODS {
                let described = &item[method];
                if described.is_object() {
                    let tag = described["tags"][0].as_str().unwrap_or("other");
                    let operations = groups.entry(tag).or_default();
                    operations.push(Operation::new(path, method, described, document));
                }
            }
        }
        let groups = groups.into_iter().map(|(name, operations)| Group {
            name: name.into(),
            path: anchor(&[name]),
            types: reachable_types(&operations, &types),
            operations,
        });
        Self {
            version: text(&document["info"]["version"]),
            groups: groups.collect(),
            types,
            errors,
        }
    }

    /// Total number of operations.
    #[must_use]
    pub fn n_operations(&self) -> usize {
        self.groups.iter().map(|group| group.operations.len()).sum()
    }

    /// The URL segments of all groups.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.path.as_str())
    }

    /// Path and parameters of the operation with this id, if it can be called from a page.
    #[must_use]
    pub fn callable_operation(&self, id: &str) -> Option<(&str, Vec<OperationParameter<'_>>)> {
        let mut all = self.groups.iter().flat_map(|group| &group.operations);
        let found = all.find(|one| one.is_callable && one.id.raw() == id)?;
        let fields = found.parameters.iter();
        let fields = fields.map(|one| OperationParameter {
            name: one.name.raw(),
            location: one.location.raw(),
            is_required: one.is_required,
            is_list: one.is_list,
        });
        Some((found.path.raw(), fields.collect()))
    }

    /// The group with this URL segment.
    #[must_use]
    pub fn group(&self, path: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.path == path)
    }

    /// The groups with the operations that match all words in `words`, separated by white space.
    #[must_use]
    pub fn search(&self, words: &str) -> Vec<(&Group, Vec<&Operation>)> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let groups = self.groups.iter().map(|group| {
            let matching = group.operations.iter().filter(|one| one.matches(&words));
            (group, matching.collect::<Vec<_>>())
        });
        groups.filter(|(_, found)| !found.is_empty()).collect()
    }

    /// The types reachable from the operations of a group, with their anchors.
    pub fn types_of<'r>(
        &'r self,
        group: &'r Group,
    ) -> impl Iterator<Item = (&'r String, &'r NamedType)> {
        let anchors = group.types.iter();
        anchors.filter_map(|anchor| self.types.get_key_value(anchor))
    }

    /// The errors that these operations can return.
    #[must_use]
    pub fn errors_of(&self, operations: &[Operation]) -> Vec<&ErrorCode> {
        let may = |error: &&ErrorCode| operations.iter().any(|one| one.may_return(error));
        self.errors.iter().filter(may).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn group_contains_only_reachable_types() {
        let of = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let response = |schema: Value| json!({ "200": { "content": { "application/json": { "schema": schema } } } });
        let document = json!({
            "paths": {
                "/a": { "get": { "tags": ["first"], "responses": response(of("A")) } },
                "/b": { "get": { "tags": ["second"], "responses": response(json!({ "type": "array", "items": of("C") })) } },
            },
            "components": { "schemas": {
                "A": { "properties": { "b": of("B") } },
                "B": { "properties": { "a": of("A"), "gone": of("Gone") } },
                "C": { "properties": {} },
            } },
        });
        let reference = Reference::of(&document, Vec::new());
        let types = |path: &str| {
            let group = reference.group(path).unwrap();
            let types = reference.types_of(group);
            types.map(|(_, named)| named.name.raw().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(types("first"), ["A", "B"]);
        assert_eq!(types("second"), ["C"]);
        assert!(reference.group("third").is_none());
    }
}
