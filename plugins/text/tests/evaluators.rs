//! Evaluators without vectors in the corpus, and edge cases of the others.
#![expect(clippy::unwrap_used, reason = "in a test a failure here is the message")]

use perpend_plugin::{EvalError, Item, Json, Plugin, Score};
use perpend_plugin_text::ThisPlugin;

fn evaluate(id: &str, item: &Item, config: &str) -> Result<Vec<Score>, EvalError> {
    ThisPlugin::evaluate(id, item, config)
}

/// The number of the only score.
fn score(id: &str, item: &Item, config: &str) -> f64 {
    evaluate(id, item, config).unwrap()[0].as_f64().unwrap()
}

fn with_output(output: &str) -> Item {
    Item::with_output(output)
}

#[test]
fn contains_all_is_the_share_of_terms_found() {
    let item = with_output("The Quick fox");
    assert_eq!(score("contains-all", &item, r#"{"terms":["Quick","fox"]}"#), 1.0);
    assert_eq!(score("contains-all", &item, r#"{"terms":["quick","fox"]}"#), 0.5);
    assert_eq!(score("contains-all", &item, r#"{"terms":["quick"],"ignore_case":true}"#), 1.0);
}

#[test]
fn contains_any_and_none_are_opposites() {
    let item = with_output("refund issued");
    for (terms, any) in [(r#"["refund","sorry"]"#, 1.0), (r#"["sorry"]"#, 0.0)] {
        let config = format!(r#"{{"terms":{terms}}}"#);
        assert_eq!(score("contains-any", &item, &config), any);
        assert_eq!(score("contains-none", &item, &config), 1.0 - any);
    }
}

#[test]
fn terms_default_to_the_expected_list_and_an_empty_list_is_not_applicable() {
    let list = Json::parse(r#"["a","z"]"#).unwrap();
    assert_eq!(score("contains-all", &with_output("abc").expecting(list), "{}"), 0.5);
    let empty = evaluate("contains-any", &with_output("abc"), r#"{"terms":[]}"#);
    assert!(matches!(empty, Err(EvalError::NotApplicable(_))), "{empty:?}");
}

#[test]
fn ends_are_found_in_the_configuration_or_the_expected_output() {
    assert_eq!(score("starts-with", &with_output("Dear Ada"), r#"{"text":"Dear"}"#), 1.0);
    assert_eq!(score("starts-with", &with_output("dear Ada").expecting("Dear"), "{}"), 0.0);
    assert_eq!(score("ends-with", &with_output("bye \n"), r#"{"text":"bye"}"#), 0.0);
    assert_eq!(
        score(
            "ends-with",
            &with_output("Bye \n"),
            r#"{"text":"bye","trim":true,"ignore_case":true}"#
        ),
        1.0
    );
}

#[test]
fn a_regular_expression_finds_a_part_or_covers_the_whole() {
    let item = with_output("order 12345");
    assert_eq!(score("regex", &item, r#"{"pattern":"[0-9]{5}"}"#), 1.0);
    assert_eq!(score("regex", &item, r#"{"pattern":"[0-9]{5}","full_match":true}"#), 0.0);
    assert_eq!(score("regex", &item, r#"{"pattern":"ORDER|[0-9]+","ignore_case":true}"#), 1.0);
    assert_eq!(score("regex-count", &item, r#"{"pattern":"[0-9]","min":5,"max":5}"#), 1.0);
    assert_eq!(score("regex-count", &item, r#"{"pattern":"[0-9]","max":4}"#), 0.0);
}

#[test]
fn an_invalid_expression_is_an_error_of_the_configuration() {
    for pattern in ["(", "(?=x)", r"\\w{1000}{1000}"] {
        let config = format!(r#"{{"pattern":"{pattern}"}}"#);
        for id in ["regex", "pattern", "regex-count"] {
            let answer = evaluate(id, &with_output("x").expecting("x"), &config);
            assert!(
                matches!(answer, Err(EvalError::InvalidConfig(_))),
                "{id} {pattern}: {answer:?}"
            );
        }
    }
}

#[test]
fn length_is_counted_in_the_chosen_unit_and_falls_off_with_the_slope() {
    let item = with_output("Zürich. Bern!");
    assert_eq!(score("length", &item, r#"{"max":13}"#), 1.0);
    assert_eq!(score("length", &item, r#"{"max":13,"unit":"bytes"}"#), 0.0);
    assert_eq!(score("length", &item, r#"{"target":2,"unit":"words"}"#), 1.0);
    assert_eq!(score("length", &item, r#"{"min":3,"unit":"sentences"}"#), 0.0);
    assert_eq!(score("length", &item, r#"{"max":10,"slope":0.25}"#), 0.25);
    assert_eq!(score("length", &item, r#"{"max":3,"slope":0.25}"#), 0.0);
}

#[test]
fn length_with_missing_or_contradictory_bounds_is_an_invalid_configuration() {
    for config in ["{}", r#"{"min":3,"max":2}"#, r#"{"target":3,"max":2}"#] {
        let answer = evaluate("length", &with_output("x"), config);
        assert!(matches!(answer, Err(EvalError::InvalidConfig(_))), "{config}: {answer:?}");
    }
}

#[test]
fn exact_match_can_ignore_the_order_of_keys() {
    let json = |text| Json::parse(text).unwrap();
    let item = Item::with_output(json(r#"{"a":1,"b":[2]}"#)).expecting(json(r#"{"b":[2],"a":1}"#));
    assert_eq!(score("exact-match", &item, "{}"), 0.0);
    assert_eq!(score("exact-match", &item, r#"{"ignore_key_order":true}"#), 1.0);
}

#[test]
fn an_absent_output_is_invalid_input_for_every_evaluator() {
    let item = Item::default().expecting("x");
    for evaluator in ThisPlugin::describe().evaluators {
        let config = match evaluator.id {
            "regex" | "pattern" | "regex-count" => r#"{"pattern":"(x)"}"#,
            "length" => r#"{"max":1}"#,
            "readability" => r#"{"formula":"ari"}"#,
            _ => "{}",
        };
        let answer = evaluate(evaluator.id, &item, config);
        assert!(matches!(answer, Err(EvalError::InvalidInput(_))), "{}: {answer:?}", evaluator.id);
    }
}

#[test]
fn comments_of_long_texts_are_short() {
    let long = "x".repeat(100_000);
    let item = with_output(&long).expecting(long.as_str());
    for (id, config) in [("includes", "{}"), ("match", "{}"), ("regex", r#"{"pattern":"x+"}"#)] {
        let scores = evaluate(id, &item, config).unwrap();
        assert!(scores[0].comment.as_ref().is_some_and(|comment| comment.len() < 200), "{id}");
    }
}

/// The problems of a configuration that satisfies its schema.
fn problems(id: &str, config: &str) -> Vec<(String, String)> {
    let problems = ThisPlugin::check_config(id, config);
    let pairs = problems.into_iter();
    pairs.map(|problem| (problem.pointer, problem.message)).collect()
}

#[test]
fn a_configuration_that_no_output_could_pass_is_refused_when_it_is_saved() {
    for (id, config, place, word) in [
        ("length", r#"{"min":5,"max":2}"#, "/min", "larger than `max`"),
        ("length", r#"{"target":3,"max":2}"#, "/target", "excludes"),
        ("length", "{}", "", "required"),
        ("readability", r#"{"formula":"ari","min":9,"max":1.5}"#, "/min", "got 9 and 1.5"),
        ("regex-count", r#"{"pattern":"a","min":2,"max":1}"#, "/min", "larger than `max`"),
        ("regex", r#"{"pattern":"("}"#, "/pattern", "unclosed group"),
        ("regex-count", r#"{"pattern":"["}"#, "/pattern", "unclosed"),
        ("pattern", r#"{"pattern":"a(?=b)"}"#, "/pattern", "look"),
        ("pattern", r#"{"pattern":"ab"}"#, "/pattern", "at least one group"),
    ] {
        let found = problems(id, config);
        let [(at, message)] = found.as_slice() else {
            unreachable!("{id} {config}: {found:?}");
        };
        assert_eq!(at, place, "{id} {config}");
        assert!(message.contains(word), "{id} {config}: {message}");
    }
    for (id, config) in [
        ("length", r#"{"min":2,"max":2}"#),
        ("length", r#"{"target":2}"#),
        ("readability", r#"{"formula":"flesch","min":1}"#),
        ("regex-count", r#"{"pattern":"a"}"#),
        ("pattern", r#"{"pattern":"(a)"}"#),
        ("exact-match", "{}"),
    ] {
        assert_eq!(problems(id, config), [], "{id} {config}");
    }
}
