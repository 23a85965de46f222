//! Properties of every filter and every text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::LISTS;
use crate::filter::{Column, Condition, Filter};
use crate::query::{parse, print};
use crate::time::Timestamp;

fn value() -> impl Strategy<Value = String> {
    let hostile = [
        "",
        " ",
        "a",
        "null",
        "set",
        "true",
        "false",
        "1",
        "-5",
        "1e3",
        "1..5",
        "..",
        "a..b",
        "=a",
        "==a",
        "~",
        "^a",
        "$",
        "*",
        ">5",
        ">=5",
        "<",
        "!=a",
        "!a",
        "-a",
        "a,b",
        ",",
        "(",
        "all(a)",
        "any(",
        "any",
        "a:b",
        "a.b",
        ".",
        ":",
        "\"",
        "a\"b",
        "\\",
        "\\\"",
        "\n",
        "a\tb",
        "\0",
        "\u{7f}",
        "\u{85}",
        "\u{a0}",
        "\u{2028}",
        "⭐️",
        "é",
        "refund policy",
        "inf",
        "NaN",
        "+1",
        "2026-03-01T10:00:00Z",
        "level:ERROR",
    ];
    prop_oneof![
        prop::sample::select(hostile.to_vec()).prop_map(str::to_owned),
        any::<String>(),
        "[a-z =~^$*<>!,().:\"\\\\-]{0,6}",
    ]
}

fn number() -> impl Strategy<Value = f64> {
    let any = any::<f64>().prop_filter("JSON has no other", |n| n.is_finite());
    prop_oneof![
        any,
        prop::sample::select(vec![0.0, -0.0, 0.1, 1e15, 1e16, 1e-7, f64::MAX, f64::MIN_POSITIVE]),
        (-100_i32..100).prop_map(f64::from),
    ]
}

fn time() -> impl Strategy<Value = String> {
    let known = ["-009999-01-02T01:59:59Z", "9999-12-30T22:00:00.999999Z", "1970-01-01T00:00:00Z"];
    prop_oneof![
        prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        (-(1_i64 << 52)..(1_i64 << 52))
            .prop_map(|micros| Timestamp::from_micros(micros).to_iso_micros()),
    ]
}

/// A condition of every type and operator that fits, most of them valid.
fn condition(columns: &'static [Column]) -> impl Strategy<Value = Value> {
    let column = prop::sample::select(columns.iter().collect::<Vec<_>>());
    let texts = prop::collection::vec(value(), 0..3);
    let parts = (any::<(u8, u8, bool)>(), number(), time(), value(), texts);
    (column, parts).prop_map(|(column, (n, number, time, key, texts))| {
        let (n_type, n_op, truth) = n;
        let kinds = column.kind.types().iter().copied().chain(["null"]);
        let kinds: Vec<&str> = kinds.collect();
        let kind = kinds[usize::from(n_type) % kinds.len()];
        let of_list = |at: u8| match column.values {
            [] => texts.first().cloned().unwrap_or_default(),
            values => values[usize::from(at) % values.len()].to_owned(),
        };
        let texts: Vec<String> = match column.values {
            [] => texts.clone(),
            _ => vec![of_list(n_type), of_list(n_op)],
        };
        let text_ops = ["=", "contains", "does not contain", "starts with", "ends with"];
        let (ops, value): (Vec<&str>, Value) = match kind {
            "datetime" => (vec!["=", "!=", ">", "<", ">=", "<="], json!(time)),
            "string" => ([&text_ops[..], &["matches"]].concat(), json!(of_list(n_op))),
            "stringObject" => {
                let others = ["matches", "is set", "is not set"];
                ([&text_ops[..], &others].concat(), json!(of_list(n_op)))
            }
            "number" | "numberObject" => (vec!["=", "!=", ">", "<", ">=", "<="], json!(number)),
            "stringOptions" | "categoryOptions" => (vec!["any of", "none of"], json!(texts)),
            "arrayOptions" => (vec!["any of", "none of", "all of"], json!(texts)),
            "boolean" | "booleanObject" => (vec!["=", "<>"], json!(truth)),
            _ => (vec!["is null", "is not null"], json!("")),
        };
        json!({ "type": kind, "column": column.id, "operator": ops[usize::from(n_op) % ops.len()],
                "value": value, "key": key })
    })
}

fn check_round_trip(filter: &Filter, columns: &'static [Column]) {
    let text = print(filter);
    let parsed = parse(&text, columns);
    assert_eq!(parsed.faults().next(), None, "{text}");
    assert_eq!(&parsed.filter, filter, "{text}");
    let json: Option<Vec<Value>> = filter.conditions.iter().map(Condition::to_json).collect();
    assert_eq!(Filter::parse(&json.unwrap(), columns).as_ref(), Ok(filter));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_filter_round_trips_through_text_and_json(
        (raw, list) in (0..LISTS.len()).prop_flat_map(|list| {
            (prop::collection::vec(condition(LISTS[list]), 1..4), Just(list))
        })
    ) {
        // Invalid conditions are dropped, and the others are kept.
        let conditions = raw.into_iter().flat_map(|raw| {
            Filter::parse(&[raw], LISTS[list]).map(|filter| filter.conditions)
        });
        let conditions = conditions.flatten().collect();
        check_round_trip(&Filter { conditions }, LISTS[list]);
    }

    #[test]
    fn any_text_is_read_term_by_term(
        parts in prop::collection::vec(
            prop_oneof![
                value(),
                prop::sample::select(vec![
                    "-", "name", "score", "metadata", "tags", "latency", "startTime", "isRoot", ".",
                    ":", "all(", "any(", ")", ",", " ", "\"", "\\", "..", "null", "set", "=", "==",
                    ">", "<=", "~", "*", "1", "true", "x",
                ]).prop_map(str::to_owned),
            ],
            0..12,
        ),
        list in 0..LISTS.len(),
    ) {
        let text = parts.concat();
        let parsed = parse(&text, LISTS[list]);
        let mut end = 0;
        let mut conditions = Vec::new();
        for term in &parsed.terms {
            prop_assert!(end <= term.at.start && term.at.start < term.at.end);
            prop_assert!(text[end..term.at.start].trim().is_empty());
            prop_assert_eq!(&text[term.at.clone()], term.text.as_str());
            end = term.at.end;
            match &term.outcome {
                Ok(of_term) => conditions.extend(of_term.clone()),
                Err(fault) => {
                    prop_assert!(term.at.start <= fault.at.start && fault.at.end <= end);
                    prop_assert!(text.get(fault.at.clone()).is_some());
                }
            }
        }
        prop_assert!(text[end..].trim().is_empty());
        prop_assert_eq!(&parsed.filter.conditions, &conditions);
        check_round_trip(&parsed.filter, LISTS[list]);
    }
}
