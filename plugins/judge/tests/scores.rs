//! The scores of a reply.

use perpend_plugin::model::{Completion, FinishReason, ModelError, TokenLogprob};
use perpend_plugin::{EvalError, Json, ScoreValue};
use serde_json::json;

use crate::support::{item, judge, metadata, run, schema, structured};

const NUMERIC: &str = r#"{"prompt":"?","output":{"dataType":"NUMERIC","reasoning":{"description":"why"},
    "score":{"description":"how good","minValue":1,"maxValue":5}}}"#;
const CHOICES: &str = r#"{"prompt":"?","choice_scores":{"good":1,"fair":0.5,"bad":0}}"#;

fn categories(several: bool) -> String {
    let score = json!({ "categories": ["a", "b", "c"], "shouldAllowMultipleMatches": several });
    json!({ "prompt": "?", "output": { "dataType": "CATEGORICAL", "score": score } }).to_string()
}

#[test]
fn the_schema_of_a_reply_has_the_reasoning_first() {
    let run = judge(NUMERIC, r#"{"reasoning":"fine","score":4}"#);
    let text = run.requests[0].response_schema.as_deref().unwrap();
    let expected = json!({
        "type": "object",
        "required": ["reasoning", "score"],
        "properties": {
            "reasoning": { "type": "string", "description": "why" },
            "score": { "type": "number", "minimum": 1.0, "maximum": 5.0, "description": "how good" },
        },
        "additionalProperties": false,
    });
    assert_eq!(schema(&run.requests[0]), expected);
    assert!(text.find(r#""reasoning":{"#) < text.find(r#""score":{"#));
    assert_eq!(run.score().name, "judge");
    assert_eq!(run.score().value, ScoreValue::Numeric(4.0));
    assert_eq!(run.score().comment.as_deref(), Some("fine"));
    assert_eq!(metadata(run.score(), "model"), Some(&Json::from("test")));
}

#[test]
fn a_number_out_of_bounds_or_in_quotes_is_malformed_and_never_clamped() {
    for score in ["0", "5.01", "1e999", "\"4\"", "null", "true"] {
        let run = judge(NUMERIC, &format!(r#"{{"reasoning":"r","score":{score}}}"#));
        let EvalError::Upstream(text) = run.error() else { unreachable!("{:?}", run.outcome) };
        assert!(text.contains("malformed_judge_output"), "{text}");
    }
}

#[test]
fn the_legacy_form_is_a_number_without_bounds() {
    let config = r#"{"prompt":"?","output":{"score":"how good","reasoning":"why"}}"#;
    let run = judge(config, r#"{"reasoning":"r","score":-1200.5}"#);
    assert_eq!(run.score().value, ScoreValue::Numeric(-1200.5));
    assert_eq!(
        schema(&run.requests[0])["properties"]["score"],
        json!({ "type": "number", "description": "how good" })
    );
}

#[test]
fn a_boolean_is_a_boolean_score() {
    let config = r#"{"prompt":"?","output":{"dataType":"BOOLEAN","score":{}}}"#;
    let run = judge(config, r#"{"reasoning":"r","score":false}"#);
    assert_eq!(run.score().value, ScoreValue::Boolean(false));
    assert!(judge(config, r#"{"reasoning":"r","score":0}"#).outcome.is_err());
}

#[test]
fn one_category_is_one_score_and_several_are_one_each() {
    let one = judge(&categories(false), r#"{"reasoning":"r","score":"b"}"#);
    assert_eq!(one.score().value, ScoreValue::Categorical("b".into()));
    let several = judge(&categories(true), r#"{"reasoning":"r","score":["c","a"]}"#);
    let values: Vec<_> =
        several.scores().iter().map(|score| (&*score.name, score.value.clone())).collect();
    let expected = ["c", "a"].map(|name| ("judge", ScoreValue::Categorical(name.into())));
    assert_eq!(values, expected);
    let expected = json!({
        "type": "array",
        "items": { "type": "string", "enum": ["a", "b", "c"] },
        "minItems": 1, "maxItems": 3, "uniqueItems": true,
    });
    assert_eq!(schema(&several.requests[0])["properties"]["score"], expected);
    for score in [r#""B""#, r#""d""#, r#"["a"]"#] {
        assert!(judge(&categories(false), &format!(r#"{{"score":{score}}}"#)).outcome.is_err());
    }
    for score in ["[]", r#"["a","a"]"#, r#"["a","x"]"#, r#""a""#] {
        assert!(judge(&categories(true), &format!(r#"{{"score":{score}}}"#)).outcome.is_err());
    }
}

#[test]
fn the_score_of_a_choice_is_its_number_and_the_choice_is_in_the_metadata() {
    let run = judge(CHOICES, r#"{"reasons":"so so","choice":"fair"}"#);
    assert_eq!(run.score().value, ScoreValue::Numeric(0.5));
    assert_eq!(metadata(run.score(), "choice"), Some(&Json::from("fair")));
    assert_eq!(run.score().comment.as_deref(), Some("so so"));
    let schema = schema(&run.requests[0]);
    assert_eq!(schema["title"], "select_choice");
    assert_eq!(schema["required"], json!(["reasons", "choice"]));
    assert_eq!(schema["properties"]["choice"]["enum"], json!(["good", "fair", "bad"]));
    let question = &run.requests[0].messages[0].texts();
    assert!(question.ends_with(r#"exactly one of: "good", "fair", "bad"."#), "{question}");
}

#[test]
fn without_chain_of_thought_no_reasons_are_requested() {
    let config = CHOICES.replace("\"?\"", "\"?\",\"chain_of_thought\":false");
    let run = judge(&config, r#"{"choice":"good"}"#);
    assert_eq!(schema(&run.requests[0])["required"], json!(["choice"]));
    assert_eq!(run.score().comment, None);
}

#[test]
fn an_error_of_the_model_is_an_upstream_error() {
    for error in [
        ModelError::RateLimited("slow down".into()),
        ModelError::Refused("slow down".into()),
        ModelError::InvalidResponse("slow down".into()),
        ModelError::NotGranted("slow down".into()),
    ] {
        let run = run("judge", CHOICES, &item(), move |_| Err(error.clone()));
        assert!(
            matches!(run.error(), EvalError::Upstream(text) if text.contains("slow down")),
            "{:?}",
            run.outcome
        );
    }
}

fn token(text: &str, alternatives: &[(&str, f32)]) -> TokenLogprob {
    let own = alternatives.iter().find(|(other, _)| *other == text);
    TokenLogprob {
        token: text.to_owned(),
        logprob: own.map_or(0.0, |(_, share)| share.ln()),
        alternatives: alternatives
            .iter()
            .map(|(other, share)| ((*other).to_owned(), share.ln()))
            .collect(),
    }
}

fn with_tokens(deciding: &[(&str, f32)]) -> Completion {
    let reply = r#"{"reasons":"r","choice":"good"}"#;
    Completion {
        logprobs: vec![
            token(r#"{"reasons":"r","choice":""#, &[]),
            token("good", deciding),
            token(r#""}"#, &[]),
        ],
        ..structured(reply)
    }
}

#[test]
fn a_weighted_score_is_the_expectation_over_the_choices() {
    let config = CHOICES.replace("\"?\"", "\"?\",\"weighted\":true");
    let run = run("judge", &config, &item(), |_| {
        Ok(with_tokens(&[("good", 0.5), ("fair", 0.25), ("bad", 0.25)]))
    });
    assert_eq!(run.requests[0].top_logprobs, Some(20));
    let ScoreValue::Numeric(number) = run.score().value else { unreachable!("{:?}", run.outcome) };
    assert!((number - 0.625).abs() < 1e-6, "{number}");
    assert_eq!(metadata(run.score(), "weighted"), Some(&Json::from(true)));
    assert_eq!(metadata(run.score(), "choice"), Some(&Json::from("good")));
    assert!(
        metadata(run.score(), "distribution").is_some()
            && metadata(run.score(), "margin").is_some()
    );
}

#[test]
fn a_distribution_with_low_coverage_keeps_the_choice_and_is_marked() {
    let config = CHOICES.replace("\"?\"", "\"?\",\"weighted\":true,\"logprobs\":3");
    let run = run("judge", &config, &item(), |_| {
        Ok(with_tokens(&[("good", 0.5), ("fair", 0.25), ("xyz", 0.25)]))
    });
    assert_eq!(run.requests[0].top_logprobs, Some(3));
    assert_eq!(run.score().value, ScoreValue::Numeric(1.0));
    assert_eq!(metadata(run.score(), "weighted"), Some(&Json::from(false)));
    assert!(metadata(run.score(), "coverage").is_some());
}

#[test]
fn a_provider_without_log_probabilities_gives_the_plain_choice() {
    let config = CHOICES.replace("\"?\"", "\"?\",\"weighted\":true");
    let run = judge(&config, r#"{"reasons":"r","choice":"bad"}"#);
    assert_eq!(run.score().value, ScoreValue::Numeric(0.0));
    assert_eq!(metadata(run.score(), "distribution"), None);
    assert_eq!(metadata(run.score(), "weighted"), Some(&Json::from(false)));
}

const GRADED: &str = r#"{"prompt":"?","choice_scores":{"C":1,"I":0},"pattern":"GRADE: (\\w+)"}"#;

#[test]
fn a_verdict_in_free_text_is_read_outside_of_reasoning_blocks_and_quotations() {
    let run = run("judge", GRADED, &item(), |_| {
        Ok(Completion::of("<think>GRADE: C?</think>\nIt says \"GRADE: C\".\nGRADE: I"))
    });
    assert_eq!(run.score().value, ScoreValue::Numeric(0.0));
    assert_eq!(run.requests[0].response_schema, None);
    assert_eq!(metadata(run.score(), "choice"), Some(&Json::from("I")));
}

#[test]
fn an_unknown_verdict_is_retried_in_the_same_conversation() {
    let second = run("judge", GRADED, &item(), |request| {
        Ok(Completion::of(if request.messages.len() == 1 { "GRADE: P" } else { "GRADE: C" }))
    });
    assert_eq!(second.score().value, ScoreValue::Numeric(1.0));
    assert_eq!(second.requests[1].messages[1].texts(), "GRADE: P");
    let never = run("judge", GRADED, &item(), |_| Ok(Completion::of("GRADE: P")));
    assert_eq!(never.requests.len(), 3);
    assert!(matches!(never.error(), EvalError::Upstream(text) if text.contains("malformed")));
}

#[test]
fn different_verdicts_are_retried_and_never_scored() {
    let reply = "At first GRADE: C.\nGRADE: I";
    let second = run("judge", GRADED, &item(), move |request| {
        let is_first = request.messages.len() == 1;
        Ok(Completion::of(if is_first { reply } else { "GRADE: I" }))
    });
    assert_eq!(second.score().value, ScoreValue::Numeric(0.0));
    let never = run("judge", GRADED, &item(), move |_| Ok(Completion::of(reply)));
    assert_eq!(never.requests.len(), 3);
    assert!(
        matches!(never.error(), EvalError::Upstream(text) if text.contains("several verdicts: C, I"))
    );
}

#[test]
fn a_truncated_reply_is_retried_once_with_twice_the_limit() {
    let cut = |text: &str| Completion {
        finish: FinishReason::Length,
        output_tokens: 30,
        ..Completion::of(text)
    };
    let limited = GRADED.replace("\"?\"", "\"?\",\"max_output_tokens\":20");
    let second = run("judge", &limited, &item(), move |request| {
        let is_first = request.max_output_tokens == Some(20);
        Ok(if is_first { cut("GRADE: C would be") } else { Completion::of("GRADE: I") })
    });
    assert_eq!(second.score().value, ScoreValue::Numeric(0.0));
    assert_eq!(second.requests[1].max_output_tokens, Some(40));
    assert_eq!(second.requests[1].messages.len(), 1);
    let never = run("judge", GRADED, &item(), move |_| Ok(cut("GRADE: C would be")));
    assert_eq!(never.requests.len(), 2);
    assert_eq!(never.requests[1].max_output_tokens, Some(60));
    assert!(matches!(never.error(), EvalError::Upstream(text) if text.contains("cut off")));
    let whole = run("judge", GRADED, &item(), move |_| Ok(cut("GRADE: C")));
    assert_eq!(whole.score().value, ScoreValue::Numeric(1.0));
}

#[test]
fn swapping_evaluates_both_orders_and_removes_the_advantage_of_a_position() {
    let config = r#"{"prompt":"First: {{output}} Second: {{expected_output}}","fence":false,
        "choice_scores":{"Yes":1,"No":0},"swap":["output","expected_output"]}"#;
    let item = item().expecting("Five.");
    let always_first =
        run("judge", config, &item, |_| Ok(structured(r#"{"reasons":"r","choice":"Yes"}"#)));
    assert!(always_first.requests[1].messages[0].texts().starts_with("First: Five. Second: Four."));
    assert_eq!(always_first.score().value, ScoreValue::Numeric(0.5));
    let prefers_four = run("judge", config, &item, |request| {
        let four_first = request.messages[0].texts().starts_with("First: Four.");
        Ok(structured(if four_first { r#"{"choice":"Yes"}"# } else { r#"{"choice":"No"}"# }))
    });
    assert_eq!(prefers_four.score().value, ScoreValue::Numeric(1.0));
    assert!(metadata(prefers_four.score(), "swapped").is_some());
}
