//! Renders JSON Schema as type names and lists of fields.
//!
//! Missing or malformed parts of a schema are skipped. Nesting is limited.

use serde_json::Value;

use crate::markup::Text;

/// Maximum nesting of expanded objects.
const MAX_DEPTH: usize = 5;

/// One of the alternative schemas of a value.
#[derive(Clone, Debug, Default)]
pub struct ValueSchema {
    /// Description.
    pub text: Text,
    /// Type name. For an object with fields, the types whose fields it includes.
    pub kind: Vec<TypePart>,
    /// Fields of an object.
    pub fields: Vec<Field>,
}

/// A parameter, or a field of an object.
#[derive(Clone, Debug)]
pub struct Field {
    /// Path of the field in the value, such as `a.b` or `c[].d`.
    pub name: Text,
    /// `path` or `query`; empty for fields of objects.
    pub location: Text,
    /// Type name.
    pub kind: Vec<TypePart>,
    /// Whether the field is required.
    pub is_required: bool,
    /// Whether the field is an array.
    pub is_list: bool,
    /// Description.
    pub text: Text,
}

/// A part of a type name, with a link target if the page describes the type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypePart {
    /// Displayed text.
    pub text: Text,
    /// Anchor of the named type.
    pub target: Option<String>,
}

pub(crate) fn text(value: &Value) -> Text {
    Text::lines(value.as_str().unwrap_or_default())
}

/// An HTML id of letters, digits and dashes.
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

/// The array at the first of these keys that has one.
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

/// The type name of a schema.
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
        _ => vec!["any"],
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

/// The fields of an object, including nested fields with the prefix `path`.
fn fields(schema: &Value, path: &str, depth: usize, out: &mut Vec<Field>) {
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields(part, path, depth, out);
    }
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, property) in properties {
        let path = format!("{path}{name}");
        let required = schema["required"].as_array().into_iter().flatten();
        out.push(Field {
            name: path.as_str().into(),
            location: Text::default(),
            kind: kind(property, depth),
            is_required: required.filter_map(Value::as_str).any(|known| known == name),
            is_list: property["type"] == "array",
            text: text(&property["description"]),
        });
        if depth < MAX_DEPTH {
            fields(property, &format!("{path}."), depth + 1, out);
            fields(&property["items"], &format!("{path}[]."), depth + 1, out);
        }
    }
}

/// The alternative schemas of a value.
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

/// The schema of the JSON body of a request or response.
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
    fn types_have_readable_names_and_named_types_are_linked() {
        for (schema, expected) in [
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
            (json!({}), "any"),
            (Value::Null, "any"),
        ] {
            assert_eq!(name(&kind(&schema, 0)), expected, "{schema}");
        }
        let named = kind(&json!({ "$ref": "#/components/schemas/New Thing" }), 0);
        assert_eq!(named[0].target.as_deref(), Some("type-New-Thing"));
    }

    #[test]
    fn object_names_the_types_whose_fields_it_includes() {
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
    fn nested_objects_are_expanded_up_to_the_limit() {
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
