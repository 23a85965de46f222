//! Every vector in `tests/corpus/scorers` against the evaluator that is named after its file.
//!
//! Each file is either covered here or listed as not shipped; any other file fails the test. The README of the corpus
//! describes the format.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test a failure here is the message")]

use std::collections::BTreeSet;
use std::path::{self, PathBuf};

use perpend_plugin::host::{Host, with_host};
use perpend_plugin::model::{Completion, ModelError, Request};
use perpend_plugin::{EvalError, Item, Json, Payload, Plugin, Score};
use perpend_plugin_text::{Formula, TextStats};

type Evaluate = fn(&str, &Item, &str) -> Result<Vec<Score>, EvalError>;

const TEXT: Evaluate = perpend_plugin_text::ThisPlugin::evaluate;
const JSON: Evaluate = perpend_plugin_json::ThisPlugin::evaluate;

/// The implementation that a file tests.
enum Covered {
    /// One evaluator; `true` when it has the profiles py and js.
    By(Evaluate, bool),
    /// Counts and grades, which several evaluators use.
    Stats,
    /// The judge, with a given reply of the model.
    Reply,
}

const COVERED: [(&str, Covered); 13] = [
    ("exact_match", Covered::By(TEXT, true)),
    ("levenshtein", Covered::By(TEXT, true)),
    ("numeric_diff", Covered::By(TEXT, true)),
    ("json_diff", Covered::By(JSON, true)),
    ("valid_json", Covered::By(JSON, false)),
    ("normalized_exact", Covered::By(TEXT, false)),
    ("token_f1", Covered::By(TEXT, false)),
    ("includes", Covered::By(TEXT, false)),
    ("match", Covered::By(TEXT, false)),
    ("answer", Covered::By(TEXT, false)),
    ("pattern", Covered::By(TEXT, false)),
    ("text_stats", Covered::Stats),
    ("llm_choice", Covered::Reply),
];

const NOT_SHIPPED: [&str; 16] = [
    "bleu",
    "chrf",
    "corpus_bleu_chrf",
    "embedding_similarity",
    "list_contains",
    "moderation",
    "pii_free",
    "precision_recall",
    "ragas_aggregate",
    "retrieval",
    "rouge",
    "secret_free",
    "sql_valid",
    "string_similarity",
    "trajectory_match",
    "wer_cer",
];

fn folder() -> PathBuf {
    path::absolute("../../tests/corpus/scorers").unwrap()
}

fn member<'a>(value: &'a Json, name: &str) -> Option<&'a Json> {
    let Json::Object(members) = value else {
        return None;
    };
    members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn text(value: Option<&Json>) -> &str {
    match value {
        Some(Json::Text(text)) => text,
        _ => "",
    }
}

fn number(value: &Json) -> Option<f64> {
    match value {
        Json::Number(number) => Some(number.as_f64()),
        _ => None,
    }
}

/// The file of a scorer: its cases and the tolerance.
fn vectors(scorer: &str) -> (Vec<Json>, f64) {
    let file = std::fs::read_to_string(folder().join(format!("{scorer}.json"))).unwrap();
    let file = Json::parse(&file).unwrap();
    let Some(Json::Array(cases)) = member(&file, "cases") else { panic!("{scorer} has no cases") };
    (cases.clone(), member(&file, "tolerance").and_then(number).unwrap())
}

fn item(case: &Json) -> Item {
    let payload = |name| member(case, name).cloned().map(Payload::of);
    Item { output: payload("output"), expected_output: payload("expected"), ..Item::default() }
}

/// The parameters of a case as a configuration.
fn config(case: &Json, profile: Option<&str>) -> String {
    let Some(Json::Object(mut members)) =
        member(case, "params").cloned().or(Some(Json::Object(Vec::new())))
    else {
        panic!("params are no object")
    };
    members.retain(|(name, _)| name != "note");
    members.extend(profile.map(|profile| ("profile".to_owned(), Json::from(profile))));
    Json::Object(members).to_string()
}

