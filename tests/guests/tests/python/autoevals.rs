//! The scorers of the Python package autoevals: the built-in plug-in `perpend/autoevals-py`.

use std::path;

use perpend_domain::payload::Payload;
use perpend_domain::plugin::{FailureClass, Item, PluginScoreValue, SlotKind};
use perpend_tests_guests::{Guest, Missing, Model, Test, Tested, apart, item, output, tests};
use perpend_worker_protocol::{HostReply, HostRequest};
use serde_json::{Value, json};

const PURE: [(&str, &str); 6] = [
    ("levenshtein", "Levenshtein"),
    ("exact_match", "ExactMatch"),
    ("numeric_diff", "NumericDiff"),
    ("json_diff", "JSONDiff"),
    ("valid_json", "ValidJSON"),
    ("list_contains", "ListContains"),
];

fn guest() -> Result<&'static Guest, Missing> {
    apart("perpend/autoevals-py")
}

fn corpus(name: &str) -> Vec<Value> {
    let root = path::absolute("../corpus/scorers").unwrap();
    let text = std::fs::read_to_string(root.join(format!("{name}.json"))).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    let cases = file["cases"].take();
    cases.as_array().unwrap().clone()
}

fn payload(value: Option<&Value>) -> Option<Payload> {
    value.map(|value| match value {
        Value::String(text) => Payload::Text(text.clone()),
        other => Payload::Json(other.to_string()),
    })
}

