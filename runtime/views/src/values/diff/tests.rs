//! Differences between values: examples, and properties of all differences.

use perpend_domain::payload::Payload;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;

fn text(raw: &str) -> Payload {
    Payload::Text(raw.to_owned())
}

fn plain(segments: &[LineSegment]) -> String {
    let shown = segments.iter().map(|segment| match segment {
        LineSegment::Plain(text) => text.raw().to_owned(),
        LineSegment::Marked(text) => format!("[{}]", text.raw()),
        LineSegment::Cut(text) => format!("<{text}>"),
    });
    shown.collect()
}

/// The parts of a difference as text: removed lines start with a minus, added lines with a plus.
fn sketch(diff: &Diff) -> String {
    let mut text = String::new();
    for part in &diff.parts {
        match part {
            DiffPart::Path { word, path, other, .. } => {
                text.push_str(&format!("@ {word} {}", path.raw()));
                if let Some(other) = other {
                    text.push_str(&format!(" > {}", other.raw()));
                }
                text.push('\n');
            }
            DiffPart::Equal(line) => text.push_str(&format!("  {}\n", line.raw())),
            DiffPart::Fold { n, .. } => text.push_str(&format!("~ {n}\n")),
            DiffPart::Changed(hunk) => {
                hunk.a.iter().for_each(|line| text.push_str(&format!("- {}\n", plain(line))));
                hunk.b.iter().for_each(|line| text.push_str(&format!("+ {}\n", plain(line))));
            }
        }
    }
    text
}

fn of(a: &Payload, b: &Payload) -> Diff {
    Diff::new(Some(a), Some(b), DiffChoice::default(), 1 << 20)
}

fn of_json(a: Json, b: Json) -> String {
    sketch(&of(&Payload::from_value(a), &Payload::from_value(b)))
}

#[test]
fn changed_words_are_marked_and_equal_lines_are_collapsed() {
    let equal: String = (0..20).map(|n| format!("line {n}\n")).collect();
    let a = format!("{equal}The capital of France is Lyon.\nend");
    let b = format!("{equal}The capital of France is Paris.\nend");
    let diff = of(&text(&a), &text(&b));
    let expected = "~ 17\n  line 17\n  line 18\n  line 19\n\
        - The capital of France is [Lyon].\n+ The capital of France is [Paris].\n  end\n";
    assert_eq!(sketch(&diff), expected);
    assert_eq!(diff.summary, "1 line removed, 1 line added");
}

#[test]
fn scripts_without_spaces_are_compared_by_characters() {
    let diff = of(&text("法国的首都是里昂"), &text("法国的首都是巴黎"));
    assert_eq!(sketch(&diff), "- 法国的首都是[里昂]\n+ 法国的首都是[巴黎]\n");
}

#[test]
fn documents_are_compared_by_path_regardless_of_member_order() {
    let a =
        json!({"q": "x", "n": 1, "list": [1, 2, 3], "gone": {"a": []}, "deep": {"it's": "a b"}});
    let b = json!({"deep": {"it's": "a c"}, "list": [3, 1, 2, 4], "n": 1, "q": "x", "new": null});
    let expected = "@ changed $['deep']['it\\'s']\n- a [b]\n+ a [c]\n\
        @ removed $['gone']\n- {\n-   \"a\": []\n- }\n\
        @ moved $['list'][2] > $['list'][0]\n@ added $['list'][3]\n+ 4\n\
        @ added $['new']\n+ null\n";
    assert_eq!(of_json(a, b), expected);
    let (a, b) = (json!({"a": 1, "b": [2]}), json!({"b": [2], "a": 1}));
    let diff = of(&Payload::from_value(a), &Payload::from_value(b));
    assert!(diff.is_same() && diff.notes[0].contains("member order"), "{:?}", diff.notes);
}

#[test]
fn unicode_normalization_differences_have_a_note() {
    let diff = of(&text("caf\u{e9}"), &text("cafe\u{301}"));
    assert!(!diff.is_same() && diff.notes[0].contains("normalization"));
    assert!(of(&text("caf\u{e9}"), &text("cafe")).notes.is_empty());
}

#[test]
fn numbers_are_compared_to_their_last_digit() {
    let document = |n: &str| Payload::Json(format!("{{\"n\":{n}}}"));
    let diff = of(&document("12345678901234567890123"), &document("12345678901234567890124"));
    assert!(!diff.is_same(), "{:?}", diff.parts);
}