/// The mismatch between a result and the vector, if any.
fn mismatch(answer: &Result<Vec<Score>, EvalError>, want: &Json, tolerance: f64) -> Option<String> {
    let mismatch_text = || Some(format!("expected {want}, got {answer:?}"));
    match (answer, member(want, "error"), member(want, "score")) {
        // The library has no number here: any finite number and any error is accepted.
        (Err(_), None, Some(Json::Object(_))) => None,
        (Ok(scores), None, Some(Json::Object(_))) => {
            let is_finite = |score: &Score| score.as_f64().is_some_and(f64::is_finite);
            if scores.iter().all(is_finite) { None } else { mismatch_text() }
        }
        (Err(EvalError::InvalidInput(_)), Some(_), _) => None,
        (Err(EvalError::NotApplicable(_)), None, Some(Json::Null)) => None,
        (Ok(scores), None, Some(score)) => {
            let [got] = scores.as_slice() else {
                return mismatch_text();
            };
            let close = number(score)
                .zip(got.as_f64())
                .is_some_and(|(want, got)| (want.clamp(0.0, 1.0) - got).abs() <= tolerance);
            // The metadata contains the intermediate values in the vector.
            let named = ["answer", "no_answer"].iter().all(|name| match member(want, name) {
                None => true,
                expected => {
                    got.metadata.iter().find(|(key, _)| key == name).map(|m| &m.1) == expected
                }
            });
            if close && named && got.comment.is_some() { None } else { mismatch_text() }
        }
        _ => mismatch_text(),
    }
}

#[test]
fn every_file_of_the_corpus_is_covered_or_listed_as_not_shipped() {
    let files: BTreeSet<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let named: Vec<String> =
        COVERED.iter().map(|(scorer, _)| *scorer).chain(NOT_SHIPPED).map(str::to_owned).collect();
    assert_eq!(named.iter().cloned().collect::<BTreeSet<_>>(), files);
    assert_eq!(named.len(), files.len(), "a file is named twice");
}

