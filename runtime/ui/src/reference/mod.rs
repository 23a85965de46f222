//! The reference of the API: an OpenAPI document as a page for each group of operations.
//!
//! A page shows the types that its own operations lead to, and no others.

mod operation;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use serde_json::Value;

use operation::Operation;
pub use operation::{Fault, When};
use schema::{Field, Shape, anchor, shapes, text};

use crate::{Shell, Text};

/// The groups with the titles of their operations, or the operations that a search finds.
#[derive(Clone, Debug, Template)]
#[template(path = "reference.html")]
pub struct ReferencePage<'r> {
    /// Around the page.
    pub shell: Shell,
    /// What it shows.
    pub reference: &'r Reference,
    /// The words that are looked for.
    pub q: String,
}

/// One group.
#[derive(Clone, Debug, Template)]
#[template(path = "reference_group.html")]
pub struct ReferenceGroupPage<'r> {
    /// Around the page.
    pub shell: Shell,
    reference: &'r Reference,
    group: &'r Group,
}

/// What an operation answers to the viewer of the page.
#[derive(Clone, Debug, Template)]
#[template(path = "reference_try.html")]
pub struct TryPage {
    /// Around the page.
    pub shell: Shell,
    /// The path of the operation, with `{names}`.
    pub path: String,
    /// Its parameters: name, whether it is needed, and the value.
    pub fields: Vec<(String, bool, String)>,
    /// The address that was asked, the status, how much of the body is shown, and the body; none while values are missing.
    pub answer: Option<(Text, u16, String, Text)>,
}

/// A parameter that is asked for: its name, its place (`path` or `query`), and whether it is needed.
pub type TriedParameter<'a> = (&'a str, &'a str, bool);

/// An OpenAPI document, ready to be shown.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// Of the server.
    pub version: Text,
    groups: Vec<Group>,
    types: BTreeMap<String, Named>,
    faults: Vec<Fault>,
}

/// The operations with one tag.
#[derive(Clone, Debug)]
struct Group {
    name: Text,
    /// The last part of its address.
    path: String,
    operations: Vec<Operation>,
    /// Anchors of the types that they lead to.
    types: Vec<String>,
}

/// A type that others name.
#[derive(Clone, Debug)]
struct Named {
    name: Text,
    shapes: Vec<Shape>,
}

/// Anchors of the types that a form names.
fn targets(shape: &Shape) -> impl Iterator<Item = &String> {
    let fields = shape.fields.iter().flat_map(|field| &field.kind);
    let pieces = shape.kind.iter().chain(fields);
    pieces.filter_map(|piece| piece.target.as_ref())
}

/// What operations lead to, over as many types as there are between.
fn led_to(operations: &[Operation], types: &BTreeMap<String, Named>) -> Vec<String> {
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
    pub fn of(document: &Value, faults: Vec<Fault>) -> Self {
        const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
        let types = document["components"]["schemas"].as_object();
        let types = types.into_iter().flatten().map(|(name, schema)| {
            let named = Named {
                name: name.as_str().into(),
                shapes: shapes(schema),
            };
            (anchor(&["type", name]), named)
        });
        let types: BTreeMap<String, Named> = types.collect();
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
            types: led_to(&operations, &types),
            operations,
        });
        Self {
            version: text(&document["info"]["version"]),
            groups: groups.collect(),
            types,
            faults,
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

    /// The path and the parameters of the operation with this id, where a page can show what it answers.
    #[must_use]
    pub fn tried(&self, id: &str) -> Option<(&str, Vec<TriedParameter<'_>>)> {
        let mut all = self.groups.iter().flat_map(|group| &group.operations);
        let found = all.find(|one| one.is_tried && one.id.raw() == id)?;
        let fields = found.parameters.iter();
        let fields = fields.map(|one| (one.name.raw(), one.place.raw(), one.is_required));
        Some((found.path.raw(), fields.collect()))
    }

    /// The page of a group.
    #[must_use]
    pub fn group(&self, path: &str, shell: Shell) -> Option<ReferenceGroupPage<'_>> {
        let group = self.groups.iter().find(|group| group.path == path)?;
        Some(ReferenceGroupPage {
            shell,
            reference: self,
            group,
        })
    }
}

impl ReferencePage<'_> {
    /// The groups with what is found in them.
    fn found(&self) -> Vec<(&Group, Vec<&Operation>)> {
        let words: Vec<String> = self.q.split_whitespace().map(str::to_lowercase).collect();
        let groups = self.reference.groups.iter().map(|group| {
            let fitting = group.operations.iter().filter(|one| one.holds(&words));
            (group, fitting.collect::<Vec<_>>())
        });
        groups.filter(|(_, found)| !found.is_empty()).collect()
    }

    fn n_found(&self) -> usize {
        self.found().iter().map(|(_, found)| found.len()).sum()
    }
}

impl ReferenceGroupPage<'_> {
    fn types(&self) -> impl Iterator<Item = (&String, &Named)> {
        let all = &self.reference.types;
        self.group
            .types
            .iter()
            .filter_map(|anchor| all.get_key_value(anchor))
    }

    fn faults(&self, operation: &Operation) -> Vec<&Fault> {
        let faults = self.reference.faults.iter();
        faults.filter(|fault| operation.may_answer(fault)).collect()
    }

    /// Those of any of its operations.
    fn all_faults(&self) -> Vec<&Fault> {
        let faults = self.reference.faults.iter();
        let any = |fault: &&Fault| {
            self.group
                .operations
                .iter()
                .any(|one| one.may_answer(fault))
        };
        faults.filter(any).collect()
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
            let page = reference.group(path, Shell::default()).unwrap();
            page.types()
                .map(|(_, named)| named.name.raw().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(types("first"), ["A", "B"]);
        assert_eq!(types("second"), ["C"]);
        assert!(reference.group("third", Shell::default()).is_none());
    }
}
