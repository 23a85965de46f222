//! `perpend/autoevals-js`: the npm package's scorers give what the package gives.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path;
use std::sync::{Arc, Mutex};

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{CallResult, FailureClass, Item, PluginScoreValue, SlotKind};
use perpend_tests_guests::{Guest, Missing, Model, Test, Tested, apart, tests};
use perpend_worker_protocol::host_call::{Completion, CompletionRequest, ModelError};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::{Value, json};

fn plugin() -> Result<&'static Guest, Missing> {
    apart("perpend/autoevals-js")
}

fn vectors(scorer: &str) -> (Vec<Value>, f64) {
    let folder = path::absolute("../corpus/scorers").unwrap();
    let text = std::fs::read_to_string(folder.join(format!("{scorer}.json"))).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].as_array().unwrap().clone();
    (cases, file["tolerance"].as_f64().unwrap())
}

fn item(case: &Value) -> Item {
    let payload = |name: &str| {
        case.get(name).map(|value| match value {
            Value::String(text) => Payload::Text(text.clone()),
            other => Payload::Json(other.to_string()),
        })
    };
    Item {
        id: "item".into(),
        input: payload("input"),
        output: payload("output"),
        expected_output: payload("expected"),
        ..Item::default()
    }
}

/// The parameters under the names that they have in JavaScript.
fn config(case: &Value) -> Value {
    let camel = |name: &str| {
        let mut parts = name.split('_');
        let mut camel = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            camel.push_str(&part[..1].to_uppercase());
            camel.push_str(&part[1..]);
        }
        camel
    };
    let params = case["params"].as_object().into_iter().flatten();
    let params = params.filter(|(name, _)| *name != "note");
    params.map(|(name, value)| (camel(name), value.clone())).collect()
}

/// What is wrong with an answer, if anything.
fn mismatch(result: &CallResult, column: &Value, tolerance: f64) -> Option<String> {
    let mismatch = || Some(format!("wanted {column}, got {:?}", result.outcome));
    let is_right = match (&result.outcome, &column["score"]) {
        (Err(failure), Value::Null) if column.get("error").is_some() => {
            failure.class == FailureClass::InvalidInput
        }
        (Err(failure), Value::Null) => failure.class == FailureClass::NotApplicable,
        // The library gave no number: neither do we.
        (Err(failure), Value::Object(_)) => failure.class == FailureClass::InvalidInput,
        (Ok(scores), Value::Number(wanted)) => {
            let wanted = wanted.as_f64().unwrap().clamp(0.0, 1.0);
            matches!(scores.as_slice(), [score] if matches!(score.value,
                PluginScoreValue::Numeric(got) if (wanted - got).abs() <= tolerance))
        }
        _ => false,
    };
    if is_right { None } else { mismatch() }
}

