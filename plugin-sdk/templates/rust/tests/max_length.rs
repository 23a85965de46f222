//! Tests of the evaluator as a function, without a server or a sandbox. Run them with `cargo test`.

use perpend_plugin::EvalError;
use perpend_plugin::Plugin;
use perpend_plugin::prelude::*;
use plugin::{MaxLength, MaxLengthConfig, ThisPlugin};

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
fn an_item_without_output_is_invalid_input() {
    let answer = ThisPlugin::evaluate("max-length", &Item::default(), r#"{"max_chars":3}"#);
    assert!(
        matches!(answer, Err(EvalError::InvalidInput(_))),
        "{answer:?}"
    );
}