#[test]
fn fingerprints_are_equal_for_values_without_a_difference() {
    let json = |raw: &str| Some(Payload::Json(raw.to_owned()));
    let values = [
        json(r#"{"a": 1, "b": [1, 2]}"#),
        json(r#"{"b":[1,2.0],"a":1e0}"#),
        Some(text(r#"{"b": [1, 2], "a": 1.0}"#)),
        json(r#"{"a": 1, "b": [2, 1]}"#),
        json(r#"{"a": "1", "b": [1, 2]}"#),
        Some(text("a: 1")),
        Some(text("")),
        None,
    ];
    for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
        let [a, b] = [a, b].map(Option::as_ref);
        let diff = Diff::new(a, b, DiffChoice::default(), 100);
        assert_eq!(value_fingerprint(a) == value_fingerprint(b), diff.is_same(), "{a:?} {b:?}");
    }
}

#[test]
fn equal_and_missing_values_are_distinguished() {
    let a = text("x");
    assert!(of(&a, &a).is_same());
    let none = Diff::new(None, None, DiffChoice::default(), 100);
    assert_eq!(none.outcome, DiffOutcome::Absent);
    let one = Diff::new(None, Some(&a), DiffChoice::default(), 100);
    assert_eq!(one.outcome, DiffOutcome::OneSided { is_a: false });
    assert_eq!(sketch(&one), "+ x\n");
    let as_json = of(&text("1"), &Payload::Json("1".to_owned()));
    assert!(as_json.is_same() && as_json.notes[0].contains("JSON"));
}

#[test]
fn white_space_can_be_ignored() {
    let choice = DiffChoice { ignores_space: true, ..DiffChoice::default() };
    for (a, b) in [("a  b\n c", "a b\nc"), ("{\"k\":\"a  b\"}", "{\"k\": \"a b\"}")] {
        let (a, b) = (text(a), text(b));
        assert!(!of(&a, &b).is_same());
        assert!(Diff::new(Some(&a), Some(&b), choice, 1_000).is_same());
    }
}

#[test]
fn large_values_are_compared_by_lines_with_a_note() {
    let items: Vec<String> = (0..120_000).map(|n| format!("\"item {n}\"")).collect();
    let a = Payload::Json(format!("[{}]", items.join(",")));
    let changed = items.join(",").replace("item 60000\"", "other\"");
    let b = Payload::Json(format!("[{changed}]"));
    let a_few = Payload::Json(format!("[{}]", items[..90_000].join(",")));
    let b_few =
        Payload::Json(format!("[{}]", items[..90_000].join(",").replace("item 777\"", "other\"")));
    let diff = of(&a_few, &b_few);
    assert!(diff.notes[0].contains("by lines only"), "{:?}", diff.notes);
    assert!(sketch(&diff).contains("- \"item 777\",\n+ \"other\",\n"), "{}", sketch(&diff));
    // Values with more lines are not compared.
    let diff = of(&a, &b);
    assert_eq!(diff.outcome, DiffOutcome::TooLarge);
    assert!(!diff.is_same() && diff.notes[0].contains("too large"));
}

#[test]
fn media_are_compared_by_bytes_and_never_shown_as_text() {
    let picture =
        |data: &str| Payload::from_value(json!({"url": format!("data:image/png;base64,{data}")}));
    let (a, b) = (picture(&"AAAA".repeat(50)), picture(&"AAAB".repeat(50)));
    assert!(of(&a, &a.clone()).is_same());
    let shown = sketch(&of(&a, &b));
    assert!(shown.contains("[image/png, 150 bytes") || shown.contains("image/png"), "{shown}");
    assert!(!shown.contains("AAAA") && !of(&a, &b).is_same(), "{shown}");
}

#[test]
fn hostile_values_have_limited_output() {
    let deep = format!("{}1{}", "[".repeat(50_000), "]".repeat(50_000));
    let mirrored: String = (0..30_000).map(|n| format!("{}\n", n % 7)).collect();
    let other: String = (0..30_000).map(|n| format!("{}\n", n % 11)).collect();
    let wide = |n: u32| {
        let members: Vec<String> = (0..40_000).map(|at| format!("\"k{}\":{n}", at * n)).collect();
        format!("{{{}}}", members.join(","))
    };
    for (a, b) in [
        (deep.clone(), deep.replace('1', "2")),
        (mirrored, other),
        (wide(1), wide(3)),
        ("a b ".repeat(100_000), "b a ".repeat(100_000)),
        ("x".repeat(900_000), "y".repeat(900_000)),
        ("{\"a\":".to_owned(), "[".repeat(900_000)),
    ] {
        let diff = Diff::new(Some(&text(&a)), Some(&text(&b)), DiffChoice::default(), 24 << 10);
        assert!(!diff.is_same());
        assert!(sketch(&diff).len() < 100 << 10, "{}", sketch(&diff).len());
    }
}

proptest! {
    #[test]
    fn any_two_values_can_be_compared(a in "[\\[\\]{}\":,\\\\a1 é\n]{0,40}", b in "[\\[\\]{}\":,\\\\a1 é\n]{0,40}") {
        let diff = of(&text(&a), &text(&b));
        prop_assert!(a != b || diff.is_same());
    }
}
