//! Tests of the evaluator as a function, without a server or a sandbox.

use perpend_plugin::prelude::*;
use perpend_plugin::{EvalError, Plugin};
use plugin_rust::{MaxLength, MaxLengthConfig, ThisPlugin};

#[test]
fn an_output_over_the_limit_does_not_pass() {
    let config = MaxLengthConfig {
        max_chars: 5,
        trim: false,
    };
    let scores = MaxLength::evaluate(&Item::with_output("Zürich"), &config).unwrap();
    assert_eq!(scores[0].value, ScoreValue::Boolean(false));
    assert_eq!(scores[0].comment.as_deref(), Some("6 of 5 characters"));
}

#[test]
fn an_evaluator_is_called_by_its_identifier_with_a_json_configuration() {
    let item = Item::with_output("  yes  ");
    let scores =
        ThisPlugin::evaluate("max-length", &item, r#"{"max_chars":3,"trim":true}"#).unwrap();
    assert_eq!(scores[0].value, ScoreValue::Boolean(true));
}

#[test]
fn an_item_without_output_is_invalid_input() {
    let answer = ThisPlugin::evaluate("max-length", &Item::default(), r#"{"max_chars":3}"#);
    assert!(
        matches!(answer, Err(EvalError::InvalidInput(_))),
        "{answer:?}"
    );
}
