//! The meaning of single texts, and their errors.

mod round_trip;

use super::*;
use crate::filter::{
    Condition, GROUPS, OBSERVATIONS, Order, RULE_OBSERVATION, RULE_SESSION, RULE_TRACE, SCORES,
    SetOp, TRACES, Test, TextOp, find,
};

static LISTS: [&[Column]; 7] =
    [TRACES, GROUPS, OBSERVATIONS, SCORES, RULE_OBSERVATION, RULE_TRACE, RULE_SESSION];

fn tests_of(text: &str, columns: &'static [Column]) -> Vec<(&'static str, Test)> {
    let parsed = parse(text, columns);
    assert_eq!(parsed.faults().next(), None, "{text}");
    let conditions = parsed.filter.conditions.into_iter();
    conditions.map(|condition| (condition.column.unwrap().id, condition.test)).collect()
}

fn own(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn the_examples_of_the_documentation_parse_as_described() {
    let text = "level:ERROR,WARNING latency:>2 -name:~healthcheck tags:all(vip,beta) \
                metadata.tier:gold score.accuracy:<0.5 score.\"answer is long enough\":=1 \
                sessionId:set \"refund policy\"";
    let key = |key: &str| key.to_owned();
    let expected = vec![
        ("level", Test::AnyOf(own(&["ERROR", "WARNING"]))),
        ("latency", Test::Number(Order::Greater, 2.0)),
        ("name", Test::Text(TextOp::DoesNotContain, key("healthcheck"))),
        ("tags", Test::List(SetOp::AllOf, own(&["vip", "beta"]))),
        ("metadata", Test::MemberText(key("tier"), TextOp::Equal, key("gold"))),
        ("scores_avg", Test::MemberNumber(key("accuracy"), Order::Less, 0.5)),
        ("scores_avg", Test::MemberNumber(key("answer is long enough"), Order::Equal, 1.0)),
        ("sessionId", Test::IsNotNull),
        ("text", Test::Text(TextOp::MatchesAnyCase, key("refund policy"))),
    ];
    for columns in [TRACES, OBSERVATIONS] {
        assert_eq!(tests_of(text, columns), expected);
    }
}

#[test]
fn columns_are_found_by_the_headings_of_their_lists_in_any_case() {
    let of = |text: &str, columns| {
        let tests = tests_of(text, columns).into_iter();
        tests.map(|(id, _)| id).collect::<Vec<_>>()
    };
    let text = "user:a session:a cost:>1 Errors:>0 Observations:>9 STARTED:>2026-03-01 Warnings:0 \"Observation kinds\":TOOL";
    let ids = [
        "userId",
        "sessionId",
        "totalCost",
        "errorCount",
        "observationCount",
        "timestamp",
        "warningCount",
        "kinds",
    ];
    assert_eq!(of(text, TRACES), ids);
    let text = "traces:>1 lasted:>2 \"last seen\":>2026-03-01 \"First seen\":>2026-03-01";
    let ids = ["traceCount", "duration", "lastSeen", "firstSeen"];
    assert_eq!(of(text, GROUPS), ids);
}

#[test]
fn no_name_is_that_of_two_columns() {
    for columns in LISTS {
        let mut seen = std::collections::HashMap::new();
        for column in columns {
            for name in std::iter::once(&column.id).chain(column.aliases) {
                let other = seen.insert(name.to_lowercase(), column.id);
                assert!(other.is_none_or(|other| other == column.id), "{name}");
            }
        }
    }
}

fn assert_meanings(table: Vec<(&str, Vec<Test>)>) {
    for (written, expected) in table {
        let found = tests_of(written, OBSERVATIONS).into_iter().map(|(_, test)| test);
        assert_eq!(found.collect::<Vec<_>>(), expected, "{written}");
    }
}

#[test]
fn each_way_to_test_a_text_or_a_list_has_its_meaning() {
    let text = |op, value: &str| Test::Text(op, value.to_owned());
    let table = [
        ("name:a", vec![Test::AnyOf(own(&["a"]))]),
        ("name:=a", vec![text(TextOp::Equal, "a")]),
        ("-name:a,b", vec![Test::NoneOf(own(&["a", "b"]))]),
        ("-name:=a", vec![Test::NoneOf(own(&["a"]))]),
        ("name:^a", vec![text(TextOp::StartsWith, "a")]),
        ("name:$a", vec![text(TextOp::EndsWith, "a")]),
        ("name:\"null\"", vec![Test::AnyOf(own(&["null"]))]),
        ("input:*a", vec![text(TextOp::MatchesAnyCase, "a")]),
        ("tags:a", vec![Test::AnyOf(own(&["a"]))]),
        ("tags:any( a, b )", vec![Test::List(SetOp::AnyOf, own(&["a", "b"]))]),
        ("-tags:any()", vec![Test::List(SetOp::NoneOf, vec![])]),
        ("name:null", vec![Test::IsNull]),
        ("-name:set", vec![Test::IsNull]),
        ("-name:null", vec![Test::IsNotNull]),
        ("refund", vec![text(TextOp::MatchesAnyCase, "refund")]),
        ("example.com", vec![text(TextOp::MatchesAnyCase, "example.com")]),
        ("\"a:b\"", vec![text(TextOp::MatchesAnyCase, "a:b")]),
    ];
    assert_meanings(table.into());
}

#[test]
fn each_way_to_test_a_number_or_a_member_has_its_meaning() {
    let key = || "k".to_owned();
    let member = |op, value: &str| Test::MemberText(key(), op, value.to_owned());
    let at = |text: &str| crate::time::Timestamp::parse(text).unwrap();
    let table = [
        ("latency:5", vec![Test::Number(Order::Equal, 5.0)]),
        ("-latency:5", vec![Test::Number(Order::NotEqual, 5.0)]),
        ("\"Latency (s)\":>=1e1", vec![Test::Number(Order::AtLeast, 10.0)]),
        (
            "latency:-1..2.5",
            vec![Test::Number(Order::AtLeast, -1.0), Test::Number(Order::AtMost, 2.5)],
        ),
        (
            "startTime:2026-03-01..\"2026-03-02T10:00:00Z\"",
            vec![
                Test::Time(Order::AtLeast, at("2026-03-01T00:00:00Z")),
                Test::Time(Order::Less, at("2026-03-02T10:00:00Z")),
            ],
        ),
        ("isRoot:true", vec![Test::Is(true)]),
        ("-isRoot:true", vec![Test::IsNot(true)]),
        ("metadata.k:5", vec![member(TextOp::Equal, "5")]),
        ("metadata.k:==5", vec![Test::MemberNumber(key(), Order::Equal, 5.0)]),
        (
            "metadata.k:1..5",
            vec![
                Test::MemberNumber(key(), Order::AtLeast, 1.0),
                Test::MemberNumber(key(), Order::AtMost, 5.0),
            ],
        ),
        ("metadata.k:\"1..5\"", vec![member(TextOp::Equal, "1..5")]),
        ("-metadata.k:~a", vec![member(TextOp::DoesNotContain, "a")]),
        ("metadata.k:any(a)", vec![Test::CategoryAnyOf(key(), own(&["a"]))]),
        ("-metadata.k:a", vec![Test::CategoryNoneOf(key(), own(&["a"]))]),
        ("metadata.k:set", vec![Test::MemberIsSet(key())]),
        ("metadata.k:null", vec![Test::MemberIsNotSet(key())]),
        ("score.k:true", vec![Test::MemberIs(key(), true)]),
        ("-score.k:true", vec![Test::MemberIsNot(key(), true)]),
        ("score.k:\"true\"", vec![Test::CategoryAnyOf(key(), own(&["true"]))]),
        ("score.k:good", vec![Test::CategoryAnyOf(key(), own(&["good"]))]),
        ("score.k:1,2", vec![Test::CategoryAnyOf(key(), own(&["1", "2"]))]),
        ("score_categories:a", vec![Test::AnyOf(own(&["a"]))]),
        ("score.k:set", vec![Test::List(SetOp::AnyOf, own(&["k"]))]),
        ("-score.k:null", vec![Test::List(SetOp::AnyOf, own(&["k"]))]),
        ("score.k:null", vec![Test::List(SetOp::NoneOf, own(&["k"]))]),
        ("-score.k:set", vec![Test::List(SetOp::NoneOf, own(&["k"]))]),
    ];
    assert_meanings(table.into());
    let nested = tests_of("score.tone.politeness:>=1", OBSERVATIONS).remove(0).1;
    assert_eq!(nested.key(), Some("tone.politeness"));
}

#[test]
fn a_time_is_also_read_as_the_fields_of_a_page_take_it() {
    let at = |text: &str| crate::time::Timestamp::parse(text).unwrap();
    let table = [
        (
            "startTime:>\"2026-03-01 10:00\"",
            vec![Test::Time(Order::Greater, at("2026-03-01T10:00:00Z"))],
        ),
        (
            "startTime:\"2026-03-01 10:00:30\"..2026-03-02T10:00",
            vec![
                Test::Time(Order::AtLeast, at("2026-03-01T10:00:30Z")),
                Test::Time(Order::Less, at("2026-03-02T10:00:00Z")),
            ],
        ),
    ];
    assert_meanings(table.into());
}

/// A term, its invalid part, the start of the message, and the first of the suggestions.
const FAULTS: [(&str, &str, &str, &[&str]); 24] = [
    ("latncy:>2", "latncy", "unknown column `latncy`; did you mean `latency`?", &["latency"]),
    ("Nmae:a", "Nmae", "unknown column `Nmae`; did you mean `name`?", &["name"]),
    ("socre.k:1", "socre", "unknown column `socre`; did you mean `score` or", &["score"]),
    ("name:>5", ">", "`name` cannot be tested with `>`; it takes `=`,", &["=", "~"]),
    ("-name:^a", "^", "`name` cannot be tested with `-` and `^`", &["="]),
    ("latency:~2", "~", "`latency` cannot be tested with `~`", &["=", "!="]),
    (
        "score.k:~a",
        "~",
        "`score` cannot be tested with `~`; it takes `<`, `<=`, `>`, `>=`, `=`, `!=`, `..`, `any(`, `true`, `false`, `null`, `set`",
        SCORE_OPERATORS,
    ),
    ("latency:fast", "fast", "`fast` is not a number", &[]),
    ("latency:1..fast", "fast", "`fast` is not a number", &[]),
    ("latency:inf", "inf", "`inf` is not a number", &[]),
    ("startTime:>today", "today", "`today` is not a date such as", &[]),
    ("level:error", "error", "`level` has no value `error`; did you mean `ERROR`?", &["ERROR"]),
    ("level:x", "x", "`level` has no value `x`; it has `DEBUG`,", &["DEBUG"]),
    ("isRoot:yes", "yes", "`yes` is neither `true` nor `false`", &["true", "false"]),
    ("metadata:a", "metadata", "`metadata` needs a key", &[]),
    ("score:set", "score", "`score` needs a key", &[]),
    ("metadata.\"\":a", "\"\"", "a key must not be empty", &[]),
    ("name.k:a", "k", "`name` has no keys; write `name:value`", &[]),
    ("name:=null", "null", "put the text `null` in quotes", &["\"null\""]),
    ("name:", "", "a value is missing here", &[]),
    ("name:\"a b", "\"a b", "the closing quote is missing", &[]),
    ("-refund", "-refund", "`-` must be followed by a column", &[]),
    (">5", ">5", "`>` must follow a column and a colon", &[]),
    ("a,b", ",", "put text with `,` in quotes", &[]),
];

#[test]
fn faults_have_a_position_and_name_the_alternatives() {
    for (written, place, message, allowed) in FAULTS {
        let text = format!("level:ERROR {written} ");
        let parsed = parse(text.trim_end(), OBSERVATIONS);
        let fault = parsed.faults().next().expect(written);
        assert_eq!(&text[fault.at.clone()], place, "{written}");
        assert!(fault.message.starts_with(message), "{}", fault.message);
        assert!(fault.allowed.len() >= allowed.len(), "{written}");
        assert_eq!(fault.allowed[..allowed.len()], own(allowed), "{written}");
        assert_eq!(parsed.filter.conditions.len(), 1, "{written}");
    }
}

#[test]
fn terms_above_the_limit_are_one_fault_and_the_others_apply() {
    let text = vec!["a"; MAX_TERMS + 10].join(" ");
    let parsed = parse(&text, OBSERVATIONS);
    assert_eq!(parsed.filter.conditions.len(), MAX_TERMS);
    assert_eq!(parsed.terms.len(), MAX_TERMS + 1);
    let fault = parsed.faults().next().unwrap();
    assert_eq!(&text[fault.at.clone()], ["a"; 10].join(" "));
}

#[test]
fn the_other_terms_of_a_query_with_a_fault_still_apply() {
    let parsed = parse("it\"s nme:\"a b\" tags:all(a b level:ERROR -x latency:>2", OBSERVATIONS);
    let is_fault: Vec<(&str, bool)> =
        parsed.terms.iter().map(|term| (term.text.as_str(), term.outcome.is_err())).collect();
    assert_eq!(
        is_fault,
        [
            ("it\"s", true),
            ("nme:\"a b\"", true),
            ("tags:all(a b", true),
            ("level:ERROR", false),
            ("-x", true),
            ("latency:>2", false),
        ]
    );
    assert_eq!(parsed.filter.conditions.len(), 2);
}

#[test]
fn words_need_a_column_of_text_and_the_length_has_a_limit() {
    let parsed = parse("refund name:a", RULE_TRACE);
    assert_eq!(parsed.faults().count(), 1);
    assert_eq!(parsed.filter.conditions.len(), 1);
    let longest = "a".repeat(MAX_BYTES);
    assert_eq!(parse(&longest, TRACES).faults().count(), 0);
    let parsed = parse(&format!("{longest} name:a"), TRACES);
    assert_eq!((parsed.terms.len(), parsed.faults().count()), (1, 1));
    assert!(parsed.filter.conditions.is_empty());
}

#[test]
fn conditions_without_query_syntax_are_omitted() {
    let named = |column, test| Condition { column, test };
    let name = find(TRACES, "name");
    let filter = Filter {
        conditions: vec![
            named(None, Test::IsNull),
            named(name, Test::Never),
            named(name, Test::Position),
            named(name, Test::Number(Order::Less, 1.0)),
            named(name, Test::IsNull),
        ],
    };
    assert_eq!(print(&filter), "name:null");
    let json: Vec<_> = filter.conditions[..3].iter().map(Condition::to_json).collect();
    assert_eq!(json, [None, None, None]);
}

#[test]
fn any_text_to_look_for_is_one_word() {
    for text in [
        "refund",
        "http://example.com",
        "foo:bar",
        "-dash",
        "level:ERROR",
        "a,b",
        "(a",
        "say \"hi\"",
        ">5",
        "null",
        "two words",
        "example.com",
        "\\",
    ] {
        let found = tests_of(&word(text), TRACES);
        let sought = Test::Text(TextOp::MatchesAnyCase, text.to_owned());
        assert_eq!(found, [("text", sought)], "{text}");
    }
    assert_eq!(word("example.com"), "example.com");
}

#[test]
fn whether_there_is_a_score_is_written_with_its_name() {
    let again = |text: &str| print(&parse(text, TRACES).filter);
    for (text, printed) in [
        ("score.quality:set", "score.quality:set"),
        ("-score.quality:set", "score.quality:null"),
        ("score.\"is long: x\":null", "score.\"is long: x\":null"),
        ("score_names:any(a)", "score.a:set"),
        ("-score_names:any(a,b)", "-score_names:any(a,b)"),
        ("score_names:any(\"\")", "score_names:any(\"\")"),
    ] {
        assert_eq!(again(text), printed, "{text}");
    }
}

#[test]
fn each_operator_of_a_score_can_be_written() {
    for sign in SCORE_OPERATORS {
        let test = match *sign {
            "true" | "false" | "null" | "set" => (*sign).to_owned(),
            ".." => "1..2".to_owned(),
            "any(" => "any(a)".to_owned(),
            sign => format!("{sign}1"),
        };
        let text = format!("score.k:{test}");
        assert_eq!(parse(&text, TRACES).faults().next(), None, "{text}");
    }
}

#[test]
fn every_operator_of_a_kind_can_be_written() {
    for column in LISTS.into_iter().flatten() {
        let key = match column.kind.types() {
            ["stringObject" | "numberObject" | "booleanObject" | "categoryOptions", ..] => ".k",
            _ => "",
        };
        let value = match column.kind.types() {
            ["number" | "numberObject", ..] => "1",
            ["datetime"] => "2026-03-01",
            ["boolean" | "booleanObject"] => "true",
            _ => column.values.first().unwrap_or(&"1"),
        };
        for sign in operators(column.kind) {
            let test = match *sign {
                "null" | "set" | "true" | "false" => (*sign).to_owned(),
                "any(" | "all(" => format!("{sign}{value})"),
                ".." => format!("{value}..{value}"),
                sign => format!("{sign}{value}"),
            };
            let text = format!("{}{key}:{test}", column.id);
            let list = LISTS.into_iter().find(|list| list.contains(column)).unwrap();
            assert_eq!(parse(&text, list).faults().next(), None, "{text}");
        }
    }
}
