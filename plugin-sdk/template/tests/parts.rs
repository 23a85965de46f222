//! Parsing and filling of templates.

use perpend_template::{TemplatePart, fill, malformed, names, parts};
use proptest::prelude::*;

#[test]
fn names_are_listed_once_in_order_of_appearance() {
    assert_eq!(names("{{b}} {{ a.c }} {{b}} {{no name}} {{"), ["b", "a.c"]);
}

#[test]
fn three_braces_are_a_brace_around_a_placeholder() {
    let found: Vec<_> = parts("{{{x}}}").collect();
    let variable = TemplatePart::Variable { name: "x", raw: "{{x}}" };
    assert_eq!(found, [TemplatePart::Text("{"), variable, TemplatePart::Text("}")]);
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

#[test]
fn only_placeholders_without_a_valid_name_are_malformed() {
    for (template, expected) in [
        ("Rate {{user-name}} and {{ output }}", vec!["{{user-name}}"]),
        ("{{user name}}{{user name}}", vec!["{{user name}}"]),
        ("{{名前}} {{{a-b}}} {{}} {{ }}", vec!["{{名前}}", "{{a-b}}", "{{}}", "{{ }}"]),
        (
            "{{#if x}}{{/if}} {{x | upper}} {{ x[0] }}",
            vec!["{{#if x}}", "{{/if}}", "{{x | upper}}", "{{ x[0] }}"],
        ),
        ("{{input}} {output-text} ${x-y} {{\"score\": 1}} {\"a\": {\"b\": 1}}", vec![]),
        ("{{\na-b\n}}", vec!["{{\na-b\n}}"]),
        ("f() {{\n  g();\n  h();\n}}", vec![]),
        ("{{ unclosed-name } and }}", vec![]),
    ] {
        assert_eq!(malformed(template), expected, "{template}");
    }
}

proptest! {
    #[test]
    fn the_concatenated_parts_are_the_template(template in pieces()) {
        let whole: String = parts(&template)
            .map(|part| match part {
                TemplatePart::Text(text) => text,
                TemplatePart::Variable { raw, .. } => raw,
            })
            .collect();
        prop_assert_eq!(&whole, &template);
        prop_assert_eq!(fill(&template, |_| None), template);
    }

    #[test]
    fn inserted_text_is_never_expanded(before in pieces(), value in pieces(), after in "[^{}]*") {
        // The space keeps a brace in `before` from joining the placeholder.
        let template = format!("{before} {{{{output}}}}{after}");
        let filled = fill(&template, |name| (name == "output").then(|| value.clone()));
        let start = fill(&format!("{before} "), |name| (name == "output").then(|| value.clone()));
        prop_assert_eq!(filled, format!("{start}{value}{after}"));
    }
}
