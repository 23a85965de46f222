//! The JSON tree compared with an independent reader.
#![expect(clippy::unwrap_used, reason = "in a test a failure here is the message")]

use perpend_plugin::Json;
use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,8})?([eE][+-]?[0-9]{1,2})?"
            .prop_map(|text| Json::parse(&text).unwrap()),
        any::<String>().prop_map(Json::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map("[a-cé\"]{0,3}", inner, 0..6)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(value in any_json()) {
        let text = value.to_string();
        prop_assert_eq!(Json::parse(&text).unwrap(), value);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    /// Texts that are nearly JSON: a valid text with one change.
    #[test]
    fn accepts_exactly_what_an_independent_reader_accepts(
        value in any_json(),
        at in any::<prop::sample::Index>(),
        put in "[\\[\\]{}\",:0-9eE.+\\-\\\\ untrfals]{0,2}",
    ) {
        let mut characters: Vec<char> = value.to_string().chars().collect();
        let at = at.index(characters.len());
        characters.splice(at..=at, put.chars());
        let text: String = characters.into_iter().collect();
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        match (Json::parse(&text), theirs) {
            // Numbers beyond a float and lone surrogates are valid texts that a typed reader refuses.
            (Ok(_), Err(why)) => {
                let why = why.to_string();
                let is_typed = why.contains("out of range") || why.contains("surrogate");
                prop_assert!(is_typed || why.contains("hex escape"), "{}: {}", text, why);
            }
            (ours, theirs) => prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", text),
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = Json::parse(&text);
    }
}

#[test]
fn numbers_keep_their_notation() {
    for text in ["1", "1.0", "1e5", "-0", "123456789012345678901234567890", "1e400"] {
        assert_eq!(Json::parse(text).unwrap().to_string(), text);
    }
    assert_ne!(Json::parse("1"), Json::parse("1.0"));
}

#[test]
fn repeated_members_have_the_first_position_and_the_last_value() {
    let value = Json::parse(r#"{"a":1,"b":2,"a":3}"#).unwrap();
    assert_eq!(value.to_string(), r#"{"a":3,"b":2}"#);
}

#[test]
fn a_lone_surrogate_is_valid() {
    assert_eq!(Json::parse(r#""\ud83d""#), Ok(Json::from("\u{fffd}")));
    assert_eq!(Json::parse(r#""\ud83d\ude00""#), Ok(Json::from("😀")));
}

#[test]
fn hostile_nesting_is_refused_and_not_a_stack_overflow() {
    let deep = "[".repeat(1_000_000);
    assert_eq!(Json::parse(&deep).unwrap_err().reason, "nested too deeply");
}

#[test]
fn an_error_has_a_reason_and_an_offset() {
    assert_eq!(Json::parse("[1,]").unwrap_err().to_string(), "expected a JSON value at byte 3");
}
