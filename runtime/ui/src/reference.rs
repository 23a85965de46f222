//! The reference of the API: an OpenAPI document as tables.
//!
//! The document is data like any other: what is missing in it or has an unexpected form is left out, and
//! nesting is followed to a fixed depth.

use std::collections::BTreeMap;

use askama::Template;
use perpend_domain::access::{Permission, Scope};
use serde_json::Value;

use crate::{Shell, Text};

/// Objects in objects are unfolded so deep.
const MAX_DEPTH: usize = 5;

/// Every operation, grouped, and the types they share.
#[derive(Clone, Debug, Template)]
#[template(path = "reference.html")]
pub struct ReferencePage<'r> {
    /// Around the page.
    pub shell: Shell,
    /// What it shows.
    pub reference: &'r Reference,
}

/// An OpenAPI document, ready to be shown.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    /// Of the server.
    pub version: Text,
    groups: Vec<Group>,
    types: Vec<Named>,
}

/// The operations with one tag.
#[derive(Clone, Debug)]
struct Group {
    name: Text,
    anchor: String,
    operations: Vec<Operation>,
}

#[derive(Clone, Debug)]
struct Operation {
    anchor: String,
    method: Text,
    path: Text,
    summary: Text,
    access: Text,
    parameters: Vec<Field>,
    body: Vec<Shape>,
    answers: Vec<Answer>,
}

#[derive(Clone, Debug)]
struct Answer {
    status: Text,
    text: Text,
    shapes: Vec<Shape>,
}

/// A type that others name.
#[derive(Clone, Debug)]
struct Named {
    name: Text,
    anchor: String,
    shapes: Vec<Shape>,
}

/// One form that a value may have.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// What it is for.
    text: Text,
    kind: Vec<Piece>,
    /// Of an object.
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    name: Text,
    /// `path`, `query`, or nothing.
    place: Text,
    kind: Vec<Piece>,
    is_required: bool,
    text: Text,
}

/// A part of the name of a type; with a target when it is described elsewhere on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    text: Text,
    target: Option<String>,
}

fn text(value: &Value) -> Text {
    Text::from(value.as_str().unwrap_or_default())
}

/// Letters, digits and dashes.
fn anchor(parts: &[&str]) -> String {
    let mut anchor = parts.join("-");
    anchor = anchor.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    while anchor.contains("--") {
        anchor = anchor.replace("--", "-");
    }
    anchor.trim_matches('-').to_owned()
}

fn plain(text: impl Into<Text>) -> Piece {
    Piece {
        text: text.into(),
        target: None,
    }
}

/// Members of the first of these keys that holds a list.
fn list<'v>(schema: &'v Value, keys: &[&str]) -> Option<&'v Vec<Value>> {
    keys.iter().find_map(|key| schema[*key].as_array())
}

fn joined(all: &[Value], word: &str, depth: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for each in all {
        if !pieces.is_empty() {
            pieces.push(plain(word));
        }
        pieces.extend(kind(each, depth + 1));
    }
    pieces
}

/// The name of a type.
fn kind(schema: &Value, depth: usize) -> Vec<Piece> {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or(target);
        return vec![Piece {
            text: name.into(),
            target: Some(anchor(&["type", name])),
        }];
    }
    if depth > MAX_DEPTH {
        return vec![plain("…")];
    }
    if let Some(all) = list(schema, &["oneOf", "anyOf"]) {
        return joined(all, " or ", depth);
    }
    if let Some(all) = schema["allOf"].as_array() {
        return joined(all, " with ", depth);
    }
    if let Some(all) = schema["enum"].as_array() {
        let names = all.iter().map(Value::to_string).collect::<Vec<_>>();
        return vec![plain(names.join(" or "))];
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let mut pieces = Vec::new();
    for name in names {
        if !pieces.is_empty() {
            pieces.push(plain(" or "));
        }
        match (name, &schema["items"], &schema["additionalProperties"]) {
            ("array", items @ Value::Object(_), _) => {
                pieces.push(plain("array of "));
                pieces.extend(kind(items, depth + 1));
            }
            ("object", _, values @ Value::Object(_)) => {
                pieces.push(plain("map of "));
                pieces.extend(kind(values, depth + 1));
            }
            _ => pieces.push(plain(name)),
        }
    }
    if let Some(format) = schema["format"].as_str() {
        pieces.push(plain(format!(" ({format})")));
    }
    pieces
}

/// The fields of an object, those of objects in it with the way to them.
fn fields(schema: &Value, way: &str, depth: usize, out: &mut Vec<Field>) {
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields(part, way, depth, out);
    }
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, property) in properties {
        let way = format!("{way}{name}");
        let required = schema["required"].as_array().into_iter().flatten();
        out.push(Field {
            name: way.as_str().into(),
            place: Text::default(),
            kind: kind(property, depth),
            is_required: required
                .filter_map(Value::as_str)
                .any(|known| known == name),
            text: text(&property["description"]),
        });
        if depth < MAX_DEPTH {
            fields(property, &format!("{way}."), depth + 1, out);
            fields(&property["items"], &format!("{way}[]."), depth + 1, out);
        }
    }
}

/// The forms of a value: one, or those of a choice.
fn shapes(schema: &Value) -> Vec<Shape> {
    if let Some(all) = list(schema, &["oneOf", "anyOf"]) {
        return all.iter().map(shape).collect();
    }
    match schema {
        Value::Object(_) => vec![shape(schema)],
        _ => Vec::new(),
    }
}

