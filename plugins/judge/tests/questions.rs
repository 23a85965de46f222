//! Several questions in one request.

use perpend_plugin::model::{Completion, ModelError, Request};
use perpend_plugin::{EvalError, ScoreValue};
use serde_json::json;

use crate::support::{Run, item, run, schema, structured};

fn config() -> String {
    json!({
        "prompt": "About {{output}}",
        "questions": [
            { "name": "polite", "dataType": "BOOLEAN", "description": "Is it polite?" },
            { "name": "grade", "dataType": "NUMERIC", "score": { "minValue": 0, "maxValue": 10 }, "description": "How good?" },
            {
                "name": "tone", "dataType": "CATEGORICAL", "score": { "categories": ["warm", "cold"] },
                "description": "Which tone?", "when": "it is a letter",
            },
        ],
    })
    .to_string()
}

fn questions(answer: impl Fn(&Request) -> Result<Completion, ModelError> + 'static) -> Run {
    run("questions", &config(), &item(), answer)
}

fn names(run: &Run) -> Vec<(&str, ScoreValue)> {
    run.scores().iter().map(|score| (&*score.name, score.value.clone())).collect()
}

/// The number of questions in a request.
fn n_questions(request: &Request) -> usize {
    schema(request)["properties"].as_object().unwrap().len()
}

const POLITE: &str = r#""polite":{"reasoning":"thanks","score":true}"#;
const GRADE: &str = r#""grade":{"reasoning":"ok","score":7}"#;

#[test]
fn each_question_has_its_own_score() {
    let run = questions(|_| {
        Ok(structured(&format!(
            r#"{{{POLITE},{GRADE},"tone":{{"reasoning":"r","score":"cold"}}}}"#
        )))
    });
    let expected = [
        ("polite", ScoreValue::Boolean(true)),
        ("grade", ScoreValue::Numeric(7.0)),
        ("tone", ScoreValue::Categorical("cold".into())),
    ];
    assert_eq!(names(&run), expected);
    assert_eq!(run.scores()[0].comment.as_deref(), Some("thanks"));
    assert_eq!(run.requests.len(), 1);
    let question = &run.requests[0].messages[1].texts();
    assert!(
        question.ends_with("- `tone`: Which tone? (only when: it is a letter; otherwise null)"),
        "{question}"
    );
}

#[test]
fn the_schema_has_one_member_for_each_question_in_order() {
    let run = questions(|_| Ok(structured(&format!("{{{POLITE},{GRADE}}}"))));
    let schema = schema(&run.requests[0]);
    assert_eq!(schema["required"], json!(["polite", "grade", "tone"]));
    let grade = &schema["properties"]["grade"];
    assert_eq!(grade["required"], json!(["reasoning", "score"]));
    assert_eq!(
        grade["properties"]["score"],
        json!({ "type": "number", "minimum": 0.0, "maximum": 10.0 })
    );
    assert_eq!(schema["properties"]["tone"]["anyOf"][1], json!({ "type": "null" }));
}

#[test]
fn a_question_that_does_not_apply_has_no_score() {
    let run = questions(|_| Ok(structured(&format!(r#"{{{POLITE},{GRADE},"tone":null}}"#))));
    assert_eq!(names(&run).len(), 2);
    assert!(run.log[0].contains("tone"), "{:?}", run.log);
}

#[test]
fn a_malformed_answer_is_retried_individually_and_fails_individually() {
    let run = questions(|request| {
        let reply = match n_questions(request) {
            1 => r#"{"grade":{"reasoning":"r","score":12}}"#.to_owned(),
            _ => format!(r#"{{{POLITE},"grade":{{"reasoning":"r","score":11}},"tone":null}}"#),
        };
        Ok(structured(&reply))
    });
    assert_eq!(run.requests.len(), 2);
    assert_eq!(schema(&run.requests[1])["required"], json!(["grade"]));
    assert_eq!(names(&run), [("polite", ScoreValue::Boolean(true))]);
    assert!(
        run.log.iter().any(|line| line.contains("grade") && line.contains("malformed")),
        "{:?}",
        run.log
    );
}

#[test]
fn when_the_whole_reply_is_refused_each_question_is_retried_individually() {
    let run = questions(|request| {
        if n_questions(request) > 1 {
            return Err(ModelError::InvalidResponse("not JSON".into()));
        }
        let schema = schema(request);
        match schema["required"][0].as_str().unwrap() {
            "polite" => Ok(structured(&format!("{{{POLITE}}}"))),
            "grade" => Err(ModelError::Refused("no grades".into())),
            _ => Ok(structured(r#"{"tone":{"reasoning":"r","score":"warm"}}"#)),
        }
    });
    assert_eq!(run.requests.len(), 4);
    let named: Vec<_> = names(&run).into_iter().map(|(name, _)| name).collect();
    assert_eq!(named, ["polite", "tone"]);
    assert!(run.log[0].contains("no grades"), "{:?}", run.log);
}

#[test]
fn without_any_answer_the_evaluation_fails() {
    let run = questions(|_| Err(ModelError::Refused("no".into())));
    assert!(matches!(run.error(), EvalError::Upstream(_)));
    let busy = questions(|_| Err(ModelError::RateLimited("later".into())));
    assert_eq!(busy.requests.len(), 1, "a transient failure is not retried individually");
    assert_eq!(busy.error(), &EvalError::Upstream("later".into()));
}

#[test]
fn a_panel_votes_on_each_question() {
    let mut config: serde_json::Value = serde_json::from_str(&config()).unwrap();
    config["panel"] = json!({ "models": 3, "reducer": "majority" });
    let run = run("questions", &config.to_string(), &item(), |request| {
        let first = request.slot.as_deref() == Some("judge");
        let tone = if first { r#"{"reasoning":"r","score":"warm"}"# } else { "null" };
        Ok(structured(&format!(
            r#"{{"polite":{{"reasoning":"r","score":{first}}},{GRADE},"tone":{tone}}}"#
        )))
    });
    assert_eq!(
        names(&run),
        [("polite", ScoreValue::Boolean(false)), ("grade", ScoreValue::Numeric(7.0))]
    );
}
