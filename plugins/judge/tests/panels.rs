//! Panels of several models and repeats.

use perpend_plugin::model::ModelError;
use perpend_plugin::{EvalError, Json, ScoreValue};
use serde_json::json;

use crate::support::{Run, item, metadata, run, structured};

fn config(panel: &serde_json::Value) -> String {
    json!({
        "prompt": "?",
        "output": { "dataType": "BOOLEAN", "score": {} },
        "panel": panel,
    })
    .to_string()
}

/// A panel in which the models in the slots `yes` answer true.
fn panel(panel: &serde_json::Value, yes: &'static [&'static str]) -> Run {
    run("judge", &config(panel), &item(), move |request| {
        let says = yes.contains(&request.slot.as_deref().unwrap());
        Ok(structured(&format!(r#"{{"reasoning":"because","score":{says}}}"#)))
    })
}

#[test]
fn each_model_gets_the_configured_number_of_requests_and_repeats_differ_by_their_seed() {
    let run = panel(&json!({ "models": 2, "repeats": 3 }), &["judge"]);
    let requests: Vec<_> = run
        .requests
        .iter()
        .map(|request| (request.slot.as_deref().unwrap(), request.seed))
        .collect();
    let of_one = |slot| [(slot, None), (slot, Some(8)), (slot, Some(9))];
    assert_eq!(requests, [of_one("judge"), of_one("judge-2")].concat());
}

#[test]
fn the_votes_are_in_the_comment_and_in_the_metadata() {
    let run = panel(&json!({ "models": 3, "reducer": "majority" }), &["judge", "judge-3"]);
    assert_eq!(run.score().value, ScoreValue::Boolean(true));
    let comment = run.score().comment.as_deref().unwrap();
    assert_eq!(comment, "judge: true (because)\njudge-2: false (because)\njudge-3: true (because)");
    let Some(Json::Array(votes)) = metadata(run.score(), "votes") else {
        unreachable!("{:?}", run.outcome)
    };
    let expected = r#"{"slot":"judge-2","repeat":0,"value":false,"model":"test"}"#;
    assert_eq!(votes[1].to_string(), expected);
    assert_eq!(metadata(run.score(), "reducer"), Some(&Json::from("majority")));
}

#[test]
fn a_tie_is_resolved_by_mode_and_has_no_majority() {
    let mode = panel(&json!({ "models": 2 }), &["judge-2"]);
    assert_eq!(mode.score().value, ScoreValue::Boolean(false));
    let majority = panel(&json!({ "models": 2, "reducer": "majority" }), &["judge-2"]);
    assert!(matches!(majority.error(), EvalError::NotApplicable(_)));
    let all = panel(&json!({ "models": 2, "reducer": "all" }), &["judge-2"]);
    assert_eq!(all.score().value, ScoreValue::Boolean(false));
}

fn with_failures(error: &ModelError, failing: &'static [&'static str]) -> Run {
    let error = error.clone();
    run("judge", &config(&json!({ "models": 3 })), &item(), move |request| {
        match failing.contains(&request.slot.as_deref().unwrap()) {
            true => Err(error.clone()),
            false => Ok(structured(r#"{"reasoning":"r","score":true}"#)),
        }
    })
}

#[test]
fn a_minority_may_refuse_and_is_listed() {
    let refused = ModelError::Refused("no".into());
    let run = with_failures(&refused, &["judge-2"]);
    assert_eq!(run.score().value, ScoreValue::Boolean(true));
    let votes = metadata(run.score(), "votes").unwrap().to_string();
    assert!(votes.contains(r#""slot":"judge-2","repeat":0,"error":"#), "{votes}");
    let most = with_failures(&refused, &["judge-2", "judge-3"]);
    assert!(matches!(most.error(), EvalError::Upstream(_)));
}

#[test]
fn a_transient_failure_ends_the_evaluation() {
    let run = with_failures(&ModelError::RateLimited("later".into()), &["judge-2"]);
    assert_eq!(run.error(), &EvalError::Upstream("later".into()));
}

#[test]
fn choices_of_a_panel_are_reduced_by_their_numbers() {
    let config = json!({
        "prompt": "?",
        "choice_scores": { "good": 1, "bad": 0 },
        "panel": { "models": 4, "reducer": "mean" },
    });
    let run = run("judge", &config.to_string(), &item(), |request| {
        let choice = if request.slot.as_deref() == Some("judge") { "bad" } else { "good" };
        Ok(structured(&format!(r#"{{"choice":"{choice}"}}"#)))
    });
    assert_eq!(run.score().value, ScoreValue::Numeric(0.75));
    assert_eq!(metadata(run.score(), "choice"), None, "no vote is the mean");
}
