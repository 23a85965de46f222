//! Properties of the difference of any two texts or documents.

use proptest::prelude::*;
use serde_json::Value as Json;

use crate::value_diff::json::{Delta, MemberDelta, Node, Value, compare as compare_json};
use crate::value_diff::lines::{self, LineRules, LineRun, compare as compare_lines};

const WORDS: LineRules = LineRules { ignores_space: false, with_words: true };

/// Both sides, rebuilt from the difference.
fn applied(parts: &[LineRun<'_>]) -> [String; 2] {
    let mut sides: [Vec<String>; 2] = Default::default();
    let line = |line: &lines::Line<'_>| line.iter().map(|piece| piece.text).collect::<String>();
    for part in parts {
        match part {
            LineRun::Equal(both) => {
                sides[0].extend(both.iter().map(|(a, _)| (*a).to_owned()));
                // Equal lines are taken from the first side.
                sides[1].extend(both.iter().map(|(a, _)| (*a).to_owned()));
            }
            LineRun::Changed(a, b) => {
                sides[0].extend(a.iter().map(line));
                sides[1].extend(b.iter().map(line));
            }
        }
    }
    sides.map(|lines| lines.join("\n"))
}

fn swapped<'t>(parts: Vec<LineRun<'t>>) -> Vec<LineRun<'t>> {
    let swap = |part| match part {
        LineRun::Equal(both) => LineRun::Equal(both.into_iter().map(|(a, b)| (b, a)).collect()),
        LineRun::Changed(a, b) => LineRun::Changed(b, a),
    };
    parts.into_iter().map(swap).collect()
}

/// The second document, rebuilt from the first one and the difference.
fn rebuilt(delta: &Delta, a: &Node<'_>, b: &Node<'_>) -> String {
    let list = |node: &Node<'_>, at: usize| match &node.value {
        Value::List(items) => items[at].clone().lines(),
        Value::Object(members) => members[at].1.lines(),
        Value::Scalar(_) => String::new(),
    };
    let member = |member: &MemberDelta| match member {
        MemberDelta::Removed(_) => None,
        MemberDelta::Added(at) => Some((*at, list(b, *at))),
        MemberDelta::Moved(from, to) => Some((*to, list(a, *from))),
        MemberDelta::Kept(from, to, delta) => {
            let json = match (&a.value, &b.value) {
                (Value::List(a), Value::List(b)) => rebuilt(delta, &a[*from], &b[*to]),
                (Value::Object(a), Value::Object(b)) => rebuilt(delta, &a[*from].1, &b[*to].1),
                _ => String::new(),
            };
            Some((*to, json))
        }
    };
    let (deltas, is_list) = match delta {
        Delta::Same => return a.lines(),
        Delta::Changed => return b.lines(),
        Delta::List(deltas) => (deltas, true),
        Delta::Object(deltas) => (deltas, false),
    };
    let mut made: Vec<(usize, String)> = deltas.iter().filter_map(member).collect();
    made.sort_by_key(|(at, _)| *at);
    let parsed = made.iter().map(|(_, json)| serde_json::from_str::<Json>(json).unwrap());
    match (&b.value, is_list) {
        (Value::Object(members), false) => {
            let names = members.iter().map(|(name, _)| serde_json::from_str(name).unwrap());
            let object: serde_json::Map<String, Json> = names.zip(parsed).collect();
            Json::Object(object).to_string()
        }
        _ => Json::Array(parsed.collect()).to_string(),
    }
}

fn document() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (0..4_i64).prop_map(Json::from),
        "[ab\\n\"é]{0,3}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::btree_map("[a-c']{1,2}", inner, 0..5)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn mirrored(delta: &Delta) -> Delta {
    let deltas = |deltas: &[MemberDelta]| -> Vec<MemberDelta> {
        let turn = |member: &MemberDelta| match member {
            MemberDelta::Added(at) => MemberDelta::Removed(*at),
            MemberDelta::Removed(at) => MemberDelta::Added(*at),
            MemberDelta::Moved(from, to) => MemberDelta::Moved(*to, *from),
            MemberDelta::Kept(from, to, delta) => MemberDelta::Kept(*to, *from, mirrored(delta)),
        };
        deltas.iter().map(turn).collect()
    };
    match delta {
        Delta::Same => Delta::Same,
        Delta::Changed => Delta::Changed,
        Delta::Object(all) => Delta::Object(deltas(all)),
        Delta::List(all) => Delta::List(deltas(all)),
    }
}

/// The changes of each object and list in sorted order, because the order of changes at the same position is unspecified.
fn sorted(delta: &Delta) -> String {
    match delta {
        Delta::Object(deltas) | Delta::List(deltas) => {
            let member = |member: &MemberDelta| match member {
                MemberDelta::Kept(from, to, delta) => format!("kept {from} {to} {}", sorted(delta)),
                other => format!("{other:?}"),
            };
            let mut deltas: Vec<String> = deltas.iter().map(member).collect();
            deltas.sort();
            format!("({})", deltas.join(", "))
        }
        other => format!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn text_difference_rebuilds_the_second_text_and_swapping_mirrors_it(
        a in "[ab \n]{0,40}", b in "[ab \n]{0,40}",
    ) {
        let [of_a, of_b] = [&a, &b].map(|text| text.split('\n').collect::<Vec<_>>());
        let parts = compare_lines(&of_a, &of_b, WORDS);
        prop_assert_eq!(applied(&parts), [a.clone(), b.clone()]);
        prop_assert_eq!(swapped(compare_lines(&of_b, &of_a, WORDS)), parts);
    }

    #[test]
    fn document_difference_rebuilds_the_second_document_and_swapping_mirrors_it(
        a in document(), b in document(),
    ) {
        let texts = [a.to_string(), b.to_string()];
        let [Some(first), Some(second)] = texts.each_ref().map(|text| Node::read(text, false)) else {
            return Ok(());
        };
        let delta = compare_json(&first, &second);
        let made: Json = serde_json::from_str(&rebuilt(&delta, &first, &second)).unwrap();
        prop_assert_eq!(made, b);
        prop_assert_eq!(sorted(&mirrored(&compare_json(&second, &first))), sorted(&delta));
    }
}

#[test]
fn numbers_are_compared_by_value_with_all_digits() {
    let is_same = |a: &str, b: &str| {
        let [a, b] = [a, b].map(|n| format!("{{\"n\": [{n}]}}"));
        let [a, b] = [&a, &b].map(|text| Node::read(text, false).unwrap());
        compare_json(&a, &b) == Delta::Same
    };
    for (a, b) in [
        ("2", "2.0"),
        ("2", "2e0"),
        ("200", "2E+2"),
        ("0.02", "2e-2"),
        ("-1.50", "-1.5"),
        ("0", "-0.0"),
        ("0e9", "0"),
        ("1e99999999999999999999", "1e99999999999999999999"),
        ("100000000000000000000000000001", "100000000000000000000000000001.00"),
    ] {
        assert!(is_same(a, b) && is_same(b, a), "{a} {b}");
    }
    for (a, b) in [
        ("2", "\"2\""),
        ("2", "-2"),
        ("2", "20"),
        ("0.2", "2"),
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.1000000000000000055511151231257827"),
        ("1", "true"),
        ("0", "null"),
        ("1e99999999999999999999", "1e99999999999999999998"),
        ("1e9223372036854775807", "10e9223372036854775807"),
    ] {
        assert!(!is_same(a, b) && !is_same(b, a), "{a} {b}");
    }
}