fn shape(schema: &Value) -> Shape {
    let mut found = Vec::new();
    fields(schema, "", 0, &mut found);
    Shape {
        text: text(&schema["description"]),
        kind: match found.is_empty() {
            true => kind(schema, 0),
            false => Vec::new(),
        },
        fields: found,
    }
}

/// The permission it needs, and which keys hold that.
fn access(operation: &Value) -> Text {
    let needs = operation["x-perpend-permission"]
        .as_str()
        .unwrap_or("nobody");
    if needs == "nobody" {
        return "no key needed".into();
    }
    let any = Permission::ALL
        .iter()
        .filter(|one| needs.split(" or ").any(|name| name == one.name()));
    let any: Vec<_> = any.collect();
    let holders = Scope::ALL
        .iter()
        .filter(|scope| any.iter().any(|one| scope.holds(**one)));
    let holders: Vec<_> = holders.map(|scope| scope.title()).collect();
    format!("{needs}: {}", holders.join(", ")).into()
}

/// The schema of a JSON body.
fn content(described: &Value) -> &Value {
    &described["content"]["application/json"]["schema"]
}

fn operation(path: &str, method: &str, described: &Value) -> Operation {
    let parameters = described["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.map(|parameter| Field {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        kind: kind(&parameter["schema"], 0),
        is_required: parameter["required"] == true,
        text: text(&parameter["description"]),
    });
    let answers = described["responses"].as_object().into_iter().flatten();
    let answers = answers.map(|(status, answer)| Answer {
        status: status.as_str().into(),
        text: text(&answer["description"]),
        shapes: shapes(content(answer)),
    });
    Operation {
        anchor: anchor(&[method, path]),
        method: method.to_uppercase().into(),
        path: path.into(),
        summary: text(&described["summary"]),
        access: access(described),
        parameters: parameters.collect(),
        body: shapes(content(&described["requestBody"])),
        answers: answers.collect(),
    }
}

impl Reference {
    /// Reads an OpenAPI document.
    #[must_use]
    pub fn of(document: &Value) -> Self {
        const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
        let mut groups: BTreeMap<&str, Vec<Operation>> = BTreeMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for method in METHODS {
                let described = &item[method];
                if described.is_object() {
                    let tag = described["tags"][0].as_str().unwrap_or("other");
                    let operations = groups.entry(tag).or_default();
                    operations.push(operation(path, method, described));
                }
            }
        }
        let groups = groups.into_iter().map(|(name, operations)| Group {
            name: name.into(),
            anchor: anchor(&["group", name]),
            operations,
        });
        let types = document["components"]["schemas"].as_object();
        let types = types.into_iter().flatten().map(|(name, schema)| Named {
            name: name.as_str().into(),
            anchor: anchor(&["type", name]),
            shapes: shapes(schema),
        });
        Self {
            version: text(&document["info"]["version"]),
            groups: groups.collect(),
            types: types.collect(),
        }
    }

    /// Operations in all.
    #[must_use]
    pub fn n_operations(&self) -> usize {
        self.groups.iter().map(|group| group.operations.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(pieces: &[Piece]) -> String {
        pieces.iter().map(|piece| piece.text.raw()).collect()
    }

    #[test]
    fn types_are_named_as_people_say_them_and_named_types_are_linked() {
        for (schema, said) in [
            (
                json!({ "type": "string", "format": "date-time" }),
                "string (date-time)",
            ),
            (
                json!({ "type": ["array", "null"], "items": { "type": "integer" } }),
                "array of integer or null",
            ),
            (
                json!({ "type": "object", "additionalProperties": { "type": "number" } }),
                "map of number",
            ),
            (
                json!({ "type": "object", "additionalProperties": false }),
                "object",
            ),
            (json!({ "enum": ["a", "b"] }), "\"a\" or \"b\""),
            (
                json!({ "oneOf": [{ "type": "null" }, { "$ref": "#/components/schemas/A" }] }),
                "null or A",
            ),
            (json!({}), "anything"),
            (Value::Null, "anything"),
        ] {
            assert_eq!(name(&kind(&schema, 0)), said, "{schema}");
        }
        let named = kind(&json!({ "$ref": "#/components/schemas/New Thing" }), 0);
        assert_eq!(named[0].target.as_deref(), Some("type-New-Thing"));
    }

    #[test]
    fn objects_in_objects_and_lists_are_unfolded_to_a_depth() {
        let schema = json!({
            "required": ["a"],
            "properties": {
                "a": { "type": "object", "properties": { "b": { "type": "string" } } },
                "c": { "type": "array", "items": { "properties": { "d": {} } } },
            },
        });
        let mut found = Vec::new();
        fields(&schema, "", 0, &mut found);
        let names: Vec<_> = found.iter().map(|field| field.name.raw()).collect();
        assert_eq!(names, ["a", "a.b", "c", "c[].d"]);
        assert_eq!(found.iter().filter(|field| field.is_required).count(), 1);
        let deep = (0..100).fold(
            json!({}),
            |inner, _| json!({ "properties": { "x": inner } }),
        );
        let mut found = Vec::new();
        fields(&deep, "", 0, &mut found);
        assert_eq!(found.len(), MAX_DEPTH + 1);
    }
}