fn numeric(value: &PluginScoreValue) -> f64 {
    match value {
        PluginScoreValue::Numeric(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

fn names_are_those_of_the_package() -> Tested {
    let guest = guest()?;
    let info = guest.info();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("perpend/autoevals-py", "0.4.1"));
    let names: Vec<&str> = info.evaluators.iter().map(|one| one.title.as_str()).collect();
    let known = [
        "Levenshtein",
        "ExactMatch",
        "NumericDiff",
        "JSONDiff",
        "ValidJSON",
        "ListContains",
        "Factuality",
        "ClosedQA",
        "Battle",
        "Humor",
        "Possible",
        "Security",
        "Sql",
        "Summary",
        "Translation",
        "EmbeddingSimilarity",
        "Faithfulness",
        "ContextPrecision",
        "ContextRecall",
        "ContextRelevancy",
        "ContextEntityRecall",
        "AnswerRelevancy",
        "AnswerSimilarity",
        "AnswerCorrectness",
        "LLMClassifier",
    ];
    assert_eq!(names, known);
    let judged = info.evaluators.iter().find(|one| one.id == "factuality").unwrap();
    assert_eq!(
        (judged.scores[0].name.as_str(), judged.slots[0].kind),
        ("Factuality", SlotKind::Chat)
    );
    let pure = info.evaluators.iter().find(|one| one.id == "levenshtein").unwrap();
    assert!(pure.slots.is_empty());
    Ok(())
}

fn scorers_without_a_model_return_the_results_of_the_package() -> Tested {
    let guest = guest()?;
    let (mut n_cases, mut wrong) = (0, Vec::new());
    for (name, score_name) in PURE {
        for case in corpus(name) {
            n_cases += 1;
            let subject = Item {
                output: payload(case.get("output")),
                expected_output: payload(case.get("expected")),
                ..item("case")
            };
            let config = case.get("params").cloned().unwrap_or_else(|| json!({}));
            let result = guest.result(&name.replace('_', "-"), &config, &subject);
            let column = &case["py"];
            let agrees = match (&result.outcome, column["score"].as_f64()) {
                (Ok(scores), Some(wanted)) => {
                    scores[0].name == score_name
                        && (numeric(&scores[0].value) - wanted).abs() <= 1e-12
                }
                (Err(failure), None) => failure.class == FailureClass::InvalidInput,
                _ => false,
            };
            if !agrees {
                wrong.push(format!("{}: {column} {:?}", case["id"], result.outcome));
            }
        }
    }
    assert!(300 < n_cases, "{n_cases}");
    assert!(wrong.is_empty(), "{} of {n_cases}:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

fn lists_of_500_letters_are_compared_within_the_limits() -> Tested {
    // A text is a list of its letters.
    let text = "the letters of a text in an order that repeats ".repeat(11);
    let text = &text[..500];
    let subject = Item {
        expected_output: Some(Payload::Text(text.replacen("order", "o_der", 1))),
        ..output(text)
    };
    let scores = guest()?.scores("list-contains", &json!({}), &subject);
    assert!((numeric(&scores[0].value) - 0.998).abs() <= 1e-9, "{scores:?}");
    Ok(())
}

fn a_judge_requests_one_choice_and_scores_it() -> Tested {
    let model = Model::saying(r#"{"reasons": "it adds a detail", "choice": "B"}"#);
    let guest = guest()?.through(model.clone());
    let subject = Item {
        input: Some(Payload::Text("Which city?".to_owned())),
        expected_output: Some(Payload::Text("Bern".to_owned())),
        ..output("Bern, on the Aare")
    };
    let config = json!({ "use_cot": true, "temperature": 0 });
    let scores = guest.scores("factuality", &config, &subject);
    assert_eq!((scores[0].name.as_str(), numeric(&scores[0].value)), ("Factuality", 0.6));
    assert_eq!(scores[0].comment.as_deref(), Some("it adds a detail"));
    let [request] = &model.completions()[..] else { panic!("one question") };
    assert_eq!(request.temperature, Some(0.0));
    let prompt = request.messages[0].texts();
    assert!(
        prompt.contains("[Question]: Which city?") && prompt.contains("[Expert]: Bern\n"),
        "{prompt}"
    );
    let schema: Value = serde_json::from_str(request.response_schema.as_deref().unwrap()).unwrap();
    assert_eq!(schema["properties"]["choice"]["enum"], json!(["A", "B", "C", "D", "E"]));
    Ok(())
}

fn choices_are_read_as_the_package_reads_them() -> Tested {
    let guest = guest()?;
    let (mut n_scored, mut n_refused) = (0, 0);
    for case in corpus("llm_choice") {
        let call = &case["reply"]["choices"][0]["message"]["tool_calls"][0]["function"];
        let Some(reply) = call["arguments"].as_str().filter(|_| call["name"] == "select_choice")
        else {
            // Not tested: the host only returns replies that satisfy the schema.
            continue;
        };
        if serde_json::from_str::<Value>(reply).is_err() {
            continue;
        }
        let mut config = case["params"].clone();
        config["prompt_template"] = json!("Judge {{output}}");
        config["name"] = json!("Mine");
        let reply = reply.to_owned();
        let model = Model::new(move |request| Ok(Model::completion(request, &reply)));
        let called = with_model(guest, model, "llm-classifier", &config);
        match (case["want"]["score"].as_f64(), called) {
            (Some(wanted), Ok(score)) => {
                assert!((score - wanted).abs() <= 1e-12, "{}: {score}", case["id"]);
                n_scored += 1;
            }
            (None, Err(class)) => {
                assert_eq!(class, FailureClass::Transient, "{}", case["id"]);
                n_refused += 1;
            }
            other => panic!("{}: {other:?}", case["id"]),
        }
    }
    assert!(10 < n_scored && 0 < n_refused, "{n_scored} {n_refused}");
    Ok(())
}

/// The score of a call with everything that a judge may want, or the class of its failure.
fn with_model(
    guest: &Guest,
    model: std::sync::Arc<Model>,
    evaluator: &str,
    config: &Value,
) -> Result<f64, FailureClass> {
    let text = |text: &str| Some(Payload::Text(text.to_owned()));
    let subject = Item {
        input: text("question"),
        expected_output: text("wanted"),
        metadata: Some(json!({ "context": "short" }).to_string()),
        ..output("answer")
    };
    let outcome = guest.through(model).result(evaluator, config, &subject).outcome;
    outcome.map(|scores| numeric(&scores[0].value)).map_err(|failure| failure.class)
}

fn retrieval_scorers_return_the_results_of_the_package() -> Tested {
    let guest = guest()?;
    let mut n_cases = 0;
    for case in corpus("ragas_aggregate") {
        let metric = case["metric"].as_str().unwrap().replace('_', "-");
        if !["context-recall", "context-precision", "context-relevancy", "faithfulness"]
            .contains(&metric.as_str())
        {
            continue;
        }
        n_cases += 1;
        // Faithfulness requests the statements first.
        let mut reply = case["tool_output"].clone();
        reply["statements"] = match &reply["statements"] {
            Value::Null => json!([]),
            statements => statements.clone(),
        };
        let model = Model::saying(&reply.to_string());
        let context = case["context"].as_str().unwrap_or("short");
        let called = with_model(guest, model, &metric, &json!({ "context": context }));
        match case["want"]["score"].as_f64() {
            Some(wanted) => assert!((called.unwrap() - wanted).abs() <= 1e-12, "{case}"),
            None => assert_eq!(called, Err(FailureClass::NotApplicable), "{case}"),
        }
    }
    assert!(8 < n_cases, "{n_cases}");
    Ok(())
}

fn similarities_come_from_the_hosts_vectors() -> Tested {
    let guest = guest()?;
    let mut n_cases = 0;
    for case in corpus("embedding_similarity") {
        let vectors: Vec<Vec<f32>> = serde_json::from_value(case["vectors"].clone()).unwrap();
        let model = Model::with_host(
            |request| Ok(Model::completion(request, "{}")),
            move |request| match request {
                HostRequest::Embed { texts, slot } if slot.as_deref() == Some("embedding") => {
                    let vector = &vectors[usize::from(texts[0] == "wanted")];
                    Some(HostReply::Embed(Ok(vec![vector.clone()])))
                }
                _ => None,
            },
        );
        let expected_min = case["params"]["expected_min"].as_f64().unwrap_or(0.7);
        let config = json!({ "prefix": "", "expected_min": expected_min });
        let score = with_model(guest, model, "embedding-similarity", &config).unwrap();
        let wanted = case["want"]["score"].as_f64().unwrap();
        // Vectors cross the boundary with 32 bits.
        assert!((score - wanted).abs() < 1e-5, "{case}: {score}");
        n_cases += 1;
    }
    assert!(30 < n_cases, "{n_cases}");
    Ok(())
}

fn repeated_questions_are_not_answered_from_the_cache() -> Tested {
    let model = Model::with_host(
        |request| {
            let reply = format!(r#"{{"question": "q{:?}", "noncommittal": 0}}"#, request.seed);
            Ok(Model::completion(request, &reply))
        },
        |request| match request {
            HostRequest::Embed { .. } => Some(HostReply::Embed(Ok(vec![vec![1.0, 0.0]]))),
            _ => None,
        },
    );
    let config = json!({ "strictness": 3 });
    assert_eq!(with_model(guest()?, model.clone(), "answer-relevancy", &config), Ok(1.0));
    let seeds: Vec<Option<u64>> = model.completions().iter().map(|request| request.seed).collect();
    assert_eq!(seeds, [None, Some(8), Some(9)]);
    Ok(())
}

pub(crate) fn tests() -> Vec<Test> {
    tests![
        names_are_those_of_the_package,
        scorers_without_a_model_return_the_results_of_the_package,
        lists_of_500_letters_are_compared_within_the_limits,
        a_judge_requests_one_choice_and_scores_it,
        choices_are_read_as_the_package_reads_them,
        retrieval_scorers_return_the_results_of_the_package,
        similarities_come_from_the_hosts_vectors,
        repeated_questions_are_not_answered_from_the_cache,
    ]
}
