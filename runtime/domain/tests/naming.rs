//! The names under which scores are stored (evaluation.md 1.15).
#![expect(clippy::unwrap_used, reason = "in a test a failure here is the message")]

use perpend_domain::evaluation::{EvaluatorVersion, ScoreNaming};
use perpend_domain::ids::EvaluatorVersionId;
use perpend_domain::plugin::{Digest, EvaluatorInfo, Grants, ItemParts, ScoreDomain, ScoreSpec};
use perpend_domain::time::Timestamp;
use serde_json::json;

fn version(plugin: &str, evaluator: &str) -> EvaluatorVersion {
    EvaluatorVersion {
        id: EvaluatorVersionId::new("v").unwrap(),
        number: 1,
        plugin: Digest::of(b""),
        plugin_name: plugin.to_owned(),
        plugin_version: "1.0.0".to_owned(),
        plugin_evaluator: evaluator.to_owned(),
        config: json!({}),
        mapping: Vec::new(),
        grants: Grants::NONE,
        slots: Vec::new(),
        fingerprint: Digest::of(b""),
        created_at: Timestamp::parse("2026-01-01T00:00:00Z").unwrap(),
    }
}

fn info(scores: &[&str], dynamic_scores: bool) -> EvaluatorInfo {
    let scores = scores.iter().map(|name| ScoreSpec {
        name: (*name).to_owned(),
        description: String::new(),
        domain: ScoreDomain::Boolean,
    });
    EvaluatorInfo {
        id: "any".to_owned(),
        title: String::new(),
        description: String::new(),
        config_schema: "{}".to_owned(),
        needs: ItemParts::default(),
        slots: Vec::new(),
        scores: scores.collect(),
        dynamic_scores,
        deterministic: true,
    }
}

#[test]
fn a_judge_is_stored_under_its_own_name_and_its_questions_behind_it() {
    let dynamic = info(&[], true);
    let judge = ScoreNaming::of(&version("perpend/judge", "judge"), Some(&dynamic));
    assert_eq!(judge.stored("tone", "judge"), "tone");
    let questions = ScoreNaming::of(&version("perpend/judge", "questions"), Some(&dynamic));
    assert_eq!(questions.stored("tone", "polite"), "tone.polite");
    let other = ScoreNaming::of(&version("acme/judge", "judge"), Some(&dynamic));
    assert_eq!(other.stored("tone", "judge"), "tone.judge");
}

#[test]
fn one_declared_score_needs_no_name_of_its_own_and_source_text_names_its_scores() {
    let one = ScoreNaming::of(&version("acme/length", "length"), Some(&info(&["length"], false)));
    assert_eq!(one.stored("short", "length"), "short");
    let two = ScoreNaming::of(&version("acme/length", "length"), Some(&info(&["a", "b"], false)));
    assert_eq!(two.stored("short", "b"), "short.b");
    let source = ScoreNaming::of(&version("perpend/python", "code"), None);
    assert_eq!(source.stored("mine", "anything"), "anything");
}
