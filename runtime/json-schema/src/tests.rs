//! What the rest of the server relies on: faults by place and kind, and schemas that are refused.

use serde_json::json;

use super::*;

fn faults(schema: &Value, value: &Value) -> Vec<Violation> {
    Schema::new(schema).unwrap().violations(value, 50)
}

#[test]
fn a_violation_has_a_pointer_a_kind_and_a_message() {
    let schema = json!({
        "type": "object",
        "properties": { "q": { "type": "array", "items": { "type": "string" } } },
        "required": ["q"],
        "additionalProperties": false,
    });
    assert_eq!(faults(&schema, &json!({ "q": ["a"] })), []);
    let found = faults(&schema, &json!({ "q": ["a", 1] }));
    assert_eq!(found[0].pointer, "/q/1");
    assert_eq!(found[0].path, [json!("q"), json!(1)]);
    assert!(found[0].message.contains("string"), "{found:?}");
    let kinds = |value| faults(&schema, &value).into_iter().map(|fault| fault.kind);
    assert!(kinds(json!({})).eq([ViolationKind::Missing("q".to_owned())]));
    assert!(kinds(json!({ "q": [], "r": 1 })).eq([ViolationKind::Unknown(vec!["r".to_owned()])]));
}

#[test]
fn any_of_reports_the_closest_branch_and_enum_all_values() {
    let of_kind = |kind: &str, more: Value| {
        let mut form = json!({
            "type": "object", "properties": { "kind": { "const": kind } }, "required": ["kind"],
            "additionalProperties": false,
        });
        for (name, value) in more.as_object().unwrap() {
            form["properties"][name] = value.clone();
            form["required"].as_array_mut().unwrap().push(json!(name));
        }
        form
    };
    let word = json!({ "oneOf": [{ "const": "few" }, { "enum": ["some", "all"] }] });
    let schema = json!({ "anyOf": [
        of_kind("word", json!({ "word": word })),
        of_kind("number", json!({ "number": { "type": "integer" } })),
        { "type": "string" },
    ]});
    let messages = |value| {
        let faults = faults(&schema, &value).into_iter();
        faults.map(|fault| (fault.pointer, fault.message)).collect::<Vec<_>>()
    };
    let missing = messages(json!({ "kind": "number" }));
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert!(missing[0].1.contains("\"number\" is a required"), "{missing:?}");
    let wrong = messages(json!({ "kind": "word", "word": "many" }));
    let want = "must be one of \"few\", \"some\", \"all\"".to_owned();
    assert_eq!(wrong, [("/word".to_owned(), want)]);
    let wrong = messages(json!({ "kind": "number", "number": "x" }));
    assert_eq!(wrong[0].0, "/number");
    // No branch is closer than the others.
    assert_eq!(messages(json!(7)).len(), 1);
}

#[test]
fn older_drafts_are_selected_by_the_schema_keyword() {
    let four = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": { "n": { "minimum": 1, "exclusiveMinimum": true } },
    });
    assert_eq!(faults(&four, &json!({ "n": 2 })), []);
    assert_eq!(faults(&four, &json!({ "n": 1 })).len(), 1);
    assert!(Schema::of_2020_12(&four).is_err());
    let dependent = json!({ "dependentRequired": { "a": ["b"] }, "$defs": { "x": true } });
    assert_eq!(faults(&dependent, &json!({ "a": 1 })).len(), 1);
}

#[test]
fn an_invalid_schema_or_external_reference_is_rejected() {
    let cases = [
        json!(1),
        json!({ "type": "objekt" }),
        json!({ "$ref": "http://127.0.0.1:1/x.json" }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$schema": "http://127.0.0.1:1/none" }),
        json!({ "pattern": "(" }),
        json!({ "$ref": "#/nowhere" }),
    ];
    for schema in cases {
        assert!(Schema::new(&schema).is_err(), "{schema}");
    }
    let refused = Schema::new(&json!({ "properties": { "a": { "type": "objekt" } } }));
    assert_eq!(refused.unwrap_err().pointer, "/properties/a/type");
}

#[test]
fn keywords_as_property_names_and_lookaround_patterns_are_supported() {
    let named = json!({
        "$ref": "#/components/schemas/type",
        "components": { "schemas": { "type": { "const": { "$ref": "#/default/x" } } } },
    });
    assert_eq!(faults(&named, &json!({ "$ref": "#/default/x" })), []);
    assert_eq!(faults(&named, &json!("x")).len(), 1);
    let ahead = json!({ "pattern": "^(?!draft).*$" });
    assert_eq!(faults(&ahead, &json!("final")), []);
    assert_eq!(faults(&ahead, &json!("draft 1")).len(), 1);
}

#[test]
fn a_message_that_would_quote_a_large_value_is_cut() {
    let found = faults(&json!({ "type": "integer" }), &json!("x".repeat(10_000)));
    assert_eq!(found[0].message.chars().count(), MAX_CHARS + 1);
}
