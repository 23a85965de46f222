//! Cases of `perpend/json` that the vectors of the corpus do not cover.
#![expect(clippy::unwrap_used, reason = "in a test a failure here is the message")]

use perpend_plugin::{EvalError, Item, Json, Plugin, Score};
use perpend_plugin_json::ThisPlugin;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn evaluate(id: &str, item: &Item, config: &str) -> Result<Vec<Score>, EvalError> {
    ThisPlugin::evaluate(id, item, config)
}

fn score(id: &str, item: &Item, config: &str) -> f64 {
    evaluate(id, item, config).unwrap()[0].as_f64().unwrap()
}

#[test]
fn errors_name_the_path_and_at_most_twenty_are_reported() {
    let output = Json::Array(vec![Json::from("x"); 50]);
    let config = r#"{"schema":{"items":{"type":"integer"}}}"#;
    let scores = evaluate("json-schema", &Item::with_output(output), config).unwrap();
    let Some((_, Json::Array(errors))) = scores[0].metadata.first() else { panic!("{scores:?}") };
    assert_eq!(errors.len(), 20);
    assert!(errors[3].to_string().contains("/3"), "{}", errors[3]);
}

#[test]
fn formats_are_asserted_only_on_request() {
    let item = Item::with_output("\"not a date\"");
    let config = |formats| {
        format!(r#"{{"schema":{{"type":"string","format":"date"}},"assert_format":{formats}}}"#)
    };
    assert_eq!(score("json-schema", &item, &config(false)), 1.0);
    assert_eq!(score("json-schema", &item, &config(true)), 0.0);
}

#[test]
fn an_invalid_or_remote_schema_is_an_error_of_the_configuration() {
    for schema in [r#"{"type":"nonsense"}"#, r#"{"$ref":"https://example.org/schema.json"}"#] {
        for id in ["json-schema", "valid-json"] {
            let answer =
                evaluate(id, &Item::with_output("{}"), &format!(r#"{{"schema":{schema}}}"#));
            assert!(matches!(answer, Err(EvalError::InvalidConfig(_))), "{id}: {answer:?}");
        }
    }
}

#[test]
fn a_number_beyond_a_float_is_json_and_a_number() {
    let item = Item::with_output("[1e400, 123456789012345678901234567890]");
    assert_eq!(score("valid-json", &item, "{}"), 1.0);
    let config = r#"{"schema":{"items":{"type":"number"}}}"#;
    assert_eq!(score("json-schema", &item, config), 1.0);
}

#[test]
fn the_comment_of_a_difference_names_the_path_with_the_lowest_score() {
    let item = Item::with_output(json(r#"{"a":1,"b":{"c":["same","other"]}}"#))
        .expecting(json(r#"{"a":1,"b":{"c":["same",7]}}"#));
    let scores = evaluate("json-diff", &item, "{}").unwrap();
    assert_eq!(scores[0].comment.as_deref(), Some("differs most at $.b.c[1]"));
}

#[test]
fn parts_can_be_compared_exactly() {
    let item = Item::with_output(json(r#"["kitten",10]"#)).expecting(json(r#"["sitting",12]"#));
    let config = r#"{"string_scorer":"exact-match","number_scorer":"exact-match"}"#;
    assert_eq!(score("json-diff", &item, config), 0.0);
    assert!(score("json-diff", &item, "{}") > 0.5);
}

#[test]
fn values_nested_deeper_than_the_limit_are_compared_as_text() {
    let deep = |leaf: &str| json(&format!("{}{leaf}{}", "[".repeat(300), "]".repeat(300)));
    let item = Item::with_output(deep("1")).expecting(deep("1"));
    assert_eq!(score("json-diff", &item, "{}"), 1.0);
    let item = Item::with_output(deep("1")).expecting(deep("2"));
    let apart = score("json-diff", &item, "{}");
    assert!(0.9 < apart && apart < 1.0, "{apart}");
}
