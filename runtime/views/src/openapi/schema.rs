//! JSON Schema as names of types and rows of fields.
//!
//! The document is data like any other: what is missing in it or has an unexpected form is left out, and
//! nesting is followed to a fixed depth.

use serde_json::Value;

use crate::markup::Text;

/// Objects in objects are unfolded so deep.
const MAX_DEPTH: usize = 5;

/// One form that a value may have.
#[derive(Clone, Debug, Default)]
pub struct ValueSchema {
    /// What it is for.
    pub text: Text,
    /// The name of its type; of an object with fields the types whose fields it has too.
    pub kind: Vec<TypePart>,
    /// Of an object.
    pub fields: Vec<Field>,
}

/// A parameter, or a member of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// With the names of what it is in.
    pub name: Text,
    /// `path`, `query`, or nothing.
    pub location: Text,
    /// The name of its type.
    pub kind: Vec<TypePart>,
    /// It may not be left out.
    pub is_required: bool,
    /// It takes any number of values.
    pub is_list: bool,
    /// What it is for.
    pub text: Text,
}

/// A part of the name of a type; with a target when it is described elsewhere on the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePart {
    /// As it is shown.
    pub text: Text,
    /// The anchor of the type that it names.
    pub target: Option<String>,
}

pub(crate) fn text(value: &Value) -> Text {
    Text::lines(value.as_str().unwrap_or_default())
}

/// Letters, digits and dashes.
pub(crate) fn anchor(parts: &[&str]) -> String {
    let mut anchor = parts.join("-");
    anchor = anchor.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    while anchor.contains("--") {
        anchor = anchor.replace("--", "-");
    }
    anchor.trim_matches('-').to_owned()
}

fn plain(text: impl Into<Text>) -> TypePart {
    TypePart { text: text.into(), target: None }
}

/// Members of the first of these keys that holds a list.
fn list<'v>(schema: &'v Value, keys: &[&str]) -> Option<&'v Vec<Value>> {
    keys.iter().find_map(|key| schema[*key].as_array())
}

fn joined(all: &[Value], word: &str, depth: usize) -> Vec<TypePart> {
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
pub(crate) fn kind(schema: &Value, depth: usize) -> Vec<TypePart> {
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.rsplit('/').next().unwrap_or(target);
        return vec![TypePart { text: name.into(), target: Some(anchor(&["type", name])) }];
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
            location: Text::default(),
            kind: kind(property, depth),
            is_required: required.filter_map(Value::as_str).any(|known| known == name),
            is_list: property["type"] == "array",
            text: text(&property["description"]),
        });
        if depth < MAX_DEPTH {
            fields(property, &format!("{way}."), depth + 1, out);
            fields(&property["items"], &format!("{way}[]."), depth + 1, out);
        }
    }
}

/// The forms of a value: one, or those of a choice.
pub(crate) fn shapes(schema: &Value) -> Vec<ValueSchema> {
    if let Some(all) = list(schema, &["oneOf", "anyOf"]) {
        return all.iter().map(shape).collect();
    }
    match schema {
        Value::Object(_) => vec![shape(schema)],
        _ => Vec::new(),
    }
}

fn shape(schema: &Value) -> ValueSchema {
    let mut found = Vec::new();
    fields(schema, "", 0, &mut found);
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let named: Vec<Value> = parts.filter(|part| part["$ref"].is_string()).cloned().collect();
    ValueSchema {
        text: text(&schema["description"]),
        kind: match found.is_empty() {
            true => kind(schema, 0),
            false => joined(&named, " and ", 0),
        },
        fields: found,
    }
}

/// The schema of a JSON body.
pub(crate) fn content(described: &Value) -> &Value {
    &described["content"]["application/json"]["schema"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn name(pieces: &[TypePart]) -> String {
        pieces.iter().map(|piece| piece.text.raw()).collect()
    }

    #[test]
    fn types_are_named_as_people_say_them_and_named_types_are_linked() {
        for (schema, said) in [
            (json!({ "type": "string", "format": "date-time" }), "string (date-time)"),
            (
                json!({ "type": ["array", "null"], "items": { "type": "integer" } }),
                "array of integer or null",
            ),
            (
                json!({ "type": "object", "additionalProperties": { "type": "number" } }),
                "map of number",
            ),
            (json!({ "type": "object", "additionalProperties": false }), "object"),
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
    fn an_object_with_the_fields_of_other_types_names_them() {
        let schema = json!({ "allOf": [
            { "properties": { "a": {} } },
            { "$ref": "#/components/schemas/Judge" },
            { "$ref": "#/components/schemas/Code" },
        ] });
        let shapes = shapes(&schema);
        assert_eq!(name(&shapes[0].kind), "Judge and Code");
        assert_eq!(shapes[0].fields.len(), 1);
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
        let deep = (0..100).fold(json!({}), |inner, _| json!({ "properties": { "x": inner } }));
        let mut found = Vec::new();
        fields(&deep, "", 0, &mut found);
        assert_eq!(found.len(), MAX_DEPTH + 1);
    }
}