#[test]
fn evaluators_agree_with_the_scorers_corpus() {
    let mut wrong = Vec::new();
    let mut n_checked = 0;
    for (scorer, covered) in &COVERED {
        let Covered::By(evaluate, _) = covered else {
            continue;
        };
        let (cases, tolerance) = vectors(scorer);
        for case in &cases {
            let id = scorer.replace('_', "-");
            let answer = evaluate(&id, &item(case), &config(case, None));
            let want = member(case, "want").unwrap();
            let found = mismatch(&answer, want, tolerance);
            wrong.extend(found.map(|found| format!("{}: {found}", text(member(case, "id")))));
            n_checked += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {n_checked} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_checked > 400, "only {n_checked} vectors were found");
}

#[test]
fn profiles_agree_with_the_columns_of_the_scorers_corpus() {
    let mut wrong = Vec::new();
    for (scorer, covered) in &COVERED {
        let Covered::By(evaluate, true) = covered else {
            continue;
        };
        let (cases, tolerance) = vectors(scorer);
        for (case, profile) in cases.iter().flat_map(|case| [(case, "py"), (case, "js")]) {
            let Some(column) = member(case, profile) else {
                continue;
            };
            let is_free = ["js", "perpend"].contains(&text(member(case, "want_from")));
            if member(column, "raised").is_some() && is_free {
                continue;
            }
            let id = scorer.replace('_', "-");
            let answer = evaluate(&id, &item(case), &config(case, Some(profile)));
            let found = mismatch(&answer, column, tolerance);
            let id = text(member(case, "id"));
            wrong.extend(found.map(|found| format!("{id} ({profile}): {found}")));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn counts_of_texts_agree_with_the_scorers_corpus() {
    let (cases, tolerance) = vectors("text_stats");
    for case in &cases {
        let id = text(member(case, "id"));
        let stats = TextStats::of(text(member(case, "output")));
        let want = member(case, "want").unwrap();
        let counts = [
            ("bytes", stats.bytes),
            ("chars", stats.chars),
            ("words", stats.words),
            ("sentences", stats.sentences),
            ("lines", stats.lines),
            ("alnum", stats.alnum),
            ("letters", stats.letters),
            ("syllables", stats.syllables),
        ];
        for (name, got) in counts {
            assert_eq!(member(want, name), Some(&Json::from(got)), "{id} {name}");
        }
        let grades = [
            ("ari", Formula::Ari),
            ("coleman_liau", Formula::ColemanLiau),
            ("flesch", Formula::Flesch),
        ];
        for (name, formula) in grades {
            let (expected, got) = (member(want, name).and_then(number), formula.grade(&stats));
            assert_eq!(expected.is_some(), got.is_some(), "{id} {name}");
            let apart = expected.zip(got).map_or(0.0, |(expected, got)| (expected - got).abs());
            assert!(apart <= tolerance, "{id} {name}: expected {expected:?}, got {got:?}");
        }
    }
}

/// A host with the reply of a case: it reads the arguments of the call of the tool in the schema, and refuses
/// arguments that are not JSON.
struct Provider(Json);

impl Provider {
    fn arguments(&self, tool: &str) -> Option<&str> {
        let Some(Json::Array(choices)) = member(&self.0, "choices") else {
            return None;
        };
        let calls = member(member(choices.first()?, "message")?, "tool_calls")?;
        let Json::Array(calls) = calls else {
            return None;
        };
        let called = calls.iter().filter_map(|call| member(call, "function"));
        let mut called = called.filter(|function| text(member(function, "name")) == tool);
        Some(text(member(called.next()?, "arguments")))
    }
}

impl Host for Provider {
    fn complete(&self, request: &Request) -> Result<Completion, ModelError> {
        let schema = Json::parse(request.response_schema.as_deref().unwrap()).unwrap();
        let arguments = self.arguments(text(member(&schema, "title")));
        match arguments.filter(|arguments| Json::parse(arguments).is_ok()) {
            None => Err(ModelError::InvalidResponse("no call of the tool".into())),
            Some(arguments) => {
                Ok(Completion { structured: Some(arguments.to_owned()), ..Completion::of("") })
            }
        }
    }
}

#[test]
fn replies_of_models_agree_with_the_scorers_corpus() {
    let (cases, tolerance) = vectors("llm_choice");
    for case in &cases {
        let id = text(member(case, "id"));
        let params = member(case, "params").unwrap();
        let mut config = vec![
            ("prompt".to_owned(), Json::from("?")),
            ("choice_scores".to_owned(), member(params, "choice_scores").unwrap().clone()),
        ];
        let thinks = member(params, "use_cot").cloned();
        config.extend(thinks.map(|thinks| ("chain_of_thought".to_owned(), thinks)));
        let config = Json::Object(config).to_string();
        let provider = Provider(member(case, "reply").unwrap().clone());
        let answer = with_host(provider, || {
            perpend_plugin_judge::ThisPlugin::evaluate("judge", &Item::default(), &config)
        });
        let want = member(case, "want").unwrap();
        if let Some(error) = member(want, "error") {
            let Err(EvalError::Upstream(why)) = &answer else { panic!("{id}: {answer:?}") };
            assert!(why.contains(text(Some(error))), "{id}: {why}");
            continue;
        }
        let scores = answer.unwrap();
        let expected = member(want, "score").and_then(number).unwrap();
        assert!((scores[0].as_f64().unwrap() - expected).abs() <= tolerance, "{id}");
        let choice = scores[0].metadata.iter().find(|(key, _)| key == "choice");
        assert_eq!(choice.map(|(_, choice)| choice), member(want, "choice"), "{id}");
        let comment = Json::from(scores[0].comment.clone());
        assert_eq!(Some(&comment), member(want, "rationale"), "{id}");
    }
    assert!(cases.len() > 30, "only {} cases were found", cases.len());
}
