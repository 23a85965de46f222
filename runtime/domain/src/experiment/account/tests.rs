//! The account adds up for any results.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::evaluation::Fingerprint;
use crate::experiment::{ExperimentRun, ItemScore};
use crate::ids::{EvaluatorVersionId, ExecutionId, RuleId, TraceId};
use crate::score::{ScoreOrigin, ScoreValue};
use crate::time::Timestamp;

fn evaluator(id: &str) -> EvaluatorId {
    EvaluatorId::new(id).unwrap()
}

fn score(name: &str, by: Option<&str>) -> ItemScore {
    ItemScore {
        name: name.to_owned(),
        value: ScoreValue::Numeric(1.0),
        comment: None,
        origin: by.map(|id| ScoreOrigin {
            execution_id: ExecutionId::new("x").unwrap(),
            evaluator_id: evaluator(id),
            evaluator_version_id: EvaluatorVersionId::new("v").unwrap(),
            rule_id: RuleId::new("r").unwrap(),
            fingerprint: Fingerprint::of(b"f"),
            inclusion_probability: 1.0,
            score_name: name.to_owned(),
        }),
    }
}

fn result(item: &str, n: usize) -> ItemResult {
    ItemResult {
        item_id: item.to_owned(),
        item_version: None,
        expected_output: None,
        trace_id: TraceId::new(&format!("trace {n}")).unwrap(),
        observation_id: None,
        start: Timestamp::from_millis(0),
        has_arrived: true,
        is_error: false,
        latency_ms: None,
        cost_usd: None,
        n_tokens: None,
        scores: Vec::new(),
    }
}

fn results(expected: Option<&[&str]>, items: Vec<ItemResult>) -> RunResults {
    RunResults {
        run: ExperimentRun {
            id: "run".to_owned(),
            name: "run".to_owned(),
            description: None,
            metadata: Value::Null,
            dataset_id: None,
            dataset_name: None,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        },
        expected_items: expected.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()),
        items,
        scores: Vec::new(),
    }
}

fn account(expected: Option<&[&str]>, items: Vec<ItemResult>) -> RunAccount {
    RunAccount::of(&results(expected, items), &ExpectedScores::default())
}

#[test]
fn each_expected_item_is_seen_or_missing_and_others_are_unexpected() {
    let failed = ItemResult { is_error: true, ..result("b", 1) };
    let account = account(Some(&["a", "b", "c"]), vec![result("a", 0), failed, result("x", 2)]);
    assert_eq!((account.n_expected, account.n_seen, account.n_failed), (Some(3), 3, 1));
    assert_eq!((account.n_missing, account.n_unexpected), (Some(1), Some(1)));
    assert_eq!(account.missing_items, ["c"]);
    assert_eq!(account.unexpected_items, ["x"]);
    assert!(!account.is_complete);
}

#[test]
fn a_run_with_all_items_is_complete_even_if_items_failed() {
    let failed = ItemResult { is_error: true, ..result("b", 1) };
    assert!(account(Some(&["a", "b"]), vec![result("a", 0), failed]).is_complete);
    assert!(account(None, vec![result("a", 0)]).is_complete);
}

#[test]
fn an_empty_run_is_complete_only_over_an_empty_dataset() {
    assert!(!account(None, Vec::new()).is_complete);
    assert!(!account(Some(&["a"]), Vec::new()).is_complete);
    assert!(account(Some(&[]), Vec::new()).is_complete);
}

#[test]
fn a_link_to_a_trace_that_has_not_arrived_is_pending_and_its_item_missing() {
    let pending = ItemResult { has_arrived: false, ..result("b", 1) };
    let account = account(Some(&["a", "b"]), vec![result("a", 0), pending]);
    assert_eq!((account.n_seen, account.n_results, account.n_pending_results), (1, 1, 1));
    assert_eq!(account.missing_items, ["b"]);
    assert!(!account.is_complete);
}

#[test]
fn repetitions_are_what_most_items_have_and_further_results_are_duplicates() {
    let of = |items: &[&str]| {
        let items = items.iter().enumerate();
        let account = account(None, items.map(|(n, item)| result(item, n)).collect());
        (account.repetitions, account.n_duplicate_results, account.n_missing_results)
    };
    assert_eq!(of(&["a", "b", "c", "c"]), (1, 1, 0));
    assert_eq!(of(&["a", "a", "b", "b"]), (2, 0, 0));
    assert_eq!(of(&["a", "a", "b", "b", "c"]), (2, 0, 1));
    assert_eq!(of(&["a", "a", "b"]), (1, 1, 0));
    assert_eq!(of(&[]), (0, 0, 0));
}

