//! Checks a configuration against the JSON Schema of its evaluator and fills in the deviolations.

use perpend_json_schema::Schema;
use perpend_worker_protocol::Mismatch;
use serde_json::{Map, Value};

use crate::mismatch::{MAX_LISTED, mismatch};

/// Maximum depth of defaults, because a schema may refer to itself.
const MAX_DEPTH: u32 = 32;

/// Validates a configuration and fills in the defaults of the schema.
///
/// Unbounded in time and memory: for untrusted schemas, use the process of [`check_main`](crate::check_main).
///
/// # Errors
/// All mismatches, each with a JSON Pointer.
pub fn check_config(schema: &str, config: Value) -> Result<Value, Vec<Mismatch>> {
    let unusable = |why: String| {
        let message = format!("the evaluator's schema cannot be used: {why}");
        vec![Mismatch::whole(message)]
    };
    let schema: Value = serde_json::from_str(schema).map_err(|why| unusable(why.to_string()))?;
    let compiled = Schema::of_2020_12(&schema).map_err(|why| unusable(why.to_string()))?;
    let mut config = config;
    fill_defaults(&schema, &schema, &mut config, MAX_DEPTH);
    let violations = compiled.violations(&config, MAX_LISTED);
    if violations.is_empty() && !config.is_object() {
        return Err(vec![Mismatch::whole("an object is expected")]);
    }
    match violations.is_empty() {
        true => Ok(config),
        false => Err(violations.into_iter().map(mismatch).collect()),
    }
}

fn fill_defaults(root: &Value, schema: &Value, value: &mut Value, depth: u32) {
    if depth == 0 {
        return;
    }
    if let Some(target) = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix('#'))
        .and_then(|path| root.pointer(path))
    {
        fill_defaults(root, target, value, depth - 1);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fill_defaults(root, part, value, depth - 1);
    }
    match value {
        Value::Object(members) => fill_members(root, schema, members, depth),
        Value::Array(items) => {
            for item in items {
                fill_defaults(root, &schema["items"], item, depth - 1);
            }
        }
        _ => {}
    }
}

fn fill_members(root: &Value, schema: &Value, members: &mut Map<String, Value>, depth: u32) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = property.get("default") {
            members.entry(name.clone()).or_insert_with(|| default.clone());
        }
        if let Some(member) = members.get_mut(name) {
            fill_defaults(root, property, member, depth - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_are_filled_in_at_every_level_and_existing_values_are_kept() {
        let schema = json!({
            "$defs": { "inner": { "type": "object", "properties": { "n": { "default": 1 } } } },
            "type": "object",
            "properties": {
                "trim": { "type": "boolean", "default": true },
                "inner": { "$ref": "#/$defs/inner", "default": {} },
                "list": { "items": { "$ref": "#/$defs/inner" } },
            },
        });
        let config =
            check_config(&schema.to_string(), json!({ "list": [{}, { "n": 5 }] })).unwrap();
        let expected =
            json!({ "list": [{ "n": 1 }, { "n": 5 }], "trim": true, "inner": { "n": 1 } });
        assert_eq!(config, expected);
    }

    #[test]
    fn each_problem_is_listed_with_its_pointer() {
        let schema = json!({
            "type": "object",
            "properties": { "min": { "type": "integer" }, "mode": { "enum": ["a", "b"] } },
            "required": ["mode"],
            "additionalProperties": false,
        });
        let mismatches =
            check_config(&schema.to_string(), json!({ "min": "x", "maxx": 1 })).unwrap_err();
        let text = format!("{mismatches:?}");
        for part in ["/min", "maxx", "mode"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(check_config("{}", json!([])).is_err(), "a configuration is an object");
    }

    #[test]
    fn a_recursive_schema_terminates() {
        let schema = json!({
            "$defs": { "a": { "properties": { "x": { "$ref": "#/$defs/a", "default": {} } } } },
            "$ref": "#/$defs/a",
        });
        let _ended = check_config(&schema.to_string(), json!({}));
        let _ended = check_config(r##"{"$ref":"#"}"##, json!({}));
    }

    #[test]
    fn a_schema_cannot_access_files_or_the_network() {
        for reference in ["file:///etc/passwd", "http://127.0.0.1:1/schema.json"] {
            let schema = json!({ "$ref": reference }).to_string();
            assert!(check_config(&schema, json!({})).is_err(), "{reference}");
        }
    }
}
