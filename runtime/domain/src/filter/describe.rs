//! Describes a condition in words, for messages.

use serde_json::Value;

/// The condition in words: `name is "look up order"`, `metadata tier is one of "gold", "silver"`, `latency > 2`. It takes the
/// stored JSON, so that a condition on a removed column can be described too.
#[must_use]
pub fn describe_condition(condition: &Value) -> String {
    let part = |name: &str| condition.get(name).and_then(Value::as_str);
    let values: Vec<String> = match condition.get("value") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(all)) => all.iter().map(Value::to_string).collect(),
        Some(one) => vec![one.to_string()],
    };
    let (operator, has_value) = match (part("operator"), values.len()) {
        (Some("="), _) | (Some("any of"), 1) => ("is", true),
        (Some("<>"), _) | (Some("none of"), 1) => ("is not", true),
        (Some("any of"), _) => ("is one of", true),
        (Some("none of"), _) => ("is none of", true),
        (Some("all of"), _) => ("has all of", true),
        (Some("is null"), _) => ("is not there", false),
        (Some("is not null"), _) => ("is there", false),
        (other, _) => (other.unwrap_or_default(), true),
    };
    let values = values.join(", ");
    let parts = [
        part("column").unwrap_or_default(),
        part("key").unwrap_or_default(),
        operator,
        if has_value { &values } else { "" },
    ];
    let words: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_reads_as_a_part_of_a_sentence() {
        for (condition, expected) in [
            (
                json!({"type": "stringOptions", "column": "name", "operator": "any of", "value": ["a b"]}),
                r#"name is "a b""#,
            ),
            (
                json!({"type": "arrayOptions", "column": "tags", "operator": "none of", "value": ["a", "b"]}),
                r#"tags is none of "a", "b""#,
            ),
            (
                json!({"type": "numberObject", "column": "metadata", "key": "n", "operator": ">", "value": 2}),
                "metadata n > 2",
            ),
            (
                json!({"type": "null", "column": "sessionId", "operator": "is null", "value": ""}),
                "sessionId is not there",
            ),
            (json!({"column": "gone"}), "gone"),
        ] {
            assert_eq!(describe_condition(&condition), expected);
        }
    }
}
