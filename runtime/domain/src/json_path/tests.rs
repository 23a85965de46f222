//! Paths, compared with another implementation, and their budget.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const N_STEPS: usize = 1_000_000;

fn select(path: &str, value: &Value) -> Result<Vec<Value>, OutOfSteps> {
    let path = JsonPath::parse(path).unwrap();
    let nodes = path.select(value, &mut Steps::new(N_STEPS))?;
    Ok(nodes.into_iter().cloned().collect())
}

/// The same path evaluated by a library without a budget; none where it refuses the path.
fn reference(path: &str, value: &Value) -> Option<Vec<Value>> {
    let path = serde_json_path::JsonPath::parse(path).ok()?;
    let nodes = path.query(value).all();
    Some(nodes.into_iter().cloned().collect())
}

fn store() -> Value {
    json!({
        "store": {
            "book": [
                { "category": "reference", "author": "Rees", "title": "Sayings", "price": 8.95 },
                { "category": "fiction", "author": "Waugh", "title": "Sword", "price": 12.99 },
                { "category": "fiction", "title": "Moby", "isbn": "0-553", "price": 8.99 },
                { "category": "fiction", "title": "Rings", "isbn": "0-395", "price": 22.99 },
            ],
            "bicycle": { "color": "red", "price": 399 },
        },
        "a": [3, 5, 1, 2, 4, 6, { "b": "j" }, { "b": "k" }, { "b": {} }, { "b": "kilo" }, null],
        "o": { "p": 1, "q": 2, "r": 3, "s": 5, "t": { "u": 6 }, "☺": "é", "": true, "it's": [[]] },
        "n": [0, -1, 1.0, 1e3, 9007199254740993_u64, "1", false],
        "lines": ["ab", "a\nb", "a\rb", "xaby", ""],
    })
}

const PATHS: &[&str] = &[
    "$",
    "$.store.book[*].author",
    "$..author",
    "$.store.*",
    "$.store..price",
    "$..book[2]",
    "$..book[-1]",
    "$..book[0,1]",
    "$..book[:2]",
    "$..book[?@.isbn]",
    "$..book[?@.price<10]",
    "$..*",
    "$..[*]",
    "$..[0]",
    "$.a[?@.b == 'kilo']",
    "$.a[?@>3.5]",
    "$.a[?@.b]",
    "$[?@.*]",
    "$[?@[?@.b]]",
    "$.o[?@<3, ?@<3]",
    "$.a[?@<2 || @.b == \"k\"]",
    "$.a[?match(@.b, \"[jk]\")]",
    "$.a[?search(@.b, \"[jk]\")]",
    "$.o[?@>1 && @<4]",
    "$.o[?@.u || @.x]",
    "$.a[?@.b == $.x]",
    "$.a[?@ == @]",
    "$.a[?!@.b]",
    "$.a[?!(@.b == 'k' || @ == 1) && !match(@.b, 'j')]",
    "$.a[?length(@.b) == 4]",
    "$.a[?length('abc') == 3]",
    "$[?count(@.*) == 7]",
    "$[?count(@..*) > 10]",
    "$[?value(@..color) == 'red']",
    "$[?length(value(@..color)) == 3]",
    "$.a[1:5:2]",
    "$.a[5:1:-2]",
    "$.a[::-1]",
    "$.a[-3:]",
    "$.a[:-3]",
    "$.a[-100:100]",
    "$.a[10:0:-3]",
    "$.a[0:3:0]",
    "$.a[ 1 , 'x' , : ]",
    "$ .o ['t'] .u",
    "$\n.o\t['t']",
    "$.o['☺']",
    "$.o.☺",
    "$.o['']",
    "$.o[\"it's\"]",
    "$.o['it\\'s'][0]",
    "$.o['\\u263a']",
    "$.n[?@ == 1]",
    "$.n[?@ == 1000]",
    "$.n[?@ == 9007199254740993]",
    "$.n[?@ <= 0]",
    "$.n[?@ == '1']",
    "$.n[?@ == false]",
    "$.n[?@ != null]",
    "$.n[?@ >= -1.0e0]",
    "$.lines[?match(@, 'a.b')]",
    "$.lines[?search(@, 'ab')]",
    "$.lines[?match(@, 'a|ab')]",
    "$.lines[?match(@, '')]",
    "$.lines[?match(@, '(')]",
    "$.store[?@.color == $.store.bicycle.color]",
    "$..[?@.price == $.store.bicycle.price]",
    "$..book[?@ == $.store.book[0]]",
    "$.missing",
    "$.a.missing",
    "$.o[0]",
    "$.a['0']",
    "$..['price', 'title']",
    "$.a[9007199254740991]",
    // Refused.
    "",
    "a",
    "$.",
    "$..",
    "$[",
    "$[]",
    "$[01]",
    "$[-0]",
    "$[9007199254740992]",
    "$[1.0]",
    "$.a[1 :2 : 3]",
    "$. a",
    "$.a ",
    " $.a",
    "$['a' 'b']",
    "$['\n']",
    "$['\\x']",
    "$['\\\"']",
    "$['\\ud83d']",
    "$['\\ude00']",
    "$.0a",
    "$.-a",
    "$[?]",
    "$[?1]",
    "$[?true]",
    "$[?@.a == ]",
    "$[?@.* == 1]",
    "$[?@..a == 1]",
    "$[?1 == @['a','b']]",
    "$[?length(@.*) == 1]",
    "$[?length(@.a)]",
    "$[?count(1) == 1]",
    "$[?match(@.a, 'b') == true]",
    "$[?unknown(@.a)]",
    "$[?length (@.a) == 1]",
    "$[?@.a = 1]",
    "$[?@.a == 01]",
    "$[?@.a == 1.]",
    "$[?@.a == .1]",
    "$[?@.a == TRUE]",
    "$[?(@.a]",
    "$[?!@.a == 1]",
    "$[?!1]",
    "$[?@.a &| @.b]",
    "$[?@.a and @.b]",
    "$[1:2:3:4]",
    "$[:::]",
    "$.*a",
    "$.a[*",
    "$$",
    "@",
];

