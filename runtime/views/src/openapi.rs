//! An OpenAPI document as groups of operations, ready to be shown: what an operation takes, what it responses, how to call it.
//!
//! Invariant: **pure.** The document is data like any other: what is missing in it or has an unexpected form is left out.

mod operation;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use crate::markup::Text;
use serde_json::Value;

pub use operation::{ErrorCode, ErrorScope, Operation, OperationResponse};
pub use schema::{Field, TypePart, ValueSchema};
use schema::{anchor, shapes, text};

/// A parameter that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct OperationParameter<'a> {
    /// As it is called in an address.
    pub name: &'a str,
    /// `path` or `query`.
    pub location: &'a str,
    /// It may not be left out.
    pub is_required: bool,
    /// It takes any number of values, each with the name before it.
    pub is_list: bool,
}

/// An OpenAPI document, ready to be shown.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// Of the server.
    pub version: Text,
    /// By the names of their tags.
    pub groups: Vec<Group>,
    types: BTreeMap<String, NamedType>,
    errors: Vec<ErrorCode>,
}

/// The operations with one tag.
#[derive(Clone, Debug)]
pub struct Group {
    /// The tag.
    pub name: Text,
    /// The last part of its address.
    pub path: String,
    /// By their paths.
    pub operations: Vec<Operation>,
    /// Anchors of the types that they lead to.
    pub types: Vec<String>,
}

/// A type that others name.
#[derive(Clone, Debug)]
pub struct NamedType {
    /// What others call it.
    pub name: Text,
    /// The forms that it may have.
    pub shapes: Vec<ValueSchema>,
}

/// Anchors of the types that a form names.
fn targets(shape: &ValueSchema) -> impl Iterator<Item = &String> {
    let fields = shape.fields.iter().flat_map(|field| &field.kind);
    let pieces = shape.kind.iter().chain(fields);
    pieces.filter_map(|piece| piece.target.as_ref())
}

/// What operations lead to, over as many types as there are between.
fn reachable_types(operations: &[Operation], types: &BTreeMap<String, NamedType>) -> Vec<String> {
    let of_parameters = operations.iter().flat_map(|one| &one.parameters);
    let of_parameters = of_parameters.flat_map(|field: &Field| &field.kind);
    let of_parameters = of_parameters.filter_map(|piece| piece.target.as_ref());
    let mut waiting: Vec<&String> = operations
        .iter()
        .flat_map(Operation::shapes)
        .flat_map(targets)
        .chain(of_parameters)
        .collect();
    let mut found = BTreeSet::new();
    while let Some(anchor) = waiting.pop() {
        if let Some(named) = types.get(anchor)
            && found.insert(anchor.clone())
        {
            waiting.extend(named.shapes.iter().flat_map(targets));
        }
    }
    found.into_iter().collect()
}

impl Reference {
    /// Reads an OpenAPI document.
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

    /// Operations in all.
    #[must_use]
    pub fn n_operations(&self) -> usize {
        self.groups.iter().map(|group| group.operations.len()).sum()
    }

    /// The last parts of the addresses of all groups.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(|group| group.path.as_str())
    }

    /// The path and the parameters of the operation with this id, where a page can show what it responses.
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

    /// The group with this last part of its address.
    #[must_use]
    pub fn group(&self, path: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.path == path)
    }

    /// The groups with those of their operations that all these words name, parted by spaces.
    #[must_use]
    pub fn search(&self, words: &str) -> Vec<(&Group, Vec<&Operation>)> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let groups = self.groups.iter().map(|group| {
            let fitting = group.operations.iter().filter(|one| one.matches(&words));
            (group, fitting.collect::<Vec<_>>())
        });
        groups.filter(|(_, found)| !found.is_empty()).collect()
    }

    /// The types that the operations of a group lead to, by their anchors.
    pub fn types_of<'r>(
        &'r self,
        group: &'r Group,
    ) -> impl Iterator<Item = (&'r String, &'r NamedType)> {
        let anchors = group.types.iter();
        anchors.filter_map(|anchor| self.types.get_key_value(anchor))
    }

    /// What one of these operations may be refused with.
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
    fn a_group_has_the_types_that_its_operations_lead_to_and_no_others() {
        let of = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let answer = |schema: Value| json!({ "200": { "content": { "application/json": { "schema": schema } } } });
        let document = json!({
            "paths": {
                "/a": { "get": { "tags": ["first"], "responses": answer(of("A")) } },
                "/b": { "get": { "tags": ["second"], "responses": answer(json!({ "type": "array", "items": of("C") })) } },
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
