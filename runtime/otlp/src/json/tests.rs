//! Parsing of JSON, and the handling of invalid JSON.

use super::extents::N_ESCAPES;
use super::*;

#[test]
fn json_text_is_compacted_and_other_text_unchanged() {
    let json = |text: &str| Payload::Json(text.to_owned());
    assert_eq!(payload(" {\"a\" : [1, 2.50, \"x y\"]} "), json("{\"a\":[1,2.50,\"x y\"]}"));
    assert_eq!(payload("[9223372036854775808, -0.0]"), json("[9223372036854775808,-0.0]"));
    for text in [
        "{\"a\": 1",
        "[1,]",
        "{'a': None}",
        "007",
        "\"x\"",
        "",
        "[01]",
        "[1] x",
        "[1e999]",
        "{\"a\":\"\t\"}",
    ] {
        assert_eq!(payload(text), Payload::Text(text.to_owned()), "{text}");
    }
}

#[test]
fn characters_that_cannot_be_stored_are_repaired_inside_json_text() {
    assert_eq!(
        compact(r#"["a\u0000b","\ud83d","\ud83d\ude00","\udc00x"]"#).unwrap(),
        "[\"ab\",\"\u{fffd}\",\"\\ud83d\\ude00\",\"\u{fffd}x\"]"
    );
    let node = parse(r#"["a\u0000b","\ud83d","\ud83d\ude00"]"#).unwrap();
    assert_eq!(node.to_json(), serde_json::json!(["ab", "\u{fffd}", "😀"]));
}

#[test]
fn json_any_reads_strings_and_numbers_too() {
    assert_eq!(payload_any("\"Paris.\""), Payload::Text("Paris.".to_owned()));
    assert_eq!(payload_any("3"), Payload::Json("3".to_owned()));
    assert_eq!(payload_any("Paris"), Payload::Text("Paris".to_owned()));
    assert_eq!(value_any("\"007\""), serde_json::json!("007"));
}

#[test]
fn deep_nesting_is_cut_and_never_overflows_the_stack() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let kept = compact(&deep).unwrap();
    assert_eq!(kept, format!("{}null{}", "[".repeat(64), "]".repeat(64)));
    assert!(Body::check(deep.as_bytes()).is_ok());
    assert!(Body::check("[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn a_tree_has_a_limited_number_of_values_and_the_text_is_kept() {
    let list = |n_values: usize| format!("[{}0]", "0,".repeat(n_values - 2));
    let (fits, over) = (list(MAX_NODES), list(MAX_NODES + 1));
    assert!(parse(&fits).is_some());
    assert_eq!(n_values(&fits), MAX_NODES);
    assert!(parse(&over).is_none());
    assert_eq!(payload(&over), Payload::Json(over.clone()));
    assert_eq!(value(&over), Json::String(over));
    assert_eq!(n_values(r#"["a,[b,c",{"d":[]}]"#), 5);
}

#[test]
fn parts_of_a_body_are_found_where_they_are() {
    let body = br#" {"a" : 1, "b":[ {"x":"]"} ,2,"t", [] ],"a":null, "c\u0064":true} "#;
    let body = Body::check(body).unwrap();
    let [a, b, cd, none] = body.root().object(["a", "b", "cd", "none"]).unwrap();
    assert!(a.unwrap().is_null() && none.is_none());
    assert_eq!(cd.unwrap().truth(), Some(true));
    let elements: Vec<Raw<'_>> = b.unwrap().elements().unwrap().collect();
    assert_eq!(elements.len(), 4);
    let [x] = elements[0].object(["x"]).unwrap();
    assert_eq!(x.unwrap().text().unwrap(), "]");
    assert_eq!(elements[1].number(), Some("2"));
    assert_eq!(elements[3].elements().unwrap().count(), 0);
    assert!(elements[2].object([]).is_none());
}

/// A text of `n` escapes, nested as deep as the attribute of an event, after a name of `n` escapes.
fn deep_escapes(n: usize) -> (String, usize) {
    const DEPTH: usize = 12;
    let escapes = "\\n".repeat(n);
    let inside = format!(r#"{{"{escapes}":1,"a":"{escapes}"}}"#);
    let open = r#"{"a":"#.repeat(DEPTH - 1);
    (format!(" {open}{inside}{} ", "}".repeat(DEPTH - 1)), DEPTH)
}

#[test]
fn a_long_text_is_read_once_to_check_it_and_once_to_decode_it_however_deep_it_is() {
    let n = 5_000;
    let (json, depth) = deep_escapes(n);
    N_ESCAPES.set(0);
    let body = Body::check(json.as_bytes()).unwrap();
    assert_eq!(N_ESCAPES.get(), 2 * n);
    let mut value = body.root();
    for _ in 0..depth {
        let [a] = value.object(["a"]).unwrap();
        value = a.unwrap();
    }
    assert_eq!(N_ESCAPES.get(), 2 * n);
    assert_eq!(value.text().unwrap(), "\n".repeat(n));
    assert_eq!(N_ESCAPES.get(), 3 * n);
}

#[test]
fn long_values_are_found_among_short_ones() {
    let long = "x".repeat(5_000);
    let json = format!(r#"[1,"{long}",{{"k":"{long}","b":[2,"{long}"],"c":3}},"t"]"#);
    let body = Body::check(json.as_bytes()).unwrap();
    let elements: Vec<Raw<'_>> = body.root().elements().unwrap().collect();
    assert_eq!(elements.len(), 4);
    assert_eq!(elements[1].text().unwrap(), long);
    let [k, b, c] = elements[2].object(["k", "b", "c"]).unwrap();
    assert_eq!(k.unwrap().text().unwrap(), long);
    assert_eq!(c.unwrap().number(), Some("3"));
    let inner: Vec<Raw<'_>> = b.unwrap().elements().unwrap().collect();
    assert_eq!(inner[0].number(), Some("2"));
    assert_eq!(inner[1].text().unwrap(), long);
    assert_eq!(elements[3].text().unwrap(), "t");
}

#[test]
fn a_special_byte_is_found_at_any_position_of_a_word() {
    for special in [b'"', b'\\', 0, b'\n', 0x1f] {
        for at in 0..8 {
            let mut word = *b"plain \xc3\xa9";
            assert!(!has_special(u64::from_le_bytes(word)));
            word[at] = special;
            assert!(has_special(u64::from_le_bytes(word)), "{special} at {at}");
        }
    }
}

#[test]
fn base64_of_either_alphabet_is_read() {
    for text in ["AP8=", "AP8", "-_8=", "+/8"] {
        assert_eq!(from_base64(text).map(|bytes| bytes.len()), Some(2), "{text}");
    }
    assert_eq!(from_base64("a*b"), None);
}
