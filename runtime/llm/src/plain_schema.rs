//! Decides which user-supplied schemas may be compiled in this process: those that validate in time linear in the size of
//! the value. Uses an allow-list of keywords without references, patterns and combinations of schemas.

use serde_json::{Map, Value};

const MAX_BYTES: usize = 64 << 10;
const MAX_DEPTH: usize = 16;
const MAX_PROPERTIES: usize = 256;
/// Maximum number of entries, because each value is compared with each entry.
const MAX_ENUM: usize = 256;
/// Maximum size of a value to validate in this process, in bytes, because each violation takes memory.
pub(crate) const MAX_VALUE_BYTES: usize = 128 << 10;

/// Whether a schema validates in linear time. `text` is JSON.
#[must_use]
pub fn is_plain_schema(text: &str) -> bool {
    if MAX_BYTES < text.len() {
        return false;
    }
    let schema = serde_json::from_str::<Value>(text);
    schema.is_ok_and(|schema| is_plain_at(&schema, 1))
}

fn is_plain_at(schema: &Value, depth: usize) -> bool {
    let Value::Object(members) = schema else {
        return false;
    };
    depth <= MAX_DEPTH
        && members.iter().all(|(keyword, value)| is_plain_keyword(keyword, value, members, depth))
}

fn is_plain_keyword(
    keyword: &str,
    value: &Value,
    schema: &Map<String, Value>,
    depth: usize,
) -> bool {
    match keyword {
        "type" => {
            value.is_string()
                || value
                    .as_array()
                    .is_some_and(|types| types.len() <= 7 && types.iter().all(Value::is_string))
        }
        "properties" => value.as_object().is_some_and(|properties| {
            properties.len() <= MAX_PROPERTIES
                && properties.values().all(|schema| is_plain_at(schema, depth + 1))
        }),
        "required" => value.as_array().is_some_and(|names| {
            names.len() <= MAX_PROPERTIES && names.iter().all(Value::is_string)
        }),
        "additionalProperties" => value.is_boolean(),
        "enum" => is_small_enum(value),
        "const" => is_scalar(value),
        "minimum" | "maximum" => value.is_number(),
        "items" => is_plain_at(value, depth + 1),
        "minItems" | "maxItems" => value.is_u64(),
        "uniqueItems" => match value {
            Value::Bool(false) => true,
            Value::Bool(true) => {
                schema.get("items").and_then(|items| items.get("enum")).is_some_and(is_small_enum)
            }
            _ => false,
        },
        // Annotations, which do not affect validation.
        "description" | "title" => value.is_string(),
        "default" => true,
        _ => false,
    }
}

fn is_small_enum(value: &Value) -> bool {
    value
        .as_array()
        .is_some_and(|entries| entries.len() <= MAX_ENUM && entries.iter().all(is_scalar))
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schemas_of_judges_are_plain() {
        let schema = json!({
            "type": "object",
            "properties": {
                "reasoning": { "type": "string", "description": "why" },
                "score": { "type": ["number", "null"], "minimum": 0, "maximum": 1.5 },
                "labels": {
                    "type": "array", "minItems": 1, "maxItems": 2, "uniqueItems": true,
                    "items": { "type": "string", "enum": ["a", "b"] },
                },
                "enum": { "title": "a property of this name", "const": true, "default": [] },
            },
            "required": ["reasoning", "score"],
            "additionalProperties": false,
        });
        assert!(is_plain_schema(&schema.to_string()));
    }

    #[test]
    fn schemas_that_may_cost_more_than_linear_time_are_not_plain() {
        let many: Vec<_> = (0..300).collect();
        let cases = [
            json!({ "$ref": "#" }),
            json!({ "pattern": "(a+)+$" }),
            json!({ "anyOf": [{}] }),
            json!({ "not": {} }),
            json!({ "uniqueItems": true }),
            json!({ "uniqueItems": true, "items": { "type": "string" } }),
            json!({ "enum": [[1]] }),
            json!({ "enum": many }),
            json!({ "const": {} }),
            json!({ "additionalProperties": {} }),
            json!({ "patternProperties": {} }),
            json!({ "properties": { "a": { "$dynamicRef": "#x" } } }),
            json!({ "properties": { "a": true } }),
            json!({ "items": [{}] }),
            json!({ "minItems": -1 }),
            json!({ "multipleOf": 0.1 }),
            json!({ "format": "email" }),
            json!({ "$schema": "http://127.0.0.1/x" }),
            json!(true),
            json!([]),
        ];
        for case in cases {
            assert!(!is_plain_schema(&case.to_string()), "{case}");
        }
        assert!(!is_plain_schema("{"));
        assert!(!is_plain_schema(&json!({ "title": "x".repeat(MAX_BYTES) }).to_string()));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |n| (0..n).fold(json!({}), |schema, _| json!({ "items": schema }));
        assert!(is_plain_schema(&nested(15).to_string()));
        assert!(!is_plain_schema(&nested(16).to_string()));
        let deep = format!("{}{{}}{}", "{\"items\":".repeat(5000), "}".repeat(5000));
        assert!(!is_plain_schema(&deep));
    }
}