#[test]
fn paths_select_the_nodes_of_rfc_9535() {
    let value = store();
    let mut wrong = Vec::new();
    for path in PATHS {
        let own = JsonPath::parse(path).ok();
        let own = own.and_then(|path| {
            let nodes = path.select(&value, &mut Steps::new(N_STEPS)).ok()?;
            Some(nodes.into_iter().cloned().collect::<Vec<Value>>())
        });
        if own != reference(path, &value) {
            wrong.push((path, own.is_some()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    // The other implementation refuses it.
    let pair = JsonPath::parse("$['\\ud83d\\ude00']").unwrap();
    let value = json!({ "\u{1f600}": 1 });
    assert_eq!(pair.select(&value, &mut Steps::new(9)).unwrap(), [&json!(1)]);
}

#[test]
fn a_path_that_selects_too_much_ends_with_its_budget() {
    // A hundred bytes, of which six segments select millions of nodes.
    let deep: Value =
        serde_json::from_str(&format!("{}{}", "[".repeat(55), "]".repeat(55))).unwrap();
    for path in [
        "$..*..*..*..*..*..*",
        "$..[*,*,*,*]..[*,*,*,*]..[*,*,*,*]..[*,*,*,*]",
        "$..[?count($..*..*..*)>0]",
    ] {
        let path = JsonPath::parse(path).unwrap();
        let mut steps = Steps::new(10_000);
        assert_eq!(path.select(&deep, &mut steps), Err(OutOfSteps), "{path:?}");
        // It is used up for all that would come after it.
        let all = JsonPath::parse("$.*").unwrap();
        assert_eq!(all.select(&deep, &mut steps), Err(OutOfSteps));
    }
}

#[test]
fn comparing_and_searching_take_steps() {
    let long = "x".repeat(100_000);
    let many = vec![json!([[long.clone(), 1], [long, 2]]); 100];
    let value = json!({ "all": many });
    for path in ["$..[?@ == $.all]", "$.all[?$.all == $.all]", "$..[?search(@, 'xy')]"] {
        let path = JsonPath::parse(path).unwrap();
        let result = path.select(&value, &mut Steps::new(50_000));
        assert_eq!(result, Err(OutOfSteps), "{path:?}");
    }
}

#[test]
fn a_search_takes_steps_by_the_length_of_the_text_and_the_size_of_the_pattern() {
    let ends = |path: &str, value: &Value, n_steps: usize| {
        let path = JsonPath::parse(path).unwrap();
        path.select(value, &mut Steps::new(n_steps)).is_err()
    };
    let literal = format!("$[?search('{}', '[01]*1[01]{{200}}x')]", "01".repeat(450));
    assert!(ends(&literal, &json!(vec![0; 1_000]), 50_000));
    let text = json!(["a".repeat(100)]);
    assert!(!ends("$[?search(@, 'b')]", &text, 200));
    assert!(!ends(r"$[?search(@, '\\w{2}b')]", &text, 5_000));
    assert!(ends(r"$[?search(@, '\\w{2}b')]", &text, 200));
}

#[test]
fn a_path_is_short_and_nested_little_and_its_patterns_are_small_literals() {
    let refused = |path: &str| JsonPath::parse(path).unwrap_err().to_string();
    assert!(refused(&format!("$.{}", "a".repeat(MAX_PATH_BYTES))).len() < 200);
    for path in [
        format!("$[?{}@.a{}]", "(".repeat(900), ")".repeat(900)),
        format!("{}1{}", "$[?@".repeat(400), "]".repeat(400)),
        format!("$[?{}@.a]", "!".repeat(900)),
        format!("$[?{}@.a{} == 1]", "length(".repeat(200), ")".repeat(200)),
        "$[?match(@.a, '\\\\w{500}{500}')]".to_owned(),
        "$[?match(@.a, @.b)]".to_owned(),
    ] {
        refused(&path);
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-5_i64..5).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec(("[abc]", inner), 0..5)
                .prop_map(|members| members.into_iter().collect::<Value>()),
        ]
    })
}

fn path() -> impl Strategy<Value = String> {
    let index = -4_i64..5;
    let part =
        || prop::option::of(-4_i64..5).prop_map(|n| n.map_or(String::new(), |n| n.to_string()));
    let operand = prop_oneof![
        Just("@".to_owned()),
        Just("@.a".to_owned()),
        Just("@[0]".to_owned()),
        Just("$.b".to_owned()),
        Just("1".to_owned()),
        Just("'a'".to_owned()),
        Just("null".to_owned()),
        Just("length(@)".to_owned()),
        Just("count(@.*)".to_owned()),
        Just("count(@..a)".to_owned()),
    ];
    // Without `value`: of nothing, the other implementation compares it by rules of its own.
    let comparison = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let basic = prop_oneof![
        (operand.clone(), comparison, operand).prop_map(|(l, c, r)| format!("{l}{c} {r}")),
        Just("@.a".to_owned()),
        Just("!@..b".to_owned()),
        Just("match(@,'a.?')".to_owned()),
        Just("search(@, 'b')".to_owned()),
    ];
    let condition = basic.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(l, r)| format!("{l} && {r}")),
            (inner.clone(), inner.clone()).prop_map(|(l, r)| format!("{l}||{r}")),
            inner.prop_map(|inner| format!("!({inner})")),
        ]
    });
    let selector = prop_oneof![
        "[abc]".prop_map(|name| format!("'{name}'")),
        index.prop_map(|index| index.to_string()),
        Just("*".to_owned()),
        (part(), part(), part()).prop_map(|(start, end, step)| format!("{start}:{end}:{step}")),
        condition.prop_map(|condition| format!("?{condition}")),
    ];
    let segment = prop_oneof![
        "[.]{1,2}[abc]",
        "[.]{1,2}[*]",
        ("(\\.\\.)?", prop::collection::vec(selector, 1..3))
            .prop_map(|(dots, selectors)| format!("{dots}[{}]", selectors.join(", "))),
    ];
    prop::collection::vec(segment, 0..4).prop_map(|segments| format!("${}", segments.concat()))
}

proptest! {
    #[test]
    fn every_path_selects_the_nodes_that_another_implementation_selects(
        path in path(),
        value in json_value(),
    ) {
        let expected = reference(&path, &value);
        prop_assert_eq!(JsonPath::parse(&path).is_ok(), expected.is_some(), "{}", path);
        if let Some(expected) = expected && let Ok(selected) = select(&path, &value) {
            prop_assert_eq!(selected, expected, "{}", path);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[$@.\\[\\]?*!()'\"a0-9:,&|=<> -]{0,40}") {
        let own = JsonPath::parse(&format!("${text}"));
        let expected = serde_json_path::JsonPath::parse(&format!("${text}"));
        prop_assert_eq!(own.is_ok(), expected.is_ok(), "{}: {:?} {:?}", text, own, expected);
    }
}