#[test]
fn a_result_without_a_score_is_missing_from_it_unless_it_failed() {
    let scored = ItemResult {
        scores: vec![score("s", Some("e")), score("s", Some("e")), score("t", None)],
        ..result("a", 0)
    };
    let failed = ItemResult { is_error: true, ..result("b", 1) };
    let run = results(None, vec![scored, failed, result("c", 2)]);
    let expected =
        ExpectedScores { evaluators: vec![evaluator("e"), evaluator("other")], names: Vec::new() };
    let account = RunAccount::of(&run, &expected);
    let scores = account.scores.iter().map(|s| (s.name.as_str(), s.n_scored, s.n_missing));
    assert_eq!(scores.collect::<Vec<_>>(), [("s", 1, 1), ("t", 1, 1)]);
    let evaluators = account.evaluators.iter();
    let evaluators = evaluators.map(|e| (e.evaluator_id.as_str(), e.n_scored, e.n_missing));
    assert_eq!(evaluators.collect::<Vec<_>>(), [("e", 1, 1), ("other", 0, 2)]);
    assert!(!account.is_complete, "an expected evaluator has not scored a result");
    assert!(RunAccount::of(&run, &ExpectedScores::default()).is_complete);
    let by_name = ExpectedScores { names: vec!["s".to_owned()], ..ExpectedScores::default() };
    assert!(!RunAccount::of(&run, &by_name).is_complete, "an expected score is missing");
}

fn any_result() -> impl Strategy<Value = ItemResult> {
    let scores = vec((0..3_u8, prop::option::of(0..2_u8)), 0..4);
    (0..6_u8, 0..9_usize, any::<bool>(), any::<bool>(), scores).prop_map(
        |(item, n, has_arrived, is_error, scores)| ItemResult {
            has_arrived,
            is_error,
            scores: scores
                .into_iter()
                .map(|(name, by)| {
                    let by = by.map(|by| format!("e{by}"));
                    score(&format!("s{name}"), by.as_deref())
                })
                .collect(),
            ..result(&format!("i{item}"), n)
        },
    )
}

proptest! {
    #[test]
    fn the_account_adds_up(
        items in vec(any_result(), 0..30),
        expected in prop::option::of(vec(0..6_u8, 0..8)),
        evaluators in vec(0..3_u8, 0..3),
    ) {
        let mut run = results(None, items);
        run.expected_items =
            expected.map(|ids| ids.into_iter().map(|id| format!("i{id}")).collect());
        let expected = ExpectedScores {
            evaluators: evaluators.iter().map(|id| evaluator(&format!("e{id}"))).collect(),
            names: Vec::new(),
        };
        let account = RunAccount::of(&run, &expected);
        prop_assert_eq!(account.n_results + account.n_pending_results, run.items.len() as u64);
        prop_assert!(account.n_failed <= account.n_seen && account.n_seen <= account.n_results);
        if let (Some(n_expected), Some(n_missing), Some(n_unexpected)) =
            (account.n_expected, account.n_missing, account.n_unexpected)
        {
            prop_assert_eq!(n_expected - n_missing + n_unexpected, account.n_seen);
        }
        prop_assert_eq!(
            account.repetitions * account.n_seen + account.n_duplicate_results,
            account.n_results + account.n_missing_results
        );
        let failed = run.items.iter().filter(|item| item.has_arrived && item.is_error);
        let n_failed_results = failed.count() as u64;
        for (n_scored, n_missing) in account
            .scores
            .iter()
            .map(|count| (count.n_scored, count.n_missing))
            .chain(account.evaluators.iter().map(|count| (count.n_scored, count.n_missing)))
        {
            let sum = n_scored + n_missing;
            prop_assert!(account.n_results <= sum + n_failed_results && sum <= account.n_results);
        }
        if account.is_complete {
            prop_assert!(account.missing_items.is_empty() && account.n_pending_results == 0);
        }
        run.items.reverse();
        prop_assert_eq!(RunAccount::of(&run, &expected), account, "the order does not matter");
    }
}
