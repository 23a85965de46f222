//! The parts of a template, and what never happens to inserted text.

use perpend_template::{Part, fill, names, parts};
use proptest::prelude::*;

#[test]
fn names_are_listed_once_in_order_of_appearance() {
    assert_eq!(names("{{b}} {{ a.c }} {{b}} {{no name}} {{"), ["b", "a.c"]);
}

#[test]
fn three_braces_are_a_brace_around_a_placeholder() {
    let found: Vec<_> = parts("{{{x}}}").collect();
    let variable = Part::Variable {
        name: "x",
        raw: "{{x}}",
    };
    assert_eq!(found, [Part::Text("{"), variable, Part::Text("}")]);
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{{"),
        Just("}}"),
        Just("{"),
        Just("}"),
        Just("input"),
        Just("output"),
        Just(" "),
        Just("é"),
    ];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn the_parts_together_are_the_template(template in pieces()) {
        let whole: String = parts(&template)
            .map(|part| match part {
                Part::Text(text) => text,
                Part::Variable { raw, .. } => raw,
            })
            .collect();
        prop_assert_eq!(&whole, &template);
        prop_assert_eq!(fill(&template, |_| None), template);
    }

    #[test]
    fn inserted_text_is_never_expanded(before in pieces(), value in pieces(), after in "[^{}]*") {
        // Without a brace at the end, nothing of the text before can join what comes after it.
        let template = format!("{before} {{{{output}}}}{after}");
        let filled = fill(&template, |name| (name == "output").then(|| value.clone()));
        let start = fill(&format!("{before} "), |name| (name == "output").then(|| value.clone()));
        prop_assert_eq!(filled, format!("{start}{value}{after}"));
    }
}
