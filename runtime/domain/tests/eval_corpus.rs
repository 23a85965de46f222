//! The vectors of `tests/corpus/eval`: every file there must be known here, every case must hold.

#![expect(clippy::unwrap_used, reason = "a broken corpus stops the test")]

use std::collections::BTreeSet;
use std::path::{self, PathBuf};

use perpend_domain::filter::{Cell, Column, ColumnKind, Filter, Row};
use perpend_domain::identity::{self, ExecutionKey};
use perpend_domain::ids::ExecutionId;
use perpend_domain::mapping::{self, JsonPath, MappingBudget};
use perpend_domain::time::Timestamp;
use perpend_domain::{sampling, template};
use serde_json::{Value, json};

fn corpus() -> PathBuf {
    path::absolute("../../tests/corpus/eval").unwrap()
}

fn read(name: &str) -> Value {
    let text = std::fs::read_to_string(corpus().join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn cases(file: &Value) -> &[Value] {
    file["cases"].as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn every_file_of_the_eval_corpus_is_tested() {
    let known = ["cron", "filters", "ids", "sampling", "template", "variable_extraction"];
    let found: BTreeSet<String> = std::fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, known.map(str::to_owned).into());
}

/// The columns that the vectors use, with the kinds that rows and list calls give them.
static COLUMNS: &[Column] = &[
    Column::new("name", ColumnKind::Text),
    Column::new("type", ColumnKind::Options),
    Column::new("environment", ColumnKind::Options),
    Column::new("level", ColumnKind::Options),
    Column::new("version", ColumnKind::Text),
    Column::new("traceName", ColumnKind::Options),
    Column::new("userId", ColumnKind::Text),
    Column::new("sessionId", ColumnKind::Text),
    Column::new("tags", ColumnKind::List),
    Column::new("metadata", ColumnKind::QueryMembers),
    Column::new("isRootObservation", ColumnKind::Bool),
    Column::new("toolCalls", ColumnKind::Number),
    Column::new("calledToolNames", ColumnKind::List),
    Column::new("startTime", ColumnKind::Time),
    Column::new("endTime", ColumnKind::Time),
    Column::new("latency", ColumnKind::Number),
    Column::new("scores_avg", ColumnKind::NumberMembers),
    Column::new("score_categories", ColumnKind::CategoryMembers),
    Column::new("score_booleans", ColumnKind::BoolMembers),
];

struct JsonRow<'a>(&'a Value);

impl Row for JsonRow<'_> {
    fn cell(&self, column: &'static str) -> Cell<'_> {
        match &self.0[column] {
            Value::Null => Cell::Null,
            Value::Bool(value) => Cell::Bool(*value),
            Value::Number(number) => Cell::Number(number.as_f64().unwrap()),
            Value::String(text) if column.ends_with("Time") => {
                Cell::Time(Timestamp::parse(text).unwrap())
            }
            Value::String(text) => Cell::text(Some(text)),
            Value::Array(list) => {
                let texts = list.iter().map(|text| text.as_str().unwrap().to_owned());
                Cell::List(texts.collect())
            }
            Value::Object(members) => Cell::Object(std::borrow::Cow::Borrowed(members)),
        }
    }
}

#[test]
fn filters_corpus() {
    let file = read("filters");
    for case in cases(&file) {
        let row = JsonRow(&file["rows"][case["row"].as_u64().unwrap() as usize]);
        let conditions = case["filter"].as_array().unwrap();
        // Some vectors ask what rows of an unknown column or of a type that does not fit are worth:
        // that is how filters are read which have become invalid after they were stored.
        let (filter, _) = Filter::parse_stored(conditions, COLUMNS);
        let want = case["want"].as_bool().unwrap();
        assert_eq!(filter.matches(&row), want, "{}: {:?}", case["id"], filter);
        assert_eq!(filter.first_failing(&row).is_none(), want, "{}", case["id"]);
    }
}

#[test]
fn a_failing_condition_on_a_boolean_score_reports_the_values_of_that_score() {
    let condition = json!({
        "type": "booleanObject", "column": "score_booleans", "key": "thumb", "operator": "=", "value": true
    });
    let (filter, _) = Filter::parse_stored(&[condition], COLUMNS);
    for (scores, want) in [
        (json!(["tone:true"]), Value::Null),
        (json!(["tone:true", "thumb:false"]), json!(false)),
        (json!(["thumb:false", "thumb:false"]), json!([false, false])),
    ] {
        let row = json!({ "score_booleans": scores });
        assert_eq!(filter.first_failing(&JsonRow(&row)).unwrap().actual, want, "{row}");
    }
}

#[test]
fn sampling_corpus() {
    for case in cases(&read("sampling")) {
        let value = sampling::value(text(&case["salt"]), text(&case["id_text"]));
        let rate = case["rate"].as_f64().unwrap();
        assert_eq!(value, case["want"]["value"].as_f64().unwrap(), "{}", case["id"]);
        let selected = case["want"]["selected"].as_bool().unwrap();
        assert_eq!(sampling::is_selected(value, rate), selected, "{}", case["id"]);
    }
}

#[test]
fn ids_corpus() {
    for case in cases(&read("ids")) {
        let number = |name: &str| case[name].as_u64().unwrap() as u32;
        let key = ExecutionKey {
            project: text(&case["project"]),
            rule: text(&case["rule"]),
            evaluator: text(&case["evaluator"]),
            target_kind: text(&case["target_kind"]),
            trace: text(&case["trace"]),
            observation: text(&case["observation"]),
            run: text(&case["run"]),
            item: text(&case["item"]),
            repetition: number("repetition"),
            generation: number("generation"),
        };
        let want = &case["want"];
        assert_eq!(key.text(), text(&want["key"]), "{}", case["id"]);
        let id: ExecutionId = key.execution_id();
        assert_eq!(id.as_str(), text(&want["execution_id"]), "{}", case["id"]);
        let names: Vec<&str> = case["scores"].as_array().unwrap().iter().map(text).collect();
        for (at, name) in names.iter().enumerate() {
            let occurrence = names[..at].iter().filter(|other| *other == name).count();
            let id = identity::score_id(&id, name, occurrence as u32);
            assert_eq!(id.as_str(), text(&want["score_ids"][at]), "{}", case["id"]);
        }
        assert!(is_a_call_span(&id, want), "{}: {}", case["id"], want["call_span_ids"]);
    }
}

/// The vectors give the spans of the calls (attempt, call) = (0, 0), (0, 1), (1, 0).
fn is_a_call_span(id: &ExecutionId, want: &Value) -> bool {
    let spans = [(0, 0), (0, 1), (1, 0)];
    spans.iter().enumerate().all(|(at, (attempt, call))| {
        identity::call_span_id(id, *attempt, *call) == text(&want["call_span_ids"][at])
    })
}

#[test]
fn template_corpus() {
    for case in cases(&read("template")) {
        let variables = case["variables"].as_array().unwrap();
        let filled = template::fill(text(&case["template"]), |name| {
            let variable = variables.iter().find(|variable| variable["var"] == name)?;
            Some(mapping::text(&variable["value"]))
        });
        assert_eq!(filled, text(&case["want"]), "{}", case["id"]);
    }
}

#[test]
fn variable_extraction_corpus() {
    let mut n_tested = 0;
    for case in cases(&read("variable_extraction")) {
        if text(&case["value"]).starts_with("{'") {
            // The peer parses Python's notation; the corpus does not require that.
            continue;
        }
        n_tested += 1;
        let want = &case["want"];
        let path = match case["selector"].as_str().map(JsonPath::parse).transpose() {
            Ok(path) => path,
            // Never reached by a saved mapping. On a bare value any path means the value.
            Err(_) if want.get("rejected").is_some() => continue,
            Err(_) => Some(JsonPath::parse("$").unwrap()),
        };
        assert!(want.get("rejected").is_none(), "{}", case["id"]);
        let mut budget = MappingBudget::default();
        let value = mapping::open(case["value"].clone(), &mut budget).unwrap();
        let value = mapping::extract(&value, path.as_ref(), &mut budget).unwrap();
        assert_eq!(value.is_none(), want["missing"] == true, "{}", case["id"]);
        let value = value.unwrap_or(Value::Null);
        assert!(same(&value, &want["value"]), "{}: {value}", case["id"]);
        assert_eq!(mapping::text(&value), text(&want["text"]), "{}", case["id"]);
    }
    assert!(200 < n_tested);
}

/// Equal as JSON: numbers by value.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}