fn compare(scorer: &str, run: impl Fn(&Value) -> CallResult, tolerance: Option<f64>) {
    let (cases, exact) = vectors(scorer);
    let mut wrong = Vec::new();
    for case in &cases {
        let found = mismatch(&run(case), &case["js"], tolerance.unwrap_or(exact));
        wrong.extend(found.map(|found| format!("{}: {found}", case["id"])));
    }
    assert!(
        wrong.is_empty(),
        "{scorer}: {} of {} differ:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert!(cases.len() >= 30, "{scorer}: only {} vectors", cases.len());
}

fn pure_code_scorers_return_the_results_of_the_package() -> Tested {
    let guest = plugin()?;
    let scorers =
        ["levenshtein", "exact_match", "numeric_diff", "json_diff", "valid_json", "list_contains"];
    for scorer in scorers {
        let id = scorer.replace('_', "-");
        compare(scorer, |case| guest.result(&id, &config(case), &item(case)), None);
    }
    Ok(())
}

fn embeddings_come_from_the_host() -> Tested {
    let guest = plugin()?;
    let run = |case: &Value| {
        let vectors: Vec<Vec<f32>> = serde_json::from_value(case["vectors"].clone()).unwrap();
        let next = Mutex::new(vectors.into_iter());
        let model = Model::with_host(
            |_| Err(ModelError::Unavailable("no chat".into())),
            move |request| match request {
                HostRequest::Embed { .. } => {
                    let vector = next.lock().unwrap().next().unwrap();
                    Some(HostReply::Embed(Ok(vec![vector])))
                }
                _ => None,
            },
        );
        let texts = json!({ "output": "one", "expected": "other" });
        guest.through(model).result("embedding-similarity", &config(case), &item(&texts))
    };
    // Vectors cross the boundary as 32-bit numbers.
    compare("embedding_similarity", run, Some(1e-5));
    Ok(())
}

fn question() -> Item {
    item(&json!({ "input": "Where is Paris?", "output": "In France.", "expected": "France" }))
}

/// Replies with the choice through the tool that the scorer offers.
fn choosing(choice: &'static str) -> Arc<Model> {
    Model::new(move |request| {
        let text = json!({ "reasons": ["1. because"], "choice": choice }).to_string();
        Ok(Model::completion(request, &text))
    })
}

fn judges_ask_the_host_with_their_own_prompt_and_choices() -> Tested {
    let guest = plugin()?;
    let choices = [("A", 0.4), ("B", 0.6), ("C", 1.0), ("D", 0.0), ("E", 1.0)];
    for (choice, expected) in choices {
        let model = choosing(choice);
        let judge = guest.through(Arc::<Model>::clone(&model));
        let scores = judge.scores("factuality", &json!({}), &question());
        assert_eq!(scores[0].name, "Factuality");
        assert_eq!(scores[0].value, PluginScoreValue::Numeric(expected), "{choice}");
        assert_eq!(scores[0].comment.as_deref(), Some("1. because"));
        let requests = model.completions();
        assert_eq!(requests.len(), 1);
        let prompt = requests[0].messages[0].texts();
        for part in ["Where is Paris?", "In France.", "factual content"] {
            assert!(prompt.contains(part), "{part}: {prompt}");
        }
        let schema: Value =
            serde_json::from_str(requests[0].response_schema.as_ref().unwrap()).unwrap();
        assert_eq!(schema["properties"]["choice"]["enum"], json!(["A", "B", "C", "D", "E"]));
    }
    Ok(())
}

fn every_model_graded_scorer_runs_on_the_host() -> Tested {
    let guest = plugin()?;
    // id, configuration, choice, score
    let judges = [
        ("closed-qa", json!({ "criteria": "short" }), "Y", 1.0),
        ("battle", json!({ "instructions": "Answer." }), "No", 0.0),
        ("battle", json!({}), "Yes", 1.0),
        ("humor", json!({}), "Unsure", 0.5),
        ("possible", json!({}), "B", 1.0),
        ("security", json!({}), "No", 1.0),
        ("sql", json!({}), "Correct", 1.0),
        ("summary", json!({}), "A", 0.0),
        ("translation", json!({ "language": "French" }), "N", 0.0),
    ];
    for (id, config, choice, expected) in judges {
        let scores = guest.through(choosing(choice)).scores(id, &config, &question());
        assert_eq!(scores[0].value, PluginScoreValue::Numeric(expected), "{id}");
    }
    let custom = json!({ "name": "Tone", "promptTemplate": "Is {{output}} kind?", "choiceScores": { "kind": 1, "rude": 0.25 }, "useCoT": false });
    let scores = guest.through(choosing("rude")).scores("llm-classifier", &custom, &question());
    assert_eq!(
        (scores[0].name.as_str(), &scores[0].value),
        ("Tone", &PluginScoreValue::Numeric(0.25))
    );
    Ok(())
}

/// Replies to the retrieval scorers through their tools, and returns the same embedding for every text.
fn retrieving() -> Arc<Model> {
    let answer = |request: &CompletionRequest| -> Result<Completion, ModelError> {
        let schema = request.response_schema.clone().unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let has = |name: &str| schema["properties"].get(name).is_some();
        let answer = if has("entities") {
            json!({ "entities": ["Paris"] })
        } else if has("sentences") {
            json!({ "sentences": [{ "sentence": "In France.", "reasons": ["r"] }] })
        } else if has("verdict") {
            json!({ "reason": "r", "verdict": 1 })
        } else if has("faithfulness") {
            json!({ "faithfulness": [{ "statement": "s", "reason": "r", "verdict": 1 }, { "statement": "t", "reason": "r", "verdict": 0 }] })
        } else if has("question") {
            json!({ "question": "Where?", "noncommittal": 0 })
        } else if has("TP") {
            json!({ "TP": ["a"], "FP": ["b"], "FN": ["c"] })
        } else if schema["properties"]["statements"]["items"]["type"] == "string" {
            json!({ "statements": ["s", "t"] })
        } else {
            json!({ "statements": [{ "statement": "s", "attributed": 1, "reason": "r" }, { "statement": "t", "attributed": 0, "reason": "r" }] })
        };
        Ok(Model::completion(request, &answer.to_string()))
    };
    Model::with_host(answer, |request| match request {
        HostRequest::Embed { texts, .. } => {
            Some(HostReply::Embed(Ok(texts.iter().map(|_| vec![3.0, 4.0]).collect())))
        }
        _ => None,
    })
}

fn scorers_for_retrieval_run_on_the_host() -> Tested {
    let guest = plugin()?;
    let item = Item {
        metadata: Some(json!({ "context": ["Paris lies", "in France."] }).to_string()),
        ..question()
    };
    let scorers = [
        ("faithfulness", 0.5),
        ("context-precision", 1.0),
        ("context-recall", 0.5),
        ("context-relevancy", 10.0 / 21.0),
        ("context-entity-recall", 1.0),
        ("answer-relevancy", 1.0),
        ("answer-similarity", 1.0),
        ("answer-correctness", 0.75 * 0.5 + 0.25),
    ];
    for (id, expected) in scorers {
        let model = retrieving();
        let scores = guest.through(Arc::<Model>::clone(&model)).scores(id, &json!({}), &item);
        let PluginScoreValue::Numeric(got) = scores[0].value else {
            panic!("{id}: {:?}", scores[0]);
        };
        assert!((got - expected).abs() < 1e-9, "{id}: {got}, wanted {expected}");
    }
    // The questions for one answer are sent together, each with its own seed.
    let model = retrieving();
    let _ =
        guest.through(Arc::<Model>::clone(&model)).scores("answer-relevancy", &json!({}), &item);
    let requests = model.requests();
    let HostRequest::Complete(questions) = &requests[0] else {
        panic!("{requests:?}");
    };
    assert_eq!(questions.len(), 3);
    assert!(questions[1].seed.is_some() && questions[1].seed != questions[2].seed);
    Ok(())
}

fn errors_have_the_failure_class_that_decides_about_retries() -> Tested {
    let guest = plugin()?;
    let limited = Model::failing(ModelError::RateLimited("later".into()));
    let failure = guest.through(limited).failure("factuality", &json!({}), &question());
    assert_eq!(failure.class, FailureClass::UpstreamUnavailable, "{}", failure.message);
    let failure = guest.failure("factuality", &json!({}), &question());
    assert!(failure.message.contains("not-granted"), "{}", failure.message);
    let failure = guest.through(choosing("Z")).failure("factuality", &json!({}), &question());
    assert!(failure.message.contains("choice Z"), "{}", failure.message);
    let failure = guest.failure("levenshtein", &json!({}), &item(&json!({ "output": "x" })));
    assert_eq!(failure.class, FailureClass::InvalidInput);
    let failure = guest.failure("faithfulness", &json!({}), &question());
    assert_eq!(failure.class, FailureClass::InvalidInput, "{}", failure.message);
    assert!(failure.message.contains("context"), "{}", failure.message);
    Ok(())
}

fn the_names_are_those_of_the_package_and_slots_are_declared() -> Tested {
    let info = plugin()?.info();
    assert_eq!(info.capabilities.names(), ["model"]);
    let mut names: Vec<&str> = info.evaluators.iter().map(|info| info.title.as_str()).collect();
    names.sort_unstable();
    let expected = [
        "AnswerCorrectness",
        "AnswerRelevancy",
        "AnswerSimilarity",
        "Battle",
        "ClosedQA",
        "ContextEntityRecall",
        "ContextPrecision",
        "ContextRecall",
        "ContextRelevancy",
        "EmbeddingSimilarity",
        "ExactMatch",
        "Factuality",
        "Faithfulness",
        "Humor",
        "JSONDiff",
        "LLMClassifier",
        "Levenshtein",
        "ListContains",
        "NumericDiff",
        "Possible",
        "Security",
        "Sql",
        "Summary",
        "Translation",
        "ValidJSON",
    ];
    assert_eq!(names, expected);
    for evaluator in &info.evaluators {
        let is_pure = evaluator.slots.iter().all(|slot| !slot.required);
        let pure = [
            "levenshtein",
            "exact-match",
            "numeric-diff",
            "json-diff",
            "valid-json",
            "list-contains",
        ];
        assert_eq!(is_pure, pure.contains(&evaluator.id.as_str()), "{}", evaluator.id);
        let kinds = evaluator.slots.iter().map(|slot| (slot.name.as_str(), slot.kind));
        for (name, kind) in kinds {
            let expected = if name == "judge" { SlotKind::Chat } else { SlotKind::Embedding };
            assert_eq!(kind, expected, "{}", evaluator.id);
        }
    }
    Ok(())
}

pub(crate) fn all() -> Vec<Test> {
    tests![
        pure_code_scorers_return_the_results_of_the_package,
        embeddings_come_from_the_host,
        judges_ask_the_host_with_their_own_prompt_and_choices,
        every_model_graded_scorer_runs_on_the_host,
        scorers_for_retrieval_run_on_the_host,
        errors_have_the_failure_class_that_decides_about_retries,
        the_names_are_those_of_the_package_and_slots_are_declared,
    ]
}
